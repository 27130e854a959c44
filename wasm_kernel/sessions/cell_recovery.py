"""After a kill: the cells that were answered, and are in the log but not in the store, become checkpoints like any."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from wasm_kernel.errors import BadSnapshot, OlderImage, WasmKernelError
from wasm_kernel.host.image import older_images
from wasm_kernel.host.runtime.instance_parts import AtRest
from wasm_kernel.host.store.found_log import FoundLog, LoggedCell
from wasm_kernel.model.cell_records import CellRecord, parse_cell_record
from wasm_kernel.model.snapshots import Manifest, SavedFile, Snapshot, Variables
from wasm_kernel.sessions.recorder import read_snapshot
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.unsaved_cell import open_file

_MOST_CHECKPOINTS = 30  # earlier cells are replayed, and cannot be undone any more


@dataclass(frozen=True)
class RecoveredCells:
    """What came of a log.

    Attributes:
        manifest: Where the guest is now; None: there was nothing to bring back.
        problem: What could not be brought back, in one sentence; empty: nothing.
    """

    manifest: Manifest | None = None
    problem: str = ""

    def within(self, live: LiveSession) -> Manifest | None:
        """The manifest, if the guest may have so much memory. Otherwise its snapshots are what is left of it."""
        manifest = self.manifest
        if manifest is not None and manifest.snapshot.memory_bytes > live.policy.memory_bytes:
            live.start_afresh()
            return None
        return manifest


def recover_cells(live: LiveSession) -> RecoveredCells:
    """Bring back what a killed process had answered and not stored. The session was just opened. Blocks.

    What cannot be stored now, such as on a full disk, is in the guest all the same, and stays in the log.
    """
    found = live.cell_log.find()
    if found is None:
        return RecoveredCells()
    if not found.paths:
        return RecoveredCells(problem=_lost(found.problem))
    try:
        img = older_images.load(found.image, metered=live.policy.fuel_budget is not None)
    except OlderImage as e:
        return RecoveredCells(problem=_lost(str(e)))
    begin, done = _newest_of(live, found)
    if done >= found.last:
        return RecoveredCells(problem=_lost(found.problem) if found.problem else "")
    if found.first > done + 1 or (begin is None and found.base):
        return RecoveredCells(problem=_lost("the snapshot that the log of the last cells builds on is gone"))
    if img.key != live.sandbox.image.key:
        live.sandbox.reset(img)
    try:
        return _Replay(live, found, begin).run(done)
    except WasmKernelError as e:  # the snapshot that it builds on is damaged
        live.start_afresh()
        return RecoveredCells(problem=_lost(str(e)))


def _lost(why: str) -> str:
    return f"Some of the last cells could not be brought back: {why}. Everything before them is there."


def _newest_of(live: LiveSession, found: FoundLog) -> tuple[Manifest | None, int]:
    """The newest snapshot that includes records of a log, or the one that it builds on; and how many it includes."""
    store = live.recorder.store
    best: tuple[Manifest | None, int] = None, 0
    for group, name in store.manifest_names(live.session_id):
        with contextlib.suppress(WasmKernelError, OSError):
            manifest = read_snapshot(store, group, name)
            log_id, position = manifest.log
            if (log_id == found.id and position > best[1]) or (name == found.base and best[0] is None):
                best = manifest, position if log_id == found.id else 0
    return best


class _Replay:
    """Replays the records of a log over the snapshot that they build on."""

    def __init__(self, live: LiveSession, found: FoundLog, begin: Manifest | None) -> None:
        self._live, self._found, self._recorder = live, found, live.recorder
        self._begin = begin
        self._variables: Variables = dict(begin.variables) if begin is not None else {}
        # As long as no cell changed any, the files are what they were: the running cell may have changed them since.
        self._files: list[SavedFile] | None = list(begin.files) if begin is not None else None
        self._manifest = begin
        self._problem = found.problem

    def run(self, done: int) -> RecoveredCells:
        if self._begin is not None:
            self._recorder.restore(self._begin, files=False, for_log=True)
        self._live.cell_log.go_on(self._found)
        try:
            for cell in self._found.cells(done):
                self._one(cell)
        except BadSnapshot as e:
            self._problem = str(e)
        self._live.note()  # it was used, whether or not that was noted in time
        if self._problem:  # what follows can never be used
            last = self._recorder.last
            self._live.cell_log.begin(last.snapshot_id if last is not None else "", self._live.sandbox.image.key)
        return RecoveredCells(self._manifest, _lost(self._problem) if self._problem else "")

    def _one(self, cell: LoggedCell) -> None:
        record = parse_cell_record(cell.head)
        if record.too_large:
            raise BadSnapshot("one of them changed too much memory, and the kernel was killed before it was stored")
        rest = AtRest([open_file(d) for d in record.descriptors], record.clock_ns, record.entry)
        self._live.sandbox.replay(record.memory_bytes, cell.body, rest if record.entry else None)
        self._variables = record.applied_to(self._variables)
        if record.changed_files:
            self._files = None  # those that are there now
        snapshot = self._placeholder(record)
        if cell.position > self._found.last - _MOST_CHECKPOINTS:
            with contextlib.suppress(WasmKernelError, OSError):
                snapshot = self._store(cell.position, record)
        self._manifest = Manifest(snapshot, entry=record.entry, variables=self._variables)

    def _store(self, position: int, record: CellRecord) -> Snapshot:
        recorder = self._recorder
        everything = recorder.begin_capture()
        guest = self._live.sandbox.capture(recorder.split, everything=everything)
        recorder.captured(guest.memory, files=False)
        guest.memory.logged = (self._found.id, position)
        if self._files is None:
            recorder.expect_files()
        snapshot = recorder.write(
            replace(guest, at=record.at),
            "checkpoint",
            execution_count=record.count,
            variables=self._variables,
            metadata=record.metadata,
            files=self._files,
        )
        self._files = recorder.files
        return snapshot

    def _placeholder(self, record: CellRecord) -> Snapshot:
        """For a cell that is not in the store."""
        return Snapshot(
            snapshot_id="",
            session_id=self._live.session_id,
            trigger="checkpoint",
            created_at=record.at,
            execution_count=record.count,
            image_key=self._found.image,
            memory_bytes=record.memory_bytes,
            metadata=record.metadata,
        )
