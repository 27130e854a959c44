"""Memory is kept page by page and comes back exactly, by each of the three ways to find what was written."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.runtime.live_memory import BASE, PAGE, SIZE, attached
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.memory import CHUNK, PAGES, CapturedMemory, GuestMemory, PendingPages


def test_what_was_kept_comes_back_and_what_was_not_does_not(base: BaseMemory, way: str) -> None:
    state = GuestMemory(base)
    live = attached(state)
    live.write(5, b"one page of the base")
    live.write(BASE + 7, b"beyond the base")
    live.write(20 * CHUNK, b"\x07" * (3 * CHUNK))
    state.keep(live.address, SIZE)
    kept = live.bytes()
    live.write(5, b"lost")
    live.write(30 * CHUNK, b"lost as well")
    again = attached(state)
    assert again.bytes() == kept
    again.close()
    live.close()
    state.close()


def test_a_reset_goes_back_to_the_base(base: BaseMemory, way: str) -> None:
    state = GuestMemory(base)
    live = attached(state)
    before = live.bytes()
    live.write(0, b"x" * (2 * CHUNK))
    state.keep(live.address, SIZE)
    live.close()
    state.reset()
    live = attached(state)
    assert live.bytes() == before
    live.close()
    state.close()


_writes = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, SIZE - 1), st.sampled_from([1, 9, PAGE, 3 * PAGE, CHUNK, 2 * CHUNK + 5]), st.integers(0, 255)
        ),
        max_size=6,
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=_writes, seed=st.integers(0, 3))
def test_any_sequence_of_turns_and_rollbacks_equals_a_plain_copy(
    base: BaseMemory, way: str, rounds: list[list[tuple[int, int, int]]], seed: int
) -> None:
    choose = random.Random(seed)
    state = GuestMemory(base)
    live = attached(state)
    model = live.bytes()
    for writes in rounds:
        for at, length, value in writes:
            live.write(at, bytes([value]) * min(length, SIZE - at))
        if choose.random() < 0.3:  # a trap: a fresh instance gets what was kept
            live.close()
            live = attached(state)
        else:
            state.keep(live.address, SIZE)
            model = live.bytes()
        assert live.bytes() == model
    live.close()
    state.close()


def test_pages_that_rest_are_mapped_and_stay_right(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = attached(state)
    for i in range(0, 600, 2):  # many single pages
        live.write(i * PAGE, i.to_bytes(2, "little"))
    for _ in range(20):
        state.keep(live.address, SIZE)
    expected = live.bytes()
    state.capture((), everything=True)
    state.logged()
    state.rest(live.address, SIZE)
    assert live.bytes() == expected
    assert not state.changed_bytes and not state.delta_bytes, "nothing changed, but where it is"
    assert len(state.written(live.address, SIZE)) < 50, "resting pages should have been given back"
    again = attached(state)
    assert again.bytes() == expected
    again.close()
    live.close()
    state.close()


def test_large_data_is_not_held_twice(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = attached(state)
    live.write(15 * CHUNK, b"\x05" * (20 * CHUNK))
    state.keep(live.address, SIZE)
    private = sum(end - start for start, end in state.written(live.address, SIZE))
    assert private < 2 * CHUNK
    live.close()
    state.close()


def test_what_is_rewritten_again_and_again_is_held_once_for_a_capture(base: BaseMemory) -> None:
    state = GuestMemory(base)
    live = attached(state)
    state.keep(live.address, SIZE)
    live.write(15 * CHUNK, b"\x01" * (20 * CHUNK))
    state.keep(live.address, SIZE)
    captured = state.capture(())
    for value in range(2, 8):
        live.write(15 * CHUNK, bytes([value]) * (20 * CHUNK))
        state.keep(live.address, SIZE)
    assert 19 * CHUNK <= state.held_bytes <= 21 * CHUNK
    number = 20
    assert captured.whole[number].read(number * PAGES, PAGES) == b"\x01" * CHUNK
    live.close()
    state.close()


def test_zeros_take_no_room(base: BaseMemory) -> None:
    """What the guest freed is filled with zeros before a snapshot."""
    state = GuestMemory(base)
    live = attached(state)
    live.write(15 * CHUNK, b"\x05" * (20 * CHUNK))
    state.keep(live.address, SIZE)
    state.capture((), everything=True)
    live.write(15 * CHUNK, bytes(20 * CHUNK))
    live.write(18 * CHUNK + 3, b"not all")
    live.write(2 * CHUNK, bytes(3 * CHUNK))  # other than the base
    state.keep(live.address, SIZE)
    captured = state.capture(())
    contents = [later.read(n * PAGES, PAGES) for n, later in captured.whole.items()]
    contents += [later.read(n, 1) for n, later in captured.pages.items()]
    assert sum(map(len, filter(None, contents))) <= 4 * CHUNK, "zeros beyond the base are not stored"
    assert os.fstat(state._overlay.fd).st_blocks * 512 < 3 * CHUNK, "it was given back"
    live.write(16 * CHUNK, b"again")
    state.keep(live.address, SIZE)
    again = attached(state)
    assert again.bytes() == live.bytes()
    again.close()
    live.close()
    state.close()


def test_two_captures_become_one() -> None:
    """The later one counts, as far as it goes."""
    first, second, third = (cast(PendingPages, name) for name in "123")
    before = CapturedMemory(1, False, dict.fromkeys(range(3), first), dict.fromkeys((48, 49, 64, 80), first))
    after = CapturedMemory(2, False, dict.fromkeys((0, 4), second), dict.fromkeys((*range(16, 32), 48), second))
    after.take_over(before)
    assert PAGES == 16 and after.size == 2
    assert after.whole == {0: second, 2: first, 4: second}
    assert after.pages == dict.fromkeys((*range(16, 32), 48), second) | {49: first, 80: first}
    much = CapturedMemory(2, False, dict.fromkeys(range(2, 6), third))
    much.take_over(after)
    assert much.pages == dict.fromkeys(range(16, 32), second), "of these chunks there are no older pages"
    whole = CapturedMemory(3, True, {7: third})
    whole.take_over(after)
    assert (whole.whole, whole.pages, whole.everything) == ({7: third}, {}, True)


def _applied(base: BaseMemory, before: bytes, captured: CapturedMemory) -> bytes:
    """What a memory is after what was captured."""
    original = Path(f"/proc/self/fd/{base.fd}").read_bytes().ljust(SIZE, b"\0")
    content = bytearray(original if captured.everything else before)
    for parts, pages in ((captured.whole.items(), PAGES), (captured.pages.items(), 1)):
        for number, later in parts:
            start, end = number * pages * PAGE, (number + 1) * pages * PAGE
            found = later.read(number * pages, pages)
            content[start:end] = original[start:end] if found is None else found
    return bytes(content)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=_writes, seed=st.integers(0, 1000))
def test_a_capture_reads_what_was_there_however_late(
    base: BaseMemory, rounds: list[list[tuple[int, int, int]]], seed: int
) -> None:
    choose = random.Random(seed)
    state = GuestMemory(base)
    live = attached(state)
    state.keep(live.address, SIZE)
    captures = [state.capture((), everything=True)]
    expected = [live.bytes()]
    for writes in rounds:
        for at, length, value in writes:
            live.write(at, bytes([value]) * min(length, SIZE - at))
        if choose.random() < 0.2:
            live.close()
            state.reset()
            live = attached(state)
        state.keep(live.address, SIZE)
        split = {n // PAGES for n in captures[-1].pages}
        captures.append(state.capture(split, everything=choose.random() < 0.2))
        expected.append(live.bytes())
        if len(captures) > 2 and choose.random() < 0.3:  # as when cells follow each other fast
            captures[-1].take_over(captures[-2])
            del captures[-2], expected[-2]
    live.close()
    state.close()
    now = b""
    for captured, then in zip(captures, expected, strict=True):
        now = _applied(base, now, captured)
        assert now == then
