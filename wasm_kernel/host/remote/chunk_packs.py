"""Many chunks as one object: an index, then the chunks, each compressed by itself so that one can be read alone.

    magic, number of chunks, then for each: name, where it begins, its length      the index
    the chunks

A pack is named by the BLAKE3 hash of all of it, and each chunk by that of its content: what arrives is what was sent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import zstandard
from blake3 import blake3

from wasm_kernel.errors import DamagedChunk
from wasm_kernel.host.store.packs import hash_of

_MAGIC = b"wkpack1\n"
_FRONT = struct.Struct("<8sI")
_ENTRY = struct.Struct("<32sQI")
_MOST_CHUNKS = 1 << 20
_MOST_RAW = 4 << 20  # bytes of a chunk
_PACK = 32 << 20  # bytes, about, of one object
_GAP = 1 << 20  # bytes that are read along rather than asked for again


def unpacked(blob: bytes, most: int) -> bytes:
    """What a compressed blob from elsewhere holds; `zstandard.ZstdError` if that may be more than so many bytes.

    A frame that says how large it is would be believed, whatever limit is given for those that do not.
    """
    if zstandard.frame_content_size(blob) > most:
        raise zstandard.ZstdError(f"it holds more than {most} bytes")
    return zstandard.ZstdDecompressor().decompress(blob, max_output_size=most)


def packed(chunks: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[str, bytes, list[bytes]]]:
    """Packs of some chunks (name, content): the name of each, its bytes, and the names of the chunks in it."""
    compressor = zstandard.ZstdCompressor(level=3)
    names: list[bytes] = []
    blobs: list[bytes] = []
    size = 0
    for name, content in chunks:
        names.append(name)
        blobs.append(compressor.compress(content))
        size += len(blobs[-1])
        if size >= _PACK:
            yield _pack(names, blobs)
            names, blobs, size = [], [], 0
    if names:
        yield _pack(names, blobs)


def _pack(names: list[bytes], blobs: list[bytes]) -> tuple[str, bytes, list[bytes]]:
    at = _FRONT.size + _ENTRY.size * len(names)
    parts = [_FRONT.pack(_MAGIC, len(names))]
    for name, blob in zip(names, blobs, strict=True):
        parts.append(_ENTRY.pack(name, at, len(blob)))
        at += len(blob)
    whole = b"".join([*parts, *blobs])
    return blake3(whole).hexdigest(), whole, names


class Readable(Protocol):
    """Where a pack is: an object store, or less."""

    address: str

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """A part of an object; `KeyError` if it is not there."""


class RemotePack:
    """A pack in an object store, whose index was read.

    Attributes:
        places: Where each chunk is: its beginning and its length.
        size: Of the pack, as far as its chunks say.
    """

    def __init__(self, objects: Readable, name: str) -> None:
        self._objects, self._name = objects, name
        front = self._part(0, _FRONT.size)
        magic, count = _FRONT.unpack(front) if len(front) == _FRONT.size else (b"", 0)
        if magic != _MAGIC or count > _MOST_CHUNKS:
            raise self._damaged("it is no pack")
        index = self._part(_FRONT.size, _FRONT.size + count * _ENTRY.size)
        if len(index) != count * _ENTRY.size:
            raise self._damaged("it is cut short")
        self.places: Mapping[bytes, tuple[int, int]] = {
            name: (begin, length) for name, begin, length in _ENTRY.iter_unpack(index)
        }
        self.size = max((begin + length for begin, length in self.places.values()), default=0)

    def read(self, wanted: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Chunks with their content, checked. Those that lie close together are asked for at once."""
        run: list[tuple[int, int, bytes]] = []
        for place in [*sorted((*self.places[name], name) for name in wanted & self.places.keys()), None]:
            if run and (place is None or place[0] - run[-1][0] - run[-1][1] > _GAP or place[0] - run[0][0] > _PACK):
                start, end = run[0][0], run[-1][0] + run[-1][1]
                data = self._part(start, end)
                for begin, length, name in run:
                    yield name, self._content(name, data[begin - start : begin - start + length])
                run = []
            if place is not None:
                run.append(place)

    def _content(self, name: bytes, blob: bytes) -> bytes:
        try:
            content = unpacked(blob, _MOST_RAW)
        except zstandard.ZstdError as e:
            raise self._damaged(str(e)) from None
        if hash_of(content) != name:
            raise self._damaged("a chunk is not what its name says")
        return content

    def _part(self, start: int, end: int) -> bytes:
        try:
            return self._objects.read(self._name, start, end)
        except KeyError:
            raise self._damaged("it is not there") from None

    def _damaged(self, why: str) -> DamagedChunk:
        return DamagedChunk(f"{self._objects.address}/{self._name}: {why}")
