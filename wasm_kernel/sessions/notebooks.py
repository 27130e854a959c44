"""Which session belongs to which notebook: always the same one, even after the notebook was renamed or moved.

A session's metadata names its notebook. An index below ``.wasm-kernel/notebooks`` leads there without reading all of
them; its entries are hints, used only if the metadata agrees.

A path alone says little: tomorrow another notebook may be ``Untitled.ipynb``, and must not get the files of the first.
So a notebook is the same if it has a cell (by its id) that it had before, or if it is the same file: the same inode,
and, as inodes are reused, created at the same time. The first holds for editors that save by renaming, for other
versions out of git and for copies that come back; the second for notebooks without cells or without ids (before
nbformat 4.5), and for those that were emptied. Both are recorded while the session is in use, because the notebook
keeps changing. A notebook that was moved while no kernel ran is found by its inode; that it is the same is
shown by its cells, if it had any.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import SessionLocked
from wasm_kernel.host.disk.locks import SessionLock, lock_session, state_folder
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.durable import write_file
from wasm_kernel.host.files import birth
from wasm_kernel.model.records import BadRecord, is_session_id
from wasm_kernel.sessions.catalog import create_session_folder
from wasm_kernel.sessions.log import SandboxLogger

_MAX_NOTEBOOK = 64 << 20  # larger ones are not read for their cells' ids
_MAX_ID = 64  # characters, by nbformat
_INODE = re.compile(r"inode-\d+-\d+")
_KNOWN_CELLS = 1000  # ids kept, including deleted cells: an older version may come back

_NAMESAKE = (
    "A different notebook had this name before, so this one has a new session, with an empty /app. "
    "The other notebook's session is kept; to continue it here, run: %session attach {}"
)


@dataclass(frozen=True)
class Opened:
    """A session locked by this process, and a note for the person about how it was found."""

    session_id: str
    folder: Path
    lock: SessionLock
    note: str = ""


@dataclass(frozen=True)
class _Identity:
    """What distinguishes a notebook from another one that has, or had, its name."""

    inode: str = ""  # inode-DEVICE-NUMBER; empty: unknown
    born: int = 0  # when the file was made; 0: unknown
    changed: int = 0
    cells: tuple[str, ...] = ()

    def shares_cells(self, other: _Identity) -> bool:
        """Whether they have a cell in common."""
        return bool(set(self.cells) & set(other.cells))

    def is_surely(self, other: _Identity) -> bool:
        """Whether they have a cell in common, or are the same file and not just the same inode number."""
        if self.shares_cells(other):
            return True
        # Device numbers change when a machine reboots; inode number and birth time do without them.
        numbers = {identity.inode.rpartition("-")[2] for identity in (self, other)}
        return bool(self.born) and self.born == other.born and len(numbers) == 1


@dataclass(frozen=True)
class _Hint:
    """An entry of the index: the session that a path or an inode leads to, and its notebook as it was."""

    session_id: str = ""
    notebook: _Identity = _Identity()


def open_notebook_session(root: Path, notebook: Path, logger: SandboxLogger, *, wait: float = 0.0) -> Opened:
    """The notebook's own session; if it is in use, another one, with a note.

    If a different notebook had this name before, this one gets a new session, with a note about the old one.
    """
    with _index(root) as index:
        session_id, former = _find(root, index, notebook)
        if not session_id:
            opened = _create(root, index, notebook, logger)
            return replace(opened, note=_NAMESAKE.format(former)) if former else opened
    try:
        lock = lock_session(root, session_id, wait)
    except SessionLocked as e:
        holder = str(e).partition(" is in use by ")[2].partition(";")[0] or "another kernel"
        note = (
            f"This notebook's session is in use by {holder}. This kernel has a separate session, with its own "
            "/app. To use the notebook's files here, close the other kernel and run: "
            f"%session attach {session_id}"
        )
        return open_separate_session(root, notebook, logger, note)
    if not (root / session_id).is_dir():  # deleted while we were waiting
        lock.release()
        with _index(root) as index:
            return _create(root, index, notebook, logger)
    follow_notebook(root, session_id, notebook)
    return Opened(session_id, root / session_id, lock)


def open_separate_session(root: Path, notebook: Path, logger: SandboxLogger, note: str) -> Opened:
    """A session for a kernel whose notebook's own is in use."""
    return Opened(*create_session_folder(root, logger, shares_notebook=str(notebook)), note)


