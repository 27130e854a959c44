"""Changes of a guest's memory, for the log: replayed over the memory before, they give the memory after."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.runtime.live_memory import SIZE, attached
from wasm_kernel.errors import BadSnapshot
from wasm_kernel.host.runtime import page_delta
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.memory import CHUNK, GuestMemory
from wasm_kernel.host.runtime.pages import PAGE

_writes = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, SIZE - 1),
            st.sampled_from([1, 9, 64, PAGE, 3 * PAGE, CHUNK, 2 * CHUNK + 5]),
            st.integers(0, 255),
        ),
        max_size=6,
    ),
    max_size=8,
)


def replayed(base: BaseMemory, deltas: list[bytes], size: int = SIZE) -> bytes:
    """The memory that these changes make of the base."""
    memory = GuestMemory(base)
    for delta in deltas:
        memory.replay(size, delta)
        assert not memory.delta_bytes
    live = attached(memory)
    try:
        return live.bytes()
    finally:
        live.close()
        memory.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=_writes, seed=st.integers(0, 3))
def test_any_sequence_of_turns_replayed_equals_a_plain_copy(
    base: BaseMemory,
    way: str,
    rounds: list[list[tuple[int, int, int]]],
    seed: int,
) -> None:
    choose = random.Random(seed)
    state = GuestMemory(base)
    live = attached(state)
    deltas: list[bytes] = []
    for writes in rounds:
        for at, length, value in writes:
            live.write(at, bytes([value]) * min(length, SIZE - at))
        state.keep(live.address, SIZE)
        if choose.random() < 0.2:
            state.rest(live.address, SIZE)
        if choose.random() < 0.3:
            start = choose.randrange(0, SIZE - 2 * CHUNK, PAGE)
            state.forget(live.address, SIZE, [(start, start + choose.choice([PAGE, CHUNK, 2 * CHUNK]))])
        if choose.random() < 0.7:  # not every turn is a cell
            deltas.append(b"".join(state.delta()))
            state.logged()
            assert replayed(base, deltas) == live.bytes()
    live.close()
    state.close()


def test_a_memory_that_is_captured_while_it_is_replayed(base: BaseMemory) -> None:
    """As after a kill: each cell of the log is captured, and stored later."""
    state = GuestMemory(base)
    live = attached(state)
    deltas = []
    for n in range(4):
        live.write(n * PAGE, bytes([n + 1]) * 3 * PAGE)
        live.write(30 * CHUNK, bytes([n]) * 2 * CHUNK)
        state.keep(live.address, SIZE)
        deltas.append(b"".join(state.delta()))
        state.logged()
    live.close()
    memory = GuestMemory(base)
    captures = []
    for delta in deltas:
        memory.replay(SIZE, delta)
        captures.append(memory.capture({0}))
    for n, captured in enumerate(captures):
        page, later = n, captured.pages[n]
        assert later.read(page, 1) == bytes([n + 1]) * PAGE, "as it was then, not as it is now"
    memory.close()
    state.close()


@pytest.mark.parametrize(
    "delta",
    [
        page_delta.ENTRY.pack(1, 1)[:-1],
        page_delta.ENTRY.pack(1, 1) + bytes(63),
        page_delta.ENTRY.pack(1, page_delta.WHOLE) + bytes(PAGE - 1),
        page_delta.ENTRY.pack(SIZE // PAGE, 0),
        page_delta.ENTRY.pack(2**32 - 1, 0),
        page_delta.ENTRY.pack(1, 0) + b"x",
        page_delta.ENTRY.pack(1 | 1 << 31, 2) + bytes(2 * PAGE - 1),
        page_delta.ENTRY.pack(SIZE // PAGE - 1 | 1 << 31, 2) + bytes(2 * PAGE),
        page_delta.ENTRY.pack(1 | 1 << 31, 2**63) + bytes(PAGE),
    ],
)
def test_what_is_no_change_is_refused_and_changes_nothing(base: BaseMemory, delta: bytes) -> None:
    memory = GuestMemory(base)
    good = page_delta.ENTRY.pack(0, 1) + b"\x07" * 64
    with pytest.raises(BadSnapshot):
        memory.replay(SIZE, good + delta)
    assert not memory.changed_bytes
    memory.close()


def test_a_memory_does_not_become_smaller(base: BaseMemory) -> None:
    memory = GuestMemory(base)
    with pytest.raises(BadSnapshot):
        memory.replay(memory.size - CHUNK, b"")
    memory.close()
