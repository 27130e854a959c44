"""The store of snapshots beside the same chunks as blobs in SQLite. DESIGN.md says why there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from bench.report import Section, megabytes, milliseconds, number
from bench.rounds import Samples, interleave
from bench.setting import Setting
from wasm_kernel.host.store import packs
from wasm_kernel.host.store.chunks import HASH, ChunkStore

_CHUNK, _PAGE = 64 << 10, 4 << 10
_SMALL = (450, 10)  # pages and chunks that a trivial cell changes


class _Store(Protocol):
    """What a recorder needs of a store."""

    def put(self, snapshot: str, datas: Sequence[memoryview]) -> list[bytes]: ...
    def read(self, names: Sequence[bytes], lengths: Sequence[int]) -> None: ...
    def delete(self, snapshot: str) -> None: ...


class _Packs:
    """Ours, with one thread, as checkpoints are written."""

    def __init__(self, folder: Path) -> None:
        self._store = ChunkStore(folder)

    def put(self, snapshot: str, datas: Sequence[memoryview]) -> list[bytes]:
        with self._store.take(hurry=False) as transaction:
            names = transaction.put_many(datas)
            transaction.commit("session", snapshot, b"", b"".join(names))
        return names

    def read(self, names: Sequence[bytes], lengths: Sequence[int]) -> None:
        self._store.read_into([(name, memoryview(bytearray(n))) for name, n in zip(names, lengths, strict=True)])

    def delete(self, snapshot: str) -> None:
        self._store.remove_manifest("session", snapshot)
        self._store.collect(_names, wait=60)


class _Sqlite:
    """The same names and the same compression, in one file: write-ahead log, an fsync for each transaction."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._database = sqlite3.connect(folder / "chunks.sqlite", isolation_level=None, timeout=60)
        self._database.execute(f"PRAGMA page_size = {16 << 10}")  # faster here than 4 and 64 KiB
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS chunk (name BLOB PRIMARY KEY, codec, data BLOB)")
        self._database.execute("CREATE TABLE IF NOT EXISTS manifest (name TEXT PRIMARY KEY, chunks BLOB)")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        yield
        self._database.execute("COMMIT")

    def put(self, snapshot: str, datas: Sequence[memoryview]) -> list[bytes]:
        packer = packs.Packer()
        names = [packs.hash_of(data) for data in datas]
        with self._transaction():
            for name, data in zip(names, datas, strict=True):
                if self._database.execute("SELECT 1 FROM chunk WHERE name = ?", (name,)).fetchone() is None:
                    blob, codec = packer.pack(data)
                    self._database.execute("INSERT INTO chunk VALUES (?, ?, ?)", (name, codec, blob))
            self._database.execute("INSERT INTO manifest VALUES (?, ?)", (snapshot, b"".join(names)))
        return names

    def read(self, names: Sequence[bytes], lengths: Sequence[int]) -> None:
        decompressor = packs.new_decompressor()
        for name, length in zip(names, lengths, strict=True):
            codec, blob = self._database.execute("SELECT codec, data FROM chunk WHERE name = ?", (name,)).fetchone()
            data = packs.unpack(blob, codec, length, decompressor)
            if packs.hash_of(data) != name:
                raise RuntimeError("a chunk is damaged")
            memoryview(bytearray(length))[:] = data

    def delete(self, snapshot: str) -> None:
        with self._transaction():
            self._database.execute("DELETE FROM manifest WHERE name = ?", (snapshot,))
            live = {name for (body,) in self._database.execute("SELECT chunks FROM manifest") for name in _names(body)}
            dead = [name for (name,) in self._database.execute("SELECT name FROM chunk") if name not in live]
            self._database.executemany("DELETE FROM chunk WHERE name = ?", [(name,) for name in dead])
        self._database.execute("VACUUM")
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


_CONTENDERS: dict[str, Callable[[Path], _Store]] = {"packs": _Packs, "SQLite": _Sqlite}


def run(setting: Setting) -> Section:
    """Measure both on a disk of this machine."""
    large = setting.rounds.large // 4
    measures = [partial(_measure, setting, name, make, large) for name, make in _CONTENDERS.items()]
    found = interleave(measures, setting.rounds.store, setting.tick, warm_up=False)
    return _section(found, large)


