"""Takes and restores snapshots of one live session. What has not changed since the last one is not stored again."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel import __version__
from wasm_kernel.errors import BadSnapshot, SandboxError, WasmKernelError
from wasm_kernel.host.disk.reserve import is_full
from wasm_kernel.host.durable import sync_tree
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.host.image import older_images
from wasm_kernel.host.image.image import Image
from wasm_kernel.host.runtime.instance_parts import AtRest
from wasm_kernel.host.runtime.memory import CapturedMemory, GuestMemory
from wasm_kernel.host.runtime.sandbox import Captured, Sandbox
from wasm_kernel.host.store import manifests, memory_files
from wasm_kernel.host.store.cell_log import CellLog
from wasm_kernel.host.store.chunks import ChunkStore, Transaction
from wasm_kernel.host.store.memory_files import MemoryFiles
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.snapshots import (
    BASE,
    MAX_LABEL,
    PAGES,
    Manifest,
    SavedFile,
    Snapshot,
    parse_manifest,
)
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.left_memory import LeftMemory
from wasm_kernel.sessions.memory_table import PAGE, difference, updated
from wasm_kernel.sessions.piece_reader import PieceReader
from wasm_kernel.sessions.snapshot_commit import commit_snapshot
from wasm_kernel.sessions.unsaved_cell import open_file, saved_descriptor

_MOST_PATCHED = 256 << 20  # bytes of memory held twice while a snapshot is restored
_UNNOTICED = 1.0  # seconds of it that need no explanation
_FEW_FILES = 100  # a look at them takes a fraction of a millisecond
_FILE_PATIENCE = 30.0  # seconds that a cell waits, before it changes a file, for that file to be saved


def snapshot_store(root: Path) -> ChunkStore:
    """The store for the snapshots of all sessions below a root."""
    return ChunkStore(root / STATE_FOLDER / "snapshots")


def read_snapshot(store: ChunkStore, session_id: str, snapshot_id: str) -> Manifest:
    """Read and check a snapshot's manifest."""
    head = store.manifest_head(session_id, snapshot_id)
    return parse_manifest(head, store.read_manifest(session_id, snapshot_id))


