"""`wasm-kernel remote`: sessions in an object store, for machines that share no disk."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from wasm_kernel.apps.cli_output import age, complain, counted, plainly, show_json, table
from wasm_kernel.apps.cli_parser import (
    DONE,
    FAILED,
    NOTHING,
    Parser,
    add,
    add_consent,
    add_root,
    agreed,
    check_consent,
    quiet,
    root_of,
    session_ids,
    session_of,
)
from wasm_kernel.apps.configuration import REMOTE, configured_objects
from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.model.units import format_size

_LISTED = """[{"session_id": "3f2a9c01-…", "open_at": "", "stored_bytes": 20971520,
  "pushed_at": "2026-11-22T11:00:00.000000Z"}]"""


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    remote = add(
        commands,
        "remote",
        None,
        "Push sessions to an object store, and go on with them elsewhere.",
        more=f"The store is --remote ADDRESS, or {REMOTE}: s3://bucket/prefix,\n"
        "or file:///folder. Credentials are the environment's.",
    )
    parts = remote.add_subparsers(title="commands", metavar="COMMAND", required=True)
    made = add(parts, "list", list_command, "List the sessions in the store.", shape=_LISTED)
    _add_remote(made)
    shape = '{"3f2a9c01-…": {"sent_bytes": 1048576, "sent_objects": 2}}'
    made = add(parts, "push", push_command, "Push sessions: only what is not there yet travels.", shape=shape)
    made.add_argument("sessions", nargs="*", metavar="SESSION", help="ids, or their first characters (default: all)")
    made.add_argument("--take-over", action="store_true", help="also if another machine has the session open")
    _add_remote(made)
    add_root(made)
    shape = '{"3f2a9c01-…": {"fetched_chunks": 120}}'
    made = add(parts, "pull", pull_command, "Bring sessions to this machine, as they were pushed.", shape=shape)
    made.add_argument("sessions", nargs="*", metavar="SESSION", help="whole ids (default: all)")
    _add_remote(made)
    add_root(made)
    made = add(parts, "delete", delete_command, "Delete sessions from the store.", shape='{"deleted": ["3f2a9c01-…"]}')
    made.add_argument("sessions", nargs="+", metavar="SESSION", help="whole ids")
    made.add_argument("--take-over", action="store_true", help="also if a machine has the session open")
    _add_remote(made)
    add_consent(made)


def _add_remote(parser: Parser) -> None:
    parser.add_argument("--remote", metavar="ADDRESS", help=f"the store (default: {REMOTE})")


def _objects(options: argparse.Namespace) -> Any:
    objects = configured_objects(options.remote)
    if objects is None:
        raise ConfigurationError(f"which store? Give --remote s3://bucket/prefix, or set {REMOTE}")
    return objects


def list_command(options: argparse.Namespace) -> int:
    """List what is in the store."""
    from wasm_kernel.sessions.remote.stored import survey_store

    objects = _objects(options)
    found = sorted(survey_store(objects).sessions.values(), key=lambda one: one.updated_at, reverse=True)
    if options.json:
        show_json(
            [
                {
                    "session_id": one.session_id,
                    "open_at": one.open_at,
                    "stored_bytes": one.size_bytes,
                    "pushed_at": one.updated_at,
                }
                for one in found
            ]
        )
    elif found:
        rows = [(one.session_id, format_size(one.size_bytes), age(one.updated_at), one.open_at) for one in found]
        total = format_size(sum(one.size_bytes for one in found))
        title = f"{counted(len(rows), 'session')}, {total}, in {objects.address}"
        table(("session", "size", "pushed", "open at"), rows, numbers=(1,), title=title)
    else:
        complain(f"there are no sessions in {objects.address}", NOTHING)
    return DONE if found else NOTHING


def push_command(options: argparse.Namespace) -> int:
    """Push some sessions, or all."""
    from wasm_kernel.sessions.remote.arriving import is_open_here, take_lease
    from wasm_kernel.sessions.remote.lease import acquire
    from wasm_kernel.sessions.remote.pushing import SessionPush
    from wasm_kernel.sessions.snapshots import newest_snapshot

    objects, root = _objects(options), root_of(options)
    wanted = [session_of(root, name) for name in options.sessions]
    wanted = wanted or [name for name in session_ids(root) if newest_snapshot(root, name) is not None]

    def push(session_id: str) -> dict[str, int]:
        if is_open_here(root, session_id):  # its kernel pushes it, unless it has no store
            lease = acquire(objects, session_id, take_over=options.take_over)
        else:
            lease = take_lease(objects, root, session_id, take_over=options.take_over)
        try:
            with lease.kept_alive():
                done = SessionPush(objects, root, session_id, lease).push()
        finally:
            lease.give_back()
        return {"sent_bytes": done.sent_bytes, "sent_objects": done.sent_objects}

    return _each(options, wanted, push, lambda done: f"sent {format_size(done['sent_bytes'])}")


def pull_command(options: argparse.Namespace) -> int:
    """Bring some sessions here, or all."""
    from wasm_kernel.sessions.remote.pulling import pull_session
    from wasm_kernel.sessions.remote.stored import remote_sessions

    objects, root = _objects(options), root_of(options, make=True)
    root.mkdir(parents=True, exist_ok=True)

    def pull(session_id: str) -> dict[str, int]:
        done = pull_session(objects, root, session_id, quiet())
        if done is None:
            raise ConfigurationError(f"there is no session {session_id} in {objects.address}")
        return {"fetched_chunks": done.fetched_chunks}

    wanted = options.sessions or remote_sessions(objects)
    return _each(options, wanted, pull, lambda done: f"{counted(done['fetched_chunks'], 'chunk')} fetched")


def delete_command(options: argparse.Namespace) -> int:
    """Delete sessions from the store."""
    from wasm_kernel.sessions.remote.deleting import delete_stored
    from wasm_kernel.sessions.remote.lease import acquire
    from wasm_kernel.sessions.remote.stored import survey_store

    check_consent(options)
    objects = _objects(options)
    known = survey_store(objects).sessions
    there = [name for name in dict.fromkeys(options.sessions) if name in known]
    size = format_size(sum(known[name].size_bytes for name in there))
    question = f"Delete {counted(len(there), 'session')}, {size}, from {objects.address}?"
    if there and not options.dry_run and not agreed(options, question):
        return FAILED
    done = []
    for name in there:
        try:
            if not options.dry_run:
                delete_stored(objects, name, acquire(objects, name, take_over=options.take_over))
            done.append(name)
        except (WasmKernelError, OSError) as e:
            complain(f"session {name}: {plainly(e)}", FAILED)
    if options.json:
        show_json({"deleted": done})
    else:
        print(f"{'Would delete' if options.dry_run else 'Deleted'} {counted(len(done), 'session')}")
    for name in set(options.sessions) - set(there):
        complain(f"there is no session {name!r} in {objects.address}", NOTHING)
    return FAILED if len(done) < len(there) else DONE if len(there) == len(options.sessions) else NOTHING


def _each(
    options: argparse.Namespace,
    wanted: list[str],
    work: Callable[[str], dict[str, int]],
    said: Callable[[dict[str, int]], str],
) -> int:
    """Do something with each session, and go on where it fails."""
    done: dict[str, dict[str, int]] = {}
    for session_id in wanted:
        try:
            done[session_id] = work(session_id)
        except (WasmKernelError, OSError) as e:
            text = plainly(e)
            complain(text if session_id in text else f"session {session_id}: {text}", FAILED)
            continue
        if not options.json:
            print(f"{session_id}  {said(done[session_id])}")
    if options.json:
        show_json(done)
    if not wanted:
        return complain("there are no sessions to work on", NOTHING)
    return DONE if len(done) == len(wanted) else FAILED
