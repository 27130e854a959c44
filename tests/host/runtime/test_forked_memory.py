"""Workers start from the memory of a guest in the middle of a turn, and nobody writes to another's."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.host.runtime.live_memory import PAGE, SIZE, Live, attached
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.forked_memory import ForkedMemory, joined
from wasm_kernel.host.runtime.memory import CHUNK, GuestMemory


def forked(memory: ForkedMemory) -> Live:
    live = Live()
    memory.attach(live.address)
    return live


def test_a_fork_has_what_was_kept_and_what_was_not(base: BaseMemory, way: str) -> None:
    chance = random.Random(3)
    state = GuestMemory(base)
    guest = attached(state)
    for _ in range(3):
        for _ in range(12):
            guest.write(chance.randrange(SIZE - 6 * PAGE), chance.randbytes(chance.choice((9, PAGE, 5 * PAGE))))
        guest.write(14 * CHUNK, chance.randbytes(6 * CHUNK))
        state.keep(guest.address, SIZE)
    guest.write(30 * CHUNK, b"in this turn")
    guest.write(15 * CHUNK + 7, b"over what was kept")
    before = guest.bytes()
    memory = state.forked(guest.address, SIZE)
    one, other = forked(memory), forked(memory)
    memory.close()
    assert one.bytes() == before == other.bytes()
    one.write(0, b"one's own")
    guest.write(CHUNK, b"the guest's own")
    assert other.bytes() == before
    again = attached(state)
    assert again.bytes() != before, "a trap goes back to what was kept, not to what was forked"
    for live in (one, other, guest, again):
        live.close()
    state.close()


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 40))), st.integers(1, 20))
def test_stretches_are_joined_until_there_are_few(spans: list[tuple[int, int]], most: int) -> None:
    stretches = [(first, first + length) for first, length in spans]
    found = joined(stretches, most)
    assert len(found) <= most
    assert all(before[1] < after[0] for before, after in zip(found, found[1:], strict=False))
    assert all(any(a <= first and last <= b for a, b in found) for first, last in stretches)
