"""LEB128, the variable-length integers of WebAssembly: seven bits per byte, the lowest first."""

from __future__ import annotations

_LONGEST = 10  # bytes of a 64-bit number


class BadNumber(ValueError):
    """A number that has no end, or more bytes than one of 64 bits needs."""


def read_unsigned(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends."""
    value, _, end = _read(data, at)
    return value, end


def read_signed(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The signed number at ``at``, and where it ends."""
    value, bits, end = _read(data, at)
    return (value - (1 << bits) if value >> (bits - 1) else value), end


def _read(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int, int]:
    value = bits = 0
    for position in range(at, min(at + _LONGEST, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << bits
        bits += 7
        if byte < 0x80:
            return value, bits, position + 1
    raise BadNumber(f"a number without an end at byte {at}")


def unsigned(value: int) -> bytes:
    """A number that is not negative, in as few bytes as possible."""
    if value < 0:
        raise BadNumber(f"{value} is negative")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """A signed number, in as few bytes as possible."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)
