"""Packs: files of many chunks, written once and never changed, each with an index of itself at its end.

    magic | blobs | per blob: name, offset, stored and raw length, codec | checksum, begin and count of these, magic

A chunk's name is its BLAKE3 hash, so whoever reads one knows whether it is whole. A pack may come from elsewhere or be
damaged: every length and offset is checked before memory is allocated for it, and nothing inflates beyond what the
entry says.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import zstandard
from blake3 import blake3

from wasm_kernel.host.durable import PendingFile, write_all

HASH = 32  # bytes of a chunk's name
ZERO = bytes(HASH)  # the name of zeros, however many
MAX_RAW = 4 << 20
PACK_BYTES = 128 << 20  # a pack that has grown so large is closed and another begun
MAX_ENTRIES = 1 << 18
RAW, ZSTD, NARROW = 0, 1, 2  # codecs; NARROW: zstd of integers of 8 bytes without the four that are all zeros
_QUICK, _THOROUGH = -1, 3  # levels of zstd: the first costs next to nothing where nothing shrinks
_SAMPLE = 4096  # bytes by which it is seen whether a chunk shrinks

_BEGIN, _END = b"wkpack1\n", b"wkpend1\n"
_ENTRY = struct.Struct("<32sQIIB3x")
_FOOTER = struct.Struct("<32sQI8s")
_NAME = re.compile(r"[0-9a-f]{32}\.pack\Z")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LOST = {errno.EIO, errno.ELOOP, errno.ENXIO}  # these are about the file, not about this process
_BUFFER = 4 << 20
_GAP = 128 << 10  # reading over so much is cheaper than another call
_RUN_BYTES, _RUN_CHUNKS = 2 << 20, 256


class BadPack(ValueError):
    """A file that is not a pack, or whose index is damaged."""


class Place(NamedTuple):
    """Where a chunk is: in which pack, at which offset, how long there and unpacked."""

    pack: str
    offset: int
    stored: int
    raw: int
    codec: int


class ChunkRead(NamedTuple):
    """A chunk to read, and where to."""

    name: bytes
    place: Place
    target: memoryview


def hash_of(data: bytes | bytearray | memoryview) -> bytes:
    """A chunk's name: a hash of its content."""
    return blake3(data).digest()


class Packer:
    """Makes what is stored of chunks. For one thread.

    Columns of tables are to be a quarter as large as in memory, random floats are not to cost any time. Of tables of
    72 MB 22.9 are stored at zstd's level -1, 18.3 at level 3, 17.6 with integers narrowed, too.
    """

    def __init__(self) -> None:
        self._quick, self._thorough = (zstandard.ZstdCompressor(level=level) for level in (_QUICK, _THOROUGH))

    def pack(self, data: bytes | memoryview) -> tuple[bytes | memoryview, int]:
        """What is stored of a chunk, and its codec."""
        if len(data) > _SAMPLE and not _is_worth_it(len(self._thorough.compress(data[:_SAMPLE])), _SAMPLE):
            return compress(data, self._quick)
        narrow = _narrowed(data)
        if narrow is None:
            return compress(data, self._thorough)
        packed = self._thorough.compress(narrow)
        return (packed, NARROW) if _is_worth_it(len(packed), len(data)) else (data, RAW)


def compress(data: bytes | memoryview, compressor: zstandard.ZstdCompressor) -> tuple[bytes | memoryview, int]:
    """Some bytes compressed, and their codec: as they are when that saves less than an eighth."""
    packed = compressor.compress(data)
    return (packed, ZSTD) if _is_worth_it(len(packed), len(data)) else (data, RAW)


def _is_worth_it(packed: int, size: int) -> bool:
    return packed * 8 < size * 7


def _narrowed(data: bytes | memoryview) -> bytes | None:
    """Integers of 8 bytes, all below 2^32: the lowest bytes of all of them, then the second, ... None: other data."""
    count, odd = divmod(len(data), 8)
    if odd:
        return None
    whole, zeros = bytes(data), bytes(count)
    if any(whole[at::8] != zeros for at in (7, 6, 5, 4)):
        return None
    return b"".join([whole[at::8] for at in range(4)])


