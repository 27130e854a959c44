"""A guest's memory in the middle of a turn, laid under the instances of its workers.

The guest stands still in a call to the host. Its memory is then the base, the overlay, and the pages it has written
since the overlay was last brought up to date. `GuestMemory.keep` must not be called here: the overlay is what a trap
goes back to, and a guest in the middle of a turn is not at rest. So those pages are written, once for all workers, to
an unnamed file of their own, and every worker maps the three files copy-on-write.

A mapping costs more time than a few pages that are copied for nothing. So what lies here and there in the overlay is
written to the file as well, and stretches with little between them become one.

Pages of the overlay that no worker has written yet are still the overlay's own: it must not change while workers live.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.mappings import Mappings
from wasm_kernel.host.runtime.overlay import COPIED, IN_FILE, MAPPED, ZEROS, Overlay, unnamed_file
from wasm_kernel.host.runtime.pages import PAGE, Span, map_over, write_memory

_GAP = 16  # pages between two stretches that become one
_LONG = 64  # pages: from this length on, what is in the overlay is mapped from there
_MOST_STRETCHES = 256
_MOST_LONG = 128


def joined(stretches: Iterable[Span], most: int = _MOST_STRETCHES) -> list[Span]:
    """Stretches of pages in ascending order, those close to each other made one; ``most`` of them at most."""
    found: list[Span] = []
    for first, last in sorted(stretches):
        if found and first - found[-1][1] < _GAP:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    if len(found) > most:  # fill the smallest gaps
        gaps = sorted(after[0] - before[1] for before, after in zip(found, found[1:], strict=False))
        widest = gaps[len(found) - most - 1]
        kept = [found[0]]
        for first, last in found[1:]:
            if first - kept[-1][1] <= widest:
                kept[-1] = (kept[-1][0], last)
            else:
                kept.append((first, last))
        found = kept
    return found


class ForkedMemory:
    """What the workers of one fork start from. It is for as long as the guest's overlay does not change."""

    def __init__(
        self, base: BaseMemory | EmptyBase, overlay: Overlay, written: Sequence[Span], address: int, size: int
    ) -> None:
        """``written``: spans of addresses in the live memory at ``address``."""
        self.base, self.size, self._overlay = base, size, overlay
        in_overlay = [span for state in (ZEROS, MAPPED, IN_FILE) for span in overlay.stretches(state)]
        self._long = sorted((s for s in in_overlay if s[1] - s[0] >= _LONG), key=lambda s: s[0] - s[1])[:_MOST_LONG]
        long = set(self._long)
        own = [((start - address) // PAGE, (end - address) // PAGE) for start, end in written]
        self._stretches = joined([*own, *overlay.stretches(COPIED), *(s for s in in_overlay if s not in long)])
        self._mappings: list[Mappings] = []
        self._fd = unnamed_file()
        try:
            os.ftruncate(self._fd, size)
            for first, last in self._stretches:
                write_memory(self._fd, address + first * PAGE, (last - first) * PAGE, first * PAGE)
        except BaseException:
            self.close()
            raise

    @property
    def copied_bytes(self) -> int:
        """How much of the guest's memory had to be copied for it."""
        return sum(last - first for first, last in self._stretches) * PAGE

    def spans(self) -> list[Span]:
        """The pages that may differ from the base; all others are as in it, or zeros beyond its end."""
        return sorted([*self._stretches, *self._long])

    def attach(self, address: int) -> None:
        """Lay it over a fresh instance's memory of at least `size` bytes."""
        overlay, mappings = self._overlay, Mappings()
        mappings.count = 2 * (len(self._stretches) + len(self._long))
        self._mappings.append(mappings)
        if self.base.size:
            map_over(address, self.base.size, self.base.fd, 0)
        for first, last in self._long:
            at_rest = overlay.file if overlay.states[first] == IN_FILE else None
            fd = at_rest.fd if at_rest is not None else overlay.fd
            map_over(address + first * PAGE, (last - first) * PAGE, fd, first * PAGE)
        for first, last in self._stretches:
            map_over(address + first * PAGE, (last - first) * PAGE, self._fd, first * PAGE)

    def close(self) -> None:
        """Release the file; the workers' mappings keep what they need of it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
