"""Printed text, collected for a moment: many small writes become one message, in order with everything else.

Front ends draw an output again with every message, and a long one takes them long. So the first piece is sent almost
at once, and while text keeps coming each further one waits twice as long for more, up to `_LONGEST`: that is as often
as ipykernel sends it. After a pause of the guest's the next piece is quick again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

Message = dict[str, Any]
Later = Callable[[float, Callable[[], None]], None]
_SHORTEST, _LONGEST = 0.02, 0.2  # seconds that text may wait for more of its kind
_ENOUGH = 1 << 16  # characters that wait no longer, at the shortest wait; ten times as many at the longest


class StreamBuffer:
    """Text on its way to the front ends. Called on any thread."""

    def __init__(self, send: Callable[[Message, str, str], None], later: Later) -> None:
        """``later``: calls something after some seconds."""
        self._send, self._later = send, later
        self._lock = threading.Lock()
        self._parent: Message = {}
        self._name = ""
        self._parts: list[str] = []
        self._size = 0
        self._pieces = 0  # sent so far
        self._sent = 0.0  # when the last one was
        self._wait = _SHORTEST

    def write(self, parent: Message, name: str, text: str) -> None:
        """Text for a request's stdout or stderr."""
        with self._lock:
            if self._parts and (name != self._name or parent is not self._parent):
                self._flush()
            if not self._parts:
                if parent is not self._parent or time.monotonic() - self._sent > _LONGEST:
                    self._wait = _SHORTEST
                self._later(self._wait, partial(self._flush_piece, self._pieces))
            self._parent, self._name = parent, name
            self._parts.append(text)
            self._size += len(text)
            if self._size >= _ENOUGH * self._wait / _SHORTEST:
                self._flush()

    def flush(self) -> None:
        """Send the collected text, before anything else is sent."""
        with self._lock:
            self._flush()

    def _flush_piece(self, number: int) -> None:
        """Send a piece whose time has come, unless it was sent already."""
        with self._lock:
            if number == self._pieces:
                self._flush()

    def _flush(self) -> None:
        if self._parts:
            text, self._parts, self._size = "".join(self._parts), [], 0
            self._pieces += 1
            self._sent, self._wait = time.monotonic(), min(2 * self._wait, _LONGEST)
            self._send(self._parent, self._name, text)
