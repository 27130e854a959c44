"""A guest's linear memory: mapped from the base memory, rolled back or kept, page by page.

At rest a guest's memory is its whole state. Two files hold it:

    base       the image's base memory, shared by every sandbox on the machine through the page cache
    overlay    a private, unnamed file of the sandbox: the pages that differ from the base, at the same offsets

While code runs, pages it writes become private copies in the live memory. `keep()` brings the overlay up to date
with them; leaving that out instead gives back the memory as of the last `keep()`. That is how a guest that trapped
gets back what it had: a fresh instance, and `attach()`.

A page written again and again (the interpreter's own) stays a private copy, and `keep()` copies it to the overlay:
dropping it would cost a page fault in every execution. Long stretches, and pages that rest, are mapped from the
overlay instead, so that large data is not held twice.

Which pages are private copies is asked of the kernel (`PAGEMAP_SCAN`, or `/proc/self/pagemap` before Linux 6.7);
elsewhere the whole memory is compared with the files.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import re
import struct
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 65536
_PAGE = mmap.PAGESIZE
_PROT_RW = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED = 0x10
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

# Without giving up the GIL: for copies of a few pages that costs more than the copy.
_memmove = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
    ctypes.cast(_libc.memmove, ctypes.c_void_p).value or 0
)
_memcmp = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
    ctypes.cast(_libc.memcmp, ctypes.c_void_p).value or 0
)

Span = tuple[int, int]  # [start, end)
PAGES = CHUNK // _PAGE  # in a chunk


@dataclass
class CapturedMemory:
    """What changed in a memory. Content None: as in the base, or zeros beyond it.

    Attributes:
        size: Of the memory.
        everything: Whether this is all that is not as in the base, rather than what changed since the last capture.
        whole: Chunks by number, most of whose pages changed.
        pages: Single pages by number: those that changed of a chunk known page by page, all of any other.
    """

    size: int
    everything: bool = False
    whole: list[tuple[int, bytes | None]] = field(default_factory=list)
    pages: list[tuple[int, bytes | None]] = field(default_factory=list)

    def take_over(self, before: CapturedMemory) -> None:
        """Be the capture of both: of what was captured ``before``, too, as far as it did not change again."""
        if self.everything:
            return
        chunks, pages = {n for n, _ in self.whole}, {n for n, _ in self.pages}
        split = {page // PAGES for page in pages}
        self.whole = [item for item in before.whole if item[0] not in chunks and item[0] not in split] + self.whole
        older = [item for item in before.pages if item[0] not in pages and item[0] // PAGES not in chunks]
        self.pages = older + self.pages
        self.everything = before.everything


def _map(address: int, length: int, fd: int, offset: int) -> None:
    """Lay a file's bytes over part of the memory, copy on write."""
    at = _libc.mmap(address, length, _PROT_RW, mmap.MAP_PRIVATE | _MAP_FIXED, fd, offset)
    if at != address:
        raise OSError(ctypes.get_errno(), f"mmap of {length} bytes of guest memory failed")


def _buffer(address: int, length: int) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * length).from_address(address)


def write_memory(fd: int, address: int, length: int, offset: int) -> None:
    """Write part of a memory to a file, all of it."""
    while length:
        done = os.pwrite(fd, _buffer(address, min(length, 1 << 30)), offset)
        address, offset, length = address + done, offset + done, length - done


