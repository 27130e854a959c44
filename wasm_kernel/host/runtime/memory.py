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

A process may have only so many mappings, and a guest that writes here and there makes two for every few pages. So each
has a share (`Mappings`). Beyond that pages are copied: they are held twice, and everything else goes on.

A capture for a snapshot copies nothing: it remembers which pages to read later (`PendingPages`), and whoever changes
one of them in the overlay first puts it aside for those who have not read it yet.

Which pages are private copies is asked of the kernel (`PAGEMAP_SCAN`, or `/proc/self/pagemap` before Linux 6.7);
elsewhere the whole memory is compared with the files.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
from collections.abc import Collection, Container, Iterable, Sequence

from wasm_kernel.errors import BadSnapshot
from wasm_kernel.host.runtime import page_delta, pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.mapped_memory import MappedMemory, MemoryPart
from wasm_kernel.host.runtime.mappings import Mappings
from wasm_kernel.host.runtime.overlay import COPIED, ELSEWHERE, IN_FILE, MAPPED, ZEROS, Overlay, differing
from wasm_kernel.host.runtime.page_keeper import VERY_LONG, PageKeeper
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
    parts_by_zeros,
    punch_hole,
    write_memory,
)
from wasm_kernel.host.runtime.pending_pages import CapturedMemory, Part, PendingPages, captured_memory

__all__ = ["CHUNK", "PAGES", "CapturedMemory", "GuestMemory", "Part", "PendingPages", "Span"]

_HUGE = 256 * CHUNK  # from this length on in any case: a memory has room for few, and each may replace many mappings
_MARK_AFTER = 8  # keeps
_REST_AFTER = 16  # keeps, before it is looked which private pages rest unchanged
_WORTH_MAPPING = 8  # pages: fewer are copied faster than they are mapped
_RESTING_SPANS = 64  # so many may rest before they are mapped, too


