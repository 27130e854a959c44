"""A memory in a file of its own, from which a guest goes on without reading it: the pages are mapped.

    long stretches of pages, at the offsets that they have in the memory, and holes for all others
    after the memory's end: short stretches, one behind the other, because they are copied anyway
    an index: JSON (what the memory is), then each stretch: first page, last, kind, checksum
    a footer: magic, version, length of the JSON and of the whole index, checksum of all of these and of the index

It is written without a sync and believed only by its checksums, all of which are compared before anything is used:
after a power cut, or on a bad disk, it is as if it were not there. Pages are read for that and not touched through the
mapping, because a disk's error would end the process then.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import mmap
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from blake3 import blake3

from wasm_kernel.host.runtime.pages import PAGE, Span, buffer, map_file, unmap
from wasm_kernel.host.store.threads import in_threads

_MAGIC, _VERSION = b"wkmemory", 1
_FOOTER = struct.Struct("<8sHII")  # magic, version, bytes of the JSON, of the index
_STRETCH = struct.Struct("<IIB16s")  # pages [first, last), kind, checksum
_SUM = 16
_ZEROS = 0  # a stretch of the memory
_SHORT = 1  # likewise: the next pages after the memory's end are what it holds
_CHECKED = 2  # pages of the file with one checksum; before the memory's end they are pages of the memory
LONG = 16  # pages in a row that are mapped
_EXTENT = 512  # pages that have one checksum
_MOST_INDEX = 4 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class UnusableMemory(Exception):
    """A file is not the memory that it should be; what it holds has to come from elsewhere."""


@dataclass(frozen=True)
class MemoryIdentity:
    """Which memory it is.

    Attributes:
        snapshot_id: The snapshot that has the same memory.
        image_key: The image whose base memory all other pages are from.
        memory_bytes: Its size.
    """

    snapshot_id: str
    image_key: str
    memory_bytes: int


MemoryPart = tuple[int, int, int]  # pages [first, last), and the address of their content; 0: they are zeros


def write_memory_file(handle: int, identity: MemoryIdentity, parts: Iterable[MemoryPart]) -> None:
    """Write the pages in which a memory differs from its base to an empty file."""
    index: list[bytes] = [json.dumps(asdict(identity)).encode()]
    short = bytearray()
    for first, last, address in parts:
        content = memoryview(buffer(address, (last - first) * PAGE)).cast("B") if address else None
        if content is None:
            index.append(_STRETCH.pack(first, last, _ZEROS, bytes(_SUM)))
        elif last - first < LONG:
            index.append(_STRETCH.pack(first, last, _SHORT, bytes(_SUM)))
            short += content
        else:
            index += _write_checked(handle, content, first)
    index += _write_checked(handle, memoryview(short), identity.memory_bytes // PAGE)
    whole = b"".join(index)
    footer = _FOOTER.pack(_MAGIC, _VERSION, len(index[0]), len(whole))
    _write(handle, memoryview(whole + footer + _checksum(footer, whole)), identity.memory_bytes + len(short))


def _write_checked(handle: int, content: memoryview, first: int) -> Iterator[bytes]:
    """Write pages to their place in the file; entries of the index for them."""
    for at in range(0, len(content), _EXTENT * PAGE):
        piece = content[at : at + _EXTENT * PAGE]
        page = first + at // PAGE
        _write(handle, piece, page * PAGE)
        yield _STRETCH.pack(page, page + len(piece) // PAGE, _CHECKED, blake3(piece).digest(_SUM))


class MappedMemory:
    """The file of a memory, checked and mapped, to be read. While it is open, its file is locked (shared).

    Attributes:
        fd: The file.
        view: The address at which the file is mapped.
        size: Of the memory.
        long: Stretches of pages that are where they belong, as [first, last) numbers.
        short: Stretches that are elsewhere in the file, each with its address.
        zeros: Stretches of zeros.
    """

    def __init__(self, path: Path, identity: MemoryIdentity) -> None:
        """`UnusableMemory` if it is not this memory, or not whole; `OSError` if it cannot be read."""
        self.fd, self.view, self.size = os.open(path, _READ), 0, identity.memory_bytes
        try:
            fcntl.flock(self.fd, fcntl.LOCK_SH)
            self._file_size = os.fstat(self.fd).st_size
            try:
                found = _stretches(self.fd, self._file_size, identity)
            except (ValueError, KeyError, struct.error):
                raise UnusableMemory("its index is not valid") from None
            _verify(self.fd, found[_CHECKED])
            self.view = map_file(self.fd, self._file_size, mmap.PROT_READ, mmap.MAP_PRIVATE)
            self.zeros = [(first, last) for first, last, _ in found[_ZEROS]]
            self.long = _joined((first, last) for first, last, _ in found[_CHECKED] if last * PAGE <= self.size)
            pages = itertools.accumulate((last - first for first, last, _ in found[_SHORT]), initial=self.size // PAGE)
            at = (self.view + page * PAGE for page in pages)
            self.short = [(first, last, address) for (first, last, _), address in zip(found[_SHORT], at, strict=False)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unmap it. Nothing may use it any more."""
        if self.view:
            unmap(self.view, self._file_size)
        if self.fd >= 0:
            os.close(self.fd)
        self.view, self.fd = 0, -1


