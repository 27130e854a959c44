"""Reads the pieces of saved files from the store, many at a time: finding each by itself takes most of the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from wasm_kernel.host.files.saved_tree import in_order
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.model.snapshots import SavedFile

_AHEAD = 4 << 20  # bytes


class PieceReader:
    """Gives pieces to `SavedTree.restore`, which asks for them in the order of the files."""

    def __init__(self, store: ChunkStore, files: Iterable[SavedFile]) -> None:
        self._store = store
        self._coming = deque(in_order(files))
        self._ready: dict[tuple[bytes, int], bytes] = {}

    def __call__(self, name: bytes, length: int) -> bytes:
        """A piece of a file, verified. `DamagedChunk` if it, or one that follows soon, cannot be read."""
        wanted = (name, length)
        if wanted not in self._ready:
            while self._coming and self._coming[0] != wanted:  # what is there already
                self._coming.popleft()
            self._read_ahead(wanted)
        return self._ready[wanted]

    def check_all(self) -> None:
        """Read everything once; `DamagedChunk` if something cannot be read."""
        while self._coming:
            self._read_ahead(self._coming[0])

    def _read_ahead(self, wanted: tuple[bytes, int]) -> None:
        some, size = {wanted: bytearray(wanted[1])}, 0
        while self._coming and size < _AHEAD:
            piece = self._coming.popleft()
            if piece not in some:
                some[piece] = bytearray(piece[1])
            size += piece[1]
        self._store.read_into([(name, memoryview(room)) for (name, _), room in some.items()])
        self._ready = {piece: bytes(room) for piece, room in some.items()}
