"""What `wasm-kernel sessions …` does, except deleting: that is in `prune_commands`."""

from __future__ import annotations

import argparse
from pathlib import Path

from wasm_kernel.apps.cli_output import age, complain, counted, fields, plainly, progress, short_ids, show_json, table
from wasm_kernel.apps.cli_parser import (
    DONE,
    FAILED,
    NOTHING,
    NotThere,
    quiet,
    root_of,
    session_of,
    snapshot_ids,
    snapshot_of,
    target_of,
)
from wasm_kernel.errors import BadArchive, ConfigurationError, WasmKernelError
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.archive import export_session, import_session
from wasm_kernel.sessions.catalog import repair_session_metadata
from wasm_kernel.sessions.files import list_session_files
from wasm_kernel.sessions.session_list import SessionSummary, list_sessions
from wasm_kernel.sessions.snapshots import fork_session

PROBLEMS = {
    "no_metadata": "no metadata",
    "corrupted_metadata": "damaged metadata",
    "foreign_metadata": "metadata of another session or version",
    "symlink": "a link",
    "mount_inside": "a mount inside",
}


# ---- looking


def list_command(options: argparse.Namespace) -> int:
    """List all sessions."""
    root = root_of(options)
    found = list_sessions(root)
    if options.json:
        show_json([s.info() for s in found])
    elif found:
        shown = short_ids(s.session_id for s in found)
        rows = [
            (shown[s.session_id], _name(s), s.execution_count, format_size(s.size_bytes), age(s.updated_at), _state(s))
            for s in found
        ]
        total = format_size(sum(s.size_bytes for s in found))
        head = ("session", "title or notebook", "cells", "size", "last used", "state")
        table(head, rows, numbers=(2, 3), title=f"{counted(len(found), 'session')}, {total}, in {root}")
    else:
        complain(f"there are no sessions in {str(root)!r}", NOTHING)
    return DONE if found else NOTHING


def show_command(options: argparse.Namespace) -> int:
    """Show one session."""
    root = root_of(options)
    session_id = session_of(root, options.session)
    summary = next((s for s in list_sessions(root) if s.session_id == session_id), None)
    if summary is None:
        raise NotThere(f"session {session_id} was just deleted")
    count = 0 if summary.problem == "symlink" else len(list_session_files(session_id, root))
    if options.json:
        show_json({**summary.info(), "path": root / session_id, "file_count": count})
        return DONE
    created, used = ("" if m is None else f"{m:%Y-%m-%d %H:%M} UTC" for m in (summary.created_at, summary.updated_at))
    fields(
        [
            ("session", session_id),
            ("title", summary.title),
            ("notebook", summary.notebook),
            ("former notebook", summary.former_notebook),
            ("folder", root / session_id),
            ("created", created and f"{created}, {age(summary.created_at)}"),
            ("last used", used and f"{used}, {age(summary.updated_at)}"),
            ("state", _state(summary) or "not in use"),
            ("cells run", summary.execution_count),
            ("files", f"{count:,}, {format_size(summary.size_bytes)}"),
            ("snapshots", f"{summary.snapshot_count:,}"),
        ]
    )
    return DONE


def files_command(options: argparse.Namespace) -> int:
    """List a session's files."""
    root = root_of(options)
    found = list_session_files(session_of(root, options.session), root, options.pattern)
    if options.json:
        show_json([{"path": str(f), "size": f.size, "kind": f.kind, "modified_at": f.modified_at} for f in found])
    elif found:
        rows = [(f, "" if f.kind == "file" else f.kind, format_size(f.size), age(f.modified_at)) for f in found]
        total = format_size(sum(f.size for f in found))
        table(
            ("file", "kind", "size", "changed"), rows, numbers=(2,), title=f"{counted(len(found), 'file')}, {total}"
        )  # fmt: skip
    else:
        matching = f" that match {options.pattern!r}" if options.pattern else ""
        complain(f"session {options.session} has no files{matching}", NOTHING)
    return DONE if found else NOTHING


def _name(summary: SessionSummary) -> str:
    former = f"formerly {Path(summary.former_notebook).name}" if summary.former_notebook else ""
    return summary.title or Path(summary.notebook).name or former


def _state(summary: SessionSummary) -> str:
    return "in use" if summary.live else PROBLEMS.get(summary.problem, summary.problem)


# ---- moving


def export_command(options: argparse.Namespace) -> int:
    """Write a session to a file."""
    root = root_of(options)
    session_id = session_of(root, options.session)
    target = target_of(options, f"{session_id}.tar.zst")
    with progress("Exporting") as update:
        path = export_session(session_id, target, root, on_progress=update, logger=quiet())
    written = path.stat().st_size
    if options.json:
        show_json({"session_id": session_id, "path": path, "size_bytes": written})
    else:
        print(f"Exported session {session_id} to {path}, {format_size(written)}.")
    return DONE


def import_command(options: argparse.Namespace) -> int:
    """Create a session from a file."""
    root = root_of(options, make=True)
    try:
        with progress("Importing") as update:
            session_id = import_session(
                options.file,
                root,
                max_bytes=options.max_size,
                max_files=options.max_files,
                on_progress=update,
                logger=quiet(),
            )
    except BadArchive as e:
        text = str(e).replace("pass max_bytes", "use --max-size").replace("pass max_files", "use --max-files")
        return complain(text, FAILED)
    if options.json:
        show_json({"session_id": session_id, "path": root / session_id})
    else:
        print(f"Imported {options.file} as session {session_id}.")
    return DONE


def fork_command(options: argparse.Namespace) -> int:
    """Create a session that continues from another one."""
    root = root_of(options)
    session_id = session_of(root, options.session)
    snapshot_id = snapshot_of(root, options.snapshot) if options.snapshot is not None else None
    if snapshot_id is not None and snapshot_ids(root).get(snapshot_id) != session_id:
        raise ConfigurationError(
            f"snapshot {snapshot_id} does not belong to session {session_id}; see `wasm-kernel snapshots list`"
        )
    with progress("Forking"):
        new = fork_session(session_id, root, snapshot_id=snapshot_id, logger=quiet())
    if options.json:
        show_json({"session_id": new, "forked_from": session_id, "path": root / new})
    else:
        print(f"Forked session {session_id}: the new one is {new}.")
    return DONE


def repair_command(options: argparse.Namespace) -> int:
    """Write new metadata for sessions."""
    root = root_of(options)
    done, failures = [], []
    for wanted in options.sessions:
        try:
            done.append(repair_session_metadata(session_of(root, wanted), root, quiet()))
        except (WasmKernelError, OSError) as e:
            failures.append(e)
            complain(plainly(e), FAILED)
    if options.json:
        show_json([{"session_id": r.session_id, "created_at": r.created_at, "updated_at": r.updated_at} for r in done])
    else:
        for record in done:
            print(f"Session {record.session_id} has new metadata: last used {age(record.updated_at)}.")
    if not failures:
        return DONE
    return NOTHING if not done and all(isinstance(e, NotThere) for e in failures) else FAILED
