"""Limits as people name them: ``memory=2G timeout=60``, within maxima that an administrator sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.units import format_duration, format_size, parse_duration, parse_size


@dataclass(frozen=True)
class _Limit:
    fields: tuple[str, ...]
    kind: str  # size, time or count
    meaning: str


LIMITS = {
    "memory": _Limit(("memory_bytes",), "size", "memory of the interpreter and all its data"),
    "timeout": _Limit(("timeout_seconds",), "time", "wall-clock time of one cell"),
    "disk": _Limit(("workspace_bytes",), "size", "files in /app and /tmp together"),
    "file": _Limit(("max_file_bytes",), "size", "any single file"),
    "files": _Limit(("max_files",), "count", "number of files and folders"),
    "open": _Limit(("max_open_files",), "count", "files open at once"),
    "output": _Limit(("stdout_max_bytes", "stderr_max_bytes"), "size", "text printed by one cell"),
    "display": _Limit(("display_max_bytes",), "size", "figures, tables and widgets of one cell"),
}


def changed(policy: ExecutionPolicy, wanted: Mapping[str, Any], maxima: Mapping[str, Any] | None = None) -> Any:
    """A policy with some limits changed; `ConfigurationError` says which name or value is wrong, or too high."""
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        limit = LIMITS.get(name)
        if limit is None:
            raise ConfigurationError(f"there is no limit {name!r}; there are {', '.join(LIMITS)}")
        number = _number(name, value)
        most = _number(name, maxima[name]) if maxima and name in maxima else None
        if most is not None and (number is None or number > most):
            raise ConfigurationError(
                f"{name} is {describe(name, number)}; the administrator allows {describe(name, most)} at most"
            )
        changes.update(dict.fromkeys(limit.fields, number))
    return replace(policy, **changes)


def bounded(policy: ExecutionPolicy, maxima: Mapping[str, Any]) -> ExecutionPolicy:
    """A policy with every limit lowered to its maximum."""
    for name, most in maxima.items():
        value = current(policy, name)
        top = _number(name, most)
        if top is not None and (value is None or value > top):
            policy = changed(policy, {name: most})
    return policy


def current(policy: ExecutionPolicy, name: str) -> float | None:
    """A limit's value now; None: no limit."""
    if name not in LIMITS:
        raise ConfigurationError(f"there is no limit {name!r}; there are {', '.join(LIMITS)}")
    value: float | None = getattr(policy, LIMITS[name].fields[0])
    return value


def describe(name: str, value: float | None) -> str:
    """A limit's value for people."""
    if value is None:
        return "no limit"
    kind = LIMITS[name].kind
    if kind == "size":
        return format_size(value)
    return format_duration(value) if kind == "time" else f"{value:,.0f}"


def _number(name: str, value: Any) -> float | int | None:
    kind = LIMITS[name].kind
    try:
        if kind == "time":
            if value is None or str(value).strip().lower() in ("none", "off", "0"):
                return None
            return parse_duration(str(value))
        if kind == "size":
            return parse_size(str(value))
        return int(str(value).replace(",", "").replace("_", ""))
    except ValueError as e:
        text = str(e) if isinstance(e, ConfigurationError) else f"{value!r} is not a whole number"
        raise ConfigurationError(f"limit {name}: {text}") from None
