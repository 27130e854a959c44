"""Decide what to do with a workspace, without changing anything."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.host.disk import locks, tombstones
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.host.store import memory_files
from wasm_kernel.model.records import BadRecord, is_uuid, parse_time
from wasm_kernel.model.retention import Decision, Plan, RetentionPolicy, plan, plan_asked_for
from wasm_kernel.model.snapshot_retention import SnapshotRetention, plan_snapshots
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions.housekeeping.with_store import InStore, look, with_deleted_here, with_names
from wasm_kernel.sessions.inventory import Survey, survey
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import added_bytes, has_store, list_snapshots


@dataclass(frozen=True)
class HousePlan:
    """What to do with a workspace: decided by `plan_housekeeping`, or elsewhere.

    Attributes:
        sessions: Which sessions to delete, which to keep although they exceed a bound, and which cannot be judged.
        forget: Sessions deleted earlier, whose records and snapshots are to be deleted.
        snapshots: Snapshots to delete, of sessions that are kept.
        archive_to: The folder to write each session to before it is deleted; None: do not.
        snapshot: Whether each session leaves a last snapshot. Then its other snapshots stay, too.
        found: What was there when this was decided.
        store: The object store that sessions are deleted from, too, and what was in it; None: none.
    """

    sessions: Plan = field(default_factory=Plan)
    forget: list[Decision] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    archive_to: Path | None = None
    snapshot: bool = False
    found: Survey = field(default_factory=Survey)
    store: InStore | None = None

    def archive_of(self, session_id: str) -> Path | None:
        """The file that a session is written to before it is deleted."""
        return self.archive_to / f"{session_id}.tar.zst" if self.archive_to is not None else None

    @property
    def reclaimed_bytes(self) -> int:
        """Size of all files and snapshots to be deleted."""
        return sum(d.size_bytes for d in self.sessions.remove) + self.snapshot_bytes

    @property
    def stored_bytes(self) -> int:
        """What the copies of sessions to be deleted take in the object store."""
        return sum(d.stored_bytes for d in self.sessions.remove if d.stored_stamp)

    @property
    def snapshot_bytes(self) -> int:
        """What the snapshots to be deleted had added to the store."""
        going = sum(d.snapshot_bytes for d in (*self.sessions.remove, *self.forget))
        return going + sum(s.stored_bytes for s in self.snapshots)


def plan_housekeeping(
    root: Path,
    policy: RetentionPolicy,
    *,
    snapshots: SnapshotRetention | None = None,
    stamps: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
    max_deletions: int | None = None,
    archive_to: Path | str | None = None,
    snapshot: bool = False,
    store: Objects | None = None,
) -> HousePlan:
    """What housekeeping by a policy would do now.

    Args:
        root: The workspace root.
        policy: Which sessions to keep. Records of deleted ones go when they are older than its ``max_age_hours``.
        snapshots: Which snapshots of kept sessions to keep; None: all.
        stamps: Sessions to delete whatever the policy says, each with the stamp it was listed with.
        only: Restrict deletions to these sessions.
        max_deletions: Delete at most this many by the policy.
        archive_to: Where to write each session before it is deleted.
        snapshot: Whether each deleted session leaves a last snapshot.
        store: The object store of these sessions; None: only this machine's disk is looked at.
    """
    found, in_store = survey(root, named=bool(stamps)), None
    if store is not None:
        found, in_store = look(store, root, found)
    decided = plan_prune(root, policy, max_deletions=max_deletions, found=found)
    if stamps:
        decided = plan_asked_for(decided, found.sessions, stamps, policy.keep, datetime.now(UTC))
    if in_store is not None:
        decided = with_deleted_here(decided, in_store, policy.keep)
    forget = _long_deleted(root, policy)
    if only is not None:
        chosen = set(only)
        decided = replace(decided, remove=[d for d in decided.remove if d.session_id in chosen])
        forget = [d for d in forget if d.session_id in chosen]
    going = {d.session_id for d in (*decided.remove, *forget)}
    added = added_bytes(root, {d.session_id for d in forget} if snapshot else going)
    decided = replace(decided, remove=[_with_snapshots(d, added) for d in decided.remove])
    if in_store is not None:
        found = with_names(found, in_store, decided.remove)
    return HousePlan(
        decided,
        [_with_snapshots(d, added) for d in forget],
        _doomed(root, snapshots, but=going, going_bytes=sum(added.values())) if snapshots is not None else [],
        Path(archive_to).absolute() if archive_to is not None else None,
        snapshot,
        found,
        in_store,
    )


def plan_removal(
    root: Path,
    sessions: Plan,
    archive_to: Path | str | None = None,
    *,
    snapshots: SnapshotRetention | None = None,
    snapshot: bool = False,
    store: InStore | None = None,
) -> HousePlan:
    """A plan for what was decided about sessions elsewhere, and nothing else. Does not look into any session.

    ``snapshots``: which snapshots of kept sessions to keep; None: all. ``snapshot``: whether each leaves a last one.
    """
    going = {d.session_id for d in sessions.remove}
    added = added_bytes(root, set() if snapshot else going)
    return HousePlan(
        replace(sessions, remove=[_with_snapshots(d, added) for d in sessions.remove]),
        snapshots=_doomed(root, snapshots, but=going, going_bytes=sum(added.values())) if snapshots is not None else [],
        archive_to=Path(archive_to).absolute() if archive_to is not None else None,
        snapshot=snapshot,
        store=store,
    )


def plan_thinning(root: Path, policy: SnapshotRetention, session_id: str | None = None) -> HousePlan:
    """What a prune of snapshots alone would do now, of all sessions or of one. Does not look into any session."""
    return HousePlan(snapshots=_doomed(root, policy, session_id))


def plan_prune(
    root: Path, policy: RetentionPolicy, *, max_deletions: int | None = None, found: Survey | None = None
) -> Plan:
    """Which sessions below a root a policy would delete now; never named ones."""
    free = shutil.disk_usage(root).free if policy.min_free_bytes is not None else None
    facts = [f for f in (found or survey(root)).sessions if is_uuid(f.session_id)]
    return plan(facts, policy, datetime.now(UTC), free_bytes=free, max_deletions=max_deletions)


def _long_deleted(root: Path, policy: RetentionPolicy) -> list[Decision]:
    """Sessions deleted longer ago than the age limit."""
    if policy.max_age_hours is None:
        return []
    now = datetime.now(UTC)
    found = []
    for session_id in tombstones.by_age(root):
        buried = tombstones.read(root, session_id)
        if buried is None or session_id in policy.keep:
            continue
        with contextlib.suppress(BadRecord):
            age = (now - parse_time(buried.get("deleted_at"))).total_seconds() / 3600
            if age >= policy.max_age_hours:
                found.append(Decision(session_id, "max_age_hours", age))
    return found


def _with_snapshots(decision: Decision, added: Mapping[str, int]) -> Decision:
    stored = added.get(decision.session_id, 0)
    return replace(decision, snapshot_bytes=stored) if stored != decision.snapshot_bytes else decision


def _doomed(
    root: Path,
    policy: SnapshotRetention,
    session_id: str | None = None,
    *,
    but: Collection[str] = (),
    going_bytes: int = 0,
) -> list[Snapshot]:
    """Snapshots to delete, ``but`` not those of sessions that are deleted themselves, or of live ones."""
    if not has_store(root):
        return []
    spared = locks.live_sessions(root).union(but)
    judged = [s for s in list_snapshots(root, session_id) if s.session_id not in spared]
    if session_id is None:
        with contextlib.closing(snapshot_store(root)) as store:
            total = store.stored_bytes() - memory_files.total_bytes(store.folder) - going_bytes
    else:
        total = sum(s.stored_bytes for s in judged)
    return plan_snapshots(judged, policy, datetime.now(UTC), total)
