"""Make a session from an archive. An archive comes from elsewhere, so everything in it is checked."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from wasm_kernel.errors import BadArchive, PathRefused
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.locks import forget_free_lock, lock_session
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.files.folder import BLOCK, Folder, components
from wasm_kernel.model.records import FILE_BROWSERS, NOTHING_GIVEN, OWN_SNAPSHOTS_AFTER
from wasm_kernel.sessions.archive.formats import format_of
from wasm_kernel.sessions.archive.members import FILES, RECORD, Member, OnProgress, Read
from wasm_kernel.sessions.catalog import prepared_root, staged_session
from wasm_kernel.sessions.log import SandboxLogger

_MAX_RECORD = 1 << 20
_MAX_NESTING = 50


def import_session(
    archive: Path | str,
    workspace_root: Path | str | None = None,
    *,
    max_bytes: int = 16 << 30,
    max_files: int = 200_000,
    on_progress: OnProgress | None = None,
    logger: SandboxLogger | None = None,
) -> str:
    """Make a new session from an archive; its id. Nothing is written outside the session, whatever the archive says.

    The session appears once it is complete. ``max_files`` counts folders, too.
    """
    archive = Path(archive)
    read = format_of(archive).read
    root = prepared_root(workspace_root)
    logger = logger or SandboxLogger()
    most = administrator.rules().maxima
    max_bytes, max_files = (int(min(n, most.get(k, n))) for n, k in ((max_bytes, "disk"), (max_files, "files")))
    session_id = str(uuid.uuid4())
    lock = lock_session(root, session_id)
    try:
        with archive.open("rb") as file, staged_session(root, session_id, {}, logger) as folder:
            members = read(file, archive)
            if on_progress is not None:
                members = _watched(members, file, on_progress)
            _unpack_all(folder, members, archive, max_bytes, max_files)
    finally:
        lock.release()
        forget_free_lock(root, session_id)
    logger.info("session.imported", session_id=session_id, archive=str(archive))
    return session_id


def _watched(members: Iterator[Member], file: IO[bytes], on_progress: OnProgress) -> Iterator[Member]:
    size = os.fstat(file.fileno()).st_size

    def watched(read: Read) -> Read:
        def watched_read(wanted: int) -> bytes:
            on_progress(file.tell(), size)
            return read(wanted)

        return watched_read

    for name, read in members:
        yield name, watched(read)


def _unpack_all(folder: Path, members: Iterator[Member], archive: Path, max_bytes: int, max_files: int) -> None:
    with Folder(folder, backslashes=True) as place:
        for name, read in members:
            made = place.made
            if name == RECORD:
                _adopt(folder, read(_MAX_RECORD + 1), archive)
            elif name.startswith(FILES):
                max_bytes -= _unpack(place, name.removeprefix(FILES), read, max_bytes, archive)
            else:
                raise BadArchive(f"{archive} holds {name[:80]!r}, which is not allowed in an archive")
            max_files -= max(1, place.made - made + (not name.endswith("/")))
            if max_files < 0:
                raise BadArchive(f"{archive} holds more files and folders than allowed; pass max_files to allow more")


def _unpack(place: Folder, name: str, read: Read, budget: int, archive: Path) -> int:
    def blocks() -> Iterator[bytes]:
        left = budget
        while block := read(BLOCK):
            left -= len(block)
            if left < 0:
                raise BadArchive(f"{archive} unpacks to more than allowed; pass max_bytes to allow more")
            yield block

    path = name.rstrip("/")
    try:
        if path and path == name:
            return place.write(path, blocks(), overwrite=False, sync=False)
        if read(1):
            raise BadArchive(f"{archive} holds {name[:80]!r}, a folder with bytes of its own")
        if components(path or ".", backslashes=True):
            place.make_folder(path)
        return 0
    except PathRefused as e:
        raise BadArchive(f"{archive}: {e}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise BadArchive(f"{archive} holds {name[:80]!r} twice, or as a file and a folder") from None
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:
            raise BadArchive(f"{archive} holds a name that is too long: {name[:80]!r}") from None
        raise


def _adopt(folder: Path, data: bytes, archive: Path) -> None:
    """Take over an exported session's metadata, except id and times."""
    record = read_record(folder)
    try:
        found = json.loads(data) if len(data) <= _MAX_RECORD else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not _is_shallow(found, _MAX_NESTING):
        raise BadArchive(f"{archive} holds a session.json that is not a JSON object of reasonable size")
    if record is None:
        return
    # Grants come from the user of this machine, not from the maker of the archive.
    own = {"session_id", "created_at", "updated_at", "version"}
    own |= NOTHING_GIVEN.keys() | {OWN_SNAPSHOTS_AFTER, FILE_BROWSERS}
    extra = {k: v for k, v in found.items() if k not in own}
    extra["imported_from"] = found.get("session_id") if isinstance(found.get("session_id"), str) else None
    record = record.touched(record.updated_at, **extra)
    if len(record.to_json()) > _MAX_RECORD:
        raise BadArchive(f"{archive} holds a session.json that is too large")
    write_record(folder, record, sync=False)  # made durable with all the rest


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether a value is nested shallowly enough to be written again."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in inner)
