"""A capture of a guest's memory, which copies nothing: it remembers which pages to read when there is time."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.overlay import Overlay, PageReader
from wasm_kernel.host.runtime.pages import PAGE, PAGES

Part = tuple[int, "PendingPages"]  # the number of a chunk or a page, and where its content is read


@dataclass
class CapturedMemory:
    """What changed in a memory, to be read when there is time.

    Attributes:
        size: Of the memory.
        everything: Whether this is all that is not as in the base, rather than what changed since the last capture.
        whole: Chunks, by number, most of whose pages changed, and where each is read.
        pages: Single pages, likewise: those that changed of a chunk known page by page, all of any other.
        logged: The log of cells (its id) whose records this includes, and how many of them: `Manifest.log`.
    """

    size: int
    everything: bool = False
    whole: dict[int, PendingPages] = field(default_factory=dict)
    pages: dict[int, PendingPages] = field(default_factory=dict)
    logged: tuple[str, int] = ("", 0)

    def take_over(self, before: CapturedMemory) -> None:
        """Add what was captured ``before``, as far as it has not changed again since. Nobody may use that any more."""
        if self.everything:
            return
        if not before.whole and not self.whole:
            before.pages.update(self.pages)  # the larger one, where cells follow each other
            self.pages, self.everything = before.pages, before.everything
            return
        chunks, pages = dict(before.whole), dict(before.pages)
        for number in chunks.keys() & {page // PAGES for page in self.pages}:
            del chunks[number]
        if len(self.whole) * PAGES < len(pages):
            for page in itertools.chain.from_iterable(range(n * PAGES, (n + 1) * PAGES) for n in self.whole):
                pages.pop(page, None)
        else:
            pages = {page: later for page, later in pages.items() if page // PAGES not in self.whole}
        self.whole, self.pages = chunks | self.whole, pages | self.pages
        self.everything = before.everything


class PendingPages(PageReader):
    """Reads pages as they were at a capture, even if the overlay has changed since."""

    def __init__(self, overlay: Overlay, base: BaseMemory | EmptyBase, pages: Iterable[int]) -> None:
        super().__init__(pages, overlay.moment)
        self._overlay, self._base = overlay, base
        overlay.readers.add(self)

    def read(self, first: int, count: int) -> bytes | None:
        """Read a stretch of pages, once. None: they are as in the base, or zeros beyond it."""
        overlay = self._overlay
        numbers = range(first, first + count)
        with overlay.lock:
            if overlay.has(first, count) and not overlay.has_changed(numbers, self.moment):
                content = ctypes.string_at(overlay.view + first * PAGE, count * PAGE)
            else:
                found = overlay.pages_at(numbers, self.moment)
                content = b"".join(found[page] or self._of_base(page, 1) for page in numbers)
            self.unread.difference_update(numbers)
        return None if content == self._of_base(first, count) else content

    def read_each(self, pages: Sequence[int]) -> list[bytes | None]:
        """Single pages, as `read` gives them, in less time."""
        overlay = self._overlay
        with overlay.lock:
            found = overlay.pages_at(pages, self.moment)
            self.unread.difference_update(pages)
        return [
            None if content is None or content == self._of_base(page, 1) else content
            for page, content in ((page, found[page]) for page in pages)
        ]

    def _of_base(self, page: int, count: int) -> bytes:
        start, length = page * PAGE, count * PAGE
        there = min(length, self._base.size - start)
        if there == length:
            return ctypes.string_at(self._base.view + start, length)
        return (ctypes.string_at(self._base.view + start, there) if there > 0 else b"").ljust(length, b"\0")


def captured_memory(
    overlay: Overlay,
    base: BaseMemory | EmptyBase,
    size: int,
    pages: Iterable[int],
    split: Container[int],
    everything: bool,
) -> CapturedMemory:
    """A capture of these pages. ``split``: numbers of chunks whose pages are known one by one."""
    by_chunk: dict[int, list[int]] = {}
    for page in sorted(pages):
        by_chunk.setdefault(page // PAGES, []).append(page)
    whole: list[int] = []
    single: list[int] = []
    for number, touched in by_chunk.items():
        if len(touched) > PAGES // 2:
            whole.append(number)
        elif number in split:
            single += touched
        else:
            single += range(number * PAGES, (number + 1) * PAGES)
    wanted = {page for number in whole for page in range(number * PAGES, (number + 1) * PAGES)}.union(single)
    later = PendingPages(overlay, base, wanted)
    return CapturedMemory(size, everything, dict.fromkeys(whole, later), dict.fromkeys(single, later))
