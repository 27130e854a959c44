"""What is done in one user's workspace, in a process of its own. Arguments and results are plain JSON values.

Everything here runs with the user's rights and can reach nothing but the workspace (see `keeper`); what is found in a
workspace is the user's, and whoever gets a result must not trust it any more than the user.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host import manifests
from wasm_kernel.host.ledger import STATE_FOLDER
from wasm_kernel.model.records import format_time
from wasm_kernel.model.retention import Decision, Plan
from wasm_kernel.sessions.archive import archive_planned
from wasm_kernel.sessions.listing import SessionSummary, list_sessions
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.pruning import carry_out, collect_snapshots_of_the_gone
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
    from wasm_kernel.host.workspace import METADATA_NAME

    store = root / STATE_FOLDER / "snapshots"
    counts: dict[str, int] = {}
    for session_id, _ in manifests.names(store / "manifests"):
        counts[session_id] = counts.get(session_id, 0) + 1

    def row(s: SessionSummary) -> dict[str, Any]:
        stamp = None
        with contextlib.suppress(OSError):
            info = os.lstat(f"{root}/{s.session_id}/{METADATA_NAME}")
            stamp = [info.st_ino, info.st_mtime_ns]
        return {
            "session_id": s.session_id,
            "created_at": s.created_at and format_time(s.created_at),
            "updated_at": s.updated_at and format_time(s.updated_at),
            "size_bytes": s.size_bytes,
            "live": s.live,
            "problem": s.problem,
            "title": s.title[:_TEXT],
            "notebook": s.notebook[:_TEXT],
            "execution_count": s.execution_count,
            "snapshot_count": counts.get(s.session_id, 0),
            "stamp": stamp,
        }

    from wasm_kernel.sessions.recorder import snapshot_store

    with contextlib.closing(snapshot_store(root)) as chunks:
        stored = chunks.stored_bytes() if store.is_dir() else 0
    return {
        "sessions": [row(s) for s in list_sessions(root)],
        "snapshot_count": sum(counts.values()),
        "snapshot_bytes": stored,
        "free_bytes": shutil.disk_usage(root).free,
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
    """Delete snapshots by a `SnapshotRetention`."""
    done = prune_snapshots(SnapshotRetention(**policy), root, dry_run=dry_run)
    return {"snapshots": done.deleted, "snapshot_bytes": done.freed_bytes}


def forget(root: Path, snapshot_ids: list[str]) -> dict[str, Any]:
    """Delete these snapshots."""
    done, errors = [], {}
    for name in snapshot_ids:
        try:
            delete_snapshot(name, root)
            done.append(name)
        except (WasmKernelError, OSError) as e:
            errors[name] = str(e)
    freed = 0
    with contextlib.suppress(WasmKernelError, OSError):  # somebody takes one now: the next collection does it
        freed = collect_snapshots(root, wait=5).freed
    return {"snapshots": done, "snapshot_bytes": freed, "errors": errors}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {f.__name__: f for f in (look, snapshots, remove, thin, forget)}
