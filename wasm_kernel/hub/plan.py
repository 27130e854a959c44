"""What would be done, decided purely, and what was done: plans and results of all users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from wasm_kernel.hub.census import Census, HubUser, SessionRow, UserCensus
from wasm_kernel.hub.policies import UserRules
from wasm_kernel.model.records import is_uuid
from wasm_kernel.model.retention import Decision, SessionFacts, plan

URGENT = frozenset({"min_free_bytes"})  # a full disk waits for nobody


@dataclass(frozen=True)
class Waiting:
    """A session to delete once its user has been warned for long enough."""

    decision: Decision
    due: datetime


@dataclass(frozen=True)
class UserPlan:
    """What would be done with one user's sessions.

    Attributes:
        user: Whose.
        rules: By which rules.
        remove: Sessions to delete now, the longest unused first.
        waiting: Sessions to delete, but of which the user has not been warned for long enough.
        live: Ids of sessions that would be deleted but are in use.
        skip: Sessions that cannot be judged.
        snapshots: Ids of snapshots to delete, of sessions that stay.
        snapshot_bytes: About how much deleting these frees.
        left_alone: Why nothing at all is done for this user, or empty.
    """

    user: str
    rules: UserRules
    remove: tuple[Decision, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    live: tuple[str, ...] = ()
    skip: tuple[Decision, ...] = ()
    snapshots: tuple[str, ...] = ()
    snapshot_bytes: int = 0
    left_alone: str = ""

    def only(self, session_ids: Collection[str]) -> UserPlan:
        """The same with these sessions only, and no snapshots of those that stay."""
        remove = tuple(d for d in self.remove if d.session_id in session_ids)
        return replace(self, remove=remove, snapshots=(), snapshot_bytes=0)

    @property
    def reclaimed_bytes(self) -> int:
        """What it would free: files and snapshots."""
        return sum(d.size_bytes + d.snapshot_bytes for d in self.remove) + self.snapshot_bytes


@dataclass(frozen=True)
class HubPlan:
    """What would be done with everybody's sessions."""

    made_at: datetime
    users: dict[str, UserPlan] = field(default_factory=dict)

    @property
    def remove(self) -> list[tuple[str, Decision]]:
        """Every session that would be deleted, with its user."""
        return [(name, d) for name, user in self.users.items() for d in user.remove]

    @property
    def reclaimed_bytes(self) -> int:
        """What it would free."""
        return sum(user.reclaimed_bytes for user in self.users.values())


@dataclass(frozen=True)
class UserResult:
    """What was done with one user's sessions and snapshots.

    Attributes:
        user: Whose.
        deleted: Session to bytes; also those that were archived first.
        archived: Session to the file it is in now, in the user's folder of archives.
        live: Sessions that would have been deleted but are in use.
        changed: Sessions that were used, or deleted, after the decision; left alone.
        skipped: Sessions that cannot be judged.
        errors: Session (or snapshot, or ``user``) to what went wrong.
        snapshots: Snapshots deleted.
        snapshot_bytes: What deleting snapshots gave back, also those of deleted sessions.
        waiting: How many sessions wait until their user has been warned for long enough.
        left_alone: Why nothing at all was done for this user, or empty.
        saved: Session to the last snapshot that was taken before it was deleted.
        created: Snapshot to the session that was made from it.
    """

    user: str
    deleted: dict[str, int] = field(default_factory=dict)
    archived: dict[str, str] = field(default_factory=dict)
    live: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)
    snapshots: tuple[str, ...] = ()
    snapshot_bytes: int = 0
    waiting: int = 0
    left_alone: str = ""
    saved: dict[str, str] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)

    @property
    def freed_bytes(self) -> int:
        """Bytes of deleted sessions and snapshots."""
        return sum(self.deleted.values()) + self.snapshot_bytes

    def plus(self, other: UserResult) -> UserResult:
        """Both together."""
        return UserResult(
            self.user,
            self.deleted | other.deleted,
            self.archived | other.archived,
            (*self.live, *other.live),
            (*self.changed, *other.changed),
            (*self.skipped, *other.skipped),
            self.errors | other.errors,
            (*self.snapshots, *other.snapshots),
            self.snapshot_bytes + other.snapshot_bytes,
            self.waiting + other.waiting,
            self.left_alone or other.left_alone,
            self.saved | other.saved,
            self.created | other.created,
        )


@dataclass(frozen=True)
class Run:
    """What was done for everybody at one time, or would be (``dry_run``); ``actor``: a user's name, or ``schedule``."""

    run_id: str
    actor: str
    action: str
    started_at: datetime
    duration: float = 0.0
    dry_run: bool = False
    users: dict[str, UserResult] = field(default_factory=dict)

    @property
    def deleted(self) -> int:
        """How many sessions were deleted."""
        return sum(len(user.deleted) for user in self.users.values())

    @property
    def freed_bytes(self) -> int:
        """Bytes of deleted sessions and snapshots."""
        return sum(user.freed_bytes for user in self.users.values())

    @property
    def failures(self) -> int:
        """How many things went wrong."""
        return sum(len(user.errors) for user in self.users.values())


def kept(plan: UserPlan) -> UserResult:
    """What a plan leaves alone, and why."""
    return UserResult(
        plan.user,
        live=plan.live,
        skipped=tuple(d.session_id for d in plan.skip),
        waiting=len(plan.waiting),
        left_alone=plan.left_alone,
    )


def foreseen(plan: UserPlan) -> UserResult:
    """What carrying out a plan would do: a dry run."""
    return replace(
        kept(plan),
        deleted={d.session_id: d.size_bytes for d in plan.remove},
        snapshots=plan.snapshots,
        snapshot_bytes=sum(d.snapshot_bytes for d in plan.remove) + plan.snapshot_bytes,
    )


Due = Mapping[str, Mapping[str, datetime]]
"""User to session to when the user has been warned for long enough."""


def plan_all(
    census: Census, rules: Mapping[str, UserRules], due: Due, now: datetime, obstacle: Callable[[HubUser], str]
) -> HubPlan:
    """Decide for every user there are rules for; ``obstacle`` says for whom nothing may be done now, and why."""
    users = {}
    for name, of_user in rules.items():
        user = census.users[name]
        users[name] = plan_user(user, of_user, due.get(name, {}), now, obstacle(user.user))
    return HubPlan(now, users)


def plan_user(
    user: UserCensus, rules: UserRules, due: Mapping[str, datetime], now: datetime, obstacle: str = ""
) -> UserPlan:
    """Decide for one user; ``due`` says from when on the sessions the user was warned of may be deleted."""
    if user.problem or obstacle:
        return UserPlan(user.name, rules, left_alone=user.problem or obstacle)
    decided = plan(facts_of(user.sessions), rules.retention, now, free_bytes=user.free_bytes)
    remove, waiting = [], []
    for decision in decided.remove:
        earliest = due.get(decision.session_id, now + timedelta(seconds=rules.warn_before))
        if rules.warn_before and decision.reason not in URGENT and earliest > now:
            waiting.append(Waiting(decision, earliest))
        else:
            remove.append(decision)
    live = tuple(d.session_id for d in decided.keep if d.reason == "live")
    return UserPlan(user.name, rules, tuple(remove), tuple(waiting), live, tuple(decided.skip))


def facts_of(rows: Collection[SessionRow]) -> list[SessionFacts]:
    """What a plan needs to know. A session with a name of its own is never pruned, as everywhere."""
    return [
        SessionFacts(row.session_id, row.updated_at, row.size_bytes, row.live, row.problem, row.stamp)
        for row in rows
        if is_uuid(row.session_id)
    ]
