"""Find and read snapshots."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from wasm_kernel.errors import BadSnapshot, ConfigurationError, WasmKernelError
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.store.chunks import ZERO, ChunkStore
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import OWN_SNAPSHOTS_AFTER, BadRecord, is_uuid
from wasm_kernel.model.snapshots import Snapshot, parse_snapshot
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.recorder import snapshot_store

AnyRoot = Path | str | None


def list_snapshots(workspace_root: AnyRoot = None, session_id: str | None = None) -> list[Snapshot]:
    """The snapshots of a session, or of all, newest first. Unreadable ones are not listed."""
    store = snapshot_store(existing_root(workspace_root))
    found = []
    with contextlib.closing(store):
        for group, name in store.manifest_names(session_id):
            with contextlib.suppress(WasmKernelError, OSError):
                found.append(head_of(store, group, name))
    return sorted(found, key=lambda s: s.order, reverse=True)


def get_snapshot(snapshot_id: str, workspace_root: AnyRoot = None) -> Snapshot:
    """A snapshot by its id."""
    store = snapshot_store(existing_root(workspace_root))
    with contextlib.closing(store):
        return head_of(store, session_of_snapshot(store, snapshot_id), snapshot_id)


def newest_snapshot(root: Path, session_id: str) -> Snapshot | None:
    """A session's newest snapshot: what it goes on from. Not one of a session that was deleted under the same id."""
    found = list_snapshots(root, session_id)
    return found[0] if found and found[0].sequence >= _own_after(root / session_id) else None


def _own_after(folder: Path) -> int:
    with contextlib.suppress(BadRecord):
        record = read_record(folder)
        after = record.extra.get(OWN_SNAPSHOTS_AFTER) if record is not None else 0
        return after if type(after) is int else 0
    return 0


def has_store(root: Path) -> bool:
    """Whether a snapshot was ever taken below a root. Looking does not create a store."""
    return os.path.isdir(root / STATE_FOLDER / "snapshots")  # noqa: PTH112 - is_dir raises where nothing may be read


def head_of(store: ChunkStore, group: str, name: str) -> Snapshot:
    """A snapshot's head; `BadSnapshot` if its id does not match its name."""
    snapshot = parse_snapshot(store.manifest_head(group, name))
    if (snapshot.session_id, snapshot.snapshot_id) != (group, name):
        raise BadSnapshot(f"snapshot {name} has the id {snapshot.snapshot_id} inside")
    return snapshot


def session_of_snapshot(store: ChunkStore, snapshot_id: str) -> str:
    """The session that a snapshot belongs to; `FileNotFoundError` if there is no such snapshot."""
    if not is_uuid(snapshot_id):
        raise ConfigurationError(f"{snapshot_id!r} is not a snapshot id")
    for group, name in store.manifest_names():
        if name == snapshot_id:
            return group
    raise FileNotFoundError(f"there is no snapshot {snapshot_id}; list_snapshots() lists them")


def piece_of(store: ChunkStore, name: bytes, length: int) -> bytes:
    """A part of a saved file."""
    return bytes(length) if name == ZERO else store.read_chunk(name)[:length]
