"""How many mappings guests' memories are made of. A process may have only so many (`vm.max_map_count`)."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

MOST_MAPPINGS = 4096  # of one guest; what people compute makes some hundred
_USUAL_MAX_MAP_COUNT = 65530


def _process_share() -> int:
    """How many mappings the guests of a process may have together."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text()) // 2
    except (OSError, ValueError):
        return _USUAL_MAX_MAP_COUNT // 2


class Mappings:
    """How many mappings a guest's memory is made of, at most: each one that is laid over others adds two at most.

    That some were replaced is noticed only when they are counted, which is done when there seem to be too many.
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
        """Mappings are about to be made; ``anew``: over a fresh memory."""
        self._may_count = True
        if anew:
            self.count = 0

    def take(self, address: int, size: int) -> bool:
        """Count one more that is about to be laid over the memory there; False if there may be no more."""
        with self._lock:
            if not self._have_room() and self._may_count:
                self._may_count = False  # once is enough: it takes long where there are many
                self.count = _mappings_in(address, size, self.count)
            if not self._have_room():
                return False
            self.count += 2
            return True

    def left(self) -> int:
        """How many more may be made."""
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
