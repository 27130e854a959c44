"""A kernel that rests gives back what its threads have freed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Threads that free what they had, but for a little at the end of each arena.
_PROGRAM = """
import ctypes, threading
from wasm_kernel.kernel import heap
if {little}:
    heap.keep_little()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def work():
    made = [libc.malloc(60_000) for _ in range(300)]
    for block in made:
        ctypes.memset(ctypes.c_void_p(block), 1, 60_000)
    libc.malloc(100)
    for block in made:
        libc.free(block)
turns = threading.Barrier(4)
def in_turn(number):  # all threads are there, but only one works: the next one could use what the last one freed
    for turn in range(4):
        if turn == number:
            work()
        turns.wait()
threads = [threading.Thread(target=in_turn, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
if {back}:
    heap.give_back()
print(before, resident())
"""


def resident(**how: bool) -> tuple[int, int]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(**how)], env=environ, capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    return before, after


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_what_was_freed_goes_back() -> None:
    before, after = resident(little=True, back=True)
    assert before - after > 5_000_000
    assert resident(little=False, back=False)[1] - before > 10_000_000
