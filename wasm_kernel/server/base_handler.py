"""What every request to the extension shares: answers that no browser runs, and errors as problem documents."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin

from wasm_kernel.server import problems
from wasm_kernel.server.problems import Problem


class BaseHandler(ExtensionHandlerMixin, APIHandler):
    """A request, authorised by Jupyter Server for the resource ``wasm_kernel``."""

    auth_resource = "wasm_kernel"
    content_type = "application/json"

    @property
    def content_security_policy(self) -> str:
        """Nothing in a file may run, whatever it holds."""
        return "sandbox; default-src 'none'; frame-ancestors 'self'"

    def set_default_headers(self) -> None:
        """Set headers on every answer, errors included."""
        super().set_default_headers()
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", self.content_security_policy)
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def finish(self, *args: Any, **kwargs: Any) -> Any:
        """Keep our content type; APIHandler would call every answer JSON."""
        return super().finish(*args, **{"set_content_type": self.content_type, **kwargs})

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer errors with problem documents."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        for name, value in error.headers.items() if isinstance(error, Problem) else ():
            self.set_header(name, value)
        self.content_type = problems.MEDIA_TYPE
        self.finish(json.dumps(problems.document(status_code, error)))

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """File names are bytes; those that are not UTF-8 come through too."""
        return value.decode("utf-8", "surrogateescape")

    def arguments(self, name: str) -> list[str]:
        """Query arguments as sent; tornado would strip them and remove control characters."""
        return [self.decode_argument(value) for value in self.request.query_arguments.get(name, [])]

    def argument(self, name: str, default: str = "") -> str:
        """A query argument; the last one, if given several times."""
        return (self.arguments(name) or [default])[-1]
