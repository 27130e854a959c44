"""A session's snapshots, and moving between them: undo, redo, restore."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.model.snapshots import MAX_LABEL, Manifest, SavedFile, Snapshot
from wasm_kernel.model.timeline_rows import TimelineRow, row_of, timeline_rows, with_waiting
from wasm_kernel.sessions.recorder import read_snapshot
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.snapshots import list_snapshots

_MOST_FILES = 100  # as many as a person will read


class Timeline:
    """The snapshots of the session that a runtime works in. Its coroutines run on the runtime's loop.

    Attributes:
        on_moved: Called on a thread with the rows, after the session was moved to another moment.
    """

    def __init__(self, runtime: SessionRuntime, log: logging.Logger) -> None:
        self._runtime, self._log = runtime, log
        self.on_moved: Callable[[list[TimelineRow]], None] = lambda rows: None
        self._undone: list[str] = []
        self._undone_at = -1  # the moment at which these can be redone

    async def settled(self) -> None:
        """Wait until all captures are written."""
        await self._runtime.settled()

    def snapshots(self) -> list[Snapshot]:
        """This session's snapshots, newest first."""
        live = self._runtime.live
        return list_snapshots(live.root, live.session_id)

    def rows(self) -> list[TimelineRow]:
        """The cells that ran and can be gone back to, newest first; the first may not be stored yet."""
        waiting = [row_of(cell, datetime.now(UTC)) for cell in reversed(self._runtime.checkpoints.waiting)]
        found = self.snapshots()
        rows = timeline_rows(found, (s.snapshot_id for s in self.behind(found)), self.last)
        return with_waiting(rows, [row for row in waiting if row.number is not None])

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

    async def name(self, snapshot: Snapshot, label: str) -> None:
        """Give a moment a name, so that it stays and can be found by it."""
        if not label:
            raise ConfigurationError("the name is empty; give one, such as 'before the merge'")
        async with self._runtime.guest:
            await self.settled()
            manifest = await asyncio.to_thread(self.read, snapshot)
            await asyncio.to_thread(self._runtime.live.recorder.name, manifest, label[:MAX_LABEL])
            self._runtime.checkpoints.forget()

    def uploaded_since(self, snapshot: Snapshot) -> list[str]:
        """Files that going back to a snapshot would remove or replace although no cell made them: a person did."""
        then = {f.path.decode("utf-8", "replace"): f for f in self.read(snapshot).files if f.mount == "app"}
        now = workspace_survey.survey(self._runtime.live.folder).files
        gone = {name for name, (_, size, modified, _) in now.items() if _differs(then.get(name), size, modified)}
        for since in self.behind(self.snapshots()):
            if since.snapshot_id == snapshot.snapshot_id:
                break
            files = row_of(since.metadata, since.created_at).files
            gone -= {*files.added, *files.changed}
        return sorted(gone)[:_MOST_FILES]

    async def restore(self, snapshot: Snapshot, *, decided_at: int | None = None) -> None:
        """Move to a snapshot: memory, files, execution count.

        ``decided_at``: the runtime's moment then. If a cell has run since, this is refused: it would be lost unseen.
        """
        runtime = self._runtime
        async with runtime.guest:
            if decided_at not in (None, runtime.moment):
                raise ConfigurationError("a cell has run meanwhile; look at where the session is now, and try again")
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
        self.on_moved(self.rows())

    async def before(self, cells: int) -> Snapshot:
        """The moment before the last N cells."""
        return (await self._way_back(cells))[0]

    async def undo(self, cells: int) -> Snapshot:
        """Undo the last N cells."""
        moment = self._runtime.moment
        there, left = await self._way_back(cells)
        await self._restore_with([*self._redoable, *left], there, moment)
        return there

    async def _way_back(self, cells: int) -> tuple[Snapshot, list[str]]:
        """The moment before the last N cells, and the snapshots of these cells, the newest first."""
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
        return here, left

    async def redo(self) -> Snapshot:
        """Redo what the last undo undid, a cell at a time."""
        redoable = self._redoable
        if not redoable:
            raise ConfigurationError("there is nothing to redo: nothing was undone, or a cell has run since")
        moment = self._runtime.moment
        snapshot = self.find(redoable[-1])
        await self._restore_with(redoable[:-1], snapshot, moment)
        return snapshot

    @property
    def can_redo(self) -> bool:
        """Whether something was undone, and nothing has run since."""
        return bool(self._redoable)

    @property
    def _redoable(self) -> list[str]:
        return self._undone if self._undone_at == self._runtime.moment else []

    async def _restore_with(self, undone: list[str], snapshot: Snapshot, decided_at: int) -> None:
        await self.restore(snapshot, decided_at=decided_at)
        self._undone, self._undone_at = undone, self._runtime.moment


def _differs(saved: SavedFile | None, size: int, modified: int) -> bool:
    return saved is None or saved.size != size or saved.modified_ns != modified
