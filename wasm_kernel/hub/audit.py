"""The audit log: who did what to whose sessions, when, why, how many bytes, and how it ended. A JSON object per line.

{"time": "2026-11-22T10:15:30.123456Z", "run": "…", "actor": "schedule" or a user's name, "action": "delete",
 "user": "ann", "session_id": "…", "snapshot_id": "", "reason": "max_age_hours", "bytes": 2048,
 "result": "done" | "failed" | "live" | "changed" | "skipped", "detail": "…"}
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_OURS = ("actor", "action", "user", "session_id", "snapshot_id", "reason", "result", "detail", "run", "time")


@dataclass(frozen=True)
class Entry:
    """One line."""

    time: str
    run: str
    actor: str
    action: str
    user: str = ""
    session_id: str = ""
    snapshot_id: str = ""
    reason: str = ""
    bytes: int = 0
    result: str = "done"
    detail: str = ""


class AuditLog:
    """Appends, and reads back the newest first."""

    def __init__(self, path: Path, *, max_bytes: int = 10 << 20, keep: int = 9) -> None:
        self.path, self._max_bytes, self._keep = path, max_bytes, keep

    def append(self, entries: Iterable[Entry]) -> None:
        """Write lines, all at once, and make them last."""
        data = "".join(json.dumps(asdict(entry)) + "\n" for entry in entries).encode()
        if not data:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(
        self, limit: int = 100, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[Entry], int]:
        """A page of what fits, the newest first, and how many fit in all."""
        found = []
        for line in reversed(self._lines()):
            entry = _parse(line)
            if entry is not None and all(
                not wanted or wanted == has
                for wanted, has in ((user, entry.user), (action, entry.action), (result, entry.result))
            ):
                found.append(entry)
        return found[offset : offset + limit], len(found)

    def _lines(self) -> list[bytes]:
        try:
            return self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []


def _parse(line: bytes) -> Entry | None:
    """A line that is whole and ours; a power cut may have left a part of one."""
    try:
        found = json.loads(line)
        entry = Entry(**found)
    except (ValueError, TypeError):
        return None
    return entry if all(isinstance(getattr(entry, name), str) for name in _OURS) else None
