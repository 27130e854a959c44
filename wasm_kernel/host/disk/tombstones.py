"""What is remembered of sessions that were deleted: one small file each.

    deleted/    their snapshots stay. Written before the session goes, and lasting: snapshots of a session that is gone
                stay as long as its tombstone
    pruned/     nothing else is left of them. Written afterwards, if that is possible: a full disk must not keep
                anybody from deleting

A tombstone beside a session that is still there means nothing: whoever wrote it was killed in between.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from wasm_kernel.host.disk.locks import state_folder
from wasm_kernel.host.durable import write_file
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import check_session_id, is_session_id

_FOLDER, _PRUNED, _SUFFIX = "deleted", "pruned", ".json"
_MAX_BYTES = 1 << 16
_NOTE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write(root: Path, session_id: str, facts: dict[str, Any], *, most: int) -> None:
    """Remember a session that is about to be deleted; of more than ``most`` the oldest are forgotten.

    The caller holds the session's lock.
    """
    state = state_folder(root)
    folder = state / _FOLDER
    for place in (folder, state / "new"):
        place.mkdir(mode=0o700, exist_ok=True)
    target = _path(root, session_id)
    write_file(target, json.dumps(facts).encode(), temporary=f"{state}/new/{session_id}.")
    for name in _too_many(root, _FOLDER, most):
        forget(root, name)


def place_for(root: Path, session_id: str) -> str:
    """Where `note` writes about a session; empty if the disk has no room for that.

    A prune moves the session's metadata there, so that `note` finds a file: on ext4 a new one takes the longer, the
    more were deleted in the last seconds, because it passes over their inodes (0.8 ms after a thousand sessions).
    """
    folder = f"{root}/{STATE_FOLDER}/{_PRUNED}"
    if not os.path.isdir(folder):  # noqa: PTH112 - plain strings: a prune calls this thousands of times
        with contextlib.suppress(OSError):
            (state_folder(root) / _PRUNED).mkdir(mode=0o700, exist_ok=True)
            return place_for(root, session_id)
        return ""
    return f"{folder}/{check_session_id(session_id)}{_SUFFIX}"


def note(root: Path, session_id: str, facts: dict[str, Any]) -> None:
    """Remember a session that was deleted with its snapshots, if the disk lets us."""
    path, content = place_for(root, session_id), json.dumps(facts).encode()
    if not path:
        return
    with contextlib.suppress(OSError):
        handle = os.open(path, _NOTE, 0o600)
        try:
            if os.fstat(handle).st_nlink != 1:  # metadata that a backup shares by a hard link: not ours to write to
                os.unlink(path)  # noqa: PTH108
                os.close(handle)
                handle = os.open(path, _NOTE, 0o600)
            # Neither synced nor renamed: a torn one is as good as none, and a prune writes thousands.
            os.write(handle, content)
            os.ftruncate(handle, len(content))
        finally:
            os.close(handle)


def trim(root: Path, most: int) -> None:
    """Forget the oldest of what `note` remembers, if there are more than ``most``."""
    for name in _too_many(root, _PRUNED, most):
        with contextlib.suppress(OSError):
            _path(root, name, _PRUNED).unlink()


def read(root: Path, session_id: str) -> dict[str, Any] | None:
    """What is remembered of a deleted session; None if nothing is, or if the session is there (again)."""
    if not is_session_id(session_id) or os.path.lexists(root / session_id):
        return None
    for folder in (_FOLDER, _PRUNED):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            with _path(root, session_id, folder).open("rb") as file:
                found = json.loads(file.read(_MAX_BYTES))
            return found if isinstance(found, dict) else None
    return None


def names(root: Path, folder: str = _FOLDER) -> set[str]:
    """Every session whose snapshots stay."""
    try:
        found = os.listdir(root / STATE_FOLDER / folder)  # noqa: PTH208 - names, no paths
    except OSError:
        return set()
    return {name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)}


def by_age(root: Path) -> list[str]:
    """The same sessions, those deleted first at the front."""
    return _sorted(_times(root, _FOLDER))


def every_one(root: Path) -> list[str]:
    """Every session that is remembered, with snapshots or without, those deleted first at the front."""
    return _sorted(_times(root, _PRUNED) | _times(root, _FOLDER))


def _times(root: Path, folder: str) -> dict[str, int]:
    times: dict[str, int] = {}
    for name in names(root, folder):
        with contextlib.suppress(OSError, ValueError):
            times[name] = _path(root, name, folder).stat().st_mtime_ns
    return times


def _sorted(times: dict[str, int]) -> list[str]:
    return sorted(times, key=lambda name: (times[name], name))


def _too_many(root: Path, folder: str, most: int) -> list[str]:
    most = max(1, most)
    return _sorted(_times(root, folder))[:-most] if len(names(root, folder)) > most else []


def forget(root: Path, session_id: str) -> None:
    """Forget a deleted session; the next prune takes its snapshots."""
    _path(root, session_id).unlink(missing_ok=True)


def _path(root: Path, session_id: str, folder: str = _FOLDER) -> Path:
    return root / STATE_FOLDER / folder / f"{check_session_id(session_id)}{_SUFFIX}"
