"""What is done in one user's workspace, in a process of its own. Arguments and results are plain JSON values.

Everything here runs with the user's rights and reaches nothing but the workspace (see `confined_worker`), not even
Python's own modules: what is needed is imported here, before. What is found in a workspace is the user's: results
are trusted no more than the user (see `checked_answers`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import psutil  # noqa: F401 - needed later, where it cannot be imported any more

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.network.connection_log import ConnectionLog
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.prune_report import PruneReport, report_of_snapshots
from wasm_kernel.model.records import format_time
from wasm_kernel.model.retention import Decision, Plan, RetentionPolicy
from wasm_kernel.model.session_info import MAX_TITLE, SNAPSHOT_NUMBERS, SessionInfo, WorkspaceInfo
from wasm_kernel.model.snapshot_retention import SnapshotRetention
from wasm_kernel.sessions.housekeeping import (
    HousePlan,
    carry_out,
    foreseen,
    plan_housekeeping,
    plan_removal,
    plan_thinning,
    report,
)
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notices import write_notices
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.session_list import SessionSummary, list_sessions, snapshot_counts
from wasm_kernel.sessions.snapshots import delete_snapshot, fork_snapshot, give_space_back, list_snapshots

_TEXT = 300  # of a title or a path: enough for a table
_MAX_CONNECTIONS, _MAX_SESSIONS = 1000, 10_000
_QUIET = SandboxLogger(level="error")


def look(root: Path) -> WorkspaceInfo:
    """Every session, how many snapshots it has, and what space there is."""
    count, stored = sum(snapshot_counts(root).values()), 0
    if count or (root / STATE_FOLDER / "snapshots").is_dir():
        with contextlib.closing(snapshot_store(root)) as chunks:
            stored = chunks.stored_bytes()
    return {
        "sessions": [_cut(session) for session in list_sessions(root)],
        "snapshot_count": count,
        "snapshot_bytes": stored,
        "free_bytes": shutil.disk_usage(root).free,
    }


def _cut(session: SessionSummary) -> SessionInfo:
    info = session.info()
    return {
        **info,
        "title": info["title"][:_TEXT],
        "notebook": info["notebook"][:_TEXT],
        "former_notebook": info["former_notebook"][:_TEXT],
    }


def snapshots(root: Path, session_id: str | None = None) -> dict[str, Any]:
    """The snapshots of a session, or of all."""
    return {
        "snapshots": [
            {
                "snapshot_id": s.snapshot_id,
                "session_id": s.session_id,
                "created_at": format_time(s.created_at),
                "trigger": s.trigger,
                "label": s.label[:_TEXT],
                "parent": s.parent,
                **{name: getattr(s, name) for name in SNAPSHOT_NUMBERS},
            }
            for s in list_snapshots(root, session_id)
        ]
    }


def foresee(root: Path, decisions: list[list[Any]], policy: dict[str, Any] | None = None) -> PruneReport:
    """What removing these sessions, and thinning out the snapshots of the others, would do. Changes nothing."""
    snapshots = SnapshotRetention(**policy) if policy is not None else None
    planned = plan_removal(root, _plan(decisions), snapshots=snapshots)
    return report(planned, foreseen(planned))


def remove(root: Path, decisions: list[list[Any]], archive_to: str = "") -> PruneReport:
    """Delete sessions that have not changed since the decision, archived first if a folder is given."""
    return _done(root, plan_removal(root, _plan(decisions), archive_to or None))


def stop(root: Path, decisions: list[list[Any]]) -> PruneReport:
    """Delete sessions that have not changed since the decision; each leaves a last snapshot."""
    return _done(root, plan_removal(root, _plan(decisions), snapshot=True))


def fork(root: Path, snapshot_id: str, title: str) -> dict[str, Any]:
    """A new session of this title that continues from a snapshot."""
    session_id = fork_snapshot(snapshot_id, root, logger=_QUIET)
    record = read_record(root / session_id)
    if record is not None:
        write_record(root / session_id, record.touched(datetime.now(UTC), title=title[:MAX_TITLE]), sync=True)
    return {"session_id": session_id}


def _plan(decisions: list[list[Any]]) -> Plan:
    return Plan(remove=[Decision(name, reason, 0.0, size, stamp) for name, reason, size, stamp in decisions])


def thin(root: Path, policy: dict[str, Any]) -> PruneReport:
    """Delete snapshots by a `SnapshotRetention`."""
    return _done(root, plan_thinning(root, SnapshotRetention(**policy)))


def forget(root: Path, snapshot_ids: list[str]) -> PruneReport:
    """Delete these snapshots."""
    done, errors = [], {}
    for name in snapshot_ids:
        try:
            delete_snapshot(name, root, logger=_QUIET)
            done.append(name)
        except (WasmKernelError, OSError) as e:
            errors[name] = str(e)
    return report_of_snapshots(done, errors, give_space_back(root, wait=5))


def sweep(root: Path, max_age_hours: float | None = None) -> PruneReport:
    """Remove what killed processes left, and what is remembered of sessions deleted that long ago."""
    planned = plan_housekeeping(root, RetentionPolicy(max_age_hours=max_age_hours))
    return _done(root, replace(planned, sessions=Plan()))  # which sessions go is decided by the service


def _done(root: Path, planned: HousePlan) -> PruneReport:
    return report(planned, carry_out(root, planned, _QUIET))


def tell(root: Path, notices: list[dict[str, Any]]) -> dict[str, Any]:
    """Put notices where the user's next kernel finds them."""
    write_notices(root, notices)
    return {}


def connections(root: Path, after: str) -> dict[str, Any]:
    """The connections of all sessions that ended after a time, as their logs have them; the oldest, if too many.

    By their end, not their beginning: that may be days later. One that is open counts by its beginning, and then again,
    by its end: its kernel may be killed, and then there is none.
    """
    found = []
    for folder in list(islice((root / STATE_FOLDER / "history").glob("*"), _MAX_SESSIONS)):
        for line in ConnectionLog(folder).lines():
            ended = str(line.get("ended", line.get("time", "")))
            if ended > after:
                found.append({**line, "ended": ended, "session_id": folder.name})
        found = sorted(found, key=lambda line: str(line["ended"]))[:_MAX_CONNECTIONS]
    return {"connections": found}


JOBS: dict[str, Callable[..., Mapping[str, Any]]] = {
    f.__name__: f for f in (look, snapshots, foresee, remove, stop, fork, thin, forget, sweep, tell, connections)
}
