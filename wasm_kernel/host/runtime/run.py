"""One turn in progress: its deadline, and the signals that other threads have for it."""

from __future__ import annotations

import threading
import time

SIGINT, SIGXCPU = 2, 24


class Run:
    """One turn in progress: what is asked of it from other threads.

    `signal` waits for delivery, `stop` ends the turn by force. `wake` is set with either, for a guest that waits
    in the host (sleep, input) rather than in wasm.
    """

    def __init__(self, timeout: float | None, grace: float) -> None:
        self.started = time.monotonic()
        self._deadline = None if timeout is None else self.started + timeout
        self._grace = grace
        self._force_at: float | None = None
        self.signal = 0
        self.stop = False
        self.interrupted = False
        self.interrupts = 0  # how often
        self.seen = 0  # how many of them the guest knows of
        self.timed_out = False
        self.fuel_used = 0  # by a metered guest, when the turn is over
        self.wake = threading.Event()

    def interrupt(self) -> None:
        """Ask for a KeyboardInterrupt."""
        self.interrupted = True
        self.interrupts += 1
        self.signal = SIGINT
        if self._force_at is None:
            self._force_at = time.monotonic() + self._grace
        self.wake.set()

    def interrupt_seen(self) -> None:
        """The guest's handler ran. A time limit still ends by force: the handler may be the guest's own trick."""
        self.seen = self.interrupts
        if not self.timed_out:
            self._force_at = None

    def halt(self) -> None:
        """End the turn by force, now."""
        self.stop = True
        self.wake.set()

    def due(self, now: float) -> bool:
        """Bring deadlines up to date; whether the guest must be told something."""
        if self._deadline is not None and not self.timed_out and now >= self._deadline:
            self.timed_out = True
            self.signal = SIGXCPU
            self._force_at = now + self._grace
            self.wake.set()
        if self._force_at is not None and now >= self._force_at:
            self.halt()
        return bool(self.signal or self.stop)
