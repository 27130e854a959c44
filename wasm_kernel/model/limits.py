"""Limits as people name them: ``memory=2G timeout=60``, within maxima that an administrator sets.

Messages name a limit as its user typed it. The fields of an `ExecutionPolicy` (``memory_bytes``) are for programs; no
message here mentions one, except the field that has no other name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.policy import RANGES, ExecutionPolicy, Range
from wasm_kernel.model.units import format_duration, format_size, parse_duration, parse_size


@dataclass(frozen=True)
class _Limit:
    fields: tuple[str, ...]
    kind: str  # size, time or count
    meaning: str

    @property
    def range(self) -> Range:
        """The values it can have at all, whatever the maxima."""
        return RANGES[self.fields[0]]

    @property
    def optional(self) -> bool:
        """Whether it can be switched off."""
        return self.range.optional


LIMITS = {
    "memory": _Limit(("memory_bytes",), "size", "memory of the interpreter and all its data"),
    "timeout": _Limit(("timeout_seconds",), "time", "wall-clock time of one cell"),
    "fuel": _Limit(("fuel_budget",), "count", "WebAssembly instructions of one cell"),
    "disk": _Limit(("workspace_bytes",), "size", "files in /app and /tmp together"),
    "file": _Limit(("max_file_bytes",), "size", "any single file"),
    "files": _Limit(("max_files",), "count", "number of files and folders"),
    "open": _Limit(("max_open_files",), "count", "files open at once"),
    "connections": _Limit(("network_connections",), "count", "network connections open at once"),
    "transfer": _Limit(("network_cell_bytes",), "size", "what one cell sends and receives over the network"),
    "traffic": _Limit(("network_session_bytes",), "size", "what the session sends and receives in all"),
    "connect": _Limit(("network_connect_seconds",), "time", "time to connect to a host"),
    "output": _Limit(("stdout_max_bytes", "stderr_max_bytes"), "size", "text printed by one cell"),
    "display": _Limit(("display_max_bytes",), "size", "figures, tables and widgets of one cell"),
    "workers": _Limit(("workers",), "count", "workers of process pools and joblib"),
    "cluster": _Limit(("cluster_workers",), "count", "workers on a cluster"),
}

_DEFAULTS = ExecutionPolicy()
_NAMES = {field: name for name, limit in LIMITS.items() for field in limit.fields}


def changed(
    policy: ExecutionPolicy, wanted: Mapping[str, object], maxima: Mapping[str, float] | None = None
) -> ExecutionPolicy:
    """A policy with some limits changed; `ConfigurationError` says which name or value is wrong, or too high."""
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        wish = number(name, value)
        most = (maxima or {}).get(name)
        if most is not None and (wish is None or wish > most):
            raise ConfigurationError(_too_much(name, _as_written(name, value), most))
        _check_range(name, wish, value)
        changes.update(dict.fromkeys(LIMITS[name].fields, wish))
    return replace(policy, **changes)


def parse_changes(words: Iterable[str]) -> dict[str, str]:
    """Limits as a person writes them, NAME=VALUE; `ConfigurationError` names what is not one."""
    wanted = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise ConfigurationError(f"{word!r} is not a limit; write NAME=VALUE, such as memory=2G or timeout=60")
        wanted[name] = value
    return wanted


def bounded(policy: ExecutionPolicy, maxima: Mapping[str, float]) -> ExecutionPolicy:
    """A policy with every limit lowered to its maximum."""
    return replace(policy, **dict(_too_high(policy, maxima)))


def within(policy: ExecutionPolicy, maxima: Mapping[str, float]) -> ExecutionPolicy:
    """As `bounded`, but a value that is not the default was asked for, and is refused if too high."""
    lowered = dict(_too_high(policy, maxima))
    for field, top in lowered.items():
        value = getattr(policy, field)
        if value != getattr(_DEFAULTS, field):
            name = _NAMES.get(field)
            if name is None:
                raise ConfigurationError(f"{field} is {value:g}; with a maximum timeout it may be {top:g} at most")
            raise ConfigurationError(_too_much(name, describe(name, value), top))
    return replace(policy, **lowered) if lowered else policy


def _too_much(name: str, written: str, most: float) -> str:
    return f"{name} is {written}; the administrator allows {describe(name, most)} at most"


def _too_high(policy: ExecutionPolicy, maxima: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    """The fields of a policy that are above a maximum, with the maximum."""
    for name, top in maxima.items():
        for field in _limit(name).fields:
            value = getattr(policy, field)
            if value is None or value > top:
                yield field, top
    if "timeout" in maxima and policy.interrupt_grace_seconds > _DEFAULTS.interrupt_grace_seconds:
        yield "interrupt_grace_seconds", _DEFAULTS.interrupt_grace_seconds  # it is added to the timeout


def strictest(*several: Mapping[str, object]) -> dict[str, float]:
    """The lowest of each maximum. `ConfigurationError` names one that is out of range."""
    found: dict[str, float] = {}
    for maxima in several:
        for name, most in maxima.items():
            top = number(name, most)
            if top is None:
                continue
            _check_range(name, min(top, _limit(name).range.most), most)  # a maximum may be higher than any limit
            found[name] = min(top, found.get(name, top))
    return found


def current(policy: ExecutionPolicy, name: str) -> float | None:
    """A limit's value now; None: no limit."""
    value: float | None = getattr(policy, _limit(name).fields[0])
    return value


def describe(name: str, value: float | None) -> str:
    """A limit's value for people."""
    if value is None:
        return "no limit"
    kind = _limit(name).kind
    if kind == "size":
        return format_size(value)
    return format_duration(value) if kind == "time" else f"{value:,.0f}"


def number(name: str, value: object) -> float | int | None:
    """A limit's value as people write it: ``2G``, ``10m``, ``off``; None: no limit."""
    limit = _limit(name)
    try:
        if limit.optional and (value is None or str(value).strip().lower() in ("none", "off", "0")):
            return None
        if limit.kind == "time":
            return parse_duration(str(value))
        if limit.kind == "size":
            return parse_size(str(value))
        return int(str(value).replace(",", "").replace("_", ""))
    except ConfigurationError as e:
        raise ConfigurationError(f"limit {name}: {e}") from None
    except ValueError:
        raise ConfigurationError(f"limit {name}: {_short(value)} is not a whole number") from None
    except OverflowError:
        raise ConfigurationError(f"limit {name}: {_short(value)} is too large") from None


def _check_range(name: str, value: float | None, written: object) -> None:
    """Refuse a value that is out of range, quoting it as written."""
    limit = LIMITS[name]
    if value is not None and not limit.range.least <= value <= limit.range.most:
        span = f"from {describe(name, limit.range.least)} to {describe(name, limit.range.most)}"
        none = ", or off for no limit" if limit.optional else ""
        raise ConfigurationError(f"{name} is {_as_written(name, written)}; it must be {span}{none}")


def _as_written(name: str, value: object) -> str:
    return _short(value) if isinstance(value, str) else describe(name, number(name, value))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _limit(name: str) -> _Limit:
    found = LIMITS.get(name)
    if found is None:
        raise ConfigurationError(f"there is no limit {name!r}; the limits are {', '.join(LIMITS)}")
    return found
