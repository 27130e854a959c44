"""What looks at a whole store of chunks: collecting what nothing refers to, verifying everything, and what is damaged.

A collection holds the store's lock alone. It plans from the manifests and from what the packs say of themselves, never
from the index. A pack goes after whatever it held that is still wanted lies on the disk elsewhere, so that a kill at
any moment costs nothing but space, which the next collection frees.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.errors import BadManifest, WasmKernelError
from wasm_kernel.host.durable import sync_folder
from wasm_kernel.host.store import manifests, memory_files, packs
from wasm_kernel.host.store.chunk_index import ChunkIndex
from wasm_kernel.host.store.manifests import NewerManifest
from wasm_kernel.host.store.packs import HASH, ZERO, BadPack, PackWriter, Place
from wasm_kernel.host.store.threads import in_threads

_SMALL, _MANY = 4 << 20, 32  # so many packs smaller than this are put together
_SOME = 256  # chunks verified before progress is told
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass
class Collected:
    """What a collection did.

    Attributes:
        missing: Chunks that manifests refer to and that are nowhere, or damaged in every copy.
        unreadable: Manifests that are damaged; they kept nothing alive.
        damaged_packs: Packs whose index is damaged, left where they are because they may hold what is missing.
        incomplete: Why packs were left that should have been rewritten; empty when none were.
    """

    freed: int = 0
    packs_removed: int = 0
    packs_rewritten: int = 0
    chunks_live: int = 0
    missing: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    damaged_packs: list[str] = field(default_factory=list)
    incomplete: str = ""


@dataclass
class Verified:
    """What was found by reading everything.

    Attributes:
        chunks: Different chunks that are whole.
        read: Bytes read.
        damaged: Chunks of which there is no whole copy, by name.
        damaged_packs: Packs whose index cannot be read.
        manifests: For each, why it cannot be used; empty when it can.
    """

    chunks: int = 0
    read: int = 0
    damaged: list[bytes] = field(default_factory=list)
    damaged_packs: list[str] = field(default_factory=list)
    manifests: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damaged or self.damaged_packs or any(self.manifests.values()))


ChunksOf = Callable[[bytes], Iterable[bytes]]


def collect(folder: Path, index: ChunkIndex, chunks_of: ChunksOf) -> Collected:
    """Mark and sweep. The caller holds the store's lock alone."""
    return _Collection(folder, index).run(chunks_of)


class _Collection:
    def __init__(self, folder: Path, index: ChunkIndex) -> None:
        self._folder, self._packs, self._index = folder, folder / "packs", index
        self._done = Collected()
        self._contents: dict[str, dict[bytes, Place]] = {}
        self._bad: set[str] = set()

    def run(self, chunks_of: ChunksOf) -> Collected:
        before = file_bytes(self._packs) + sweep_temporaries(self._folder / "new")
        live = self._mark(chunks_of)
        self._read_packs()
        owned, moved = self._assign(live)
        self._remove_dead(owned, moved)
        self._rewrite(owned)
        self._remove_damaged()
        self._done.freed = max(0, before - file_bytes(self._packs))
        memory_files.sweep(self._folder)
        return self._done

    def _mark(self, chunks_of: ChunksOf) -> set[bytes]:
        """Every chunk a manifest refers to. Only a manifest proven damaged is passed over: other errors end this."""
        live: set[bytes] = set()
        for group, name in manifests.names(self._folder / "manifests"):
            try:
                live |= referred(manifests.read(self._folder / "manifests", group, name), chunks_of)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except NewerManifest:
                raise
            except WasmKernelError:
                self._done.unreadable.append((group, name))
        self._done.chunks_live = len(live)
        return live

    def _read_packs(self) -> None:
        for pack in packs.pack_names(self._packs):
            try:
                self._contents[pack] = packs.read_index(self._packs, pack)
            except BadPack:
                self._bad.add(pack)
                self._contents[pack] = self._index.of_pack(pack)

    def _assign(self, live: set[bytes]) -> tuple[dict[str, dict[bytes, Place]], dict[bytes, Place]]:
        """The pack that keeps each live chunk, and where those are now that several had. A lone copy is trusted."""
        copies: dict[bytes, list[Place]] = {}
        for contents in self._contents.values():
            for name in contents.keys() & live:
                copies.setdefault(name, []).append(contents[name])
        owned: dict[str, dict[bytes, Place]] = {pack: {} for pack in self._contents}
        moved: dict[bytes, Place] = {}
        for name, places in copies.items():
            chosen = places[0]
            if len(places) > 1:
                places.sort(key=lambda place: -len(self._contents[place.pack]))
                whole = (place for place in places if packs.read_one(self._packs, name, place))
                chosen = moved[name] = next(whole, places[0])
            owned[chosen.pack][name] = chosen
        self._done.missing = len(live) - len(copies)
        return owned, moved

    def _remove_dead(self, owned: dict[str, dict[bytes, Place]], moved: dict[bytes, Place]) -> None:
        dead = [pack for pack, keeps in owned.items() if not keeps and pack not in self._bad]
        if dead or moved:
            self._index.add(moved, gone=dead)
        self._unlink(dead)
        self._done.packs_removed += len(dead)
        for pack in dead:
            del owned[pack]

    def _rewrite(self, owned: dict[str, dict[bytes, Place]]) -> None:
        """Put what is live in packs that are mostly dead, damaged, or small and many, into new ones."""
        sizes = {pack: _size(self._packs / pack) for pack, keeps in owned.items() if keeps}
        chosen = {pack for pack, size in sizes.items() if 2 * _stored(owned[pack]) < _stored(self._contents[pack])}
        small = [pack for pack, size in sizes.items() if size < _SMALL]
        if len(small) > _MANY:
            chosen.update(small)
        chosen |= self._bad & sizes.keys()
        waiting = sorted(chosen)
        while waiting:
            writer = PackWriter(self._folder / "new")
            try:
                tried, sources = self._fill(writer, waiting, owned)
                self._publish(writer, sources)
            except OSError as e:
                if e.errno not in _FULL:
                    raise
                self._done.incomplete = f"the disk is full: {len(waiting)} packs were not rewritten"
                return
            finally:
                writer.discard()
            waiting = waiting[tried:]
            self._done.packs_rewritten += len(sources)

    def _fill(
        self, writer: PackWriter, waiting: list[str], owned: dict[str, dict[bytes, Place]]
    ) -> tuple[int, list[str]]:
        """Copy what is live in as many packs as fit; how many were tried, and those that are not needed any more.

        A pack with a damaged chunk that a manifest refers to stays: nothing is thrown away that somebody wants.
        """
        copied: list[str] = []
        for tried, pack in enumerate(waiting):
            if writer.full:
                return tried, copied
            places = sorted(owned[pack].items(), key=lambda item: item[1].offset)
            blobs = [(name, place, packs.read_one(self._packs, name, place)) for name, place in places]
            lost = sum(copy is None for _, _, copy in blobs)
            self._done.missing += lost
            if lost and pack not in self._bad:
                continue
            for name, place, copy in blobs:
                if copy and name not in writer.places:
                    writer.add(name, copy[0], place.raw, place.codec)
            copied.append(pack)
        return len(waiting), copied

    def _publish(self, writer: PackWriter, sources: list[str]) -> None:
        if writer.places:
            writer.finish()
            writer.publish(self._packs)
            sync_folder(self._packs)
        gone = [pack for pack in sources if pack not in self._bad]
        self._index.add(writer.places, gone=gone)
        self._unlink(gone)

    def _remove_damaged(self) -> None:
        """A pack that cannot say what it holds goes once nothing is missing that it might hold."""
        if self._done.missing or self._done.incomplete:
            self._done.damaged_packs = sorted(self._bad)
            return
        if self._bad:
            self._index.add({}, gone=self._bad)
            self._unlink(self._bad)
            self._done.packs_removed += len(self._bad)

    def _unlink(self, names: Iterable[str]) -> None:
        names = list(names)
        for pack in names:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(self._packs / pack)  # noqa: PTH108