_Entry = tuple[int, int, bytes]  # pages [first, last), checksum


def _stretches(fd: int, file_size: int, identity: MemoryIdentity) -> dict[int, list[_Entry]]:
    """The entries of a file that holds this memory, by kind, each in ascending order."""
    end = file_size - _FOOTER.size - _SUM
    tail = os.pread(fd, _FOOTER.size + _SUM, max(0, end))
    if end < identity.memory_bytes or len(tail) != _FOOTER.size + _SUM:
        raise UnusableMemory("it is cut short")
    footer, checksum = tail[:-_SUM], tail[-_SUM:]
    magic, version, text_size, index_size = _FOOTER.unpack(footer)
    if magic != _MAGIC or version != _VERSION or not text_size <= index_size <= min(_MOST_INDEX, end):
        raise UnusableMemory("it is not the file of a memory, or from another version")
    index = os.pread(fd, index_size, end - index_size)
    if _checksum(footer, index) != checksum:
        raise UnusableMemory("its index is damaged")
    if json.loads(index[:text_size]) != asdict(identity):
        raise UnusableMemory("it is the memory of another snapshot, or of another image")
    found: dict[int, list[_Entry]] = {_ZEROS: [], _SHORT: [], _CHECKED: []}
    for first, last, kind, stretch_sum in _STRETCH.iter_unpack(index[text_size:]):
        found[kind].append((first, last, stretch_sum))
    _check_places(found, identity.memory_bytes // PAGE, (end - index_size) // PAGE)
    return found


def _check_places(found: dict[int, list[_Entry]], memory: int, file: int) -> None:
    """Whether what a file says of itself is possible; it has so many pages, of which so many are the memory's."""
    checked = sum(last - first for first, last, _ in found[_CHECKED] if first >= memory)
    short = sum(last - first for first, last, _ in found[_SHORT])
    small = all(last - first <= _EXTENT for first, last, _ in found[_CHECKED])
    if checked != short or not small or memory + short != file:
        raise UnusableMemory("its index is not valid")
    for kind, most in ((_ZEROS, memory), (_SHORT, memory), (_CHECKED, file)):
        before = 0
        for first, last, _ in found[kind]:
            if not before <= first < last <= most or (kind == _CHECKED and first < memory < last):
                raise UnusableMemory("its index is not valid")
            before = last


def _verify(fd: int, extents: list[_Entry]) -> None:
    local = threading.local()

    def check(extent: _Entry) -> bool:
        first, last, checksum = extent
        if not hasattr(local, "room"):
            local.room = memoryview(bytearray(_EXTENT * PAGE))
        room = local.room[: (last - first) * PAGE]
        return os.preadv(fd, [room], first * PAGE) == len(room) and blake3(room).digest(_SUM) == checksum

    if not all(in_threads(check, extents, sum(last - first for first, last, _ in extents) * PAGE)):
        raise UnusableMemory("some of its pages are damaged")


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans without seams between them."""
    joined: list[Span] = []
    for first, last in spans:
        if joined and joined[-1][1] == first:
            joined[-1] = joined[-1][0], last
        else:
            joined.append((first, last))
    return joined


def _checksum(footer: bytes, index: bytes) -> bytes:
    return blake3(footer).update(index).digest(_SUM)


def _write(handle: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(handle, data, offset)
        data, offset = data[done:], offset + done
