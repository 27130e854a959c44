"""A session's snapshots, and moving between them: undo, redo, restore."""

from __future__ import annotations

import asyncio
import logging

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.model.snapshots import Manifest, Snapshot
from wasm_kernel.sessions.recorder import read_snapshot
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.snapshots import list_snapshots


class Timeline:
    """The snapshots of the session that a runtime works in. Its coroutines run on the runtime's loop."""

    def __init__(self, runtime: SessionRuntime, log: logging.Logger) -> None:
        self._runtime, self._log = runtime, log
        self._undone: list[str] = []
        self._undone_at = -1  # the moment at which these can be redone

    async def settled(self) -> None:
        """Wait until all captures are written."""
        await self._runtime.settled()

    def snapshots(self) -> list[Snapshot]:
        """This session's snapshots, newest first."""
        live = self._runtime.live
        return list_snapshots(live.root, live.session_id)

    @property
    def last(self) -> Snapshot | None:
        """The snapshot of the current state, or of the one before the running cell."""
        return self._runtime.live.recorder.last

    def behind(self, known: list[Snapshot]) -> list[Snapshot]:
        """The snapshots that led to the current state, newest first; the others were undone."""
        by_id = {s.snapshot_id: s for s in known}
        found: dict[str, Snapshot] = {}
        here = self._runtime.live.recorder.last
        while here is not None and here.snapshot_id not in found:
            found[here.snapshot_id] = here
            here = by_id.get(here.parent)
        return list(found.values())

    def undoable(self, known: list[Snapshot]) -> list[Snapshot]:
        """The snapshots of the cells that can be undone, newest first: there is one of the state before each."""
        return [s for s in self.behind(known)[:-1] if "number" in s.metadata]

    def find(self, wanted: str) -> Snapshot:
        """Find a snapshot by id, by the beginning of its id, or by label."""
        found = self.snapshots()
        matches = [s for s in found if s.label == wanted] or [s for s in found if s.snapshot_id.startswith(wanted)]
        if not wanted or not matches:
            raise ConfigurationError(f"there is no snapshot {wanted!r}; `%session snapshots` lists them")
        return matches[0]

    def read(self, snapshot: Snapshot) -> Manifest:
        """A snapshot's manifest."""
        return read_snapshot(self._runtime.live.recorder.store, snapshot.session_id, snapshot.snapshot_id)

    async def restore(self, snapshot: Snapshot) -> None:
        """Move to a snapshot: memory, files, execution count."""
        runtime = self._runtime
        async with runtime.guest:
            await self.settled()
            manifest = await asyncio.to_thread(self.read, snapshot)
            await asyncio.to_thread(runtime.live.recorder.restore, manifest)
            runtime.is_at(manifest)
            await asyncio.to_thread(self._mark, manifest)

    def _mark(self, manifest: Manifest) -> None:
        """Record the position: the next opening continues from here, not from what was undone."""
        recorder = self._runtime.live.recorder
        try:
            self._runtime.checkpoints.thin_out(recorder, recorder.mark(manifest))
        except (WasmKernelError, OSError) as e:
            self._log.warning("the session's position could not be saved: %s", e)

    async def undo(self, cells: int) -> Snapshot:
        """Undo the last N cells."""
        await self.settled()
        known = self.snapshots()
        behind, undoable = self.behind(known), self.undoable(known)
        if cells > len(undoable):
            there = ("there is no cell", "there is only 1 cell", f"there are only {len(undoable)} cells")
            raise ConfigurationError(f"{there[min(len(undoable), 2)]} to undo; `%session log` shows what is kept")
        left = [s.snapshot_id for s in undoable[:cells]]
        before = behind[behind.index(undoable[cells - 1]) + 1 :]
        # Of snapshots of the same state, saved again, it is the first.
        here = next((s for s in before if "number" in s.metadata), before[-1])
        await self._restore_with([*self._redoable, *left], here)
        return here

    async def redo(self) -> Snapshot:
        """Redo what the last undo undid, a cell at a time."""
        redoable = self._redoable
        if not redoable:
            raise ConfigurationError("there is nothing to redo: nothing was undone, or a cell has run since")
        snapshot = self.find(redoable[-1])
        await self._restore_with(redoable[:-1], snapshot)
        return snapshot

    @property
    def _redoable(self) -> list[str]:
        return self._undone if self._undone_at == self._runtime.moment else []

    async def _restore_with(self, undone: list[str], snapshot: Snapshot) -> None:
        await self.restore(snapshot)
        self._undone, self._undone_at = undone, self._runtime.moment
