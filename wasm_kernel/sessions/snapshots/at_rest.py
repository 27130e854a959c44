"""The last snapshot of a session that nobody has open, before it is deleted.

No guest runs for it and no image is needed: the memory is that of the newest snapshot, from which the session would
continue, and the files are saved as they are now. So a prune can take thousands of them, and the hub's confined worker,
which can reach nothing but the workspace, can take them too.

Only where a kernel was killed, its last cells are in the log of cells alone (`cell_log`): a guest replays them first.
If there is no image to do that with, there is no snapshot, and whoever wanted one deletes nothing.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from wasm_kernel.errors import SandboxError, WasmKernelError
from wasm_kernel.host.disk.locks import SessionLock
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.host.image import image, older_images
from wasm_kernel.host.store.cell_log import LOGS, CellLog
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import BadRecord
from wasm_kernel.model.snapshots import Manifest, Snapshot
from wasm_kernel.sessions.cell_recovery import recover_cells
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.snapshot_commit import commit_snapshot
from wasm_kernel.sessions.snapshots.reading import newest_snapshot
from wasm_kernel.sessions.snapshots.space import make_room

_UNSTORED = "the kernel of this session was killed before its last cells were stored; they would be lost"
_ANY_MEMORY = 4 << 30


def snapshot_at_rest(root: Path, session_id: str, lock: SessionLock) -> tuple[Snapshot, bool]:
    """Take it, under the session's lock, which the caller holds. Also whether all that its memory was is in it."""
    make_room(root, own=session_id)
    _store_logged_cells(root, session_id, lock)
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


class _Borrowed:
    """A lock that somebody else holds, and goes on holding."""

    def __init__(self, lock: SessionLock) -> None:
        self._lock = lock

    def tell(self, **facts: Any) -> None:
        self._lock.tell(**facts)

    def release(self) -> None:
        pass


def _store_logged_cells(root: Path, session_id: str, lock: SessionLock) -> None:
    """Let a guest replay the cells that a killed kernel had answered and not stored: then they are in snapshots."""
    if not _has_unstored_cells(root, session_id):
        return
    try:
        img = image.load()
        found = CellLog(root / STATE_FOLDER / LOGS / session_id, img.key).find()
        if found is not None and found.paths:
            older_images.load(found.image)
    except (WasmKernelError, OSError) as e:
        raise SandboxError(f"{_UNSTORED}, and no image is there to bring them back: {e}") from None
    borrowed = cast(SessionLock, _Borrowed(lock))
    live = LiveSession(session_id, root / session_id, img, ExecutionPolicy(memory_bytes=_ANY_MEMORY), borrowed)
    try:
        recover_cells(live)  # what it cannot bring back would not come back with a kernel either
    finally:
        live.close()


def _has_unstored_cells(root: Path, session_id: str) -> bool:
    found = CellLog(root / STATE_FOLDER / LOGS / session_id, "").find()
    if found is None or not found.paths:
        return False
    stored = 0
    with contextlib.closing(snapshot_store(root)) as store:
        for group, name in store.manifest_names(session_id):
            with contextlib.suppress(WasmKernelError, OSError):
                log_id, position = read_snapshot(store, group, name).log
                stored = max(stored, position if log_id == found.id else 0)
    return stored < found.last
