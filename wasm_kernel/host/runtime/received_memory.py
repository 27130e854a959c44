"""A guest's memory in the middle of a turn, received from another machine, under the instances that run its calls."""

from __future__ import annotations

import os
from collections.abc import Iterable

from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.forked_memory import joined
from wasm_kernel.host.runtime.overlay import unnamed_file
from wasm_kernel.host.runtime.pages import PAGE, map_over

_PART = 1 << 20


class ReceivedMemory:
    """What instances start from: this machine's base memory, and a file with the pages that differ from it."""

    def __init__(self, base: BaseMemory, size: int) -> None:
        self.base, self.size = base, size
        self._stretches: list[tuple[int, int]] = []
        self._written: list[tuple[int, int]] = []
        self._fd = unnamed_file()
        os.ftruncate(self._fd, size)

    def write(self, page: int, content: bytes) -> None:
        """Put some pages there, from this one on."""
        os.pwrite(self._fd, content, page * PAGE)
        self._add(page, len(content))

    def zeros(self, page: int, length: int) -> None:
        """There are zeros instead of what the base has."""
        self._add(page, length)

    def _add(self, page: int, length: int) -> None:
        last = page + length // PAGE
        if self._written and self._written[-1][1] == page:
            page = self._written.pop()[0]
        self._written.append((page, last))

    def finish(self) -> None:
        """All pages are there: those between stretches that become one are the base's."""
        self._stretches = joined(self._written)
        for first, last in _between(self._written, self._stretches):
            for at in range(first * PAGE, min(last * PAGE, self.base.size), _PART):
                length = min(_PART, last * PAGE - at, self.base.size - at)
                os.pwrite(self._fd, os.pread(self.base.fd, length, at), at)

    def attach(self, address: int) -> None:
        """Lay it over a fresh instance's memory of at least `size` bytes."""
        map_over(address, self.base.size, self.base.fd, 0)
        for first, last in self._stretches:
            map_over(address + first * PAGE, (last - first) * PAGE, self._fd, first * PAGE)

    def close(self) -> None:
        """Release the file; mappings keep what they need of it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _between(written: Iterable[tuple[int, int]], stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pages in stretches that were not written."""
    found, parts = [], sorted(written)
    for first, last in stretches:
        at = first
        for begin, end in parts:
            if first <= begin < last:
                if at < begin:
                    found.append((at, begin))
                at = max(at, end)
    return found
