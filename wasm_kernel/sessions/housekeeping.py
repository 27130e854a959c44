"""Keeps a workspace within bounds: one recipe for `%prune`, the command line, the REST API and the hub's worker.

    survey → plan → expire tombstones → delete or archive → sweep leftovers → thin out snapshots → collect chunks

`plan_housekeeping` looks and decides, and changes nothing; a dry run stops there and is therefore exact. `carry_out`
does what was decided, and nothing else, however much later that is. Both are the only places that know these rules:

* Without a bound no session goes. What belongs to nothing goes all the same: leftovers of killed processes, and space
  that no snapshot needs.
* A session that is in use stays, and so do its snapshots, which are what undo goes back to. So does one that was used
  after it was decided that it goes: its stamp is another then.
* What is remembered of deleted sessions (tombstones), and their snapshots, goes when it is as old as sessions may get.
* What is reclaimed counts files and snapshots, before anything is deleted, so that a dry run says the same.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import SessionLocked
from wasm_kernel.host import ledger, removal, tombstones, trees
from wasm_kernel.model.prune_report import Action, PrunedSession, PruneReport
from wasm_kernel.model.records import BadRecord, is_uuid, parse_time
from wasm_kernel.model.retention import Decision, Plan, RetentionPolicy, plan, plan_asked_for
from wasm_kernel.model.snapshot_retention import SnapshotRetention, plan_snapshots
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.archive import sweep_parts, write_archive
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import added_bytes, give_space_back, has_store, list_snapshots, remove_at_rest
from wasm_kernel.sessions.survey import Survey, existing_root, stamp_of, survey

_BATCH = 200  # sessions set aside per hold of the gate
_PATIENCE = 10.0  # seconds that a collection waits for whoever takes a snapshot

OnProgress = Callable[[int, int], None]
"""Gets how many sessions are done, and how many there are."""


# ---- what would be done


@dataclass(frozen=True)
class HousePlan:
    """What is to be done with a workspace: decided by `plan_housekeeping`, or elsewhere.

    Attributes:
        sessions: Which sessions go, which stay although something asks for them, and which cannot be judged.
        forget: Sessions deleted earlier: what is remembered of them goes, and their snapshots.
        snapshots: Snapshots that go, of sessions that stay.
        archive_to: The folder that each session is written to before it goes; None: it is not.
        found: What there was when this was decided.
    """

    sessions: Plan = field(default_factory=Plan)
    forget: list[Decision] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    archive_to: Path | None = None
    found: Survey = field(default_factory=Survey)

    def archive_of(self, session_id: str) -> Path | None:
        """The file that a session is written to before it goes."""
        return self.archive_to / f"{session_id}.tar.zst" if self.archive_to is not None else None

    @property
    def reclaimed_bytes(self) -> int:
        """Files and snapshots of all that goes."""
        return sum(d.size_bytes for d in self.sessions.remove) + self.snapshot_bytes

    @property
    def snapshot_bytes(self) -> int:
        """What the snapshots that go had added to the store."""
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
) -> HousePlan:
    """What keeping house by a policy would do now.

    Args:
        root: The workspace root.
        policy: Which sessions stay. Deleted ones are forgotten when they are older than its ``max_age_hours``.
        snapshots: Which snapshots stay of the sessions that do; None: all.
        stamps: Sessions that go whatever the policy says, each with the stamp it was seen with.
        only: Of all sessions that would go, or be forgotten, only these.
        max_deletions: By the policy at most so many go.
        archive_to: Where each session is written before it goes.
    """
    found = survey(root, named=bool(stamps))
    decided = plan_prune(root, policy, max_deletions=max_deletions, found=found)
    if stamps:
        decided = plan_asked_for(decided, found.sessions, stamps, policy.keep, datetime.now(UTC))
    forget = _long_deleted(root, policy)
    if only is not None:
        chosen = set(only)
        decided = replace(decided, remove=[d for d in decided.remove if d.session_id in chosen])
        forget = [d for d in forget if d.session_id in chosen]
    going = {d.session_id for d in (*decided.remove, *forget)}
    added = added_bytes(root, going)
    decided = replace(decided, remove=[_with_snapshots(d, added) for d in decided.remove])
    return HousePlan(
        decided,
        [_with_snapshots(d, added) for d in forget],
        _doomed(root, snapshots, but=going, going_bytes=sum(added.values())) if snapshots is not None else [],
        Path(archive_to).absolute() if archive_to is not None else None,
        found,
    )


def plan_removal(root: Path, sessions: Plan, archive_to: Path | str | None = None) -> HousePlan:
    """What was decided about sessions elsewhere, and nothing else. Does not look into any session."""
    added = added_bytes(root, {d.session_id for d in sessions.remove})
    sessions = replace(sessions, remove=[_with_snapshots(d, added) for d in sessions.remove])
    return HousePlan(sessions, archive_to=Path(archive_to).absolute() if archive_to is not None else None)


def plan_prune(
    root: Path, policy: RetentionPolicy, *, max_deletions: int | None = None, found: Survey | None = None
) -> Plan:
    """Which sessions of this root a policy would remove now. Those with a name of their own it never does."""
    free = shutil.disk_usage(root).free if policy.min_free_bytes is not None else None
    facts = [f for f in (found or survey(root)).sessions if is_uuid(f.session_id)]
    return plan(facts, policy, datetime.now(UTC), free_bytes=free, max_deletions=max_deletions)


def _long_deleted(root: Path, policy: RetentionPolicy) -> list[Decision]:
    """Deleted sessions of which as much time has passed as sessions may be left unused."""
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
    return replace(decision, snapshot_bytes=added.get(decision.session_id, 0))


def _doomed(
    root: Path,
    policy: SnapshotRetention,
    session_id: str | None = None,
    *,
    but: Collection[str] = (),
    going_bytes: int = 0,
) -> list[Snapshot]:
    """Snapshots that go, ``but`` those of sessions that go themselves, and those of live ones."""
    if not has_store(root):
        return []
    spared = ledger.live_sessions(root).union(but)
    judged = [s for s in list_snapshots(root, session_id) if s.session_id not in spared]
    if session_id is None:
        with contextlib.closing(snapshot_store(root)) as store:
            total = store.stored_bytes() - going_bytes
    else:
        total = sum(s.stored_bytes for s in judged)
    return plan_snapshots(judged, policy, datetime.now(UTC), total)


# ---- what was done


@dataclass(frozen=True)
class PruneResult:
    """What a prune did, or would do.

    Attributes:
        deleted_sessions: Ids deleted, or, in a dry run, that would be; also those that were archived first.
        skipped_sessions: Ids that cannot be judged: without metadata, or with a damaged file. Never deleted.
        reclaimed_bytes: Bytes of all their files, and of their and other snapshots that went, counted before deleting.
        errors: Id to what went wrong; these were not deleted, or only in part.
        dry_run: Whether nothing was done.
        live_sessions: Ids that would have gone, but somebody uses them.
        archived: Id to the file that the session is in now.
        changed_sessions: Ids that were used, or went, after it was decided that they go.
        forgotten_sessions: Ids of sessions deleted earlier of which nothing is left now.
        deleted_snapshots: Ids of snapshots that went, of sessions that stay.
        snapshot_bytes_freed: What the disk got back of snapshots, measured; in a dry run what they had added.
    """

    deleted_sessions: list[str] = field(default_factory=list)
    skipped_sessions: list[str] = field(default_factory=list)
    reclaimed_bytes: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    dry_run: bool = False
    live_sessions: list[str] = field(default_factory=list)
    archived: dict[str, Path] = field(default_factory=dict)
    changed_sessions: list[str] = field(default_factory=list)
    forgotten_sessions: list[str] = field(default_factory=list)
    deleted_snapshots: list[str] = field(default_factory=list)
    snapshot_bytes_freed: int = 0

    def __str__(self) -> str:
        verb = "Would delete" if self.dry_run else "Deleted"
        parts = [f"{verb} {len(self.deleted_sessions)} sessions, {format_size(self.reclaimed_bytes)}"]
        parts.append(f"{len(self.skipped_sessions)} skipped")
        if self.live_sessions:
            parts.append(f"{len(self.live_sessions)} in use")
        if self.errors:
            parts.append(f"{len(self.errors)} errors")
        return "; ".join(parts) + (" (dry run)" if self.dry_run else "")


ArchiveResult = PruneResult
"""What `archive_sessions` returns: there is one report."""


def foreseen(planned: HousePlan) -> PruneResult:
    """What carrying out a plan would do: a dry run."""
    gone = [d.session_id for d in planned.sessions.remove]
    return PruneResult(
        gone,
        [d.session_id for d in planned.sessions.skip],
        planned.reclaimed_bytes,
        dry_run=True,
        live_sessions=_kept(planned, "live"),
        archived={name: path for name in gone if (path := planned.archive_of(name)) is not None},
        changed_sessions=_kept(planned, "changed"),
        forgotten_sessions=[d.session_id for d in planned.forget],
        deleted_snapshots=[s.snapshot_id for s in planned.snapshots],
        snapshot_bytes_freed=planned.snapshot_bytes,
    )


def _kept(planned: HousePlan, reason: str) -> list[str]:
    return [d.session_id for d in planned.sessions.keep if d.reason == reason]


def carry_out(
    root: Path,
    planned: HousePlan,
    logger: SandboxLogger,
    *,
    workers: int = 4,
    on_progress: OnProgress | None = None,
) -> PruneResult:
    """Do what a plan says, to nothing that is in use or was used since, and sweep what belongs to nothing."""
    for decision in planned.forget:
        tombstones.forget(root, decision.session_id)  # first: what is left of them then goes with the leftovers
    work = _Removal(root, planned, logger, on_progress)
    with removal.Bin(root) as place:
        with ledger.gate(root, exclusive=True):
            place.collect_leftovers()
        if planned.archive_to is not None:
            work.archive()
        else:
            work.delete(place, workers)
    removal.sweep_temporaries(planned.found.temporaries)
    thinned = _thin_out(root, planned.snapshots, work.live, logger)
    gone = [d for d in planned.sessions.remove if d.session_id in work.done]
    return PruneResult(
        [d.session_id for d in gone],
        [d.session_id for d in planned.sessions.skip],
        sum(d.size_bytes + d.snapshot_bytes for d in (*gone, *planned.forget)) + sum(s.stored_bytes for s in thinned),
        work.errors,
        False,
        work.live,
        work.archived,
        work.changed,
        [d.session_id for d in planned.forget],
        [s.snapshot_id for s in thinned],
        give_space_back(root, wait=_PATIENCE if gone or planned.forget or thinned else 0.0),
    )


class _Removal:
    """Takes away the sessions of a plan, and knows how it went with each."""

    def __init__(self, root: Path, planned: HousePlan, logger: SandboxLogger, on_progress: OnProgress | None) -> None:
        self._root, self._planned, self._logger, self._on_progress = root, planned, logger, on_progress
        self.done: set[str] = set()
        self.errors: dict[str, str] = {}
        self.live = _kept(planned, "live")
        self.changed = _kept(planned, "changed")
        self.archived: dict[str, Path] = {}

    def delete(self, place: removal.Bin, workers: int) -> None:
        """Move the sessions to a bin, a batch at a time, and delete what is there."""
        remove = self._planned.sessions.remove
        mounted = removal.mounted_in(self._root) if remove else set()

        def destroy(session_id: str) -> None:
            try:
                place.destroy(session_id)
            except OSError as e:
                self._failed(session_id, e)
                return
            self.done.add(session_id)
            self._logger.info("session.prune.deleted", session_id=session_id)
            self._progressed(len(self.done))

        with ThreadPoolExecutor(max(1, workers)) as pool:
            for start in range(0, len(remove), _BATCH):
                with ledger.gate(self._root, exclusive=True):
                    batch = remove[start : start + _BATCH]
                    taken = [d.session_id for d in batch if self._take(place, d, mounted)]
                list(pool.map(destroy, taken))

    def _take(self, place: removal.Bin, decision: Decision, mounted: set[str]) -> bool:
        """Set a session aside, unless it must stay. The gate is held exclusively."""
        session_id = decision.session_id
        if ledger.is_live(self._root, session_id):
            self.live.append(session_id)
            return False
        try:
            if session_id in mounted:
                raise trees.MountInside(f"another file system is mounted inside session {session_id}; unmount it first")
            if stamp_of(self._root, session_id) == decision.stamp and place.take(session_id) is not None:
                ledger.forget_lock(self._root, session_id)
                return True
        except FileNotFoundError:
            pass  # somebody else deleted it
        except OSError as e:
            self._failed(session_id, e)
            return False
        self.changed.append(session_id)
        return False

    def archive(self) -> None:
        """Write each session to its file, and delete it under the same lock: nothing done in it meanwhile is lost."""
        remove = self._planned.sessions.remove
        if self._planned.archive_to is not None:
            sweep_parts(self._planned.archive_to)
        for number, decision in enumerate(remove, 1):
            session_id = decision.session_id
            target = self._planned.archive_of(session_id)
            assert target is not None
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                lock = ledger.lock_session(self._root, session_id)
            except SessionLocked:
                self.live.append(session_id)
                continue
            except OSError as e:
                self.errors[session_id] = str(e)
                continue
            try:
                if stamp_of(self._root, session_id) != decision.stamp:
                    self.changed.append(session_id)
                    continue
                write_archive(self._root, session_id, target, self._logger)
                removal.remove_session(self._root, session_id)
                self.done.add(session_id)
                self.archived[session_id] = target
                self._logger.info("session.deleted", session_id=session_id)
            except (OSError, ValueError) as e:
                self.errors[session_id] = str(e)
            finally:
                lock.release()
                ledger.forget_free_lock(self._root, session_id)
                self._progressed(number)

    def _failed(self, session_id: str, error: OSError) -> None:
        self.errors[session_id] = str(error)
        self._logger.warning("session.prune.failed", session_id=session_id, error=str(error))

    def _progressed(self, count: int) -> None:
        if self._on_progress is not None:
            self._on_progress(count, len(self._planned.sessions.remove))


def _thin_out(root: Path, doomed: list[Snapshot], live: list[str], logger: SandboxLogger) -> list[Snapshot]:
    """Delete these snapshots, session by session; which went. Sessions that are in use by now are added to ``live``."""
    if not doomed:
        return []
    gone: set[str] = set()
    by_session: dict[str, list[str]] = {}
    for snapshot in doomed:
        by_session.setdefault(snapshot.session_id, []).append(snapshot.snapshot_id)
    with contextlib.closing(snapshot_store(root)) as store:
        for session_id, names in by_session.items():
            try:
                gone.update(remove_at_rest(root, session_id, names, store))
            except SessionLocked:
                live.append(session_id)
    for name in gone:
        logger.info("session.snapshot.deleted", snapshot_id=name)
    return [s for s in doomed if s.snapshot_id in gone]


def report(planned: HousePlan, result: PruneResult) -> PruneReport:
    """What was done, or would be, in JSON."""
    gone = {*result.deleted_sessions, *result.forgotten_sessions} if not result.dry_run else set()
    removed = [d for d in planned.sessions.remove if d.session_id in set(result.deleted_sessions)]
    leave: Action = "archive" if planned.archive_to is not None else "delete"
    sessions = [
        *(_told(planned, d, leave) for d in planned.sessions.remove),
        *(_told(planned, d, "keep") for d in planned.sessions.keep if d.reason),
        *(_told(planned, d, "skip") for d in planned.sessions.skip),
        *(_told(planned, d, "forget") for d in planned.forget),
    ]
    return {
        "dry_run": result.dry_run,
        "sessions": [{**told, "done": told["session_id"] in gone} for told in sessions],
        "totals": {
            "sessions": len(planned.found.sessions),
            "bytes": sum(facts.size_bytes for facts in planned.found.sessions),
            "removed": len(removed),
            "reclaimed_bytes": result.reclaimed_bytes,
            "live": len(result.live_sessions),
            "skipped": len(result.skipped_sessions),
            "errors": len(result.errors),
            "snapshots_removed": len(result.deleted_snapshots),
            "snapshot_bytes_freed": result.snapshot_bytes_freed,
        },
        "errors": result.errors,
        "live": result.live_sessions,
        "changed": result.changed_sessions,
        "snapshots": result.deleted_snapshots,
    }


def _told(planned: HousePlan, decision: Decision, action: Action) -> PrunedSession:
    record = planned.found.records.get(decision.session_id)
    extra = record.extra if record is not None else {}
    path = planned.archive_of(decision.session_id) if action == "archive" else None
    return {
        "session_id": decision.session_id,
        "action": action,
        "reason": decision.reason,
        "done": False,
        "age_hours": round(decision.age_hours, 3) if action != "skip" else None,
        "size_bytes": decision.size_bytes,
        "snapshot_bytes": decision.snapshot_bytes,
        "notebook": str(extra.get("notebook") or "")[:4096],
        "title": str(extra.get("title") or "")[:200],
        "archive": path.name if path is not None else None,
    }


# ---- as a library


def prune_sessions(
    older_than_hours: float = 24.0,
    workspace_root: Path | str | None = None,
    dry_run: bool = False,
    logger: SandboxLogger | None = None,
    *,
    policy: RetentionPolicy | None = None,
    max_deletions: int | None = None,
    workers: int = 4,
) -> PruneResult:
    """Delete sessions not used for a while, or by any other bound of a `RetentionPolicy`.

    Only folders named by a UUID are looked at; sessions without metadata and sessions in use are never deleted. What
    fails is reported and the rest goes on. A dry run reports exactly what the real one would do. A ``policy`` replaces
    ``older_than_hours``; one without bounds deletes no session, and leftovers of killed processes are swept as always.
    """
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    policy = policy or RetentionPolicy(max_age_hours=older_than_hours)
    started = time.monotonic()
    logger.info(
        "session.prune.started", threshold=policy.max_age_hours, workspace_root=str(root), dry_run=dry_run
    )  # fmt: skip
    planned = plan_housekeeping(root, policy, max_deletions=max_deletions)
    for item in planned.sessions.skip:
        logger.warning("session.prune.skipped", session_id=item.session_id, reason=item.reason)
    for item in planned.sessions.remove:
        logger.info(
            "session.prune.candidate",
            session_id=item.session_id,
            age_hours=round(item.age_hours, 3),
            size_bytes=item.size_bytes,
            reason=item.reason,
        )
    result = foreseen(planned) if dry_run else carry_out(root, planned, logger, workers=workers)
    logger.info(
        "session.prune.completed",
        deleted_count=len(result.deleted_sessions),
        skipped_count=len(result.skipped_sessions),
        reclaimed_bytes=result.reclaimed_bytes,
        duration=round(time.monotonic() - started, 6),
    )
    return result


def archive_sessions(
    older_than_hours: float,
    archive_path: Path | str,
    workspace_root: Path | str | None = None,
    *,
    dry_run: bool = False,
    logger: SandboxLogger | None = None,
) -> ArchiveResult:
    """Export sessions not used for a while to ``archive_path``/<id>.tar.zst; each is deleted once that is on disk.

    One that cannot be exported whole stays, and ``errors`` says why; its links alone are given up.
    """
    root = existing_root(workspace_root)
    planned = plan_housekeeping(root, RetentionPolicy(max_age_hours=older_than_hours), archive_to=archive_path)
    return foreseen(planned) if dry_run else carry_out(root, planned, logger or SandboxLogger())


@dataclass(frozen=True)
class SnapshotPrune:
    """What a prune of snapshots did, or would do."""

    deleted: list[str] = field(default_factory=list)
    freed_bytes: int = 0
    dry_run: bool = False


def prune_snapshots(
    policy: SnapshotRetention,
    workspace_root: Path | str | None = None,
    *,
    session_id: str | None = None,
    dry_run: bool = False,
    logger: SandboxLogger | None = None,
) -> SnapshotPrune:
    """Delete snapshots by age, number and space, and give the space back. Those of a session in use stay, for undo."""
    root = existing_root(workspace_root)
    planned = plan_thinning(root, policy, session_id)
    done = foreseen(planned) if dry_run else carry_out(root, planned, logger or SandboxLogger())
    return SnapshotPrune(done.deleted_snapshots, done.snapshot_bytes_freed, dry_run)


def plan_thinning(root: Path, policy: SnapshotRetention, session_id: str | None = None) -> HousePlan:
    """What a prune of snapshots alone would do now, of all sessions or of one. Does not look into any session."""
    return HousePlan(snapshots=_doomed(root, policy, session_id))
