"""The administrator's bound on snapshots holds while they are written, not only at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.model.administrator import Rules

MB = 1 << 20


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChunkStore:
    rules = Rules(snapshot_bytes=MB, sources={"snapshot_bytes": "rules.toml"})
    monkeypatch.setattr(administrator, "rules", lambda: rules)
    return ChunkStore(tmp_path / "store")


def written(store: ChunkStore) -> int:
    return sum(path.stat().st_size for path in (store.folder / "new").iterdir())


def test_whoever_writes_too_much_is_stopped_while_writing(store: ChunkStore) -> None:
    with store.take() as take:
        with pytest.raises(NotAllowed, match=r"1\.0 MB of snapshots .*rules\.toml"):
            for _ in range(100):
                take.put_many([memoryview(os.urandom(4096)) for _ in range(64)])
        assert written(store) < 5 * MB, "25 MB were to be written"
    assert written(store) == 0
    assert store.stored_bytes() == 0


def test_so_is_one_large_put(store: ChunkStore) -> None:
    with store.take() as take:
        with pytest.raises(NotAllowed):
            take.put_many([memoryview(os.urandom(16384)) for _ in range(2048)])
        assert written(store) < 16 * MB, "32 MB were to be written"


def test_what_is_there_counts(store: ChunkStore) -> None:
    with store.take() as take:
        take.commit("a", "one", b"", take.put(os.urandom(MB * 3 // 4)))
    with store.take() as take, pytest.raises(NotAllowed):
        take.put(os.urandom(MB // 2))
    with store.take() as take:
        take.commit("a", "two", b"", take.put(os.urandom(1000)))
