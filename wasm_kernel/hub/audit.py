"""The audit log: who did what to whose sessions, when, why, how many bytes, and how it ended. A JSON object per line.

    {"time": "2026-11-22T10:15:30.123456Z", "run": "5f…", "actor": "schedule" or an administrator's name,
     "action": "prune", "archive", "delete", "stop", "create", "delete snapshots", "warn" or "connect", "user": "ann",
     "session_id": "…", "snapshot_id": "…", "reason": "max_age_hours", "bytes": 2048,
     "result": "begun", "done", "failed", "live", "changed" or "finished", "detail": "…"}

Before sessions of a user are removed, a line says which ("begun", ids in its detail), so that whatever happens in
between is known; a line for each follows ("live": in use; "changed": used since it was decided). At the end of a run
one says how it went ("finished"). If nothing can be written here, nothing is removed.

A user may have any number of sessions, and so any number of lines. When room is needed, the oldest lines of
the users with the most go first: nobody can make lines about others, or about the service, disappear.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from wasm_kernel.host.durable import sync_folder, write_file

_TEXTS = ("time", "run", "actor", "action", "user", "session_id", "snapshot_id", "reason", "result", "detail")
_FILTERS = ("user", "action", "result")
_RUN = re.compile(rb'"run": "([0-9a-f]{1,40})"')
_MOST_OF_A_RUN = 500  # lines of a run that are shown


@dataclass(frozen=True)
class AuditEntry:
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


@dataclass(frozen=True)
class AuditedRun:
    """One run: its newest lines that match, oldest first, and how many there are."""

    run: str
    entries: list[AuditEntry]
    count: int

    @property
    def last(self) -> AuditEntry:
        """Its newest line."""
        return self.entries[-1]

    @property
    def finished(self) -> bool:
        """Whether it ended; else it goes on, or something ended it."""
        return any(entry.result == "finished" for entry in self.entries)

    @property
    def users(self) -> list[str]:
        """Whose sessions it was about."""
        return list(dict.fromkeys(entry.user for entry in self.entries if entry.user))

    def with_result(self, *results: str) -> list[AuditEntry]:
        """The lines that ended so."""
        return [entry for entry in self.entries if entry.result in results]

    @property
    def bytes(self) -> int:
        """What it freed."""
        ends = self.with_result("finished")
        return (
            ends[-1].bytes
            if ends
            else sum(e.bytes for e in self.with_result("done") if e.action not in ("warn", "connect"))
        )


class AuditLog:
    """Appends lines, and reads them back, newest first. A file that got too long becomes NAME.1, and so on; the two
    oldest are merged into one, in which each user has a fair share."""

    def __init__(self, path: Path, *, max_bytes: int = 4 << 20, keep: int = 9) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep

    def append(self, entries: Iterable[AuditEntry]) -> None:
        """Write lines, all of them or none, and make them durable."""
        data = "".join(json.dumps(asdict(entry)) + "\n" for entry in entries).encode()
        if not data:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked() as handle:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # a power cut took the rest of that line
                data = b"\n" + data
            if os.write(handle, data) != len(data):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(handle)
            if not size:
                sync_folder(self._path.parent)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The file to write to, which nobody else writes to or rotates meanwhile."""
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not _is_at(handle, self._path):
                    continue
                if os.fstat(handle).st_size >= self._max_bytes:
                    self._rotate()
                    continue
                yield handle
                return
            finally:
                os.close(handle)

    def _rotate(self) -> None:
        oldest = self._numbered(self._keep)
        if oldest.exists():
            self._merge(self._numbered(self._keep - 1), oldest)
        for number in range(self._keep - 1, -1, -1):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number).rename(self._numbered(number + 1))

    def _merge(self, newer: Path, oldest: Path) -> None:
        """Merge two files into one. If interrupted, lines are there twice until it is done again."""
        lines = [*oldest.read_bytes().splitlines()]
        with contextlib.suppress(FileNotFoundError):
            lines += newer.read_bytes().splitlines()
        kept = fair_share(list(dict.fromkeys(lines)), self._max_bytes)
        write_file(newer, b"".join(line + b"\n" for line in kept))  # which takes the oldest's place next

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def read(
        self, limit: int = 100, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[AuditEntry], int]:
        """A page of the entries that match, newest first, and how many match in total."""
        found, count = [], 0
        for line in self._matching(user, action, result):
            count += 1
            if offset < count <= offset + limit:
                entry = _parse(line)
                if entry is not None:
                    found.append(entry)
        return found, count

    def runs(
        self, limit: int = 50, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[AuditedRun], int]:
        """A page of the runs that have lines that match, newest first, and how many such runs there are."""
        counts: Counter[bytes] = Counter()
        found: dict[bytes, list[AuditEntry]] = {}
        for line in self._matching(user, action, result):
            match = _RUN.search(line)
            run = match[1] if match is not None else b""
            counts[run] += 1
            if offset < len(counts) <= offset + limit and counts[run] == 1:
                found[run] = []
            if run in found and len(found[run]) < _MOST_OF_A_RUN:
                entry = _parse(line)
                if entry is not None:
                    found[run].append(entry)
        shown = [AuditedRun(run.decode(), e[::-1], counts[run]) for run, e in found.items() if e]
        return shown, len(counts)

    def _matching(self, user: str, action: str, result: str) -> Iterator[bytes]:
        """The lines that match, newest first, not yet parsed."""
        wanted = [
            f'"{name}": {json.dumps(value)}'.encode()
            for name, value in zip(_FILTERS, (user, action, result), strict=True)
            if value
        ]
        for line in self._lines():
            if all(part in line for part in wanted) and line.endswith(b"}"):
                yield line

    def _lines(self) -> Iterator[bytes]:
        for number in range(self._keep + 1):
            try:
                data = self._numbered(number).read_bytes()
            except FileNotFoundError:
                continue
            yield from reversed(data.splitlines())


def fair_share(lines: list[bytes], most: int) -> list[bytes]:
    """The lines to keep in ``most`` bytes: each user's newest, up to the same size.

    ``lines``: oldest first, as is the result.
    """
    users = [_user_of(line) for line in lines]
    sizes: Counter[str] = Counter()
    for user, line in zip(users, lines, strict=True):
        sizes[user] += len(line) + 1
    share, left = 0, most
    for number, size in enumerate(sorted(sizes.values())):
        share = left // (len(sizes) - number)
        if size > share:
            break
        share, left = size, left - size
    kept = []
    spent: Counter[str] = Counter()
    for user, line in zip(reversed(users), reversed(lines), strict=True):
        spent[user] += len(line) + 1
        if spent[user] <= share:
            kept.append(line)
    return kept[::-1]


def _user_of(line: bytes) -> str:
    entry = _parse(line)
    return entry.user if entry is not None else ""


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _parse(line: bytes) -> AuditEntry | None:
    """A line that is complete and ours."""
    try:
        entry = AuditEntry(**json.loads(line))
    except (ValueError, TypeError):
        return None
    return entry if all(isinstance(getattr(entry, name), str) for name in _TEXTS) else None
