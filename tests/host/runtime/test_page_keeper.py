"""Pages kept in WebAssembly: the same memory, the same changes for the log, the same captures as a plain copy has."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.runtime.live_memory import BASE, PAGE, SIZE, Live, attached
from wasm_kernel.host.runtime import page_delta, page_keeper, pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.engine import Module, Store, engine
from wasm_kernel.host.runtime.memory import CHUNK, PAGES, CapturedMemory, GuestMemory
from wasm_kernel.host.runtime.page_keeper import PageKeeper

MOST = 1 << 30


@cache
def module(metered: bool) -> Module:
    import wasmtime

    return Module(wasmtime.Module(engine(metered).raw, page_keeper.keeper_text()))


class WasmLive(Live):
    """A linear memory in a store, and a keeper beside it."""

    def __init__(self, base: BaseMemory, *, metered: bool = False) -> None:
        self.store = Store(engine(metered), [], [], {}, 1 << 30)
        memory = self.store.new_memory(SIZE)
        self.address = self.store.memory_address(memory)
        self.keeper = PageKeeper(self.store, module(metered), memory, base)

    def close(self) -> None:
        self.store.close()


@pytest.fixture(params=["keeper", "metered keeper", "python"])
def live_of(request: pytest.FixtureRequest) -> Callable[[GuestMemory], tuple[Live, PageKeeper | None]]:
    if request.param != "python" and not pagescan.can_scan:
        pytest.fail("this kernel has no PAGEMAP_SCAN") if pagescan.can_read_pagemap else pytest.skip("not Linux")

    def live_of(state: GuestMemory) -> tuple[Live, PageKeeper | None]:
        if request.param == "python":
            return attached(state), None
        assert isinstance(state.base, BaseMemory)
        live = WasmLive(state.base, metered=request.param == "metered keeper")
        state.attach(live.address)
        return live, live.keeper

    return live_of


_writes = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, SIZE - 1),
            st.sampled_from([1, 9, 64, PAGE, 3 * PAGE, CHUNK, 2 * CHUNK + 5, 17 * CHUNK]),
            st.integers(0, 255),
        ),
        max_size=6,
    ),
    max_size=8,
)


def as_captured(captured: CapturedMemory, before: bytes) -> bytes:
    """A memory of which a capture says what changed. Pages of the base are the base's, zeros beyond it."""
    memory = bytearray(before)
    base = bytes(captured_base).ljust(SIZE, b"\0")
    for number, later in captured.whole.items():
        memory[number * CHUNK : (number + 1) * CHUNK] = (
            later.read(number * PAGES, PAGES) or base[number * CHUNK : (number + 1) * CHUNK]
        )
    for number, later in captured.pages.items():
        memory[number * PAGE : (number + 1) * PAGE] = (
            later.read_each([number])[0] or base[number * PAGE : (number + 1) * PAGE]
        )
    return bytes(memory)


captured_base = bytearray()


