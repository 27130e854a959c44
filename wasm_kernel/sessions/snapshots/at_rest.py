"""The last snapshot of a session that nobody has open, before it is deleted.

No guest runs for it and no image is needed: the memory is that of the newest snapshot, from which the session would
continue, and the files are saved as they are now. So a prune can take thousands of them, and the hub's confined worker,
which can reach nothing but the workspace, can take them too.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.model.records import BadRecord
from wasm_kernel.model.snapshots import Manifest, Snapshot
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store
from wasm_kernel.sessions.snapshot_commit import commit_snapshot
from wasm_kernel.sessions.snapshots.reading import newest_snapshot
from wasm_kernel.sessions.snapshots.space import make_room


def snapshot_at_rest(root: Path, session_id: str) -> tuple[Snapshot, bool]:
    """Take it; the caller holds the session's lock. Also whether all that its memory was is in it."""
    make_room(root, own=session_id)
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
        left, whole = _left_with(root, session_id, store)
        app = SavedTree("app", root / session_id).save(take.put)
        kept = [f for f in app if f.kind == "file"]
        snapshot = left.snapshot.moved(
            snapshot_id=str(uuid.uuid4()),
            session_id=session_id,
            trigger="session_close",
            created_at=datetime.now(UTC),
            label="",
            parent=left.snapshot.snapshot_id,
            file_count=len(kept),
            file_bytes=sum(f.size for f in kept),
            stored_bytes=take.stored,
            metadata={},
        )
        files = (*app, *(f for f in left.files if f.mount == "tmp"))
        body = replace(left, snapshot=snapshot, files=files).body()
        snapshot = commit_snapshot(store, take, snapshot, body)
    return snapshot, whole


def _left_with(root: Path, session_id: str, store: ChunkStore) -> tuple[Manifest, bool]:
    """What the session would continue from; without memory if it would begin afresh, or if it cannot be read."""
    nothing = Manifest(Snapshot("", session_id, "session_close", datetime.now(UTC)))
    with contextlib.suppress(BadRecord):
        record = read_record(root / session_id)
        if record is not None and record.extra.get("fresh_start"):
            return nothing, True
    newest = newest_snapshot(root, session_id)
    if newest is None:
        return nothing, not any(store.manifest_names(session_id))
    try:
        return read_snapshot(store, session_id, newest.snapshot_id), True
    except (WasmKernelError, OSError):
        return nothing, False
