"""Two threads for work that lets go of the interpreter: hashing, compressing, reading."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

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


def abreast(work: Callable[[_T], _R], items: Sequence[_T], size: int) -> list[_R]:
    """What ``work`` gives for each item, in order; with a second thread if there are many bytes to work on.

    When this returns or raises, no thread works on anything any more.
    """
    if size < _WORTH_IT or len(items) < 2:
        return one_by_one(work, items, size)
    results: dict[int, _R] = {}
    left = deque(enumerate(items))
    errors: list[BaseException] = []

    def drain() -> None:
        while left:
            try:
                number, item = left.popleft()
            except IndexError:
                return
            results[number] = work(item)

    def drain_aside() -> None:
        try:
            drain()
        except BaseException as e:  # noqa: BLE001 - raised below, where somebody waits for it
            errors.append(e)
            left.clear()

    aside = threading.Thread(target=drain_aside, name="abreast", daemon=True)
    with contextlib.suppress(RuntimeError):  # the interpreter is going, or there are too many: one thread does
        aside.start()
    try:
        drain()
    finally:
        left.clear()
        if aside.ident:
            aside.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(items))]
