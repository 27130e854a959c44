"""Send a file to a client: all of it, a part, or word that it has not changed.

The file is read on threads, a block at a time: a client that is slow, or gone, holds no thread.
"""

from __future__ import annotations

import json
import os
from email.utils import parsedate_to_datetime
from typing import IO

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from wasm_kernel.host.files.folder import BLOCK, Item
from wasm_kernel.server.files.headers import (
    BINARY,
    RangeNotSatisfiable,
    byte_range,
    content_disposition,
    etag,
    http_date,
    inline_type,
)
from wasm_kernel.server.files.listing import entry
from wasm_kernel.server.files.session_handler import SessionHandler
from wasm_kernel.server.problems import Problem, as_problems


class DownloadHandler(SessionHandler):
    """GET and HEAD of a file."""

    _etag: str | None = None

    def compute_etag(self) -> str | None:
        """The file's version, not a hash of the answer."""
        return self._etag

    @web.authenticated
    @authorized
    async def head(self, session_id: str, path: str) -> None:
        """The headers that GET would send."""
        await self._send(session_id, path)

    @web.authenticated
    @authorized
    async def get(self, session_id: str, path: str) -> None:
        """The file, or a part of it. ``inline=1``: to be shown, if its type is harmless.

        ``about=1``: not its bytes, but what a listing says of it, or of a folder.
        """
        if self.flag("about"):
            path = self.named(path)
            with as_problems():
                item = await self.files.in_thread(self._look, session_id, path)
            self.finish(json.dumps(entry(item, path)))
        else:
            await self._send(session_id, path)

    def _look(self, session_id: str, path: str) -> Item:
        with self.files.open(session_id) as folder:
            return folder.look(path)

    async def _send(self, session_id: str, path: str) -> None:
        path = self.named(path)
        with as_problems():
            file = await self.files.in_thread(self._open, session_id, path)
        try:
            span = self._describe(path, os.fstat(file.fileno()))
            if span is not None and self.request.method == "GET":
                await self._stream(file, *span)
        finally:
            await self.files.in_thread(file.close)

    def _open(self, session_id: str, path: str) -> IO[bytes]:
        with self.files.open(session_id) as folder:
            return folder.open(path)

    def _describe(self, path: str, info: os.stat_result) -> tuple[int, int] | None:
        """Set status and headers; return which bytes to send, None if none."""
        name = path.rpartition("/")[2]
        shown = inline_type(name) if self.flag("inline") else None
        self._etag = etag(info)
        self.set_etag_header()
        modified = http_date(info.st_mtime)
        if modified is not None:
            self.set_header("Last-Modified", modified)
        self.set_header("Accept-Ranges", "bytes")
        self.content_type = shown or BINARY
        self.set_header("Content-Type", self.content_type)
        self.set_header("Content-Disposition", content_disposition(name, inline=shown is not None))
        if self._is_known(info):
            self.set_status(304)
            return None
        condition = self.request.headers.get("If-Range")
        wanted = self.request.headers.get("Range") if condition in (None, self._etag) else None
        try:
            span = byte_range(wanted, info.st_size)
        except RangeNotSatisfiable as e:
            raise Problem(416, str(e), headers={"Content-Range": f"bytes */{info.st_size}"}) from None
        if span is not None:
            self.set_status(206)
            self.set_header("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{info.st_size}")
        start, end = span or (0, info.st_size)
        self.set_header("Content-Length", str(end - start))
        return start, end

    def _is_known(self, info: os.stat_result) -> bool:
        if "If-None-Match" in self.request.headers:
            return self.check_etag_header()
        try:
            since = parsedate_to_datetime(self.request.headers.get("If-Modified-Since", ""))
            return int(info.st_mtime) <= since.timestamp()
        except (ValueError, TypeError, OverflowError):
            return False

    async def _stream(self, file: IO[bytes], start: int, end: int) -> None:
        try:
            await self.files.in_thread(file.seek, start)
            while start < end:
                block = await self.files.in_thread(file.read, min(BLOCK, end - start))
                if not block:  # the guest made it shorter
                    self.cut_off()
                    return
                start += len(block)
                self.write(block)
                await self.flush()
        except StreamClosedError:
            return
        except OSError as e:
            self.log.warning("wasm_kernel: a download ended early: %s", e)
            self.cut_off()