class GuestMemory:
    """The state of one guest at rest, and the moves between it and a live instance's memory."""

    def __init__(self, base: BaseMemory | EmptyBase) -> None:
        self.base = base
        self.size = base.size  # of the linear memory at the last keep()
        self._overlay = Overlay()
        self._mappings = Mappings()
        self._keeps = self._rested = 0
        self._attached = self._marked = 0  # how many there were by then
        self._just_changed: list[int] = []  # by the last keep(), single pages only
        self._changed: set[int] = set()  # pages that may differ from what the last capture() gave
        self._unlogged = page_delta.Unlogged()

    def attach(self, address: int) -> None:
        """Lay the state over a fresh instance's memory of at least `size` bytes."""
        overlay, mappings = self._overlay, self._mappings
        mappings.begin(anew=True)
        self._marked, self._attached = 0, self._keeps
        if self.base.size:
            map_over(address, self.base.size, self.base.fd, 0)
        zeros, resting = list(overlay.stretches(ZEROS)), list(overlay.stretches(MAPPED))
        resting += overlay.stretches(IN_FILE)
        worth_it = [(first, last) for first, last in zeros + resting if last - first >= _WORTH_MAPPING]
        most = mappings.left()
        if len(worth_it) > most:
            worth_it = heapq.nlargest(most, worth_it, key=lambda stretch: stretch[1] - stretch[0])
        mapped = {stretch for stretch in worth_it if mappings.take(address, self.size)}
        for first, last in zeros + resting:
            at, length, state = first * PAGE, (last - first) * PAGE, overlay.states[first]
            if (first, last) in mapped:
                in_file = overlay.file if state == IN_FILE else None
                map_over(address + at, length, in_file.fd if in_file is not None else overlay.fd, at)
            elif state != ZEROS:
                ctypes.memmove(address + at, overlay.address(first), length)
            elif at < self.base.size:  # zeros: beyond the base a fresh memory has them
                ctypes.memset(address + at, 0, length)
        for first, last in overlay.stretches(COPIED):
            ctypes.memmove(address + first * PAGE, overlay.view + first * PAGE, (last - first) * PAGE)

    def keep(self, address: int, size: int, most: int | None = None, keeper: PageKeeper | None = None) -> bool:
        """Bring the overlay up to date with what the guest wrote since the last time.

        ``most``: for the log, and only if no more bytes than these may have changed. Whether it is up to date.
        """
        total = keeper.scan(address, size) if keeper is not None else None
        if keeper is None or total is None:
            return self._keep_in_python(address, size, most)
        if most is not None and total > most:
            return False
        self._mappings.begin()
        overlay, pages, changes = self._overlay, list[int](), list[bytes]()
        with overlay.lock:
            overlay.make_room(size)
            if overlay.file is not None:
                overlay.take_from_file(address, keeper.regions())
            self._keeps += 1
            for some, changed, undo in keeper.keep(overlay, size):
                overlay.changed(undo)
                pages += some
                if most is not None:
                    changes.append(changed)
            self._just_changed = pages
            self._changed.update(pages)
            if most is None:
                self._unlogged.add(pages)
            else:
                self._unlogged.spell(pages, b"".join(changes))
            self._keep_long(address, size, keeper.long())
            self.size = size
        return True

    def _keep_in_python(self, address: int, size: int, most: int | None) -> bool:
        """The same where the system does not tell enough."""
        written = self.written(address, size)
        if most is not None and sum(end - start for start, end in written) > most:
            return False
        self._mappings.begin()
        with self._overlay.lock:
            self._overlay.make_room(size)
            if self._overlay.file is not None:
                self._overlay.take_from_file(address, written)
            self._keep(address, size, written)
        self.size = size
        return True

    def _keep(self, address: int, size: int, written: list[Span]) -> None:
        self._keeps += 1
        memcmp, to_view = memcmp_at_once, self._overlay.view - address
        states = self._overlay.states
        long: list[Span] = []
        single: list[int] = []
        for start, end in written:
            first, last = (start - address) // PAGE, (end - address) // PAGE
            known = ELSEWHERE not in states[first:last]
            if end - start >= VERY_LONG or states.count(ELSEWHERE, first, last) >= PAGES:
                long.append((start, end))
            elif known and memcmp(start, start + to_view, end - start) == 0:
                continue
            elif known and last - first == 1:
                single.append(first)
            else:
                for page, at in enumerate(range(start, end, PAGE), first):
                    if not states[page] or memcmp(at, at + to_view, PAGE):
                        single.append(page)
        self._just_changed = single
        self._change(single)
        for page in single:
            at = address + page * PAGE
            memmove(at + to_view, at, PAGE)
            if states[page] != MAPPED:
                states[page] = COPIED
        self._keep_long(address, size, long)

    def _keep_long(self, address: int, size: int, stretches: list[Span]) -> None:
        for start, end in stretches:
            if end - start >= _HUGE or self._mappings.take(address, size):
                self._map_stretch(address, start - address, end - address)
            else:
                self._copy_stretch(address, start - address, end - address)

    def rest(self, address: int, size: int) -> None:
        """Map from the overlay what the guest has stopped writing to, so that it is not held twice.

        For when nobody waits, right after a `keep()`; it looks only from time to time.
        """
        if self._keeps - self._rested >= _REST_AFTER:
            self._rested = self._keeps
            self._map_resting(address, size)
        self.mark(address)

    @property
    def wants_marks(self) -> bool:
        """Whether cells have followed each other since it was attached, with no rest in which to `mark` it."""
        return not self._marked and self._keeps - self._attached >= _MARK_AFTER

    def mark(self, address: int) -> None:
        """Mark pages that the last keeps found as they were, so that the next ones have fewer to look at.

        Right after a `keep()`: what is marked counts as not written. Takes about a millisecond.
        """
        if self._marked != self._keeps and pagescan.mark(address, self.base.size, self._just_changed):
            self._marked = self._keeps

    def _map_resting(self, address: int, size: int) -> None:
        self._mappings.begin()
        with self._overlay.lock:
            there = pagescan.private(address, size)
            there = self.written(address, size) if there is None else there
            spans = [((start - address) // PAGE, (end - address) // PAGE) for start, end in there]
            active = set(self._just_changed)
            resting = [first for first, last in spans if active.isdisjoint(range(first, last))]
            if len(resting) <= _RESTING_SPANS:
                return
            for chunk in sorted({page // PAGES for page in resting}):
                if not self._mappings.take(address, size):
                    return
                self._map_same(address, chunk * PAGES, min((chunk + 1) * PAGES, size // PAGE))

    def _map_same(self, address: int, first: int, last: int) -> None:
        """Map pages from the overlay that are the same there, or can be added without changing anything."""
        overlay = self._overlay
        for page in range(first, last):
            if overlay.states[page] in (ELSEWHERE, IN_FILE):
                memmove(overlay.view + page * PAGE, address + page * PAGE, PAGE)
            if overlay.states[page] != ZEROS:
                overlay.states[page] = MAPPED
        map_over(address + first * PAGE, (last - first) * PAGE, overlay.fd, first * PAGE)

    def _change(self, pages: Iterable[int]) -> None:
        """These pages of the overlay are about to change."""
        pages = set(pages)
        self._changed |= pages
        self._unlogged.add(pages)
        self._overlay.changing(pages)

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
        for at, until, zeros in parts_by_zeros(address, start, end):
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
        return found if found is not None else list(differing(self._overlay, self.base, address, size))

    def forked(self, address: int, size: int) -> ForkedMemory:
        """The live memory as it is now, for workers, until the next `keep`. The guest must stand still."""
        return ForkedMemory(self.base, self._overlay, self.written(address, size), address, size)

    def reset(self) -> None:
        """Forget everything since the base memory. No instance may be attached."""
        for first, last in self._overlay.stretches(ELSEWHERE, other=True):
            self._changed.update(range(first, last))  # the next capture says that they are as in the base
        self._unlogged.clear()
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
        return captured_memory(self._overlay, self.base, self.size, pages, () if everything else split, everything)

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

    def lay_over(self, file: MappedMemory) -> None:
        """Make this the memory of a file, which is mapped, and closed with this. The same."""
        self._overlay.lay_over(file)
        self.size = file.size

    def parts(self) -> list[MemoryPart]:
        """All that is not as in the base, as it is kept, for such a file; valid until something changes."""
        return self._overlay.parts()

    @property
    def changed(self) -> set[int]:
        """Pages that may differ from what the last capture, or what was loaded or patched, said of them."""
        return set(self._changed)

    @property
    def held_bytes(self) -> int:
        """What is held as it was, for captures that are not read yet."""
        return self._overlay.held_bytes

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
        self._unlogged.clear()

    # ---- the log of cells

    @property
    def delta_bytes(self) -> int:
        """How large `delta` is at most."""
        return self._unlogged.size

    def delta(self) -> page_delta.Pieces:
        """What changed between the last `logged()` and the last `keep()`, for `replay`; valid until the next one."""
        with self._overlay.lock:
            return self._unlogged.delta(self._content, self._overlay.stretch)

    def _content(self, page: int) -> bytes | None:
        """A page as it is kept; None: zeros."""
        overlay = self._overlay
        if page < len(overlay.states) and overlay.states[page] == ZEROS:
            return None
        return overlay.page(page) or self.base.page(page)

    def logged(self) -> None:
        """What `delta` gave is in the log, or the log begins with the memory as it is now."""
        self._unlogged.clear()

    def replay(self, size: int, delta: bytes | memoryview) -> None:
        """Apply a `delta` of another memory that was what this one is. `BadSnapshot` if it cannot be one.

        No instance may be attached. The next capture has what changed.
        """
        overlay = self._overlay
        if size < self.size:
            raise BadSnapshot("a memory cannot become smaller")
        found = list(page_delta.entries(delta, size // PAGE))
        with overlay.lock:
            overlay.make_room(size)
            self._change({page for page, _, _ in found})
            for page, lines, data in found:
                overlay.change_lines(page, lines, data, self.base)
        self.size = size
        self._unlogged.clear()

    def close(self) -> None:
        """Release the overlay, unless a capture still reads it. No instance may still be attached."""
        self._overlay = Overlay()
        self._mappings.begin(anew=True)
