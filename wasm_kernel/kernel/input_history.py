"""The input history of a session: kept on the host, across restarts, in a small database."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_MAX_SOURCE = 1 << 20  # larger cells are not recorded
_KEPT = 10_000
Row = tuple[int, int, str | tuple[str, None]]


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
            " (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, line INTEGER NOT NULL, source TEXT NOT NULL,"
            " unsaved INTEGER)"
        )
        if not any(column[1] == "unsaved" for column in database.execute("PRAGMA table_info(history)")):
            database.execute("ALTER TABLE history ADD COLUMN unsaved INTEGER")  # made by an earlier version
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
