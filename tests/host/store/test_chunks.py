"""The store of chunks: what is put is what is read, whatever happens to the process, the disk or the files."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.store.chunk_churn import SIZE, chunk, names_in
from wasm_kernel.host.store import chunk_index, collect, manifests, packs
from wasm_kernel.host.store.chunks import (
    HASH,
    MAX_RAW,
    ZERO,
    BadManifest,
    ChunkStore,
    DamagedChunk,
    StoreBusy,
)


def save(store: ChunkStore, name: str, seeds: list[int], group: str = "group") -> list[bytes]:
    with store.take() as take:
        names = take.put_many([memoryview(chunk(seed)) for seed in seeds])
        take.commit(group, name, b'{"seeds": %d}' % len(seeds), b"".join(names))
    return names


def load(store: ChunkStore, name: str, group: str = "group") -> list[bytes]:
    names = names_in(store.read_manifest(group, name))
    data = bytearray(SIZE * len(names))
    view = memoryview(data)
    store.read_into([(name, view[i * SIZE : (i + 1) * SIZE]) for i, name in enumerate(names)])
    return [bytes(view[i * SIZE : (i + 1) * SIZE]) for i in range(len(names))]


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def pack_files(folder: Path) -> list[Path]:
    return sorted((folder / "packs").iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChunkStore]:
    store = ChunkStore(tmp_path / "store")
    yield store
    store.close()


# ---- what it is for


def test_what_is_put_is_read(store: ChunkStore) -> None:
    names = save(store, "one", [1, 2, 3])
    assert names == [blake3(chunk(seed)).digest() for seed in (1, 2, 3)]
    assert load(store, "one") == [chunk(1), chunk(2), chunk(3)]
    assert store.read_chunk(names[1]) == chunk(2)
    assert store.manifest_names() == [("group", "one")]
    assert store.manifest_names("group") == [("group", "one")]
    assert store.manifest_names("other") == []
    assert store.manifest_head("group", "one") == b'{"seeds": 3}'
    again = ChunkStore(store.folder)
    assert load(again, "one") == [chunk(1), chunk(2), chunk(3)]
    again.close()


@pytest.mark.parametrize("size", [1, 100, 65536, 65537, MAX_RAW])
def test_chunks_of_any_length_and_any_view(store: ChunkStore, size: int) -> None:
    datas = [chunk(1, size), b"x" * size, chunk(2, size)[: size // 2] + bytes(size - size // 2)]
    with store.take() as take:
        names = [take.put(data) for data in datas] + take.put_many([memoryview(bytearray(data)) for data in datas])
        take.commit("g", "n", b"", b"")
    assert names[:3] == names[3:]
    for name, data in zip(names, datas, strict=False):
        if name != ZERO:
            assert store.read_chunk(name) == data
        target = bytearray(b"?" * size)
        store.read_into([(name, memoryview(target))])
        assert target == data


def test_views_of_other_formats(store: ChunkStore) -> None:
    data = chunk(5, 800)
    with store.take() as take:
        name = take.put(memoryview(data).cast("d"))
        take.commit("g", "n", b"", name)
    target = bytearray(800)
    store.read_into([(name, memoryview(target).cast("Q"))])
    assert target == data


def test_too_large_a_chunk_is_refused(store: ChunkStore) -> None:
    with store.take() as take, pytest.raises(ValueError, match="at most"):
        take.put(bytes(MAX_RAW + 1))


def test_zeros_cost_nothing(store: ChunkStore) -> None:
    with store.take() as take:
        assert take.put(bytes(65536)) == take.put(b"") == take.put(bytes(3)) == ZERO
        assert take.put_many([memoryview(bytes(SIZE))] * 300) == [ZERO] * 300
        assert take.put(bytes(SIZE - 1) + b"\1") != ZERO
        assert take.put(b"\1" + bytes(SIZE - 1)) != ZERO
        assert take.put(bytes(100) + b"\1" + bytes(SIZE)) != ZERO
        take.commit("g", "n", b"", ZERO)
    target = bytearray(b"x" * (2 * MAX_RAW + 5))
    store.read_into([(ZERO, memoryview(target))])
    assert not any(target)
    with pytest.raises(ValueError, match="any length"):
        store.read_chunk(ZERO)


def test_the_same_chunk_is_stored_once(store: ChunkStore) -> None:
    save(store, "one", [1, 2, 2, 1])
    size = store.stored_bytes()
    with store.take() as take:
        take.put_many([memoryview(chunk(1)), memoryview(chunk(2))])
        assert take.stored == 0
        name = take.put(chunk(3))
        assert take.stored == SIZE
        assert take.put(chunk(3)) == name
        assert take.stored == SIZE
        take.commit("group", "two", b"", name)
    assert size + SIZE < store.stored_bytes() < size + SIZE + 1000
    other = ChunkStore(store.folder)
    with other.take() as take:
        take.put(chunk(3))
        assert take.stored == 0, "seen by others"
    other.close()


def test_the_same_chunk_is_stored_once_by_all_processes(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    program = (
        "import sys; from pathlib import Path; from tests.host.store.chunk_churn import *\n"
        "store = ChunkStore(Path(sys.argv[1]))\n"
        "with store.take() as take: [take.put(chunk(i)) for i in (1, 2, 3)]; print(take.stored); "
        "take.commit('group', 'two', b'', take.put(chunk(3)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(store.folder)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == SIZE
    with store.take() as take:
        take.put(chunk(3))
        assert take.stored == 0
    assert load(store, "two") == [chunk(3)]


def test_what_can_be_compressed_is(store: ChunkStore) -> None:
    text = b"".join(b"%d: some text\n" % i for i in range(4000))
    with store.take() as take:
        name = take.put(text)
        assert take.stored < len(text) / 2
        take.commit("g", "n", b"", name)
    assert store.read_chunk(name) == text


def test_many_chunks_of_many_kinds_in_any_order(store: ChunkStore) -> None:
    source = random.Random(7)
    datas = [chunk(i, 65536) if i % 3 else (b"%06d" % i) * source.randrange(1, 10000) for i in range(120)]
    with store.take() as take:
        names = take.put_many([memoryview(data) for data in datas])
        take.commit("g", "n", b"", b"".join(names))
    order = [source.randrange(120) for _ in range(200)]
    targets = [bytearray(len(datas[i])) for i in order]
    store.read_into([(names[i], memoryview(target)) for i, target in zip(order, targets, strict=True)])
    assert [bytes(target) for target in targets] == [datas[i] for i in order]


def test_a_pack_that_grows_large_is_followed_by_another(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 5 * SIZE)
    save(store, "one", list(range(23)))
    assert len(pack_files(store.folder)) == 5
    assert load(store, "one") == [chunk(i) for i in range(23)]


def test_nothing_is_made_or_opened_before_it_is_needed(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "none")
    assert store.manifest_names() == []
    assert store.stored_bytes() == 0
    assert store.remove_manifest("g", "n") is False
    assert store.collect(names_in) == collect.Collected()
    assert store.verify(names_in).whole
    with pytest.raises(FileNotFoundError):
        store.read_manifest("g", "n")
    with pytest.raises(FileNotFoundError):
        store.manifest_head("g", "n")
    with pytest.raises(DamagedChunk):
        store.read_chunk(b"x" * HASH)
    assert not (tmp_path / "none").exists()
    save(store, "one", [1])
    assert (tmp_path / "none" / "index-1.sqlite").exists(), "not in memory for ever"
    store.close()


def test_only_the_owner_can_look(store: ChunkStore) -> None:
    store.folder.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        save(store, "one", [1])
    finally:
        os.umask(before)
    found = [store.folder, *store.folder.rglob("*")]
    assert len(found) > 6
    assert [p for p in found if p.stat().st_mode & 0o077] == []


# ---- manifests


def test_a_manifest_is_never_overwritten(store: ChunkStore) -> None:
    save(store, "one", [1])
    with store.take() as take:
        name = take.put(chunk(2))
        with pytest.raises(FileExistsError, match="'one' in 'group'"):
            take.commit("group", "one", b"", name)
        take.commit("group", "two", b"", name)  # the same take goes on
        with pytest.raises(FileExistsError):
            take.commit("group", "two", b"", name)
    assert load(store, "one") == [chunk(1)]
    assert load(store, "two") == [chunk(2)]
    assert os.listdir(store.folder / "new") == []


def test_a_take_can_commit_several(store: ChunkStore) -> None:
    with store.take() as take:
        for i in range(5):
            take.commit("group", f"n{i}", b"", take.put(chunk(i)) + take.put(chunk(i + 1)))
        assert take.stored == 6 * SIZE
    for i in range(5):
        assert load(store, f"n{i}") == [chunk(i), chunk(i + 1)]


def test_what_is_not_committed_was_never_there(store: ChunkStore) -> None:
    save(store, "one", [1])
    before = [name for name in files(store.folder) if "sqlite" not in name]
    with pytest.raises(ZeroDivisionError), store.take() as take:
        take.put_many([memoryview(chunk(i, 65536)) for i in range(200)])
        raise ZeroDivisionError
    with store.take() as take:
        take.put(chunk(9))
    assert [name for name in files(store.folder) if "sqlite" not in name] == before
    with pytest.raises(DamagedChunk):
        store.read_chunk(blake3(chunk(9)).digest())


def test_removing_manifests(store: ChunkStore) -> None:
    save(store, "one", [1])
    save(store, "two", [1])
    assert store.remove_manifest("group", "one") is True
    assert store.remove_manifest("group", "one") is False
    assert store.manifest_names() == [("group", "two")]
    assert store.remove_manifest("group", "two") is True
    assert os.listdir(store.folder / "manifests") == []
    save(store, "two", [1])
    assert load(store, "two") == [chunk(1)]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a" * 129, "-a", "a.b", "a\0", "ü", "a\n"])
def test_names_that_could_be_paths(store: ChunkStore, name: str) -> None:
    with store.take() as take:
        for group, plain in ((name, "x"), ("x", name)):
            with pytest.raises(ValueError, match="letters, digits"):
                take.commit(group, plain, b"", b"")
            for method in (store.read_manifest, store.manifest_head, store.remove_manifest):
                with pytest.raises(ValueError, match="letters, digits"):
                    method(group, plain)


def test_a_manifest_has_its_bounds(store: ChunkStore) -> None:
    with store.take() as take:
        for head, body in ((bytes(manifests.MAX_HEAD + 1), b""), (b"", bytes(manifests.MAX_BODY + 1))):
            with pytest.raises(ValueError, match="at most"):
                take.commit("g", "n", head, body)
        head = chunk(1, manifests.MAX_HEAD)
        take.commit("g", "n", head, bytes(manifests.MAX_BODY))
    assert store.manifest_head("g", "n") == head
    assert store.read_manifest("g", "n") == bytes(manifests.MAX_BODY)
    assert store.stored_bytes() < 2 << 20


def test_a_damaged_manifest_is_the_only_one(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    save(store, "two", [2, 3])
    path = store.folder / "manifests/group/one.snap"
    whole = path.read_bytes()
    head_end = 24 + 32 + len(b'{"seeds": 2}')
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        with pytest.raises(BadManifest, match=r"group/one cannot be used.*use another"):
            store.read_manifest("group", "one")
        if position < head_end:
            with pytest.raises(BadManifest):
                store.manifest_head("group", "one")
        else:
            assert store.manifest_head("group", "one") == b'{"seeds": 2}'
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BadManifest):
            store.read_manifest("group", "one")
    path.write_bytes(whole + b"x")
    with pytest.raises(BadManifest):
        store.read_manifest("group", "one")
    done = store.collect(names_in)
    assert done.unreadable == [("group", "one")]
    assert done.chunks_live == 2
    assert store.manifest_names("group") == [("group", "one"), ("group", "two")], "left in place"
    assert load(store, "two") == [chunk(2), chunk(3)]
    assert "damaged" in store.verify(names_in).manifests["group", "one"]
    path.unlink()
    path.symlink_to(store.folder / "manifests/group/two.snap")
    with pytest.raises(BadManifest, match="ordinary"):
        store.read_manifest("group", "one")
    assert store.remove_manifest("group", "one")
    assert load(store, "two") == [chunk(2), chunk(3)]


def _sealed(front: bytes, rest: bytes) -> bytes:
    """A manifest whose checksums are right, whatever it says."""
    head_length = struct.unpack_from("<I", front, 12)[0]
    data = front + blake3(front + rest[:head_length]).digest() + rest
    return data + blake3(data).digest()


@pytest.mark.parametrize(
    ("codec", "head", "raw", "stored", "rest"),
    [
        (0, 0, 5, 4, b"abcd"),
        (0, 0xFFFFFFFF, 4, 4, b"abcd"),
        (0, 0, 0xFFFFFFFF, 0xFFFFFFFF, b"abcd"),
        (1, 0, 4, 4, b"abcd"),
        (7, 0, 4, 4, b"abcd"),
        (1, 0, 100, -1, zstandard.compress(bytes(1 << 24))),
        (1, 0, 1 << 26, -1, zstandard.compress(bytes(1 << 24))),
    ],
)
def test_hostile_manifests(store: ChunkStore, codec: int, head: int, raw: int, stored: int, rest: bytes) -> None:
    save(store, "one", [1])
    front = struct.pack("<8sHHIII", b"wksnap\r\n", 1, codec, head, raw, len(rest) if stored < 0 else stored)
    (store.folder / "manifests/group/two.snap").write_bytes(_sealed(front, rest))
    with pytest.raises(BadManifest):
        store.read_manifest("group", "two")
    assert store.collect(names_in).unreadable == [("group", "two")]


def test_a_manifest_of_a_later_version_is_not_robbed(store: ChunkStore) -> None:
    save(store, "one", [1])
    front = struct.pack("<8sHHIII", b"wksnap\r\n", 2, 0, 0, 4, 4)
    (store.folder / "manifests/group/two.snap").write_bytes(_sealed(front, b"abcd"))
    for call in (store.read_manifest, store.manifest_head):
        with pytest.raises(BadManifest, match="newer version"):
            call("group", "two")
    with pytest.raises(BadManifest, match="newer version"):
        store.collect(names_in)
    assert load(store, "one") == [chunk(1)]


def test_a_huge_manifest_is_not_read(store: ChunkStore) -> None:
    save(store, "one", [1])
    with open(store.folder / "manifests/group/two.snap", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadManifest, match="larger"):
        store.read_manifest("group", "two")


def test_strange_files_are_no_manifests(store: ChunkStore) -> None:
    save(store, "one", [1])
    (store.folder / "manifests/file").touch()
    (store.folder / "manifests/group/.hidden.snap").touch()
    (store.folder / "manifests/group/note.txt").touch()
    os.mkfifo(store.folder / "manifests/group/pipe.snap")
    assert store.manifest_names() == [("group", "one"), ("group", "pipe")]
    with pytest.raises(BadManifest, match="ordinary"):
        store.read_manifest("group", "pipe")


# ---- damaged packs


def regions(pack: Path) -> dict[str, range]:
    """What each byte of a pack is."""
    size = pack.stat().st_size
    begin = struct.unpack_from("<Q", pack.read_bytes()[-52:], 32)[0]
    return {
        "magic": range(8),
        "data": range(8, begin),
        "index": range(begin, size - 52),
        "footer": range(size - 52, size),
    }


def test_a_damaged_byte_makes_only_its_chunk_unusable(store: ChunkStore) -> None:
    save(store, "one", [1])
    save(store, "two", [2, 3])
    pack = max(pack_files(store.folder), key=lambda p: p.stat().st_size)
    whole = pack.read_bytes()
    source = random.Random(3)
    for region, where in regions(pack).items():
        for position in {where[0], where[-1], *source.sample(where, min(20, len(where)))}:
            for fresh_index in (False, True):
                pack.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
                if fresh_index:
                    store.close()
                    for path in store.folder.glob("index-*"):
                        path.unlink()
                broken = ChunkStore(store.folder)
                usable = {}
                for name in ("one", "two"):
                    try:
                        load(broken, name)
                        usable[name] = True
                    except DamagedChunk as e:
                        assert "snapshots verify" in str(e)
                        usable[name] = False
                assert usable["one"]
                lost = region == "data" or (region in ("index", "footer") and fresh_index)
                assert usable["two"] is not lost, (region, position, fresh_index)
                found = broken.verify(names_in)
                assert bool(found.manifests["group", "two"]) is lost
                assert not found.manifests["group", "one"]
                broken.close()
                pack.write_bytes(whole)
                assert load(ChunkStore(store.folder), "two") == [chunk(2), chunk(3)]


def test_a_pack_cut_short_or_gone(store: ChunkStore) -> None:
    names = save(store, "one", list(range(10)))
    (pack,) = pack_files(store.folder)
    os.truncate(pack, 8 + 5 * SIZE + 100)
    with pytest.raises(DamagedChunk, match="as are 4 more"):
        load(store, "one")
    assert store.read_chunk(names[4]) == chunk(4), "what is still there can be read while the index knows where"
    pack.unlink()
    with pytest.raises(DamagedChunk, match="9 more"):
        load(store, "one")
    assert store.verify(names_in).manifests["group", "one"] == "10 of its chunks are missing or damaged"


def test_a_damaged_chunk_that_is_put_again_mends_what_refers_to_it(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    (pack,) = pack_files(store.folder)
    data = bytearray(pack.read_bytes())
    data[20] ^= 1
    pack.write_bytes(data)
    for _ in range(2):
        with pytest.raises(DamagedChunk):
            load(store, "one")
    save(store, "two", [1])
    assert load(store, "one") == [chunk(1), chunk(2)]
    for path in store.folder.glob("index-*"):
        path.unlink()
    for _ in range(3):
        assert load(ChunkStore(store.folder), "one") == [chunk(1), chunk(2)], "the whole copy is found without an index"
    done = store.collect(names_in)
    assert done.missing == 0
    assert load(store, "one") == [chunk(1), chunk(2)], "the whole copy is the one that is kept"
    assert load(store, "two") == [chunk(1)]


def test_damage_that_was_noticed_in_one_chunk_is_looked_for_in_its_neighbours(store: ChunkStore) -> None:
    """Else what is put next, which has them in common, would refer to them and be lost itself."""
    save(store, "one", [1, 2, 3])
    (pack,) = pack_files(store.folder)
    data = bytearray(pack.read_bytes())
    for at in (20, SIZE + 20):  # two of the three
        data[at] ^= 1
    pack.write_bytes(data)
    with pytest.raises(DamagedChunk):
        store.read_chunk(packs.hash_of(chunk(1)))
    save(store, "two", [2, 3])
    assert load(store, "two") == [chunk(2), chunk(3)]


def test_verify_finds_damage_and_the_next_take_mends_it(store: ChunkStore) -> None:
    names = save(store, "one", [1, 2])
    save(store, "two", [3])
    pack = max(pack_files(store.folder), key=lambda p: p.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[20] ^= 1
    pack.write_bytes(data)
    told: list[tuple[int, int]] = []
    found = store.verify(names_in, on_progress=lambda done, total: told.append((done, total)))
    assert found.damaged == [names[0]]
    assert found.chunks == 2
    assert found.manifests == {("group", "one"): "1 of its chunks are missing or damaged", ("group", "two"): ""}
    assert not found.whole
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    save(store, "three", [1])
    assert load(store, "one") == [chunk(1), chunk(2)]
    assert not any(store.verify(names_in).manifests.values())


def test_wrong_lengths_are_an_error(store: ChunkStore) -> None:
    (name,) = save(store, "one", [1])
    for size in (0, 1, SIZE - 1, SIZE + 1):
        with pytest.raises(DamagedChunk, match=f"{SIZE:,} bytes"):
            store.read_into([(name, memoryview(bytearray(size)))])
    assert store.read_chunk(name) == chunk(1)


def write_pack(folder: Path, blob: bytes, entries: list[tuple[bytes, int, int, int, int]], **change: int) -> None:
    """A pack that is right in form, whatever it says."""
    data = b"wkpack1\n" + blob
    index = b"".join(struct.pack("<32sQIIB3x", *entry) for entry in entries)
    begin, count = change.get("begin", len(data)), change.get("count", len(entries))
    checksum = blake3(index + struct.pack("<QI", begin, count)).digest()
    footer = struct.pack("<32sQI8s", checksum, begin, count, b"wkpend1\n")
    (folder / "packs" / f"{random.randrange(16**32):032x}.pack").write_bytes(data + index + footer)


BOMB = zstandard.compress(bytes(1 << 28))
BIG = 1 << 63


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        ((8, 4, 4, 9), {}),
        ((8, 4, 5, 0), {}),
        ((8, 0, 0, 0), {}),
        ((0, 4, 4, 0), {}),
        ((9, len(BOMB), len(BOMB), 0), {}),
        ((BIG, 4, 4, 0), {}),
        ((2**64 - 4, 4, 4, 0), {}),
        ((8, 0xFFFFFFFF, 0xFFFFFFFF, 0), {}),
        ((8, 4, 0xFFFFFFFF, 1), {}),
        ((8, 4, MAX_RAW + 1, 1), {}),
        ((8, len(BOMB), len(BOMB) - 1, 1), {}),
        ((8, len(BOMB), MAX_RAW, 1), {}),
        ((8, 4, SIZE, 1), {}),
        ((8, 4, 12, 2), {}),
        ((8, 4, SIZE, 2), {}),
        ((8, len(BOMB), MAX_RAW, 2), {}),
        ((8, len(BOMB), len(BOMB) - 1, 2), {}),
        ((8, 4, 8, 3), {}),
        ((8, 4, 4, 0), {"count": 0xFFFFFFFF}),
        ((8, 4, 4, 0), {"count": 0}),
        ((8, 4, 4, 0), {"begin": 0}),
        ((8, 4, 4, 0), {"begin": 2**64 - 1}),
    ],
)
def test_hostile_packs(store: ChunkStore, entry: tuple[int, int, int, int], change: dict[str, int]) -> None:
    save(store, "one", [1])
    evil = blake3(b"evil").digest()
    write_pack(store.folder, BOMB, [(evil, *entry)], **change)
    for path in store.folder.glob("index-*"):
        path.unlink()
    fresh = ChunkStore(store.folder)
    assert load(fresh, "one") == [chunk(1)]
    with pytest.raises(DamagedChunk):
        fresh.read_chunk(evil)
    for size in (4, SIZE, MAX_RAW):
        with pytest.raises(DamagedChunk):
            fresh.read_into([(evil, memoryview(bytearray(size)))])
    found = fresh.verify(names_in)
    assert found.manifests == {("group", "one"): ""}
    assert found.damaged == [evil] or found.damaged_packs
    fresh.collect(names_in)
    assert len(pack_files(store.folder)) == 1
    assert load(fresh, "one") == [chunk(1)]


def test_frames_without_a_length_do_not_inflate(store: ChunkStore) -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    blob = stream.compress(bytes(1 << 26)) + stream.flush()
    save(store, "one", [1])
    evil = blake3(b"evil").digest()
    write_pack(store.folder, blob, [(evil, 8, len(blob), MAX_RAW, 1)])
    with pytest.raises(DamagedChunk):
        store.read_chunk(evil)


def test_packs_that_are_no_files(store: ChunkStore, tmp_path: Path) -> None:
    save(store, "one", [1])
    (pack,) = pack_files(store.folder)
    for i, make in enumerate(
        (os.mkdir, os.mkfifo, lambda path: os.symlink(pack, path), lambda path: os.close(os.open(path, os.O_CREAT)))
    ):
        make(store.folder / "packs" / f"{i:032x}.pack")
    for path in store.folder.glob("index-*"):
        path.unlink()
    fresh = ChunkStore(store.folder)
    assert load(fresh, "one") == [chunk(1)]
    assert fresh.verify(names_in).manifests == {("group", "one"): ""}
    fresh.collect(names_in)
    assert pack.exists()
    assert load(fresh, "one") == [chunk(1)]
    fresh.close()


# ---- the index is a cache


def test_a_missing_or_damaged_index_is_made_again(store: ChunkStore) -> None:
    save(store, "one", list(range(300)))
    store.close()
    path = store.folder / "index-1.sqlite"
    whole = path.read_bytes()
    source = random.Random(5)
    damages = [
        b"",
        b"x",
        b"x" * 100_000,
        whole[:5000],
        whole[:100] + source.randbytes(len(whole) - 100),
        whole[: len(whole) // 2],
    ]
    damages += [
        whole[:i] + source.randbytes(50) + whole[i + 50 :]
        for i in (0, 20, 100, 4096, 4200, 8192, 9000, len(whole) - 60)
    ]
    for damage in damages:
        for leftover in store.folder.glob("index-*"):
            leftover.unlink()
        path.write_bytes(damage)
        damaged = ChunkStore(store.folder)
        assert load(damaged, "one") == [chunk(i) for i in range(300)]
        with damaged.take() as take:
            take.put_many([memoryview(chunk(i)) for i in range(300)])
            assert take.stored <= 5 * SIZE, "known again"
        damaged.close()


def test_an_index_damaged_while_others_have_it_open(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    (store.folder / "index-1.sqlite").write_bytes(b"x" * 10_000)
    (store.folder / "index-1.sqlite-wal").write_bytes(b"x" * 10_000)
    other = ChunkStore(store.folder)
    save(other, "two", [2, 3])
    assert load(other, "one") == [chunk(1), chunk(2)]
    assert load(store, "two") == [chunk(2), chunk(3)]
    save(store, "three", [3, 4])
    assert load(other, "three") == [chunk(3), chunk(4)]
    other.close()
    store.close()
    assert load(ChunkStore(store.folder), "three") == [chunk(3), chunk(4)]


def test_an_index_that_is_behind(store: ChunkStore) -> None:
    save(store, "one", [1])
    store.close()
    before = {path.name: path.read_bytes() for path in store.folder.glob("index-*")}
    save(store, "two", [2])
    assert store.remove_manifest("group", "one")
    store.collect(names_in)  # the pack it knows is gone, and one is there that it does not know
    store.close()
    for path in store.folder.glob("index-*"):
        path.unlink()
    for name, data in before.items():
        (store.folder / name).write_bytes(data)
    stale = ChunkStore(store.folder)
    assert load(stale, "two") == [chunk(2)]
    stale.close()
    for name, data in before.items():
        (store.folder / name).write_bytes(data)
    stale = ChunkStore(store.folder)
    with stale.take() as take:
        names = [take.put(chunk(1)), take.put(chunk(2))]
        assert take.stored == SIZE, "the one that is gone is stored again, the other is found"
        take.commit("group", "three", b"", b"".join(names))
    assert load(stale, "three") == [chunk(1), chunk(2)]
    stale.close()


def test_an_index_that_is_wrong(store: ChunkStore) -> None:
    save(store, "one", [1, 2, 3])
    save(store, "two", [4])
    store.close()
    for wrong in (
        "UPDATE chunks SET offset = offset + 1",
        "UPDATE chunks SET offset = 1 << 60",
        "UPDATE chunks SET offset = -5",
        "UPDATE chunks SET stored = 1 << 40, raw = 1 << 40",
        "UPDATE chunks SET codec = 1",
        "UPDATE chunks SET offset = 'x'",
        "UPDATE chunks SET pack = 3 - pack",
        "DELETE FROM chunks",
        "DELETE FROM packs",
        "UPDATE packs SET name = '../../etc/passwd' WHERE id = 1",
        "DROP TABLE chunks",
        "PRAGMA user_version = 17",
    ):
        database = sqlite3.connect(chunk_index.ChunkIndex(store.folder)._newest())
        database.execute(wrong)
        database.commit()
        database.close()
        fresh = ChunkStore(store.folder)
        assert load(fresh, "one") == [chunk(1), chunk(2), chunk(3)], wrong
        assert load(fresh, "two") == [chunk(4)], wrong
        with fresh.take() as take:
            take.commit("group", f"n{time.monotonic_ns()}", b"", take.put(chunk(4)))
        fresh.close()


def test_without_any_index(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, "one", [1, 2])
    store.close()
    real = sqlite3.connect

    def refuse(path: str | Path, **rest: object) -> sqlite3.Connection:
        if path != ":memory:":
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return real(path, **rest)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", refuse)
    assert load(store, "one") == [chunk(1), chunk(2)]
    with store.take() as take:
        take.put(chunk(1))
        assert take.stored == 0
        take.commit("group", "two", b"", take.put(chunk(3)))
    assert load(store, "two") == [chunk(3)]
    assert store.collect(names_in).chunks_live == 3
    monkeypatch.undo()
    assert load(store, "two") == [chunk(3)]


# ---- collecting


def test_a_collection_keeps_what_is_referred_to(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    save(store, "two", [2, 3])
    save(store, "other", [4], group="else")
    size = store.stored_bytes()
    assert store.collect(names_in).freed == 0
    store.remove_manifest("else", "other")
    done = store.collect(names_in)
    assert (done.packs_removed, done.packs_rewritten, done.chunks_live) == (1, 0, 3)
    assert size - store.stored_bytes() - 500 < done.freed < size - store.stored_bytes()
    assert load(store, "one") == [chunk(1), chunk(2)]
    assert load(store, "two") == [chunk(2), chunk(3)]
    with pytest.raises(DamagedChunk):
        store.read_chunk(blake3(chunk(4)).digest())
    save(store, "again", [4])
    assert load(store, "again") == [chunk(4)]


def test_a_pack_that_is_mostly_dead_is_rewritten(store: ChunkStore) -> None:
    save(store, "all", list(range(10)))
    save(store, "few", [3, 7, 8])
    other = ChunkStore(store.folder)
    assert load(other, "all")
    store.remove_manifest("group", "all")
    done = store.collect(names_in)
    assert (done.packs_removed, done.packs_rewritten, done.chunks_live) == (0, 1, 3)
    assert done.freed > 6 * SIZE
    assert load(store, "few") == load(other, "few") == [chunk(3), chunk(7), chunk(8)]
    assert store.collect(names_in) == collect.Collected(chunks_live=3)
    other.close()


def test_a_pack_that_is_mostly_alive_is_left(store: ChunkStore) -> None:
    save(store, "all", list(range(10)))
    save(store, "most", list(range(6)))
    store.remove_manifest("group", "all")
    before = pack_files(store.folder)
    assert store.collect(names_in).packs_rewritten == 0
    assert pack_files(store.folder) == before


def test_many_small_packs_become_one(store: ChunkStore) -> None:
    for i in range(40):
        save(store, f"n{i}", [i, i + 1])
    done = store.collect(names_in)
    assert done.packs_rewritten == 40
    assert len(pack_files(store.folder)) == 1
    for i in range(40):
        assert load(store, f"n{i}") == [chunk(i), chunk(i + 1)]


def test_rewriting_fills_more_than_one_pack(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(40):
        save(store, f"n{i}", [i])
    monkeypatch.setattr(packs, "PACK_BYTES", 7 * SIZE)
    store.collect(names_in)
    assert len(pack_files(store.folder)) == 6
    assert all(load(store, f"n{i}") == [chunk(i)] for i in range(40))


def test_a_chunk_two_takes_stored_is_kept_once(store: ChunkStore) -> None:
    other = ChunkStore(store.folder)
    with store.take() as one, other.take() as two:
        names = [one.put(chunk(1)), two.put(chunk(1))]
        assert names[0] == names[1]
        one.commit("group", "one", b"", names[0])
        two.commit("group", "two", b"", names[0] + two.put(chunk(2)))
    assert len(pack_files(store.folder)) == 2
    store.collect(names_in)
    assert len(pack_files(store.folder)) == 1
    assert load(store, "one") == [chunk(1)]
    assert load(other, "two") == [chunk(1), chunk(2)]
    other.close()


def test_a_damaged_chunk_is_not_thrown_away_while_somebody_wants_it(store: ChunkStore) -> None:
    names = save(store, "all", list(range(10)))
    save(store, "few", [3])
    (pack,) = pack_files(store.folder)
    whole = pack.read_bytes()
    data = bytearray(whole)
    data[8 + 3 * SIZE] ^= 1
    pack.write_bytes(data)
    store.remove_manifest("group", "all")
    done = store.collect(names_in)
    assert (done.missing, done.packs_rewritten) == (1, 0)
    pack.write_bytes(whole)  # from a backup
    assert load(store, "few") == [chunk(3)]
    assert names[3] in names_in(store.read_manifest("group", "few"))


def test_a_pack_with_a_damaged_index_is_saved_by_the_store_s_own(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    save(store, "two", [3])
    pack = max(pack_files(store.folder), key=lambda p: p.stat().st_size)
    os.truncate(pack, pack.stat().st_size - 10)
    done = store.collect(names_in)
    assert (done.missing, done.packs_rewritten, done.damaged_packs) == (0, 1, [])
    assert not pack.exists()
    assert load(store, "one") == [chunk(1), chunk(2)]


def test_a_pack_nobody_understands_stays_while_something_is_missing(store: ChunkStore) -> None:
    save(store, "one", [1, 2])
    save(store, "two", [3])
    store.close()
    pack = max(pack_files(store.folder), key=lambda p: p.stat().st_size)
    os.truncate(pack, pack.stat().st_size - 10)
    for path in store.folder.glob("index-*"):
        path.unlink()
    done = store.collect(names_in)
    assert (done.missing, done.damaged_packs) == (2, [pack.name])
    assert pack.exists()
    store.remove_manifest("group", "one")
    done = store.collect(names_in)
    assert (done.missing, done.damaged_packs, done.packs_removed) == (0, [], 1)
    assert not pack.exists()
    assert load(store, "two") == [chunk(3)]


def test_an_error_of_the_caller_deletes_nothing(store: ChunkStore) -> None:
    save(store, "one", [1])

    def fails(body: bytes) -> list[bytes]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.collect(fails)
    assert load(store, "one") == [chunk(1)]
    done = store.collect(lambda body: [b"short"])
    assert done.unreadable == [("group", "one")]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("save"), st.lists(st.integers(0, 12), max_size=8)),
            st.tuples(st.just("remove"), st.integers(0, 20)),
            st.tuples(st.sampled_from(["collect", "forget", "reopen", "abandon"]), st.just(0)),
        ),
        max_size=25,
    )
)
def test_a_store_is_what_a_dictionary_would_be(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ChunkStore(Path(folder) / "store")
        model: dict[str, list[int]] = {}
        for number, (step, value) in enumerate(steps):
            if step == "save":
                assert isinstance(value, list)
                model[f"n{number}"] = value
                save(store, f"n{number}", value)
            elif step == "remove" and model:
                assert isinstance(value, int)
                name = sorted(model)[value % len(model)]
                del model[name]
                assert store.remove_manifest("group", name)
            elif step == "collect":
                live = {seed for seeds in model.values() for seed in seeds}
                done = store.collect(names_in)
                assert (done.chunks_live, done.missing) == (len(live), 0)
                stored = (
                    [packs.read_index(store.folder / "packs", pack.name) for pack in pack_files(store.folder)]
                    if live
                    else []
                )
                kept = {name for contents in stored for name in contents}
                assert kept >= {blake3(chunk(seed)).digest() for seed in live}
                assert len(kept) <= 2 * len(live)
            elif step == "forget":
                store.close()
                for path in store.folder.glob("index-*"):
                    path.unlink()
            elif step == "reopen":
                store.close()
                store = ChunkStore(store.folder)
            elif step == "abandon":
                with store.take() as take:
                    take.put_many([memoryview(chunk(seed)) for seed in (1, 5, 50)])
            assert store.manifest_names() == sorted(("group", name) for name in model)
        for name, seeds in model.items():
            assert load(store, name) == [chunk(seed) for seed in seeds]
        assert store.verify(names_in).whole
        store.close()


# ---- several at once


def test_a_collection_does_not_run_during_a_take(store: ChunkStore) -> None:
    save(store, "one", [1])
    store.remove_manifest("group", "one")
    other = ChunkStore(store.folder)
    with store.take() as take:
        name = take.put(chunk(1))
        assert take.stored == 0, "it is still there, and counted on"
        for wait in (0.0, 0.1):
            begin = time.monotonic()
            with pytest.raises(StoreBusy, match="being taken or collected"):
                other.collect(names_in, wait=wait)
            assert time.monotonic() - begin >= wait
        take.commit("group", "two", b"", name)
    assert other.collect(names_in).packs_removed == 0
    assert load(store, "two") == [chunk(1)]
    other.close()


def test_a_collection_waits_for_a_take_and_a_take_for_a_collection(store: ChunkStore) -> None:
    save(store, "one", [1])
    in_collection, go_on = threading.Event(), threading.Event()

    def slow(body: bytes) -> list[bytes]:
        in_collection.set()
        assert go_on.wait(60)
        return names_in(body)

    collecting = threading.Thread(target=store.collect, args=(slow,))
    collecting.start()
    assert in_collection.wait(60)
    taken = threading.Event()
    taking = threading.Thread(target=lambda: (save(store, "two", [1, 2]), taken.set()))
    taking.start()
    assert load(ChunkStore(store.folder), "one") == [chunk(1)], "reading waits for nobody"
    assert not taken.wait(0.2)
    go_on.set()
    assert taken.wait(60)
    collecting.join()
    taking.join()
    assert load(store, "two") == [chunk(1), chunk(2)]
    released = threading.Timer(0.2, lambda: hold.close())
    hold = store.hold()
    hold.__enter__()
    hold.close = lambda: hold.__exit__(None, None, None)  # type: ignore[attr-defined]
    released.start()
    assert store.collect(names_in, wait=20).chunks_live == 2
    released.join()


def test_takes_reads_and_collections_in_threads(store: ChunkStore) -> None:
    errors: list[Exception] = []

    def work(number: int) -> None:
        source = random.Random(number)
        mine: list[tuple[str, list[int]]] = []
        try:
            for i in range(25):
                seeds = [source.randrange(30) for _ in range(6)]
                save(store, f"t{number}-{i}", seeds)
                mine.append((f"t{number}-{i}", seeds))
                if len(mine) > 3:
                    store.remove_manifest("group", mine.pop(0)[0])
                for name, seeds in mine:
                    assert load(store, name) == [chunk(seed) for seed in seeds]
                if i % 5 == number:
                    store.collect(names_in, wait=30)
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.verify(names_in).whole
    assert os.listdir(store.folder / "new") == []


def test_killed_at_any_moment(store: ChunkStore) -> None:
    source = random.Random(11)

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.host.store.chunk_churn", str(store.folder), str(number)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def check() -> None:
        fresh = ChunkStore(store.folder)
        with fresh.hold():
            for group, name in fresh.manifest_names():
                for seed, data in zip(
                    names_in(fresh.read_manifest(group, name)), load(fresh, name, group), strict=True
                ):
                    assert blake3(data).digest() == seed
        fresh.close()

    running = {number: start(number) for number in (0, 1)}
    try:
        for kill in range(60):
            number = kill % 2
            process = running[number]
            assert process.stdout
            process.stdout.readline()
            time.sleep(source.random() * 0.15)
            assert process.poll() is None, process.communicate()[1].decode()
            process.send_signal(signal.SIGKILL)
            process.communicate()
            running[number] = start(number) if kill < 58 else process
            if kill % 6 == 0:
                with store.hold():  # nothing is collected, though manifests may still go
                    for group, name in store.manifest_names():
                        try:
                            load(store, name, group)
                        except FileNotFoundError:
                            pass
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    check()
    assert store.verify(names_in).whole
    done = store.collect(names_in, wait=10)
    assert (done.missing, done.unreadable, done.damaged_packs) == (0, [], [])
    assert os.listdir(store.folder / "new") == []
    check()


def test_a_living_writer_s_file_is_not_swept(tmp_path: Path) -> None:
    writer = packs.PackWriter(tmp_path)
    (tmp_path / "dead").write_bytes(b"x" * 100)
    assert collect.sweep_temporaries(tmp_path) == 100
    assert len(os.listdir(tmp_path)) == 1
    writer.discard()
    assert os.listdir(tmp_path) == []


# ---- a full disk


def test_a_disk_that_is_full_at_any_moment(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, "one", [1, 2])
    monkeypatch.setattr(packs, "PACK_BYTES", 3 * SIZE)
    monkeypatch.setattr(packs, "_BUFFER", SIZE)
    real = {name: getattr(os, name) for name in ("write", "fsync", "rename")}
    before = [name for name in files(store.folder) if "sqlite" not in name]
    failures = 0
    for call in real:
        for number in range(100):
            left = number

            def fail(*arguments: object, call: str = call, **rest: object) -> object:
                nonlocal left
                left -= 1
                if left == 0 and call == "write":
                    handle, data = arguments
                    return real[call](handle, data[: len(data) // 2])  # type: ignore[index]
                if left < 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real[call](*arguments, **rest)

            with monkeypatch.context() as patch:
                patch.setattr(os, call, fail)
                try:
                    save(store, f"two-{call}-{number}", list(range(10, 20)))
                    done = True
                except OSError as e:
                    assert e.errno == errno.ENOSPC
                    done = False
            assert os.listdir(store.folder / "new") == [], (call, number)
            if done:
                assert load(store, f"two-{call}-{number}") == [chunk(i) for i in range(10, 20)]
                store.remove_manifest("group", f"two-{call}-{number}")
            else:
                failures += 1
                assert store.manifest_names() == [("group", "one")], "nothing is visible"
            store.collect(names_in)
            assert [name for name in files(store.folder) if "sqlite" not in name] == before
            assert load(store, "one") == [chunk(1), chunk(2)]
            if done:
                break
        else:
            pytest.fail(f"{call} is called more than a hundred times")
    assert failures > 12


def test_a_take_that_failed_commits_nothing_more(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "_BUFFER", SIZE)
    with store.take() as take:
        name = take.put(b"small")
        with monkeypatch.context() as patch:
            patch.setattr(packs, "write_all", lambda handle, data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
            with pytest.raises(OSError, match="full"):
                take.put(chunk(1))
        for again in (lambda: take.put(chunk(2)), lambda: take.commit("g", "n", b"", name)):
            with pytest.raises(RuntimeError, match="begin another"):
                again()
    assert store.manifest_names() == []
    assert os.listdir(store.folder / "new") == []


def test_a_collection_on_a_full_disk_frees_what_it_can(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, "dead", [20])
    save(store, "all", list(range(10)))
    save(store, "few", [3])
    store.remove_manifest("group", "dead")
    store.remove_manifest("group", "all")
    with monkeypatch.context() as patch:
        patch.setattr(packs, "write_all", lambda handle, data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        done = store.collect(names_in)
    assert done.packs_removed == 1
    assert done.freed >= SIZE
    assert "disk is full" in done.incomplete
    assert os.listdir(store.folder / "new") == []
    assert load(store, "few") == [chunk(3)]
    assert store.collect(names_in).packs_rewritten == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small file system")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", mount], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        store = ChunkStore(mount / "store")
        save(store, "one", list(range(20)))
        saved = ["one"]
        for round in range(30):
            try:
                save(store, f"n{round}", list(range(round * 100, round * 100 + 60)))
                saved.append(f"n{round}")
            except OSError as e:
                assert e.errno == errno.ENOSPC
            assert os.listdir(mount / "store/new") == []
            assert store.manifest_names() == sorted(("group", name) for name in saved)
            assert load(store, saved[0])
            if len(saved) > 4:
                store.remove_manifest("group", saved.pop(0))
                if round % 3 == 0:
                    store.collect(names_in)
        assert len(saved) < 31
        store.close()
        assert ChunkStore(mount / "store").verify(names_in).whole
    finally:
        shutil.rmtree(mount / "store", ignore_errors=True)
        subprocess.run(["umount", "-l", mount], check=True)


def test_what_else_lies_in_the_folder_of_packs_is_left_alone(store: ChunkStore) -> None:
    """Backups, editors and people put things there; only what is named as a pack is one."""
    save(store, "one", [1, 2])
    folder = store.folder / "packs"
    (pack,) = pack_files(store.folder)
    strange = ["README", ".nfs0001", "a.pack", f"{pack.name}~", f"{pack.name}.part", f"X{pack.name}", pack.name.upper()]
    for name in strange:
        (folder / name).write_bytes(pack.read_bytes())
    (folder / "folder.pack").mkdir()
    (folder / "link.pack").symlink_to(pack)
    assert packs.pack_names(folder) == {pack.name}
    assert store.verify(names_in).whole
    store.remove_manifest("group", "one")
    done = store.collect(names_in)
    assert (done.packs_removed, done.damaged_packs) == (1, [])
    assert sorted(p.name for p in folder.iterdir()) == sorted([*strange, "folder.pack", "link.pack"])
    save(store, "two", [1, 2])
    assert load(store, "two") == [chunk(1), chunk(2)], "stored again, not found in a stranger's copy"
