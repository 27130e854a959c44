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

A process may have only so many mappings (`vm.max_map_count`), threads and libraries included, and a guest that writes
here and there makes two for every few pages. So a guest has a share, and all guests together have half of what there is
(`Mappings`). Beyond that pages are copied: they are held twice, and everything else goes on.

A capture for a snapshot copies nothing: it remembers which pages to read later (`Later`), and whoever changes one of
them in the overlay first puts it aside for those who have not read it yet.

Which pages are private copies is asked of the kernel (`PAGEMAP_SCAN`, or `/proc/self/pagemap` before Linux 6.7);
elsewhere the whole memory is compared with the files.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import mmap
import os
import re
import struct
import sys
import tempfile
import threading
import weakref
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 65536
_PAGE = mmap.PAGESIZE
_PROT_RW = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED = 0x10
_PUNCH_HOLE = 0x01 | 0x02  # and keep the size
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
if hasattr(_libc, "fallocate"):
    _libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
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


Part = tuple[int, "Later"]  # the number of a chunk or a page, and where its content is read


@dataclass
class CapturedMemory:
    """What changed in a memory, to be read when there is time.

    Attributes:
        size: Of the memory.
        everything: Whether this is all that is not as in the base, rather than what changed since the last capture.
        whole: Chunks by number, most of whose pages changed.
        pages: Single pages by number: those that changed of a chunk known page by page, all of any other.
    """

    size: int
    everything: bool = False
    whole: list[Part] = field(default_factory=list)
    pages: list[Part] = field(default_factory=list)

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


MOST_MAPPINGS = 4096  # of one guest; what people compute makes some hundred
_USUAL_MAX_MAP_COUNT = 65530


