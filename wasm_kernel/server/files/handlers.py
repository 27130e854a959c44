"""The request handlers for a session's files: one file or folder, a page of a folder; and their routes.

Paths are bytes, percent-encoded in URLs, and checked only after they were decoded (`host.files.folder`).
"""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ensure_async
from tornado import web

from wasm_kernel.host.files.folder import Item
from wasm_kernel.model.names import key_of, text_of
from wasm_kernel.server.files.copying import copy
from wasm_kernel.server.files.download import DownloadHandler
from wasm_kernel.server.files.listing import MAX_LIMIT, SORTS, Query, behind_links, entry, page
from wasm_kernel.server.files.session_handler import SessionHandler
from wasm_kernel.server.files.upload import Upload
from wasm_kernel.server.files.upload_page import UploadPageHandler
from wasm_kernel.server.files.zip_download import ZipHandler
from wasm_kernel.server.problems import Problem, as_problems

_MAX_BODY = 1 << 16  # for requests that need none
_READ_ON = 16 << 20  # bytes of a refused upload that are read, and thrown away
_NO_LIMIT = 1 << 60  # for uploads: the quota bounds them, not the server's limit for what it keeps in memory


@web.stream_request_body
class FileHandler(DownloadHandler):
    """One file or folder: read, write, create, move, delete."""

    _upload: Upload | None = None
    _refused: Problem | None = None
    _unread = 0  # bytes of a refused upload still to be read

    async def prepare(self) -> None:  # type: ignore[override]
        """Before the body is read, check who asks, and whether there is room."""
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
            self._upload = None
            self._refuse(e)

    # ---- uploads

    async def _begin(self, session_id: str, path: str) -> None:
        """Refuse an upload, or make its file."""
        self.files.check_settings()
        path, overwrite, length = self.named(path), self.flag("overwrite"), self._content_length()
        self._upload = Upload(self.files, session_id, path, overwrite=overwrite, length=length)
        await self._upload.begin()

    def _content_length(self) -> int | None:
        value = self.request.headers.get("Content-Length")
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise Problem(400, "Content-Length is not a whole number")
        return int(value)

    def _refuse(self, problem: Problem) -> None:
        """Answer that an upload is refused: at once, or, if little of it is left, when all of it has come.

        A client that is still sending when the connection closes never reads why.
        """
        length = self._content_length()
        self._refused, self._unread = problem, _READ_ON
        if length is not None and length > _READ_ON:
            raise problem

    async def data_received(self, chunk: bytes) -> None:
        """Take a part of the body."""
        if self._refused is not None:
            self._unread -= len(chunk)
            if self._unread < 0 and not self._finished:
                self.send_error(self._refused.status_code, exc_info=(Problem, self._refused, None))
            return
        if self._upload is None:
            return
        try:
            await self._upload.receive(chunk)
        except Problem as e:
            await self._discard()
            self._refused, self._unread = e, _READ_ON
        except Exception as e:  # noqa: BLE001 - tornado would end the connection without an answer
            await self._discard()
            self.log_exception(type(e), e, e.__traceback__)
            self.send_error(e.status_code if isinstance(e, web.HTTPError) else 500, exc_info=(type(e), e, None))

    async def _discard(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            await upload.discard()

    def on_connection_close(self) -> None:
        """Called when the client has gone."""
        super().on_connection_close()
        self._forget_upload()

    def on_finish(self) -> None:
        """Called when the request has ended, however it did."""
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
        """Write a file, all of it or nothing; the body was received. ``overwrite=1``: replace an existing one."""
        if self._refused is not None:
            raise self._refused
        upload = self._upload
        if upload is None:
            return
        try:
            info = await upload.finish()
        except BaseException:
            await self._discard()
            raise
        self._upload = None
        if info is None:
            return
        path = self.named(path)
        self.set_status(200 if upload.replaces else 201)
        self.finish(json.dumps(entry(Item(path, "file", info.st_size, info.st_mtime_ns), path)))

    # ---- changes

    @web.authenticated
    @authorized
    async def post(self, session_id: str, path: str) -> None:
        """``mkdir=1`` creates a folder, ``move_to=PATH`` moves or renames, ``copy_to=PATH`` copies."""
        path, target, copied = self.named(path), self.argument("move_to"), self.argument("copy_to")
        if self.flag("mkdir") + bool(target) + bool(copied) != 1:
            raise Problem(400, "give one of mkdir=1, move_to=PATH and copy_to=PATH")
        if not target:
            self.files.check_settings()
        with as_problems():
            if copied:
                await copy(self.files, session_id, path, self.named(copied))
            else:
                await self.files.in_thread(self._change, session_id, path, self.named(target) if target else "")
        made = target or copied or path
        self.set_status(200 if target else 201)
        self.finish(json.dumps({"path": text_of(made), "key": key_of(made)}))

    def _change(self, session_id: str, path: str, target: str) -> None:
        with self.files.open(session_id) as folder:
            if target:
                folder.move(path, target)
                return
            quota = self.files.quota(session_id)
            if quota.entries >= quota.max_entries:
                raise Problem(
                    413, f"the session has {quota.entries:,} files and folders, as many as allowed; delete some first"
                )
            folder.make_folder(path, exist_ok=False)

    @web.authenticated
    @authorized
    async def delete(self, session_id: str, path: str) -> None:
        """Delete a file, a link or an empty folder; a full one with ``recursive=1``."""
        path, recursive = self.named(path), self.flag("recursive")
        with as_problems():
            await self.files.in_thread(self._delete, session_id, path, recursive)
        self.set_status(204)
        self.finish()

    def _delete(self, session_id: str, path: str, recursive: bool) -> None:
        with self.files.open(session_id) as folder:
            folder.remove(path, recursive=recursive)


_discarding: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly


class ListHandler(SessionHandler):
    """A folder."""

    @web.authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """A page of what is in a folder, and how much room there is.

        ``quota=0`` leaves the room out, for which everything in the session has to be looked at. ``links=1`` says what
        is behind a link, as its ``target``, as far as a moment's time goes.
        """
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
            body = await self.files.in_thread(self._body, session_id, path, query)
        self.finish(body)

    def _body(self, session_id: str, path: str, query: Query) -> str:
        with self.files.open(session_id) as top, top.enter(path) if path else nullcontext(top) as folder:
            items, total = page(folder.items(recursive=False), query)
            targets = behind_links(folder, items) if self.flag("links") else {}
        above = f"{path}/" if path else ""
        found: dict[str, Any] = {
            "path": text_of(path),
            "key": key_of(path),
            "total": total,
            "offset": query.offset,
            "limit": query.limit,
            "entries": [entry(item, above + item.path) | targets.get(item.path, {}) for item in items],
            "archive": asdict(self.files.bounds),
        }
        if self.argument("quota") != "0":
            found["quota"] = asdict(self.files.quota(session_id))
        return json.dumps(found)


class ServedHandler(SessionHandler):
    """Whether this server has a session."""

    @web.authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """What a zip of it may hold. Kernels ask before they show links, so no folder is read, however large."""
        await self.files.in_thread(self._check, session_id)
        self.finish(json.dumps({"session_id": session_id, "archive": asdict(self.files.bounds)}))

    def _check(self, session_id: str) -> None:
        with self.files.open(session_id):
            pass


_SESSION = r"/wasm-kernel/sessions/([^/]+)"
ROUTES: list[tuple[str, type[SessionHandler]]] = [
    (_SESSION, ServedHandler),
    (rf"{_SESSION}/files/(.+)", FileHandler),
    (rf"{_SESSION}/archive", ZipHandler),
    (rf"{_SESSION}/list", ListHandler),
    (rf"{_SESSION}/upload", UploadPageHandler),
]
