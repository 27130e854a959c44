"""`wasm-kernel sessions …` and `wasm-kernel prune`: what there is, and what goes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.model.prune_report import PruneReport
from wasm_kernel.model.records import is_uuid
from wasm_kernel.model.retention import Plan, RetentionPolicy
from wasm_kernel.model.units import format_size

if TYPE_CHECKING:
    from wasm_kernel.sessions.listing import SessionSummary

_SUMMARY = """{"session_id": "3f2a9c01-…", "created_at": "2026-11-22T10:15:30.123456Z",
 "updated_at": "2026-11-22T11:00:00.000000Z", "size_bytes": 2048,
 "live": false, "problem": "", "title": "", "notebook": "/home/ada/a.ipynb",
 "former_notebook": "", "execution_count": 12, "snapshot_count": 30,
 "stamp": "812345-1795345200000000000\""""
_REASONS = {
    "max_age_hours": "not used for long",
    "max_sessions": "too many sessions",
    "max_total_bytes": "too much space in all",
    "min_free_bytes": "too little disk free",
}
_PROBLEMS = {
    "no_metadata": "no metadata",
    "corrupted_metadata": "damaged metadata",
    "symlink": "a link",
    "mount_inside": "a mount inside",
}
_WITHOUT_AGE = ("no_metadata", "corrupted_metadata")


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    sessions = add(commands, "sessions", None, "Look at sessions, move, copy, mend and delete them.")
    parts = sessions.add_subparsers(title="commands", metavar="COMMAND", required=True)

    made = add(
        parts,
        "list",
        list_command,
        "List all sessions, the last used first.",
        more="In a pipe: a line per session, its fields separated by tabs.",
        examples="wasm-kernel sessions list\nwasm-kernel sessions list | cut -f1\n"
        "wasm-kernel sessions list --json | jq '.[] | select(.live)'",
        shape=f"[{_SUMMARY}}}]",
    )
    add_root(made)

    made = add(
        parts,
        "show",
        show_command,
        "Show what is known of a session.",
        examples="wasm-kernel sessions show 3f2a9c01",
        shape=f'{_SUMMARY},\n "path": "/home/ada/…/3f2a9c01-…", "file_count": 3}}',
    )
    add_id(made, "session")
    add_root(made)

    made = add(
        parts,
        "files",
        files_command,
        "List a session's files.",
        examples="wasm-kernel sessions files 3f2a9c01\nwasm-kernel sessions files 3f2a9c01 '*.csv'",
        shape='[{"path": "data/a.csv", "size": 2048, "kind": "file",\n  "modified_at": "2026-11-22T10:15:30.123456Z"}]',
    )
    add_id(made, "session")
    made.add_argument("pattern", nargs="?", metavar="PATTERN", help="only those that fit, such as '*.csv'")
    add_root(made)

    made = add(
        parts,
        "delete",
        delete_command,
        "Delete sessions with their files and snapshots.",
        more="A session in use is not deleted.",
        examples="wasm-kernel sessions delete 3f2a9c01\nwasm-kernel sessions delete --yes 3f2a9c01 77aa01f0",
        shape=PRUNE_SHAPE,
    )
    add_id(made, "session", many=True)
    add_consent(made)
    add_root(made)

    made = add(
        parts,
        "export",
        export_command,
        "Write a session's files and metadata to one file.",
        more="Variables are not in it; `wasm-kernel snapshots export` has them.",
        examples="wasm-kernel sessions export 3f2a9c01\nwasm-kernel sessions export 3f2a9c01 backup/monday.zip",
        shape='{"session_id": "3f2a9c01-…", "path": "/home/ada/monday.zip",\n "size_bytes": 2048}',
    )
    add_id(made, "session")
    add_target(made, "SESSION.tar.zst; .zip works, too")
    add_root(made)

    made = add(
        parts,
        "import",
        import_command,
        "Make a new session of an exported one.",
        examples="wasm-kernel sessions import monday.zip",
        shape='{"session_id": "3f2a9c01-…", "path": "/home/ada/…/3f2a9c01-…"}',
    )
    made.add_argument("file", metavar="FILE", help="a .zip or .tar.zst that `sessions export` wrote")
    made.add_argument("--max-size", type=size, default=16 << 30, metavar="SIZE", help="refuse more (default: 16G)")
    made.add_argument("--max-files", type=number, default=200_000, metavar="N", help="refuse more (default: 200000)")
    add_root(made)

    made = add(
        parts,
        "fork",
        fork_command,
        "Make a new session that goes on from another one.",
        more="It has the other's variables and files. A session in use is forked by\n`%session fork` in its notebook.",
        examples="wasm-kernel sessions fork 3f2a9c01\nwasm-kernel sessions fork 3f2a9c01 --snapshot 9e00b1c2",
        shape='{"session_id": "b4d5e6f7-…", "forked_from": "3f2a9c01-…",\n "path": "/home/ada/…/b4d5e6f7-…"}',
    )
    add_id(made, "session")
    made.add_argument("--snapshot", metavar="SNAPSHOT", help="from this moment instead of now")
    add_root(made)

    made = add(
        parts,
        "repair",
        repair_command,
        "Give sessions without metadata, or with damaged, new metadata.",
        more="It is made from the times of their files. From then on they can be pruned.",
        examples="wasm-kernel sessions repair 77aa01f0",
        shape='[{"session_id": "77aa01f0-…", "created_at": "2026-11-22T10:15:30.123456Z",\n'
        '  "updated_at": "2026-11-22T11:00:00.000000Z"}]',
    )
    add_id(made, "session", many=True)
    add_root(made)

    made = add(
        commands,
        "prune",
        prune_command,
        "Delete sessions unused for long, or too many, or too large.",
        more="The longest unused go first, until every bound given is kept. Sessions in use,\n"
        "sessions with a name of their own and sessions without metadata never go. What\n"
        "is left of sessions deleted before --older-than goes, too, and what killed\n"
        "processes left. Without a bound no session goes.\n"
        "A systemd timer should have SuccessExitStatus=3.",
        examples="wasm-kernel prune --older-than 36h --dry-run\n"
        "wasm-kernel prune --max-total 20G --min-free 5G --archive old/\n"
        "wasm-kernel prune --older-than 30d --keep 3f2a9c01 77aa01f0 --yes",
        shape=PRUNE_SHAPE,
    )
    made.add_argument("--older-than", type=duration, metavar="TIME", help="not used for so long: 90m, 36h, 7d, 2w")
    made.add_argument("--max-sessions", type=number, metavar="N", help="at most so many stay")
    made.add_argument("--max-total", type=size, metavar="SIZE", help="at most so much space in all: 500M, 20G")
    made.add_argument("--min-free", type=size, metavar="SIZE", help="at least so much of the disk is free afterwards")
    made.add_argument("--keep", nargs="+", action="extend", default=[], metavar="SESSION", help="these never go")
    made.add_argument("--max-deletions", type=number, metavar="N", help="delete at most so many this time")
    made.add_argument("--archive", metavar="FOLDER", help="export each session's files there before it goes")
    add_consent(made)
    add_root(made)


# ---- looking


def list_command(options: argparse.Namespace) -> int:
    """All sessions."""
    from wasm_kernel.sessions.listing import list_sessions

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
        complain(f"there is no session in {str(root)!r}", NOTHING)
    return DONE if found else NOTHING


def show_command(options: argparse.Namespace) -> int:
    """One session."""
    from wasm_kernel.sessions.files import list_session_files
    from wasm_kernel.sessions.listing import list_sessions

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
    """A session's files."""
    from wasm_kernel.sessions.files import list_session_files

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
        complain(f"session {options.session} has no file{' that fits' if options.pattern else ''}", NOTHING)
    return DONE if found else NOTHING


def _name(summary: SessionSummary) -> str:
    former = f"formerly {Path(summary.former_notebook).name}" if summary.former_notebook else ""
    return summary.title or Path(summary.notebook).name or former


def _state(summary: SessionSummary) -> str:
    return "in use" if summary.live else _PROBLEMS.get(summary.problem, summary.problem)


# ---- moving


def export_command(options: argparse.Namespace) -> int:
    """A session as a file."""
    from wasm_kernel.sessions.archive import export_session

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
    """A file as a session."""
    from wasm_kernel.sessions.archive import BadArchive, import_session

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
    """A copy that goes on by itself."""
    from wasm_kernel.sessions.snapshots import fork_session

    root = root_of(options)
    session_id = session_of(root, options.session)
    snapshot_id = snapshot_of(root, options.snapshot) if options.snapshot is not None else None
    if snapshot_id is not None and snapshot_ids(root).get(snapshot_id) != session_id:
        raise ConfigurationError(
            f"snapshot {snapshot_id} is not of session {session_id}; see `wasm-kernel snapshots list`"
        )
    with progress("Forking"):
        new = fork_session(session_id, root, snapshot_id=snapshot_id, logger=quiet())
    if options.json:
        show_json({"session_id": new, "forked_from": session_id, "path": root / new})
    else:
        print(f"Forked session {session_id}: the new one is {new}.")
    return DONE


def repair_command(options: argparse.Namespace) -> int:
    """New metadata."""
    from wasm_kernel.sessions.catalog import repair_session_metadata

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
            print(f"Session {record.session_id} has metadata: last used {age(record.updated_at)}.")
    if not failures:
        return DONE
    return NOTHING if not done and all(isinstance(e, NotThere) for e in failures) else FAILED


# ---- deleting


def delete_command(options: argparse.Namespace) -> int:
    """Sessions, by their ids."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from wasm_kernel.model.retention import plan_asked_for
    from wasm_kernel.sessions.housekeeping import carry_out, foreseen, plan_removal, report
    from wasm_kernel.sessions.survey import survey

    root = root_of(options)
    check_consent(options)
    errors: dict[str, str] = {}
    wanted: dict[str, str] = {}
    for given in options.sessions:
        try:
            wanted[session_of(root, given)] = ""
        except NotThere as e:
            errors[given] = str(e)
    unknown = len(errors)
    found = survey(root, named=True)
    facts = [f for f in found.sessions if f.session_id in wanted]
    wanted |= {f.session_id: f.stamp for f in facts}
    # Without metadata it cannot be judged by its age; but nobody asks for that here.
    judged = [replace(f, problem="") if f.problem in _WITHOUT_AGE else f for f in facts]
    decided = plan_asked_for(Plan(), judged, wanted, (), datetime.now(UTC))
    for d in decided.skip:
        errors[d.session_id] = f"session {d.session_id} is or holds {_PROBLEMS[d.reason]}; remove it by hand"
    planned = replace(plan_removal(root, decided), found=found)
    question = f"Delete {counted(len(decided.remove), 'session')}, {format_size(planned.reclaimed_bytes)}?"
    if decided.remove and not options.dry_run and not agreed(options, question):
        return FAILED
    result = foreseen(planned) if options.dry_run else carry_out(root, planned, quiet())
    result = replace(result, errors={**errors, **result.errors})
    _report(report(planned, result), options)
    if unknown == len(options.sessions):
        return NOTHING
    return FAILED if result.errors or result.live_sessions or result.changed_sessions else DONE


def prune_command(options: argparse.Namespace) -> int:
    """Sessions, by a policy."""
    from wasm_kernel.sessions.housekeeping import carry_out, foreseen, plan_housekeeping, report

    check_consent(options)
    root = root_of(options)
    policy = RetentionPolicy(
        max_age_hours=None if options.older_than is None else options.older_than / 3600,
        max_sessions=options.max_sessions,
        max_total_bytes=options.max_total,
        min_free_bytes=options.min_free,
        keep=frozenset(name if is_uuid(name) else session_of(root, name) for name in options.keep),
    )
    if not policy.is_bounded:
        complain(
            "without a bound no session goes; say what should: --older-than, --max-sessions, --max-total or --min-free",
            NOTHING,
        )
    with progress("Looking at sessions"):
        planned = plan_housekeeping(root, policy, max_deletions=options.max_deletions, archive_to=options.archive)
    going = planned.sessions.remove
    if options.dry_run:
        result = foreseen(planned)
        if going and not options.json:
            _show_plan(planned.sessions)
    else:
        if going or planned.forget:
            if not options.yes:
                _show_plan(planned.sessions)
            amount = f"{counted(len(going), 'session')}, {format_size(planned.reclaimed_bytes)}"
            if not agreed(options, f"{'Archive and delete' if options.archive else 'Delete'} {amount}?"):
                return FAILED
        with progress("Deleting") as update:
            result = carry_out(root, planned, quiet(), on_progress=update)
    _report(report(planned, result), options)
    if result.errors:
        return FAILED
    return DONE if going or planned.forget else NOTHING


def _show_plan(decided: Plan) -> None:
    from datetime import UTC, datetime, timedelta

    shown = short_ids(d.session_id for d in decided.remove)
    now = datetime.now(UTC)
    rows = [
        (
            shown[d.session_id],
            age(now - timedelta(hours=d.age_hours)),
            format_size(d.size_bytes),
            _REASONS.get(d.reason, d.reason),
        )
        for d in decided.remove
    ]
    table(("session", "last used", "size", "why"), rows, numbers=(2,))


def _report(result: PruneReport, options: argparse.Namespace) -> None:
    """What was deleted, what was not, and why."""
    if options.json:
        show_json(result)
        return
    for name, text in result["errors"].items():
        complain(text if name in text else f"session {name}: {text}", FAILED)
    totals = result["totals"]
    parts = [
        f"{'Would delete' if options.dry_run else 'Deleted'} {counted(totals['removed'], 'session')}, "
        f"{format_size(totals['reclaimed_bytes'])}"
    ]
    for count, what in (
        (sum(s["action"] == "forget" for s in result["sessions"]), "deleted before, now with their snapshots"),
        (totals["skipped"], "cannot be judged (`wasm-kernel sessions repair` mends them)"),
        (totals["live"], "in use, left alone"),
        (len(result["changed"]), "used just now, left alone"),
        (totals["errors"], "failed"),
    ):
        if count:
            parts.append(f"{count} {what}")
    print("; ".join(parts) + ".")
