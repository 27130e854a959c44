"""A memory in a file is mapped and goes on as if it had been read; a file that is not whole is never used."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.runtime.live_memory import BASE, PAGE, SIZE, Live, attached
from tests.host.runtime.test_page_keeper import WasmLive
from wasm_kernel.host.runtime import mapped_memory, memory, pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.mapped_memory import MappedMemory, MemoryIdentity, UnusableMemory, write_memory_file
from wasm_kernel.host.runtime.memory import CHUNK, PAGES, GuestMemory
from wasm_kernel.host.runtime.page_keeper import PageKeeper

IDENTITY = MemoryIdentity("3c1f1f5e-8b8f-4a43-9b3c-1f6a3f0a5b11", "image", SIZE)
LONG_AT, SHORT_AT, HOLE_AT = 20 * CHUNK, BASE + 7 * PAGE, 2 * CHUNK


def left(state: GuestMemory, path: Path) -> Path:
    """A memory, in a file."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    write_memory_file(handle, IDENTITY, state.parts())
    os.close(handle)
    return path


def found_again(base: BaseMemory, path: Path) -> GuestMemory:
    state = GuestMemory(base)
    state.lay_over(MappedMemory(path, IDENTITY))
    return state


def filled(base: BaseMemory) -> tuple[GuestMemory, Live]:
    """A memory with a long stretch, short ones, and zeros where the base has something else."""
    state = GuestMemory(base)
    live = attached(state)
    live.write(LONG_AT, os.urandom(10 * CHUNK))
    live.write(SHORT_AT, os.urandom(3 * PAGE))
    live.write(3, b"in the base")
    state.keep(live.address, SIZE)
    state.forget(live.address, SIZE, [(HOLE_AT, HOLE_AT + 3 * CHUNK)])
    return state, live


def test_a_memory_comes_back_and_its_large_parts_are_mapped(base: BaseMemory, tmp_path: Path) -> None:
    state, live = filled(base)
    again = found_again(base, left(state, tmp_path / "memory"))
    other = attached(again)
    assert other.bytes() == live.bytes()
    held = sum(end - start for start, end in again.written(other.address, SIZE))
    assert held < 10 * CHUNK, "the long stretch is not copied"
    assert os.stat(tmp_path / "memory").st_blocks * 512 < 12 * CHUNK, "nothing else is in the file"


def test_it_can_be_left_again_from_what_was_mapped(base: BaseMemory, tmp_path: Path) -> None:
    state, live = filled(base)
    once = found_again(base, left(state, tmp_path / "first"))
    other = attached(once)
    other.write(LONG_AT + CHUNK, b"changed")
    live.write(LONG_AT + CHUNK, b"changed")
    once.keep(other.address, SIZE)
    twice = found_again(base, left(once, tmp_path / "second"))
    assert attached(twice).bytes() == live.bytes()


def test_whoever_captured_pages_of_the_file_gets_them_as_they_were(base: BaseMemory, tmp_path: Path) -> None:
    state, live = filled(base)
    before = live.bytes()
    again = found_again(base, left(state, tmp_path / "memory"))
    captured = again.capture((), everything=True)
    other = attached(again)
    other.write(LONG_AT, bytes(5 * CHUNK))
    other.write(SHORT_AT, b"other")
    again.keep(other.address, SIZE)
    for number, later in captured.whole.items():
        content = later.read(number * PAGES, PAGES)
        assert content is not None
        assert content == before[number * CHUNK : (number + 1) * CHUNK]
    assert LONG_AT // CHUNK in captured.whole