def follow_notebook(root: Path, session_id: str, notebook: Path) -> None:
    """Record where a session's notebook is now. The caller holds the session's lock."""
    with contextlib.suppress(OSError, BadRecord):
        record = read_record(root / session_id)
        if record is not None and record.extra.get("notebook") != str(notebook):
            write_record(root / session_id, record.touched(datetime.now(UTC), notebook=str(notebook)), sync=True)
        with _index(root) as index:
            _remember(index, notebook, session_id)


def note_identity(root: Path, session_id: str, notebook: Path) -> None:
    """Record what identifies a session's notebook now. The caller holds the session's lock.

    Only if it is still the same notebook: a file that took its place does not inherit the session just because a
    kernel is running.
    """
    with contextlib.suppress(OSError), _index(root) as index:
        hint = _read_hint(index / _by_path(notebook))
        info = notebook.stat()
        unchanged = (hint.notebook.inode, hint.notebook.changed) == (_by_inode(info), info.st_mtime_ns)
        if hint.session_id == session_id and not unchanged and _is_same(index, hint, _identity(notebook)):
            _remember(index, notebook, session_id)


def adopt_notebook(root: Path, session_id: str, notebook: Path) -> None:
    """Assign a session that is not in use to a notebook."""
    lock = lock_session(root, session_id)
    try:
        follow_notebook(root, session_id, notebook)
    finally:
        lock.release()


def forget_notebook(root: Path, session_id: str) -> None:
    """Detach a session from its notebook, which gets another. The caller holds the session's lock."""
    with contextlib.suppress(OSError, BadRecord):
        record = read_record(root / session_id)
        notebook = record.extra.get("notebook") if record is not None else None
        if record is not None and notebook is not None:
            extra = {key: value for key, value in record.extra.items() if key != "notebook"}
            stripped = type(record)(record.session_id, record.created_at, record.updated_at, record.version, extra)
            write_record(root / session_id, stripped.touched(datetime.now(UTC), former_notebook=notebook), sync=True)


def session_of_notebook(root: Path, notebook: Path) -> str:
    """The session that a notebook has on this machine; empty: none."""
    with _index(root) as index:
        return _find(root, index, notebook)[0]


def cells_of(notebook: Path) -> tuple[str, ...] | None:
    """The ids of a notebook's cells; None: there is no file."""
    found = _identity(notebook)
    return found.cells if found.inode else None


def known_cells(root: Path, notebook: Path) -> tuple[str, ...]:
    """The ids of cells that a notebook has, or has had while its session was in use."""
    with _index(root) as index:
        return _read_hint(index / _by_path(notebook)).notebook.cells


def _create(root: Path, index: Path, notebook: Path, logger: SandboxLogger) -> Opened:
    session_id, folder, lock = create_session_folder(root, logger, notebook=str(notebook))
    _remember(index, notebook, session_id)
    return Opened(session_id, folder, lock)


@contextlib.contextmanager
def _index(root: Path) -> Iterator[Path]:
    """The index, locked against changes by others."""
    folder = state_folder(root) / "notebooks"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)


