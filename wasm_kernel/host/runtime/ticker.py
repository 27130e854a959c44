"""One thread per process that watches running guests and gets their attention when something is due.

wasm code runs without the GIL and notices nothing. A bump of the engine's epoch makes it call back. The ticker
looks every few milliseconds whether a running guest has output waiting, a signal to get, or a deadline passed,
and bumps only then; with no guest running it sleeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

PERIOD = 0.004
LINGER = 0.1  # waking the thread for every short execution would cost more than a few idle beats


class Watched(Protocol):
    """A guest that runs, as far as the ticker knows it."""

    def due(self, now: float) -> Callable[[], None] | None:
        """What to do to get its attention, or None when nothing is due."""


class Ticker:
    """Watches what is between `enter` and `leave`."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._watched: list[Watched] = []
        self._thread: threading.Thread | None = None
        self._asleep = False

    def enter(self, guest: Watched) -> None:
        """Watch a guest from now on; the thread is started or woken if need be."""
        with self._lock:
            self._watched.append(guest)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="wasm-kernel-ticker", daemon=True)
                self._thread.start()
            elif self._asleep:
                self._lock.notify()

    def leave(self, guest: Watched) -> None:
        """Stop watching a guest: its turn is over."""
        with self._lock:
            self._watched.remove(guest)

    def _beat(self) -> None:
        last_busy = time.monotonic()
        while True:
            now = time.monotonic()
            with self._lock:
                if self._watched:
                    last_busy = now
                elif now - last_busy > LINGER:
                    self._asleep = True
                    self._lock.wait()
                    self._asleep = False
                bumps = {bump for guest in self._watched if (bump := guest.due(now)) is not None}
            for bump in bumps:
                bump()
            time.sleep(PERIOD)


ticker = Ticker()
