"""What a worker has received: chunks by their hash, in one file that has a largest size.

The file has no name, so it goes with the process, however that ends. When it is full all of it is given up at once, and
what is still needed is asked for again: chunks of one session are needed together, and go out of use together.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from wasm_kernel.errors import DamagedChunk
from wasm_kernel.host.remote.chunk_packs import RemotePack
from wasm_kernel.host.store.packs import ZERO

MOST_BYTES = 4 << 30


class ChunkCache:
    """Chunks in a file of this process. Thread-safe."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self._most, self._lock = most, threading.Lock()
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as long as the process lives
        self._places: dict[bytes, tuple[int, int]] = {}
        self._end = 0

    def add(self, pack: bytes) -> None:
        """Take the chunks of a pack; `DamagedChunk` if one is not what its name says."""
        whole = RemotePack(_InMemory(pack), "a pack")
        with self._lock:
            for name, content in whole.read(set(whole.places.keys())):
                if name in self._places:
                    continue
                if self._end + len(content) > self._most:
                    self._places.clear()
                    self._end = 0
                    self._file.truncate(0)
                os.pwrite(self._file.fileno(), content, self._end)
                self._places[name] = self._end, len(content)
                self._end += len(content)

    def missing(self, names: Iterable[bytes]) -> list[bytes]:
        """Those that are not there, each once."""
        with self._lock:
            return [name for name in dict.fromkeys(names) if name != ZERO and name not in self._places]

    def read(self, name: bytes, length: int) -> bytes:
        """A chunk of this length; `DamagedChunk` if it is not there (any more), or has another one."""
        with self._lock:
            at, size = self._places.get(name, (0, -1))
            if size == length:
                return os.pread(self._file.fileno(), length, at)
        raise DamagedChunk(f"chunk {name.hex()[:16]} is not there")

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


class _InMemory:
    """One object, for whoever reads objects of a store."""

    address = "Dask"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """A part of it."""
        return self._data[start:end]
