"""Memories left in files are a cache: bounded, taken once, and gone as soon as anything else needs the room."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.store import memory_files
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.host.store.memory_files import MemoryFiles
from wasm_kernel.model.administrator import Rules

KB = 1024
ONE, TWO = "one", "two"


@pytest.fixture
def store(tmp_path: Path) -> ChunkStore:
    store = ChunkStore(tmp_path / "store")
    with store.take() as take:
        for session_id in ("a", "b", "c"):
            for name in (ONE, TWO):
                take.commit(session_id, name, b"", b"")
    return store


def left(store: ChunkStore, session_id: str, name: str = ONE, size: int = 64 * KB) -> Path:
    files = MemoryFiles(store.folder, session_id)
    files.put(name, size, lambda handle: os.pwrite(handle, os.urandom(size), 0) and None)
    return store.folder / "memory" / session_id / f"{name}.mem"


def there(store: ChunkStore) -> list[str]:
    return sorted(str(p.relative_to(store.folder / "memory")) for p in (store.folder / "memory").rglob("*.*"))


def test_it_is_taken_once_and_can_be_given_back(store: ChunkStore) -> None:
    left(store, "a")
    files = MemoryFiles(store.folder, "a")
    path = files.claim(ONE)
    assert path is not None
    assert path.exists()
    assert files.claim(ONE) is None, "whoever took it has not said that it is right"
    left(store, "a")
    assert files.claim(ONE)
    files.give_back(ONE)
    assert files.claim(ONE)


def test_one_of_another_snapshot_is_not_taken_and_goes(store: ChunkStore) -> None:
    path = left(store, "a")
    assert MemoryFiles(store.folder, "a").claim(TWO) is None
    assert not path.exists()


def test_a_session_has_one(store: ChunkStore) -> None:
    left(store, "a", ONE)
    left(store, "a", TWO)
    assert there(store) == ["a/two.mem"]


def test_what_fails_while_it_is_written_is_not_there(store: ChunkStore) -> None:
    def write(handle: int) -> None:
        os.write(handle, b"half of it")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        MemoryFiles(store.folder, "a").put(ONE, KB, write)
    assert there(store) == []
    assert not any((store.folder / "new").iterdir())


def test_what_a_killed_writer_left_is_collected(store: ChunkStore) -> None:
    pid = os.fork()
    if not pid:
        MemoryFiles(store.folder, "a").put(ONE, KB, lambda handle: os.write(handle, b"x" * KB) and os._exit(9))
    os.waitpid(pid, 0)
    assert len(list((store.folder / "new").iterdir())) == 1
    store.collect(lambda body: ())
    assert not any((store.folder / "new").iterdir())
    assert there(store) == []


def test_old_ones_go_and_those_of_snapshots_that_are_gone(store: ChunkStore) -> None:
    old, gone = left(store, "a"), left(store, "b")
    left(store, "c")
    past = time.time() - 25 * 3600
    os.utime(old, (past, past))
    store.remove_manifest("b", ONE)
    assert gone.exists()
    store.collect(lambda body: ())
    assert there(store) == ["c/one.mem"]


def test_of_too_many_the_oldest_go(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, session_id in enumerate(("c", "b", "a")):
        path = left(store, session_id)
        os.utime(path, (time.time() - age, time.time() - age))
    monkeypatch.setattr(memory_files, "_MOST_TOGETHER", 140 * KB)
    memory_files.sweep(store.folder)
    assert there(store) == ["b/one.mem", "c/one.mem"]


def test_a_large_one_is_not_written(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    left(store, "a", ONE)
    monkeypatch.setattr(memory_files, "_MOST_BYTES", 32 * KB)
    left(store, "a", TWO)
    assert there(store) == [], "nor does the one before it stay, which is of no use any more"


def test_one_in_use_stays_and_a_leftover_goes(store: ChunkStore) -> None:
    left(store, "a")
    path = MemoryFiles(store.folder, "a").claim(ONE)
    assert path is not None
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        memory_files.sweep(store.folder)
        assert memory_files.drop_all(store.folder) == 0
        assert path.exists()
    memory_files.sweep(store.folder)
    assert not path.parent.exists()


def test_when_the_disk_is_nearly_full_they_go_and_none_is_written(
    store: ChunkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(store, "a")
    monkeypatch.setattr(memory_files, "_LEAST_FREE", 1 << 60)
    memory_files.sweep(store.folder)
    assert there(store) == []
    left(store, "a")
    assert there(store) == []


def test_they_count_for_the_administrator_and_never_keep_a_snapshot_out(
    store: ChunkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.stored_bytes()
    left(store, "a", size=200 * KB)
    assert store.stored_bytes() >= before + 200 * KB
    rules = Rules(snapshot_bytes=1024 * KB, sources={"snapshot_bytes": "rules.toml"})
    monkeypatch.setattr(administrator, "rules", lambda: rules)
    left(store, "b", size=100 * KB)
    assert there(store) == ["a/one.mem"], "together they may have a quarter of it"
    with store.take() as take:
        take.commit("c", "large", b"", take.put_many([memoryview(os.urandom(900 * KB // 16)) for _ in range(16)])[0])
    assert there(store) == [], "they made room"
    with store.take() as take, pytest.raises(NotAllowed):
        take.put_many([memoryview(os.urandom(200 * KB // 16)) for _ in range(16)])