def _measure(setting: Setting, label: str, make: Callable[[Path], _Store], large: int) -> Mapping[str, float]:
    folder = setting.workspace() / "store"
    store = make(folder)
    small = [_small() for _ in range(20)]
    found: dict[str, float] = {}

    def timed(what: str, action: Callable[[], object], times: int = 1) -> None:
        started = time.perf_counter()
        action()
        found[f"{label} {what}"] = (time.perf_counter() - started) / times

    timed("small", lambda: [store.put(f"small-{n}", datas) for n, datas in enumerate(small)], len(small))
    found[f"{label} small bytes"] = _disk(folder) / len(small)
    before = _disk(folder)
    data = _noise(large, _CHUNK)
    names: list[bytes] = []
    timed("large", lambda: names.extend(store.put("large", data)))
    found[f"{label} large bytes"] = (_disk(folder) - before) / large
    timed("read", lambda: store.read(names, [len(d) for d in data]))
    timed("delete", lambda: store.delete("large"))
    found[f"{label} meanwhile"] = _longest_meanwhile(make, folder, large)
    shutil.rmtree(folder)
    return found


def _longest_meanwhile(make: Callable[[Path], _Store], folder: Path, large: int) -> float:
    """The longest that a small snapshot takes while another thread stores a large one."""
    data = _noise(large, _CHUNK)
    writer = threading.Thread(target=lambda: make(folder).put("beside", data))
    store, longest, turn = make(folder), 0.0, 0
    writer.start()
    while writer.is_alive():
        datas = _small()
        started = time.perf_counter()
        store.put(f"meanwhile-{turn}", datas)
        longest, turn = max(longest, time.perf_counter() - started), turn + 1
        time.sleep(0.02)
    return longest


def _small() -> list[memoryview]:
    """What a trivial cell changes: pages, and a few whole chunks, half of it compressible."""
    pages, chunks = _SMALL
    return [memoryview(os.urandom(size // 2) + bytes(size // 2)) for size in (*[_PAGE] * pages, *[_CHUNK] * chunks)]


def _noise(size: int, piece: int) -> list[memoryview]:
    return [memoryview(os.urandom(piece)) for _ in range(size // piece)]


def _names(body: bytes) -> Iterable[bytes]:
    return (body[at : at + HASH] for at in range(0, len(body), HASH))


def _disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _section(found: Samples, large: int) -> Section:
    def row(label: str, key: str, show: Callable[[Samples, str], str] = milliseconds) -> list[str]:
        ratio = number(found.ratio(*(f"{name} {key}" for name in _CONTENDERS)))
        return [label, *(show(found, f"{name} {key}") for name in _CONTENDERS), f"{ratio}x"]

    def times(samples: Samples, name: str) -> str:
        return f"{samples.median(name):.2f}x"

    def size(samples: Samples, name: str) -> str:
        return f"{megabytes(samples.median(name))} MB"

    pages, chunks = _SMALL
    return Section(
        "Stores of snapshots",
        "Ours beside SQLite (write-ahead log, `synchronous = FULL`, pages of 16 KiB), with the same names (BLAKE3) and "
        "the same compression, written by one thread (ours is read by two, SQLite by one); times in ms. Small: "
        f"{pages} pages of 4 KiB and {chunks} chunks of 64 KiB, half of it zeros, in one transaction. Large: "
        f"{large >> 20} MiB of random bytes in chunks of 64 KiB; on the disk: in relation to that, the log included. "
        "Deleted: until its space is the system's again (`collect`; `DELETE` and `VACUUM`). Meanwhile: the longest "
        "that a small one takes while another thread stores a large one.",
        ["", "packs", "SQLite blobs", "packs/SQLite"],
        [
            row("small, each", "small"),
            row("small, each on the disk", "small bytes", size),
            row("large, stored", "large"),
            row("large, read and checked", "read"),
            row("large, on the disk", "large bytes", times),
            row("large, deleted", "delete"),
            row("small meanwhile, longest", "meanwhile"),
        ],
    )