class BaseMemory:
    """The image's base memory: a read-only file."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self.fd).st_size
        self._view = 0

    @property
    def view(self) -> int:
        """The address of a read-only mapping, made when first asked for: only comparing needs it."""
        if not self._view:
            flags = mmap.MAP_PRIVATE
            address = _libc.mmap(None, self.size, mmap.PROT_READ, flags, self.fd, 0)
            if address in (None, ctypes.c_void_p(-1).value):
                raise OSError(ctypes.get_errno(), "mmap of the base memory failed")
            self._view = address
        return self._view


class EmptyBase:
    """No base: what the image build starts from."""

    fd = -1
    size = 0
    view = 0


# What the overlay knows of a page.
_ELSEWHERE, _COPIED, _MAPPED = 0, 1, 2  # not in it; in it, and private in the live memory; in it, and mapped from it

_LONG = CHUNK  # stretches from this length on are mapped when they are new
_VERY_LONG = 16 * CHUNK  # and from this length on whenever they are written again
_REST_AFTER = 16  # how often to look which private pages rest unchanged
_RESTING_SPANS = 64  # so many may rest before they are mapped, too


class GuestMemory:
    """The state of one guest at rest, and the moves between it and a live instance's memory."""

    def __init__(self, base: BaseMemory | EmptyBase) -> None:
        self.base = base
        self.size = base.size  # of the linear memory at the last keep()
        self._pages = bytearray()  # what the overlay knows of each page
        self._overlay = _unnamed_file()
        self._view = 0  # the overlay, mapped to read and write
        self._view_size = 0
        self._keeps = 0
        self._changed: set[int] = set()  # pages that may differ from what the last capture() gave

    def attach(self, address: int) -> None:
        """Lay the state over a fresh instance's memory of at least `size` bytes."""
        if self.base.size:
            _map(address, self.base.size, self.base.fd, 0)
        for start, end in _stretches(_MAPPED, self._pages):
            _map(address + start * _PAGE, (end - start) * _PAGE, self._overlay, start * _PAGE)
        for start, end in _stretches(_COPIED, self._pages):
            ctypes.memmove(address + start * _PAGE, self._view + start * _PAGE, (end - start) * _PAGE)

    def keep(self, address: int, size: int) -> None:
        """Take over what the guest wrote since the last time."""
        self._make_room(size)
        self._keeps += 1
        look_for_rest = self._keeps % _REST_AFTER == 0
        memmove, memcmp, to_view = _memmove, _memcmp, self._view - address
        pages, changed = self._pages, self._changed
        long: list[Span] = []
        resting: list[int] = []
        for start, end in self.written(address, size):
            first, last = (start - address) // _PAGE, (end - address) // _PAGE
            known = _ELSEWHERE not in pages[first:last]
            if end - start >= (_VERY_LONG if known else _LONG):
                long.append((start, end))
                changed.update(range(first, last))
            elif known and memcmp(start, start + to_view, end - start) == 0:
                if look_for_rest:
                    resting.append(start)
            elif known and last - first == 1:
                memmove(start + to_view, start, _PAGE)
                changed.add(first)
            else:
                for page, at in enumerate(range(start, end, _PAGE), first):
                    if pages[page]:
                        if memcmp(at, at + to_view, _PAGE) == 0:
                            continue
                    else:
                        pages[page] = _COPIED
                    memmove(at + to_view, at, _PAGE)
                    changed.add(page)
        if len(resting) > _RESTING_SPANS:
            chunks = sorted({(start - address) // CHUNK for start in resting})
            long += [(address + c * CHUNK, min(address + (c + 1) * CHUNK, address + size)) for c in chunks]
        for start, end in long:
            self._map_stretch(address, start - address, end - address)
        self.size = size

    def _map_stretch(self, address: int, start: int, end: int) -> None:
        """Copy a stretch to the overlay and map it from there, which drops the private copies."""
        write_memory(self._overlay, address + start, end - start, start)
        _map(address + start, end - start, self._overlay, start)
        self._pages[start // _PAGE : end // _PAGE] = bytes([_MAPPED]) * ((end - start) // _PAGE)

    def _make_room(self, size: int) -> None:
        """Let the overlay and its view reach to the memory's end."""
        if size <= self._view_size:
            return
        os.ftruncate(self._overlay, size)
        self._unmap_view()
        address = _libc.mmap(None, size, _PROT_RW, mmap.MAP_SHARED, self._overlay, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"mmap of {size} bytes of overlay failed")
        self._view, self._view_size = address, size
        self._pages.extend(bytes(size // _PAGE - len(self._pages)))

    def _unmap_view(self) -> None:
        if self._view_size:
            _libc.munmap(self._view, self._view_size)
            self._view = self._view_size = 0

    def written(self, address: int, size: int) -> list[Span]:
        """The pages that are private copies in the live memory at ``address``, as ascending spans of addresses."""
        if _can_scan:
            return _scan(address, size)
        if _can_read_pagemap:
            return _read_pagemap(address, size)
        return list(self._compare(address, size))

    def _compare(self, address: int, size: int) -> Iterator[Span]:
        """Without the kernel's help: what differs from the files."""
        zeros = bytes(_PAGE)
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            untouched = end <= self.base.size and not any(self._pages[start // _PAGE : end // _PAGE])
            if untouched and _libc.memcmp(address + start, self.base.view + start, end - start) == 0:
                continue
            for page in range(start, end, _PAGE):
                live = address + page
                if self._pages[page // _PAGE]:
                    same = _libc.memcmp(live, self._view + page, _PAGE) == 0
                elif page < self.base.size:
                    same = _libc.memcmp(live, self.base.view + page, _PAGE) == 0
                else:
                    same = ctypes.string_at(live, _PAGE) == zeros
                if not same:
                    yield live, live + _PAGE

    def reset(self) -> None:
        """Forget everything since the base memory. No instance may be attached."""
        for first, last in _stretches(_ELSEWHERE, self._pages, other=True):
            self._changed.update(range(first, last))  # the next capture says that they are as in the base
        self._unmap_view()
        self.size = self.base.size
        self._pages = bytearray()
        os.ftruncate(self._overlay, 0)

    # ---- snapshots

    def capture(self, split: Container[int], *, everything: bool = False) -> CapturedMemory:
        """What changed between the last capture and the last `keep()`; or ``everything`` that is not as in the base.

        ``split``: numbers of chunks whose pages the caller knows one by one.
        """
        pages = self._changed
        if everything:
            stretches = _stretches(_ELSEWHERE, self._pages, other=True)
            pages = {page for first, last in stretches for page in range(first, last)}
        self._changed = set()
        by_chunk: dict[int, list[int]] = {}
        for page in sorted(pages):
            by_chunk.setdefault(page // PAGES, []).append(page)
        found = CapturedMemory(self.size, everything)
        for number, touched in by_chunk.items():
            if len(touched) > PAGES // 2:
                found.whole.append((number, self._stretch(number * PAGES, PAGES)))
            elif number in split and not everything:
                found.pages.extend((page, self._stretch(page, 1)) for page in touched)
            else:
                first = number * PAGES
                found.pages.extend((page, self._stretch(page, 1)) for page in range(first, first + PAGES))
        return found

    def _stretch(self, page: int, count: int) -> bytes | None:
        """The bytes of some pages; None: as in the base, or zeros beyond it."""
        start, length = page * _PAGE, count * _PAGE
        of_base = max(0, min(length, self.base.size - start))
        states = self._pages[page : page + count]
        if not any(states):
            return None
        original = ctypes.string_at(self.base.view + start, of_base) if of_base else b""
        if all(states):
            content = ctypes.string_at(self._view + start, length)
        else:
            mixed = bytearray(original.ljust(length, b"\0"))
            for n, state in enumerate(states):
                if state:
                    mixed[n * _PAGE : (n + 1) * _PAGE] = ctypes.string_at(self._view + start + n * _PAGE, _PAGE)
            content = bytes(mixed)
        return None if content == original.ljust(length, b"\0") else content

    def load(self, size: int, stretches: Iterable[Span]) -> list[memoryview]:
        """Make this the memory of a snapshot: the caller fills a view for each stretch of pages [first, last).

        All other pages are as in the base. For a `GuestMemory` that was never attached.
        """
        self._make_room(size)
        views = []
        for first, last in stretches:
            self._pages[first:last] = bytes([_MAPPED]) * (last - first)
            views.append(memoryview(_buffer(self._view + first * _PAGE, (last - first) * _PAGE)).cast("B"))
        self.size = size
        return views

    @property
    def overlay_bytes(self) -> int:
        """What the overlay holds."""
        return (len(self._pages) - self._pages.count(_ELSEWHERE)) * _PAGE

    def close(self) -> None:
        """Release the overlay. No instance may still be attached."""
        if self._overlay >= 0:
            self._unmap_view()
            os.close(self._overlay)
            self._overlay = -1


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("wasm-kernel-overlay", os.MFD_CLOEXEC)
    handle, name = tempfile.mkstemp(prefix="wasm-kernel-overlay-")
    Path(name).unlink()
    return handle


def _stretches(state: int, pages: bytearray, *, other: bool = False) -> Iterator[Span]:
    """Stretches of pages in a state, or in any other."""
    pattern = b"[^\\x%02x]+" % state if other else b"\\x%02x+" % state
    for match in re.finditer(pattern, pages, re.DOTALL):
        yield match.span()


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


# ---- which pages are private copies

# struct pm_scan_arg and the categories of include/uapi/linux/fs.h
_SCAN = struct.Struct("=12Q")
_PAGEMAP_SCAN = (3 << 30) | (_SCAN.size << 16) | (ord("f") << 8) | 16
_IS_FILE, _IS_PRESENT, _IS_SWAPPED, _IS_ZERO = 1 << 2, 1 << 3, 1 << 4, 1 << 5
_REGIONS = 2048


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
        _pagemap_fd, _pagemap_pid = _pagemap(), os.getpid()
    return _pagemap_fd


def _scan(address: int, size: int) -> list[Span]:
    regions = (ctypes.c_uint64 * (3 * _REGIONS))()
    start, end = address, address + size
    fd = _pagemap_of_this_process()
    spans: list[Span] = []
    while start < end:
        request = bytearray(
            _SCAN.pack(
                _SCAN.size, 0, start, end, 0, ctypes.addressof(regions), _REGIONS, 0,
                _IS_FILE | _IS_ZERO, _IS_FILE | _IS_ZERO, _IS_PRESENT | _IS_SWAPPED, _IS_PRESENT,
            )
        )  # fmt: skip
        found = fcntl.ioctl(fd, _PAGEMAP_SCAN, request)
        words = regions[: 3 * found]
        spans += zip(words[0::3], words[1::3], strict=True)
        walked = _SCAN.unpack(request)[4]
        if walked <= start:
            raise OSError("PAGEMAP_SCAN made no progress")
        start = walked
    return spans


def _read_pagemap(address: int, size: int) -> list[Span]:
    data = os.pread(_pagemap_of_this_process(), size // _PAGE * 8, address // _PAGE * 8)
    entries = memoryview(data).cast("Q")
    # present or swapped (bits 63, 62), and neither of a file nor shared (bit 61)
    private = _runs(i for i, entry in enumerate(entries) if entry >> 62 and not entry >> 61 & 1)
    return [(address + start * _PAGE, address + end * _PAGE) for start, end in private]


def _probe() -> tuple[bool, bool]:
    """Whether the kernel answers PAGEMAP_SCAN, and whether /proc/self/pagemap can be read; tried on a known page."""
    if not sys.platform.startswith("linux") or _pagemap_of_this_process() < 0:
        return False, False
    page = mmap.mmap(-1, 2 * _PAGE, mmap.MAP_PRIVATE)
    try:
        page[0] = 1
        anchor = ctypes.c_char.from_buffer(page)
        address = ctypes.addressof(anchor)
        results = []
        for way in (_scan, _read_pagemap):
            try:
                results.append(way(address, 2 * _PAGE) == [(address, address + _PAGE)])
            except (OSError, ValueError):
                results.append(False)
        del anchor
        return results[0], results[1]
    finally:
        page.close()


_can_scan, _can_read_pagemap = _probe()
