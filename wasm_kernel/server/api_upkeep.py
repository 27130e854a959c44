"""What keeps a workspace within bounds: prune, planned or done, and what there is. Reads and changes the disk."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.host import removal, tombstones
from wasm_kernel.host.ledger import live_sessions, read_record
from wasm_kernel.model.records import BadRecord, parse_time
from wasm_kernel.model.retention import Decision, Plan, RetentionPolicy
from wasm_kernel.model.units import parse_duration, parse_size
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.archive import archive_planned
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.pruning import Survey, carry_out, collect_snapshots_of_the_gone, plan_prune, survey
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import SnapshotRetention, prune_snapshots

_LOGGER = SandboxLogger(level="error")


def prune(root: Path, wanted: Mapping[str, Any], archive_folder: Path | None, *, dry_run: bool) -> dict[str, Any]:
    """A prune by the fields of a request: what would go, or what went."""
    archive = wanted["archive"]
    if archive and archive_folder is None:
        raise Problem(
            409, "no folder for archives is configured: the administrator sets WasmKernelExtension.archive_folder"
        )
    policy = RetentionPolicy(
        max_age_hours=_hours(wanted.get("max_age_hours")),
        max_sessions=wanted.get("max_sessions"),
        max_total_bytes=_bytes(wanted.get("max_total_bytes")),
        min_free_bytes=_bytes(wanted.get("min_free_bytes")),
        keep=frozenset(wanted.get("keep", ())),
    )
    found = survey(root)
    decided = plan_prune(root, policy, max_deletions=wanted.get("max_deletions"), found=found)
    only = wanted.get("only")
    if only is not None:  # nor is anything told of others: whoever asks about few does not read of thousands
        few = set(only)
        decided = replace(
            decided,
            remove=[d for d in decided.remove if d.session_id in few],
            keep=[d for d in decided.keep if d.session_id in few],
            skip=[d for d in decided.skip if d.session_id in few],
        )
    forgotten = _long_deleted(root, policy, only)
    told = [
        *(_told(root, d, "archive" if archive else "delete") for d in decided.remove),
        *(_told(root, d, "keep") for d in decided.keep if d.reason),
        *(_told(root, d, "skip") for d in decided.skip),
        *(_told(root, d, "forget") for d in forgotten),
    ]
    live = [d.session_id for d in decided.keep if d.reason == "live"]
    done: set[str] = set()
    errors: dict[str, str] = {}
    freed = 0
    if not dry_run:
        place = archive_folder if archive else None
        done, errors, live = _carry_out(root, decided, found, place, [d.session_id for d in forgotten])
        freed = collect_snapshots_of_the_gone(root)
    thinned, thinned_bytes = _thin_out(root, wanted.get("snapshots"), dry_run)
    removed = [d for d in decided.remove if dry_run or d.session_id in done]
    return {
        "dry_run": dry_run,
        "sessions": [{**item, "done": item["session_id"] in done} for item in told],
        "totals": {
            "sessions": len(found.sessions),
            "bytes": sum(facts.size_bytes for facts in found.sessions),
            "removed": len(removed),
            "reclaimed_bytes": sum(d.size_bytes for d in removed),
            "live": len(live),
            "skipped": len(decided.skip),
            "errors": len(errors),
            "snapshots_removed": len(thinned),
            "snapshot_bytes_freed": freed + thinned_bytes,
        },
        "errors": errors,
        "live": live,
        "snapshots": thinned,
    }


def _hours(value: float | str | None) -> float | None:
    return parse_duration(value) / 3600 if isinstance(value, str) else value


def _bytes(value: int | str | None) -> int | None:
    return parse_size(value) if isinstance(value, str) else value


def _long_deleted(root: Path, policy: RetentionPolicy, only: list[str] | None) -> list[Decision]:
    """Deleted sandboxes whose snapshots are as old as sessions may get."""
    if policy.max_age_hours is None:
        return []
    found = []
    for session_id in tombstones.by_age(root):
        buried = tombstones.read(root, session_id)
        with contextlib.suppress(BadRecord):
            moment = parse_time(buried.get("deleted_at")) if buried is not None else datetime.now(UTC)
            age = (datetime.now(UTC) - moment).total_seconds() / 3600
            wanted = only is None or session_id in only
            if buried is not None and age >= policy.max_age_hours and wanted and session_id not in policy.keep:
                found.append(Decision(session_id, "max_age_hours", age))
    return found


def _carry_out(
    root: Path, decided: Plan, found: Survey, place: Path | None, forgotten: list[str]
) -> tuple[set[str], dict[str, str], list[str]]:
    """Do it: what went, what went wrong, and what is in use."""
    for session_id in forgotten:
        tombstones.forget(root, session_id)  # first: the prune then takes their snapshots as leftovers
    if place is not None:
        saved = archive_planned(root, decided, place, _LOGGER)
        carry_out(root, Plan(), _LOGGER)
        done, errors, live = set(saved.archived), saved.errors, saved.live_sessions
    else:
        result = carry_out(root, decided, _LOGGER)
        done, errors, live = set(result.deleted_sessions), result.errors, result.live_sessions
    removal.sweep_temporaries(found.temporaries)
    return {*done, *forgotten}, errors, live


def _thin_out(root: Path, wanted: Mapping[str, Any] | None, dry_run: bool) -> tuple[list[str], int]:
    if not wanted:
        return [], 0
    policy = SnapshotRetention(
        max_age_hours=_hours(wanted.get("max_age_hours")),
        max_per_session=wanted.get("max_per_session"),
        max_total_bytes=_bytes(wanted.get("max_total_bytes")),
    )
    # A live session's kernel offers its snapshots to undo.
    done = prune_snapshots(policy, root, spare=live_sessions(root), dry_run=dry_run, logger=_LOGGER)
    return done.deleted, done.freed_bytes


def _told(root: Path, decision: Decision, action: str) -> dict[str, Any]:
    """What is told of a session; said before it goes, with its names."""
    session_id = decision.session_id
    return {
        "session_id": session_id,
        "action": action,
        "reason": decision.reason,
        "age_hours": round(decision.age_hours, 3) if action != "skip" else None,
        "size_bytes": decision.size_bytes,
        **_names(root, session_id),
        "archive": f"{session_id}.tar.zst" if action == "archive" else None,
    }


def _names(root: Path, session_id: str) -> dict[str, str]:
    extra: dict[str, Any] = {}
    folder = root / session_id
    with contextlib.suppress(BadRecord):
        record = read_record(folder) if not folder.is_symlink() else None
        extra = record.extra if record is not None else {}
    return {"notebook": str(extra.get("notebook") or "")[:4096], "title": str(extra.get("title") or "")[:200]}


def usage(root: Path) -> dict[str, int]:
    """What there is, in numbers."""
    found = survey(root, named=True).sessions
    with contextlib.closing(snapshot_store(root)) as store:
        snapshots, stored = len(store.manifest_names()), store.stored_bytes()
    return {
        "sessions": len(found),
        "session_bytes": sum(facts.size_bytes for facts in found),
        "live": sum(facts.live for facts in found),
        "snapshots": snapshots,
        "snapshot_bytes": stored,
        "deleted": sum(tombstones.read(root, name) is not None for name in tombstones.names(root)),
        "disk_free_bytes": shutil.disk_usage(root).free,
    }