def _process_share() -> int:
    """How many mappings the guests of a process may have together."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text()) // 2
    except (OSError, ValueError):
        return _USUAL_MAX_MAP_COUNT // 2


class Mappings:
    """How many mappings a guest's memory is made of, at most: each that is laid over others adds two at the most.

    Those it replaces come to light only when they are counted, which is done when there seem to be too many.
    """

    most_together = _process_share()
    _lock = threading.Lock()
    _all: weakref.WeakSet[Mappings] = weakref.WeakSet()

    def __init__(self) -> None:
        self.count = 0
        self._may_count = True
        with self._lock:
            self._all.add(self)

    def begin(self, *, anew: bool = False) -> None:
        """Some are about to be made; ``anew``: over a fresh memory."""
        self._may_count = True
        if anew:
            self.count = 0

    def take(self, address: int, size: int) -> bool:
        """Whether one more may be laid over the memory there."""
        with self._lock:
            if not self._have_room() and self._may_count:
                self._may_count = False  # once is enough, it takes long where there are many
                self.count = _mappings_in(address, size, self.count)
            if not self._have_room():
                return False
            self.count += 2
            return True

    def left(self) -> int:
        """How many may be made yet."""
        with self._lock:
            together = self.most_together - sum(other.count for other in self._all)
            return max(0, min(MOST_MAPPINGS - self.count, together) // 2)

    def _have_room(self) -> bool:
        together = sum(other.count for other in self._all)
        return self.count + 2 <= MOST_MAPPINGS and together + 2 <= self.most_together


def _mappings_in(address: int, size: int, otherwise: int) -> int:
    """How many mappings there are between two addresses, where the system tells."""
    try:
        with Path("/proc/self/maps").open("rb") as lines:
            starts = (int(line.partition(b"-")[0], 16) for line in lines)
            return sum(address <= start < address + size for start in starts)
    except OSError:
        return otherwise


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
_ELSEWHERE = 0  # not in it
_COPIED = 1  # in it, and private in the live memory
_MAPPED = 2  # in it, and mapped from it
_ZERO_PAGE = bytes(_PAGE)
_ZEROS = 3  # the same, and a hole: reading it there would fill it

_LONG = CHUNK  # stretches from this length on are mapped when they are new
_VERY_LONG = 16 * CHUNK  # and from this length on whenever they are written again
_HUGE = 256 * CHUNK  # from this length on in any case: a memory has room for few, and each may replace many mappings
_REST_AFTER = 16  # how often to look which private pages rest unchanged
_WORTH_MAPPING = 8  # pages: fewer are copied faster than they are mapped
_RESTING_SPANS = 64  # so many may rest before they are mapped, too


class Overlay:
    """An unnamed file of pages that differ from the base, at the offsets they have in the memory."""

    def __init__(self) -> None:
        self.fd = -1  # made when there is something to hold
        self.view = 0  # the file, mapped to read and write
        self.size = 0
        self.states = bytearray()  # what is known of each page
        self.lock = threading.Lock()  # held while pages change, and while one is read later
        self.readers: weakref.WeakSet[Later] = weakref.WeakSet()

    def make_room(self, size: int) -> None:
        """Let the file and its view reach to the memory's end."""
        if size <= self.size:
            return
        if self.fd < 0:
            self.fd = _unnamed_file()
        os.ftruncate(self.fd, size)
        self._unmap()
        address = _libc.mmap(None, size, _PROT_RW, mmap.MAP_SHARED, self.fd, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"mmap of {size} bytes of overlay failed")
        self.view, self.size = address, size
        self.states.extend(bytes(size // _PAGE - len(self.states)))

    def has(self, first: int, count: int) -> bool:
        """Whether all of these pages can be read from it."""
        states = self.states[first : first + count]
        return len(states) == count and _ELSEWHERE not in states and _ZEROS not in states

    def are_zeros(self, pages: range) -> bool:
        """Whether these pages are known to hold nothing else."""
        return self.states.count(_ZEROS, pages.start, pages.stop) == len(pages)

    def page(self, page: int) -> bytes | None:
        """A page's content; None: it is not in the overlay."""
        state = self.states[page] if page < len(self.states) else _ELSEWHERE
        if state == _ZEROS:
            return _ZERO_PAGE
        return ctypes.string_at(self.view + page * _PAGE, _PAGE) if state else None

    def _unmap(self) -> None:
        if self.size:
            _libc.munmap(self.view, self.size)
            self.view = self.size = 0

    def __del__(self) -> None:
        """When neither a memory nor a capture needs it."""
        self._unmap()
        if self.fd >= 0:
            os.close(self.fd)


class Later:
    """Reads pages as they were at a capture, also when the overlay has others by then."""

    def __init__(self, overlay: Overlay, base: BaseMemory | EmptyBase, pages: Iterable[int]) -> None:
        self._overlay, self._base = overlay, base
        self.unread = set(pages)
        self.aside: dict[int, bytes | None] = {}
        overlay.readers.add(self)

    def read(self, first: int, count: int) -> bytes | None:
        """A stretch of pages, once; None: as in the base, or zeros beyond it."""
        overlay, aside = self._overlay, self.aside
        numbers = range(first, first + count)
        with overlay.lock:
            self.unread.difference_update(numbers)
            if overlay.has(first, count) and aside.keys().isdisjoint(numbers):
                content = ctypes.string_at(overlay.view + first * _PAGE, count * _PAGE)
            else:
                found = [aside.pop(page) if page in aside else overlay.page(page) for page in numbers]
                if not any(found):
                    return None
                content = b"".join(part or self._of_base(page, 1) for page, part in zip(numbers, found, strict=True))
        return None if content == self._of_base(first, count) else content

    def read_each(self, pages: Sequence[int]) -> list[bytes | None]:
        """Single pages, as `read` gives them, in less time."""
        overlay, aside = self._overlay, self.aside
        with overlay.lock:
            self.unread.difference_update(pages)
            found = [aside.pop(page) if page in aside else overlay.page(page) for page in pages]
        return [
            None if content is None or content == self._of_base(page, 1) else content
            for page, content in zip(pages, found, strict=True)
        ]

    def _of_base(self, page: int, count: int) -> bytes:
        start, length = page * _PAGE, count * _PAGE
        there = min(length, self._base.size - start)
        if there == length:
            return ctypes.string_at(self._base.view + start, length)
        return (ctypes.string_at(self._base.view + start, there) if there > 0 else b"").ljust(length, b"\0")


class GuestMemory:
    """The state of one guest at rest, and the moves between it and a live instance's memory."""

    def __init__(self, base: BaseMemory | EmptyBase) -> None:
        self.base = base
        self.size = base.size  # of the linear memory at the last keep()
        self._overlay = Overlay()
        self._mappings = Mappings()
        self._keeps = 0
        self._changed: set[int] = set()  # pages that may differ from what the last capture() gave

    def attach(self, address: int) -> None:
        """Lay the state over a fresh instance's memory of at least `size` bytes."""
        overlay, mappings = self._overlay, self._mappings
        mappings.begin(anew=True)
        if self.base.size:
            _map(address, self.base.size, self.base.fd, 0)
        zeros, resting = list(_stretches(_ZEROS, overlay.states)), list(_stretches(_MAPPED, overlay.states))
        worth_it = [(first, last) for first, last in zeros + resting if last - first >= _WORTH_MAPPING]
        most = mappings.left()
        if len(worth_it) > most:
            worth_it = heapq.nlargest(most, worth_it, key=lambda stretch: stretch[1] - stretch[0])
        mapped = {stretch for stretch in worth_it if mappings.take(address, self.size)}
        for first, last in zeros + resting:
            at, length = first * _PAGE, (last - first) * _PAGE
            if (first, last) in mapped:
                _map(address + at, length, overlay.fd, at)
            elif overlay.states[first] == _MAPPED:
                ctypes.memmove(address + at, overlay.view + at, length)
            elif at < self.base.size:  # zeros: beyond the base a fresh memory has them
                ctypes.memset(address + at, 0, length)
        for first, last in _stretches(_COPIED, overlay.states):
            ctypes.memmove(address + first * _PAGE, overlay.view + first * _PAGE, (last - first) * _PAGE)

    def keep(self, address: int, size: int) -> None:
        """Take over what the guest wrote since the last time."""
        self._mappings.begin()
        with self._overlay.lock:
            self._overlay.make_room(size)
            self._keep(address, size)
        self.size = size

    def _keep(self, address: int, size: int) -> None:
        self._keeps += 1
        look_for_rest = self._keeps % _REST_AFTER == 0
        memmove, memcmp, to_view = _memmove, _memcmp, self._overlay.view - address
        states, change = self._overlay.states, self._change
        long: list[Span] = []
        resting: list[int] = []
        single: list[int] = []
        for start, end in self.written(address, size):
            first, last = (start - address) // _PAGE, (end - address) // _PAGE
            known = _ELSEWHERE not in states[first:last]
            if end - start >= (_VERY_LONG if known else _LONG):
                long.append((start, end))
            elif known and memcmp(start, start + to_view, end - start) == 0:
                if look_for_rest:
                    resting.append(start)
            elif known and last - first == 1:
                single.append(first)
            else:
                for page, at in enumerate(range(start, end, _PAGE), first):
                    if not states[page] or memcmp(at, at + to_view, _PAGE):
                        single.append(page)
        change(single)
        for page in single:
            at = address + page * _PAGE
            memmove(at + to_view, at, _PAGE)
            if states[page] != _MAPPED:
                states[page] = _COPIED
        if len(resting) > _RESTING_SPANS:
            for chunk in sorted({(start - address) // CHUNK for start in resting}):
                if not self._mappings.take(address, size):
                    break
                self._map_stretch(address, chunk * CHUNK, min((chunk + 1) * CHUNK, size))
        for start, end in long:
            if end - start >= _HUGE or self._mappings.take(address, size):
                self._map_stretch(address, start - address, end - address)
            else:
                self._copy_stretch(address, start - address, end - address)

    def _change(self, pages: Iterable[int]) -> None:
        """These pages of the overlay are about to change: what is still to be read is put aside."""
        pages = set(pages)
        self._changed |= pages
        overlay = self._overlay
        for reader in overlay.readers:
            for page in (wanted := reader.unread & pages):
                reader.aside[page] = overlay.page(page)
            reader.unread -= wanted

    def forget(self, address: int, size: int, stretches: Iterable[Span]) -> None:
        """Have stretches of a live memory be zeros, which take no room; what was there is of no use to anybody."""
        overlay = self._overlay
        self._mappings.begin()
        with overlay.lock:
            overlay.make_room(size)
            for start, end in stretches:
                pages = range(-(-start // _PAGE), end // _PAGE)
                at, length = pages.start * _PAGE, len(pages) * _PAGE
                if not self._mappings.take(address, size):
                    return
                if not overlay.are_zeros(pages):
                    self._change(pages)
                if not _punch_hole(overlay.fd, at, length):  # also where it is one: reading may have filled it
                    return
                _map(address + at, length, overlay.fd, at)
                overlay.states[pages.start : pages.stop] = bytes([_ZEROS]) * len(pages)

    def _map_stretch(self, address: int, start: int, end: int) -> None:
        """Copy a stretch to the overlay and map it from there, which drops the private copies."""
        overlay = self._overlay
        for at, until, zeros in _parts(address, start, end):
            pages = range(at // _PAGE, until // _PAGE)
            if zeros and overlay.are_zeros(pages):
                continue
            self._change(pages)
            hole = zeros and _punch_hole(overlay.fd, at, until - at)
            if not hole:
                write_memory(overlay.fd, address + at, until - at, at)
            state = _ZEROS if hole else _MAPPED
            overlay.states[pages.start : pages.stop] = bytes([state]) * len(pages)
        _map(address + start, end - start, overlay.fd, start)

    def _copy_stretch(self, address: int, start: int, end: int) -> None:
        """Copy what differs of a stretch to the overlay; the private copies stay. A later `attach` may map it."""
        overlay = self._overlay
        for at in range(start, end, CHUNK):
            length = min(CHUNK, end - at)
            pages = range(at // _PAGE, (at + length) // _PAGE)
            if overlay.has(pages.start, len(pages)) and not _libc.memcmp(address + at, overlay.view + at, length):
                continue
            self._change(pages)
            write_memory(overlay.fd, address + at, length, at)
            overlay.states[pages.start : pages.stop] = bytes([_MAPPED]) * len(pages)

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
        states = self._overlay.states
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            untouched = end <= self.base.size and not any(states[start // _PAGE : end // _PAGE])
            if untouched and _libc.memcmp(address + start, self.base.view + start, end - start) == 0:
                continue
            for page in range(start, end, _PAGE):
                live = address + page
                if states[page // _PAGE]:
                    same = _libc.memcmp(live, self._overlay.view + page, _PAGE) == 0
                elif page < self.base.size:
                    same = _libc.memcmp(live, self.base.view + page, _PAGE) == 0
                else:
                    same = ctypes.string_at(live, _PAGE) == zeros
                if not same:
                    yield live, live + _PAGE

    def reset(self) -> None:
        """Forget everything since the base memory. No instance may be attached."""
        for first, last in _stretches(_ELSEWHERE, self._overlay.states, other=True):
            self._changed.update(range(first, last))  # the next capture says that they are as in the base
        self.size = self.base.size
        self._overlay = Overlay()
        self._mappings.begin(anew=True)

    # ---- snapshots

    def capture(self, split: Container[int], *, everything: bool = False) -> CapturedMemory:
        """What changed between the last capture and the last `keep()`; or ``everything`` that is not as in the base.

        ``split``: numbers of chunks whose pages the caller knows one by one.
        """
        pages: Collection[int] = self._changed
        if everything:
            stretches = _stretches(_ELSEWHERE, self._overlay.states, other=True)
            pages = [page for first, last in stretches for page in range(first, last)]
        self._changed = set()
        by_chunk: dict[int, list[int]] = {}
        for page in sorted(pages):
            by_chunk.setdefault(page // PAGES, []).append(page)
        whole: list[int] = []
        single: list[int] = []
        for number, touched in by_chunk.items():
            if len(touched) > PAGES // 2:
                whole.append(number)
            elif number in split and not everything:
                single += touched
            else:
                single += range(number * PAGES, (number + 1) * PAGES)
        wanted = {page for number in whole for page in range(number * PAGES, (number + 1) * PAGES)}.union(single)
        later = Later(self._overlay, self.base, wanted)
        return CapturedMemory(self.size, everything, [(n, later) for n in whole], [(n, later) for n in single])

    def load(self, size: int, stretches: Iterable[Span]) -> list[memoryview]:
        """Make this the memory of a snapshot: the caller fills a view for each stretch of pages [first, last).

        All other pages are as in the base. For a `GuestMemory` that was never attached.
        """
        overlay = self._overlay
        overlay.make_room(size)
        views = []
        for first, last in stretches:
            overlay.states[first:last] = bytes([_MAPPED]) * (last - first)
            views.append(memoryview(_buffer(overlay.view + first * _PAGE, (last - first) * _PAGE)).cast("B"))
        self.size = size
        return views

    @property
    def changed(self) -> set[int]:
        """Pages that may differ from what the last capture, or what was loaded or patched, said of them."""
        return set(self._changed)

    @property
    def changed_bytes(self) -> int:
        """How much that is."""
        return len(self._changed) * _PAGE

    def patch(self, size: int, contents: Sequence[tuple[int, memoryview]], of_base: Sequence[int]) -> None:
        """Make this the memory of a snapshot that differs in these stretches of pages; some are as in the base.

        No instance may be attached.
        """
        overlay = self._overlay
        with overlay.lock:
            overlay.make_room(size)
            beyond = range(size // _PAGE, len(overlay.states))
            replaced = (range(first, first + len(content) // _PAGE) for first, content in contents)
            self._change([*itertools.chain.from_iterable(replaced), *of_base, *beyond])
            for first, content in contents:
                memoryview(_buffer(overlay.view + first * _PAGE, len(content))).cast("B")[:] = content
                count = len(content) // _PAGE
                overlay.states[first : first + count] = bytes([_MAPPED]) * count
            for page in of_base:
                overlay.states[page] = _ELSEWHERE
            overlay.states[beyond.start :] = bytes(len(beyond))
        self.size = size
        self._changed = set()

    @property
    def overlay_bytes(self) -> int:
        """What the overlay holds."""
        states = self._overlay.states
        return (len(states) - states.count(_ELSEWHERE)) * _PAGE

    def close(self) -> None:
        """Release the overlay, unless a capture still reads it. No instance may still be attached."""
        self._overlay = Overlay()
        self._mappings.begin(anew=True)


def _parts(address: int, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """A stretch in parts, and whether each holds only zeros."""
    pieces = [(at, min(at + CHUNK, end)) for at in range(start, end, CHUNK)]
    for zeros, some in itertools.groupby(pieces, lambda piece: _only_zeros(address + piece[0], piece[1] - piece[0])):
        first, *others = some
        yield first[0], (others[-1] if others else first)[1], zeros


def _only_zeros(address: int, length: int) -> bool:
    """Whether a stretch of pages holds nothing else."""
    return not any(ctypes.string_at(address, 16)) and _libc.memcmp(address, address + 16, length - 16) == 0


def _punch_hole(fd: int, start: int, length: int) -> bool:
    """Have part of a file read as zeros that take no room; whether that can be done here."""
    return hasattr(_libc, "fallocate") and _libc.fallocate(fd, _PUNCH_HOLE, start, length) == 0


def give_back() -> None:
    """Let the allocator return to the system what was freed, where it can."""
    if hasattr(_libc, "malloc_trim"):  # glibc
        _libc.malloc_trim(0)


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
