"""What `wasm-kernel snapshots …` does."""

from __future__ import annotations

import argparse
import contextlib
import os
from dataclasses import asdict

from wasm_kernel.apps.cli_output import age, complain, counted, fields, plainly, progress, short_ids, show_json, table
from wasm_kernel.apps.cli_parser import (
    DONE,
    FAILED,
    NOTHING,
    NotThere,
    agreed,
    check_consent,
    quiet,
    root_of,
    session_of,
    snapshot_ids,
    snapshot_of,
    target_of,
)
from wasm_kernel.errors import WasmKernelError
from wasm_kernel.model.snapshot_retention import SnapshotRetention
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.housekeeping import carry_out, foreseen, plan_thinning, report
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store
from wasm_kernel.sessions.snapshots import (
    collect_snapshots,
    create_snapshot,
    delete_snapshot,
    export_snapshot,
    import_snapshot,
    list_snapshots,
    restore_snapshot,
    verify_snapshots,
)

_TRIGGERS = {"session_close": "closed", "user": "by hand", "checkpoint": "after a cell"}


# ---- looking


def list_command(options: argparse.Namespace) -> int:
    """List all snapshots, or a session's."""
    root = root_of(options)
    found = list_snapshots(root, session_of(root, options.session) if options.session is not None else None)
    if options.json:
        show_json([asdict(s) for s in found])
    elif found:
        shown = short_ids([*snapshot_ids(root), *(s.snapshot_id for s in found)])
        whose = short_ids(s.session_id for s in found)
        rows = [
            (
                shown[s.snapshot_id],
                whose[s.session_id],
                s.label or _TRIGGERS[s.trigger],
                s.execution_count,
                format_size(s.stored_bytes),
                age(s.created_at),
            )
            for s in found
        ]
        head = ("snapshot", "session", "label", "next cell", "added", "taken")
        table(head, rows, numbers=(3, 4), title=f"{counted(len(found), 'snapshot')} in {root}")
    else:
        complain("there are no snapshots", NOTHING)
    return DONE if found else NOTHING


def show_command(options: argparse.Namespace) -> int:
    """Show one snapshot."""
    root = root_of(options)
    snapshot_id = snapshot_of(root, options.snapshot)
    with contextlib.closing(snapshot_store(root)) as store:
        manifest = read_snapshot(store, snapshot_ids(root)[snapshot_id], snapshot_id)
    s = manifest.snapshot
    files = [
        {"path": os.fsdecode(f.path).encode(errors="replace").decode(), "size": f.size}
        for f in manifest.files
        if f.mount == "app" and f.kind == "file"
    ]
    variables = {name: str(value[0]) for name, value in manifest.variables.items()}
    if options.json:
        show_json({**asdict(s), "variables": variables, "files": files})
        return DONE
    fields(
        [
            ("snapshot", s.snapshot_id),
            ("session", s.session_id),
            ("label", s.label),
            ("taken", f"{s.created_at:%Y-%m-%d %H:%M} UTC, {age(s.created_at)}, {_TRIGGERS[s.trigger]}"),
            ("next cell", s.execution_count),
            ("memory", format_size(s.memory_bytes)),
            ("added", format_size(s.stored_bytes)),
            ("image", s.image_key),
            ("files", f"{s.file_count:,}, {format_size(s.file_bytes)}"),
            ("variables", ", ".join(f"{name} ({kind})" for name, kind in variables.items())),
        ]
    )
    return DONE


# ---- taking and restoring


def create_command(options: argparse.Namespace) -> int:
    """Take a snapshot of a session."""
    root = root_of(options)
    session_id = session_of(root, options.session)
    with progress("Saving"):
        made = create_snapshot(session_id, root, label=options.label, logger=quiet())
    return _made(made, f"Saved session {session_id} as snapshot {made.snapshot_id}.", options)


def restore_command(options: argparse.Namespace) -> int:
    """Bring a session back to a snapshot."""
    root = root_of(options)
    snapshot_id = snapshot_of(root, options.snapshot)
    with progress("Restoring"):
        made = restore_snapshot(snapshot_id, root, logger=quiet())
    return _made(made, f"Session {made.session_id} is as it was in snapshot {snapshot_id}.", options)


def _made(made: Snapshot, text: str, options: argparse.Namespace) -> int:
    if options.json:
        show_json(asdict(made))
    else:
        print(text)
    return DONE


def export_command(options: argparse.Namespace) -> int:
    """Write a snapshot to a file."""
    root = root_of(options)
    snapshot_id = snapshot_of(root, options.snapshot)
    target = target_of(options, f"{snapshot_id}.snapshot")
    with progress("Exporting") as update:
        path = export_snapshot(snapshot_id, target, root, on_progress=update)
    written = path.stat().st_size
    if options.json:
        show_json({"snapshot_id": snapshot_id, "path": path, "size_bytes": written})
    else:
        print(f"Exported snapshot {snapshot_id} to {path}, {format_size(written)}.")
    return DONE


