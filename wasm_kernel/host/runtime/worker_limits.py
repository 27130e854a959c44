"""A guest's limits, divided among its workers: whatever they do, all together have no more than the guest alone.

memory       What the limit leaves above the guest's own size is divided: a worker's memory grows by its part. A page
             that a worker writes is a copy of its own, and all of these together have no more than that, either. Forks
             copy what the cell has written so far; all but one of these copies count, too.
time         The time limit holds for the cell, and for the CPU time of the guest and its workers together.
fuel         Divided; what a worker did not need goes back.
open files   Divided.
disk         What one of them may still write is not given to another (`SharedRoom`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.host.runtime import pagescan
from wasm_kernel.host.runtime.pages import PAGE
from wasm_kernel.model.policy import ExecutionPolicy

LEAST_MEMORY = 8 << 20  # that a worker needs to do anything
_LEAST_OPEN = 8
_LOOK_EVERY = 0.02  # seconds


@dataclass(frozen=True)
class Share:
    """What one worker may have.

    Attributes:
        workers: How many workers can be started with so much for each.
        memory_bytes: Size of a worker's linear memory.
        guest_bytes: Size of the guest's own, while they live.
        grows: By how much each may grow.
        fuel: Instructions; None: no limit.
    """

    workers: int
    memory_bytes: int
    guest_bytes: int
    grows: int
    fuel: int | None


def divide(wanted: int, size: int, given: int, policy: ExecutionPolicy, fuel: int | None) -> Share:
    """Divide what is left among ``wanted`` new workers, or fewer, and the guest.

    ``size``: of the guest's memory. ``given``: what workers that live already have. ``fuel``: what is left.
    """
    spare = policy.memory_bytes - size - given
    workers = max(0, min(wanted, spare // LEAST_MEMORY - 1))
    grows = max(0, spare) // (workers + 1)
    return Share(workers, size + grows, size + grows, grows, None if fuel is None else fuel // (workers + 1))


def open_files(policy: ExecutionPolicy, workers: int) -> int:
    """How many files each of so many workers may have open."""
    return max(_LEAST_OPEN, policy.max_open_files // (workers + 1))


class SharedRoom:
    """Room on the disk for several who write: what one was given and may still use, no other is given."""

    def __init__(self, measure: Callable[[int], tuple[int, int]], members: Callable[[], int]) -> None:
        """``measure``: bytes and names that may still be written, as they are on the disk; for a kind of question.

        ``members``: how many write now.
        """
        self._measure, self._members = measure, members
        self._lock = threading.Lock()
        self._given: dict[Hashable, tuple[int, int]] = {}

    def give(self, who: Hashable, kind: int, wanted: int) -> tuple[int, int]:
        """Bytes and names for one of them, instead of what it had: a part of what is left, or what it wants now."""
        with self._lock:
            others = [given for one, given in self._given.items() if one != who]
            parts = 2 * self._members() if self._members() > 1 else 1
            left, names = (
                max(0, measured - sum(given[n] for given in others)) for n, measured in enumerate(self._measure(kind))
            )
            left = min(left, max(left // parts, wanted if kind == 0 else 0))
            names = min(names, max(names // parts, 1))
            had = self._given.get(who, (0, 0))
            # Asked for bytes (0) it keeps the names that it had, and the other way round (1).
            self._given[who] = left if kind != 1 else had[0], names if kind != 0 else had[1]
            return left, names

    def take_back(self, who: Hashable) -> None:
        """It writes no more."""
        with self._lock:
            self._given.pop(who, None)


class Clocks:
    """CPU time of threads, of those that ended, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, tuple[int, float]] = {}  # by thread: its clock, and what that said at first
        self._ended = 0.0

    def start(self) -> None:
        """Count this thread from now on, if it is not counted yet."""
        clock = time.pthread_getcpuclockid(threading.get_ident())
        with self._lock:
            self._running.setdefault(threading.get_ident(), (clock, time.clock_gettime(clock)))

    def stop(self) -> None:
        """This thread is about to end."""
        with self._lock:
            clock, began = self._running.pop(threading.get_ident())
            self._ended += time.clock_gettime(clock) - began

    def seconds(self) -> float:
        """All of it."""
        with self._lock:
            return self._ended + sum(time.clock_gettime(clock) - began for clock, began in self._running.values())


class Looks:
    """When it is time to look again, and whether private memory may be too much: asking about that takes long."""

    def __init__(self, private_bytes: int) -> None:
        """``private_bytes``: how much memory workers may have of their own, all together."""
        self.private_bytes = private_bytes
        self._next = 0.0
        self._before = _own_bytes()

    def due(self, now: float) -> bool:
        """Whether it is time to look."""
        if now < self._next:
            return False
        self._next = now + _LOOK_EVERY
        return True

    def may_be_too_much(self) -> bool:
        """Whether this process has so much more memory than at first that it may be the workers'."""
        return _own_bytes() - self._before > self.private_bytes // 2


def _own_bytes() -> int:
    """Memory of this process that is no file's; 0 where the system does not tell."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * PAGE
    except OSError:
        return 0


def private_bytes(address: int, size: int) -> int:
    """How much of a memory was written, and so copied; 0 where the system does not tell."""
    return sum(end - start for start, end in pagescan.written(address, size) or [])
