"""What is remembered of sessions that were deleted but whose snapshots stay: one small file each, below `deleted/`.

A tombstone is written before its session goes, so one beside a session that is still there means nothing: whoever
wrote it was killed in between. Snapshots of a session that is gone stay as long as its tombstone.
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

_FOLDER, _SUFFIX = "deleted", ".json"
_MAX_BYTES = 1 << 16


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
    for name in by_age(root)[: -max(1, most)]:
        forget(root, name)


def read(root: Path, session_id: str) -> dict[str, Any] | None:
    """What is remembered of a deleted session; None if nothing is, or if the session is there (again)."""
    if not is_session_id(session_id) or os.path.lexists(root / session_id):
        return None
    try:
        with _path(root, session_id).open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def names(root: Path) -> set[str]:
    """Every session that has one."""
    try:
        found = os.listdir(root / STATE_FOLDER / _FOLDER)  # noqa: PTH208 - names, no paths
    except OSError:
        return set()
    return {name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)}


def by_age(root: Path) -> list[str]:
    """The same sessions, those deleted first at the front."""
    times: dict[str, int] = {}
    for name in names(root):
        with contextlib.suppress(OSError):
            times[name] = _path(root, name).stat().st_mtime_ns
    return sorted(times, key=lambda name: (times[name], name))


def forget(root: Path, session_id: str) -> None:
    """Forget a deleted session; the next prune takes its snapshots."""
    _path(root, session_id).unlink(missing_ok=True)


def _path(root: Path, session_id: str) -> Path:
    return root / STATE_FOLDER / _FOLDER / f"{check_session_id(session_id)}{_SUFFIX}"
