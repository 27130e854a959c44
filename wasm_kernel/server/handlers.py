"""The requests: a file (GET, HEAD, PUT, POST, DELETE), a zip of several, a page of a folder.

Paths are bytes, percent-encoded in URLs, and checked only after they were decoded (`host.folder`). What touches the
disk runs on threads, a block at a time: a client that is slow, or gone, holds no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import ensure_async
from tornado import web
from tornado.iostream import StreamClosedError

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import ledger
from wasm_kernel.host.folder import BLOCK, Folder, Item, NewFile, PathRefused, components
from wasm_kernel.model import limits
from wasm_kernel.model.names import key_of, text_of
from wasm_kernel.model.records import is_session_id
from wasm_kernel.server import problems
from wasm_kernel.server.headers import (
    BINARY,
    RangeNotSatisfiable,
    byte_range,
    content_disposition,
    etag,
    http_date,
    inline_type,
)
from wasm_kernel.server.listing import MAX_LIMIT, SORTS, Query, entry, page
from wasm_kernel.server.problems import Problem, as_problems
from wasm_kernel.server.room import Quota, measure
from wasm_kernel.sessions import zipping

if TYPE_CHECKING:
    from wasm_kernel.server.extension import WasmKernelExtension

_MAX_BODY = 1 << 16  # of requests that need none
_READ_ON = 16 << 20  # bytes of a refused upload that are read, and thrown away
_NO_LIMIT = 1 << 60  # uploads: the quota is the limit, not the server's for what it keeps in memory
_TRUE, _FALSE = ("1", "true", "yes"), ("0", "false", "no", "")


class SessionHandler(ExtensionHandlerMixin, APIHandler):
    """What all requests share: who may, which session, answers that no browser runs."""

    auth_resource = "wasm_kernel"
    content_type = "application/json"

    @property
    def ours(self) -> WasmKernelExtension:
        """The extension."""
        return cast("WasmKernelExtension", self.extensionapp)

    @property
    def content_security_policy(self) -> str:
        """Whatever a file holds, nothing in it runs."""
        return "sandbox; default-src 'none'; frame-ancestors 'self'"

    def set_default_headers(self) -> None:
        """On every answer, errors too."""
        super().set_default_headers()
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", self.content_security_policy)
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def finish(self, *args: Any, **kwargs: Any) -> Any:
        """As APIHandler, which takes every answer for JSON."""
        return super().finish(*args, **{"set_content_type": self.content_type, **kwargs})

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Errors are problem documents."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        for name, value in error.headers.items() if isinstance(error, Problem) else ():
            self.set_header(name, value)
        self.content_type = problems.MEDIA_TYPE
        self.finish(json.dumps(problems.document(status_code, error)))

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """File names are bytes; those that are no UTF-8 come through, too."""
        return value.decode("utf-8", "surrogateescape")

    # ---- what was asked for

    def arguments(self, name: str) -> list[str]:
        """Query arguments as they are; tornado would strip them and take out control characters."""
        return [self.decode_argument(value) for value in self.request.query_arguments.get(name, [])]

    def argument(self, name: str, default: str = "") -> str:
        """The last one given."""
        return (self.arguments(name) or [default])[-1]

    def flag(self, name: str) -> bool:
        """A yes or no; no if it is not given."""
        value = self.argument(name).lower()
        if value not in _TRUE + _FALSE:
            raise Problem(400, f"{name} is {value[:40]!r}; it must be 0 or 1")
        return value in _TRUE

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number."""
        value = self.argument(name, str(default))
        if not (value.isascii() and value.isdigit() and len(value) <= 15 and int(value) <= most):
            raise Problem(400, f"{name} is {value[:40]!r}; it must be a whole number from 0 to {most}")
        return int(value)

    def checked(self, path: str) -> str:
        """A path whose text could be one of the workspace's, or empty for all of it; opening it tells more."""
        try:
            return "/".join(components(path or ".", backslashes=True))
        except PathRefused as e:
            self.log.warning("wasm_kernel: refused: %s", e)
            raise Problem(400, str(e)) from None

    def named(self, path: str) -> str:
        """The same, of something in the workspace."""
        found = self.checked(path)
        if not found:
            raise Problem(400, f"path is {path!r}; it must name something in the workspace")
        return found

    def session_path(self, session_id: str) -> Path:
        """A session's folder, if there could be one of that name."""
        if not is_session_id(session_id):
            raise Problem(404, f"there is no session {session_id[:140]!r}")
        return self.ours.root / session_id

    def open_folder(self, session_id: str) -> Folder:
        """A session's files. Blocks, as everything that is done with them."""
        try:
            return Folder(self.session_path(session_id), backslashes=True)
        except OSError:
            raise Problem(404, f"there is no session {session_id}") from None

    def measured(self, session_id: str) -> Quota:
        """What a session has and may have: by the limits of the kernel that uses it, else by those of the settings."""
        policy, told = self.ours.policy, ledger.told(self.ours.root, session_id).get("limits")
        with contextlib.suppress(ConfigurationError, AttributeError):
            policy = limits.changed(policy, told or {})
        return measure(self.session_path(session_id), policy)

    # ---- answering

    def cut_off(self) -> None:
        """End an answer that cannot be completed, so that nobody takes it for a whole one."""
        stream = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.close()


