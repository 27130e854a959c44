"""What is below a workspace root: every session's size, age, state and metadata. Looks, and changes nothing."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import ledger, removal
from wasm_kernel.host.packages import PACKAGES
from wasm_kernel.host.workspace import METADATA_NAME
from wasm_kernel.model.records import BadRecord, SessionRecord, is_session_id, is_uuid, parse_record
from wasm_kernel.model.retention import SessionFacts
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE


class WorkspaceRootMissing(ConfigurationError, FileNotFoundError):
    """The workspace root is not there, or is not a folder."""


def existing_root(workspace_root: Path | str | None) -> Path:
    """A workspace root that is there."""
    root = Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE).absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise WorkspaceRootMissing(f"workspace_root {str(root)!r} {what}; give the folder that holds the sessions")
    return root


@dataclass(frozen=True)
class Survey:
    """What is below a workspace root.

    Attributes:
        sessions: What is known of each.
        temporaries: Temporary files of ours that nobody may need any more.
        records: The metadata of those that have any, by id.
    """

    sessions: list[SessionFacts] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    records: dict[str, SessionRecord] = field(default_factory=dict)


def survey(root: Path, *, named: bool = False, only: str | None = None) -> Survey:
    """Look at every session below a root, or at one; those with a name of their own, never pruned, only if asked."""
    live = ledger.live_sessions(root) if only is None else {only} if ledger.is_live(root, only) else set()
    mounted = removal.mounted_in(root)
    packages = f"{root}/{ledger.STATE_FOLDER}/{PACKAGES}"
    installed = set(os.listdir(packages)) if os.path.isdir(packages) else set()  # noqa: PTH112, PTH208 - names, no paths
    found = Survey()
    with os.scandir(root) as entries:
        for entry in entries:
            name = entry.name
            if not is_session_id(name) or (only is not None and name != only):
                continue
            if entry.is_symlink():
                if named or is_uuid(name):
                    found.sessions.append(SessionFacts(name, None, problem="symlink"))
            elif entry.is_dir(follow_symlinks=False):
                size, temporaries = _measure(entry.path)
                if name in installed:
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
    """What is known of one session, its metadata put to the others; None when it has gone meanwhile."""
    stamp = ""
    try:
        handle = os.open(f"{path}/{METADATA_NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stamp = _stamp(os.fstat(handle))
            record = parse_record(os.read(handle, 1 << 20))
        finally:
            os.close(handle)
    except FileNotFoundError:
        return SessionFacts(name, None, size, live, "no_metadata") if os.path.lexists(path) else None
    except (BadRecord, OSError):
        return SessionFacts(name, None, size, live, "corrupted_metadata", stamp)
    records[name] = record
    return SessionFacts(name, record.updated_at, size, live, "mount_inside" if mounted else "", stamp)


def stamp_of(root: Path, session_id: str) -> str:
    """What changes whenever a session is used; empty when it has no metadata, or is not there."""
    try:
        return _stamp(os.lstat(f"{root}/{session_id}/{METADATA_NAME}"))
    except OSError:
        return ""


def _stamp(info: os.stat_result) -> str:
    return f"{info.st_ino}-{info.st_mtime_ns}"  # metadata is replaced by every use, never changed


def _measure(path: str) -> tuple[int, list[str]]:
    """Bytes of all files below a folder, its metadata included, and temporary files of ours among them."""
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
