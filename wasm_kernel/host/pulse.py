"""One thread per process that watches running guests and gets their attention when something is due.

wasm code runs without the GIL and notices nothing. A bump of the engine's epoch makes it call back. The pulse
looks every few milliseconds whether a running guest has output waiting, a signal to get, or a deadline passed,
and bumps only then; with no guest running it sleeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

PERIOD = 0.005


class Watched(Protocol):
    """A running guest."""

    def due(self, now: float) -> Callable[[], None] | None:
        """What to do to get its attention, or None when nothing is due."""


class Pulse:
    """Watches what is between `enter` and `leave`."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._watched: list[Watched] = []
        self._thread: threading.Thread | None = None

    def enter(self, guest: Watched) -> None:
        """Start watching."""
        with self._lock:
            self._watched.append(guest)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="wasm-kernel-pulse", daemon=True)
                self._thread.start()
            elif len(self._watched) == 1:
                self._lock.notify()

    def leave(self, guest: Watched) -> None:
        """Stop watching."""
        with self._lock:
            self._watched.remove(guest)

    def _beat(self) -> None:
        while True:
            with self._lock:
                while not self._watched:
                    self._lock.wait()
                bumps = set()
                now = time.monotonic()
                for guest in self._watched:
                    bump = guest.due(now)
                    if bump is not None:
                        bumps.add(bump)
            for bump in bumps:
                bump()
            time.sleep(PERIOD)


pulse = Pulse()