@pytest.mark.parametrize("kept_by", ["keeper", "python"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(
        st.lists(
            st.tuples(
                st.one_of(st.integers(0, SIZE - 1), st.integers(LONG_AT, LONG_AT + 10 * CHUNK)),
                st.sampled_from([1, 640, PAGE, 3 * PAGE, CHUNK, 17 * CHUNK]),
                st.sampled_from([0, 0, 1, 255]),
            ),
            max_size=5,
        ),
        max_size=6,
    ),
    seed=st.integers(0, 3),
)
def test_turns_traps_and_the_log_over_a_mapped_memory_equal_a_plain_copy(
    base: BaseMemory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept_by: str,
    rounds: list[list[tuple[int, int, int]]],
    seed: int,
) -> None:
    monkeypatch.setattr(memory, "_REST_AFTER", 1)
    monkeypatch.setattr(memory, "_RESTING_SPANS", 0)
    if kept_by == "keeper" and not pagescan.can_scan:
        pytest.skip("this kernel has no PAGEMAP_SCAN")
    choose = random.Random(seed)
    first, _ = filled(base)
    path = left(first, tmp_path / f"memory-{choose.random()}")
    state, replayed = found_again(base, path), found_again(base, path)

    def attach() -> tuple[Live, PageKeeper | None]:
        if kept_by == "python":
            return attached(state), None
        live = WasmLive(base)
        state.attach(live.address)
        return live, live.keeper

    live, keeper = attach()
    model = live.bytes()
    for writes in rounds:
        for at, length, value in writes:
            live.write(at, bytes([value]) * min(length, SIZE - at))
        if choose.random() < 0.3:  # a trap
            live.close()
            live, keeper = attach()
        else:
            assert state.keep(live.address, SIZE, 1 << 30, keeper)
            replayed.replay(SIZE, b"".join(state.delta()))
            state.logged()
            model = live.bytes()
        if choose.random() < 0.5:
            state.rest(live.address, SIZE)
        assert live.bytes() == model
    assert attached(state).bytes() == model
    assert attached(replayed).bytes() == model


def test_a_file_that_is_cut_short_is_not_used(base: BaseMemory, tmp_path: Path) -> None:
    whole = left(filled(base)[0], tmp_path / "memory").read_bytes()
    for length in (0, 10, SIZE - 1, SIZE, SIZE + PAGE, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(UnusableMemory):
            MappedMemory(tmp_path / "cut", IDENTITY)


def test_neither_is_one_in_which_a_bit_is_another(base: BaseMemory, tmp_path: Path) -> None:
    path = left(filled(base)[0], tmp_path / "memory")
    whole = path.read_bytes()
    for at in (LONG_AT, LONG_AT + 9 * CHUNK + 77, SIZE + 5, SIZE + 3 * PAGE, len(whole) - 200, len(whole) - 20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(UnusableMemory):
            MappedMemory(path, IDENTITY)
    path.write_bytes(whole)
    MappedMemory(path, IDENTITY).close()


@pytest.mark.parametrize(
    "other",
    [
        MemoryIdentity("another", IDENTITY.image_key, SIZE),
        MemoryIdentity(IDENTITY.snapshot_id, "another image", SIZE),
        MemoryIdentity(IDENTITY.snapshot_id, IDENTITY.image_key, SIZE - CHUNK),
    ],
)
def test_nor_the_memory_of_something_else(base: BaseMemory, tmp_path: Path, other: MemoryIdentity) -> None:
    path = left(filled(base)[0], tmp_path / "memory")
    with pytest.raises(UnusableMemory):
        MappedMemory(path, other)


def test_an_index_that_is_whole_and_impossible_is_refused(
    base: BaseMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever could write one could write anything else of ours; still, it must not lead out of the memory."""
    state, _ = filled(base)
    pages = SIZE // PAGE
    for entry in (
        (pages - 1, pages + 1, 0),
        (0, 10_000_000, 2),
        (5, 5, 0),
        (0, 1, 1),
        (0, 1, 7),
    ):
        real = mapped_memory._write_checked
        more = mapped_memory._STRETCH.pack(*entry, bytes(16))
        monkeypatch.setattr(mapped_memory, "_write_checked", lambda *a, r=real, m=more: [m, *r(*a)])
        left(state, tmp_path / "memory")
        monkeypatch.undo()
        with pytest.raises(UnusableMemory):
            MappedMemory(tmp_path / "memory", IDENTITY)
