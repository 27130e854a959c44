"""Printed text, collected for a moment: many small writes become one message, in order with everything else.

Front ends draw an output again with every message, and a long one takes them long: JupyterLab draws 2 MB in 0.17 s, and
in six pieces that arrive within 90 ms it draws for 0.5 s. So the first piece is sent almost at once. While little text
keeps coming, each further piece waits twice as long for more, up to `_LONGEST`, which is as often as ipykernel sends
it. After a large piece the next one waits that long at once, so that a cell that prints much in a moment is drawn
twice: its beginning, and all of it. After a pause of the guest's the next piece is quick again.
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
_ENOUGH = 1 << 16  # characters that wait no longer, if the piece before them was not large; those make a piece large
_MOST = 1 << 22  # characters that wait no longer in any case: what is held is bounded


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
            if self._size >= (_ENOUGH if self._wait < _LONGEST else _MOST):
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
            self._wait = _LONGEST if self._size >= _ENOUGH else min(2 * self._wait, _LONGEST)
            text, self._parts, self._size = "".join(self._parts), [], 0
            self._pieces += 1
            self._sent = time.monotonic()
            self._send(self._parent, self._name, text)
