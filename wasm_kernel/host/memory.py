"""A guest's linear memory: mapped from the base memory, rolled back or kept, page by page.

At rest a guest's memory is its whole state. It is laid over files, copy on write:

    base file       the image's base memory, shared by every sandbox on the machine through the page cache
    overlay         a private, unnamed file of the sandbox: 64 KiB chunks that differ from the base

While code runs, pages it writes become private copies. `keep()` moves these into the overlay, so that the files
again hold all of it; dropping the private copies instead gives back the memory as of the last `keep()`. That is
how a guest that trapped gets back what it had: a fresh instance, and `attach()`.

Which pages are private copies is asked of the kernel (`PAGEMAP_SCAN`, or `/proc/self/pagemap` before Linux 6.7);
elsewhere the whole memory is compared with the files.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

CHUNK = 65536
_PAGE = mmap.PAGESIZE
_PROT_RW = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED = 0x10
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_MADV_DONTNEED = 4

Span = tuple[int, int]  # [start, end) in bytes from the memory's start


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


class GuestMemory:
    """The state of one guest at rest, and the moves between it and a live instance's memory."""

    def __init__(self, base: BaseMemory | EmptyBase) -> None:
        self.base = base
        self.size = base.size  # of the linear memory at the last keep()
        self._own = bytearray()  # a byte per chunk: 1 when the overlay holds it
        self._overlay = _unnamed_file()

    def attach(self, address: int) -> None:
        """Lay the state over a fresh instance's memory of at least `size` bytes."""
        if self.base.size:
            _map(address, self.base.size, self.base.fd, 0)
        for start, end in _runs(i for i, own in enumerate(self._own) if own):
            _map(address + start * CHUNK, (end - start) * CHUNK, self._overlay, start * CHUNK)

    def keep(self, address: int, size: int) -> list[Span]:
        """Take over what the guest wrote since the last time, and return the chunks that changed."""
        self._own.extend(bytes(-(-size // CHUNK) - len(self._own)))
        changed: list[Span] = []
        for start, end in self.written(address, size):
            first, last = start // CHUNK, -(-end // CHUNK)
            at = first
            while at < last:  # stretches of chunks the overlay already has, and of new ones
                owned, stop = self._own[at], at + 1
                while stop < last and self._own[stop] == owned:
                    stop += 1
                low, high = at * CHUNK, min(stop * CHUNK, size)
                if owned:
                    low, high = max(low, start), min(high, end)
                    write_memory(self._overlay, address + low, high - low, low)
                    _libc.madvise(address + low, high - low, _MADV_DONTNEED)
                else:
                    write_memory(self._overlay, address + low, high - low, low)
                    _map(address + low, high - low, self._overlay, low)
                    self._own[at:stop] = b"\1" * (stop - at)
                at = stop
            if changed and changed[-1][1] >= first * CHUNK:
                changed[-1] = (changed[-1][0], last * CHUNK)
            else:
                changed.append((first * CHUNK, last * CHUNK))
        self.size = size
        return changed

    def written(self, address: int, size: int) -> Iterable[Span]:
        """The pages the guest wrote since the last `keep()`, as ascending spans."""
        if _can_scan:
            return list(_scan(address, size))
        if _can_read_pagemap:
            return list(_read_pagemap(address, size))
        return list(self._compare(address, size))

    def _compare(self, address: int, size: int) -> Iterator[Span]:
        overlay = mmap.mmap(self._overlay, max(len(self._own) * CHUNK, CHUNK), mmap.MAP_SHARED, mmap.PROT_READ) if any(
            self._own
        ) else None  # fmt: skip
        zeros = bytes(CHUNK)
        for chunk in range(-(-size // CHUNK)):
            at = chunk * CHUNK
            length = min(CHUNK, size - at)
            if chunk < len(self._own) and self._own[chunk] and overlay is not None:
                same = bytes(_buffer(address + at, length)) == overlay[at : at + length]
            elif at < self.base.size:
                same = _libc.memcmp(address + at, self.base.view + at, length) == 0
            else:
                same = bytes(_buffer(address + at, length)) == zeros[:length]
            if not same:
                yield at, at + length
        if overlay is not None:
            overlay.close()

    def reset(self) -> None:
        """Forget everything since the base memory."""
        self.size = self.base.size
        self._own = bytearray()
        os.ftruncate(self._overlay, 0)

    @property
    def overlay_bytes(self) -> int:
        """What the overlay holds."""
        return sum(self._own) * CHUNK

    def close(self) -> None:
        """Release the overlay. No instance may still be mapped to it."""
        if self._overlay >= 0:
            os.close(self._overlay)
            self._overlay = -1


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("wasm-kernel-overlay", os.MFD_CLOEXEC)
    handle, name = tempfile.mkstemp(prefix="wasm-kernel-overlay-")
    Path(name).unlink()
    return handle


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
_REGIONS = 512
_REGION = struct.Struct("=3Q")


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


def _scan(address: int, size: int) -> Iterator[Span]:
    regions = (ctypes.c_char * (_REGION.size * _REGIONS))()
    start, end = address, address + size
    fd = _pagemap_of_this_process()
    while start < end:
        request = bytearray(
            _SCAN.pack(
                _SCAN.size, 0, start, end, 0, ctypes.addressof(regions), _REGIONS, 0,
                _IS_FILE | _IS_ZERO, _IS_FILE | _IS_ZERO, _IS_PRESENT | _IS_SWAPPED, _IS_PRESENT,
            )
        )  # fmt: skip
        found = fcntl.ioctl(fd, _PAGEMAP_SCAN, request)
        for i in range(found):
            low, high, _ = _REGION.unpack_from(regions, i * _REGION.size)
            yield low - address, high - address
        walked = _SCAN.unpack(request)[4]
        if walked <= start:
            raise OSError("PAGEMAP_SCAN made no progress")
        start = walked


def _read_pagemap(address: int, size: int) -> Iterator[Span]:
    data = os.pread(_pagemap_of_this_process(), size // _PAGE * 8, address // _PAGE * 8)
    entries = memoryview(data).cast("Q")
    # present or swapped (bits 63, 62), and neither of a file nor shared (bit 61)
    for start, end in _runs(i for i, e in enumerate(entries) if e >> 62 and not e >> 61 & 1):
        yield start * _PAGE, end * _PAGE


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
                results.append(list(way(address, 2 * _PAGE)) == [(0, _PAGE)])
            except (OSError, ValueError):
                results.append(False)
        del anchor
        return results[0], results[1]
    finally:
        page.close()


_can_scan, _can_read_pagemap = _probe()
