"""Which pages of a live memory are private copies: those that were written. The kernel knows.

`PAGEMAP_SCAN` tells it in one call, since Linux 6.7; `/proc/self/pagemap` page by page, before. Elsewhere nobody
does, and the memory has to be compared with the files it was made of.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
import sys
from collections.abc import Iterable, Iterator

from wasm_kernel.host.runtime import write_marks
from wasm_kernel.host.runtime.pages import PAGE, Span

# struct pm_scan_arg and the categories of include/uapi/linux/fs.h
_SCAN = struct.Struct("=12Q")
_PAGEMAP_SCAN = (3 << 30) | (_SCAN.size << 16) | (ord("f") << 8) | 16
_CAN_MARK, _IS_WRITTEN, _IS_FILE, _IS_PRESENT, _IS_SWAPPED, _IS_ZERO = (1 << n for n in range(6))
# Categories of pages: to be inverted; then all that a page must be of, and those of which it must be one.
_Which = tuple[int, int, int]
_PRIVATE: _Which = (_IS_FILE | _IS_ZERO, _IS_FILE | _IS_ZERO, _IS_PRESENT | _IS_SWAPPED)
_WHERE_NO_MARKS: _Which = (_CAN_MARK | _PRIVATE[0], _CAN_MARK | _PRIVATE[1], _PRIVATE[2])
_WITHOUT_MARK: _Which = (_IS_ZERO, _CAN_MARK | _IS_WRITTEN | _IS_ZERO, _IS_PRESENT | _IS_SWAPPED)
_OWN: _Which = (_PRIVATE[0], _PRIVATE[1] | _IS_PRESENT, 0)
_ANY: _Which = (0, 0, 0)
_MARK, _ONLY_IF_POSSIBLE = 1, 2  # PM_SCAN_WP_MATCHING, PM_SCAN_CHECK_WPASYNC
_REGIONS = 2048
_REGION = 24  # bytes of struct page_region


def _pagemap() -> int:
    try:
        return os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


_pagemap_fd = -1
_pagemap_pid = 0


def _pagemap_of_this_process() -> int:
    global _pagemap_fd, _pagemap_pid
    if _pagemap_pid != os.getpid():  # after a fork the old one still shows the parent
        if _pagemap_fd >= 0:
            os.close(_pagemap_fd)
        _pagemap_fd, _pagemap_pid = _pagemap(), os.getpid()
    return _pagemap_fd


def written(address: int, size: int) -> list[Span] | None:
    """The pages in a stretch of this process's memory that are private copies, as ascending spans of addresses.

    Of those that were marked (`mark`), only what was written since. None: the system does not tell.
    """
    if can_scan:
        return scan(address, size)
    if can_read_pagemap:
        return read_pagemap(address, size)
    return None


def scan(address: int, size: int) -> list[Span]:
    """By `PAGEMAP_SCAN`, in one call for every 2,048 spans."""
    return sorted(span for which in _ways() for span in _spans(which, address, size))


def _spans(which: _Which, address: int, size: int, flags: int = 0) -> list[Span]:
    regions = (ctypes.c_uint64 * (3 * _REGIONS))()
    start, end = address, address + size
    spans: list[Span] = []
    while start < end:
        found = _ask(which, start, end, ctypes.addressof(regions), _REGIONS, flags)
        words = regions[: 3 * found]
        spans += zip(words[0::3], words[1::3], strict=True)
        if found < _REGIONS:
            break
        # Not at `walk_end`, which the kernel gives back. It walks 512 regions at a time, and says there where it
        # began the last of these parts, even when it came to the end: all from there on would be found twice.
        start = spans[-1][1]
    return spans


def scan_into(regions: int, most: int, address: int, size: int) -> int | None:
    """By `PAGEMAP_SCAN`, written to memory as the kernel does it: three words for each span; how many there are.

    In no order: pages with marks come first. None: more than ``most``.
    """
    found = 0
    for which in _ways():
        found += _ask(which, address, address + size, regions + found * _REGION, most - found)
        if found >= most:
            return None
    return found


def private(address: int, size: int) -> list[Span] | None:
    """The pages that are private copies and in memory, marked or not; None: the system does not tell."""
    return _spans(_OWN, address, size) if can_scan else written(address, size)


def mark(address: int, size: int, but: Iterable[int]) -> bool:
    """Mark the pages of a memory as not written, ``but`` those with these numbers; whether they are marked.

    The memory must stand still. What is mapped over it later has no marks.
    """
    if not can_scan or not size or not write_marks.watch(address, size):
        return False
    start = address
    with contextlib.suppress(OSError):
        for page in [*sorted(but), size // PAGE]:
            end = min(address + page * PAGE, address + size)
            if start < end:  # nobody wants a list: so the kernel marks without a look at what they are
                _ask(_ANY, start, end, 0, 0, _MARK | _ONLY_IF_POSSIBLE)
            start = end + PAGE
        return True
    return False


def _ways() -> tuple[_Which, ...]:
    """What to ask for, one after the other, to find all that was written."""
    return (_WITHOUT_MARK, _WHERE_NO_MARKS) if write_marks.in_use() else (_PRIVATE,)


def _ask(which: _Which, start: int, end: int, regions: int, most: int, flags: int = 0) -> int:
    request = bytearray(_SCAN.pack(_SCAN.size, flags, start, end, 0, regions, most, 0, *which, _IS_PRESENT))
    return int(fcntl.ioctl(_pagemap_of_this_process(), _PAGEMAP_SCAN, request))


def read_pagemap(address: int, size: int) -> list[Span]:
    """By `/proc/self/pagemap`, eight bytes for each page."""
    data = os.pread(_pagemap_of_this_process(), size // PAGE * 8, address // PAGE * 8)
    entries = memoryview(data).cast("Q")
    # present or swapped (bits 63, 62), and neither of a file nor shared (bit 61)
    private = _runs(i for i, entry in enumerate(entries) if entry >> 62 and not entry >> 61 & 1)
    return [(address + start * PAGE, address + end * PAGE) for start, end in private]


def _runs(indexes: Iterable[int]) -> Iterator[Span]:
    """Consecutive numbers as [first, last + 1) pairs."""
    first = last = -1
    for i in indexes:
        if i != last:
            if last > first:
                yield first, last
            first = i
        last = i + 1
    if last > first:
        yield first, last


def _probe() -> tuple[bool, bool]:
    """Whether the kernel answers PAGEMAP_SCAN, and whether /proc/self/pagemap can be read; tried on a known page."""
    if not sys.platform.startswith("linux") or _pagemap_of_this_process() < 0:
        return False, False
    page = mmap.mmap(-1, 2 * PAGE, mmap.MAP_PRIVATE)
    try:
        page[0] = 1
        anchor = ctypes.c_char.from_buffer(page)
        address = ctypes.addressof(anchor)
        results = []
        for way in (scan, read_pagemap):
            try:
                results.append(way(address, 2 * PAGE) == [(address, address + PAGE)])
            except (OSError, ValueError):
                results.append(False)
        del anchor
        return results[0], results[1]
    finally:
        page.close()


can_scan, can_read_pagemap = _probe()
