"""Which sessions go and which stay: a pure decision over what is known of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from wasm_kernel.errors import ConfigurationError


@dataclass(frozen=True)
class SessionFacts:
    """What a plan needs to know of a session.

    Attributes:
        session_id: Its name.
        updated_at: When it was last used; None when nothing says so.
        size_bytes: What deleting it frees.
        live: Whether somebody uses it now.
        problem: Why it cannot be judged (``no_metadata``, ``corrupted_metadata``, ``symlink``, ...), or empty.
        stamp: Changes whenever the session is used; empty when nothing would show that.
    """

    session_id: str
    updated_at: datetime | None
    size_bytes: int = 0
    live: bool = False
    problem: str = ""
    stamp: str = ""


@dataclass(frozen=True)
class RetentionPolicy:
    """What to keep. A session goes when any of the bounds asks for it, the longest unused first.

    Attributes:
        max_age_hours: Not used for this long or longer: it goes. None: age alone removes nothing.
        max_sessions: At most so many stay.
        max_total_bytes: At most so much space in all stays.
        min_free_bytes: At least so much space should be free on the disk afterwards.
        keep: Ids that never go.
    """

    max_age_hours: float | None = None
    max_sessions: int | None = None
    max_total_bytes: int | None = None
    min_free_bytes: int | None = None
    keep: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_bounded(self) -> bool:
        """Whether any bound is given. Without one no session ever goes."""
        bounds = (self.max_age_hours, self.max_sessions, self.max_total_bytes, self.min_free_bytes)
        return any(bound is not None for bound in bounds)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", frozenset(self.keep))
        for name in ("max_age_hours", "max_sessions", "max_total_bytes", "min_free_bytes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
                raise ConfigurationError(f"{name} is {value!r}; it must be a number from 0 on, or None for no bound")


@dataclass(frozen=True)
class Decision:
    """One session, and why it goes or stays.

    Attributes:
        session_id: Its name.
        reason: The bound that asks for it, or what keeps it.
        age_hours: How long it was not used.
        size_bytes: Its files.
        stamp: As it was when this was decided.
        snapshot_bytes: What its snapshots added to the store, where somebody counted them.
    """

    session_id: str
    reason: str
    age_hours: float = 0.0
    size_bytes: int = 0
    stamp: str = ""
    snapshot_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """What would be done.

    Attributes:
        remove: Sessions that go, the longest unused first.
        keep: Sessions that stay, with the reason where it is not simply that no bound asks for more.
        skip: Sessions that cannot be judged; they always stay.
    """

    remove: list[Decision] = field(default_factory=list)
    keep: list[Decision] = field(default_factory=list)
    skip: list[Decision] = field(default_factory=list)

    @property
    def reclaimed_bytes(self) -> int:
        """What the plan would free: files, and snapshots as far as they were counted."""
        return sum(d.size_bytes + d.snapshot_bytes for d in self.remove)


def plan(
    facts: Iterable[SessionFacts],
    policy: RetentionPolicy,
    now: datetime,
    *,
    free_bytes: int | None = None,
    max_deletions: int | None = None,
) -> Plan:
    """Decide for each session. Live and kept ones stay but count towards the bounds."""
    result = Plan()
    judged: list[tuple[float, SessionFacts]] = []
    for item in facts:
        if item.problem or item.updated_at is None:
            result.skip.append(Decision(item.session_id, item.problem or "no_metadata", 0.0, item.size_bytes))
        else:
            judged.append(((now - item.updated_at).total_seconds() / 3600, item))
    judged.sort(key=lambda pair: (-pair[0], pair[1].session_id))
    count = len(judged)
    total = sum(item.size_bytes for _, item in judged)
    free = free_bytes if free_bytes is not None else 0
    limit = len(judged) if max_deletions is None else max_deletions
    for age, item in judged:
        reason = _reason(policy, age, count, total, free if free_bytes is not None else None)
        decision = Decision(item.session_id, reason, age, item.size_bytes, item.stamp)
        if item.live or item.session_id in policy.keep:
            why = "live" if item.live else "kept by the policy"
            result.keep.append(Decision(item.session_id, why if reason else "", age, item.size_bytes))
        elif not reason:
            result.keep.append(decision)
        elif len(result.remove) >= limit:
            result.keep.append(Decision(item.session_id, "max_deletions", age, item.size_bytes))
        else:
            result.remove.append(decision)
            count, total, free = count - 1, total - item.size_bytes, free + item.size_bytes
    return result


def plan_asked_for(
    decided: Plan, facts: Iterable[SessionFacts], stamps: Mapping[str, str], keep: Collection[str], now: datetime
) -> Plan:
    """Add sessions that somebody chose, each by the stamp that it was seen with, to what bounds decided.

    One that is in use, kept, or not as it was seen stays (``live``, ``kept by the policy``, ``changed``), and one that
    cannot be judged is skipped, as always.
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
            result.remove.append(Decision(name, "asked for", age, item.size_bytes, stamp))
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
