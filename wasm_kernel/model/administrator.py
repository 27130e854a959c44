"""An administrator's rules for everybody on a machine: a flat TOML file, read into one frozen value.

A rule can only restrict, so of two files the stricter value counts. A line that cannot be understood makes the
whole file unusable: a misspelt maximum must not mean "no maximum".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.model import cluster_addresses, limits, network_grants
from wasm_kernel.model.cluster_addresses import ClusterAddress
from wasm_kernel.model.grants import GRANTS
from wasm_kernel.model.network_grants import HostGrant
from wasm_kernel.model.units import parse_size


@dataclass(frozen=True)
class Rules:
    """What users may have at most, and what they may do.

    Attributes:
        maxima: The highest value of each limit, by the names of `limits.LIMITS`.
        sessions: How many sessions a user may have.
        snapshots: How many snapshots a user may have in all, checkpoints among them.
        snapshot_bytes: How much space they may take on the disk.
        checkpoint_bytes: Roughly how much space the checkpoints of one session may take.
        pip: Whether packages may be installed.
        trust: Whether outputs may be shown unsealed, by a grant or by the configuration.
        grants: The only grants that may be given to notebooks, by the names of `grants.GRANTS`; None: all of them.
        data_folders: The only folders that notebooks may see at /data, and what is in them; None: their own.
        network: The only hosts that may be granted to guests; None: any. Empty: none at all.
        clusters: The only Dask clusters that sessions may use; None: any. Empty: none at all.
        user_configuration: Whether the user's own configuration files are read.
        image: The key of the only image that may be used or built; empty: any.
        image_cache: The folder of the image that all users share; empty: each has a cache.
        workspace_root: Where every user's sessions are; empty: wherever the user wants.
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
    data_folders: frozenset[str] | None = None
    network: frozenset[HostGrant] | None = None
    clusters: frozenset[ClusterAddress] | None = None
    user_configuration: bool = True
    image: str = ""
    image_cache: str = ""
    workspace_root: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def bounds_snapshots(self) -> bool:
        """Whether there is any limit on snapshots."""
        return self.snapshots is not None or self.snapshot_bytes is not None

    def forbids(self, grant: str) -> str:
        """The file that rules out a grant; empty if none does."""
        if grant == "trust" and not self.trust:
            return self.sources["trust"]
        return self.sources["grants"] if self.grants is not None and grant not in self.grants else ""

    def given(self) -> dict[str, Any]:
        """Every rule that is set, by the name it has in the file."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("maxima", "sources")}
        return {name: value for name, value in {**self.maxima, **named}.items() if name in self.sources}


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"it is {value!r}; it must be a whole number, 1 or more")
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
        raise ConfigurationError(f"it is {value!r}; write a list of the grants to allow, out of: {', '.join(GRANTS)}")
    return frozenset(value)


def _key(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{8,64}", value):
        raise ConfigurationError(f"it is {value!r}; `wasm-kernel image info` shows the key to write here")
    return value


def _folder(value: Any) -> str:
    path = PurePosixPath(value) if isinstance(value, str) else PurePosixPath()
    if not (path.is_absolute() or path.parts[:1] == ("~",)) or ".." in path.parts:
        raise ConfigurationError(f'it is {value!r}; write an absolute path, or one in the user\'s home ("~/…")')
    return str(path)


def _folders(value: Any) -> frozenset[str]:
    if not isinstance(value, list):
        raise ConfigurationError(f'it is {value!r}; write a list of folders, such as ["~", "/srv/data"]')
    return frozenset(map(_folder, value))


def _network(value: Any) -> frozenset[HostGrant]:
    if value is False:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(host, str) for host in value):
        raise ConfigurationError(f'it is {value!r}; write false, or a list of hosts, such as ["*.wikipedia.org"]')
    return network_grants.parse_all(value)


def _clusters(value: Any) -> frozenset[ClusterAddress]:
    if value is False:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(address, str) for address in value):
        raise ConfigurationError(
            f'it is {value!r}; write false, or a list such as ["tls://scheduler.example.org:8786"]'
        )
    return cluster_addresses.parse_rules(value)


def _absolute_folder(value: Any) -> str:
    found = _folder(value)
    if found.startswith("~"):
        raise ConfigurationError(f"it is {value!r}; all users share it, so write an absolute path")
    return found


_RULES: dict[str, Callable[[Any], Any]] = {
    "sessions": _count,
    "snapshots": _count,
    "snapshot_bytes": _size,
    "checkpoint_bytes": _size,
    "pip": _yes_or_no,
    "trust": _yes_or_no,
    "grants": _grants,
    "data_folders": _folders,
    "network": _network,
    "clusters": _clusters,
    "user_configuration": _yes_or_no,
    "image": _key,
    "image_cache": _absolute_folder,
    "workspace_root": _folder,
}
NAMES = (*limits.LIMITS, *_RULES)


@lru_cache(maxsize=8)
def parse(text: str, source: str) -> Rules:
    """One file's rules. `NotAllowed` names the file and the line that is wrong."""
    import tomllib  # needed only where there is such a file

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
                raise ConfigurationError(f"there is no such rule; the rules are {', '.join(NAMES)}")
        except ConfigurationError as e:
            problem = str(e).removeprefix(f"limit {name}: ").replace(f"{name} is ", "it is ", 1)
            raise unusable(source, f"{name}: {problem}", _line_of(text, name)) from None
    return Rules(maxima, sources=dict.fromkeys(found, source), **rules)


