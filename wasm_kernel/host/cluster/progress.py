"""How far the calls of a cell on a cluster are: one line below it, which changes now and then."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from wasm_kernel.guest import wire
from wasm_kernel.model.units import counted

_FIRST = 1.0  # seconds before anything is shown: what is quick needs no progress
_EVERY = 0.5


class CallsProgress:
    """Counts calls, and shows them. Not thread-safe: its user has a lock."""

    def __init__(self, emit: Callable[[wire.Event], None]) -> None:
        self._emit = emit
        self._display = f"wasm-kernel-cluster-{uuid.uuid4().hex}"
        self._all = self._done = 0
        self._began = self._next = 0.0
        self._shown = ""

    def added(self) -> None:
        """There is one more call."""
        if not self._all:
            self._began = time.monotonic()
            self._next = self._began + _FIRST
        self._all += 1

    def done(self, under_way: int) -> None:
        """One more is done."""
        self._done += 1
        self.look(under_way)

    def look(self, under_way: int) -> None:
        """Show it, if it is time to; ``under_way``: calls that the cluster has."""
        now = time.monotonic()
        if self._all and now >= self._next:
            self._next = now + _EVERY
            self._show(under_way)

    def end(self, under_way: int) -> None:
        """Show how it ended, if anything was shown."""
        if self._shown:
            self._show(0)

    def _show(self, under_way: int) -> None:
        text = f"[cluster: {self._done} of {counted(self._all, 'call')} done"
        text += f", {under_way} there now]" if self._done < self._all and under_way else "]"
        if text == self._shown:
            return
        kind = wire.UpdateDisplay if self._shown else wire.DisplayData
        self._shown = text
        self._emit(kind({"text/plain": text}, {}, {"display_id": self._display}))
