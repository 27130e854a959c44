"""The form in which an administrator tries out a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.units import parse_duration, parse_size


def parse_count(text: str) -> int:
    """A number as people write it in a form."""
    digits = text.replace(",", "").replace("'", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
        raise ConfigurationError(f"{text!r} is not a number; write digits, such as 100")
    return int(digits)


FIELDS = (
    ("max_age", "Longest time unused", "30d", parse_duration),
    ("max_sessions", "Most per user", "100", parse_count),
    ("max_total", "Most space per user", "10G", parse_size),
    ("min_free", "Least free on the disk", "5G", parse_size),
    ("snapshot_max_age", "Oldest", "14d", parse_duration),
    ("snapshot_max_per_session", "Most per session", "20", parse_count),
    ("snapshot_max_total", "Most space per user", "5G", parse_size),
)
"""Name of a setting, label, example, and how its text is parsed."""


def settings_from(given: Mapping[str, str], *, archive: bool) -> dict[str, Any]:
    """A policy as `policies` reads it, from a form's text."""
    if not given:
        raise ConfigurationError("A policy needs at least one bound: fill in one of the fields")
    result: dict[str, Any] = {"archive": archive}
    for name, label, _, parse in FIELDS:
        if name in given:
            try:
                result[name] = parse(given[name])
            except ConfigurationError as e:
                raise ConfigurationError(f"{label}: {e}") from None
    return result
