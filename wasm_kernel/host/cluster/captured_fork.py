"""A guest in the middle of a cell, taken apart for other machines: a description, and chunks named by their hash.

The guest stands still while it is taken apart. Its memory is looked at through a mapping of its own, laid as a worker's
on this machine would be, and that stays as it is until the guest's turn ends; so chunks that a worker turns out to lack
can still be read later. Files are another matter: the guest goes on and may change them. What of them is new is read at
once, and what workers should have already is read again only if one does not.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import SandboxError
from wasm_kernel.guest import wire
from wasm_kernel.host.cluster.frames import Description
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.instance_parts import Fork
from wasm_kernel.host.runtime.pages import CHUNK, PAGE, PAGES, map_file, memcmp_at_once, unmap
from wasm_kernel.host.store.packs import ZERO, hash_of
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import BASE, PIECE, Manifest, SavedDescriptor, SavedFile, Snapshot
from wasm_kernel.model.units import format_size

_MOSTLY = PAGES // 2  # pages of a chunk that differ: from this number on it is sent as a whole
_MOST_FILES = 1 << 30  # bytes of files in /app, /tmp and /packages that are sent along
_ZERO_PAGE = bytes(PAGE)


class SentFiles:
    """The folders that a guest sees, as they were last taken apart: what did not change is not read again."""

    def __init__(self, folder: Path, scratch: Path, packages: Path | None) -> None:
        self._folders = {"app": folder, "tmp": scratch}
        self._trees = {mount: SavedTree(mount, path) for mount, path in self._folders.items()}
        if packages is not None:
            self._folders["packages"] = packages
            self._trees["packages"] = SavedTree("app", packages)
        self._places: dict[bytes, tuple[Path, int]] = {}

    def take(self) -> tuple[list[SavedFile], list[SavedFile], dict[bytes, bytes]]:
        """All files of /app and /tmp, those of /packages, and the content of pieces that were not read before."""
        read: dict[bytes, bytes] = {}
        size = 0

        def put(piece: bytes) -> bytes:
            nonlocal size
            size += len(piece)
            if size > _MOST_FILES:
                raise SandboxError(_too_large())
            name = hash_of(piece)
            read[name] = piece
            return name

        found: dict[str, list[SavedFile]] = {"packages": []}
        for mount, tree in self._trees.items():
            found[mount] = tree.save(put)
            for file in found[mount]:
                path = self._folders[mount] / os.fsdecode(file.path)
                self._places.update((name, (path, n * PIECE)) for n, name in enumerate(file.chunks))
        files = [*found["app"], *found["tmp"]]
        if sum(file.size for file in (*files, *found["packages"])) > _MOST_FILES:
            raise SandboxError(_too_large())
        return files, found["packages"], read

    def read(self, name: bytes) -> bytes | None:
        """A piece that was taken once; None if its file has changed since."""
        path, at = self._places.get(name, (Path(), -1))
        if at < 0:
            return None
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            piece = os.pread(handle, PIECE, at)
        except OSError:
            return None
        finally:
            os.close(handle)
        return piece if hash_of(piece) == name else None


def _too_large() -> str:
    return (
        f"the files in /app and /tmp have more than {format_size(_MOST_FILES)}, which is what can be sent to a "
        "cluster. Delete what is not needed, or `%session cluster off`"
    )


class CapturedFork:
    """One fork of a guest, until its turn ends.

    Attributes:
        id: What workers know it by.
        description: All of it but the chunks, as bytes.
        chunks: The names of these.
    """

    def __init__(
        self, fork: Fork, base: BaseMemory, request: wire.StartWorkers, image_key: str,
        policy: ExecutionPolicy, files: SentFiles, session: str,
    ) -> None:  # fmt: skip
        """The guest must stand still. ``session``: what workers know its session by."""
        self.id = uuid.uuid4().hex
        self._lock = threading.Lock()  # held while the memory is read: it goes when the turn ends
        assert isinstance(fork.memory, ForkedMemory)
        self._memory, self._files, self._size = fork.memory, files, fork.memory.size
        self._address = map_file(-1, self._size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        try:
            fork.memory.attach(self._address)
            self._places: dict[bytes, tuple[int, int]] = {}
            table = dict(self._table(base, fork.memory.spans()))
            seen, packages, self._read = files.take()
            self.chunks = [*self._places, *{name for file in (*seen, *packages) for name in file.chunks}]
            descriptors = tuple(SavedDescriptor(**vars(item)) for item in fork.rest.files)
            self.description = Description(
                Manifest(
                    _head(image_key, self._size), table, descriptors, fork.rest.clock_ns, fork.rest.entry, tuple(seen)
                ),
                Manifest(_head(image_key, 0), files=tuple(packages)),
                fork.stack_pointer,
                request.entry,
                request.pool,
                request.era,
                policy,
                session,
            ).encode()
        except BaseException:
            self.close()
            raise

    def _table(self, base: BaseMemory, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        numbers = sorted({n for first, last in spans for n in range(first // PAGES, (last - 1) // PAGES + 1)})
        for number in numbers:
            pages = range(number * PAGES, min((number + 1) * PAGES, self._size // PAGE))
            dirty = [page for page in pages if self._differs(base, page)]
            if len(dirty) >= _MOSTLY:
                yield number, (self._name(number * CHUNK, len(pages) * PAGE),)
            elif dirty:
                names = [BASE] * PAGES
                for page in dirty:
                    names[page % PAGES] = self._name(page * PAGE, PAGE)
                yield number, tuple(names)

    def _differs(self, base: BaseMemory, page: int) -> bool:
        at = page * PAGE
        if at < base.size:
            return bool(memcmp_at_once(self._address + at, base.view + at, PAGE))
        return ctypes.string_at(self._address + at, PAGE) != _ZERO_PAGE

    def _name(self, at: int, length: int) -> bytes:
        content = ctypes.string_at(self._address + at, length)
        if not content[0] and content == bytes(length):
            return ZERO
        name = hash_of(content)
        self._places[name] = (at, length)
        return name

    def contents(self, names: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Chunks with their content, as far as they can still be had."""
        for name in names:
            content = self._content(name)
            if content is not None:
                yield name, content

    def _content(self, name: bytes) -> bytes | None:
        with self._lock:
            if name in self._places and self._address:
                at, length = self._places[name]
                return ctypes.string_at(self._address + at, length)
        return self._read.get(name) or self._files.read(name)

    def close(self) -> None:
        """Let the memory go; from now on no chunk of it can be had."""
        with self._lock:
            address, self._address = self._address, 0
            if address:
                unmap(address, self._size)
                self._memory.close()


def _head(image_key: str, size: int) -> Snapshot:
    """What a manifest says of itself; ids that mean nothing."""
    return Snapshot(
        str(uuid.uuid4()), str(uuid.uuid4()), "user", datetime.now(UTC), image_key=image_key, memory_bytes=size
    )
