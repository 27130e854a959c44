"""How the log of cells spells what changed in a guest's memory: pages, and which of their lines.

A delta is a sequence of entries: the number of a page (four bytes), a map of its 64 lines of 64 bytes (eight bytes; the
lowest bit is the first line), and those lines. Lines not in the map are as they were. An empty map says that the
whole page holds zeros now. A later entry for the same page builds on the earlier one.

A number with its highest bit set begins a stretch of whole pages: in place of the map stands how many, and all of them
follow. So what a cell changed of a large array is written to the log as it lies in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

from wasm_kernel.errors import BadSnapshot
from wasm_kernel.host.runtime.pages import PAGE

ENTRY = struct.Struct("<IQ")
LINE = PAGE // 64
WHOLE = (1 << 64) - 1
Entry = tuple[int, int, memoryview]  # a page, the map of its lines, and those lines
Pieces = list[bytes | memoryview]  # a delta, not put together: it may be large
Content = Callable[[int], bytes | None]
Stretch = Callable[[int, int], memoryview | None]
_STRETCH = 1 << 31


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

    def delta(self, content: Content, stretch: Stretch) -> Pieces:
        """All of it. ``content`` and ``stretch``: as for `whole_pages`."""
        return [self._spelled, *whole_pages(sorted(self._pages), content, stretch)]

    def clear(self) -> None:
        """The log has it, or it begins with the memory as it is now."""
        self._pages.clear()
        self._spelled, self._spelled_pages = b"", []


def whole_pages(pages: Sequence[int], content: Content, stretch: Stretch) -> Pieces:
    """A delta of whole pages, in ascending order.

    ``content``: what a page holds now; None: zeros. ``stretch``: so many pages from one on, as they lie side by side;
    None: they do not.
    """
    pieces: Pieces = []
    at = 0
    while at < len(pages):
        first, count = pages[at], 1
        while at + count < len(pages) and pages[at + count] == first + count:
            count += 1
        at += count
        together = stretch(first, count) if count > 1 else None
        if together is not None:
            pieces += ENTRY.pack(first | _STRETCH, count), together
            continue
        for page in range(first, first + count):
            data = content(page)
            pieces += (ENTRY.pack(page, 0),) if data is None else (ENTRY.pack(page, WHOLE), data)
    return pieces


def entries(delta: bytes | memoryview, pages: int) -> Iterator[Entry]:
    """The entries of a delta for a memory of so many pages; `BadSnapshot` if it is none."""
    view, at = memoryview(delta), 0
    while at < len(view):
        if at + ENTRY.size > len(view):
            raise BadSnapshot("a change of memory is cut short")
        page, lines = ENTRY.unpack_from(view, at)
        at += ENTRY.size
        if page & _STRETCH:
            first, count = page ^ _STRETCH, lines
            if count > pages - first or at + count * PAGE > len(view):
                raise BadSnapshot("a change of memory is not valid")
            for page in range(first, first + count):
                yield page, WHOLE, view[at : at + PAGE]
                at += PAGE
            continue
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
