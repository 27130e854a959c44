"""Work that releases the interpreter's lock (hashing, compressing, reading), on two threads where that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

_THREADS = 2
_PORTIONS = 16  # handing over item by item would cost more than the work on some
_WORTH_IT = 1 << 20
_T = TypeVar("_T")
_R = TypeVar("_R")


class Each(Protocol):
    """A way to do the same with many items, whose bytes together are ``size``."""

    def __call__(self, work: Callable[[_T], _R], items: Sequence[_T], size: int) -> list[_R]:
        """What ``work`` gives for each item, in order."""


def one_by_one(work: Callable[[_T], _R], items: Sequence[_T], size: int) -> list[_R]:
    """On this thread: where nobody waits, and others want the processor."""
    return [work(item) for item in items]


def in_threads(work: Callable[[_T], _R], items: Sequence[_T], size: int) -> list[_R]:
    """What ``work`` gives for each item, in order; on two threads if there are many bytes to work on.

    When this returns or raises, no thread works on anything any more. ``work`` may be done twice for an item.
    """
    if size < _WORTH_IT or len(items) < 2:
        return one_by_one(work, items, size)
    step = -(-len(items) // _PORTIONS)
    portions = [items[at : at + step] for at in range(0, len(items), step)]
    with ThreadPoolExecutor(_THREADS, "wasm-kernel-store") as pool:
        try:
            done = pool.map(lambda some: one_by_one(work, some, size), portions)
        except RuntimeError:  # the interpreter is shutting down, or there are too many threads: this one does
            done = None
        if done is not None:
            return [result for some in done for result in some]
    return one_by_one(work, items, size)
