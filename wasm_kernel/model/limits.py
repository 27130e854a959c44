"""Limits as people name them: ``memory=2G timeout=60``, within maxima that an administrator sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    optional: bool = False  # there may be none


LIMITS = {
    "memory": _Limit(("memory_bytes",), "size", "memory of the interpreter and all its data"),
    "timeout": _Limit(("timeout_seconds",), "time", "wall-clock time of one cell", optional=True),
    "fuel": _Limit(("fuel_budget",), "count", "WebAssembly instructions of one cell", optional=True),
    "disk": _Limit(("workspace_bytes",), "size", "files in /app and /tmp together"),
    "file": _Limit(("max_file_bytes",), "size", "any single file"),
    "files": _Limit(("max_files",), "count", "number of files and folders"),
    "open": _Limit(("max_open_files",), "count", "files open at once"),
    "output": _Limit(("stdout_max_bytes", "stderr_max_bytes"), "size", "text printed by one cell"),
    "display": _Limit(("display_max_bytes",), "size", "figures, tables and widgets of one cell"),
}

_DEFAULTS = ExecutionPolicy()


def changed(policy: ExecutionPolicy, wanted: Mapping[str, Any], maxima: Mapping[str, Any] | None = None) -> Any:
    """A policy with some limits changed; `ConfigurationError` says which name or value is wrong, or too high."""
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        _check(name)
        wish = number(name, value)
        most = number(name, maxima[name]) if maxima and name in maxima else None
        if most is not None and (wish is None or wish > most):
            raise ConfigurationError(
                f"{name} is {describe(name, wish)}; the administrator allows {describe(name, most)} at most"
            )
        changes.update(dict.fromkeys(LIMITS[name].fields, wish))
    return replace(policy, **changes)


def bounded(policy: ExecutionPolicy, maxima: Mapping[str, Any]) -> ExecutionPolicy:
    """A policy with every limit lowered to its maximum."""
    return replace(policy, **dict(_too_high(policy, maxima)))


def within(policy: ExecutionPolicy, maxima: Mapping[str, Any]) -> ExecutionPolicy:
    """The same for a policy somebody chose: what is not at its default was asked for, and is refused if too high."""
    lowered = dict(_too_high(policy, maxima))
    for name, top in lowered.items():
        value = getattr(policy, name)
        if value != getattr(_DEFAULTS, name):
            limit = next((n for n in LIMITS if name in LIMITS[n].fields), "timeout")
            raise ConfigurationError(
                f"{name} is {describe(limit, value)}; the administrator allows {describe(limit, top)} at most"
            )
    return replace(policy, **lowered) if lowered else policy


def _too_high(policy: ExecutionPolicy, maxima: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a policy that are above a maximum, with the maximum."""
    for name, most in maxima.items():
        _check(name)
        top = number(name, most)
        for field in LIMITS[name].fields if top is not None else ():
            value = getattr(policy, field)
            if value is None or value > top:
                yield field, top
    if "timeout" in maxima and policy.interrupt_grace_seconds > _DEFAULTS.interrupt_grace_seconds:
        yield "interrupt_grace_seconds", _DEFAULTS.interrupt_grace_seconds  # it comes on top of the time


def strictest(*several: Mapping[str, Any]) -> dict[str, Any]:
    """Of each maximum the lowest."""
    found: dict[str, Any] = {}
    for maxima in several:
        for name, most in maxima.items():
            _check(name)
            top = number(name, most)
            if top is not None and (name not in found or top < found[name]):
                found[name] = top
    return found


def current(policy: ExecutionPolicy, name: str) -> float | None:
    """A limit's value now; None: no limit."""
    _check(name)
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


def number(name: str, value: Any) -> float | int | None:
    """A limit's value as people write it: ``2G``, ``10m``, ``off``; None: no limit."""
    limit = LIMITS[name]
    try:
        if limit.optional and (value is None or str(value).strip().lower() in ("none", "off", "0")):
            return None
        if limit.kind == "time":
            return parse_duration(str(value))
        if limit.kind == "size":
            return parse_size(str(value))
        return int(str(value).replace(",", "").replace("_", ""))
    except ValueError as e:
        text = str(e) if isinstance(e, ConfigurationError) else f"{value!r} is not a whole number"
        raise ConfigurationError(f"limit {name}: {text}") from None


def _check(name: str) -> None:
    if name not in LIMITS:
        raise ConfigurationError(f"there is no limit {name!r}; there are {', '.join(LIMITS)}")
