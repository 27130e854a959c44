"""A guest's linear memory: mapped from the base memory, rolled back or kept, page by page.

At rest a guest's memory is its whole state. Two files hold it:

    base       the image's base memory, shared by every sandbox on the machine through the page cache
    overlay    a private, unnamed file of the sandbox: the pages that differ from the base, at the same offsets

While code runs, pages it writes become private copies in the live memory. `keep()` brings the overlay up to date
with them; without it the files still hold the memory as of the last `keep()`. That is how a guest that trapped gets
back what it had: a fresh instance, and `attach()`.

A page written again and again (the interpreter's own) stays a private copy, and `keep()` copies it to the overlay:
dropping it would cost a page fault in every execution. Long stretches, and pages that rest, are mapped from the
overlay instead, so that large data is not held twice.

A process may have only so many mappings (`vm.max_map_count`), threads and libraries included, and a guest that writes
here and there makes two for every few pages. So a guest has a share, and all guests together have half of what there is
(`Mappings`). Beyond that pages are copied: they are held twice, and everything else goes on.

A capture for a snapshot copies nothing: it remembers which pages to read later (`PendingPages`), and whoever changes
one of them in the overlay first puts it aside for those who have not read it yet.

Which pages are private copies is asked of the kernel (`PAGEMAP_SCAN`, or `/proc/self/pagemap` before Linux 6.7);
elsewhere the whole memory is compared with the files.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from wasm_kernel.host.runtime import pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.mappings import Mappings
from wasm_kernel.host.runtime.overlay import COPIED, ELSEWHERE, MAPPED, ZEROS, Overlay
from wasm_kernel.host.runtime.pages import (
    CHUNK,
    PAGE,
    PAGES,
    Span,
    buffer,
    differ,
    map_over,
    memcmp_at_once,
    memmove,
    only_zeros,
    punch_hole,
    write_memory,
)
from wasm_kernel.host.runtime.pending_pages import CapturedMemory, Part, PendingPages

__all__ = ["CHUNK", "PAGES", "CapturedMemory", "GuestMemory", "Part", "Span"]

_LONG = CHUNK  # stretches from this length on are mapped when they are new
_VERY_LONG = 16 * CHUNK  # and from this length on whenever they are written again
_HUGE = 256 * CHUNK  # from this length on in any case: a memory has room for few, and each may replace many mappings
_REST_AFTER = 16  # how often to look which private pages rest unchanged
_WORTH_MAPPING = 8  # pages: fewer are copied faster than they are mapped
_RESTING_SPANS = 64  # so many may rest before they are mapped, too


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
            map_over(address, self.base.size, self.base.fd, 0)
        zeros, resting = list(overlay.stretches(ZEROS)), list(overlay.stretches(MAPPED))
        worth_it = [(first, last) for first, last in zeros + resting if last - first >= _WORTH_MAPPING]
        most = mappings.left()
        if len(worth_it) > most:
            worth_it = heapq.nlargest(most, worth_it, key=lambda stretch: stretch[1] - stretch[0])
        mapped = {stretch for stretch in worth_it if mappings.take(address, self.size)}
        for first, last in zeros + resting:
            at, length = first * PAGE, (last - first) * PAGE
            if (first, last) in mapped:
                map_over(address + at, length, overlay.fd, at)
            elif overlay.states[first] == MAPPED:
                ctypes.memmove(address + at, overlay.view + at, length)
            elif at < self.base.size:  # zeros: beyond the base a fresh memory has them
                ctypes.memset(address + at, 0, length)
        for first, last in overlay.stretches(COPIED):
            ctypes.memmove(address + first * PAGE, overlay.view + first * PAGE, (last - first) * PAGE)

    def keep(self, address: int, size: int) -> None:
        """Bring the overlay up to date with what the guest wrote since the last time."""
        self._mappings.begin()
        with self._overlay.lock:
            self._overlay.make_room(size)
            self._keep(address, size)
        self.size = size

    def _keep(self, address: int, size: int) -> None:
        self._keeps += 1
        look_for_rest = self._keeps % _REST_AFTER == 0
        memcmp, to_view = memcmp_at_once, self._overlay.view - address
        states, change = self._overlay.states, self._change
        long: list[Span] = []
        resting: list[int] = []
        single: list[int] = []
        for start, end in self.written(address, size):
            first, last = (start - address) // PAGE, (end - address) // PAGE
            known = ELSEWHERE not in states[first:last]
            if end - start >= (_VERY_LONG if known else _LONG):
                long.append((start, end))
            elif known and memcmp(start, start + to_view, end - start) == 0:
                if look_for_rest:
                    resting.append(start)
            elif known and last - first == 1:
                single.append(first)
            else:
                for page, at in enumerate(range(start, end, PAGE), first):
                    if not states[page] or memcmp(at, at + to_view, PAGE):
                        single.append(page)
        change(single)
        for page in single:
            at = address + page * PAGE
            memmove(at + to_view, at, PAGE)
            if states[page] != MAPPED:
                states[page] = COPIED
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
        """Make stretches of a live memory zeros, which take no room; nobody needs what was there."""
        overlay = self._overlay
        self._mappings.begin()
        with overlay.lock:
            overlay.make_room(size)
            for start, end in stretches:
                pages = range(-(-start // PAGE), end // PAGE)
                at, length = pages.start * PAGE, len(pages) * PAGE
                if not self._mappings.take(address, size):
                    return
                if not overlay.are_zeros(pages):
                    self._change(pages)
                if not punch_hole(overlay.fd, at, length):  # also where it is one: reading may have filled it
                    return
                map_over(address + at, length, overlay.fd, at)
                overlay.states[pages.start : pages.stop] = bytes([ZEROS]) * len(pages)

    def _map_stretch(self, address: int, start: int, end: int) -> None:
        """Copy a stretch to the overlay and map it from there, which drops the private copies."""
        overlay = self._overlay
        for at, until, zeros in _parts(address, start, end):
            pages = range(at // PAGE, until // PAGE)
            if zeros and overlay.are_zeros(pages):
                continue
            self._change(pages)
            hole = zeros and punch_hole(overlay.fd, at, until - at)
            if not hole:
                write_memory(overlay.fd, address + at, until - at, at)
            state = ZEROS if hole else MAPPED
            overlay.states[pages.start : pages.stop] = bytes([state]) * len(pages)
        map_over(address + start, end - start, overlay.fd, start)

    def _copy_stretch(self, address: int, start: int, end: int) -> None:
        """Copy what differs of a stretch to the overlay; the private copies stay. A later `attach` may map it."""
        overlay = self._overlay
        for at in range(start, end, CHUNK):
            length = min(CHUNK, end - at)
            pages = range(at // PAGE, (at + length) // PAGE)
            if overlay.has(pages.start, len(pages)) and not differ(address + at, overlay.view + at, length):
                continue
            self._change(pages)
            write_memory(overlay.fd, address + at, length, at)
            overlay.states[pages.start : pages.stop] = bytes([MAPPED]) * len(pages)

    def written(self, address: int, size: int) -> list[Span]:
        """The pages that are private copies in the live memory at ``address``, as ascending spans of addresses."""
        found = pagescan.written(address, size)
        return found if found is not None else list(self._compare(address, size))

    def _compare(self, address: int, size: int) -> Iterator[Span]:
        """Without the kernel's help: what differs from the files."""
        zeros = bytes(PAGE)
        states = self._overlay.states
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            untouched = end <= self.base.size and not any(states[start // PAGE : end // PAGE])
            if untouched and not differ(address + start, self.base.view + start, end - start):
                continue
            for page in range(start, end, PAGE):
                live = address + page
                if states[page // PAGE]:
                    same = not differ(live, self._overlay.view + page, PAGE)
                elif page < self.base.size:
                    same = not differ(live, self.base.view + page, PAGE)
                else:
                    same = ctypes.string_at(live, PAGE) == zeros
                if not same:
                    yield live, live + PAGE

    def reset(self) -> None:
        """Forget everything since the base memory. No instance may be attached."""
        for first, last in self._overlay.stretches(ELSEWHERE, other=True):
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
            there = self._overlay.stretches(ELSEWHERE, other=True)
            pages = [page for first, last in there for page in range(first, last)]
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
        later = PendingPages(self._overlay, self.base, wanted)
        return CapturedMemory(self.size, everything, [(n, later) for n in whole], [(n, later) for n in single])

    def load(self, size: int, stretches: Iterable[Span]) -> list[memoryview]:
        """Make this the memory of a snapshot: the caller fills a view for each stretch of pages [first, last).

        All other pages are as in the base. For a `GuestMemory` that was never attached.
        """
        overlay = self._overlay
        overlay.make_room(size)
        views = []
        for first, last in stretches:
            overlay.states[first:last] = bytes([MAPPED]) * (last - first)
            views.append(memoryview(buffer(overlay.view + first * PAGE, (last - first) * PAGE)).cast("B"))
        self.size = size
        return views

    @property
    def changed(self) -> set[int]:
        """Pages that may differ from what the last capture, or what was loaded or patched, said of them."""
        return set(self._changed)

    @property
    def changed_bytes(self) -> int:
        """The size of the pages in `changed`."""
        return len(self._changed) * PAGE

    def patch(self, size: int, contents: Sequence[tuple[int, memoryview]], of_base: Sequence[int]) -> None:
        """Make this the memory of a snapshot that differs in these stretches of pages; some are as in the base.

        No instance may be attached.
        """
        overlay = self._overlay
        with overlay.lock:
            overlay.make_room(size)
            beyond = range(size // PAGE, len(overlay.states))
            replaced = (range(first, first + len(content) // PAGE) for first, content in contents)
            self._change([*itertools.chain.from_iterable(replaced), *of_base, *beyond])
            for first, content in contents:
                memoryview(buffer(overlay.view + first * PAGE, len(content))).cast("B")[:] = content
                count = len(content) // PAGE
                overlay.states[first : first + count] = bytes([MAPPED]) * count
            for page in of_base:
                overlay.states[page] = ELSEWHERE
            overlay.states[beyond.start :] = bytes(len(beyond))
        self.size = size
        self._changed = set()

    def close(self) -> None:
        """Release the overlay, unless a capture still reads it. No instance may still be attached."""
        self._overlay = Overlay()
        self._mappings.begin(anew=True)


def _parts(address: int, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """A stretch in parts, and whether each holds only zeros."""
    pieces = [(at, min(at + CHUNK, end)) for at in range(start, end, CHUNK)]
    for zeros, some in itertools.groupby(pieces, lambda piece: only_zeros(address + piece[0], piece[1] - piece[0])):
        first, *others = some
        yield first[0], (others[-1] if others else first)[1], zeros
