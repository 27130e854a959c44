"""Space over time, for a chart: samples in a small SQLite file. Everybody's total every hour, each user's every day."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.hub.census import Census

_HOUR, _DAY = 3600, 86400
_KEEP_TOTAL, _KEEP_USERS = 90 * _DAY, 400 * _DAY


@dataclass(frozen=True)
class Sample:
    """The totals at one time."""

    time: datetime
    sessions: int
    session_bytes: int
    snapshots: int
    snapshot_bytes: int


class UsageHistory:
    """Samples on disk. A damaged file is started afresh: it is only for a chart."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, census: Census) -> None:
        """Remember a census; of one hour, or one user's day, the last stays."""
        now = int(census.taken_at.timestamp())
        total = (len(census.sessions), census.session_bytes, census.snapshot_count, census.snapshot_bytes)
        rows = [("", now // _HOUR * _HOUR, *total)]
        rows += [
            (name, now // _DAY * _DAY, len(u.sessions), u.session_bytes, u.snapshot_count, u.snapshot_bytes)
            for name, u in census.users.items()
            if not u.problem
        ]
        with self._open() as db:
            db.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?)", rows)
            db.execute("DELETE FROM samples WHERE user = '' AND time < ?", (now - _KEEP_TOTAL,))
            db.execute("DELETE FROM samples WHERE user != '' AND time < ?", (now - _KEEP_USERS,))

    def samples(self, user: str = "") -> list[Sample]:
        """Those of a user, or of all together, oldest first."""
        with self._open() as db:
            found = db.execute(
                "SELECT time, sessions, session_bytes, snapshots, snapshot_bytes FROM samples"
                " WHERE user = ? ORDER BY time",
                (user,),
            ).fetchall()
        return [Sample(datetime.fromtimestamp(time, UTC), *rest) for time, *rest in found]

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.closing(self._connect()) as db, db:
            yield db

    def _connect(self) -> sqlite3.Connection:
        for attempt in (1, 2):
            db = sqlite3.connect(self._path, timeout=10)
            try:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS samples (user TEXT, time INTEGER, sessions INTEGER,"
                    " session_bytes INTEGER, snapshots INTEGER, snapshot_bytes INTEGER,"
                    " PRIMARY KEY (user, time)) WITHOUT ROWID"
                )
                return db
            except sqlite3.OperationalError:
                db.close()
                raise
            except sqlite3.DatabaseError:
                db.close()
                if attempt == 2:
                    raise
                self._path.replace(self._path.with_suffix(".damaged"))
        raise AssertionError