def _maximum(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ConfigurationError(f"it is {value!r}, which is not a maximum")
    number = limits.number(name, value)
    if number is None:
        raise ConfigurationError(f"it is {value!r}; for no maximum leave the line out")
    return limits.strictest({name: value})[name]


def _line_of(text: str, name: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""", line):
            return number
    return 1


def unusable(source: str, problem: str, line: int | None = None) -> NotAllowed:
    """Why nothing may run."""
    where = f"{source}, line {line}" if line is not None else source
    return NotAllowed(f"{where}: {problem}. Nothing runs here until the administrator has fixed that file")


def combined(found: Iterable[Rules]) -> Rules:
    """The strictest of each rule."""
    result = Rules()
    for rules in found:
        result = _stricter(result, rules)
    bounds = [name for name in ("sessions", "snapshots", "snapshot_bytes") if getattr(result, name) is not None]
    if bounds and not result.workspace_root:
        raise unusable(
            result.sources[bounds[0]],
            f"{bounds[0]} needs workspace_root as well, such as workspace_root = "
            '"~/.local/share/wasm-kernel/workspace"; otherwise a user could start over in another folder',
        )
    return result


# Rules that name more than one thing: of two, the narrower counts.
_NARROWER: Mapping[str, Callable[[Any, Any], Any]] = {
    "network": network_grants.common,
    "clusters": cluster_addresses.common,
}


def _stricter(one: Rules, other: Rules) -> Rules:
    sources = dict(one.sources)
    values: dict[str, Any] = {}
    maxima = dict(one.maxima)
    for name, value in other.given().items():
        before = maxima.get(name) if name in limits.LIMITS else getattr(one, name)
        if name in one.sources and isinstance(value, str) and before != value:
            raise unusable(
                other.sources[name], f"{name} is {value!r}, but {one.sources[name]} says {before!r}; remove one of them"
            )
        if isinstance(value, frozenset) and isinstance(before, frozenset):
            value = _NARROWER.get(name, frozenset.intersection)(value, before)
        if name not in one.sources or (value != before if isinstance(value, frozenset) else value < before):
            sources[name] = other.sources[name]
            if name in limits.LIMITS:
                maxima[name] = value
            else:
                values[name] = value
    kept = {f.name: getattr(one, f.name) for f in fields(one)}
    return Rules(**{**kept, **values, "maxima": maxima, "sources": sources})
