"""Prune: gather what is known of the sessions, decide by `retention.plan`, then do it. A dry run stops in between."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.host import ledger, removal
from wasm_kernel.host.packages import PACKAGES
from wasm_kernel.host.workspace import METADATA_NAME
from wasm_kernel.model.records import BadRecord, SessionRecord, is_session_id, is_uuid, parse_record
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
    found = survey(root)
    decided = plan_prune(root, policy, max_deletions=max_deletions, found=found)
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
    if dry_run:
        result = PruneResult(
            deleted_sessions=[d.session_id for d in decided.remove],
            skipped_sessions=[d.session_id for d in decided.skip],
            reclaimed_bytes=decided.reclaimed_bytes,
            dry_run=True,
            live_sessions=[d.session_id for d in decided.keep if d.reason == "live"],
        )
    else:
        result = carry_out(root, decided, logger, workers=workers)
        removal.sweep_temporaries(found.temporaries)
        collect_snapshots_of_the_gone(root)
    logger.info(
        "session.prune.completed",
        deleted_count=len(result.deleted_sessions),
        skipped_count=len(result.skipped_sessions),
        reclaimed_bytes=result.reclaimed_bytes,
        duration=round(time.monotonic() - started, 6),
    )
    return result


def collect_snapshots_of_the_gone(root: Path) -> int:
    """Give back the space of snapshots whose sessions are gone; the bytes. If somebody takes one now, the next does."""
    folder = root / ledger.STATE_FOLDER / "snapshots"
    if folder.is_dir():
        from wasm_kernel.host.chunks import ChunkStore
        from wasm_kernel.model.snapshots import chunks_of

        with contextlib.suppress(WasmKernelError, OSError), contextlib.closing(ChunkStore(folder)) as store:
            return store.collect(chunks_of).freed
    return 0


def existing_root(workspace_root: Path | str | None) -> Path:
    """A workspace root that is there."""
    root = Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE).absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise WorkspaceRootMissing(f"workspace_root {str(root)!r} {what}; give the folder that holds the sessions")
    return root


@dataclass(frozen=True)
class Survey:
    """What is below a workspace root.

    Attributes:
        sessions: What is known of each.
        temporaries: Temporary files of ours that nobody may need any more.
        records: The metadata of those that have any, by id.
    """

    sessions: list[SessionFacts] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    records: dict[str, SessionRecord] = field(default_factory=dict)


def plan_prune(
    root: Path, policy: RetentionPolicy, *, max_deletions: int | None = None, found: Survey | None = None
) -> Plan:
    """What a prune of this root would do now."""
    free = shutil.disk_usage(root).free if policy.min_free_bytes is not None else None
    found = found or survey(root)
    return plan(found.sessions, policy, datetime.now(UTC), free_bytes=free, max_deletions=max_deletions)


def survey(root: Path, *, named: bool = False, only: str | None = None) -> Survey:
    """Look at every session below a root, or at one; those with a name of their own, never pruned, only if asked."""
    live = ledger.live_sessions(root) if only is None else {only} if ledger.is_live(root, only) else set()
    mounted = removal.mounted_in(root)
    packages = f"{root}/{ledger.STATE_FOLDER}/{PACKAGES}"
    installed = set(os.listdir(packages)) if os.path.isdir(packages) else set()  # noqa: PTH112, PTH208 - names, no paths
    found = Survey()
    with os.scandir(root) as entries:
        for entry in entries:
            name = entry.name
            if not is_session_id(name) or (only is not None and name != only):
                continue
            if entry.is_symlink():
                if named or is_uuid(name):
                    found.sessions.append(SessionFacts(name, None, problem="symlink"))
            elif entry.is_dir(follow_symlinks=False):
                size, temporaries = _measure(entry.path)
                if name in installed:
                    size += _measure(f"{packages}/{name}")[0]
                if name not in live:
                    found.temporaries.extend(temporaries)
                if named or is_uuid(name):
                    facts = _facts(entry.path, size, name, name in live, name in mounted, found.records)
                    found.sessions.extend([facts] if facts is not None else [])
    return found


def _facts(
    path: str, size: int, name: str, live: bool, mounted: bool, records: dict[str, SessionRecord]
) -> SessionFacts | None:
    """What is known of one session, its metadata put to the others; None when it has gone meanwhile."""
    try:
        handle = os.open(f"{path}/{METADATA_NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stamp = _stamp(os.fstat(handle))
            record = parse_record(os.read(handle, 1 << 20))
        finally:
            os.close(handle)
    except FileNotFoundError:
        return SessionFacts(name, None, size, live, "no_metadata") if os.path.lexists(path) else None
    except (BadRecord, OSError):
        return SessionFacts(name, None, size, live, "corrupted_metadata")
    records[name] = record
    return SessionFacts(name, record.updated_at, size, live, "mount_inside" if mounted else "", stamp)


def _stamp(info: os.stat_result) -> object:
    return info.st_ino, info.st_mtime_ns  # metadata is replaced by every use, never changed


def _measure(path: str) -> tuple[int, list[str]]:
    """Bytes of all files below a folder, its metadata included, and temporary files of ours among them."""
    size = 0
    temporaries = []
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(info.st_mode):
                        waiting.append(entry.path)
                        continue
                    size += info.st_size
                    if entry.name.startswith(METADATA_NAME) and removal.is_temporary(entry.name):
                        temporaries.append(entry.path)
        except OSError:
            continue
    return size, temporaries


def is_unused_since(root: Path, decision: Decision) -> bool:
    """Whether a session is still there, and as it was when it was decided that it goes."""
    try:
        return _stamp(os.lstat(f"{root}/{decision.session_id}/{METADATA_NAME}")) == decision.stamp
    except FileNotFoundError:
        return False


def carry_out(
    root: Path,
    decided: Plan,
    logger: SandboxLogger,
    *,
    workers: int = 4,
    on_progress: Callable[[int, int], None] | None = None,
) -> PruneResult:
    """Delete what a plan says, and nothing that was used since. ``on_progress`` gets sessions done, and all.

    The planned sessions are moved to a bin, a batch at a time, and what is there is deleted.
    """
    errors: dict[str, str] = {}
    live = [d.session_id for d in decided.keep if d.reason == "live"]
    done: set[str] = set()

    def failed(session_id: str, error: OSError) -> None:
        errors[session_id] = str(error)
        logger.warning("session.prune.failed", session_id=session_id, error=str(error))

    def destroy(session_id: str) -> None:
        try:
            place.destroy(session_id)
        except OSError as e:
            failed(session_id, e)
            return
        done.add(session_id)
        logger.info("session.prune.deleted", session_id=session_id)
        if on_progress is not None:
            on_progress(len(done), len(decided.remove))

    with removal.Bin(root) as place, ThreadPoolExecutor(max(1, workers)) as pool:
        with ledger.gate(root, exclusive=True):
            place.collect_leftovers()
        for start in range(0, len(decided.remove), _BATCH):
            batch = decided.remove[start : start + _BATCH]
            taken = []
            with ledger.gate(root, exclusive=True):
                for decision in batch:
                    session_id = decision.session_id
                    if ledger.is_live(root, session_id):
                        live.append(session_id)
                        continue
                    try:
                        if not is_unused_since(root, decision):
                            continue  # used since the plan: not old any more
                        if place.take(session_id):
                            ledger.forget_lock(root, session_id)
                            taken.append(session_id)
                    except FileNotFoundError:
                        continue  # somebody else deleted it
                    except OSError as e:
                        failed(session_id, e)
            list(pool.map(destroy, taken))
    return PruneResult(
        deleted_sessions=[d.session_id for d in decided.remove if d.session_id in done],
        skipped_sessions=[d.session_id for d in decided.skip],
        reclaimed_bytes=sum(d.size_bytes for d in decided.remove if d.session_id in done),
        errors=errors,
        dry_run=False,
        live_sessions=live,
    )
