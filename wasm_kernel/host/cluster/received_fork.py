"""A fork of a guest on a worker: made of a description and of chunks that the worker has, ready to run calls.

Its memory is laid out once and mapped by every instance that runs calls of it; its files are put into folders that all
of these share, as workers on one machine do.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.cluster.chunk_cache import ChunkCache
from wasm_kernel.host.cluster.frames import Description
from wasm_kernel.host.files import delete_tree
from wasm_kernel.host.files.saved_tree import lay_out
from wasm_kernel.host.image.image import Image
from wasm_kernel.host.runtime import scratch
from wasm_kernel.host.runtime.guest_files import GuestFiles
from wasm_kernel.host.runtime.instance import Instance
from wasm_kernel.host.runtime.instance_parts import AtRest, Fork, Handlers, Limits
from wasm_kernel.host.runtime.journal import OpenFile
from wasm_kernel.host.runtime.pages import CHUNK, PAGE, PAGES
from wasm_kernel.host.runtime.received_memory import ReceivedMemory
from wasm_kernel.host.store.packs import ZERO
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import BASE
from wasm_kernel.model.units import format_size


def chunks_of(description: Description) -> Iterator[bytes]:
    """The names of all chunks that it needs."""
    for names in description.manifest.table.values():
        yield from (name for name in names if name not in (BASE, ZERO))
    for file in (*description.manifest.files, *description.packages.files):
        yield from file.chunks


def permitted(policy: ExecutionPolicy) -> ExecutionPolicy:
    """The session's limits, and not more than this machine's administrator allows."""
    return limits.bounded(policy, administrator.rules().maxima)


class ReceivedFork:
    """A fork that this process can run calls of.

    Attributes:
        policy: Its limits here.
        fork: Its memory, open files, clock and stack pointer.
        files: The files its instances share.
    """

    def __init__(self, description: Description, cache: ChunkCache, image: Image, folder: Path) -> None:
        """``folder``: where its files go. `NotAllowed` if this machine's rules leave no room for it."""
        manifest = description.manifest
        self.description, self._image = description, image
        self.policy = permitted(description.policy)
        size = manifest.snapshot.memory_bytes
        if size > self.policy.memory_bytes:
            raise NotAllowed(
                f"the notebook's memory has {format_size(size)}, and the administrator of this worker allows "
                f"{format_size(self.policy.memory_bytes)}"
            )
        self._folder = Path(tempfile.mkdtemp(prefix="wasm-kernel-fork-", dir=folder))
        app, tmp, self._packages = (self._folder / name for name in ("app", "tmp", "packages"))
        self._memory = ReceivedMemory(image.memory, size)
        try:
            self._lay_memory(manifest.table, cache)
            for place in (app, tmp, self._packages):
                place.mkdir()
            everything = [*manifest.files, *description.packages.files]
            needed = sum(file.size for file in everything)
            if needed > shutil.disk_usage(self._folder).free:
                raise OSError(28, os.strerror(28), str(self._folder))
            lay_out(app, [f for f in manifest.files if f.mount == "app"], cache.read)
            lay_out(tmp, [f for f in manifest.files if f.mount == "tmp"], cache.read)
            lay_out(self._packages, list(description.packages.files), cache.read)
            scratch.furnish(tmp)
        except BaseException:
            self.close()
            raise
        self.files = GuestFiles(app, tmp, in_session=True)
        self.files.begin_turn(())
        opened = [OpenFile(**vars(item)) for item in manifest.descriptors]
        rest = AtRest(opened[: self.policy.max_open_files], manifest.clock_ns, manifest.entry)
        self.fork = Fork(self._memory, rest, description.stack_pointer)

    def _lay_memory(self, table: dict[int, tuple[bytes, ...]], cache: ChunkCache) -> None:
        size = self._memory.size
        for number, names in sorted(table.items()):
            length = min(CHUNK, size - number * CHUNK) if len(names) == 1 else PAGE
            for at, name in enumerate(names):
                page = number * PAGES + at
                if name == ZERO:
                    self._memory.zeros(page, length)
                elif name != BASE:
                    self._memory.write(page, cache.read(name, length))
        self._memory.finish()

    def instance(self, limits: Limits, handlers: Handlers) -> Instance:
        """A copy of the guest."""
        eng, modules = self._image.modules()
        mounts = self._image.mounts(self.files.folder, self.files.scratch, self._packages)
        fork = replace(self.fork, rest=replace(self.fork.rest, files=self.fork.rest.files[: limits.max_open_files]))
        return Instance(eng, modules["guest"], modules, mounts, {}, limits, handlers, fork.memory, fork.rest)

    def close(self) -> None:
        """Give back its memory and files. No instance may run any more."""
        self._memory.close()
        delete_tree.remove(self._folder)
