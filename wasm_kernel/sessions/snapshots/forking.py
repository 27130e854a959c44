"""New sessions that continue from a snapshot."""

from __future__ import annotations

import contextlib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.files.saved_tree import lay_out
from wasm_kernel.host.store.chunks import ChunkStore, Transaction
from wasm_kernel.model.records import check_session_id
from wasm_kernel.model.snapshots import Manifest, Snapshot, parse_manifest
from wasm_kernel.sessions import catalog
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.piece_reader import PieceReader
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshot_commit import commit_snapshot
from wasm_kernel.sessions.snapshots.reading import AnyRoot, session_of_snapshot
from wasm_kernel.sessions.snapshots.space import make_room
from wasm_kernel.sessions.snapshots.taking import create_snapshot


def fork_session(
    session_id: str,
    workspace_root: AnyRoot = None,
    *,
    snapshot_id: str | None = None,
    notebook: str | None = None,
    logger: SandboxLogger | None = None,
) -> str:
    """A new session that continues from a snapshot, or from a session's current state; its id.

    On disk, both share what they have in common. The fork gets its own random numbers.
    """
    root = existing_root(workspace_root)
    if snapshot_id is None:
        snapshot_id = create_snapshot(session_id, root, label="fork", logger=logger).snapshot_id
    return fork_snapshot(snapshot_id, root, notebook=notebook, logger=logger)


def fork_snapshot(
    snapshot_id: str,
    workspace_root: AnyRoot = None,
    *,
    session_id: str | None = None,
    notebook: str | None = None,
    logger: SandboxLogger | None = None,
) -> str:
    """A new session that continues from a snapshot; its id, which is to be ``session_id`` if that is given."""
    root = existing_root(workspace_root)
    make_room(root, but=snapshot_id)
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:  # nothing is collected from here on
        group = session_of_snapshot(store, snapshot_id)
        body = store.read_manifest(group, snapshot_id)
        manifest = parse_manifest(store.manifest_head(group, snapshot_id), body)
        logger = logger or SandboxLogger()
        return new_session(root, store, take, manifest, body, session_id, notebook=notebook, logger=logger)


def new_session(
    root: Path,
    store: ChunkStore,
    take: Transaction,
    manifest: Manifest,
    body: bytes,
    session_id: str | None = None,
    *,
    notebook: str | None = None,
    logger: SandboxLogger,
) -> str:
    """A new session from a manifest. Its own manifest comes first: without it the session would have no memory."""
    if session_id is not None and (root / check_session_id(session_id)).exists():
        raise ConfigurationError(f"there is a session {session_id} already; choose another name")
    session_id = session_id or str(uuid.uuid4())
    extra: dict[str, Any] = {"forked_from": manifest.snapshot.session_id}
    if notebook is not None:
        extra["notebook"] = notebook
    first = manifest.snapshot.moved(
        snapshot_id=str(uuid.uuid4()),
        session_id=session_id,
        trigger="user",
        parent="",
        label=_label(manifest.snapshot),
        created_at=datetime.now(UTC),
        stored_bytes=0,
        metadata={"forked_from": manifest.snapshot.snapshot_id, "reseed": True},
    )
    files = [f for f in manifest.files if f.mount == "app"]
    lock = lock_session(root, session_id)
    try:
        commit_snapshot(store, take, first, body)
        try:
            with catalog.staged_session(root, session_id, extra, logger) as folder:
                lay_out(folder, files, PieceReader(store, files))  # all of it at the end
        except BaseException:
            store.remove_manifest(session_id, first.snapshot_id)
            raise
    finally:
        lock.release()
    logger.info("session.forked", session_id=session_id, snapshot_id=manifest.snapshot.snapshot_id)
    return session_id


def _label(origin: Snapshot) -> str:
    """What a timeline calls the beginning of a fork."""
    number = origin.metadata.get("number")
    is_cell = type(number) is int and number > 0
    return f"forked from cell [{number}]" if is_cell else f"forked from {origin.session_id[:8]}"
