"""Takes and restores snapshots of one live session. What did not change since the last one is not stored again."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import image
from wasm_kernel.host.chunks import ZERO, ChunkStore
from wasm_kernel.host.filetree import SavedTree
from wasm_kernel.host.instance import AtRest
from wasm_kernel.host.interposer import OpenFile
from wasm_kernel.host.ledger import STATE_FOLDER
from wasm_kernel.host.sandbox import Captured, Sandbox
from wasm_kernel.model.snapshots import MAX_LABEL, Manifest, SavedDescriptor, SavedFile, Snapshot, parse_manifest

_FILE_PATIENCE = 30.0  # seconds that a cell waits, before it changes a file, for that file to be saved


def snapshot_store(root: Path) -> ChunkStore:
    """Where the snapshots of all sessions below a root are."""
    return ChunkStore(root / STATE_FOLDER / "snapshots")


def read_snapshot(store: ChunkStore, session_id: str, snapshot_id: str) -> Manifest:
    """A snapshot's manifest, checked."""
    head = store.manifest_head(session_id, snapshot_id)
    return parse_manifest(head, store.read_manifest(session_id, snapshot_id))


class Recorder:
    """Snapshots of one session. `capture` is quick, while the guest rests; `write` may follow on another thread."""

    def __init__(self, root: Path, session_id: str, folder: Path, sandbox: Sandbox) -> None:
        self.store = snapshot_store(root)
        self._session_id, self._sandbox = session_id, sandbox
        self._trees = (SavedTree("app", folder), SavedTree("tmp", sandbox.scratch))
        self._table: dict[int, bytes] = {}
        self._all = True  # the next capture has to give everything: what is stored is not known
        self._lock = threading.Lock()  # one snapshot at a time
        self._unsaved = 0  # captures whose files are still to be read
        self._saved = threading.Condition()
        self.last: Snapshot | None = None
        sandbox.before_change = self._wait_for_files

    # ---- taking

    @property
    def wants_everything(self) -> bool:
        """What the next capture has to be asked for."""
        return self._all

    def captured(self) -> None:
        """The guest was just captured: until its files are saved, it must not change them."""
        with self._saved:
            self._unsaved += 1
        self._all = False

    def _wait_for_files(self) -> None:
        with self._saved:
            self._saved.wait_for(lambda: self._unsaved == 0, _FILE_PATIENCE)

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
        """Store what was captured, with the files as they are now, or these.

        If that fails, nothing of it is listed, and the next capture is a whole one.
        """
        unsaved = files is None
        try:
            with self._lock, self.store.take() as take:
                if files is None:
                    files = [entry for tree in self._trees for entry in tree.save(take.put)]
                    unsaved = False
                    self._files_are_saved()
                table = dict(self._table)
                stored = [(number, data) for number, data in guest.chunks if data is not None]
                names = take.put_many([memoryview(data) for _, data in stored])
                for number, data in guest.chunks:
                    if data is None:
                        table.pop(number, None)
                table.update(zip((number for number, _ in stored), names, strict=True))
                kept = [f for f in files if f.mount == "app" and f.kind == "file"]
                snapshot = Snapshot(
                    snapshot_id=str(uuid.uuid4()),
                    session_id=self._session_id,
                    trigger=trigger,
                    created_at=datetime.now(UTC),
                    label=label[:MAX_LABEL],
                    parent=self.last.snapshot_id if self.last is not None else "",
                    execution_count=execution_count,
                    image_key=image.parts().base.key,
                    memory_bytes=guest.size,
                    file_count=len(kept),
                    file_bytes=sum(f.size for f in kept),
                    stored_bytes=take.stored,
                    metadata=metadata or {},
                )
                manifest = Manifest(
                    snapshot,
                    table,
                    tuple(_saved(item) for item in guest.rest.files),
                    guest.rest.clock_ns,
                    0 if guest.fresh else guest.rest.entry,
                    tuple(files),
                    variables or {},
                )
                take.commit(self._session_id, snapshot.snapshot_id, snapshot.to_json(), manifest.body())
                self._table, self.last = table, snapshot
        except BaseException:
            self._all = True
            if unsaved:
                self._files_are_saved()
            raise
        return snapshot

    def take(self, trigger: str, **details: Any) -> Snapshot:
        """Capture and store, waited for."""
        guest = self._sandbox.capture(everything=self._all)
        self.captured()
        return self.write(guest, trigger, **details)

    # ---- restoring

    def restore(self, manifest: Manifest, *, reseed: bool = False, files: bool = True) -> None:
        """Make the session what it was. If a chunk is damaged, the session stays as it is."""
        needed, have = manifest.snapshot.image_key, image.parts().base.key
        if needed != have:
            raise ConfigurationError(
                f"snapshot {manifest.snapshot.snapshot_id} needs the image {needed}, and this one is {have}; "
                "install the version of wasm-kernel that made it and run `wasm-kernel image build`"
            )
        with self._lock:
            self._restore(manifest, reseed, files)

    def _restore(self, manifest: Manifest, reseed: bool, files: bool) -> None:
        numbers = sorted(manifest.table)
        if files:  # before anything is touched: is all of it there?
            for name in {name for entry in manifest.files for name in entry.chunks}:
                self._piece(name, 0)

        def fill(views: list[tuple[int, memoryview]]) -> None:
            self.store.read_into([(manifest.table[number], view) for number, view in views])

        def put_files_back() -> None:
            if files:
                for tree, mount in zip(self._trees, ("app", "tmp"), strict=True):
                    tree.restore([f for f in manifest.files if f.mount == mount], self._piece)

        rest = AtRest([_open_file(d) for d in manifest.descriptors], manifest.clock_ns, manifest.entry)
        if manifest.entry:
            size = manifest.snapshot.memory_bytes
            self._sandbox.restore(size, numbers, fill, rest, files=put_files_back, reseed=reseed)
        else:
            self._sandbox.restart(put_files_back)
        self._table, self.last, self._all = dict(manifest.table), manifest.snapshot, False

    def _piece(self, name: bytes, length: int) -> bytes:
        return bytes(length) if name == ZERO else self.store.read_chunk(name)[: length or None]

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            self.store.close()


def _saved(item: OpenFile) -> SavedDescriptor:
    return SavedDescriptor(
        item.fd, item.mount, item.path, item.lookup, item.oflags, item.fdflags, item.rights, item.offset
    )


def _open_file(item: SavedDescriptor) -> OpenFile:
    return OpenFile(item.fd, item.mount, item.path, item.lookup, item.oflags, item.fdflags, item.rights, item.offset)