@pytest.fixture(autouse=True)
def _known_base(base: BaseMemory) -> Iterator[None]:
    captured_base[:] = ctypes.string_at(base.view, base.size)
    yield


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=_writes, seed=st.integers(0, 9))
def test_any_sequence_of_turns(
    base: BaseMemory,
    live_of: Callable[[GuestMemory], tuple[Live, PageKeeper | None]],
    rounds: list[list[tuple[int, int, int]]],
    seed: int,
) -> None:
    """Kept, rolled back, rested, freed, logged and captured, in any order; captures are read at the end."""
    choose = random.Random(seed)
    state = GuestMemory(base)
    live, keeper = live_of(state)
    model = live.bytes()
    replay = GuestMemory(base)
    captures: list[tuple[CapturedMemory, bytes, bytes]] = []
    captured_last = model
    for writes in rounds:
        for at, length, value in writes:
            live.write(at, bytes([value]) * min(length, SIZE - at))
        if choose.random() < 0.15:  # a trap
            live.close()
            live, keeper = live_of(state)
            assert live.bytes() == model
            continue
        for_log = choose.random() < 0.7
        assert state.keep(live.address, SIZE, MOST if for_log else None, keeper)
        model = live.bytes()
        if choose.random() < 0.2:
            state.rest(live.address, SIZE)
        if choose.random() < 0.2:
            start = choose.randrange(0, SIZE - 2 * CHUNK, PAGE)
            state.forget(live.address, SIZE, [(start, start + choose.choice([PAGE, CHUNK, 2 * CHUNK]))])
            model = live.bytes()
        if for_log:
            replay.replay(SIZE, b"".join(state.delta()))
            state.logged()
            copy = attached(replay)
            assert copy.bytes() == model
            copy.close()
        if choose.random() < 0.6:
            captures.append((state.capture(range(SIZE // CHUNK) if captures else ()), captured_last, model))
            captured_last = model
        assert live.bytes() == model
    again = attached(state)
    assert again.bytes() == model
    again.close()
    for captured, before, after in captures:
        assert as_captured(captured, before) == after
    live.close()
    state.close()
    replay.close()


def test_a_small_change_is_a_small_record(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = WasmLive(base)
    state.attach(live.address)
    for page in range(0, 20, 2):
        live.write(page * PAGE + 70, b"changed")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    assert len(b"".join(state.delta())) == 10 * (12 + 64), "one line of each page, against the base"
    state.logged()
    live.write(5, b"x")
    live.write(BASE + 3 * PAGE, b"\1")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    assert len(b"".join(state.delta())) == 2 * (12 + 64)
    live.close()
    state.close()


def test_what_is_written_and_is_the_same_is_no_change(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = WasmLive(base)
    state.attach(live.address)
    live.write(0, live.bytes()[: 3 * PAGE])
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    assert not state.changed_bytes and not b"".join(state.delta())
    live.close()
    state.close()


def test_many_pages_are_kept_in_portions(base: BaseMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_keeper, "_MOST_PAGES", 7)
    module.cache_clear()
    try:
        state = GuestMemory(base)
        live = WasmLive(base)
    finally:
        module.cache_clear()
    state.attach(live.address)
    before = live.bytes()
    state.capture(())
    assert not state.held_bytes
    live.write(0, b"x")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    state.logged()
    early, model = state.capture(range(SIZE // CHUNK)), live.bytes()
    for page in [*range(0, 40, 2), *range(41, 49), 300]:
        live.write(page * PAGE + page, b"written")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    assert len(state.changed) == 29
    assert state.held_bytes >= 29 * (12 + 64), "as it was, for the capture"
    replay = GuestMemory(base)
    replay.replay(SIZE, b"".join([_one_write(base), b"".join(state.delta())]))
    for kept in (state, replay):
        copy = attached(kept)
        assert copy.bytes() == live.bytes()
        copy.close()
    assert as_captured(early, before) == model, "of before these writes"
    live.close()


def test_after_many_changes_the_work_area_takes_no_memory(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = WasmLive(base)
    state.attach(live.address)
    work = live.keeper._at + page_keeper._LAYOUT["DELTA"]

    def held() -> int:
        found = pagescan.written(work, page_keeper._WORK - page_keeper._LAYOUT["DELTA"])
        assert found is not None
        return sum(end - start for start, end in found)

    live.write(0, b"little")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    assert 0 < held() <= 4 * PAGE
    for page in range(0, BASE // PAGE, 2):
        live.write(page * PAGE, bytes([page % 250 + 1]) * PAGE)
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    assert held() == 0
    live.close()
    state.close()


def _one_write(base: BaseMemory) -> bytes:
    """What the log says of the first page with an x at its beginning."""
    page = ctypes.string_at(base.view, PAGE)
    return page_delta.ENTRY.pack(0, 1) + b"x" + page[1:64]


def test_more_pages_than_it_takes_are_kept_all_the_same(base: BaseMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_keeper, "_REGIONS", 100)
    state = GuestMemory(base)
    live = WasmLive(base)
    state.attach(live.address)
    for page in range(0, SIZE // PAGE, 2):
        live.write(page * PAGE, b"written")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    expected = live.bytes()
    live.close()
    again = attached(state)
    assert again.bytes() == expected
    again.close()
    replay = GuestMemory(base)
    replay.replay(SIZE, b"".join(state.delta()))
    copy = attached(replay)
    assert copy.bytes() == expected
    copy.close()


def test_more_changes_than_may_be_are_not_kept_first(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = WasmLive(base)
    state.attach(live.address)
    live.write(0, bytes(range(256)) * (CHUNK // 256))
    assert not state.keep(live.address, SIZE, CHUNK - 1, live.keeper)
    assert not state.changed_bytes
    assert state.keep(live.address, SIZE, CHUNK, live.keeper)
    live.close()
    state.close()


def test_another_overlay_is_mapped_anew(base: BaseMemory) -> None:
    """A memory that begins afresh has another file, which may have the same descriptor."""
    state = GuestMemory(base)
    live = WasmLive(base)
    state.attach(live.address)
    live.write(7, b"first")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    state.reset()
    state.attach(live.address)
    live.write(7, b"other")
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    expected = live.bytes()
    live.close()
    again = attached(state)
    assert again.bytes() == expected
    again.close()
    state.close()


def test_the_order_in_which_the_system_names_pages_does_not_matter(
    base: BaseMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With marks there are two lists, one behind the other."""
    if not pagescan.can_scan:
        pytest.skip("not Linux")
    scan_into = pagescan.scan_into

    def backwards(regions: int, most: int, address: int, size: int) -> int | None:
        found = scan_into(regions, most, address, size)
        words = (ctypes.c_uint64 * (3 * (found or 0))).from_address(regions)
        words[:] = [word for at in range(len(words) - 3, -1, -3) for word in words[at : at + 3]]
        return found

    monkeypatch.setattr(pagescan, "scan_into", backwards)
    state, live = GuestMemory(base), WasmLive(base)
    state.attach(live.address)
    for page in (2, 5, 90):
        live.write(page * PAGE, b"new")
    live.write(BASE + CHUNK, random.Random(7).randbytes(20 * CHUNK))
    assert state.keep(live.address, SIZE, MOST, live.keeper)
    found = live.keeper.regions()
    assert len(found) > 2
    assert found == sorted(found)
    expected = live.bytes()
    live.close()
    again = attached(state)
    assert again.bytes() == expected
    again.close()
    state.close()
