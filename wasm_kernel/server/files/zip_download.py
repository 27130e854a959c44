"""Several files and folders of a session as one zip, made while it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from wasm_kernel.server.files.headers import content_disposition
from wasm_kernel.server.files.session_handler import SessionHandler
from wasm_kernel.server.problems import as_problems
from wasm_kernel.sessions import zip_stream


class ZipHandler(SessionHandler):
    """Several files and folders as a zip."""

    @web.authenticated
    @authorized
    async def head(self, session_id: str) -> None:
        """Whether GET would work."""
        await self._send(session_id)

    @web.authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """The zip, made while it is sent. ``path``: any number; none means everything. ``name``: the zip's."""
        await self._send(session_id)

    async def _send(self, session_id: str) -> None:
        selection = list(dict.fromkeys(self.checked(path) for path in self.arguments("path")))
        if "" in selection:
            selection = []
        with as_problems():
            await self.files.in_thread(self._check, session_id, selection)
        self.content_type = "application/zip"
        self.set_header("Content-Type", self.content_type)
        self.set_header("Content-Disposition", content_disposition(self._name(selection)))
        if self.request.method == "HEAD":
            return
        blocks = self._blocks(session_id, selection)
        sent = False
        try:
            with as_problems():
                while (block := await self.files.in_thread(next, blocks, None)) is not None:
                    self.write(block)
                    sent = True
                    await self.flush()
        except StreamClosedError:
            return
        except (OSError, ValueError, web.HTTPError) as e:
            if not sent:
                raise
            self.log.warning("wasm_kernel: a zip ended early: %s", e)
            self.cut_off()
        finally:
            await self.files.in_thread(cast(Any, blocks).close)

    def _name(self, selection: list[str]) -> str:
        name = self.argument("name") or (selection[0].rpartition("/")[2] if len(selection) == 1 else "files")
        return name if name.lower().endswith(".zip") else f"{name}.zip"

    def _check(self, session_id: str, selection: list[str]) -> None:
        with self.files.open(session_id) as folder:
            zip_stream.check(folder, selection, self.files.bounds)

    def _blocks(self, session_id: str, selection: list[str]) -> Iterator[bytes]:
        with self.files.open(session_id) as folder:
            yield from zip_stream.zip_blocks(folder, selection, self.files.bounds)
