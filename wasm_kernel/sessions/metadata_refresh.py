"""Refreshes a session's metadata after cells: once the front ends have their answers, and once for several cells."""

from __future__ import annotations

import asyncio
import threading

from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.session import LiveSession, Ran

_PAUSE = 0.5  # seconds; a kill loses what is not written by then, which the next opening makes up for


class MetadataRefresh:
    """What ran and is not in the metadata yet. `ran` is called on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, logger: SandboxLogger) -> None:
        self._loop, self._logger = loop, logger
        self._waiting: list[tuple[LiveSession, Ran]] = []
        self._lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None

    def ran(self, live: LiveSession, result: SandboxResult) -> None:
        """Code ran in a session."""
        self._waiting.append((live, Ran.of(result)))
        if self._timer is None:
            self._timer = self._loop.call_later(_PAUSE, self._later)

    def _later(self) -> None:
        self._timer = None
        self._loop.run_in_executor(None, self.write)

    def write(self) -> None:
        """Write it now. Blocks; on any thread."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for live in dict.fromkeys(live for live, _ in waiting):
                live.refresh([ran for of, ran in waiting if of is live], self._logger)
