"""What an administrator rules for everybody on a machine: a flat TOML file, read into one frozen value.

Every value can only take away, so of two files the stricter value counts. A line that cannot be understood makes the
whole file unusable: a misspelt maximum must not be none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.model import limits
from wasm_kernel.model.grants import GRANTS
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.units import parse_size


@dataclass(frozen=True)
class Rules:
    """What users may have at most, and what they may do.

    Attributes:
        maxima: The highest value of each limit, by the names of `limits.LIMITS`.
        sessions: How many sessions a user may have.
        snapshots: How many snapshots a user may have in all, checkpoints among them.
        snapshot_bytes: How much space they may take on the disk.
        checkpoint_bytes: How much space the checkpoints of one session may take, about.
        pip: Whether packages may be installed.
        trust: Whether outputs may be shown as they are, by a grant or by the configuration.
        grants: The only grants that may be given to notebooks, by the names of `grants.GRANTS`; None: all of them.
        user_configuration: Whether configuration files of the user's own are read.
        image: The key of the only image that may be used or built; empty: any.
        image_cache: The folder of the image that all users share; empty: each has a cache.
        workspace_root: Where every user's sessions are; empty: where the user wants.
        sources: The file that each of these comes from.
    """

    maxima: Mapping[str, float] = field(default_factory=dict)
    sessions: int | None = None
    snapshots: int | None = None
    snapshot_bytes: int | None = None
    checkpoint_bytes: int | None = None
    pip: bool = True
    trust: bool = True
    grants: frozenset[str] | None = None
    user_configuration: bool = True
    image: str = ""
    image_cache: str = ""
    workspace_root: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def bounds_snapshots(self) -> bool:
        """Whether snapshots are bounded at all."""
        return self.snapshots is not None or self.snapshot_bytes is not None

    def forbids(self, grant: str) -> str:
        """The file that does not let notebooks have a grant; empty when they may."""
        if grant == "trust" and not self.trust:
            return self.sources["trust"]
        return self.sources["grants"] if self.grants is not None and grant not in self.grants else ""

    def given(self) -> dict[str, Any]:
        """Every rule that is set, by the name it has in the file."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("maxima", "sources")}
        return {name: value for name, value in {**self.maxima, **named}.items() if name in self.sources}


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"it is {value!r}; it must be a whole number from 1 on")
    return value


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ConfigurationError(f'it is {value!r}; write a size, such as "20G"')
    return parse_size(str(value))


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"it is {value!r}; write true or false, without quotes")
    return value


def _grants(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name in GRANTS for name in value):
        raise ConfigurationError(f"it is {value!r}; write a list of those that may be given: {', '.join(GRANTS)}")
    return frozenset(value)


def _key(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{8,64}", value):
        raise ConfigurationError(f"it is {value!r}; `wasm-kernel image info` shows the key to write here")
    return value


def _folder(value: Any) -> str:
    path = PurePosixPath(value) if isinstance(value, str) else PurePosixPath()
    if not (path.is_absolute() or path.parts[:1] == ("~",)) or ".." in path.parts:
        raise ConfigurationError(f'it is {value!r}; write a path from the root on, or from the user\'s home ("~/…")')
    return str(path)


def _absolute_folder(value: Any) -> str:
    found = _folder(value)
    if found.startswith("~"):
        raise ConfigurationError(f"it is {value!r}; all users share it, so write a path from the root on")
    return found


_RULES: dict[str, Callable[[Any], Any]] = {
    "sessions": _count,
    "snapshots": _count,
    "snapshot_bytes": _size,
    "checkpoint_bytes": _size,
    "pip": _yes_or_no,
    "trust": _yes_or_no,
    "grants": _grants,
    "user_configuration": _yes_or_no,
    "image": _key,
    "image_cache": _absolute_folder,
    "workspace_root": _folder,
}
NAMES = (*limits.LIMITS, *_RULES)


@lru_cache(maxsize=8)
def parse(text: str, source: str) -> Rules:
    """One file's rules. `NotAllowed` names the file and the line that is wrong."""
    import tomllib  # only where there is such a file

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        end = f"at line {text.count(chr(10)) + 1}, its end"
        raise unusable(source, str(e).replace("at end of document", end)) from None
    maxima: dict[str, float] = {}
    rules: dict[str, Any] = {}
    for name, value in found.items():
        try:
            if name in limits.LIMITS:
                maxima[name] = _maximum(name, value)
            elif name in _RULES:
                rules[name] = _RULES[name](value)
            else:
                raise ConfigurationError(f"there is no such rule; there are {', '.join(NAMES)}")
        except ConfigurationError as e:
            problem = str(e).removeprefix(f"limit {name}: ")
            raise unusable(source, f"{name}: {problem}", _line_of(text, name)) from None
    return Rules(maxima, sources=dict.fromkeys(found, source), **rules)


def _maximum(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ConfigurationError(f"it is {value!r}, which is no maximum")
    number = limits.number(name, value)
    if number is None:
        raise ConfigurationError(f"it is {value!r}; for no maximum leave the line out")
    limits.bounded(ExecutionPolicy(), {name: number})  # no policy could be as low as that
    return number


def _line_of(text: str, name: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""", line):
            return number
    return 1


def unusable(source: str, problem: str, line: int | None = None) -> NotAllowed:
    """Why nothing may run."""
    where = f"{source}, line {line}" if line is not None else source
    return NotAllowed(f"{where}: {problem}. Nothing runs here until the administrator has mended that file")


def combined(found: Iterable[Rules]) -> Rules:
    """Of each rule the strictest."""
    result = Rules()
    for rules in found:
        result = _stricter(result, rules)
    bounds = [name for name in ("sessions", "snapshots", "snapshot_bytes") if getattr(result, name) is not None]
    if bounds and not result.workspace_root:
        raise unusable(
            result.sources[bounds[0]],
            f"{bounds[0]} needs workspace_root beside it, such as workspace_root = "
            '"~/.local/share/wasm-kernel/workspace"; else a user could begin anew in another folder',
        )
    return result


def _stricter(one: Rules, other: Rules) -> Rules:
    sources = dict(one.sources)
    values: dict[str, Any] = {}
    maxima = dict(one.maxima)
    for name, value in other.given().items():
        before = maxima.get(name) if name in limits.LIMITS else getattr(one, name)
        if name in one.sources and isinstance(value, str) and before != value:
            raise unusable(
                other.sources[name], f"{name} is {value!r}, but {one.sources[name]} says {before!r}; one must go"
            )
        if isinstance(value, frozenset) and isinstance(before, frozenset):
            value &= before
        if name not in one.sources or value < before:
            sources[name] = other.sources[name]
            if name in limits.LIMITS:
                maxima[name] = value
            else:
                values[name] = value
    kept = {f.name: getattr(one, f.name) for f in fields(one)}
    return Rules(**{**kept, **values, "maxima": maxima, "sources": sources})
