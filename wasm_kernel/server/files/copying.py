"""Copies a file or a folder within a session, without its bytes leaving the server: refused if there is no room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import Item, blocks_of
from wasm_kernel.host.files.new_file import NewFiles
from wasm_kernel.server.files.file_service import FileService
from wasm_kernel.server.problems import Problem


async def copy(files: FileService, session_id: str, path: str, target: str) -> None:
    """Copy to a path that is not taken. What was counted is copied, and no more, whatever the guest does meanwhile."""
    wanted = await files.in_thread(_plan, files, session_id, path)
    room = sum(item.size for item in wanted)
    quota = await files.in_thread(files.quota, session_id)
    free = quota.free - files.reservations.of(session_id)
    if room > free or len(wanted) > quota.free_entries:
        what = f"{room:,} bytes in {len(wanted):,} files and folders"
        raise Problem(
            413,
            f"the copy has {what}; the session has room for {max(0, free):,} bytes and {quota.free_entries:,} files",
        )
    files.reservations.change(session_id, room)
    try:
        await files.in_thread(_copy, files, session_id, path, target, wanted)
    finally:
        files.reservations.change(session_id, -room)


def _plan(files: FileService, session_id: str, path: str) -> list[Item]:
    """What has to be copied, by its path below ``path``; the first item is that itself."""
    with files.open(session_id) as folder:
        item = folder.look(path)
        top = Item("", item.kind, item.size, item.modified_ns)
        if item.kind == "file":
            return [top]
        if item.kind != "folder":
            raise PathRefused(f"{path!r} is neither a file nor a folder; only those can be copied")
        with folder.enter(path) as inner:
            return [top, *(item for item in inner.items() if item.kind in ("file", "folder"))]


def _copy(files: FileService, session_id: str, path: str, target: str, wanted: list[Item]) -> None:
    with files.open(session_id) as folder, NewFiles() as new:
        for item in wanted:
            source, to = _below(path, item.path), _below(target, item.path)
            if item.kind == "folder":
                folder.make_folder(to, exist_ok=False)
            else:
                with folder.open(source) as file:
                    new.write(folder.create(to, overwrite=False), _first(file, item.size))


def _below(folder: str, path: str) -> str:
    return f"{folder}/{path}" if path else folder


def _first(file: IO[bytes], size: int) -> Iterator[bytes]:
    """As many bytes of a file: it may be growing."""
    for block in blocks_of(file):
        yield block[:size]
        size -= len(block)
        if size <= 0:
            return
