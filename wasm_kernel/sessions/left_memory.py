"""The memory that a session is left with, in a file beside its snapshot: whoever opens it next maps that."""

from __future__ import annotations

import contextlib

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.runtime.mapped_memory import MappedMemory, MemoryIdentity, UnusableMemory, write_memory_file
from wasm_kernel.host.runtime.memory import GuestMemory
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.host.store.memory_files import MemoryFiles
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions.memory_table import PAGE


class LeftMemory:
    """For one live session. Nothing here ever fails: without a file the store has everything."""

    def __init__(self, files: MemoryFiles, sandbox: Sandbox) -> None:
        self._files, self._sandbox = files, sandbox
        self._mapped = ""  # the snapshot whose memory is mapped from its file

    def find(self, snapshot: Snapshot) -> MappedMemory | None:
        """The memory of a snapshot, if the session was left with it: all of it is read and checked."""
        self._mapped = ""
        path = self._files.claim(snapshot.snapshot_id)
        if path is None:
            return None
        try:
            found = MappedMemory(path, _identity(snapshot))
        except (OSError, UnusableMemory):
            self._files.drop()
            return None
        self._mapped = snapshot.snapshot_id
        return found

    def leave(self, last: Snapshot, *, has_it: bool) -> None:
        """Leave the memory of the last snapshot in a file; ``has_it``: the guest had it when captured. Blocks."""
        if self._mapped == last.snapshot_id:
            self._files.give_back(self._mapped)  # it is as it was, whatever became of the guest
        elif has_it:
            with contextlib.suppress(WasmKernelError, OSError):
                self._sandbox.with_captured_memory(lambda memory: self._write(memory, last))

    def _write(self, memory: GuestMemory, last: Snapshot) -> None:
        parts = memory.parts()
        size = sum(until - first for first, until, address in parts if address) * PAGE
        if memory.size == last.memory_bytes:
            self._files.put(last.snapshot_id, size, lambda file: write_memory_file(file, _identity(last), parts))


def _identity(snapshot: Snapshot) -> MemoryIdentity:
    return MemoryIdentity(snapshot.snapshot_id, snapshot.image_key, snapshot.memory_bytes)