@web.stream_request_body
class FileHandler(SessionHandler):
    """One file or folder."""

    _upload: NewFile | None = None
    _etag: str | None = None
    _promised = 0
    _replaces: int | None = None
    _refused: Problem | None = None
    _unread = 0  # bytes of a refused upload that are still taken

    def initialize(self, name: str) -> None:
        """For each request."""
        super().initialize(name)
        self._buffer = bytearray()
        self._disk = asyncio.Lock()  # a client may go away while a thread still writes

    async def prepare(self) -> None:  # type: ignore[override]
        """Before the body is read: who is it, and is there room?"""
        await super().prepare()
        connection = cast(Any, self.request.connection)
        if self.request.method != "PUT":
            connection.set_max_body_size(_MAX_BODY)
            return
        if not self.current_user:
            raise Problem(403, "uploading needs the server's token, or a login")
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "write", self.auth_resource)):
            raise Problem(403, f"User is not authorized to write on resource: {self.auth_resource}.")
        connection.set_max_body_size(_NO_LIMIT)
        try:
            await self._begin(*self.path_args)
        except Problem as e:
            self._refuse(e)

    def compute_etag(self) -> str | None:
        """The file's version, not a hash of the answer."""
        return self._etag

    # ---- reading

    @web.authenticated
    @authorized
    async def head(self, session_id: str, path: str) -> None:
        """What GET would say of it."""
        await self._send(session_id, path)

    @web.authenticated
    @authorized
    async def get(self, session_id: str, path: str) -> None:
        """The file, or a part of it. ``inline=1``: to be shown, if it is of a kind that can do no harm."""
        await self._send(session_id, path)

    async def _send(self, session_id: str, path: str) -> None:
        path = self.named(path)
        with as_problems():
            file = await self.ours.in_thread(self._open, session_id, path)
        try:
            span = self._describe(path, os.fstat(file.fileno()))
            if span is not None and self.request.method == "GET":
                await self._stream(file, *span)
        finally:
            await self.ours.in_thread(file.close)

    def _open(self, session_id: str, path: str) -> IO[bytes]:
        with self.open_folder(session_id) as folder:
            return folder.open(path)

    def _describe(self, path: str, info: os.stat_result) -> tuple[int, int] | None:
        """Set status and headers; which bytes to send, None if none."""
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
            await self.ours.in_thread(file.seek, start)
            while start < end:
                block = await self.ours.in_thread(file.read, min(BLOCK, end - start))
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

    # ---- writing

    async def _begin(self, session_id: str, path: str) -> None:
        """Refuse an upload, or make its file."""
        path = self.named(path)
        overwrite, length = self.flag("overwrite"), self._content_length()
        with as_problems():
            quota, disk, self._replaces = await self.ours.in_thread(self._room, session_id, path, overwrite)
        free = quota.free - self.ours.reservations.of(session_id) + (self._replaces or 0)
        if quota.entries >= quota.max_entries and self._replaces is None:
            raise Problem(413, f"the session has {quota.entries:,} files and folders, as many as it may have")
        if length is not None and length > quota.max_file:
            raise Problem(413, f"the file has {length:,} bytes; one may have {quota.max_file:,}", limit=quota.max_file)
        if length is not None and length > free:
            raise self._too_large(length, free, quota)
        if length is not None and length > disk:
            raise Problem(507, f"the file has {length:,} bytes; the server's disk has room for {disk:,}")
        self._left, self._length = min(free, disk, quota.max_file), length
        self._promise(session_id, length or 0)
        try:
            with as_problems():
                self._upload = await self.ours.in_thread(self._create, session_id, path, overwrite)
        except BaseException:
            await self._discard()
            raise

    def _content_length(self) -> int | None:
        value = self.request.headers.get("Content-Length")
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise Problem(400, "Content-Length is not a whole number")
        return int(value)

    def _room(self, session_id: str, path: str, overwrite: bool) -> tuple[Quota, int, int | None]:
        """What the session may still have, what the disk has, and the size of the file that would be replaced."""
        replaces = None
        with self.open_folder(session_id) as top:
            try:
                with top.open(path) as file:
                    replaces = os.fstat(file.fileno()).st_size
            except (FileNotFoundError, NotADirectoryError, PathRefused):
                pass  # creating it says what is wrong
        if replaces is not None and not overwrite:
            raise Problem(409, f"there is a file {path!r} already; overwrite=1 replaces it")
        disk = os.statvfs(self.session_path(session_id))
        return self.measured(session_id), disk.f_bavail * disk.f_frsize, replaces

    def _create(self, session_id: str, path: str, overwrite: bool) -> NewFile:
        with self.open_folder(session_id) as folder:
            return folder.create(path, overwrite=overwrite)

    def _too_large(self, length: int, free: int, quota: Quota) -> Problem:
        free = max(0, free)
        text = f"the file has {length:,} bytes; the session has room for {free:,}. Delete something first"
        if quota.used is None:
            text = "how much the session uses cannot be told, because its folders are too deep: nothing can be added"
        return Problem(413, text, needed=length, free=free, used=quota.used, limit=quota.limit)

    def _promise(self, session_id: str, more: int) -> None:
        self._promised += more
        self.ours.reservations.change(session_id, more)

    def _refuse(self, problem: Problem) -> None:
        """Answer that an upload is refused: now, or, if there is little more of it, when it has all come.

        Who still sends when the connection is closed does not get to read why.
        """
        length = self._content_length()
        self._refused, self._unread = problem, _READ_ON
        if length is not None and length > _READ_ON:
            raise problem

    async def data_received(self, chunk: bytes) -> None:
        """A part of the body."""
        if self._refused is not None:
            self._unread -= len(chunk)
            if self._unread < 0 and not self._finished:
                self.send_error(self._refused.status_code, exc_info=(Problem, self._refused, None))
            return
        if self._upload is None:
            return
        self._buffer += chunk
        self._left -= len(chunk)
        if self._length is None:
            self._promise(self.path_args[0], len(chunk))
        try:
            with as_problems():
                if self._left < 0:
                    raise Problem(413, "the session, or the server's disk, has no room for more, or for one so large")
                if len(self._buffer) >= BLOCK:
                    await self._write()
        except Problem as e:
            await self._discard()
            self._refused, self._unread = e, _READ_ON
        except Exception as e:  # noqa: BLE001 - tornado would end the connection without an answer
            await self._discard()
            self.log_exception(type(e), e, e.__traceback__)
            self.send_error(e.status_code if isinstance(e, web.HTTPError) else 500, exc_info=(type(e), e, None))

    async def _write(self) -> None:
        async with self._disk:
            if self._upload is not None:
                block, self._buffer = self._buffer, bytearray()
                await self.ours.in_thread(self._upload.write, block)

    async def _discard(self) -> None:
        self._promise(self.path_args[0], -self._promised)
        async with self._disk:
            upload, self._upload = self._upload, None
            if upload is not None:
                await self.ours.in_thread(upload.discard)

    def on_connection_close(self) -> None:
        """The client went away."""
        super().on_connection_close()
        self._forget_upload()

    def on_finish(self) -> None:
        """However it ended."""
        super().on_finish()
        self._forget_upload()

    def _forget_upload(self) -> None:
        if self._upload is not None:
            task = asyncio.get_running_loop().create_task(self._discard())
            _discarding.add(task)
            task.add_done_callback(_discarding.discard)

    @web.authenticated
    @authorized
    async def put(self, session_id: str, path: str) -> None:
        """Put a file there, all of it or nothing; the body was received. ``overwrite=1``: also where there is one."""
        if self._refused is not None:
            raise self._refused
        upload = self._upload
        if upload is None:
            return
        try:
            with as_problems():
                await self._write()
                async with self._disk:
                    info = await self.ours.in_thread(upload.finish)
                    self._upload = None
        except BaseException:
            await self._discard()
            raise
        path = self.named(path)
        self._promise(session_id, -self._promised)
        self.set_status(201 if self._replaces is None else 200)
        self.finish(json.dumps(entry(Item(path, "file", info.st_size, info.st_mtime_ns), path)))

    @web.authenticated
    @authorized
    async def post(self, session_id: str, path: str) -> None:
        """``mkdir=1`` makes a folder, ``move_to=PATH`` gives another name."""
        path, target = self.named(path), self.argument("move_to")
        if self.flag("mkdir") == bool(target):
            raise Problem(400, "say either mkdir=1 or move_to=PATH")
        if target:
            target = self.named(target)
        with as_problems():
            await self.ours.in_thread(self._change, session_id, path, target)
        self.set_status(200 if target else 201)
        self.finish(json.dumps({"path": text_of(target or path), "key": key_of(target or path)}))

    def _change(self, session_id: str, path: str, target: str) -> None:
        with self.open_folder(session_id) as folder:
            if target:
                folder.move(path, target)
                return
            quota = self.measured(session_id)
            if quota.entries >= quota.max_entries:
                raise Problem(413, f"the session has {quota.entries:,} files and folders, as many as it may have")
            folder.make_folder(path, exist_ok=False)

    @web.authenticated
    @authorized
    async def delete(self, session_id: str, path: str) -> None:
        """Delete a file, a link or an empty folder; a full one with ``recursive=1``."""
        path, recursive = self.named(path), self.flag("recursive")
        with as_problems():
            await self.ours.in_thread(self._delete, session_id, path, recursive)
        self.set_status(204)
        self.finish()

    def _delete(self, session_id: str, path: str, recursive: bool) -> None:
        with self.open_folder(session_id) as folder:
            folder.remove(path, recursive=recursive)


