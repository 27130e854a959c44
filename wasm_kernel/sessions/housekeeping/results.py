"""What housekeeping did, or would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.model.prune_report import Action, PrunedSession, PruneReport
from wasm_kernel.model.retention import Decision
from wasm_kernel.model.units import counted, format_size
from wasm_kernel.sessions.housekeeping.planning import HousePlan


@dataclass(frozen=True)
class PruneResult:
    """What a prune did, or would do.

    Attributes:
        deleted_sessions: Ids deleted or, in a dry run, to be deleted; archived ones included.
        skipped_sessions: Ids that cannot be judged: without metadata, or with a damaged file. Never deleted.
        reclaimed_bytes: Size of their files and of all deleted snapshots, counted before deleting.
        errors: What went wrong, by id; these were not deleted, or only in part.
        dry_run: Whether nothing was done.
        live_sessions: Ids that would have been deleted but are in use.
        archived: The archive file, by id.
        changed_sessions: Ids that were used, or deleted by others, after the decision.
        forgotten_sessions: Ids of sessions deleted earlier whose records are deleted now.
        deleted_snapshots: Ids of deleted snapshots of sessions that were kept.
        snapshot_bytes_freed: Disk space freed by deleting snapshots, measured; in a dry run, what they had added.
        stored_bytes_freed: What deleted sessions took in the object store.
        last_snapshots: The snapshot that was taken of a session before it was deleted, by the session's id.
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
    last_snapshots: dict[str, str] = field(default_factory=dict)
    stored_bytes_freed: int = 0

    def __str__(self) -> str:
        verb = "Would delete" if self.dry_run else "Deleted"
        parts = [f"{verb} {counted(len(self.deleted_sessions), 'session')}, {format_size(self.reclaimed_bytes)}"]
        if self.stored_bytes_freed:
            parts.append(f"{format_size(self.stored_bytes_freed)} in the object store")
        parts.append(f"{len(self.skipped_sessions)} skipped")
        if self.live_sessions:
            parts.append(f"{len(self.live_sessions)} in use")
        if self.errors:
            parts.append(counted(len(self.errors), "error"))
        return "; ".join(parts) + (" (dry run)" if self.dry_run else "")


def foreseen(planned: HousePlan) -> PruneResult:
    """What carrying out a plan would do: the result of a dry run."""
    gone = [d.session_id for d in planned.sessions.remove]
    return PruneResult(
        deleted_sessions=gone,
        skipped_sessions=[d.session_id for d in planned.sessions.skip],
        reclaimed_bytes=planned.reclaimed_bytes,
        dry_run=True,
        live_sessions=kept(planned, "live"),
        archived={name: path for name in gone if (path := planned.archive_of(name)) is not None},
        changed_sessions=kept(planned, "changed"),
        forgotten_sessions=[d.session_id for d in planned.forget],
        deleted_snapshots=[s.snapshot_id for s in planned.snapshots],
        snapshot_bytes_freed=planned.snapshot_bytes,
        stored_bytes_freed=planned.stored_bytes,
    )


def kept(planned: HousePlan, reason: str) -> list[str]:
    """Sessions kept for this reason although they exceed a bound."""
    return [d.session_id for d in planned.sessions.keep if d.reason == reason]


def report(planned: HousePlan, result: PruneResult) -> PruneReport:
    """The report in JSON."""
    gone = {*result.deleted_sessions, *result.forgotten_sessions} if not result.dry_run else set()
    removed = [d for d in planned.sessions.remove if d.session_id in set(result.deleted_sessions)]
    leave: Action = "archive" if planned.archive_to is not None else "delete"
    sessions = [
        *(_in_report(planned, d, leave) for d in planned.sessions.remove),
        *(_in_report(planned, d, "keep") for d in planned.sessions.keep if d.reason),
        *(_in_report(planned, d, "skip") for d in planned.sessions.skip),
        *(_in_report(planned, d, "forget") for d in planned.forget),
    ]
    return {
        "dry_run": result.dry_run,
        "sessions": [
            {
                **one,
                "done": one["session_id"] in gone,
                "snapshot_id": result.last_snapshots.get(one["session_id"]),
            }
            for one in sessions
        ],
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
            "stored_bytes_freed": result.stored_bytes_freed,
        },
        "errors": result.errors,
        "live": result.live_sessions,
        "changed": result.changed_sessions,
        "snapshots": result.deleted_snapshots,
    }


def _in_report(planned: HousePlan, decision: Decision, action: Action) -> PrunedSession:
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
        "stored_bytes": decision.stored_bytes,
        "notebook": str(extra.get("notebook") or "")[:4096],
        "title": str(extra.get("title") or "")[:200],
        "archive": path.name if path is not None else None,
        "snapshot_id": None,
    }