def verify(folder: Path, index: ChunkIndex, chunks_of: ChunksOf, progress: Callable[[int, int], None]) -> Verified:
    """Read everything. The caller keeps collections away."""
    found = Verified()
    where = folder / "packs"
    total = file_bytes(where)
    good: dict[bytes, Place] = {}
    bad: set[bytes] = set()
    for pack in sorted(packs.pack_names(where)):
        try:
            contents = packs.read_index(where, pack)
        except BadPack:
            found.damaged_packs.append(pack)
            contents = index.of_pack(pack)
        rest = sorted(contents.items(), key=lambda item: item[1].offset)
        while rest:
            some, rest = rest[:_SOME], rest[_SOME:]
            size = sum(place.raw for _, place in some)
            whole = in_threads(lambda item: packs.read_one(where, *item) is not None, some, size)
            for (name, place), is_whole in zip(some, whole, strict=True):
                if is_whole:
                    good.setdefault(name, place)
                else:
                    bad.add(name)
                found.read += place.stored
            progress(found.read, total)
    progress(total, total)
    found.damaged = sorted(bad - good.keys())
    found.chunks = len(good)
    index.forget(found.damaged)
    index.add({name: good[name] for name in bad & good.keys()})
    for key in manifests.names(folder / "manifests"):
        with contextlib.suppress(FileNotFoundError):
            found.manifests[key] = _problem(folder / "manifests", *key, chunks_of, good.keys())
    return found


def forget_damaged(where: Path, index: ChunkIndex, suspected: Iterable[bytes]) -> None:
    """Forget all that is damaged in the packs of some chunks: what is stored next must not count on it."""
    for pack in {place.pack for place in index.locate(suspected).values()}:
        held = index.of_pack(pack).items()
        index.forget([name for name, place in held if not packs.read_one(where, name, place)])


def _problem(folder: Path, group: str, name: str, chunks_of: ChunksOf, good: Iterable[bytes]) -> str:
    try:
        manifests.read_head(folder, group, name)
        lost = referred(manifests.read(folder, group, name), chunks_of) - set(good)
    except WasmKernelError as e:
        return str(e)
    return f"{len(lost):,} of its chunks are missing or damaged" if lost else ""


def referred(body: bytes, chunks_of: ChunksOf) -> set[bytes]:
    """The chunks a manifest's body refers to, but for zeros; `BadManifest` also for what cannot be names."""
    names = set(chunks_of(body))
    if not all(isinstance(name, bytes) and len(name) == HASH for name in names):
        raise BadManifest("it refers to something that is not a chunk")
    names.discard(ZERO)
    return names


def sweep_temporaries(folder: Path) -> int:
    """Delete what dead writers left; the bytes it held."""
    freed = 0
    for entry in _files(folder):
        with contextlib.suppress(OSError):
            handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                freed += os.fstat(handle).st_size
                os.unlink(entry.path)  # noqa: PTH108
            finally:
                os.close(handle)
    return freed


def file_bytes(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(_size(Path(entry.path)) for entry in _files(folder))


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _stored(places: dict[bytes, Place]) -> int:
    return sum(place.stored for place in places.values())
