"""Brings a session from an object store to the local disk, so that it can be opened here as if it had always been."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.errors import BadSnapshot, DamagedChunk
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.files.saved_tree import lay_out
from wasm_kernel.host.remote.chunk_packs import RemotePack
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.host.store.chunks import ZERO, ChunkStore, Transaction
from wasm_kernel.model.records import NOTHING_GIVEN, BadRecord, check_session_id, parse_record
from wasm_kernel.model.snapshots import Manifest, chunks_of
from wasm_kernel.sessions import catalog
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.piece_reader import PieceReader
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.remote.lease import raise_if_deleted
from wasm_kernel.sessions.remote.states import RemoteState, newest_state, states
from wasm_kernel.sessions.remote.synced import Synced, read_synced, write_synced
from wasm_kernel.sessions.snapshot_commit import commit_snapshot
from wasm_kernel.sessions.snapshots.taking import restore_snapshot

# Fields of the metadata that mean nothing elsewhere, and what a person allowed there: nobody here was asked, and others
# may be able to write to the store.
_MACHINES_OWN = NOTHING_GIVEN.keys() | {"pid", "host"}


@dataclass(frozen=True)
class Pulled:
    """What a pull did: the snapshot the session goes on from, and the chunks that had to travel."""

    snapshot_id: str
    fetched_chunks: int = 0


def pull_session(objects: Objects, root: Path, session_id: str, logger: SandboxLogger) -> Pulled | None:
    """Make the local session what it is in the store; None: it was never pushed. Nobody may have it open.

    What the local disk has already does not travel. A local state that is another one stays as a snapshot.
    """
    check_session_id(session_id)
    raise_if_deleted(objects, session_id)
    for last in (False, False, True):
        state = newest_state(objects, session_id)
        if state is None:
            return None
        try:
            return _pull(objects, root, session_id, state, logger)
        except DamagedChunk:  # a push may have replaced it meanwhile
            if last or states(objects, session_id)[-1:] == [state.name]:
                raise
    raise AssertionError


def _pull(objects: Objects, root: Path, session_id: str, state: RemoteState, logger: SandboxLogger) -> Pulled:
    manifest = state.manifest()
    snapshot = manifest.snapshot
    if snapshot.session_id != session_id:
        raise BadSnapshot(f"{objects.address}/{state.name} is of another session")
    known = read_synced(root, session_id)
    if (root / session_id).is_dir() and known is not None and known.has_had(state.name):
        return Pulled(known.snapshot_id)  # as it is here, or behind what is here
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
        fetched = _fetch(objects, session_id, state, store, take)
        if (session_id, snapshot.snapshot_id) not in store.manifest_names(session_id):
            commit_snapshot(store, take, snapshot, state.body)
        if not (root / session_id).is_dir():
            _make(root, session_id, state, manifest, store, logger)
            here = snapshot.snapshot_id
        else:
            here = ""
    here = here or restore_snapshot(snapshot.snapshot_id, root, logger=logger).snapshot_id
    write_synced(root, session_id, Synced(objects.address, state.name, here))
    return Pulled(here, fetched)


def _fetch(objects: Objects, session_id: str, state: RemoteState, store: ChunkStore, take: Transaction) -> int:
    """Store the chunks that are missing here."""
    missing = {name for name in chunks_of(state.body) if name != ZERO and not store.has([name])}
    count = len(missing)
    for pack in state.packs:
        if not missing:
            break
        for name, content in RemotePack(objects, f"sessions/{session_id}/packs/{pack}").read(missing):
            take.put(content)
            missing.discard(name)
    if missing:
        raise BadSnapshot(f"{objects.address}/{state.name} is not whole: {len(missing)} chunks are missing")
    return count


def _make(
    root: Path, session_id: str, state: RemoteState, manifest: Manifest, store: ChunkStore, logger: SandboxLogger
) -> None:
    """The session's folder, with its files and metadata."""
    try:
        extra = parse_record(state.record).extra
    except BadRecord:
        extra = {}
    files = [file for file in manifest.files if file.mount == "app"]
    lock = lock_session(root, session_id)
    try:
        kept = {name: value for name, value in extra.items() if name not in _MACHINES_OWN}
        with catalog.staged_session(root, session_id, kept, logger) as folder:
            lay_out(folder, files, PieceReader(store, files))
    finally:
        lock.release()
