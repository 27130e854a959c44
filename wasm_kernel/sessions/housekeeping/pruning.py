"""Housekeeping for programs: plan and carry out in one call."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.model.snapshot_retention import SnapshotRetention
from wasm_kernel.sessions.housekeeping.carrying_out import carry_out
from wasm_kernel.sessions.housekeeping.planning import plan_housekeeping, plan_thinning
from wasm_kernel.sessions.housekeeping.results import PruneResult, foreseen
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.log import SandboxLogger

ArchiveResult = PruneResult
"""What `archive_sessions` returns: there is one report."""


def prune_sessions(
    older_than_hours: float = 24.0,
    workspace_root: Path | str | None = None,
    dry_run: bool = False,
    logger: SandboxLogger | None = None,
    *,
    policy: RetentionPolicy | None = None,
    max_deletions: int | None = None,
    workers: int = 4,
    snapshot: bool = False,
    store: Objects | None = None,
) -> PruneResult:
    """Delete sessions that have not been used for a while, or that exceed another bound of a `RetentionPolicy`.

    Only folders named by a UUID are considered; sessions without metadata and sessions in use are never deleted. A
    failure is reported and the rest continues. A dry run reports exactly what the real one would do. A ``policy``
    replaces ``older_than_hours``; one without bounds deletes no session, but leftovers of killed processes are swept.
    With ``snapshot``, each session leaves a last snapshot (``last_snapshots``) from which a new one can be made; one of
    which none can be taken is kept, and ``errors`` says why. ``store``: the object store that sessions are pushed to
    (`open_objects`), where they are deleted, too; None: only this machine's disk is looked at.
    """
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    policy = policy or RetentionPolicy(max_age_hours=older_than_hours)
    started = time.monotonic()
    logger.info(
        "session.prune.started", threshold=policy.max_age_hours, workspace_root=str(root), dry_run=dry_run
    )  # fmt: skip
    planned = plan_housekeeping(root, policy, max_deletions=max_deletions, snapshot=snapshot, store=store)
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
    """Export sessions not used for a while to ``archive_path``/<id>.tar.zst, and delete each once its file is on disk.

    One that cannot be exported completely is kept, and ``errors`` says why; only links are left out.
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
    """Delete snapshots by age, number and space, and free their space. Those of a session in use are kept for undo."""
    root = existing_root(workspace_root)
    planned = plan_thinning(root, policy, session_id)
    done = foreseen(planned) if dry_run else carry_out(root, planned, logger or SandboxLogger())
    return SnapshotPrune(done.deleted_snapshots, done.snapshot_bytes_freed, dry_run)
