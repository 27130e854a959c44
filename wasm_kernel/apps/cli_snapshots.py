"""`wasm-kernel snapshots …`: saved moments of sessions."""

from __future__ import annotations

import argparse
import contextlib
import os
from dataclasses import asdict
from typing import Any

from wasm_kernel.apps.cli_output import age, complain, counted, fields, plainly, progress, short_ids, show_json, table
from wasm_kernel.apps.cli_parser import (
    DONE,
    FAILED,
    NOTHING,
    PRUNE_SHAPE,
    NotThere,
    add,
    add_consent,
    add_id,
    add_root,
    add_target,
    agreed,
    check_consent,
    duration,
    number,
    quiet,
    root_of,
    session_of,
    size,
    snapshot_ids,
    snapshot_of,
    target_of,
)
from wasm_kernel.errors import WasmKernelError
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_size

_SNAPSHOT = """{"snapshot_id": "9e00b1c2-…", "session_id": "3f2a9c01-…",
 "trigger": "user", "created_at": "2026-11-22T10:15:30.123456Z",
 "label": "before cleaning", "parent": "", "execution_count": 13,
 "image_key": "5ba2…", "memory_bytes": 104857600, "file_count": 3,
 "file_bytes": 2048, "stored_bytes": 4096, "metadata": {}"""
_IN_USE = "For a session in use, `%session {}` in its notebook does it."
_TRIGGERS = {"session_close": "closed", "user": "by hand", "checkpoint": "after a cell"}


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    snapshots = add(commands, "snapshots", None, "Saved moments of sessions: variables and files.")
    parts = snapshots.add_subparsers(title="commands", metavar="COMMAND", required=True)

    made = add(
        parts,
        "list",
        list_command,
        "List the snapshots of a session, or all, the newest first.",
        more="In a pipe: a line per snapshot, its fields separated by tabs.",
        examples="wasm-kernel snapshots list\nwasm-kernel snapshots list 3f2a9c01 --json",
        shape=f"[{_SNAPSHOT}}}]",
    )
    made.add_argument("session", nargs="?", metavar="SESSION", help="only this session's: its id, or how that begins")
    add_root(made)

    made = add(
        parts,
        "create",
        create_command,
        "Save a session as it is now.",
        more=_IN_USE.format("snapshot"),
        examples="wasm-kernel snapshots create 3f2a9c01 --label 'before cleaning'",
        shape=f"{_SNAPSHOT}}}",
    )
    add_id(made, "session")
    made.add_argument("--label", default="", metavar="TEXT", help="what to call it")
    add_root(made)

    made = add(
        parts,
        "show",
        show_command,
        "Show what is in a snapshot.",
        examples="wasm-kernel snapshots show 9e00b1c2",
        shape=f'{_SNAPSHOT},\n "variables": {{"df": "DataFrame"}}, "files": [{{"path": "a.csv", "size": 2048}}]}}',
    )
    add_id(made, "snapshot")
    add_root(made)

    made = add(
        parts,
        "restore",
        restore_command,
        "Make a session what it was: variables and files.",
        more=f"How it is now is saved first, and can be restored in turn.\n{_IN_USE.format('restore')}",
        examples="wasm-kernel snapshots restore 9e00b1c2",
        shape=f"{_SNAPSHOT}}}",
    )
    add_id(made, "snapshot")
    add_root(made)

    made = add(
        parts,
        "delete",
        delete_command,
        "Delete snapshots.",
        more="The session stays as it is. `wasm-kernel snapshots gc` gives the space back.\n"
        "Those of a session in use are not deleted: they are what undo goes back to.",
        examples="wasm-kernel snapshots delete --yes 9e00b1c2 9e11c2d3",
        shape='{"dry_run": false, "deleted": ["9e00b1c2-…"], "errors": {}}',
    )
    add_id(made, "snapshot", many=True)
    add_consent(made)
    add_root(made)

    made = add(
        parts,
        "export",
        export_command,
        "Write a snapshot to one file.",
        more="Another machine with the same image can go on from it.",
        examples="wasm-kernel snapshots export 9e00b1c2 monday.snapshot",
        shape='{"snapshot_id": "9e00b1c2-…", "path": "/home/ada/monday.snapshot",\n "size_bytes": 4096}',
    )
    add_id(made, "snapshot")
    add_target(made, "SNAPSHOT.snapshot")
    add_root(made)

    made = add(
        parts,
        "import",
        import_command,
        "Make a new session of an exported snapshot.",
        examples="wasm-kernel snapshots import monday.snapshot",
        shape='{"session_id": "b4d5e6f7-…", "snapshot_id": "aa00b1c2-…",\n "path": "/home/ada/…/b4d5e6f7-…"}',
    )
    made.add_argument("file", metavar="FILE", help="what `snapshots export` wrote")
    add_root(made)

    made = add(
        parts,
        "gc",
        gc_command,
        "Give back the space that no snapshot needs any more.",
        examples="wasm-kernel snapshots gc --wait 1m",
        shape='{"freed_bytes": 4096, "packs_removed": 1, "packs_rewritten": 0,\n'
        ' "chunks_live": 120, "missing": 0, "unreadable": [], "damaged_packs": [],\n "incomplete": ""}',
    )
    made.add_argument(
        "--wait", type=duration, default=10.0, metavar="TIME", help="for those who take one (default: 10s)"
    )
    add_root(made)

    made = add(
        parts,
        "verify",
        verify_command,
        "Read everything stored, and say which snapshots are whole.",
        examples="wasm-kernel snapshots verify",
        shape='{"whole": false, "chunks": 120, "read_bytes": 4096, "damaged": ["5ba2…"],\n'
        ' "damaged_packs": [], "snapshots": [{"session_id": "3f2a9c01-…",\n'
        '  "snapshot_id": "9e00b1c2-…", "problem": "1 chunk is damaged"}]}',
    )
    add_root(made)

    made = add(
        parts,
        "prune",
        prune_command,
        "Delete snapshots that are old, or too many, or too large.",
        more="The oldest go first, those taken by hand last. The newest of a session stays,\n"
        "and so do those of sessions in use. Without a bound none goes.",
        examples="wasm-kernel snapshots prune --older-than 30d --dry-run\n"
        "wasm-kernel snapshots prune --max-per-session 10 --max-total 20G --yes",
        shape=PRUNE_SHAPE,
    )
    made.add_argument("--older-than", type=duration, metavar="TIME", help="taken so long ago: 36h, 7d, 2w")
    made.add_argument("--max-per-session", type=number, metavar="N", help="at most so many of each session stay")
    made.add_argument("--max-total", type=size, metavar="SIZE", help="at most so much space in all: 500M, 20G")
    made.add_argument("--session", metavar="SESSION", help="only this session's")
    add_consent(made)
    add_root(made)


