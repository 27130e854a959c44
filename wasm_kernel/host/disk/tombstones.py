"""What is remembered of sessions that were deleted.

    deleted/    their snapshots stay: a small file each. Written before the session goes, and lasting: snapshots of a
                session that is gone stay as long as its tombstone
    pruned      nothing else is left of them: a file with a line each. Written if that is possible: a full disk must not
                keep anybody from deleting. One file, because on ext4 a new one takes the longer, the more were deleted
                in the last seconds (it passes over their inodes), and a prune notes thousands

A tombstone beside a session that is still there means nothing: whoever wrote it was killed in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wasm_kernel.host.disk.locks import state_folder
from wasm_kernel.host.durable import write_all, write_file
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import check_session_id, is_session_id

_FOLDER, _PRUNED, _SUFFIX = "deleted", "pruned", ".json"
_MAX_BYTES = 1 << 16
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


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
    for name in _too_many(root, most):
        forget(root, name)


def note(root: Path, gone: Mapping[str, dict[str, Any]]) -> bool:
    """Remember sessions that are deleted with their snapshots; False if the disk does not let us.

    Not synced: a torn line is as good as none.
    """
    lines = [json.dumps({"session_id": name, **facts}) for name, facts in gone.items()]
    try:
        with _pruned(root) as handle:
            before = os.fstat(handle).st_size
            try:
                # The first line break ends what somebody could not write to its end.
                write_all(handle, "\n".join(["", *lines, ""]).encode())
            except OSError:
                os.ftruncate(handle, before)
                raise
    except OSError:
        return False
    return True


def trim(root: Path, most: int) -> None:
    """Forget the oldest of what `note` remembers, if there are more than ``most``."""
    most = max(1, most)
    with contextlib.suppress(OSError), _pruned(root):
        lines = _lines(root)
        if len(lines) > most:
            place = state_folder(root) / "new"
            place.mkdir(exist_ok=True)
            content = b"\n".join([*lines[-most:], b""])
            write_file(_pruned_path(root), content, temporary=f"{place}/{_PRUNED}.", sync=False)


@contextlib.contextmanager
def _pruned(root: Path) -> Iterator[int]:
    """The file that `note` appends to, while nobody else changes it."""
    state_folder(root)
    while True:
        handle = os.open(_pruned_path(root), _APPEND, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # else it was replaced meanwhile
                yield handle
                return
        finally:
            os.close(handle)


def _pruned_path(root: Path) -> Path:
    return root / STATE_FOLDER / _PRUNED


def _lines(root: Path) -> list[bytes]:
    with contextlib.suppress(OSError):
        return [line for line in _pruned_path(root).read_bytes().split(b"\n") if line]
    return []


def _noted(root: Path, only: str = "") -> dict[str, dict[str, Any]]:
    """What `note` remembers, of every session or of one, those deleted first at the front."""
    found: dict[str, dict[str, Any]] = {}
    for line in _lines(root):
        facts = _parsed(line) if only.encode() in line else None
        session_id = facts.pop("session_id", None) if facts is not None else None
        if facts is not None and isinstance(session_id, str):
            found.pop(session_id, None)  # an earlier one of this id
            found[session_id] = facts
    return found


def _parsed(text: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict) else None
    return None


def read(root: Path, session_id: str) -> dict[str, Any] | None:
    """What is remembered of a deleted session; None if nothing is, or if the session is there (again)."""
    if not is_session_id(session_id) or os.path.lexists(root / session_id):
        return None
    with contextlib.suppress(OSError), _path(root, session_id).open("rb") as file:
        return _parsed(file.read(_MAX_BYTES))
    return _noted(root, session_id).get(session_id)


def names(root: Path) -> set[str]:
    """Every session whose snapshots stay."""
    try:
        found = os.listdir(root / STATE_FOLDER / _FOLDER)  # noqa: PTH208 - names, no paths
    except OSError:
        return set()
    return {name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)}


def by_age(root: Path) -> list[str]:
    """The same sessions, those deleted first at the front."""
    times: dict[str, int] = {}
    for name in names(root):
        with contextlib.suppress(OSError, ValueError):
            times[name] = _path(root, name).stat().st_mtime_ns
    return sorted(times, key=lambda name: (times[name], name))


def every_one(root: Path) -> dict[str, dict[str, Any]]:
    """What is remembered of every session that is gone, with snapshots or without, those deleted first at the front."""
    found = _noted(root) | {name: facts for name in names(root) if (facts := read(root, name)) is not None}
    gone = {name: facts for name, facts in found.items() if not os.path.lexists(root / name)}
    return dict(sorted(gone.items(), key=lambda item: (str(item[1].get("deleted_at")), item[0])))


def _too_many(root: Path, most: int) -> list[str]:
    most = max(1, most)
    return by_age(root)[:-most] if len(names(root)) > most else []


def forget(root: Path, session_id: str) -> None:
    """Forget a deleted session; the next prune takes its snapshots."""
    _path(root, session_id).unlink(missing_ok=True)


def _path(root: Path, session_id: str) -> Path:
    return root / STATE_FOLDER / _FOLDER / f"{check_session_id(session_id)}{_SUFFIX}"
