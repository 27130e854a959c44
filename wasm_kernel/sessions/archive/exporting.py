"""Write a session to one file."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.disk import removal
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.durable import writing
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.model.records import BadRecord, check_session_id
from wasm_kernel.sessions.archive.formats import FORMATS, format_of
from wasm_kernel.sessions.archive.members import FILES, RECORD, Add, OnProgress, Source
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.log import SandboxLogger

_PART = re.compile(rf"\..+({'|'.join(map(re.escape, FORMATS))})\.part-[0-9a-f]{{16}}", re.DOTALL)


def export_session(
    session_id: str,
    target: Path | str,
    workspace_root: Path | str | None = None,
    *,
    on_progress: OnProgress | None = None,
    logger: SandboxLogger | None = None,
) -> Path:
    """Write a session's files and metadata to ``target``, a .zip or a .tar.zst; it appears complete or not at all.

    Links are left out; `OSError` if anything else would have to be, such as folders nested too deep for any path. A
    session in use can be exported; each file is then as it was when it was read.
    """
    check_session_id(session_id)
    target = Path(target).absolute()
    root = existing_root(workspace_root)
    sweep_parts(target.parent)
    write_archive(root, session_id, target, logger or SandboxLogger(), on_progress)
    return target


def write_archive(
    root: Path, session_id: str, target: Path, logger: SandboxLogger, on_progress: OnProgress | None = None
) -> None:
    """Export a session, as `export_session` does, to a folder that has already been swept."""
    write = format_of(target).write
    if target.is_relative_to(root / session_id):
        raise ConfigurationError(f"{target} is inside the session; choose a file outside it")
    try:
        folder = Folder(root / session_id)
    except OSError:
        raise FileNotFoundError(f"there is no session {session_id} in {root}") from None
    with folder:
        count = _counter(sum(item.size for item in folder.items()), on_progress) if on_progress is not None else None
        with (
            writing(target, temporary=f"{target.parent}/.{target.name}.part-", mode=0o666) as new,
            os.fdopen(new.handle, "wb", closefd=False) as file,
            write(file) as add,
        ):
            _add_record(root / session_id, add)
            _add_files(folder, add, count)
    logger.info("session.exported", session_id=session_id, target=str(target))


def _add_record(folder: Path, add: Add) -> None:
    """Metadata, if the session has any that can be read."""
    with contextlib.suppress(BadRecord):
        record = read_record(folder)
        if record is not None:
            data = record.to_json()
            add(RECORD, io.BytesIO(data), len(data))


def _add_files(folder: Folder, add: Add, count: Callable[[int], None] | None) -> None:
    for item, source in folder.contents():
        if source is None:
            add(f"{FILES}{item.path}/", io.BytesIO(), 0)
        else:
            size = os.fstat(source.fileno()).st_size
            add(f"{FILES}{item.path}", _Counted(source, count) if count else source, size)


def _counter(total: int, on_progress: OnProgress) -> Callable[[int], None]:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        on_progress(done, total)

    return count


def sweep_parts(folder: Path) -> None:
    """Delete the leftovers of exports that were killed."""
    with contextlib.suppress(OSError):
        removal.sweep_temporaries(str(path) for path in folder.iterdir() if _PART.fullmatch(path.name))


class _Counted:
    """Reports how much was read."""

    def __init__(self, source: Source, count: Callable[[int], None]) -> None:
        self._source, self._count = source, count

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._count(len(data))
        return data
