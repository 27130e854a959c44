"""Work for many users at once, and how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar, cast

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass
class Progress:
    """How far something is: what is done now, and for how many users of all it is done."""

    phase: str = ""
    done: int = 0
    total: int = 0

    def begin(self, phase: str, total: int = 0) -> None:
        """Something else begins."""
        self.phase, self.done, self.total = phase, 0, total


async def for_each(
    items: Collection[_T], work: Callable[[_T], Awaitable[_R]], breadth: int, progress: Progress | None = None
) -> list[_R]:
    """Do something for each item, ``breadth`` of them at once; when one fails, the others end first."""
    gate = asyncio.Semaphore(breadth)

    async def one(item: _T) -> _R:
        async with gate:
            try:
                return await work(item)
            finally:
                if progress is not None:
                    progress.done += 1

    found = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return cast(list[_R], found)
