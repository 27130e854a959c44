"""Prune: gather what is known of the sessions, decide by `retention.plan`, then do it. A dry run stops in between."""

from __future__ import annotations

import os
import shutil
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import ledger, removal, trees
from wasm_kernel.host.workspace import METADATA_NAME
from wasm_kernel.model.records import BadRecord, is_uuid, parse_record
from wasm_kernel.model.retention import Decision, Plan, RetentionPolicy, SessionFacts, plan
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE

_BATCH = 200  # sessions set aside per hold of the gate


class WorkspaceRootMissing(ConfigurationError, FileNotFoundError):
    """The workspace root to prune is not there, or is not a folder."""


@dataclass(frozen=True)
class PruneResult:
    """What a prune did, or would do.

    Attributes:
        deleted_sessions: Ids deleted, or, in a dry run, that would be.
        skipped_sessions: Ids that cannot be judged: without metadata, or with a damaged file. Never deleted.
        reclaimed_bytes: Bytes of all their files, counted before deleting.
        errors: Id to what went wrong; these were not deleted, or only in part.
        dry_run: Whether nothing was done.
        live_sessions: Ids that would have gone, but somebody uses them.
    """

    deleted_sessions: list[str] = field(default_factory=list)
    skipped_sessions: list[str] = field(default_factory=list)
    reclaimed_bytes: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    dry_run: bool = False
    live_sessions: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verb = "Would delete" if self.dry_run else "Deleted"
        parts = [f"{verb} {len(self.deleted_sessions)} sessions, {format_size(self.reclaimed_bytes)}"]
        parts.append(f"{len(self.skipped_sessions)} skipped")
        if self.live_sessions:
            parts.append(f"{len(self.live_sessions)} in use")
        if self.errors:
            parts.append(f"{len(self.errors)} errors")
        return "; ".join(parts) + (" (dry run)" if self.dry_run else "")


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
    fails is reported and the rest goes on. A dry run reports exactly what the real one would do.
    """
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    policy = policy or RetentionPolicy(max_age_hours=older_than_hours)
    started = time.monotonic()
    logger.info(
        "session.prune.started", threshold=policy.max_age_hours, workspace_root=str(root), dry_run=dry_run
    )  # fmt: skip
    decided = plan_prune(root, policy, max_deletions=max_deletions)
    for item in decided.skip:
        logger.warning("session.prune.skipped", session_id=item.session_id, reason=item.reason)
    for item in decided.remove:
        logger.info(
            "session.prune.candidate",
            session_id=item.session_id,
            age_hours=round(item.age_hours, 3),
            size_bytes=item.size_bytes,
            reason=item.reason,
        )
    result = PruneResult(
        deleted_sessions=[d.session_id for d in decided.remove],
        skipped_sessions=[d.session_id for d in decided.skip],
        reclaimed_bytes=decided.reclaimed_bytes,
        dry_run=dry_run,
        live_sessions=[d.session_id for d in decided.keep if d.reason == "live"],
    )
    if not dry_run:
        result = _execute(root, decided, result, logger, workers)
    logger.info(
        "session.prune.completed",
        deleted_count=len(result.deleted_sessions),
        skipped_count=len(result.skipped_sessions),
        reclaimed_bytes=result.reclaimed_bytes,
        duration=round(time.monotonic() - started, 6),
    )
    return result


def existing_root(workspace_root: Path | str | None) -> Path:
    """A workspace root that is there."""
    root = Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE).absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise WorkspaceRootMissing(f"workspace_root {str(root)!r} {what}; give the folder that holds the sessions")
    return root


def plan_prune(root: Path, policy: RetentionPolicy, *, max_deletions: int | None = None) -> Plan:
    """What a prune of this root would do now."""
    free = shutil.disk_usage(root).free if policy.min_free_bytes is not None else None
    return plan(gather(root), policy, datetime.now(UTC), free_bytes=free, max_deletions=max_deletions)


def gather(root: Path) -> list[SessionFacts]:
    """What is known of every session below a root."""
    live = ledger.live_sessions(root)
    found = []
    with os.scandir(root) as entries:
        for entry in entries:
            if not is_uuid(entry.name):
                continue
            if entry.is_symlink():
                found.append(SessionFacts(entry.name, None, problem="symlink"))
            elif entry.is_dir(follow_symlinks=False):
                found.append(_facts(entry.path, entry.name, entry.name in live))
    return found


def _facts(path: str, name: str, live: bool) -> SessionFacts:
    size, mounted = _measure(path)
    try:
        record = _quick_record(path)
    except FileNotFoundError:
        return SessionFacts(name, None, size, live, "no_metadata")
    except (BadRecord, OSError):
        return SessionFacts(name, None, size, live, "corrupted_metadata")
    if mounted:
        return SessionFacts(name, None, size, live, "mount_inside")
    return SessionFacts(name, record, size, live)


def _quick_record(path: str) -> datetime:
    handle = os.open(f"{path}/{METADATA_NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return parse_record(os.read(handle, 1 << 20)).updated_at
    finally:
        os.close(handle)


def _measure(path: str) -> tuple[int, bool]:
    """Bytes of all files below a folder, its metadata included; whether another file system is mounted inside."""
    size, mounted = 0, False
    waiting = [path]
    device = None
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(info.st_mode):
                        device = device if device is not None else os.lstat(path).st_dev
                        if info.st_dev != device:
                            mounted = True
                        else:
                            waiting.append(entry.path)
                    else:
                        size += info.st_size
        except OSError:
            continue
    return size, mounted


def _execute(root: Path, decided: Plan, result: PruneResult, logger: SandboxLogger, workers: int) -> PruneResult:
    """Set the planned sessions aside, a batch at a time, and delete what was set aside."""
    errors: dict[str, str] = {}
    live: list[str] = list(result.live_sessions)
    done: list[Decision] = []

    def destroy(pair: tuple[Decision, str]) -> None:
        decision, aside = pair
        try:
            trees.remove(aside)
        except OSError as e:
            removal.put_back(root, decision.session_id, aside)
            errors[decision.session_id] = str(e)
            logger.warning("session.prune.failed", session_id=decision.session_id, error=str(e))
            return
        done.append(decision)
        logger.info("session.prune.deleted", session_id=decision.session_id)

    with ThreadPoolExecutor(max(1, workers)) as pool:
        for start in range(0, max(1, len(decided.remove)), _BATCH):
            batch = decided.remove[start : start + _BATCH]
            aside = []
            with ledger.gate(root, exclusive=True):
                if start == 0:
                    removal.sweep(root)
                in_use = ledger.live_sessions(root)
                trash = removal.trash_folder(root)
                for decision in batch:
                    if decision.session_id in in_use:
                        live.append(decision.session_id)
                        continue
                    try:
                        moved = removal.set_aside(root, decision.session_id, trash)
                    except OSError as e:
                        errors[decision.session_id] = str(e)
                        logger.warning("session.prune.failed", session_id=decision.session_id, error=str(e))
                        continue
                    ledger.forget_lock(root, decision.session_id)
                    if moved is not None:
                        aside.append((decision, moved))
            list(pool.map(destroy, aside))
    with ledger.gate(root, exclusive=True):
        for decision in (*decided.keep, *decided.skip):
            if not ledger.is_live(root, decision.session_id):
                removal.sweep_temporaries(root / decision.session_id)
    order = {d.session_id: i for i, d in enumerate(decided.remove)}
    done.sort(key=lambda d: order[d.session_id])
    return PruneResult(
        deleted_sessions=[d.session_id for d in done],
        skipped_sessions=result.skipped_sessions,
        reclaimed_bytes=sum(d.size_bytes for d in done),
        errors=errors,
        dry_run=False,
        live_sessions=live,
    )