def import_command(options: argparse.Namespace) -> int:
    """Create a session from a file."""
    root = root_of(options, make=True)
    with progress("Importing") as update:
        session_id, snapshot = import_snapshot(options.file, root, on_progress=update, logger=quiet())
    if options.json:
        show_json({"session_id": session_id, "snapshot_id": snapshot.snapshot_id, "path": root / session_id})
    else:
        print(f"Imported {options.file} as session {session_id}.")
    return DONE


# ---- deleting and checking


def delete_command(options: argparse.Namespace) -> int:
    """Delete snapshots by their ids."""
    root = root_of(options)
    check_consent(options)
    errors: dict[str, str] = {}
    wanted: dict[str, None] = {}
    for given in options.snapshots:
        try:
            wanted[snapshot_of(root, given)] = None
        except NotThere as e:
            errors[given] = str(e)
    if wanted and not options.dry_run and not agreed(options, f"Delete {counted(len(wanted), 'snapshot')}?"):
        return FAILED
    deleted = []
    for snapshot_id in wanted:
        try:
            if not options.dry_run:
                delete_snapshot(snapshot_id, root, logger=quiet())
            deleted.append(snapshot_id)
        except (WasmKernelError, OSError) as e:
            errors[snapshot_id] = plainly(e)
    if options.json:
        show_json({"dry_run": options.dry_run, "deleted": deleted, "errors": errors})
    else:
        for text in errors.values():
            complain(text, FAILED)
        print(f"{'Would delete' if options.dry_run else 'Deleted'} {counted(len(deleted), 'snapshot')}.")
    if not errors:
        return DONE
    return FAILED if wanted else NOTHING


def prune_command(options: argparse.Namespace) -> int:
    """Delete snapshots by a policy."""
    check_consent(options)
    root = root_of(options)
    session_id = session_of(root, options.session) if options.session is not None else None
    if options.older_than is None and options.max_per_session is None and options.max_total is None:
        complain("without a bound no snapshot is deleted; give --older-than, --max-per-session or --max-total", NOTHING)
    policy = SnapshotRetention(
        max_age_hours=None if options.older_than is None else options.older_than / 3600,
        max_per_session=options.max_per_session,
        max_total_bytes=options.max_total,
    )
    planned = plan_thinning(root, policy, session_id)
    result = foreseen(planned)
    if not options.dry_run:
        amount = f"{counted(len(planned.snapshots), 'snapshot')}, about {format_size(planned.snapshot_bytes)}"
        if planned.snapshots and not agreed(options, f"Delete {amount}?"):
            return FAILED
        with progress("Deleting"):
            result = carry_out(root, planned, quiet())
    if options.json:
        show_json(report(planned, result))
    else:
        verb, about = ("Would delete", "about ") if options.dry_run else ("Deleted", "")
        freed = format_size(result.snapshot_bytes_freed)
        print(f"{verb} {counted(len(result.deleted_snapshots), 'snapshot')}, {about}{freed}.")
    return DONE if planned.snapshots else NOTHING


def gc_command(options: argparse.Namespace) -> int:
    """Free the space that no snapshot needs."""
    root = root_of(options)
    with progress("Collecting"):
        done = collect_snapshots(root, wait=options.wait)
    bad = [f"{counted(done.missing, 'chunk')} missing"] if done.missing else []
    bad += [f"snapshot {name} of session {group} cannot be read" for group, name in done.unreadable]
    bad += [f"pack {name} is damaged" for name in done.damaged_packs]
    bad += [done.incomplete] if done.incomplete else []
    if options.json:
        found = asdict(done)
        show_json({"freed_bytes": found.pop("freed"), **found})
    else:
        for text in bad:
            complain(f"{text}; `wasm-kernel snapshots verify` says more", FAILED)
        print(f"Freed {format_size(done.freed)}.")
    return FAILED if bad else DONE


def verify_command(options: argparse.Namespace) -> int:
    """Check that everything stored is intact."""
    root = root_of(options)
    with progress("Reading") as update:
        found = verify_snapshots(root, on_progress=update)
    snapshots = [
        {"session_id": group, "snapshot_id": name, "problem": problem}
        for (group, name), problem in found.manifests.items()
    ]
    bad = [s for s in snapshots if s["problem"]]
    if options.json:
        show_json(
            {
                "whole": found.whole,
                "chunks": found.chunks,
                "read_bytes": found.read,
                "damaged": found.damaged,
                "damaged_packs": found.damaged_packs,
                "snapshots": snapshots,
            }
        )
    else:
        for s in bad:
            complain(f"snapshot {s['snapshot_id']} of session {s['session_id']} cannot be used: {s['problem']}", FAILED)
        for name in found.damaged_packs:
            complain(f"pack {name} cannot be read", FAILED)
        what = f"{counted(len(snapshots), 'snapshot')}, {counted(found.chunks, 'chunk')}, {format_size(found.read)}"
        print(f"Read {what}: {'everything is intact' if found.whole else f'{len(bad)} of them cannot be used'}.")
    return DONE if found.whole else FAILED
