"""What is kept for whom: settings as an administrator writes them, merged for each user into one `UserRules` value.

A policy is a dictionary; what is not in it is left to a less specific one:

    max_age           delete sessions unused for this long ("30d")
    max_sessions      keep at most this many sessions per user
    max_total         keep at most this much space of sessions per user ("10G")
    min_free          leave this much free on the user's disk ("5G")
    keep              ids of sessions that are never deleted
    snapshot_max_age, snapshot_max_per_session, snapshot_max_total     the same for snapshots
    archive           write sessions to the archive folder before they are deleted (True or False)
    warn_before       warn users this long before a session is deleted ("3d")

None removes a bound that a less specific policy sets. The user's own policy wins over those of groups, and these win
over the default, setting by setting. If several groups of a user have the same setting, the one that keeps more wins:
the longer time, the larger number, no bound over any bound, the smaller ``min_free``, archiving over not archiving; so
the order of groups does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.census import HubUser
from wasm_kernel.model.records import is_session_id
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.model.snapshot_retention import SnapshotRetention
from wasm_kernel.model.units import parse_duration, parse_size


@dataclass(frozen=True)
class UserRules:
    """The rules for one user.

    Attributes:
        retention: Which sessions stay.
        snapshots: Which snapshots stay.
        archive: Whether sessions are archived before they are deleted.
        warn_before: Seconds between warning the user and deleting; 0: nobody is warned.
        source: Where they come from, for people: ``default``, ``group students``, ``user ann``, joined by ``+``.
    """

    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    snapshots: SnapshotRetention = field(default_factory=SnapshotRetention)
    archive: bool = False
    warn_before: float = 0.0
    source: str = "default"

    @property
    def bounds_snapshots(self) -> bool:
        """Whether these could ever delete a snapshot."""
        s = self.snapshots
        return not (s.max_age_hours is s.max_per_session is s.max_total_bytes is None)


Settings = Mapping[str, Any]


def _age(value: Any) -> float:
    return (float(value) if isinstance(value, int | float) else parse_duration(value)) / 3600


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else parse_duration(value)


def _size(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else parse_size(value)


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():  # as on a command line
        return int(value)
    if not isinstance(value, int):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError
    return value


def _ids(value: Any) -> frozenset[str]:
    if isinstance(value, str) or not all(isinstance(name, str) and is_session_id(name) for name in value):
        raise TypeError
    return frozenset(value)


_KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "max_age": (_age, 'a duration, such as "30d"'),
    "max_sessions": (_count, "a number"),
    "max_total": (_size, 'a size, such as "10G"'),
    "min_free": (_size, 'a size, such as "5G"'),
    "keep": (_ids, "a list of session ids"),
    "snapshot_max_age": (_age, 'a duration, such as "14d"'),
    "snapshot_max_per_session": (_count, "a number"),
    "snapshot_max_total": (_size, 'a size, such as "5G"'),
    "archive": (_flag, "True or False"),
    "warn_before": (_seconds, 'a duration, such as "3d"'),
}


def checked(settings: Settings, where: str) -> dict[str, Any]:
    """A policy's values as numbers; `ConfigurationError` names the setting that is wrong, and what it should be."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"{where} is {settings!r}; it must be a dictionary of settings")
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in _KINDS:
            raise ConfigurationError(f"{where} has {name!r}; the settings of a policy are {', '.join(_KINDS)}")
        parse, what = _KINDS[name]
        try:
            if isinstance(value, bool) and parse is not _flag:
                raise TypeError
            result[name] = None if value is None else parse(value)
        except (ConfigurationError, TypeError, ValueError, OverflowError):
            raise ConfigurationError(f"{where}[{name!r}] is {value!r}; it must be {what}, or None") from None
        if isinstance(result[name], int | float) and not 0 <= result[name] < float("inf"):
            raise ConfigurationError(f"{where}[{name!r}] is {value!r}; it must be finite and not negative")
    return result


class Policies:
    """All policies an administrator set, checked once."""

    def __init__(
        self,
        default: Settings | None = None,
        groups: Mapping[str, Settings] | None = None,
        users: Mapping[str, Settings] | None = None,
    ) -> None:
        self._default = checked(default or {}, "policy")
        self._groups = {name: checked(p, f"group_policies[{name!r}]") for name, p in (groups or {}).items()}
        self._users = {name: checked(p, f"user_policies[{name!r}]") for name, p in (users or {}).items()}

    @property
    def archives(self) -> bool:
        """Whether any of them asks for archives."""
        return any(policy.get("archive") for policy in (self._default, *self._groups.values(), *self._users.values()))

    @property
    def needs_groups(self) -> bool:
        """Whether it matters which groups users are in."""
        return bool(self._groups)

    def rules(self, user: HubUser) -> UserRules:
        """The rules for a user."""
        values, sources = dict(self._default), ["default"]
        groups = [name for name in sorted(set(user.groups)) if name in self._groups]
        if groups:
            values |= _most_generous(self._groups[name] for name in groups)
            sources += [f"group {name}" for name in groups]
        if user.name in self._users:
            values |= self._users[user.name]
            sources.append(f"user {user.name}")
        return _rules(values, " + ".join(sources))


def rules_from(settings: Settings, source: str = "given") -> UserRules:
    """The rules of one policy alone, to try it out."""
    return _rules(checked(settings, "policy"), source)


def _most_generous(policies: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """For each setting the value that keeps more."""
    result: dict[str, Any] = {}
    for policy in policies:
        for name, value in policy.items():
            if name not in result:
                result[name] = value
            elif name == "keep":
                result[name] = (result[name] or frozenset()) | (value or frozenset())
            elif name in ("archive", "warn_before"):  # None is the same as not asked for
                result[name] = max(result[name] or 0, value or 0)
            elif result[name] is None or value is None:
                result[name] = None
            else:
                result[name] = (min if name == "min_free" else max)(result[name], value)
    return result


def _rules(values: dict[str, Any], source: str) -> UserRules:
    return UserRules(
        RetentionPolicy(
            max_age_hours=values.get("max_age"),
            max_sessions=values.get("max_sessions"),
            max_total_bytes=values.get("max_total"),
            min_free_bytes=values.get("min_free"),
            keep=values.get("keep") or frozenset(),
        ),
        SnapshotRetention(
            max_age_hours=values.get("snapshot_max_age"),
            max_per_session=values.get("snapshot_max_per_session"),
            max_total_bytes=values.get("snapshot_max_total"),
        ),
        archive=bool(values.get("archive")),
        warn_before=float(values.get("warn_before") or 0.0),
        source=source,
    )
