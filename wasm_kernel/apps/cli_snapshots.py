"""The parsers of `wasm-kernel snapshots …`; the commands are in `snapshot_commands`."""

from __future__ import annotations

from typing import Any

from wasm_kernel.apps.cli_parser import (
    PRUNE_SHAPE,
    add,
    add_consent,
    add_id,
    add_root,
    add_target,
    duration,
    imported_when_run,
    number,
    size,
)

_SNAPSHOT = """{"snapshot_id": "9e00b1c2-…", "session_id": "3f2a9c01-…",
 "trigger": "user", "created_at": "2026-11-22T10:15:30.123456Z",
 "label": "before cleaning", "parent": "", "execution_count": 13,
 "image_key": "5ba2…", "memory_bytes": 104857600, "file_count": 3,
 "file_bytes": 2048, "stored_bytes": 4096, "metadata": {},
 "saved_by": "0.1.0", "sequence": 1795342530123461"""
_IN_USE = "For a session in use, run `%session {}` in its notebook."


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    snapshots = add(commands, "snapshots", None, "Saved states of sessions: variables and files.")
    parts = snapshots.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (_list, _create, _show, _restore, _delete, _export, _import, _gc, _verify, _prune):
        command(parts)


def _list(parts: Any) -> None:
    made = add(
        parts,
        "list",
        imported_when_run("snapshot_commands", "list_command"),
        "List the snapshots of a session, or all, newest first.",
        more="In a pipe: one line per snapshot, fields separated by tabs.",
        examples="wasm-kernel snapshots list\nwasm-kernel snapshots list 3f2a9c01 --json",
        shape=f"[{_SNAPSHOT}}}]",
    )
    made.add_argument(
        "session", nargs="?", metavar="SESSION", help="only this session's: its id, or its first characters"
    )
    add_root(made)


def _create(parts: Any) -> None:
    made = add(
        parts,
        "create",
        imported_when_run("snapshot_commands", "create_command"),
        "Save a session as it is now.",
        more=_IN_USE.format("snapshot"),
        examples="wasm-kernel snapshots create 3f2a9c01 --label 'before cleaning'",
        shape=f"{_SNAPSHOT}}}",
    )
    add_id(made, "session")
    made.add_argument("--label", default="", metavar="TEXT", help="what to call it")
    add_root(made)


def _show(parts: Any) -> None:
    made = add(
        parts,
        "show",
        imported_when_run("snapshot_commands", "show_command"),
        "Show what is in a snapshot.",
        examples="wasm-kernel snapshots show 9e00b1c2",
        shape=f'{_SNAPSHOT},\n "variables": {{"df": "DataFrame"}}, "files": [{{"path": "a.csv", "size": 2048}}]}}',
    )
    add_id(made, "snapshot")
    add_root(made)


def _restore(parts: Any) -> None:
    made = add(
        parts,
        "restore",
        imported_when_run("snapshot_commands", "restore_command"),
        "Bring a session back to a snapshot: variables and files.",
        more=f"The present state is saved first, and can be restored in turn.\n{_IN_USE.format('restore')}",
        examples="wasm-kernel snapshots restore 9e00b1c2",
        shape=f"{_SNAPSHOT}}}",
    )
    add_id(made, "snapshot")
    add_root(made)


def _delete(parts: Any) -> None:
    made = add(
        parts,
        "delete",
        imported_when_run("snapshot_commands", "delete_command"),
        "Delete snapshots.",
        more="The session stays as it is. `wasm-kernel snapshots gc` frees the space.\n"
        "Snapshots of a session in use are not deleted: undo needs them.",
        examples="wasm-kernel snapshots delete --yes 9e00b1c2 9e11c2d3",
        shape='{"dry_run": false, "deleted": ["9e00b1c2-…"], "errors": {}}',
    )
    add_id(made, "snapshot", many=True)
    add_consent(made)
    add_root(made)


def _export(parts: Any) -> None:
    made = add(
        parts,
        "export",
        imported_when_run("snapshot_commands", "export_command"),
        "Write a snapshot to one file.",
        more="Another machine with the same image can continue from it.",
        examples="wasm-kernel snapshots export 9e00b1c2 monday.snapshot",
        shape='{"snapshot_id": "9e00b1c2-…", "path": "/home/ada/monday.snapshot",\n "size_bytes": 4096}',
    )
    add_id(made, "snapshot")
    add_target(made, "SNAPSHOT.snapshot")
    add_root(made)


def _import(parts: Any) -> None:
    made = add(
        parts,
        "import",
        imported_when_run("snapshot_commands", "import_command"),
        "Create a new session from an exported snapshot.",
        examples="wasm-kernel snapshots import monday.snapshot",
        shape='{"session_id": "b4d5e6f7-…", "snapshot_id": "aa00b1c2-…",\n "path": "/home/ada/…/b4d5e6f7-…"}',
    )
    made.add_argument("file", metavar="FILE", help="a file written by `snapshots export`")
    add_root(made)


def _gc(parts: Any) -> None:
    made = add(
        parts,
        "gc",
        imported_when_run("snapshot_commands", "gc_command"),
        "Free the space that no snapshot needs any more.",
        examples="wasm-kernel snapshots gc --wait 1m",
        shape='{"freed_bytes": 4096, "packs_removed": 1, "packs_rewritten": 0,\n'
        ' "chunks_live": 120, "missing": 0, "unreadable": [], "damaged_packs": [],\n "incomplete": ""}',
    )
    made.add_argument(
        "--wait",
        type=duration,
        default=10.0,
        metavar="TIME",
        help="how long to wait for snapshots being taken (default: 10s)",
    )
    add_root(made)


def _verify(parts: Any) -> None:
    made = add(
        parts,
        "verify",
        imported_when_run("snapshot_commands", "verify_command"),
        "Read everything stored, and say which snapshots are intact.",
        examples="wasm-kernel snapshots verify",
        shape='{"whole": false, "chunks": 120, "read_bytes": 4096, "damaged": ["5ba2…"],\n'
        ' "damaged_packs": [], "snapshots": [{"session_id": "3f2a9c01-…",\n'
        '  "snapshot_id": "9e00b1c2-…", "problem": "1 chunk is damaged"}]}',
    )
    add_root(made)


def _prune(parts: Any) -> None:
    made = add(
        parts,
        "prune",
        imported_when_run("snapshot_commands", "prune_command"),
        "Delete snapshots that are old, too many or too large.",
        more="The oldest go first, those taken by hand last. The newest of a session stays,\n"
        "and so do those of sessions in use. Without a bound none is deleted.",
        examples="wasm-kernel snapshots prune --older-than 30d --dry-run\n"
        "wasm-kernel snapshots prune --max-per-session 10 --max-total 20G --yes",
        shape=PRUNE_SHAPE,
    )
    made.add_argument("--older-than", type=duration, metavar="TIME", help="taken at least this long ago: 36h, 7d, 2w")
    made.add_argument("--max-per-session", type=number, metavar="N", help="keep at most this many per session")
    made.add_argument("--max-total", type=size, metavar="SIZE", help="keep at most this much in total: 500M, 20G")
    made.add_argument("--session", metavar="SESSION", help="only this session's")
    add_consent(made)
    add_root(made)
