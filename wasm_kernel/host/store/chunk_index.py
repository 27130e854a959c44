"""Where each chunk is: a database that is nothing but a cache of what the packs say of themselves.

It may be missing, behind, damaged or locked at any time. Behind: `sync` compares it with the folder of packs. Damaged:
it is begun anew under the next number, never under the same name, because a process that still has the old one open
deletes that one's journal by its name. Not usable at all (read-only or full disk): it is kept in memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from wasm_kernel.host.store.packs import BadPack, Place, pack_names, possible, read_index

_VERSION = 1
_TIMEOUT = 20.0
_BATCH = 500
_ROOM = 1 << 20  # free bytes on the disk without which its file is not used
_FILE = re.compile(r"index-([0-9]{1,9})\.sqlite\Z")
_UNUSABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS packs (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS chunks (name BLOB PRIMARY KEY, pack INTEGER NOT NULL, offset INTEGER NOT NULL,
    stored INTEGER NOT NULL, raw INTEGER NOT NULL, codec INTEGER NOT NULL) WITHOUT ROWID;
"""
_PLACE = "SELECT chunks.name, packs.name, offset, stored, raw, codec FROM chunks JOIN packs ON packs.id = pack"
_T = TypeVar("_T")


class ChunkIndex:
    """Safe to use from several threads and processes. No method raises because of the database."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._packs = folder, folder / "packs"
        self._lock = threading.RLock()
        self._open: tuple[sqlite3.Connection, Path | None] | None = None
        self._synced = False

    def locate(self, names: Iterable[bytes]) -> dict[bytes, Place]:
        """The places that are known; whether they are right is for the reader to find out."""
        wanted = sorted(set(names))
        found: dict[bytes, Place] = {}

        def select(database: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), _BATCH):
                some = wanted[start : start + _BATCH]
                marks = ",".join("?" * len(some))
                found.update(_places(database.execute(f"{_PLACE} WHERE chunks.name IN ({marks})", some)))

        if wanted:
            self._do(select)
        return found

    def of_pack(self, pack: str) -> dict[bytes, Place]:
        """What is known of a pack whose own index can no longer be read."""
        return self._do(lambda database: dict(_places(database.execute(f"{_PLACE} WHERE packs.name = ?", (pack,)))))

    def add(self, places: Mapping[bytes, Place], *, gone: Iterable[str] = ()) -> None:
        """Chunks have these places from now on, and some packs are gone."""

        def change(database: sqlite3.Connection) -> None:
            with _transaction(database):
                _forget_packs(database, gone)
                _insert(database, places, "REPLACE")

        self._do(change)

    def forget(self, names: Iterable[bytes]) -> None:
        """Chunks turned out to be lost: whoever puts one again has to store it again."""
        rows = [(name,) for name in names]

        def change(database: sqlite3.Connection) -> None:
            with _transaction(database):
                database.executemany("DELETE FROM chunks WHERE name = ?", rows)

        self._do(change)

    def sync(self) -> None:
        """Learn of packs that are not known, and forget those that are gone."""
        self._do(self._sync)

    def sync_once(self) -> None:
        """The same, unless it was done before."""
        if not self._synced:
            self.sync()
            self._synced = True

    def refresh(self) -> None:
        """Close a database that another process has replaced, or that is only in memory."""
        with self._lock:
            if self._open and not (self._open[1] and self._open[1].exists()):
                self.close()

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            if self._open:
                with contextlib.suppress(sqlite3.Error):
                    self._open[0].close()
                self._open = None

    # ---- the database

    def _do(self, action: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            for attempt in range(3):
                path = self._newest()
                try:
                    if not self._has_room() and not (self._open and self._open[1] is None):
                        self.close()
                        self._open_memory()
                    if self._open is None:
                        self._open_file(path)
                    assert self._open
                    return action(self._open[0])
                except sqlite3.Error as e:
                    path = self._open[1] if self._open and self._open[1] else path
                    self.close()
                    if attempt == 0 and (getattr(e, "sqlite_errorcode", 0) or 0) & 0xFF not in _UNUSABLE:
                        self._give_up(path)
                    else:
                        self._open_memory()
            raise AssertionError("a database in memory fails")

    def _has_room(self) -> bool:
        """Sqlite maps a file that belongs to its journal: writing there on a full disk can be a bus error."""
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return True  # there is no store yet
        return found.f_bavail * found.f_frsize > _ROOM

    def _numbers(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            found = (_FILE.match(name) for name in os.listdir(self._folder))  # noqa: PTH208 - names, no paths
            return sorted(int(match[1]) for match in found if match)
        return []

    def _newest(self) -> Path:
        return self._folder / f"index-{max(self._numbers(), default=1)}.sqlite"

    def _give_up(self, path: Path) -> None:
        """Begin the next database in place of a damaged one."""
        numbers = self._numbers()
        match = _FILE.match(path.name)
        following = (int(match[1]) if match else 0) + 1
        with contextlib.suppress(OSError):
            if max(numbers, default=0) < following:
                os.close(
                    os.open(self._folder / f"index-{following}.sqlite", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                )
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)

    def _open_file(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # sqlite gives its journal the mode of the database
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        database = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
        self._open = database, path
        _use_journal(database)
        database.execute("PRAGMA synchronous=NORMAL")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError("of another version")
        if version == 0:
            self._fill(database)

    def _open_memory(self) -> None:
        database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._open = database, None
        self._fill(database)

    def _fill(self, database: sqlite3.Connection) -> None:
        database.executescript(_SCHEMA)
        self._sync(database)
        database.execute(f"PRAGMA user_version={_VERSION}")

    def _sync(self, database: sqlite3.Connection) -> None:
        with _transaction(database):  # before looking: what others add to the index is in the folder by then
            there = pack_names(self._packs)
            known = {name for (name,) in database.execute("SELECT name FROM packs")}
            _forget_packs(database, known - there)
            for pack in there - known:
                with contextlib.suppress(OSError):
                    try:
                        places = read_index(self._packs, pack)
                    except BadPack:
                        places = {}
                    database.execute("INSERT OR IGNORE INTO packs (name) VALUES (?)", (pack,))
                    _insert(database, places, "IGNORE")


def _use_journal(database: sqlite3.Connection) -> None:
    """Sqlite does not wait by itself when two processes do this at once."""
    end = time.monotonic() + _TIMEOUT
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _places(rows: Iterable[tuple[bytes, str, int, int, int, int]]) -> Iterator[tuple[bytes, Place]]:
    for name, pack, offset, stored, raw, codec in rows:
        if type(offset) is type(stored) is type(raw) is type(codec) is int:  # sqlite does not enforce types
            place = Place(pack, offset, stored, raw, codec)
            if possible(place):
                yield name, place


def _insert(database: sqlite3.Connection, places: Mapping[bytes, Place], conflict: str) -> None:
    numbers: dict[str, int] = {}
    for pack in {place.pack for place in places.values()}:
        database.execute("INSERT OR IGNORE INTO packs (name) VALUES (?)", (pack,))
        numbers[pack] = database.execute("SELECT id FROM packs WHERE name = ?", (pack,)).fetchone()[0]
    rows = ((name, numbers[place.pack], *place[1:]) for name, place in sorted(places.items()))
    database.executemany(f"INSERT OR {conflict} INTO chunks VALUES (?,?,?,?,?,?)", rows)


def _forget_packs(database: sqlite3.Connection, packs: Iterable[str]) -> None:
    names = [(name,) for name in packs]
    if names:
        database.executemany("DELETE FROM packs WHERE name = ?", names)
        database.execute("DELETE FROM chunks WHERE pack NOT IN (SELECT id FROM packs)")
