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
