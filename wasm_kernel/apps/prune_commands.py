"""What `wasm-kernel prune` and `wasm-kernel sessions delete` do: show what would go, ask, and do it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from wasm_kernel.apps.cli_output import age, complain, counted, progress, short_ids, show_json, table
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
)
from wasm_kernel.apps.configuration import configured_objects, configured_root
from wasm_kernel.apps.session_commands import PROBLEMS
from wasm_kernel.errors import RemoteError
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.prune_report import PruneReport
from wasm_kernel.model.records import is_uuid
from wasm_kernel.model.retention import Plan, RetentionPolicy, plan_asked_for
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.housekeeping import (
    HousePlan,
    InStore,
    PruneResult,
    carry_out,
    foreseen,
    look,
    plan_housekeeping,
    plan_removal,
    report,
)
from wasm_kernel.sessions.inventory import Survey, survey
from wasm_kernel.sessions.remote.synced import forget_synced

_REASONS = {
    "max_age_hours": "unused for too long",
    "max_sessions": "too many sessions",
    "max_total_bytes": "too much space in total",
    "min_free_bytes": "too little free disk",
    "deleted here": "deleted on this machine before",
}
_PLACES = {(False, False): "here", (True, False): "here and in the store", (True, True): "in the store"}
_WITHOUT_AGE = ("no_metadata", "corrupted_metadata", "foreign_metadata")


def delete_command(options: argparse.Namespace) -> int:
    """Delete sessions by their ids."""
    root = _root(options)
    check_consent(options)
    store = _store(root, options)
    found, in_store = survey(root, named=True), None
    if store is not None:
        with _alone_if_it_fails():
            found, in_store = look(store, root, found)
    wanted, unknown = _known(root, options.sessions, found)
    planned = _plan_deletion(found, in_store, root, wanted, snapshot=options.snapshot)
    going = planned.sessions.remove
    if going and (not options.json if options.dry_run else not options.yes):
        _show_plan(planned)
    question = _question(planned)
    if going and not options.dry_run and not agreed(options, question):
        return FAILED
    result = foreseen(planned) if options.dry_run else _done(root, planned, carry_out(root, planned, quiet()), options)
    odd = {
        d.session_id: f"session {d.session_id} cannot be deleted ({PROBLEMS[d.reason]}); remove it by hand"
        for d in planned.sessions.skip
    }
    result = replace(result, errors={**unknown, **odd, **result.errors})
    _show_report(report(planned, result), options)
    if not wanted:
        return NOTHING
    return FAILED if result.errors or result.live_sessions or result.changed_sessions else DONE


def _root(options: argparse.Namespace) -> Path:
    """The workspace root. A machine that has none yet can look after a store all the same."""
    root = root_of(options, make=True)
    if not root.exists() and _store(root, options) is not None:
        root.mkdir(parents=True, exist_ok=True)
    return root_of(options)


def _store(root: Path, options: argparse.Namespace) -> Objects | None:
    """The object store of the sessions below a root: the configured one is that of the configured root."""
    if options.only_here or (options.remote is None and root != configured_root()):
        return None
    return configured_objects(options.remote)


@contextlib.contextmanager
def _alone_if_it_fails() -> Iterator[None]:
    """Say what to do while the store cannot be asked."""
    try:
        yield
    except RemoteError as e:
        raise RemoteError(f"{e}. To delete on this machine's disk alone: --only-here") from None


def _done(root: Path, planned: HousePlan, result: PruneResult, options: argparse.Namespace) -> PruneResult:
    """What was carried out. With --only-here it is not a deletion that the store has yet to be told of."""
    if options.only_here:
        for decision in planned.sessions.remove:
            if decision.session_id in result.deleted_sessions:
                forget_synced(root, decision.session_id)
    return result


def _known(root: Path, given: list[str], found: Survey) -> tuple[list[str], dict[str, str]]:
    """Ids of sessions that exist, each once, and errors for those that do not."""
    known: dict[str, None] = {}
    unknown: dict[str, str] = {}
    in_store = [f.session_id for f in found.sessions if f.only_stored]
    for name in given:
        matching = [session_id for session_id in in_store if session_id.startswith(name)]
        try:
            known[session_of(root, name)] = None
        except NotThere as e:
            if len(matching) == 1:
                known[matching[0]] = None
            else:
                unknown[name] = str(e)
    return list(known), unknown


def _plan_deletion(
    found: Survey, in_store: InStore | None, root: Path, wanted: list[str], *, snapshot: bool
) -> HousePlan:
    """Plan to delete these sessions, each only if it stays as it is now."""
    facts = [f for f in found.sessions if f.session_id in wanted]
    stamps = {**dict.fromkeys(wanted, ""), **{f.session_id: f.stamp for f in facts}}
    # Without metadata a session has no age, but here its age does not matter.
    judged = [replace(f, problem="") if f.problem in _WITHOUT_AGE else f for f in facts]
    decided = plan_asked_for(Plan(), judged, stamps, (), datetime.now(UTC))
    return replace(plan_removal(root, decided, snapshot=snapshot, store=in_store), found=found)


def prune_command(options: argparse.Namespace) -> int:
    """Delete sessions by a policy."""
    check_consent(options)
    root = _root(options)
    policy = _policy(root, options)
    if not policy.is_bounded:
        complain(
            "without a bound no session is deleted; give --older-than, --max-sessions, --max-total or --min-free",
            NOTHING,
        )
    with progress("Looking at sessions"), _alone_if_it_fails():
        planned = plan_housekeeping(
            root,
            policy,
            max_deletions=options.max_deletions,
            archive_to=options.archive,
            snapshot=options.snapshot,
            store=_store(root, options),
        )
    any_goes = bool(planned.sessions.remove or planned.forget)
    if planned.sessions.remove and (not options.json if options.dry_run else not options.yes):
        _show_plan(planned)
    if options.dry_run:
        result = foreseen(planned)
    elif any_goes and not agreed(options, _question(planned)):
        return FAILED
    else:
        with progress("Deleting") as update:
            result = _done(root, planned, carry_out(root, planned, quiet(), on_progress=update), options)
    _show_report(report(planned, result), options)
    if result.errors:
        return FAILED
    return DONE if any_goes else NOTHING


def _policy(root: Path, options: argparse.Namespace) -> RetentionPolicy:
    return RetentionPolicy(
        max_age_hours=None if options.older_than is None else options.older_than / 3600,
        max_sessions=options.max_sessions,
        max_total_bytes=options.max_total,
        min_free_bytes=options.min_free,
        keep=frozenset(name if is_uuid(name) else session_of(root, name) for name in options.keep),
    )


def _question(planned: HousePlan) -> str:
    verb = "Delete" if planned.archive_to is None else "Archive and delete"
    where = f" here, {format_size(planned.stored_bytes)} in {planned.store.objects.address}" if planned.store else ""
    return f"{verb} {counted(len(planned.sessions.remove), 'session')}, {format_size(planned.reclaimed_bytes)}{where}?"


def _show_plan(planned: HousePlan) -> None:
    going = planned.sessions.remove
    shown = short_ids(d.session_id for d in going)
    now = datetime.now(UTC)
    rows: list[tuple[str, ...]] = [
        (
            shown[d.session_id],
            _called(planned, d.session_id),
            age(now - timedelta(hours=d.age_hours)),
            format_size(d.stored_bytes if d.only_stored else d.size_bytes),
            *([_PLACES[bool(d.stored_stamp), d.only_stored]] if planned.store is not None else []),
            _REASONS.get(d.reason, d.reason),
        )
        for d in going
    ]
    where = ("where",) if planned.store is not None else ()
    head = ("session", "title or notebook", "last used", "size", *where, "why")
    table(head, rows, numbers=(3,))


def _called(planned: HousePlan, session_id: str) -> str:
    """What a person knows a session by."""
    record = planned.found.records.get(session_id)
    extra = record.extra if record is not None else {}
    title, notebook = (str(extra.get(name) or "")[:4096] for name in ("title", "notebook"))
    return title or Path(notebook).name


def _show_report(result: PruneReport, options: argparse.Namespace) -> None:
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
        + (f" here, {format_size(totals['stored_bytes_freed'])} in the store" if totals["stored_bytes_freed"] else "")
    ]
    for count, what in (
        (sum(s["action"] == "forget" for s in result["sessions"]), "deleted earlier, now their snapshots too"),
        (totals["skipped"], "cannot be judged (see `wasm-kernel sessions repair`)"),
        (totals["live"], "in use, left alone"),
        (len(result["changed"]), "used just now, left alone"),
        (totals["errors"], "failed"),
    ):
        if count:
            parts.append(f"{count} {what}")
    saved = sum(one["snapshot_id"] is not None for one in result["sessions"])
    if saved:
        parts.append(f"{saved} left a snapshot (`wasm-kernel snapshots list`; `sessions fork --snapshot` goes on)")
    print("; ".join(parts) + ".")