def unpack(
    blob: bytes | memoryview, codec: int, raw: int, decompressor: zstandard.ZstdDecompressor
) -> bytes | bytearray | memoryview:
    """The chunk of ``raw`` bytes in what is stored of it; ValueError if that holds anything else."""
    if codec == RAW:
        return blob
    if codec == ZSTD:
        return inflate(blob, raw, decompressor)
    narrow, count, whole = inflate(blob, raw // 2, decompressor), raw // 8, bytearray(raw)
    for at in range(4):
        whole[at::8] = narrow[at * count : (at + 1) * count]
    return whole


def inflate(blob: bytes | memoryview, raw: int, decompressor: zstandard.ZstdDecompressor) -> bytes:
    """The chunk of ``raw`` bytes in a compressed blob; ValueError if it holds anything else."""
    try:
        if zstandard.frame_content_size(blob) != raw:
            raise ValueError("another length than its entry says")
        return decompressor.decompress(blob, max_output_size=raw)
    except zstandard.ZstdError as e:
        raise ValueError(str(e)) from None


def new_decompressor() -> zstandard.ZstdDecompressor:
    """One for one thread; a frame from elsewhere cannot make it allocate more than a chunk's worth."""
    return zstandard.ZstdDecompressor(max_window_size=2 * MAX_RAW)


# ---- writing


class PackWriter:
    """A pack being written, as a temporary file that is locked while its writer lives."""

    def __init__(self, folder: Path) -> None:
        self._file = PendingFile(f"{folder}/", random_bytes=16)
        self._buffer = bytearray(_BEGIN)
        self._size = len(_BEGIN)
        self.name = f"{secrets.token_hex(16)}.pack"
        self.places: dict[bytes, Place] = {}

    @property
    def full(self) -> bool:
        """Whether it is time for another pack."""
        return self._size >= PACK_BYTES or len(self.places) >= MAX_ENTRIES

    def add(self, name: bytes, blob: bytes | memoryview, raw: int, codec: int) -> None:
        """Append a chunk, packed already."""
        self.places[name] = Place(self.name, self._size, len(blob), raw, codec)
        self._buffer += blob
        self._size += len(blob)
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def finish(self) -> None:
        """Write the index; from here on the pack survives a power cut, though nobody sees it yet."""
        entries = b"".join(_ENTRY.pack(name, *place[1:]) for name, place in self.places.items())
        self._buffer += entries
        self._buffer += _FOOTER.pack(
            _checksum(entries, self._size, len(self.places)), self._size, len(self.places), _END
        )
        self._flush()
        self._file.sync()

    def publish(self, folder: Path) -> None:
        """Move the finished pack to its place. The caller syncs the folder."""
        self._file.publish(folder / self.name)
        self._file.discard()

    def discard(self) -> None:
        """Delete it, unless it is published."""
        self._file.discard()

    def _flush(self) -> None:
        write_all(self._file.handle, self._buffer)
        self._buffer = bytearray()


def _checksum(entries: bytes, begin: int, count: int) -> bytes:
    return blake3(entries).update(struct.pack("<QI", begin, count)).digest()


# ---- reading


def pack_names(folder: Path) -> set[str]:
    """The names of the packs in a folder."""
    try:
        return {name for name in os.listdir(folder) if _NAME.match(name)}  # noqa: PTH208 - names, no paths
    except FileNotFoundError:
        return set()


@contextlib.contextmanager
def opened(folder: Path, pack: str) -> Iterator[int]:
    """A pack's handle. `BadPack` when it is not an ordinary file, or cannot be read from the disk."""
    try:
        handle = os.open(f"{folder}/{pack}", _READ)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise BadPack("not an ordinary file")
            yield handle
        finally:
            os.close(handle)
    except OSError as e:
        if e.errno not in _LOST:
            raise
        raise BadPack(str(e)) from e


def read_index(folder: Path, pack: str) -> dict[bytes, Place]:
    """What a pack says it holds; `BadPack` unless all of it is possible."""
    with opened(folder, pack) as handle:
        size = os.fstat(handle).st_size
        footer = os.pread(handle, _FOOTER.size, max(0, size - _FOOTER.size))
        if len(footer) != _FOOTER.size:
            raise BadPack("shorter than a pack can be")
        checksum, begin, count, end = _FOOTER.unpack(footer)
        if end != _END or count > MAX_ENTRIES or begin + count * _ENTRY.size + _FOOTER.size != size:
            raise BadPack("its end is damaged")
        entries = os.pread(handle, count * _ENTRY.size, begin)
    if len(entries) != count * _ENTRY.size or _checksum(entries, begin, count) != checksum:
        raise BadPack("its index is damaged")
    places = {name: Place(pack, *where) for name, *where in _ENTRY.iter_unpack(entries)}
    if not all(possible(place) and place.offset + place.stored <= begin for place in places.values()):
        raise BadPack("its index is impossible")
    return places


def possible(place: Place) -> bool:
    """Whether a chunk could be where this says, before the file is looked at."""
    _, offset, stored, raw, codec = place
    fits = stored == raw if codec == RAW else codec == ZSTD or (codec == NARROW and raw % 8 == 0)
    return offset >= len(_BEGIN) and 0 < stored <= raw <= MAX_RAW and fits


def read_one(folder: Path, name: bytes, place: Place) -> tuple[bytes, bytes] | None:
    """A chunk as it is stored and as it was put; None unless it is what its name says."""
    if not possible(place):
        return None
    try:
        with opened(folder, place.pack) as handle:
            blob = os.pread(handle, place.stored, place.offset)
        data = bytes(unpack(blob, place.codec, place.raw, new_decompressor()))
    except (FileNotFoundError, ValueError):  # a BadPack is one
        return None
    return (blob, data) if hash_of(data) == name else None


def runs(jobs: Sequence[ChunkRead]) -> Iterator[list[ChunkRead]]:
    """Jobs that are read with one call each: of one pack, close together, in the order of the file."""
    run: list[ChunkRead] = []
    for job in sorted(jobs, key=lambda job: job.place[:2]):
        if run:
            first, last = run[0].place, run[-1].place
            gap = job.place.offset - (last.offset + last.stored)
            far = job.place.pack != first.pack or not 0 <= gap <= _GAP
            if far or len(run) >= _RUN_CHUNKS or job.place.offset - first.offset >= _RUN_BYTES:
                yield run
                run = []
        run.append(job)
    if run:
        yield run


def read_run(folder: Path, run: list[ChunkRead]) -> list[bytes]:
    """Fill the targets; the names of the chunks that are not there or not what their names say."""
    try:
        with opened(folder, run[0].place.pack) as handle:
            blobs = _read_blobs(handle, run)
    except (FileNotFoundError, BadPack):
        return [job.name for job in run]
    failed = []
    decompressor = new_decompressor()
    for job, blob in zip(run, blobs, strict=True):
        if blob is None:
            failed.append(job.name)
        elif job.place.codec == RAW:
            if hash_of(job.target) != job.name:
                failed.append(job.name)
        else:
            try:
                data = unpack(blob, job.place.codec, job.place.raw, decompressor)
            except ValueError:
                failed.append(job.name)
                continue
            if hash_of(data) == job.name:
                job.target[:] = data
            else:
                failed.append(job.name)
    return failed


def _read_blobs(handle: int, run: list[ChunkRead]) -> list[memoryview | None]:
    """One read for all: what is stored as it is goes straight to its target, the rest to a buffer."""
    begin = run[0].place.offset
    length = run[-1].place.offset + run[-1].place.stored - begin
    spare = memoryview(bytearray(length - sum(job.place.stored for job in run if job.place.codec == RAW)))
    buffers: list[memoryview] = []
    blobs: list[memoryview | None] = []
    position = begin
    for job in run:
        _, offset, stored, _, codec = job.place
        if offset > position:
            buffers.append(spare[: offset - position])
            spare = spare[offset - position :]
        if codec == RAW:
            blob = job.target
        else:
            blob, spare = spare[:stored], spare[stored:]
        buffers.append(blob)
        blobs.append(blob)
        position = offset + stored
    if os.preadv(handle, buffers, begin) == length:
        return blobs
    # Cut short: what is there, one by one.
    lengths = [
        0 if blob is None else os.preadv(handle, [blob], job.place.offset) for job, blob in zip(run, blobs, strict=True)
    ]
    return [blob if got == job.place.stored else None for job, blob, got in zip(run, blobs, lengths, strict=True)]
