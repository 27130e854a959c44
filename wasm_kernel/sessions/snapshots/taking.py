"""Take and restore snapshots of a session, which need not be open."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import check_session_id
from wasm_kernel.model.snapshots import Manifest, Snapshot
from wasm_kernel.sessions import open_sessions
from wasm_kernel.sessions.cell_recovery import recover_cells
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store
from wasm_kernel.sessions.sandboxes import ready_image
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.snapshot_commit import commit_snapshot
from wasm_kernel.sessions.snapshots.reading import AnyRoot, newest_snapshot, session_of_snapshot
from wasm_kernel.sessions.snapshots.space import make_room
from wasm_kernel.sessions.unfinished_move import finish_move


def create_snapshot(
    session_id: str,
    workspace_root: AnyRoot = None,
    *,
    label: str = "",
    metadata: dict[str, Any] | None = None,
    logger: SandboxLogger | None = None,
) -> Snapshot:
    """Save a session as it is now: memory, if it has any, and files."""
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    with _opened(session_id, root, logger) as live:
        make_room(root, own=session_id)
        count = live.recorder.last.execution_count if live.recorder.last is not None else 1
        snapshot = live.recorder.take("user", label=label, metadata=metadata, execution_count=count)
    logger.info("session.snapshot.created", session_id=session_id, snapshot_id=snapshot.snapshot_id)
    return snapshot


def restore_snapshot(
    snapshot_id: str, workspace_root: AnyRoot = None, *, logger: SandboxLogger | None = None
) -> Snapshot:
    """Restore a snapshot: variables and files of its session. The state before can be restored in turn."""
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    with contextlib.closing(snapshot_store(root)) as store:
        session_id = session_of_snapshot(store, snapshot_id)
        manifest = read_snapshot(store, session_id, snapshot_id)
    with _opened(session_id, root, logger, instead=manifest) as live:
        count = live.recorder.last.execution_count if live.recorder.last is not None else 1
        live.recorder.take("user", label="before restore", execution_count=count)
        live.recorder.restore(manifest)
        restored = live.recorder.take(
            "user",
            label=f"restored {manifest.snapshot.label or snapshot_id[:8]}",
            execution_count=manifest.snapshot.execution_count,
            variables=manifest.variables,
        )
    logger.info("session.snapshot.restored", session_id=session_id, snapshot_id=snapshot_id)
    return restored


def open_from_snapshot(live: LiveSession, snapshot: Snapshot | None = None, *, files: bool = False) -> Manifest | None:
    """Let a session that was just opened continue from its newest snapshot, or from this one; None: it has none."""
    if snapshot is None and live.cell_log.destination:
        there, _ = finish_move(live)
        if there is not None:
            return there
    if snapshot is None and live.cell_log.is_on_disk:
        recovered = recover_cells(live).within(live)
        if recovered is not None:
            return recovered
    found = snapshot or newest_snapshot(live.root, live.session_id)
    if found is None:
        return None
    manifest = read_snapshot(live.recorder.store, found.session_id, found.snapshot_id)
    live.recorder.restore(manifest, reseed=bool(found.metadata.get("reseed")), files=files)
    return manifest


def keep_for_good(root: Path, session_id: str, label: str) -> Snapshot | None:
    """Keep what a session would go on from, as if a person had saved it: checkpoints go as cells run. None: nothing."""
    newest = newest_snapshot(root, session_id)
    if newest is None or newest.trigger == "user":
        return newest
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
        body = store.read_manifest(session_id, newest.snapshot_id)
        copy = newest.moved(
            snapshot_id=str(uuid.uuid4()),
            trigger="user",
            label=label,
            parent=newest.snapshot_id,
            stored_bytes=0,
            metadata={},
        )
        return commit_snapshot(store, take, copy, body)


@contextlib.contextmanager
def _opened(
    session_id: str, root: Path, logger: SandboxLogger, *, instead: Manifest | None = None
) -> Iterator[LiveSession]:
    """A session as it is: already open in this process, or opened briefly with the memory it was left with.

    If that memory cannot be read, ``instead`` supplies it.
    """
    check_session_id(session_id)
    live = open_sessions.live_session(session_id, root)
    if live is not None and live.enter():
        try:
            yield live
        finally:
            live.leave()
        return
    if not (root / session_id).is_dir():
        raise FileNotFoundError(f"there is no session {session_id} in {root}")
    img = ready_image()
    lock = lock_session(root, session_id)
    try:
        live = LiveSession(session_id, root / session_id, img, ExecutionPolicy(), lock)
    except BaseException:
        lock.release()
        raise
    try:
        try:
            open_from_snapshot(live)
        except WasmKernelError as e:
            if instead is None:
                raise
            logger.warning("session.snapshot.unusable", session_id=session_id, error=str(e))
            live.recorder.restore(instead, files=False)
        yield live
    finally:
        live.close()