_discarding: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly


class ArchiveHandler(SessionHandler):
    """Several files and folders as a zip."""

    @web.authenticated
    @authorized
    async def head(self, session_id: str) -> None:
        """Whether GET would work."""
        await self._send(session_id)

    @web.authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """The zip, made while it is sent. ``path`` as often as needed; without, everything. ``name``: the zip's."""
        await self._send(session_id)

    async def _send(self, session_id: str) -> None:
        selection = list(dict.fromkeys(self.checked(path) for path in self.arguments("path")))
        if "" in selection:
            selection = []
        with as_problems():
            await self.ours.in_thread(self._check, session_id, selection)
        self.content_type = "application/zip"
        self.set_header("Content-Type", self.content_type)
        self.set_header("Content-Disposition", content_disposition(self._name(session_id, selection)))
        if self.request.method == "HEAD":
            return
        blocks = self._blocks(session_id, selection)
        sent = False
        try:
            with as_problems():
                while (block := await self.ours.in_thread(next, blocks, None)) is not None:
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
            await self.ours.in_thread(cast(Any, blocks).close)

    def _name(self, session_id: str, selection: list[str]) -> str:
        name = self.argument("name") or (selection[0].rpartition("/")[2] if len(selection) == 1 else "files")
        return name if name.lower().endswith(".zip") else f"{name}.zip"

    def _check(self, session_id: str, selection: list[str]) -> None:
        with self.open_folder(session_id) as folder:
            zipping.check(folder, selection, self.ours.bounds)

    def _blocks(self, session_id: str, selection: list[str]) -> Iterator[bytes]:
        with self.open_folder(session_id) as folder:
            yield from zipping.zip_blocks(folder, selection, self.ours.bounds)


