"""Wakes the event loop from another thread, which goes on at once.

`call_soon_threadsafe` gives up the interpreter's lock while it writes to the loop's socket. The loop then has it first,
and whoever called waits until the loop has done what it was woken for: a guest that has just got its cell, for example.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import threading
from collections.abc import Callable

_write = ctypes.PyDLL(None).write  # PyDLL: without giving up the lock
_write.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
_write.restype = ctypes.c_ssize_t


class Bell:
    """Has one thing done on a loop, soon, however often it was rung."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # no other file must get the number of one that is still written to
        self._ends: tuple[int, int] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def hang(self, loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
        """From now on ringing it does this work on this loop."""
        heard, told = os.pipe()
        os.set_blocking(heard, False)
        os.set_blocking(told, False)

        def rung() -> None:
            with contextlib.suppress(BlockingIOError):
                os.read(heard, 4096)
            work()

        loop.add_reader(heard, rung)
        with self._lock:
            self._ends, self._loop = (heard, told), loop

    def ring(self) -> None:
        """Called on any thread. Nothing happens if it hangs nowhere."""
        with self._lock:
            if self._ends is not None:
                _write(self._ends[1], b"!", 1)  # a full pipe has rung

    def close(self) -> None:
        """Take it away. On the loop's thread."""
        with self._lock:
            ends, self._ends = self._ends, None
        if ends is not None and self._loop is not None:
            self._loop.remove_reader(ends[0])
            os.close(ends[0])
            os.close(ends[1])
