"""A private, unnamed file of the pages in which a guest's memory differs from the base, at the same offsets."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.pages import CHUNK, PAGE, PROT_RW, Span, differ, map_file, unmap

# What an overlay knows of a page.
ELSEWHERE = 0  # not in it
COPIED = 1  # in it, and private in the live memory
MAPPED = 2  # in it, and mapped from it
ZEROS = 3  # the same, and a hole: reading it there would fill it
_ZERO_PAGE = bytes(PAGE)


class PageReader:
    """Somebody who still has to read pages as they are now: whoever changes one puts it aside first."""

    def __init__(self, pages: Iterable[int]) -> None:
        self.unread = set(pages)
        self.aside: dict[int, bytes | None] = {}


class Overlay:
    """An unnamed file of pages that differ from the base, at the offsets they have in the memory."""

    def __init__(self) -> None:
        self.fd = -1  # made when there is something to hold
        self.view = 0  # the file, mapped to read and write
        self.size = 0
        self.states = bytearray()  # what is known of each page
        self.lock = threading.Lock()  # held while pages change, and while one is read later
        self.readers: weakref.WeakSet[PageReader] = weakref.WeakSet()

    def make_room(self, size: int) -> None:
        """Let the file and its view reach to the memory's end."""
        if size <= self.size:
            return
        if self.fd < 0:
            self.fd = _unnamed_file()
        os.ftruncate(self.fd, size)
        self._unmap()
        self.view, self.size = map_file(self.fd, size, PROT_RW, mmap.MAP_SHARED), size
        self.states.extend(bytes(size // PAGE - len(self.states)))

    def has(self, first: int, count: int) -> bool:
        """Whether all of these pages can be read from it."""
        states = self.states[first : first + count]
        return len(states) == count and ELSEWHERE not in states and ZEROS not in states

    def are_zeros(self, pages: range) -> bool:
        """Whether these pages are known to hold nothing but zeros."""
        return self.states.count(ZEROS, pages.start, pages.stop) == len(pages)

    def page(self, page: int) -> bytes | None:
        """A page's content; None: it is not in the overlay."""
        state = self.states[page] if page < len(self.states) else ELSEWHERE
        if state == ZEROS:
            return _ZERO_PAGE
        return ctypes.string_at(self.view + page * PAGE, PAGE) if state else None

    def stretches(self, state: int, *, other: bool = False) -> Iterator[Span]:
        """Stretches of pages in a state, or in any other, as [first, last) numbers."""
        pattern = b"[^\\x%02x]+" % state if other else b"\\x%02x+" % state
        for match in re.finditer(pattern, self.states, re.DOTALL):
            yield match.span()

    def _unmap(self) -> None:
        if self.size:
            unmap(self.view, self.size)
            self.view = self.size = 0

    def __del__(self) -> None:
        """Closes the file when neither a memory nor a capture needs it."""
        self._unmap()
        if self.fd >= 0:
            os.close(self.fd)


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
                same = not differ(live, overlay.view + page, PAGE)
            elif page < base.size:
                same = not differ(live, base.view + page, PAGE)
            else:
                same = ctypes.string_at(live, PAGE) == _ZERO_PAGE
            if not same:
                yield live, live + PAGE


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("wasm-kernel-overlay", os.MFD_CLOEXEC)
    handle, name = tempfile.mkstemp(prefix="wasm-kernel-overlay-")
    Path(name).unlink()
    return handle
