"""Reading a section of a WebAssembly module: numbers, bytes and names, one after the other, never beyond its end."""

from __future__ import annotations

from wasm_kernel.host.image.leb128 import BadNumber, read_unsigned


class BadModule(ValueError):
    """These bytes are no WebAssembly module, or not one with what was asked for."""


class SectionReader:
    """Reads one part of a module, and never beyond it."""

    def __init__(self, view: memoryview, start: int, end: int) -> None:
        self._view, self.at, self._end = view, start, end

    def number(self) -> int:
        """The next unsigned number."""
        if self.at < self._end and self._view[self.at] < 0x80:  # most are one byte
            self.at += 1
            return self._view[self.at - 1]
        try:
            value, end = read_unsigned(self._view, self.at)
        except BadNumber as e:
            raise BadModule(str(e)) from None
        self._move(end)
        return value

    def byte(self) -> int:
        """The next byte."""
        return self._view[self.skip(1) - 1]

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        start = self.at
        return bytes(self._view[start : self.skip(size)])

    def text(self) -> str:
        """The next name: its length, then its bytes in UTF-8."""
        return self.take(self.number()).decode(errors="replace")

    def skip(self, size: int) -> int:
        """Go on by ``size`` bytes; where that is."""
        self._move(self.at + size)
        return self.at

    def _move(self, to: int) -> None:
        if to > self._end:
            raise BadModule(f"byte {self.at}: what is there goes beyond its section, which ends at {self._end}")
        self.at = to

    def finish(self) -> None:
        """Check that nothing is left; `BadModule` if something is."""
        if self.at != self._end:
            raise BadModule(f"{self._end - self.at} bytes at {self.at} belong to nothing")
