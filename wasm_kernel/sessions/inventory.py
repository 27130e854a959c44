"""Every session below a workspace root, with size, age, state and metadata. Changes nothing."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.errors import WorkspaceRootMissing
from wasm_kernel.host.disk import locks, removal
from wasm_kernel.host.disk.packages import PACKAGES
from wasm_kernel.host.files.workspace_survey import METADATA_NAME
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import (
    BadRecord,
    ForeignRecord,
    LaterRecord,
    SessionRecord,
    check_record,
    is_session_id,
    is_uuid,
    parse_record,
)
from wasm_kernel.model.retention import SessionFacts
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE


def existing_root(workspace_root: Path | str | None) -> Path:
    """A workspace root that exists."""
    root = Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE).absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise WorkspaceRootMissing(f"workspace_root {str(root)!r} {what}; give the folder that holds the sessions")
    return root


@dataclass(frozen=True)
class Survey:
    """What is below a workspace root.

    Attributes:
        sessions: The facts about each session.
        temporaries: Our temporary files that may be leftovers.
        records: The metadata of sessions that have any, by id.
    """

    sessions: list[SessionFacts] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    records: dict[str, SessionRecord] = field(default_factory=dict)


def survey(root: Path, *, named: bool = False, only: str | None = None, measured: bool = True) -> Survey:
    """Look at every session below a root, or at one; named sessions, which are never pruned, only if asked.

    Without ``measured`` no session's files are looked at, only its metadata: all sizes are 0.
    """
    live = locks.live_sessions(root) if only is None else {only} if locks.is_live(root, only) else set()
    mounted = removal.mounted_in(root)
    packages = f"{root}/{STATE_FOLDER}/{PACKAGES}"
    installed = set(os.listdir(packages)) if os.path.isdir(packages) else set()  # noqa: PTH112, PTH208 - names, not paths
    found = Survey()
    with os.scandir(root) as entries:
        for entry in entries:
            name = entry.name
            if (only is not None and name != only) or not is_session_id(name):
                continue
            if entry.is_symlink():
                if named or is_uuid(name):
                    found.sessions.append(SessionFacts(name, None, problem="symlink"))
            elif entry.is_dir(follow_symlinks=False):
                size, temporaries = _measure(entry.path) if measured else (0, [])
                if name in installed and measured:
                    size += _measure(f"{packages}/{name}")[0]
                if name not in live:
                    found.temporaries.extend(temporaries)
                if named or is_uuid(name):
                    facts = _facts(entry.path, size, name, name in live, name in mounted, found.records)
                    found.sessions.extend([facts] if facts is not None else [])
    return found


def _facts(
    path: str, size: int, name: str, live: bool, mounted: bool, records: dict[str, SessionRecord]
) -> SessionFacts | None:
    """The facts about one session, whose metadata is added to the others; None if it has just been deleted."""
    stamp = ""
    try:
        handle = os.open(f"{path}/{METADATA_NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(handle)
            stamp = _stamp(info)
            record = check_record(parse_record(os.read(handle, min(info.st_size, 1 << 20))), name)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return SessionFacts(name, None, size, live, "no_metadata") if os.path.lexists(path) else None
    except (ForeignRecord, LaterRecord):
        return SessionFacts(name, None, size, live, "foreign_metadata", stamp)
    except (BadRecord, OSError):
        return SessionFacts(name, None, size, live, "corrupted_metadata", stamp)
    records[name] = record
    return SessionFacts(name, record.updated_at, size, live, "mount_inside" if mounted else "", stamp)


def session_bytes(root: Path, session_id: str) -> int:
    """The size of a session: its files, and its packages."""
    return sum(_measure(f"{root}/{place}{session_id}")[0] for place in ("", f"{STATE_FOLDER}/{PACKAGES}/"))


def stamp_of(root: Path, session_id: str) -> str:
    """A value that changes whenever a session is used; empty if it has no metadata, or does not exist."""
    try:
        return _stamp(os.lstat(f"{root}/{session_id}/{METADATA_NAME}"))
    except OSError:
        return ""


def _stamp(info: os.stat_result) -> str:
    return f"{info.st_ino}-{info.st_mtime_ns}"  # every use replaces the metadata file; it is never changed in place


def _measure(path: str) -> tuple[int, list[str]]:
    """Size of all files below a folder, metadata included, and which of them are our temporary files."""
    size = 0
    temporaries = []
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(info.st_mode):
                        waiting.append(entry.path)
                        continue
                    size += info.st_size
                    if entry.name.startswith(METADATA_NAME) and removal.is_temporary(entry.name):
                        temporaries.append(entry.path)
        except OSError:
            continue
    return size, temporaries
