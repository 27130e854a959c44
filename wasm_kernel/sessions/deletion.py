"""Delete a session, with a last snapshot to go on from or without, and remember that there was one."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.host.disk import locks, removal, tombstones
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.model.records import BadRecord, SessionRecord, check_session_id, format_time
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions import open_sessions
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE
from wasm_kernel.sessions.snapshots import list_snapshots
from wasm_kernel.sessions.snapshots.at_rest import snapshot_at_rest

MOST_REMEMBERED = 10_000  # deleted sessions; of those with snapshots, the snapshots too


def delete_session_workspace(
    session_id: str,
    workspace_root: Path | str | None = None,
    logger: SandboxLogger | None = None,
    *,
    wait: float = 0.0,
    snapshot: bool = False,
) -> Snapshot | None:
    """Delete a session and everything in it; nothing happens if there is none.

    A sandbox of the session in this process is closed first. If another process uses it, `SessionLocked` says so.
    With ``snapshot``, its variables and files are saved as a last snapshot, which is returned: `fork_session` makes a
    new session of it. If that fails, nothing is deleted.
    """
    check_session_id(session_id)
    logger = logger or SandboxLogger()
    root = Path(workspace_root or DEFAULT_WORKSPACE).absolute()
    if not root.is_dir():
        return None
    if snapshot:
        _save_live(root, session_id)
    open_sessions.close_session(session_id, root)
    lock = locks.lock_session(root, session_id, wait)
    last = None
    try:
        if snapshot and (root / session_id).is_dir():
            last = save_and_remove(root, session_id, lock, logger)
            removed = True
        else:
            facts = remembered(root / session_id)
            removed = removal.remove_session(root, session_id)
            if removed:
                tombstones.note(root, {session_id: facts})
                tombstones.trim(root, MOST_REMEMBERED)
    finally:
        lock.release()
        locks.forget_free_lock(root, session_id)
    if removed:
        logger.info("session.deleted", session_id=session_id)
    return last


def _save_live(root: Path, session_id: str) -> None:
    """Save the memory of a session that this process has open: it goes when the session is closed."""
    live = open_sessions.live_session(session_id, root)
    if live is not None and live.enter():
        try:
            count = live.recorder.last.execution_count if live.recorder.last is not None else 1
            live.recorder.take("checkpoint", execution_count=count)
        finally:
            live.leave()


def save_and_remove(root: Path, session_id: str, lock: locks.SessionLock, logger: SandboxLogger) -> Snapshot:
    """Take a last snapshot of a session that nobody has open, and delete the rest. The caller holds its lock."""
    last, whole = snapshot_at_rest(root, session_id, lock)
    remove_but_snapshots(root, session_id, last)
    if whole:
        thin_out(root, session_id)
    logger.info("session.snapshot.created", session_id=session_id, snapshot_id=last.snapshot_id)
    return last


def remove_but_snapshots(root: Path, session_id: str, last: Snapshot | None) -> None:
    """Delete a session except its snapshots, under its lock, which the caller holds, and remember it."""
    facts = remembered(root / session_id, last)
    tombstones.write(root, session_id, facts, most=MOST_REMEMBERED)
    try:
        removal.remove_session(root, session_id, keep_snapshots=True)
    except BaseException:
        tombstones.forget(root, session_id)
        raise


def thin_out(root: Path, session_id: str) -> None:
    """Delete the checkpoints of a deleted session: only one that continues could use them."""
    with contextlib.closing(snapshot_store(root)) as store:
        for snapshot in list_snapshots(root, session_id):
            if snapshot.trigger == "checkpoint":
                store.remove_manifest(session_id, snapshot.snapshot_id)


def remembered(folder: Path, last: Snapshot | None = None, record: SessionRecord | None = None) -> dict[str, Any]:
    """What is remembered of a session that is deleted now, from its metadata, which anybody may have written.

    ``record``: that, if it has just been read.
    """
    with contextlib.suppress(BadRecord):
        record = record or read_record(folder)
    facts: dict[str, Any] = {
        "deleted_at": format_time(datetime.now(UTC)),
        "snapshot_id": last.snapshot_id if last is not None else None,
    }
    if record is None:
        return facts
    extra, asked = record.extra, record.extra.get("sandbox")
    return facts | {
        "title": str(extra.get("title") or "")[:200],
        "notebook": str(extra.get("notebook") or "")[:4096],
        "parent_sandbox_id": str(extra.get("forked_from") or "")[:128],
        "created_at": format_time(record.created_at),
        "updated_at": format_time(record.updated_at),
        "execution_count": _count(extra.get("execution_count")),
        "idle_timeout_seconds": _count(asked.get("idle_timeout_seconds")) if isinstance(asked, dict) else 0,
    }


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0
