"""A store of chunks named by their content, and of manifests that say what is made of them.

folder/lock              held shared while chunks are put or must stay, exclusive while unused ones are collected
folder/packs/            chunks, many to a file, never changed: `packs`
folder/manifests/        what refers to them: `manifests`
folder/index-N.sqlite    where each chunk is; only a cache: `chunk_index`
folder/sequence          the last number given to a manifest: `sequence`
folder/new/              files being written; each is locked by its writer, and what is not is swept by a collection

A take becomes visible by one rename, that of its manifest, after everything it refers to is on the disk; a kill or a
full disk before that leaves packs that nothing refers to, which the next collection deletes. Reading needs no lock: a
pack that a collection moved away meanwhile is looked for again. A chunk that turns out to be damaged is forgotten, with
all that its pack has lost, so that the next take which has one stores it again, which mends whatever refers to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from wasm_kernel.errors import BadManifest, DamagedChunk, StoreBusy
from wasm_kernel.host.durable import sync_folder
from wasm_kernel.host.store import collect, manifests, packs
from wasm_kernel.host.store.allowance import Allowance, allowance, stored_bytes
from wasm_kernel.host.store.chunk_index import ChunkIndex
from wasm_kernel.host.store.collect import Collected, Verified
from wasm_kernel.host.store.packs import HASH, MAX_RAW, ZERO, BadPack, ChunkRead, PackWriter, Place, hash_of
from wasm_kernel.host.store.threads import Each, in_threads, one_by_one

__all__ = [
    "HASH",
    "MAX_RAW",
    "ZERO",
    "BadManifest",
    "ChunkStore",
    "Collected",
    "DamagedChunk",
    "StoreBusy",
    "Transaction",
    "Verified",
]

_ZEROS = bytes(MAX_RAW)
_SOME = 64  # chunks looked for at once, when the index does not help
_ATTEMPTS = 5
_FOLDERS = ("packs", "manifests", "new")


class ChunkStore:
    """Chunks and manifests below one folder. Any number of processes and threads may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbered: dict[str, int] = {}  # a group to the highest number in it, for whoever numbers manifests
        self._packs, self._manifests = folder / "packs", folder / "manifests"
        self._index = ChunkIndex(folder)

    def close(self) -> None:
        """Close its files. The next use opens them again."""
        self._index.close()

    # ---- chunks

    @contextlib.contextmanager
    def take(self, *, hurry: bool = True) -> Iterator[Transaction]:
        """Put chunks and commit manifests; no collection runs meanwhile. What is not committed is as if never put.

        ``hurry``: with two threads, because somebody waits for it.
        """
        with self.hold():
            self._index.refresh()
            take = Transaction(self.folder, self._index, allowance(self.folder), in_threads if hurry else one_by_one)
            try:
                yield take
            finally:
                take.discard()

    def read_into(self, wanted: Sequence[tuple[bytes, memoryview]]) -> None:
        """Fill each view with the chunk of that name, verified; a view is as long as its chunk.

        `DamagedChunk` when one cannot be had; what is in the views is undefined then.
        """
        targets: dict[bytes, list[memoryview]] = {}
        for name, view in wanted:
            flat = view if view.format == "B" and view.ndim == 1 else view.cast("B")
            if name == ZERO:
                _fill_zeros(flat)
            else:
                targets.setdefault(name, []).append(flat)
        places = self._index.locate(targets)
        jobs = [ChunkRead(name, place, targets[name][0]) for name, place in places.items()]
        failed = [name for name in targets if name not in places]
        failed += self._read(jobs)
        if failed:
            self._read_again(failed, targets)
        for views in targets.values():
            for other in views[1:]:
                other[:] = views[0]

    def read_chunk(self, name: bytes) -> bytes:
        """One chunk, verified. ZERO has no length: it cannot be read this way."""
        if name == ZERO:
            raise ValueError("ZERO stands for zeros of any length; read_into fills a view with them")
        place = self._index.locate([name]).get(name)
        found = packs.read_one(self._packs, name, place) if place else None
        if found is None:
            return self._search([name])[name]
        return found[1]

    def has(self, names: Iterable[bytes]) -> bool:
        """Whether chunks are in packs that are there; they are not read."""
        wanted = set(names) - {ZERO}
        places = self._index.locate(wanted)
        return len(places) == len(wanted) and {p.pack for p in places.values()} <= set(packs.pack_names(self._packs))

    def _read(self, jobs: Sequence[ChunkRead]) -> list[bytes]:
        """Read what fits its view; the names of the others."""
        failed = [job.name for job in jobs if job.place.raw != len(job.target)]
        fitting = [job for job in jobs if job.place.raw == len(job.target)]
        runs = list(packs.runs(fitting))
        size = sum(job.place.raw for job in fitting)
        for names in in_threads(lambda run: packs.read_run(self._packs, run), runs, size):
            failed += names
        return failed

    def _read_again(self, failed: list[bytes], targets: dict[bytes, list[memoryview]]) -> None:
        """The index was behind or wrong, or chunks are damaged: look for them in every pack."""
        for start in range(0, len(failed), _SOME):
            for name, data in self._search(failed[start : start + _SOME], failed).items():
                if any(len(view) != len(data) for view in targets[name]):
                    raise _damaged([name], f"has {len(data):,} bytes, not as many as the manifest says")
                targets[name][0][:] = data

    def _search(self, names: Sequence[bytes], suspected: Sequence[bytes] = ()) -> dict[bytes, bytes]:
        """Chunks from wherever there is a whole copy, which the index learns; `DamagedChunk` if one has none."""
        found: dict[bytes, bytes] = {}
        places: dict[bytes, Place] = {}
        for _ in range(_ATTEMPTS):
            there = packs.pack_names(self._packs)
            for pack in there:
                with contextlib.suppress(FileNotFoundError, BadPack):
                    contents = packs.read_index(self._packs, pack)
                    for name in contents.keys() & (set(names) - found.keys()):
                        copy = packs.read_one(self._packs, name, contents[name])
                        if copy:
                            found[name], places[name] = copy[1], contents[name]
            if len(found) == len(set(names)) or there == packs.pack_names(self._packs):
                break  # else a collection moved things meanwhile
        self._index.sync()
        self._index.add(places)
        lost = [name for name in names if name not in found]
        if lost:
            collect.forget_damaged(self._packs, self._index, {*lost, *suspected})
            raise _damaged(lost)
        return found

    # ---- manifests

    def manifest_names(self, group: str | None = None) -> list[tuple[str, str]]:
        """Every manifest's group and name, or those of a group."""
        return manifests.names(self._manifests, group)

    def read_manifest(self, group: str, name: str) -> bytes:
        """A manifest's body, verified; `BadManifest` or FileNotFoundError."""
        return manifests.read(self._manifests, group, name)

    def manifest_head(self, group: str, name: str) -> bytes:
        """What a manifest says of itself, verified; cheap."""
        return manifests.read_head(self._manifests, group, name)

    def remove_manifest(self, group: str, name: str) -> bool:
        """Delete a manifest; its chunks go with the next collection. Whether there was one."""
        return manifests.remove(self._manifests, group, name)

    # ---- the whole

    def collect(self, chunks_of: Callable[[bytes], Iterable[bytes]], *, wait: float = 0.0) -> Collected:
        """Delete the chunks that no manifest refers to; ``chunks_of`` gives the names in a manifest's body.

        A `WasmKernelError` from it says that the body is invalid; such a manifest keeps nothing alive. Anything else it
        raises ends the collection before a chunk is gone. `StoreBusy` when somebody takes, or collects, for longer
        than ``wait`` seconds.
        """
        if not self.folder.exists():
            return Collected()
        with self._locked(fcntl.LOCK_EX, wait):
            self._index.refresh()
            return collect.collect(self.folder, self._index, chunks_of)

    def verify(
        self,
        chunks_of: Callable[[bytes], Iterable[bytes]],
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Verified:
        """Read everything and compare it with its names. ``on_progress`` gets the bytes read, and those there are."""
        if not self.folder.exists():
            return Verified()
        with self.hold():
            return collect.verify(self.folder, self._index, chunks_of, on_progress or (lambda done, total: None))

    def stored_bytes(self) -> int:
        """Bytes of chunks, manifests, logs of cells and memories on the disk."""
        return stored_bytes(self.folder)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep collections away meanwhile."""
        with self._locked(fcntl.LOCK_SH, None):
            yield

    @contextlib.contextmanager
    def _locked(self, mode: int, wait: float | None) -> Iterator[None]:
        end = time.monotonic() + (wait or 0.0)
        while True:
            handle = self._open_lock()
            try:
                while not _try_lock(handle, mode, block=wait is None):
                    if time.monotonic() >= end:
                        raise StoreBusy(
                            f"snapshots in {self.folder} are being taken or collected by another process or thread; "
                            "try again when it is done, or pass wait=SECONDS"
                        )
                    time.sleep(0.01)
                if os.fstat(handle).st_nlink == 0:
                    continue  # the whole store was deleted
                try:
                    yield
                finally:
                    with contextlib.suppress(OSError):
                        fcntl.flock(handle, fcntl.LOCK_UN)  # a forked child may hold the same descriptor
                return
            finally:
                os.close(handle)

    def _open_lock(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        for name in _FOLDERS:
            folder = self.folder / name
            if not folder.is_dir():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.chmod(0o700)
                folder.mkdir(mode=0o700, exist_ok=True)
                for place in (self.folder, self.folder.parent):
                    sync_folder(place)
        return os.open(self.folder / "lock", flags, 0o600)


class Transaction:
    """Chunks on their way into the store, by one thread. What is put must not change before the call returns.

    Attributes:
        stored: New bytes so far, as they are on the disk.
    """

    def __init__(self, folder: Path, index: ChunkIndex, allowance: Allowance, each: Each) -> None:
        self.stored = 0
        self._each = each
        self._allowance = allowance
        self._folder, self._packs, self._index = folder, folder / "packs", index
        self._writers: list[PackWriter] = []
        self._own: set[bytes] = set()
        self._failed = False
        self._sizes: dict[str, int] = {}

    def put(self, data: bytes | memoryview) -> bytes:
        """Store a chunk unless the store has it; its name."""
        return self.put_many([memoryview(data)])[0]

    def put_many(self, datas: Sequence[memoryview]) -> list[bytes]:
        """The same for many chunks; their names, in order."""
        views = [view if view.format == "B" and view.ndim == 1 else view.cast("B") for view in datas]
        size = sum(map(len, views))
        if any(len(view) > MAX_RAW for view in views):
            raise ValueError(f"a chunk has at most {MAX_RAW:,} bytes")
        names: list[bytes] = self._each(_name_of, views, size)
        fresh = {name: view for name, view in zip(names, views, strict=True) if name != ZERO and name not in self._own}
        if fresh:
            self._index.sync_once()  # whoever puts nothing, as a fork, does without the index
        for name, place in self._index.locate(fresh).items():
            if self._is_there(place):
                del fresh[name]
        if fresh:
            with self._unless_it_fails():
                self._store(fresh)
        return names

    def _store(self, fresh: dict[bytes, memoryview]) -> None:
        local = threading.local()

        def pack(view: memoryview) -> tuple[bytes | memoryview, int]:
            if not hasattr(local, "packer"):
                local.packer = packs.Packer()
            packed: tuple[bytes | memoryview, int] = local.packer.pack(view)
            return packed

        for some in _portions(list(fresh.items())):
            blobs = self._each(pack, [view for _, view in some], sum(len(view) for _, view in some))
            for (name, view), (blob, codec) in zip(some, blobs, strict=True):
                self._writer().add(name, blob, len(view), codec)
                self._own.add(name)
                self.stored += len(blob)
            self._allowance.check_bytes(self.stored)

    def commit(self, group: str, name: str, head: bytes, body: bytes) -> None:
        """Make what was put durable, and visible under a name. FileExistsError if it is taken. Can be repeated."""
        self._allowance.check_number(lambda: len(manifests.names(self._folder / "manifests", None)))
        self._allowance.check_bytes(self.stored + len(head) + len(body))
        manifest = manifests.NewManifest(self._folder / "new", self._folder / "manifests", group, name, head, body)
        try:
            with self._unless_it_fails():
                for writer in self._writers:
                    writer.finish()
                for writer in self._writers:
                    writer.publish(self._packs)
                if self._writers:
                    sync_folder(self._packs)
            for writer in self._writers:
                self._index.add(writer.places)
            self._writers = []
            manifest.publish()
        finally:
            manifest.discard()

    def discard(self) -> None:
        """Delete what was not committed."""
        for writer in self._writers:
            writer.discard()
        self._writers = []
        self._own.clear()

    @contextlib.contextmanager
    def _unless_it_fails(self) -> Iterator[None]:
        """A pack that could not be written is lost with all that was put; nothing may refer to it."""
        if self._failed:
            raise RuntimeError("this take has failed before; begin another")
        try:
            yield
        except BaseException:
            self._failed = True
            raise

    def _writer(self) -> PackWriter:
        if not self._writers or self._writers[-1].full:
            self._writers.append(PackWriter(self._folder / "new"))
        return self._writers[-1]

    def _is_there(self, place: Place) -> bool:
        """The index may name a pack that is gone or cut short; nobody removes one while this take lasts."""
        if place.pack not in self._sizes:
            try:
                self._sizes[place.pack] = os.stat(f"{self._packs}/{place.pack}").st_size  # noqa: PTH116
            except FileNotFoundError:
                self._sizes[place.pack] = -1
        return place.offset + place.stored <= self._sizes[place.pack]


# ---- helpers


def _name_of(view: memoryview) -> bytes:
    size = len(view)
    if not size or (not view[0] and not view[-1] and not view[size // 2] and bytes(view) == _ZEROS[:size]):
        return ZERO
    return hash_of(view)


def _fill_zeros(view: memoryview) -> None:
    for start in range(0, len(view), MAX_RAW):
        view[start : start + MAX_RAW] = _ZEROS[: len(view) - start]


def _portions(items: list[tuple[bytes, memoryview]]) -> Iterator[list[tuple[bytes, memoryview]]]:
    """Portions so small that little is compressed but not yet written."""
    for start in range(0, len(items), 256):
        yield items[start : start + 256]


def _damaged(names: Sequence[bytes], problem: str = "is missing or damaged") -> DamagedChunk:
    more = f", as are {len(names) - 1:,} more" if len(names) > 1 else ""
    return DamagedChunk(
        f"chunk {names[0].hex()[:16]} {problem}{more}: this snapshot cannot be used, others can; "
        "`wasm-kernel snapshots verify` lists every snapshot that is affected"
    )


def _try_lock(handle: int, mode: int, *, block: bool) -> bool:
    try:
        fcntl.flock(handle, mode if block else mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
