"""The input history of a session, and what came of its cells: on the host, across restarts, in a small database."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.model.records import BadRecord, format_time, parse_time
from wasm_kernel.model.timeline_rows import TimelineRow, row_of

_MAX_SOURCE = 1 << 20  # larger cells are not recorded
_KEPT = 10_000
_SHOWN_CODE = 500  # characters
_ADDED_LATER = {"unsaved": "INTEGER", "ended": "TEXT", "seconds": "REAL", "details": "TEXT", "undone": "INTEGER"}
Row = tuple[int, int, str | tuple[str, None]]
Key = tuple[int | None, float | None]  # what tells the runs of cells apart: number, and seconds to the microsecond


class History:
    """Sources of cells by kernel run and line, as IPython numbers them. Errors here never fail a cell.

    Without a path, the history ends with this kernel.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._run = 0

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            path = self._path
            if path is None:
                self._database = self._connect(":memory:")
                return self._database
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                self._database = self._connect(str(path))
            except sqlite3.OperationalError:  # in use, or the disk is full: what is in it stays
                raise
            except sqlite3.DatabaseError:  # damaged: start a new one
                path.unlink(missing_ok=True)
                self._database = self._connect(str(path))
        return self._database

    def _connect(self, path: str) -> sqlite3.Connection:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=2)
        try:
            self._prepare(database)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        # Nobody else opens it, so the journal's index need not be a mapped file: on a full disk that is a bus error.
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        database.execute(
            "CREATE TABLE IF NOT EXISTS history"
            " (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, line INTEGER NOT NULL, source TEXT NOT NULL)"
        )
        columns = {column[1] for column in database.execute("PRAGMA table_info(history)")}
        for name, kind in _ADDED_LATER.items():
            if name not in columns:
                database.execute(f"ALTER TABLE history ADD COLUMN {name} {kind}")
        self._run = database.execute("SELECT COALESCE(MAX(run), 0) + 1 FROM history").fetchone()[0]
        database.execute("DELETE FROM history WHERE id <= (SELECT MAX(id) FROM history) - ?", (_KEPT,))

    def add(self, line: int, source: str, *, runs: bool = False) -> int:
        """Record a cell; ``runs``: it is about to run in the guest, and unsaved until `saved`. Its row, or 0."""
        if source.strip() and len(source) <= _MAX_SOURCE:
            with contextlib.suppress(sqlite3.Error, OSError):
                done = self._open().execute(
                    "INSERT INTO history (run, line, source, unsaved) VALUES (?, ?, ?, ?)",
                    (self._run, line, source.encode("utf-8", "replace").decode(), 1 if runs else None),
                )
                return done.lastrowid or 0
        return 0

    def saved(self, row: int) -> None:
        """There is a snapshot with all that the cells up to this row did. On any thread."""
        with contextlib.suppress(sqlite3.Error, OSError):
            self._open().execute("UPDATE history SET unsaved = NULL WHERE unsaved AND id <= ?", (row,))

    def unsaved(self, after: int | None = None) -> list[int]:
        """The numbers of the last cells that ran, if no snapshot has what they did; those after that number.

        No clock is asked: they step back.
        """
        try:
            rows = self._open().execute("SELECT line FROM history WHERE unsaved ORDER BY id").fetchall()
        except (sqlite3.Error, OSError):
            return []
        numbers = [row[0] for row in rows]
        return numbers[len(numbers) - numbers[::-1].index(after) :] if after in numbers else numbers

    # ---- what came of cells

    def finished(self, row: int, metadata: Mapping[str, Any]) -> None:
        """A cell has run: what its checkpoint says of it, which stays when the checkpoint goes. On any thread."""
        details = {name: metadata.get(name) for name in ("ok", "variables", "files")}
        with contextlib.suppress(sqlite3.Error, OSError, ValueError):
            self._open().execute(
                "UPDATE history SET ended = ?, seconds = ?, details = ? WHERE id = ?",
                (format_time(datetime.now(UTC)), metadata.get("seconds"), json.dumps(details), row),
            )

    def mark_undone(self, undone: Collection[Key], others: Collection[Key]) -> None:
        """Remember which cells were undone, and which were not, or no longer are. On any thread."""
        with contextlib.suppress(sqlite3.Error, OSError):
            self._open().executemany(
                "UPDATE history SET undone = ? WHERE line = ? AND seconds = ? AND undone IS NOT ?",
                [(flag, *key, flag) for flag, keys in ((1, undone), (None, others)) for key in keys],
            )

    def count_older(self, kept: Collection[Key]) -> int:
        """How many cells ran that are not among those that are kept."""
        known = set(kept)
        try:
            found = self._open().execute("SELECT line, seconds FROM history WHERE ended IS NOT NULL")
            return sum(key not in known for key in found)
        except (sqlite3.Error, OSError):
            return 0

    def older(self, kept: Collection[Key], skip: int, count: int) -> list[TimelineRow]:
        """These cells, newest first."""
        rows: list[TimelineRow] = []
        known = set(kept)
        with contextlib.suppress(sqlite3.Error, OSError):
            found = self._open().execute(
                "SELECT line, seconds, substr(source, 1, ?), ended, details, undone FROM history"
                " WHERE ended IS NOT NULL ORDER BY id DESC",
                (_SHOWN_CODE,),
            )
            for line, seconds, source, ended, details, undone in found:
                if (line, seconds) in known:
                    continue
                if skip > 0:
                    skip -= 1
                    continue
                with contextlib.suppress(ValueError, TypeError, BadRecord):
                    about = {**json.loads(details), "number": line, "seconds": seconds, "cell": source.strip()}
                    rows.append(row_of(about, parse_time(ended), state="undone" if undone else "past"))
                if len(rows) >= count:
                    break
        return rows

    def close(self) -> None:
        """Close the database."""
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def answer(self, content: dict[str, Any]) -> list[Row]:
        """The rows that a history_request asks for."""
        kind, output = content.get("hist_access_type", "tail"), bool(content.get("output"))
        try:
            if kind == "range":
                rows = self._range(content.get("session") or 0, content.get("start"), content.get("stop"))
            elif kind == "search":
                rows = self._search(content.get("pattern") or "*", content.get("n"), bool(content.get("unique")))
            else:
                rows = self._newest("1", (), content.get("n"))
        except (sqlite3.Error, OSError, OverflowError):
            rows = []
        return [(run, line, (source, None) if output else source) for run, line, source in rows]

    def _newest(self, where: str, values: tuple[Any, ...], n: Any) -> list[tuple[int, int, str]]:
        limit = n if type(n) is int and n >= 0 else _KEPT
        rows = self._open().execute(
            f"SELECT run, line, source FROM history WHERE {where} ORDER BY id DESC LIMIT ?",
            (*values, limit),
        )
        return list(rows)[::-1]

    def _range(self, session: int, start: Any, stop: Any) -> list[tuple[int, int, str]]:
        self._open()
        run = self._run + session if session <= 0 else session
        rows = self._open().execute(
            "SELECT run, line, source FROM history WHERE run = ? AND line >= ? AND line < ? ORDER BY id",
            (run, start if type(start) is int else 0, stop if type(stop) is int else 1 << 60),
        )
        return list(rows)

    def _search(self, pattern: str, n: Any, unique: bool) -> list[tuple[int, int, str]]:
        if not unique:
            return self._newest("source GLOB ?", (pattern,), n)
        return _last_of_each(self._newest("source GLOB ?", (pattern,), None), n)


def _last_of_each(rows: Iterable[tuple[int, int, str]], n: Any) -> list[tuple[int, int, str]]:
    newest = {source: (run, line, source) for run, line, source in rows}
    found = sorted(newest.values())
    return found[-n:] if type(n) is int and n > 0 else found