class Recorder:
    """Snapshots of one session. `capture` is quick, while the guest is idle; `write` may follow on another thread."""

    def __init__(
        self, root: Path, session_id: str, folder: Path, sandbox: Sandbox, log: CellLog, on_wait: Callable[[bool], None]
    ) -> None:
        self.root, self.store, self.log = root, snapshot_store(root), log
        self._session_id, self._folder, self._sandbox, self._on_wait = session_id, folder, sandbox, on_wait
        self._trees = (SavedTree("app", folder), SavedTree("tmp", sandbox.scratch))
        self._image_key = sandbox.image.key  # what the table is about
        self._table: dict[int, tuple[bytes, ...]] = {}
        self._split: set[int] = set()  # chunks of the table that are stored page by page
        self._all = True  # the next capture has to be complete: what is stored is unknown
        self._broken = False  # a capture was lost: the table lacks what later ones build on
        self._begun = False  # a capture that `captured` was not told about: it may be lost
        self._lock = threading.Lock()  # one snapshot at a time
        self._unsaved = 0  # captures whose files are still to be read
        self._saved = threading.Condition()
        self.files: list[SavedFile] | None = None  # as they were last saved
        self.last: Snapshot | None = None
        self._captured: weakref.ref[CapturedMemory] | None = None  # most recently
        self._has_last = False  # the memory was that of `last` when it was last captured or restored
        self._from_file = False  # the memory is not from the store, which was not looked at
        self._left = LeftMemory(MemoryFiles(self.store.folder, session_id), sandbox)
        sandbox.before_change = self._wait_for_files

    # ---- taking

    def begin_capture(self) -> bool:
        """Whether the capture that begins now has to be complete. `captured` must follow, or the next one has to be."""
        everything = self._needs_everything() or not self._last_is_there()
        self._begun = True
        return everything

    def _needs_everything(self) -> bool:
        moved = self._image_key != self._sandbox.image.key
        return self._all or self._begun or moved or not self._is_stored()

    def capture_at_once(self) -> Captured | None:
        """Capture the guest right after a cell, if that takes no time: without going to the sandbox's thread."""
        if self.files is None or len(self.files) > _FEW_FILES or self._needs_everything():
            return None
        if self.last is not None and not manifests.exists(self.store.folder, self._session_id, self.last.snapshot_id):
            return None  # whether it is whole is seen when this is written
        guest = self._sandbox.capture_at_once(self._split, self.files_differ)
        if guest is not None:
            self.captured(guest.memory, files=False)
        return guest

    def _last_is_there(self) -> bool:
        """Whether what the next snapshot builds on is still stored: chunks in use by a manifest are never collected."""
        if self.last is None:
            return True
        try:
            self.store.manifest_head(self._session_id, self.last.snapshot_id)
        except (WasmKernelError, OSError):
            return False
        return True

    def _is_stored(self) -> bool:
        """Whether the store has the memory that was mapped from a file: only then can a snapshot build on it."""
        if self._from_file:
            names = (name for names in self._table.values() for name in names if name != BASE)
            self._from_file = not self.store.has(names)
        return not self._from_file

    def files_differ(self) -> bool:
        """Whether anything in /app or /tmp may have changed since it was last saved."""
        return self.files is None or any(tree.differs() for tree in self._trees)

    def captured(self, memory: CapturedMemory, *, files: bool = True) -> None:
        """The guest was just captured. ``files``: until they are saved, it must not change them."""
        if files:
            self.expect_files()
        self._begun = False
        self._captured, self._has_last = weakref.ref(memory), False
        memory.logged = (self.log.id, self.log.position)
        # Determined now, not when it is written: the next capture may come first.
        if memory.everything:
            self._all = self._from_file = False
            self._image_key = self._sandbox.image.key
            self._split.clear()
        self._split.difference_update(memory.whole)
        self._split.update(page // PAGES for page in memory.pages)

    def expect_files(self) -> None:
        """The files will be saved with the next write."""
        with self._saved:
            self._unsaved += 1

    def _wait_for_files(self) -> None:
        with self._saved:
            if self._saved.wait_for(lambda: self._unsaved == 0, _UNNOTICED):
                return
        self._on_wait(True)
        try:
            with self._saved:
                self._saved.wait_for(lambda: self._unsaved == 0, _FILE_PATIENCE)
        finally:
            self._on_wait(False)

    def _files_are_saved(self) -> None:
        with self._saved:
            self._unsaved -= 1
            self._saved.notify_all()

    def write(
        self,
        guest: Captured,
        trigger: str,
        *,
        label: str = "",
        execution_count: int = 1,
        variables: dict[str, list[Any]] | None = None,
        metadata: dict[str, Any] | None = None,
        files: list[SavedFile] | None = None,
    ) -> Snapshot:
        """Store what was captured, with ``files``, or the files as they are now.

        If that fails, the snapshot is not listed, and the next capture is complete.
        """
        unsaved = files is None
        try:
            with self._lock, self.store.take(hurry=trigger != "checkpoint") as take:
                if not self._last_is_there():
                    self._broken = True
                    self._forget_files()
                if files is None:
                    files = [entry for tree in self._trees for entry in tree.save(take.put)]
                    unsaved = False
                    self._files_are_saved()
                    if files and files != self.files:
                        sync_tree(self._folder)  # a power cut must not leave variables without the files they are about
                self.files = files
                table = self._stored(guest.memory, take)
                kept = [f for f in files if f.mount == "app" and f.kind == "file"]
                snapshot = Snapshot(
                    snapshot_id=str(uuid.uuid4()),
                    session_id=self._session_id,
                    trigger=trigger,
                    created_at=guest.at,
                    label=label[:MAX_LABEL],
                    parent=self.last.snapshot_id if self.last is not None else "",
                    execution_count=execution_count,
                    image_key=guest.image_key,
                    memory_bytes=guest.memory.size,
                    file_count=len(kept),
                    file_bytes=sum(f.size for f in kept),
                    stored_bytes=take.stored,
                    metadata=metadata or {},
                    saved_by=__version__,
                )
                manifest = Manifest(
                    snapshot,
                    table,
                    tuple(saved_descriptor(item) for item in guest.rest.files),
                    guest.rest.clock_ns,
                    0 if guest.fresh else guest.rest.entry,
                    tuple(files),
                    variables or {},
                    guest.memory.logged,
                )
                snapshot = commit_snapshot(self.store, take, snapshot, manifest.body())
                self._table, self.last, self._broken = table, snapshot, False
                self._has_last = self._captured is not None and self._captured() is guest.memory
        except BaseException as e:
            if isinstance(e, OSError) and is_full(e):
                memory_files.drop_all(self.store.folder)
            self._all = self._broken = True
            self._forget_files()  # what was written is not referenced
            if unsaved:
                self._files_are_saved()
            raise
        self.log.arrived()
        self.log.folded(*guest.memory.logged)
        return snapshot

    def _forget_files(self) -> None:
        self.files = None
        for tree in self._trees:
            tree.forget()

    def _stored(self, memory: CapturedMemory, take: Transaction) -> dict[int, tuple[bytes, ...]]:
        """The table of chunks, updated with what changed."""
        if self._broken and not memory.everything:
            raise SandboxError("the previous snapshot, which this one builds on, could not be written")
        return updated({} if memory.everything else self._table, memory, take)

    @property
    def split(self) -> set[int]:
        """Chunks stored page by page: a capture needs only those of their pages that changed."""
        return self._split

    def take(self, trigger: str, **details: Any) -> Snapshot:
        """Capture and store. Blocks."""
        guest = self.capture()
        return self.write(guest, trigger, **details)

    def capture(self) -> Captured:
        """Capture; `write` it next. Blocks."""
        guest = self._sandbox.capture(self._split, everything=self.begin_capture())
        self.captured(guest.memory)
        return guest

    # ---- restoring

    def restore(self, manifest: Manifest, *, reseed: bool = False, files: bool = True, for_log: bool = False) -> None:
        """Restore memory and files; without ``files``, /app stays as it is. If a chunk is damaged, nothing changes.

        ``for_log``: the caller replays the log of cells over it, which ends otherwise. What that makes of it, and
        whether it is within the limit, is seen later.
        """
        img = self._image_of(manifest)
        if img is not None and manifest.snapshot.memory_bytes < img.memory.size:
            raise BadSnapshot(f"snapshot {manifest.snapshot.snapshot_id} has less memory than its image")
        size, most = manifest.snapshot.memory_bytes, self._sandbox.policy.memory_bytes
        if (
            manifest.entry and size > most and not for_log
        ):  # before it is read: a few bytes on disk can expand to all of it
            raise SandboxError(
                f"snapshot {manifest.snapshot.snapshot_id} has {format_size(size)} of memory, "
                f"but the limit is {format_size(most)}; "
                "raise it with %session limits memory=… in a notebook, or ExecutionPolicy(memory_bytes=…) in a program"
            )
        with self._lock, self.store.hold():
            self._restore(manifest, img, reseed, ("app", "tmp") if files else ("tmp",))
        if not for_log:
            self._begin_log(manifest)

    def _image_of(self, manifest: Manifest) -> Image | None:
        """The image that a snapshot's memory builds on; None: it has no memory. `OlderImage` if it cannot be used."""
        if not manifest.entry:
            return None
        return older_images.load(manifest.snapshot.image_key, metered=self._sandbox.policy.fuel_budget is not None)

    def _begin_log(self, manifest: Manifest) -> None:
        self.log.begin(manifest.snapshot.snapshot_id if manifest.entry else "", self._sandbox.image.key)

    def _restore(self, manifest: Manifest, img: Image | None, reseed: bool, mounts: tuple[str, ...]) -> None:
        wanted = {tree: [f for f in manifest.files if f.mount == tree.mount] for tree in self._trees}
        # Check that everything is there before changing anything.
        missing = [entry for tree in self._trees if tree.mount in mounts for entry in tree.missing(wanted[tree])]
        PieceReader(self.store, missing).check_all()

        def put_files_back() -> None:
            if "app" in mounts:
                self.log.moving(manifest.snapshot.snapshot_id)
            try:
                for tree in self._trees:
                    if tree.mount in mounts:
                        tree.restore(wanted[tree], PieceReader(self.store, wanted[tree]))
            except BaseException:
                self.log.arrived()
                raise

        if img is not None:
            rest = AtRest([open_file(d) for d in manifest.descriptors], manifest.clock_ns, manifest.entry)
            self._sandbox.restore(
                img,
                lambda memory, known: self._prepare(memory, known, manifest, img),
                rest,
                files=put_files_back,
                reseed=reseed,
            )
        else:
            self._sandbox.restart(put_files_back)
        self._table = dict(manifest.table) if manifest.entry else {}
        self._split = {number for number, names in self._table.items() if len(names) > 1}
        self.last, self._all, self._broken, self.files = manifest.snapshot, False, False, None
        self._begun, self._has_last = False, bool(manifest.entry)
        self._image_key = self._sandbox.image.key

    def _prepare(self, memory: GuestMemory, known: bool, manifest: Manifest, img: Image) -> Callable[[], GuestMemory]:
        """A snapshot's memory, mapped or read; only what differs from the current one, if that is known and little."""
        size = manifest.snapshot.memory_bytes
        file = self._left.find(manifest.snapshot)
        self._from_file = file is not None
        if file is not None:
            mapped = GuestMemory(img.memory)
            mapped.lay_over(file)
            return lambda: mapped
        known = known and memory.base is img.memory and self._image_key == img.key
        if known and not (self._all or self._broken or self._begun):
            stretches, wanted, of_base = difference(self._table, manifest.table, memory.changed)
            if sum(last - first for first, last in stretches) * PAGE <= _MOST_PATCHED:
                contents = [memoryview(bytearray((last - first) * PAGE)) for first, last in stretches]
                self.store.read_into(list(zip(wanted, contents, strict=True)))

                def patched() -> GuestMemory:
                    memory.patch(
                        size, [(s[0], content) for s, content in zip(stretches, contents, strict=True)], of_base
                    )
                    return memory

                return patched
        stretches, wanted, _ = difference({}, manifest.table, set())
        anew = GuestMemory(img.memory)
        self.store.read_into(list(zip(wanted, anew.load(size, stretches), strict=True)))
        return lambda: anew

    def leave_memory(self) -> None:
        """Leave the memory in a file for whoever opens the session next, if the last snapshot has it. Blocks."""
        if self.last is not None:
            self._left.leave(self.last, has_it=self._has_last and not self._broken)

    def release(self) -> None:
        """Give the guest's memory back to the system; the last snapshot has it, and has to be restored then."""
        self.leave_memory()
        self._sandbox.release()

    def mark(self, manifest: Manifest) -> Snapshot:
        """After a restore: record it in a new snapshot, so that it survives a crash."""
        known = manifest.snapshot
        snapshot = known.moved(
            snapshot_id=str(uuid.uuid4()),
            trigger="checkpoint",
            created_at=datetime.now(UTC),
            label="",
            parent=known.snapshot_id,
            stored_bytes=0,
            metadata={"restored": known.snapshot_id},
        )
        with self._lock, self.store.take() as take:
            self.last = commit_snapshot(self.store, take, snapshot, replace(manifest, log=("", 0)).body())
        self.log.arrived()
        self._begin_log(replace(manifest, snapshot=self.last))
        return self.last

    def name(self, manifest: Manifest, label: str) -> None:
        """Give a snapshot a name; a checkpoint becomes a person's snapshot by that, so that it stays."""
        named = manifest.snapshot.moved(label=label, trigger="user")
        with self._lock:
            manifests.replace(self.store.folder, named.session_id, named.snapshot_id, named.to_json(), manifest.body())
            if self.last is not None and self.last.snapshot_id == named.snapshot_id:
                self.last = named

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            self.store.close()
