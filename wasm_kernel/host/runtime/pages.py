"""Pages and chunks of a guest's memory, and the system's calls that lay files over them."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from collections.abc import Iterator

CHUNK = 65536
PAGE = mmap.PAGESIZE
PAGES = CHUNK // PAGE  # in a chunk
Span = tuple[int, int]  # [start, end)

PROT_RW = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED = 0x10
_PUNCH_HOLE = 0x01 | 0x02  # and keep the size
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
if hasattr(_libc, "fallocate"):
    _libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

# Without giving up the GIL: for copies of a few pages that costs more than the copy.
memmove = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
    ctypes.cast(_libc.memmove, ctypes.c_void_p).value or 0
)
memcmp_at_once = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
    ctypes.cast(_libc.memcmp, ctypes.c_void_p).value or 0
)


def map_over(address: int, length: int, fd: int, offset: int) -> None:
    """Lay a file's bytes over part of the memory, copy on write."""
    at = _libc.mmap(address, length, PROT_RW, mmap.MAP_PRIVATE | _MAP_FIXED, fd, offset)
    if at != address:
        raise OSError(ctypes.get_errno(), f"mmap of {length} bytes of guest memory failed")


def map_shared_over(address: int, length: int, fd: int) -> None:
    """Lay a file's bytes over memory; what is written there is written to the file."""
    at = _libc.mmap(address, length, PROT_RW, mmap.MAP_SHARED | _MAP_FIXED, fd, 0)
    if at != address:
        raise OSError(ctypes.get_errno(), f"mmap of {length} bytes failed")


def map_file(fd: int, size: int, protection: int, flags: int) -> int:
    """Map a file somewhere; its address."""
    address = _libc.mmap(None, size, protection, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), f"mmap of {size} bytes failed")
    return int(address)


def unmap(address: int, size: int) -> None:
    """Take away a mapping that `map_file` made."""
    _libc.munmap(address, size)


def drop(address: int, length: int) -> None:
    """Give back whole pages of this process's own memory, whose content nobody needs: they are zeros then."""
    if hasattr(mmap, "MADV_DONTNEED"):
        _libc.madvise(address, length, mmap.MADV_DONTNEED)


def buffer(address: int, length: int) -> ctypes.Array[ctypes.c_char]:
    """The bytes at an address, to be read and written in place."""
    return (ctypes.c_char * length).from_address(address)


def write_memory(fd: int, address: int, length: int, offset: int) -> None:
    """Write part of a memory to a file, all of it."""
    while length:
        done = os.pwrite(fd, buffer(address, min(length, 1 << 30)), offset)
        address, offset, length = address + done, offset + done, length - done


def differ(address: int, other: int, length: int) -> bool:
    """Whether two stretches of memory hold different bytes."""
    return bool(_libc.memcmp(address, other, length))


def only_zeros(address: int, length: int) -> bool:
    """Whether a stretch of pages holds nothing but zeros."""
    return not any(ctypes.string_at(address, 16)) and not differ(address, address + 16, length - 16)


def parts_by_zeros(address: int, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """A stretch of a memory in parts, and whether each holds only zeros."""
    pieces = [(at, min(at + CHUNK, end)) for at in range(start, end, CHUNK)]
    for zeros, some in itertools.groupby(pieces, lambda piece: only_zeros(address + piece[0], piece[1] - piece[0])):
        first, *others = some
        yield first[0], (others[-1] if others else first)[1], zeros


def punch_hole(fd: int, start: int, length: int) -> bool:
    """Make part of a file zeros that take no room; whether the file system can do that."""
    return hasattr(_libc, "fallocate") and _libc.fallocate(fd, _PUNCH_HOLE, start, length) == 0


def give_back() -> None:
    """Have the allocator return freed memory to the system, where it can."""
    if hasattr(_libc, "malloc_trim"):  # glibc
        _libc.malloc_trim(0)