def _find(root: Path, index: Path, notebook: Path) -> tuple[str, str]:
    """The notebook's session, and the session of another notebook that had its name; each empty if there is none."""
    now = _identity(notebook)
    former = ""
    hint = _read_hint(index / _by_path(notebook))
    if hint.session_id and notebook_of(root, hint.session_id) == str(notebook):
        if _is_same(index, hint, now):
            return hint.session_id, ""
        former = hint.session_id
    if not now.inode:
        return "", former
    hint = _read_hint(index / now.inode)
    before = notebook_of(root, hint.session_id)
    if not before or not hint.notebook.is_surely(now) or (hint.notebook.cells and not hint.notebook.shares_cells(now)):
        return "", former  # moved, and none of its cells is left: a different notebook in a reused inode
    if before != str(notebook) and hint.notebook.is_surely(_identity(Path(before))):
        return "", former  # the old one is still there: this one is a copy (such as a hard link), not a move
    return hint.session_id, ""


def _is_same(index: Path, hint: _Hint, now: _Identity) -> bool:
    """Whether the notebook at a path is the one that was there when the hint was written."""
    known = hint.notebook
    if not now.inode or known.is_surely(now):
        return True  # without a file there is no different notebook either
    if known.born and now.born:
        return False
    # Birth times are not known here, or an earlier version wrote the hint. The inode has to do, except where cells
    # were known and none of them is left.
    inode = known.inode or (now.inode if _read_hint(index / now.inode).session_id == hint.session_id else "")
    return inode == now.inode and not known.cells


def _remember(index: Path, notebook: Path, session_id: str) -> None:
    """Make the path and the inode point to a session, with what identifies the notebook."""
    now, before = _identity(notebook), _read_hint(index / _by_path(notebook))
    if before.session_id == session_id:
        known = before.notebook
        cells = tuple(dict.fromkeys(now.cells + known.cells))  # newest first: these are dropped last
        now = replace(now if now.inode else known, cells=cells)
        if known.inode not in ("", now.inode) and _read_hint(index / known.inode).session_id == session_id:
            (index / known.inode).unlink()  # saved by renaming: otherwise every save would leave one behind
    now = replace(now, cells=now.cells[:_KNOWN_CELLS])
    data = json.dumps({"session": session_id, **asdict(now)}).encode()
    for name in filter(None, (_by_path(notebook), now.inode)):
        # Not synced: it is a hint, checked against the session's metadata, and written at every start of a kernel.
        write_file(index / name, data, temporary=f"{index}/.{name}.", sync=False)


def _read_hint(path: Path) -> _Hint:
    """An entry of the index; an empty one if it is missing or malformed."""
    try:
        found = json.loads(path.read_bytes())
        session_id, inode, cells = found["session"], found.get("inode", ""), found.get("cells", [])
        born, changed = int(found.get("born", 0)), int(found.get("changed", 0))
        if is_session_id(session_id) and (inode == "" or _INODE.fullmatch(inode)):
            return _Hint(session_id, _Identity(inode, born, changed, tuple(map(str, cells))))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        pass
    return _Hint()


def notebook_of(root: Path, session_id: str) -> str:
    """The path that a session's metadata names; empty if there is none."""
    try:
        record = read_record(root / session_id) if session_id else None
    except BadRecord:
        return ""
    found = record.extra.get("notebook") if record is not None else None
    return found if isinstance(found, str) else ""


def _by_path(notebook: Path) -> str:
    return hashlib.sha256(os.fsencode(notebook)).hexdigest()[:32]


def _by_inode(info: os.stat_result) -> str:
    return f"inode-{info.st_dev}-{info.st_ino}"


def _identity(notebook: Path) -> _Identity:
    """What identifies the notebook at a path; nothing if there is no file."""
    try:
        handle = os.open(notebook, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a FIFO
    except OSError:
        return _Identity()
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            return _Identity()
        readable = info.st_size <= _MAX_NOTEBOOK
        cells = _cell_ids(file.read(_MAX_NOTEBOOK)) if readable else ()
        return _Identity(_by_inode(info), birth.born(handle), info.st_mtime_ns, cells)


def _cell_ids(data: bytes) -> tuple[str, ...]:
    try:
        ids = [cell["id"] for cell in json.loads(data)["cells"] if "id" in cell]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()
    return tuple(i for i in ids if isinstance(i, str) and 0 < len(i) <= _MAX_ID)