class ListHandler(SessionHandler):
    """A folder."""

    @web.authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """A page of what is in a folder, and how much room there is."""
        path = self.checked(self.argument("path"))
        query = Query(
            sort=self.argument("sort", "name"),
            descending=self.argument("order", "asc") == "desc",
            filter=self.argument("filter")[:255],
            offset=self.number("offset", 0, 10**9),
            limit=self.number("limit", 1000, MAX_LIMIT),
        )
        if query.sort not in SORTS:
            raise Problem(400, f"sort is {query.sort[:40]!r}; it must be one of {', '.join(SORTS)}")
        with as_problems():
            body = await self.ours.in_thread(self._body, session_id, path, query)
        self.finish(body)

    def _body(self, session_id: str, path: str, query: Query) -> str:
        with self.open_folder(session_id) as top:
            if path:
                with top.enter(path) as folder:
                    items, total = page(folder.items(recursive=False), query)
            else:
                items, total = page(top.items(recursive=False), query)
        quota = self.measured(session_id)
        above = f"{path}/" if path else ""
        return json.dumps(
            {
                "path": text_of(path),
                "key": key_of(path),
                "total": total,
                "offset": query.offset,
                "limit": query.limit,
                "entries": [entry(item, above + item.path) for item in items],
                "quota": {
                    "used": quota.used,
                    "limit": quota.limit,
                    "entries": quota.entries,
                    "max_entries": quota.max_entries,
                    "max_file": quota.max_file,
                },
                "archive": {"max_bytes": self.ours.bounds.max_bytes, "max_files": self.ours.bounds.max_files},
            }
        )
