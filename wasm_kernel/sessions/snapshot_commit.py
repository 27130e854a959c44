"""The one way a snapshot gets into the store: it is numbered there, which decides its place in the order."""

from __future__ import annotations

import contextlib

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.store.chunks import ChunkStore, Transaction
from wasm_kernel.host.store.sequence import next_number
from wasm_kernel.model.snapshots import Snapshot, parse_snapshot


def commit_snapshot(store: ChunkStore, take: Transaction, snapshot: Snapshot, body: bytes) -> Snapshot:
    """Make a snapshot durable and visible, as the newest of its session; the same with its number."""
    session_id = snapshot.session_id
    if session_id not in store.numbered:
        store.numbered[session_id] = _highest(store, session_id)
    number = next_number(store.folder, after=store.numbered[session_id])
    numbered = snapshot.moved(sequence=number)
    take.commit(session_id, snapshot.snapshot_id, numbered.to_json(), body)
    store.numbered[session_id] = number
    return numbered


def _highest(store: ChunkStore, session_id: str) -> int:
    """The highest number among a session's snapshots; 0 if it has none."""
    highest = 0
    for group, name in store.manifest_names(session_id):
        with contextlib.suppress(WasmKernelError, OSError):  # an unreadable one is nobody's newest
            highest = max(highest, parse_snapshot(store.manifest_head(group, name)).sequence)
    return highest
