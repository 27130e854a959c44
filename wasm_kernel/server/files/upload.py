"""One file on its way into a session: refused if there is no room for it, and written whole or not at all.

Its bytes are reserved while it comes, so that two uploads at once cannot both be promised the same room. They are
written on threads, a block at a time. Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import os

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import BLOCK, NewFile
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.server.files.file_service import FileService
from wasm_kernel.server.problems import Problem, as_problems


class Upload:
    """An upload. ``length``: how many bytes the client announced, None if it did not."""

    def __init__(self, files: FileService, session_id: str, path: str, *, overwrite: bool, length: int | None) -> None:
        self._files, self._session_id, self._path = files, session_id, path
        self._overwrite, self._length = overwrite, length
        self._file: NewFile | None = None
        self._discarded = False
        self._replaced: int | None = None  # the size of the file being replaced
        self._promised = self._left = 0
        self._buffer = bytearray()
        self._disk = asyncio.Lock()  # a client may go away while a thread still writes

    @property
    def replaces(self) -> bool:
        """Whether there was a file of that name."""
        return self._replaced is not None

    async def begin(self) -> None:
        """Create the file under a temporary name. `Problem` if it is not allowed there, or does not fit."""
        with as_problems():
            quota, disk = await self._files.in_thread(self._look)
        free = quota.free - self._files.reservations.of(self._session_id) + (self._replaced or 0)
        self._check_room(quota, free, disk)
        self._left = min(free, disk, quota.max_file)
        self._promise(self._length or 0)
        try:
            with as_problems():
                self._file = await self._files.in_thread(self._create)
        except BaseException:
            await self.discard()
            raise
        if self._discarded:  # the client has gone meanwhile
            await self.discard()

    def _look(self) -> tuple[Quota, int]:
        """The session's quota, and the bytes free on the disk."""
        with self._files.open(self._session_id) as top:
            try:
                with top.open(self._path) as file:
                    self._replaced = os.fstat(file.fileno()).st_size
            except (FileNotFoundError, NotADirectoryError, PathRefused):
                pass  # creating it says what is wrong
        if self._replaced is not None and not self._overwrite:
            raise Problem(409, f"the file {self._path!r} already exists; overwrite=1 replaces it")
        disk = os.statvfs(self._files.path(self._session_id))
        return self._files.quota(self._session_id), disk.f_bavail * disk.f_frsize

    def _check_room(self, quota: Quota, free: int, disk: int) -> None:
        if quota.entries >= quota.max_entries and self._replaced is None:
            raise Problem(
                413, f"the session has {quota.entries:,} files and folders, as many as allowed; delete some first"
            )
        length, most = self._length, quota.max_file
        if length is None:
            return
        if length > most:
            raise Problem(413, f"the file has {length:,} bytes; a file may have at most {most:,}", limit=most)
        if length > free:
            raise _too_large(length, max(0, free), quota)
        if length > disk:
            raise Problem(507, f"the file has {length:,} bytes; the server's disk has room for {disk:,}")

    def _create(self) -> NewFile:
        with self._files.open(self._session_id) as folder:
            return folder.create(self._path, overwrite=self._overwrite)

    def _promise(self, more: int) -> None:
        self._promised += more
        self._files.reservations.change(self._session_id, more)

    async def receive(self, chunk: bytes) -> None:
        """Take a part of the file. `Problem` if there is no room for it."""
        self._buffer += chunk
        self._left -= len(chunk)
        if self._length is None:
            self._promise(len(chunk))
        if self._left < 0:
            raise Problem(
                413, "the file is larger than a file may be, or than the session or the server's disk has room for"
            )
        if len(self._buffer) >= BLOCK:
            await self._write()

    async def _write(self) -> None:
        async with self._disk:
            if self._file is not None:
                block, self._buffer = self._buffer, bytearray()
                with as_problems():
                    await self._files.in_thread(self._file.write, block)

    async def finish(self) -> os.stat_result | None:
        """Give the complete file its name. None if it was discarded meanwhile."""
        await self._write()
        async with self._disk:
            if self._file is None:
                return None
            with as_problems():
                info = await self._files.in_thread(self._file.finish)
            self._file = None
        self._promise(-self._promised)
        return info

    async def discard(self) -> None:
        """Remove it, whatever state it is in."""
        self._discarded = True
        self._promise(-self._promised)
        async with self._disk:
            file, self._file = self._file, None
            if file is not None:
                await self._files.in_thread(file.discard)


def _too_large(length: int, free: int, quota: Quota) -> Problem:
    text = f"the file has {length:,} bytes; the session has room for {free:,}. Delete something first"
    if quota.used is None:
        text = "the session's size is unknown, because its folders are too deep: nothing can be added"
    return Problem(413, text, needed=length, free=free, used=quota.used, limit=quota.limit)