# ---- looking


def list_command(options: argparse.Namespace) -> int:
    """All snapshots, or a session's."""
    from wasm_kernel.sessions.snapshots import list_snapshots

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
        complain("there is no snapshot", NOTHING)
    return DONE if found else NOTHING


def show_command(options: argparse.Namespace) -> int:
    """One snapshot."""
    from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store

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
    """A snapshot of now."""
    from wasm_kernel.sessions.snapshots import create_snapshot

    root = root_of(options)
    session_id = session_of(root, options.session)
    with progress("Saving"):
        made = create_snapshot(session_id, root, label=options.label, logger=quiet())
    return _made(made, f"Saved session {session_id} as snapshot {made.snapshot_id}.", options)


def restore_command(options: argparse.Namespace) -> int:
    """A session as it was."""
    from wasm_kernel.sessions.snapshots import restore_snapshot

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
    """A snapshot as a file."""
    from wasm_kernel.sessions.snapshots import export_snapshot

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
    """A file as a session."""
    from wasm_kernel.sessions.snapshots import import_snapshot

    root = root_of(options, make=True)
    with progress("Importing") as update:
        session_id, snapshot = import_snapshot(options.file, root, on_progress=update, logger=quiet())
    if options.json:
        show_json({"session_id": session_id, "snapshot_id": snapshot.snapshot_id, "path": root / session_id})
    else:
        print(f"Imported {options.file} as session {session_id}.")
    return DONE


# ---- keeping house


def delete_command(options: argparse.Namespace) -> int:
    """Snapshots, by their ids."""
    from wasm_kernel.sessions.snapshots import delete_snapshot

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
    """Snapshots, by a policy."""
    from wasm_kernel.model.snapshot_retention import SnapshotRetention
    from wasm_kernel.sessions.housekeeping import carry_out, foreseen, plan_thinning, report

    check_consent(options)
    root = root_of(options)
    session_id = session_of(root, options.session) if options.session is not None else None
    if options.older_than is None and options.max_per_session is None and options.max_total is None:
        complain(
            "without a bound no snapshot goes; say what should: --older-than, --max-per-session or --max-total", NOTHING
        )
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
    """Space."""
    from wasm_kernel.sessions.snapshots import collect_snapshots

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
    """Is everything whole?"""
    from wasm_kernel.sessions.snapshots import verify_snapshots

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
        print(f"Read {what}: {'all is whole' if found.whole else f'{len(bad)} of them cannot be used'}.")
    return DONE if found.whole else FAILED
