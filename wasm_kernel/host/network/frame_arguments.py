"""The arguments of a guest's frame about its network, checked one by one."""

from __future__ import annotations

import socket

from wasm_kernel.guest import wire
from wasm_kernel.host.network.connection import READ, WRITE

_LONGEST_WAIT = 3600.0


class FrameArguments:
    """The arguments of a frame, each checked as it is taken. `wire.BadFrame` if one is not what it must be."""

    def __init__(self, event: wire.Network) -> None:
        self._given, self._buffers = event.arguments, event.buffers

    def text(self, name: str) -> str:
        """A text of at most 1,024 characters."""
        value = self._given.get(name)
        if not isinstance(value, str) or len(value) > 1024:
            raise wire.BadFrame(f"{name} is no short text")
        return value

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """At most so many short texts."""
        value = self._given.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise wire.BadFrame(f"{name} is no short list")
        if not all(isinstance(text, str) and text.isascii() and 0 < len(text) < 256 for text in value):
            raise wire.BadFrame(f"{name} has something else than short texts")
        return tuple(value)

    def whole(self, name: str, most: int) -> int:
        """A whole number from 0 on."""
        value = self._given.get(name)
        if type(value) is not int or not 0 <= value <= most:
            raise wire.BadFrame(f"{name} is no number from 0 to {most}")
        return value

    def direction(self) -> int:
        """Which direction to end, as this system's `socket.shutdown` has it. WASI's numbers, in ``how``, are others."""
        found = {1: socket.SHUT_RD, 2: socket.SHUT_WR, 3: socket.SHUT_RDWR}.get(self.whole("how", 3))
        if found is None:
            raise wire.BadFrame("how is no direction")
        return found

    def seconds(self) -> float:
        """How long to wait."""
        value = self._given.get("seconds")
        if value is None:
            return _LONGEST_WAIT
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise wire.BadFrame("seconds is no time")
        return float(min(value, _LONGEST_WAIT))  # in this order: a whole number may be too large for a float

    def pairs(self, name: str, most: int) -> list[tuple[int, int]]:
        """At most so many connections, each once, with the events that are waited for."""
        value = self._given.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise wire.BadFrame(f"{name} is no short list")
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2 or any(type(n) is not int for n in pair):
                raise wire.BadFrame(f"{name} has something else than pairs of numbers")
        return list({number: events & (READ | WRITE) for number, events in value}.items())

    def buffer(self) -> bytes:
        """The bytes that came with the frame."""
        if len(self._buffers) != 1:
            raise wire.BadFrame("what is sent is one buffer")
        return self._buffers[0]
