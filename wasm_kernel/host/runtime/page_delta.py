"""How the log of cells spells what changed in a guest's memory: pages, and which of their lines.

A delta is a sequence of entries: the number of a page (four bytes), a map of its 64 lines of 64 bytes (eight bytes; the
lowest bit is the first line), and those lines. Lines not in the map are as they were. An empty map says that the
whole page holds zeros now. A later entry for the same page builds on the earlier one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from wasm_kernel.errors import BadSnapshot
from wasm_kernel.host.runtime.pages import PAGE

ENTRY = struct.Struct("<IQ")
LINE = PAGE // 64
WHOLE = (1 << 64) - 1
Entry = tuple[int, int, memoryview]  # a page, the map of its lines, and those lines


class Unlogged:
    """What of a memory is not in the log yet: numbers of pages, and changes that are spelled already."""

    def __init__(self) -> None:
        self._pages: set[int] = set()
        self._spelled, self._spelled_pages = b"", list[int]()

    @property
    def size(self) -> int:
        """How large the delta is at most."""
        return len(self._spelled) + len(self._pages) * (PAGE + ENTRY.size)

    def add(self, pages: Iterable[int]) -> None:
        """These have changed."""
        self._pages.update(pages)

    def spell(self, pages: list[int], changes: bytes) -> None:
        """These have changed in this way, since they were last kept."""
        self._pages.update(self._spelled_pages)  # of an earlier time, which nobody took
        self._spelled, self._spelled_pages = changes, pages

    def delta(self, content: Callable[[int], bytes | None]) -> bytes:
        """All of it. ``content``: what a page holds now; None: zeros."""
        return self._spelled + whole_pages(sorted(self._pages), content) if self._pages else self._spelled

    def clear(self) -> None:
        """The log has it, or it begins with the memory as it is now."""
        self._pages.clear()
        self._spelled, self._spelled_pages = b"", []


def whole_pages(pages: Iterable[int], content: Callable[[int], bytes | None]) -> bytes:
    """A delta of whole pages. ``content``: what a page holds now; None: zeros."""
    parts: list[bytes] = []
    for page in pages:
        data = content(page)
        parts += (ENTRY.pack(page, 0),) if data is None else (ENTRY.pack(page, WHOLE), data)
    return b"".join(parts)


def entries(delta: bytes | memoryview, pages: int) -> Iterator[Entry]:
    """The entries of a delta for a memory of so many pages; `BadSnapshot` if it is none."""
    view, at = memoryview(delta), 0
    while at < len(view):
        if at + ENTRY.size > len(view):
            raise BadSnapshot("a change of memory is cut short")
        page, lines = ENTRY.unpack_from(view, at)
        at += ENTRY.size
        end = at + lines.bit_count() * LINE
        if end > len(view) or page >= pages:
            raise BadSnapshot("a change of memory is not valid")
        yield page, lines, view[at:end]
        at = end


def lay_lines(target: memoryview, lines: int, data: memoryview) -> None:
    """Put the lines of an entry into their page."""
    if lines == WHOLE:
        target[:] = data
        return
    at = 0
    while lines:
        lowest = lines & -lines
        start = (lowest.bit_length() - 1) * LINE
        target[start : start + LINE] = data[at : at + LINE]
        at += LINE
        lines ^= lowest
