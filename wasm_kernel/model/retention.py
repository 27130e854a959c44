"""Which sessions to delete and which to keep: a pure decision over facts about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import datetime

from wasm_kernel.errors import ConfigurationError


@dataclass(frozen=True)
class SessionFacts:
    """What a plan needs to know about a session.

    Attributes:
        session_id: Its name.
        updated_at: When it was last used; None if unknown.
        size_bytes: What deleting it frees.
        live: Whether it is in use now.
        problem: Why it cannot be judged (``no_metadata``, ``corrupted_metadata``, ``foreign_metadata``, ``symlink``,
            ...), or empty.
        stamp: Changes whenever the session is used; empty without metadata.
        stored_bytes: What its copy in an object store takes.
        stored_stamp: Changes whenever it is pushed there; empty if it is not there.
        only_stored: Whether it is there and not on this machine: deleting it frees nothing of this disk.
    """

    session_id: str
    updated_at: datetime | None
    size_bytes: int = 0
    live: bool = False
    problem: str = ""
    stamp: str = ""
    stored_bytes: int = 0
    stored_stamp: str = ""
    only_stored: bool = False

    @property
    def counted_bytes(self) -> int:
        """What it takes of ``max_total_bytes``: one that is here and in the store counts once."""
        return self.stored_bytes if self.only_stored else self.size_bytes


@dataclass(frozen=True)
class RetentionPolicy:
    """What to keep. A session is deleted when it exceeds any of the bounds, the longest unused first.

    Attributes:
        max_age_hours: Delete what has not been used for this long. None: never delete by age.
        max_sessions: Keep at most this many.
        max_total_bytes: Keep at most this much in all.
        min_free_bytes: Leave at least this much of the disk free.
        keep: Ids that are never deleted.
        min_free_space_gb: Another way to give ``min_free_bytes``, in units of 1024³ bytes.
    """

    max_age_hours: float | None = None
    max_sessions: int | None = None
    max_total_bytes: int | None = None
    min_free_bytes: int | None = None
    keep: frozenset[str] = field(default_factory=frozenset)
    min_free_space_gb: InitVar[float | None] = None

    @property
    def is_bounded(self) -> bool:
        """Whether any bound is given. Without one no session is deleted."""
        bounds = (self.max_age_hours, self.max_sessions, self.max_total_bytes, self.min_free_bytes)
        return any(bound is not None for bound in bounds)

    def __post_init__(self, min_free_space_gb: float | None) -> None:
        object.__setattr__(self, "keep", frozenset(self.keep))
        for name in ("max_age_hours", "max_sessions", "max_total_bytes", "min_free_bytes"):
            _check_bound(name, getattr(self, name))
        if min_free_space_gb is None:
            return
        _check_bound("min_free_space_gb", min_free_space_gb)
        if self.min_free_bytes is not None:
            raise ConfigurationError("min_free_bytes and min_free_space_gb mean the same; give one of them")
        object.__setattr__(self, "min_free_bytes", min_free_space_gb * (1 << 30))


def _check_bound(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
        raise ConfigurationError(f"{name} is {value!r}; it must be a number, 0 or more, or None for no bound")


@dataclass(frozen=True)
class Decision:
    """One session, and why it is deleted or kept.

    Attributes:
        session_id: Its name.
        reason: The bound it exceeds, or what keeps it.
        age_hours: How long it has not been used.
        size_bytes: Size of its files.
        stamp: Its stamp when this was decided.
        snapshot_bytes: What its snapshots added to the store, if that was counted.
        stored_bytes, stored_stamp, only_stored: As in `SessionFacts`.
    """

    session_id: str
    reason: str
    age_hours: float = 0.0
    size_bytes: int = 0
    stamp: str = ""
    snapshot_bytes: int = 0
    stored_bytes: int = 0
    stored_stamp: str = ""
    only_stored: bool = False

    @classmethod
    def to_remove(cls, facts: SessionFacts, reason: str, age_hours: float) -> Decision:
        """Delete it, here and in the store, if it is then what it is now."""
        stored = facts.stored_bytes, facts.stored_stamp, facts.only_stored
        return cls(facts.session_id, reason, age_hours, facts.size_bytes, facts.stamp, 0, *stored)


@dataclass(frozen=True)
class Plan:
    """The decision for every session.

    Attributes:
        remove: Sessions to delete, the longest unused first.
        keep: Sessions to keep, with a reason where a bound would have deleted them.
        skip: Sessions that cannot be judged; they are always kept.
    """

    remove: list[Decision] = field(default_factory=list)
    keep: list[Decision] = field(default_factory=list)
    skip: list[Decision] = field(default_factory=list)

    @property
    def reclaimed_bytes(self) -> int:
        """What the plan would free: files, and snapshots if they were counted."""
        return sum(d.size_bytes + d.snapshot_bytes for d in self.remove)


def plan(
    facts: Iterable[SessionFacts],
    policy: RetentionPolicy,
    now: datetime,
    *,
    free_bytes: int | None = None,
    max_deletions: int | None = None,
) -> Plan:
    """Decide for each session. Live and protected ones are kept but count towards the bounds."""
    result = Plan()
    judged: list[tuple[float, SessionFacts]] = []
    for item in facts:
        if item.problem or item.updated_at is None:
            result.skip.append(Decision(item.session_id, item.problem or "no_metadata", 0.0, item.size_bytes))
        else:
            judged.append(((now - item.updated_at).total_seconds() / 3600, item))
    judged.sort(key=lambda pair: (-pair[0], pair[1].session_id))
    count = len(judged)
    total = sum(item.counted_bytes for _, item in judged)
    free = free_bytes if free_bytes is not None else 0
    limit = len(judged) if max_deletions is None else max_deletions
    for age, item in judged:
        frees_disk = free_bytes is not None and not item.only_stored
        reason = _reason(policy, age, count, total, free if frees_disk else None)
        decision = Decision.to_remove(item, reason, age)
        if item.live or item.session_id in policy.keep:
            why = "live" if item.live else "kept by the policy"
            result.keep.append(Decision(item.session_id, why if reason else "", age, item.size_bytes))
        elif not reason:
            result.keep.append(decision)
        elif len(result.remove) >= limit:
            result.keep.append(Decision(item.session_id, "max_deletions", age, item.size_bytes))
        else:
            result.remove.append(decision)
            count, total, free = count - 1, total - item.counted_bytes, free + item.size_bytes
    return result


def plan_asked_for(
    decided: Plan, facts: Iterable[SessionFacts], stamps: Mapping[str, str], keep: Collection[str], now: datetime
) -> Plan:
    """Add individually chosen sessions, each with the stamp it was listed with, to a plan.

    One that is in use, protected, or has changed since is kept (``live``, ``kept by the policy``, ``changed``), and
    one that cannot be judged is skipped, as always.
    """
    going = {d.session_id for d in decided.remove}
    wanted = {name: stamp for name, stamp in stamps.items() if name not in going}
    known = {item.session_id: item for item in facts}
    result = Plan(
        list(decided.remove),
        [d for d in decided.keep if d.session_id not in wanted],
        [d for d in decided.skip if d.session_id not in wanted],
    )
    for name, stamp in wanted.items():
        item = known.get(name, SessionFacts(name, None))
        age = (now - item.updated_at).total_seconds() / 3600 if item.updated_at is not None else 0.0
        reason = "live" if item.live else "kept by the policy" if name in keep else ""
        if item.problem:
            result.skip.append(Decision(name, item.problem, 0.0, item.size_bytes))
        elif reason or name not in known or item.stamp != stamp:
            result.keep.append(Decision(name, reason or "changed", age, item.size_bytes))
        else:
            result.remove.append(Decision.to_remove(item, "asked for", age))
    return result


def _reason(policy: RetentionPolicy, age: float, count: int, total: int, free: int | None) -> str:
    if policy.max_age_hours is not None and age >= policy.max_age_hours:
        return "max_age_hours"
    if policy.max_sessions is not None and count > policy.max_sessions:
        return "max_sessions"
    if policy.max_total_bytes is not None and total > policy.max_total_bytes:
        return "max_total_bytes"
    if policy.min_free_bytes is not None and free is not None and free < policy.min_free_bytes:
        return "min_free_bytes"
    return ""
