"""What tests of kernels share: numbers that are special, rounding, and bits."""

from __future__ import annotations

import math
import struct
from array import array
from typing import Any

SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, 1e-310, 1e308, 1e-45, 3e38]
EPSILON = {"d": 2.0**-53, "f": 2.0**-24}
TINIEST = {"d": 5e-324, "f": 1.5e-45}


def fit(kind: str, value: float) -> float:
    """The nearest number of a type, "d" or "f"."""
    if kind == "d":
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def bits(kind: str, values: array[Any]) -> list[bytes]:
    """Each number's bits; all NaNs are the same, as theirs are the machine's choice."""
    return [b"nan" if value != value else struct.pack(kind, value) for value in values]
