"""Prune a workspace, or plan to, and count what it holds. Reads and changes the disk."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.remote.objects import open_objects
from wasm_kernel.model.prune_report import PruneReport, PruneRequest, SnapshotBounds
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.model.snapshot_retention import SnapshotRetention
from wasm_kernel.model.units import parse_duration, parse_size
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.housekeeping import carry_out, foreseen, plan_housekeeping, report
from wasm_kernel.sessions.inventory import survey
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import snapshot_store

_LOGGER = SandboxLogger(level="error")


def prune(
    root: Path, wanted: PruneRequest, archive_folder: Path | None, remote: str = "", *, dry_run: bool
) -> PruneReport:
    """Prune by the fields of a request; return what was deleted, or would be.

    ``remote``: the object store that sessions are pushed to.
    """
    archive = wanted["archive"]
    if archive and archive_folder is None:
        raise Problem(
            409, "no archive folder is configured; the administrator can set WasmKernelExtension.archive_folder"
        )
    policy = RetentionPolicy(
        max_age_hours=_hours(wanted.get("max_age_hours")),
        max_sessions=wanted.get("max_sessions"),
        max_total_bytes=_bytes(wanted.get("max_total_bytes")),
        min_free_bytes=_bytes(wanted.get("min_free_bytes")),
        keep=frozenset(wanted.get("keep", ())),
    )
    planned = plan_housekeeping(
        root,
        policy,
        snapshots=_snapshots(wanted.get("snapshots")),
        stamps=wanted.get("stamps"),
        only=wanted.get("only"),
        max_deletions=wanted.get("max_deletions"),
        archive_to=archive_folder if archive else None,
        snapshot=wanted.get("snapshot", False),
        store=open_objects(remote) if remote else None,
    )
    return report(planned, foreseen(planned) if dry_run else carry_out(root, planned, _LOGGER))


def _hours(value: float | str | None) -> float | None:
    return parse_duration(value) / 3600 if isinstance(value, str) else value


def _bytes(value: int | str | None) -> int | None:
    return parse_size(value) if isinstance(value, str) else value


def _snapshots(wanted: SnapshotBounds | None) -> SnapshotRetention | None:
    if not wanted:
        return None
    return SnapshotRetention(
        max_age_hours=_hours(wanted.get("max_age_hours")),
        max_per_session=wanted.get("max_per_session"),
        max_total_bytes=_bytes(wanted.get("max_total_bytes")),
    )


def usage(root: Path) -> dict[str, int]:
    """The totals of a workspace."""
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
