"""Brings a session's newest snapshot to an object store: only chunks that are not there yet travel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wasm_kernel.errors import BadSnapshot, ConfigurationError, DamagedChunk
from wasm_kernel.host.remote.chunk_packs import RemotePack, packed
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.host.store.chunks import ZERO, ChunkStore
from wasm_kernel.model.names import METADATA_NAME
from wasm_kernel.model.snapshots import chunks_of, parse_snapshot
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.remote.lease import Lease
from wasm_kernel.sessions.remote.states import RemoteState, newest_state, states
from wasm_kernel.sessions.remote.synced import Synced, read_synced, write_synced
from wasm_kernel.sessions.snapshots.reading import newest_snapshot

_TRIES = 3
_WASTE = 0.5  # of what is stored: with more of it unused, all that is used is written anew


@dataclass(frozen=True)
class Pushed:
    """What a push did: the snapshot that is there now, bytes and objects that were sent. No bytes: it was there."""

    snapshot_id: str
    sent_bytes: int = 0
    sent_objects: int = 0


class SessionPush:
    """Pushes one session, again and again, while it has the lease. Blocks; on one thread at a time."""

    def __init__(self, objects: Objects, root: Path, session_id: str, lease: Lease) -> None:
        self._objects, self._root, self._session_id, self._lease = objects, root, session_id, lease
        self._number, self._heals = 0, False
        self._last = newest_state(objects, session_id)
        self._packs: dict[str, dict[bytes, int]] = {}  # what is in each that the last state names, and its length
        if self._last is not None:
            for name in self._last.packs:
                try:
                    places = RemotePack(objects, self._pack_name(name)).places
                except DamagedChunk:  # then what it held is sent again, if this machine has it
                    self._heals = True
                    continue
                self._packs[name] = {chunk: length for chunk, (_, length) in places.items()}
            # Under our token: what its last holder may still push does not count any more.
            known = read_synced(root, session_id)
            here = known.snapshot_id if known is not None and known.has_had(self._last.name) else ""
            self._write_state(self._last, here or parse_snapshot(self._last.head).snapshot_id)

    def push(self) -> Pushed:
        """Bring the newest snapshot there. `LeaseLost` if another node has taken over."""
        with self._lease.kept_alive():
            for _ in range(_TRIES - 1):
                with contextlib.suppress(DamagedChunk, BadSnapshot, FileNotFoundError):
                    return self._push()  # a checkpoint may be thinned out while it travels: then there is a newer one
            return self._push()

    def _push(self) -> Pushed:
        newest = newest_snapshot(self._root, self._session_id)
        if newest is None:
            raise ConfigurationError(f"session {self._session_id} has no snapshot yet; run a cell in it first")
        self._lease.check()
        with contextlib.closing(snapshot_store(self._root)) as store:
            with store.take():  # nothing is collected meanwhile
                head = store.manifest_head(self._session_id, newest.snapshot_id)
                body = store.read_manifest(self._session_id, newest.snapshot_id)
            record = (self._root / self._session_id / METADATA_NAME).read_bytes()
            same = self._last is not None and (self._last.head, self._last.record) == (head, record)
            if same and not self._heals:
                return Pushed(newest.snapshot_id)
            sent = self._send_chunks(store, {name for name in chunks_of(body) if name != ZERO})
        size = self._write_state(RemoteState("", head, body, record, tuple(self._packs)), newest.snapshot_id)
        self._heals = False
        self._tidy()
        return Pushed(newest.snapshot_id, size + sum(sent), 1 + len(sent))

    def _send_chunks(self, store: ChunkStore, needed: set[bytes]) -> list[int]:
        """Send what is not there; how many bytes each object had. Packs that are hardly used are left behind."""
        used = {
            pack: sum(size for name, size in known.items() if name in needed) for pack, known in self._packs.items()
        }
        stored = sum(sum(known.values()) for known in self._packs.values())
        wasteful = sum(used.values()) < stored * (1 - _WASTE)
        kept = {} if wasteful else {pack: known for pack, known in self._packs.items() if used[pack]}
        there = set().union(*kept.values()) if kept else set()
        sent = []
        for name, data, chunks in _held_only_while_reading(store, sorted(needed - there)):
            self._objects.write(self._pack_name(name), data)
            kept[name] = dict.fromkeys(chunks, len(data) // len(chunks))
            sent.append(len(data))
        self._packs = kept
        return sent

    def _write_state(self, state: RemoteState, snapshot_id: str) -> int:
        """Write a state under our token: it is the newest from now on.

        ``snapshot_id``: the local one that is the same.
        """
        self._number += 1
        name = f"sessions/{self._session_id}/states/{self._lease.prefix}-{self._number:08d}"
        data = state.encoded()
        self._lease.check()  # once more: sending chunks may have taken long
        known = read_synced(self._root, self._session_id) or Synced(self._objects.address, "", "")
        write_synced(self._root, self._session_id, replace(known, coming=name))
        self._objects.write(name, data)
        self._last = RemoteState(name, state.head, state.body, state.record, state.packs)
        write_synced(self._root, self._session_id, Synced(self._objects.address, name, snapshot_id))
        return len(data)

    def _tidy(self) -> None:
        """Delete states before this one, and packs that it does not name. Who reads an older one asks again.

        Somebody may have taken over since the lease was checked. Whoever does that makes a lease first, then reads the
        newest state, then writes packs. So what is listed *before* a check that finds no other lease is ours to delete.
        """
        assert self._last is not None
        old = [name for name in states(self._objects, self._session_id) if name < self._last.name]
        packs = {self._pack_name(name) for name in self._last.packs}
        unused = [name for name in self._objects.names(f"sessions/{self._session_id}/packs/") if name not in packs]
        self._lease.check()
        self._objects.delete([*old, *unused])

    def _pack_name(self, name: str) -> str:
        return f"sessions/{self._session_id}/packs/{name}"


def _held_only_while_reading(store: ChunkStore, names: list[bytes]) -> Iterator[tuple[str, bytes, list[bytes]]]:
    """Packs of chunks. While one is sent, however slowly, the local store can be collected."""
    packs = packed((name, store.read_chunk(name)) for name in names)
    while True:
        with store.take():
            pack = next(packs, None)
        if pack is None:
            return
        yield pack
