"""Which session belongs to which notebook: always the same one, also after the notebook was renamed or moved.

A session's metadata names its notebook. An index below ``.wasm-kernel/notebooks`` leads there without reading all of
them; its entries are hints, believed only if the metadata agrees. A notebook that was moved while no kernel ran is
known by its inode, and, as inodes are used again, by the ids of its cells.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import SessionLocked
from wasm_kernel.host.durable import write_file
from wasm_kernel.host.ledger import SessionLock, lock_session, read_record, state_folder, write_record
from wasm_kernel.model.records import BadRecord, is_session_id
from wasm_kernel.sessions.catalog import create_session_folder
from wasm_kernel.sessions.log import SandboxLogger

_MAX_NOTEBOOK = 64 << 20  # larger ones are not read for their cells' ids
_CELLS = 50


@dataclass(frozen=True)
class Opened:
    """A session whose lock this process holds now, and what the person should know of how it was found."""

    session_id: str
    folder: Path
    lock: SessionLock
    note: str = ""


def open_notebook_session(root: Path, notebook: Path, logger: SandboxLogger, *, wait: float = 0.0) -> Opened:
    """The notebook's own session; if somebody else uses it, another one, and a note that says so."""
    with _index(root) as index:
        session_id = _find(root, index, notebook)
        if session_id is None:
            return _create(root, index, notebook, logger)
    try:
        lock = lock_session(root, session_id, wait)
    except SessionLocked as e:
        other, folder, lock = create_session_folder(root, logger, shares_notebook=str(notebook))
        holder = str(e).partition(" is in use by ")[2].partition(";")[0] or "another kernel"
        note = (
            f"This notebook's session is in use by {holder}. This kernel works in a session of its own, with an /app "
            "of its own. To use the notebook's files here, close the other kernel and run: "
            f"%session attach {session_id}"
        )
        return Opened(other, folder, lock, note)
    if not (root / session_id).is_dir():  # deleted while we waited
        lock.release()
        with _index(root) as index:
            return _create(root, index, notebook, logger)
    follow_notebook(root, session_id, notebook)
    return Opened(session_id, root / session_id, lock)


def follow_notebook(root: Path, session_id: str, notebook: Path) -> None:
    """Write down where a session's notebook is now. The caller holds the session's lock."""
    with contextlib.suppress(OSError, BadRecord):
        record = read_record(root / session_id)
        if record is not None and record.extra.get("notebook") != str(notebook):
            write_record(root / session_id, record.touched(datetime.now(UTC), notebook=str(notebook)), sync=True)
        with _index(root) as index:
            _remember(index, notebook, session_id)


def adopt_notebook(root: Path, session_id: str, notebook: Path) -> None:
    """Let a session that nobody uses be a notebook's from now on."""
    lock = lock_session(root, session_id)
    try:
        follow_notebook(root, session_id, notebook)
    finally:
        lock.release()


def forget_notebook(root: Path, session_id: str) -> None:
    """Let a session be nobody's: its notebook gets another. The caller holds the session's lock."""
    with contextlib.suppress(OSError, BadRecord):
        record = read_record(root / session_id)
        notebook = record.extra.get("notebook") if record is not None else None
        if record is not None and notebook is not None:
            extra = {key: value for key, value in record.extra.items() if key != "notebook"}
            stripped = type(record)(record.session_id, record.created_at, record.updated_at, record.version, extra)
            write_record(root / session_id, stripped.touched(datetime.now(UTC), former_notebook=notebook), sync=True)


def _create(root: Path, index: Path, notebook: Path, logger: SandboxLogger) -> Opened:
    session_id, folder, lock = create_session_folder(root, logger, notebook=str(notebook))
    _remember(index, notebook, session_id)
    return Opened(session_id, folder, lock)


@contextlib.contextmanager
def _index(root: Path) -> Iterator[Path]:
    """The index, while nobody else changes it."""
    folder = state_folder(root) / "notebooks"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)


def _find(root: Path, index: Path, notebook: Path) -> str | None:
    session_id = _hint(index / _by_path(notebook)).get("session")
    if session_id and _notebook_of(root, session_id) == str(notebook):
        return str(session_id)
    hint = _hint(index / _by_inode(notebook)) if notebook.exists() else {}
    session_id = hint.get("session")
    before = _notebook_of(root, session_id) if session_id else None
    if before is None or Path(before).exists():  # if it is still there, this one is another, not the same moved
        return None
    shared = set(hint.get("cells") or ()) & set(_cell_ids(notebook))
    return str(session_id) if shared else None


def _remember(index: Path, notebook: Path, session_id: str) -> None:
    hint = {"session": session_id, "cells": _cell_ids(notebook)}
    names = [_by_path(notebook)]
    with contextlib.suppress(OSError):
        names.append(_by_inode(notebook))
    for name in names:
        # Not synced: it is a hint, checked against the session's metadata, and written at every start of a kernel.
        write_file(index / name, json.dumps(hint).encode(), temporary=f"{index}/.{name}.", sync=False)


def _hint(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    good = isinstance(found, dict) and isinstance(found.get("session"), str) and is_session_id(found["session"])
    return found if good else {}


def _notebook_of(root: Path, session_id: str) -> str | None:
    try:
        record = read_record(root / session_id)
    except BadRecord:
        return None
    found = record.extra.get("notebook") if record is not None else None
    return found if isinstance(found, str) else None


def _by_path(notebook: Path) -> str:
    return hashlib.sha256(os.fsencode(notebook)).hexdigest()[:32]


def _by_inode(notebook: Path) -> str:
    info = notebook.stat()
    return f"inode-{info.st_dev}-{info.st_ino}"


def _cell_ids(notebook: Path) -> list[str]:
    try:
        if notebook.stat().st_size > _MAX_NOTEBOOK:
            return []
        cells = json.loads(notebook.read_bytes())["cells"]
        return [str(cell["id"]) for cell in cells[:_CELLS] if "id" in cell]
    except (OSError, ValueError, KeyError, TypeError):
        return []
