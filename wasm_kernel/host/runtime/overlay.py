"""A private, unnamed file of the pages in which a guest's memory differs from the base, at the same offsets."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import mmap
import os
import re
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wasm_kernel.host.runtime import page_delta
from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.mapped_memory import MappedMemory, MemoryPart
from wasm_kernel.host.runtime.pages import (
    CHUNK,
    PAGE,
    PROT_RW,
    Span,
    buffer,
    differ,
    map_file,
    punch_hole,
    unmap,
    write_memory,
)

# What an overlay knows of a page.
ELSEWHERE = 0  # not in it
COPIED = 1  # in it, and private in the live memory
MAPPED = 2  # in it, and mapped from it
ZEROS = 3  # the same, and a hole: reading it there would fill it
IN_FILE = 4  # not in it but in `Overlay.file`, from which the guest went on, and mapped from there
_ZERO_PAGE = bytes(PAGE)
_IN_FILE_PAGES = re.compile(b"\\x%02x+" % IN_FILE, re.DOTALL)
_MOST_PAGES = 1 << 20  # of a memory
_LOOK_EVERY = 8  # small changes, before it is looked who still needs those of before
_MUCH_HELD = 32 << 20  # bytes, for which that is looked every time


class PageReader:
    """Somebody who still has to read pages as they were at a moment: whoever changes one tells how to undo that."""

    def __init__(self, pages: Iterable[int], moment: int) -> None:
        self.unread = set(pages)
        self.put_aside: set[int] = set()  # of these: held as they were, whatever happens to them from now on
        self.moment = moment


class _Change:
    """How to undo a change: the pages as they were before (None: not in the overlay), or some of their lines."""

    def __init__(self, moment: int, pages: dict[int, bytes | None], lines: bytes) -> None:
        self.moment, self._lines = moment, lines
        self.size = len(lines) + sum(PAGE for content in pages.values() if content is not None)
        self._before: dict[int, bytes | tuple[int, memoryview] | None] = {**pages}

    @property
    def before(self) -> dict[int, bytes | tuple[int, memoryview] | None]:
        """What was there, by page."""
        if self._lines:
            known = page_delta.entries(self._lines, _MOST_PAGES)
            self._before |= {page: (lines, data) for page, lines, data in known}
            self._lines = b""
        return self._before


class Overlay:
    """An unnamed file of pages that differ from the base, at the offsets they have in the memory."""

    def __init__(self) -> None:
        self.fd = -1  # made when there is something to hold
        self.view = 0  # the file, mapped to read and write
        self.size = 0
        self.states = bytearray()  # what is known of each page
        self.lock = threading.Lock()  # held while pages change, and while one is read later
        self.readers: weakref.WeakSet[PageReader] = weakref.WeakSet()
        self.moment = 0  # how often pages changed
        self._changes: deque[_Change] = deque()  # that somebody may have to undo, the oldest first
        self.held_bytes = 0  # the size of these
        self.file: MappedMemory | None = None  # has the pages that are `IN_FILE`
        self._in_file: list[Span] = []  # where those are, or were

    def changing(self, pages: set[int]) -> None:
        """These pages are about to change; `lock` is held."""
        self.moment += 1
        wanted: set[int] = set()
        for reader in self._waiting_readers():
            needed = (reader.unread & pages) - reader.put_aside
            reader.put_aside |= needed
            wanted |= needed
        if wanted:
            self._put_aside({page: self.page(page) for page in wanted}, b"")

    def changed(self, undo: bytes) -> None:
        """Lines of some pages have just changed; this undoes it (`page_delta`). `lock` is held."""
        self.moment += 1
        if not self.moment % _LOOK_EVERY or self.held_bytes > _MUCH_HELD:
            self._waiting_readers()
        if self.readers:
            self._put_aside({}, undo)

    def _put_aside(self, pages: dict[int, bytes | None], lines: bytes) -> None:
        change = _Change(self.moment, pages, lines)
        self._changes.append(change)
        self.held_bytes += change.size

    def _waiting_readers(self) -> list[PageReader]:
        """Those who have not read everything; what none of them needs is dropped."""
        waiting = [reader for reader in self.readers if reader.unread]
        oldest = min((reader.moment for reader in waiting), default=self.moment)
        while self._changes and self._changes[0].moment <= oldest:
            self.held_bytes -= self._changes.popleft().size
        return waiting

    def pages_at(self, pages: Iterable[int], moment: int) -> dict[int, bytes | None]:
        """What pages held at a moment; None: they were not in the overlay. `lock` is held."""
        found = {page: self.page(page) for page in pages}
        for change in reversed(self._changes):
            if change.moment <= moment:
                break
            for page in change.before.keys() & found.keys():
                before = change.before[page]
                if isinstance(before, tuple):
                    whole = bytearray(found[page] or _ZERO_PAGE)
                    page_delta.lay_lines(memoryview(whole), *before)
                    found[page] = bytes(whole)
                else:
                    found[page] = before
        return found

    def has_changed(self, pages: Iterable[int], moment: int) -> bool:
        """Whether any of these pages changed since a moment. `lock` is held."""
        pages = set(pages)
        later = itertools.takewhile(lambda change: change.moment > moment, reversed(self._changes))
        return any(not pages.isdisjoint(change.before) for change in later)

    def make_room(self, size: int) -> None:
        """Let the file and its view reach to the memory's end."""
        if size <= self.size:
            return
        if self.fd < 0:
            self.fd = unnamed_file()
        os.ftruncate(self.fd, size)
        self._unmap()
        self.view, self.size = map_file(self.fd, size, PROT_RW, mmap.MAP_SHARED), size
        self.states.extend(bytes(size // PAGE - len(self.states)))

    def has(self, first: int, count: int) -> bool:
        """Whether all of these pages can be read from it."""
        states = self.states[first : first + count]
        return len(states) == count and not any(state in states for state in (ELSEWHERE, ZEROS, IN_FILE))

    def stretch(self, first: int, count: int) -> memoryview | None:
        """These pages as they lie in it, side by side; None: some are elsewhere. Valid until it changes."""
        if not self.has(first, count):
            return None
        return memoryview(buffer(self.view + first * PAGE, count * PAGE)).cast("B")

    def are_zeros(self, pages: range) -> bool:
        """Whether these pages are known to hold nothing but zeros."""
        return self.states.count(ZEROS, pages.start, pages.stop) == len(pages)

    def page(self, page: int) -> bytes | None:
        """A page's content; None: it is not in the overlay."""
        state = self.states[page] if page < len(self.states) else ELSEWHERE
        if state == ZEROS:
            return _ZERO_PAGE
        return ctypes.string_at(self.address(page), PAGE) if state else None

    def address(self, page: int) -> int:
        """Where a page that is in it, or in its file, can be read."""
        in_file = self.file is not None and self.states[page] == IN_FILE
        return (self.file.view if self.file is not None and in_file else self.view) + page * PAGE

    def change_lines(self, page: int, lines: int, data: memoryview, base: BaseMemory | EmptyBase) -> None:
        """Change a page as an entry of a delta says (`page_delta`): what it does not name is as it was."""
        at = page * PAGE
        if not lines and punch_hole(self.fd, at, PAGE):
            self.states[page] = ZEROS
            return
        target = memoryview(buffer(self.view + at, PAGE)).cast("B")
        if not lines:
            target[:] = _ZERO_PAGE
        elif lines != page_delta.WHOLE and self.states[page] in (ELSEWHERE, IN_FILE):
            target[:] = self.page(page) or base.page(page) or _ZERO_PAGE
        page_delta.lay_lines(target, lines, data)
        self.states[page] = MAPPED

    def stretches(self, state: int, *, other: bool = False) -> Iterator[Span]:
        """Stretches of pages in a state, or in any other, as [first, last) numbers."""
        pattern = b"[^\\x%02x]+" % state if other else b"\\x%02x+" % state
        for match in re.finditer(pattern, self.states, re.DOTALL):
            yield match.span()

    # ---- the file that a guest went on from

    def lay_over(self, file: MappedMemory) -> None:
        """Begin with the memory of a file, which is this overlay's from now on."""
        self.make_room(file.size)
        self.file, self._in_file = file, file.long
        for spans, state in ((file.zeros, ZEROS), (file.long, IN_FILE)):
            for first, last in spans:
                self.states[first:last] = bytes([state]) * (last - first)
        for first, last, address in file.short:
            write_memory(self.fd, address, (last - first) * PAGE, first * PAGE)
            self.states[first:last] = bytes([MAPPED]) * (last - first)

    def take_from_file(self, address: int, written: Sequence[Span]) -> None:
        """Have what is only in the file of what was written to a live memory there: it will be compared with that.

        ``written``: spans of addresses, in ascending order. `lock` is held.
        """
        starts = [(start - address) // PAGE for start, _ in written]
        ends = [(end - address) // PAGE for _, end in written]
        taken = False
        assert self.file is not None
        for first, last in self._in_file:
            for n in range(bisect.bisect_right(ends, first), bisect.bisect_left(starts, last)):
                at, until = max(first, starts[n]), min(last, ends[n])
                for match in re.finditer(_IN_FILE_PAGES, self.states[at:until]):
                    start, end = at + match.start(), at + match.end()
                    write_memory(self.fd, self.file.view + start * PAGE, (end - start) * PAGE, start * PAGE)
                    self.states[start:end] = bytes([MAPPED]) * (end - start)
                    taken = True
        if taken:
            self._in_file = list(self.stretches(IN_FILE))

    def parts(self) -> list[MemoryPart]:
        """Everything in it and in its file, for a file."""
        kinds = {ZEROS: False, COPIED: True, MAPPED: True, IN_FILE: True}
        spans = [(span, has) for kind, has in kinds.items() for span in self.stretches(kind)]
        return sorted((first, last, self.address(first) if has else 0) for (first, last), has in spans)

    def _unmap(self) -> None:
        if self.size:
            unmap(self.view, self.size)
            self.view = self.size = 0

    def __del__(self) -> None:
        """Closes the file when neither a memory nor a capture needs it."""
        self._unmap()
        if self.fd >= 0:
            os.close(self.fd)
        if self.file is not None:
            self.file.close()


def differing(overlay: Overlay, base: BaseMemory | EmptyBase, address: int, size: int) -> Iterator[Span]:
    """The pages of a live memory that differ from the files it was made of: for systems that do not tell."""
    states = overlay.states
    for start in range(0, size, CHUNK):
        end = min(start + CHUNK, size)
        untouched = end <= base.size and not any(states[start // PAGE : end // PAGE])
        if untouched and not differ(address + start, base.view + start, end - start):
            continue
        for page in range(start, end, PAGE):
            live = address + page
            if page // PAGE < len(states) and states[page // PAGE]:
                same = not differ(live, overlay.address(page // PAGE), PAGE)
            elif page < base.size:
                same = not differ(live, base.view + page, PAGE)
            else:
                same = ctypes.string_at(live, PAGE) == _ZERO_PAGE
            if not same:
                yield live, live + PAGE


def unnamed_file() -> int:
    """A new file in memory, or in the folder of temporary files; it goes when it is closed."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("wasm-kernel-overlay", os.MFD_CLOEXEC)
    handle, name = tempfile.mkstemp(prefix="wasm-kernel-overlay-")
    Path(name).unlink()
    return handle
