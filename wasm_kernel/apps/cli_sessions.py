"""The parsers of `wasm-kernel sessions …` and `wasm-kernel prune`; the commands are in `…_commands`."""

from __future__ import annotations

from typing import Any

from wasm_kernel.apps.cli_parser import (
    PRUNE_SHAPE,
    Parser,
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

_SUMMARY = """{"session_id": "3f2a9c01-…", "created_at": "2026-11-22T10:15:30.123456Z",
 "updated_at": "2026-11-22T11:00:00.000000Z", "size_bytes": 2048,
 "live": false, "problem": "", "title": "", "notebook": "/home/ada/a.ipynb",
 "former_notebook": "", "execution_count": 12, "snapshot_count": 30,
 "stamp": "812345-1795345200000000000\""""


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    sessions = add(commands, "sessions", None, "Inspect, move, copy, repair and delete sessions.")
    parts = sessions.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (_list, _show, _files, _delete, _export, _import, _fork, _repair):
        command(parts)
    _prune(commands)


def _list(parts: Any) -> None:
    made = add(
        parts,
        "list",
        imported_when_run("session_commands", "list_command"),
        "List all sessions, most recently used first.",
        more="In a pipe: one line per session, fields separated by tabs.",
        examples="wasm-kernel sessions list\nwasm-kernel sessions list | cut -f1\n"
        "wasm-kernel sessions list --json | jq '.[] | select(.live)'",
        shape=f"[{_SUMMARY}}}]",
    )
    add_root(made)


def _show(parts: Any) -> None:
    made = add(
        parts,
        "show",
        imported_when_run("session_commands", "show_command"),
        "Show the details of a session.",
        examples="wasm-kernel sessions show 3f2a9c01",
        shape=f'{_SUMMARY},\n "path": "/home/ada/…/3f2a9c01-…", "file_count": 3}}',
    )
    add_id(made, "session")
    add_root(made)


def _files(parts: Any) -> None:
    made = add(
        parts,
        "files",
        imported_when_run("session_commands", "files_command"),
        "List a session's files.",
        examples="wasm-kernel sessions files 3f2a9c01\nwasm-kernel sessions files 3f2a9c01 '*.csv'",
        shape='[{"path": "data/a.csv", "size": 2048, "kind": "file",\n  "modified_at": "2026-11-22T10:15:30.123456Z"}]',
    )
    add_id(made, "session")
    made.add_argument("pattern", nargs="?", metavar="PATTERN", help="only files that match, such as '*.csv'")
    add_root(made)


def _delete(parts: Any) -> None:
    made = add(
        parts,
        "delete",
        imported_when_run("prune_commands", "delete_command"),
        "Delete sessions with their files and snapshots.",
        more="A session in use is not deleted. One that was pushed to the object store\n"
        "is deleted there, too, unless another machine has gone on with it.",
        examples="wasm-kernel sessions delete 3f2a9c01\nwasm-kernel sessions delete --yes 3f2a9c01 77aa01f0",
        shape=PRUNE_SHAPE,
    )
    add_id(made, "session", many=True)
    _add_snapshot(made)
    _add_store(made)
    add_consent(made)
    add_root(made)


def _export(parts: Any) -> None:
    made = add(
        parts,
        "export",
        imported_when_run("session_commands", "export_command"),
        "Write a session's files and metadata to one file.",
        more="Variables are not included; `wasm-kernel snapshots export` includes them.",
        examples="wasm-kernel sessions export 3f2a9c01\nwasm-kernel sessions export 3f2a9c01 backup/monday.zip",
        shape='{"session_id": "3f2a9c01-…", "path": "/home/ada/monday.zip",\n "size_bytes": 2048}',
    )
    add_id(made, "session")
    add_target(made, "SESSION.tar.zst; .zip works too")
    add_root(made)


def _import(parts: Any) -> None:
    made = add(
        parts,
        "import",
        imported_when_run("session_commands", "import_command"),
        "Create a new session from an exported one.",
        examples="wasm-kernel sessions import monday.zip",
        shape='{"session_id": "3f2a9c01-…", "path": "/home/ada/…/3f2a9c01-…"}',
    )
    made.add_argument("file", metavar="FILE", help="a .zip or .tar.zst written by `sessions export`")
    made.add_argument("--max-size", type=size, default=16 << 30, metavar="SIZE", help="refuse more (default: 16G)")
    made.add_argument("--max-files", type=number, default=200_000, metavar="N", help="refuse more (default: 200000)")
    add_root(made)


def _fork(parts: Any) -> None:
    made = add(
        parts,
        "fork",
        imported_when_run("session_commands", "fork_command"),
        "Create a new session that continues from another one.",
        more="It has the other's variables and files. To fork a session in use, run\n`%session fork` in its notebook.",
        examples="wasm-kernel sessions fork 3f2a9c01\nwasm-kernel sessions fork 3f2a9c01 --snapshot 9e00b1c2",
        shape='{"session_id": "b4d5e6f7-…", "forked_from": "3f2a9c01-…",\n "path": "/home/ada/…/b4d5e6f7-…"}',
    )
    add_id(made, "session")
    made.add_argument("--snapshot", metavar="SNAPSHOT", help="continue from this snapshot instead")
    add_root(made)


def _repair(parts: Any) -> None:
    made = add(
        parts,
        "repair",
        imported_when_run("session_commands", "repair_command"),
        "Write new metadata where it is missing or damaged.",
        more="It is made from the times of the files. Afterwards the sessions can be pruned.",
        examples="wasm-kernel sessions repair 77aa01f0",
        shape='[{"session_id": "77aa01f0-…", "created_at": "2026-11-22T10:15:30.123456Z",\n'
        '  "updated_at": "2026-11-22T11:00:00.000000Z"}]',
    )
    add_id(made, "session", many=True)
    add_root(made)


def _prune(commands: Any) -> None:
    made = add(
        commands,
        "prune",
        imported_when_run("prune_commands", "prune_command"),
        "Delete sessions that are old, too many or too large.",
        more="The longest unused go first, until every given bound is met. Sessions in use,\n"
        "sessions with a name of their own and sessions without metadata are never\n"
        "deleted. What killed processes left behind is deleted too, and the remains of\n"
        "sessions deleted before --older-than. Without a bound no session is deleted.\n"
        "Sessions in the kernel's object store count, and are deleted there, too.\n"
        "In a systemd service, set SuccessExitStatus=3.",
        examples="wasm-kernel prune --older-than 36h --dry-run\n"
        "wasm-kernel prune --max-total 20G --min-free 5G --archive old/\n"
        "wasm-kernel prune --older-than 30d --keep 3f2a9c01 77aa01f0 --yes",
        shape=PRUNE_SHAPE,
    )
    made.add_argument("--older-than", type=duration, metavar="TIME", help="unused for this long: 90m, 36h, 7d, 2w")
    made.add_argument("--max-sessions", type=number, metavar="N", help="keep at most this many")
    made.add_argument("--max-total", type=size, metavar="SIZE", help="keep at most this much in total: 500M, 20G")
    made.add_argument("--min-free", type=size, metavar="SIZE", help="leave at least this much of the disk free")
    made.add_argument("--keep", nargs="+", action="extend", default=[], metavar="SESSION", help="never delete these")
    made.add_argument("--max-deletions", type=number, metavar="N", help="delete at most this many")
    made.add_argument("--archive", metavar="FOLDER", help="export each session's files there before deleting it")
    _add_snapshot(made)
    _add_store(made)
    add_consent(made)
    add_root(made)


def _add_store(parser: Parser) -> None:
    parser.add_argument(
        "--remote", metavar="ADDRESS", help="the object store (default: the kernel's, for its sessions)"
    )
    parser.add_argument(
        "--only-here", action="store_true", help="leave the object store alone; what was not pushed is lost"
    )


def _add_snapshot(parser: Parser) -> None:
    parser.add_argument(
        "--snapshot", action="store_true", help="save variables and files in a last snapshot before deleting"
    )
