"""What is done in one user's workspace, in a process of its own. Arguments and results are plain JSON values.

Everything here runs with the user's rights and reaches nothing but the workspace (see `keeper`), not even Python's own
modules: what is needed is imported here, before. What is found in a workspace is the user's: whoever gets a result
trusts it no more than the user (see `answers`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil  # noqa: F401 - needed later, where it cannot be imported any more

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host import ledger, manifests, removal, tombstones
from wasm_kernel.model.records import BadRecord, format_time, parse_time
from wasm_kernel.model.retention import Decision, Plan, SessionFacts
from wasm_kernel.sessions.archive import archive_planned
from wasm_kernel.sessions.listing import SessionSummary, summary
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notices import write_notices
from wasm_kernel.sessions.pruning import carry_out, collect_snapshots_of_the_gone, survey
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import (
    SnapshotRetention,
    collect_snapshots,
    delete_snapshot,
    list_snapshots,
    prune_snapshots,
)

_TEXT = 300  # of a title or a path: enough for a table


def look(root: Path) -> dict[str, Any]:
    """Every session, how many snapshots it has, and what space there is."""
    store = root / ledger.STATE_FOLDER / "snapshots"
    counts: dict[str, int] = {}
    for session_id, _ in manifests.names(store / "manifests"):
        counts[session_id] = counts.get(session_id, 0) + 1
    stored = 0
    if counts or store.is_dir():
        with contextlib.closing(snapshot_store(root)) as chunks:
            stored = chunks.stored_bytes()
    seen = survey(root, named=True)
    return {
        "sessions": [
            _row(facts, summary(facts, seen.records.get(facts.session_id)), counts.get(facts.session_id, 0))
            for facts in seen.sessions
        ],
        "snapshot_count": sum(counts.values()),
        "snapshot_bytes": stored,
        "free_bytes": shutil.disk_usage(root).free,
    }


def _row(facts: SessionFacts, shown: SessionSummary, snapshot_count: int) -> dict[str, Any]:
    return {
        "session_id": shown.session_id,
        "created_at": format_time(shown.created_at) if shown.created_at is not None else None,
        "updated_at": format_time(shown.updated_at) if shown.updated_at is not None else None,
        "size_bytes": shown.size_bytes,
        "live": shown.live,
        "problem": shown.problem,
        "title": shown.title[:_TEXT],
        "notebook": shown.notebook[:_TEXT],
        "execution_count": max(0, shown.execution_count),
        "snapshot_count": snapshot_count,
        "stamp": facts.stamp,
    }


def snapshots(root: Path, session_id: str | None = None) -> dict[str, Any]:
    """The snapshots of a session, or of all."""
    return {
        "snapshots": [
            {
                "snapshot_id": s.snapshot_id,
                "session_id": s.session_id,
                "created_at": format_time(s.created_at),
                "trigger": s.trigger,
                "label": s.label[:_TEXT],
                "stored_bytes": s.stored_bytes,
                "memory_bytes": s.memory_bytes,
            }
            for s in list_snapshots(root, session_id)
        ]
    }


def remove(root: Path, decisions: list[list[Any]], archive_to: str = "") -> dict[str, Any]:
    """Delete sessions that are as they were when it was decided, archived before if a folder is given."""
    wanted = [Decision(name, reason, 0.0, size, tuple(stamp or ())) for name, reason, size, stamp in decisions]
    sizes = {d.session_id: d.size_bytes for d in wanted}
    quiet = SandboxLogger(level="error")
    archived: dict[str, str] = {}
    if archive_to:
        saved = archive_planned(root, Plan(remove=wanted), archive_to, quiet)
        archived = {name: path.name for name, path in saved.archived.items()}
        deleted, errors, live = list(saved.archived), saved.errors, saved.live_sessions
    else:
        done = carry_out(root, Plan(remove=wanted), quiet)
        deleted, errors, live = done.deleted_sessions, done.errors, done.live_sessions
    freed = collect_snapshots_of_the_gone(root) if deleted else 0
    told = {*deleted, *errors, *live}
    return {
        "deleted": {name: sizes[name] for name in deleted},
        "archived": archived,
        "errors": errors,
        "live": live,
        "changed": [name for name in sizes if name not in told],
        "snapshot_bytes": freed,
    }


def thin(root: Path, policy: dict[str, Any], dry_run: bool = False) -> dict[str, Any]:
    """Delete snapshots by a `SnapshotRetention`; those of live sessions stay, whose kernels offer them to undo."""
    live = ledger.live_sessions(root)
    done = prune_snapshots(SnapshotRetention(**policy), root, spare=live, dry_run=dry_run)
    return {"snapshots": done.deleted, "snapshot_bytes": done.freed_bytes}


def forget(root: Path, snapshot_ids: list[str]) -> dict[str, Any]:
    """Delete these snapshots, but none of a live session."""
    done, errors = [], {}
    owners = {
        name: session_id for session_id, name in manifests.names(root / ledger.STATE_FOLDER / "snapshots/manifests")
    }
    for name in snapshot_ids:
        try:
            if name in owners and ledger.is_live(root, owners[name]):
                raise WasmKernelError(f"session {owners[name]} is in use")
            delete_snapshot(name, root)
            done.append(name)
        except (WasmKernelError, OSError) as e:
            errors[name] = str(e)
    freed = 0
    with contextlib.suppress(WasmKernelError, OSError):  # somebody takes one now: the next collection does it
        freed = collect_snapshots(root, wait=5).freed
    return {"snapshots": done, "snapshot_bytes": freed, "errors": errors}


def sweep(root: Path, max_age_hours: float | None = None) -> dict[str, Any]:
    """Take away what killed processes left, and what is remembered of sessions that were deleted so long ago."""
    if max_age_hours is not None:
        long_ago = datetime.now(UTC) - timedelta(hours=max_age_hours)
        for session_id in tombstones.names(root):
            with contextlib.suppress(BadRecord):
                if parse_time((tombstones.read(root, session_id) or {}).get("deleted_at")) < long_ago:
                    tombstones.forget(root, session_id)
    found = survey(root)
    carry_out(root, Plan(), SandboxLogger(level="error"))
    removal.sweep_temporaries(found.temporaries)
    return {"snapshot_bytes": collect_snapshots_of_the_gone(root)}


def tell(root: Path, notices: list[dict[str, Any]]) -> dict[str, Any]:
    """Put notices where the user's next kernel finds them."""
    write_notices(root, notices)
    return {}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    f.__name__: f for f in (look, snapshots, remove, thin, forget, sweep, tell)
}
