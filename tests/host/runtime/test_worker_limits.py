"""Whatever is divided is never more than there was."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.host.runtime.worker_limits import LEAST_MEMORY, Clocks, SharedRoom, divide, open_files
from wasm_kernel.model.policy import ExecutionPolicy

_M = 1 << 20


@given(st.integers(0, 64), st.integers(200, 2100), st.integers(0, 1900), st.none() | st.integers(0, 10**9))
def test_parts_are_no_more_than_the_whole(wanted: int, size: int, given_: int, fuel: int | None) -> None:
    policy = ExecutionPolicy(memory_bytes=2048 * _M)
    share = divide(wanted, size * _M, given_ * _M, policy, fuel)
    assert 0 <= share.workers <= wanted
    grown = (share.workers + 1) * share.grows
    assert grown == 0 or size * _M + given_ * _M + grown <= policy.memory_bytes
    assert share.workers == 0 or share.grows >= LEAST_MEMORY
    assert fuel is None or (share.workers + 1) * (share.fuel or 0) <= fuel


def test_open_files_are_divided() -> None:
    assert open_files(ExecutionPolicy(max_open_files=90), 8) == 10
    assert open_files(ExecutionPolicy(max_open_files=8), 8) == 8


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 400), st.integers(0, 400)), max_size=40))
def test_room_is_never_given_twice(steps: list[tuple[int, int, int, int]]) -> None:
    """Each writes no more than it was given, and asks again when it has too little."""
    left, names = 1000, 100
    room = SharedRoom(lambda kind: (left, names), lambda: 4)
    has = dict.fromkeys(range(4), (0, 0))
    for who, kind, wanted, used in steps:
        found = room.give(who, kind, wanted)
        has[who] = found[0] if kind != 1 else has[who][0], found[1] if kind != 0 else has[who][1]
        assert sum(own[0] for own in has.values()) <= left
        assert sum(own[1] for own in has.values()) <= names
        written = min(used, has[who][0])
        left -= written
        has[who] = has[who][0] - written, has[who][1]
        assert left >= 0


def test_one_who_writes_alone_gets_all_and_others_get_what_they_need() -> None:
    members = 1
    room = SharedRoom(lambda kind: (1000, 10), lambda: members)
    assert room.give("guest", 2, 0) == (1000, 10)
    room.take_back("guest")
    members = 3
    assert room.give("a", 2, 0) == (166, 1)
    assert room.give("b", 0, 500) == (500, 1), "what it is about to write, if it is there"
    assert room.give("c", 0, 500) == (334, 1)


def test_clocks_count_the_cpu_time_of_threads_that_run_and_that_ended() -> None:
    clocks = Clocks()

    def work() -> None:
        clocks.start()
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        clocks.stop()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert clocks.seconds() >= 0.05
