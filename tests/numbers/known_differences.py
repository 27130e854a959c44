"""Where the guest answers otherwise than a 64-bit machine, by name and with the reason.

A program that is listed and answers as natively fails the test as well: the list is what is left, no more.
"""

from __future__ import annotations

from typing import Any

# Reason: programs whose values are the native ones, while some of their integers have 32 bits.
NARROW: dict[str, tuple[str, ...]] = {}

# Reason: programs, and what the guest answers.
OTHER: dict[str, dict[str, Any]] = {}

# Reason: programs, and how far their floats may be from the native ones.
LOOSE: dict[str, dict[str, float]] = {}
