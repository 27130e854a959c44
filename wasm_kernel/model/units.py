"""Sizes and durations as people write and read them."""

from __future__ import annotations

import re

from wasm_kernel.errors import ConfigurationError

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*\Z")


def parse_size(text: str) -> int:
    """Bytes: ``512``, ``64k``, ``1.5G``, ``2 GiB``. Units are powers of 1024."""
    match = _NUMBER.match(text)
    unit = re.sub(r"i?b?\Z", "", match[2].lower()) if match else None
    if match is None or unit not in _SIZES:
        raise ConfigurationError(f"{text!r} is not a size; write bytes, or a number with k, M, G or T, such as 1.5G")
    return int(float(match[1]) * _SIZES[unit])


def parse_duration(text: str) -> float:
    """Seconds: ``90``, ``90s``, ``5m``, ``36h``, ``7d``, ``2w``."""
    match = _NUMBER.match(text)
    if match is None or match[2].lower() not in _TIMES:
        raise ConfigurationError(
            f"{text!r} is not a duration; write seconds, or a number with s, m, h, d or w, such as 36h"
        )
    return float(match[1]) * _TIMES[match[2].lower()]


def format_size(size: float) -> str:
    """``1.5 MB``: one decimal, powers of 1024."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 1024 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def format_duration(seconds: float) -> str:
    """``850 ms``, ``12.3 s``, ``5 min``, ``3.2 h``, ``4.0 d``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def format_age(seconds: float) -> str:
    """``just now``, ``40 s ago``, ``5 min ago``, ``3 h ago``, ``4 days ago``."""
    if seconds < 5:
        return "just now"
    if seconds < 90:
        return f"{seconds:.0f} s ago"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} h ago"
    return f"{seconds / 86400:.0f} days ago"


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
