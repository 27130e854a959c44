"""How an answer of the guest's differs from the native one."""

from __future__ import annotations

from typing import Any

TOLERANCE = 1e-6  # of the largest value beside it: sums are added up in another order

SAME, NARROW, OTHER = "same", "narrow", "other"


def difference(native: Any, guest: Any, tolerance: float = TOLERANCE) -> str:
    """SAME; NARROW if values are the same but some integers have 32 bits instead of 64; otherwise OTHER."""
    if isinstance(native, str) and isinstance(guest, str):
        narrowed = native.replace("int64", "int32")
        return SAME if guest == native else NARROW if guest == narrowed else OTHER
    if isinstance(native, list) and isinstance(guest, list):
        if len(native) != len(guest):
            return OTHER
        scale = max((abs(v) for v in [*native, *guest] if isinstance(v, float)), default=0.0)
        kinds = {
            _numbers(a, b, tolerance * scale) if isinstance(a, float) else difference(a, b, tolerance)
            for a, b in zip(native, guest, strict=True)
        }
        return next((kind for kind in (OTHER, NARROW) if kind in kinds), SAME)
    return SAME if native == guest and type(native) is type(guest) else OTHER


def _numbers(native: float, guest: Any, allowed: float) -> str:
    return SAME if isinstance(guest, float) and abs(native - guest) <= max(allowed, 1e-12) else OTHER
