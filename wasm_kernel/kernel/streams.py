"""Printed text, collected for a moment: many small writes become one message, in order with everything else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
PAUSE = 0.02  # seconds that text may wait for more of its kind
_ENOUGH = 1 << 16


class StreamBuffer:
    """Text on its way to the front ends. Called on any thread."""

    def __init__(self, send: Callable[[Message, str, str], None], later: Callable[[Callable[[], None]], None]) -> None:
        self._send, self._later = send, later
        self._lock = threading.Lock()
        self._parent: Message = {}
        self._name = ""
        self._parts: list[str] = []
        self._size = 0

    def write(self, parent: Message, name: str, text: str) -> None:
        """Text for a request's stdout or stderr."""
        with self._lock:
            if self._parts and (name != self._name or parent is not self._parent):
                self._flush()
            first = not self._parts
            self._parent, self._name = parent, name
            self._parts.append(text)
            self._size += len(text)
            if self._size >= _ENOUGH:
                self._flush()
            elif first:
                self._later(self.flush)

    def flush(self) -> None:
        """Send the collected text, before anything else is sent."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._parts:
            text, self._parts, self._size = "".join(self._parts), [], 0
            self._send(self._parent, self._name, text)
