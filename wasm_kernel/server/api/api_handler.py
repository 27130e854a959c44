"""What all requests to the API share: checked by the OpenAPI document, answered in JSON, refused in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tornado import web

from wasm_kernel.errors import ConfigurationError, NotAllowed, SessionLocked, WasmKernelError
from wasm_kernel.server.api.api_service import ApiService
from wasm_kernel.server.api.openapi import BASE
from wasm_kernel.server.api.values import as_json, holder
from wasm_kernel.server.base_handler import BaseHandler
from wasm_kernel.server.problems import Problem, as_problems

_METHODS = ("get", "post", "put", "patch", "delete")


class ApiHandler(BaseHandler):
    """A request to the API."""

    def initialize(self, name: str, api: ApiService) -> None:
        """Called for each request."""
        super().initialize(name)
        self.api = api

    async def prepare(self) -> None:  # type: ignore[override]
        """Load the document with the first request."""
        await super().prepare()
        await self.api.load_document()

    def compute_etag(self) -> None:
        """Send no ETag: no answer is the same twice."""

    def query(self, operation: str) -> dict[str, Any]:
        """The query arguments, checked."""
        given = {name: self.arguments(name) for name in self.request.query_arguments}
        return self.api.operations[operation].query(given)

    def body(self, operation: str) -> dict[str, Any]:
        """The body, checked."""
        return self.api.operations[operation].body(self.request.headers.get("Content-Type", ""), self.request.body)

    def answer(self, value: Any, status: int = 200, *, location: str = "") -> None:
        """Answer in JSON; bytes are JSON already."""
        self.set_status(status)
        if location:
            self.set_header("Location", f"{self.base_url.rstrip('/')}{BASE}/{location}")
        self.finish(value if isinstance(value, bytes) else as_json(value))

    def answer_nothing(self) -> None:
        """Answer that it is done, with no content."""
        self.set_status(204)
        self.finish()

    @contextlib.contextmanager
    def answering(self, sandbox_id: str = "") -> Iterator[None]:
        """Turn errors of sandboxes and snapshots into answers."""
        try:
            with as_problems():
                yield
        except FileNotFoundError as e:  # those with an errno are answers already
            raise Problem(404, str(e).partition(";")[0]) from None
        except SessionLocked as e:
            raise _in_use(self.api.root, sandbox_id) if sandbox_id else Problem(409, str(e)) from None
        except NotAllowed as e:
            raise Problem(403, str(e)) from None
        except ConfigurationError as e:
            raise Problem(409, str(e)) from None
        except WasmKernelError as e:
            self.log.warning("wasm_kernel: %s", e)
            raise Problem(409, str(e)) from None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer errors with problem documents; a wrong method is answered with the right ones."""
        if status_code == 405:
            there = [m for m in _METHODS if getattr(type(self), m) is not getattr(web.RequestHandler, m)]
            self.set_header("Allow", ", ".join(m.upper() for m in [*there, "options"]))
        super().write_error(status_code, **kwargs)


def _in_use(root: Path, sandbox_id: str) -> Problem:
    who = holder(root, sandbox_id)
    told = f"process {who['pid']} since {who['since']}" if who["pid"] is not None else "another process"
    text = f"sandbox {sandbox_id} is in use by {told}; shut down its notebook's kernel, or wait for it"
    return Problem(409, text, holder=who)
