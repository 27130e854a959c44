"""How the log of cells looks on the disk, and how one that a killed process left is read: `cell_log` writes it."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

MAX_HEAD, MAX_BODY = 32 << 20, (4 << 30) - (16 << 20)  # a head names what is open: 1,000 paths, as hexadecimal digits
MAX_HEADER = 1 << 16
MAGIC, VERSION = b"wkcells\n", 1
FILE = struct.Struct("<8sHI")  # magic, version, bytes of JSON
RECORD = struct.Struct("<QIII")  # position, bytes of the head, of the body, checksum of these
SUM = 16
SUFFIX = ".log"
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PIECE = 1 << 30  # bytes; the system reads no 2 GiB at once


@dataclass(frozen=True)
class LoggedCell:
    """A record: its position, its head, and a change of memory."""

    position: int
    head: bytes
    body: bytes


@dataclass
class FoundLog:
    """The log that a killed process left.

    Attributes:
        id: Its id.
        base: The snapshot that it begins with; empty: the image's memory.
        image: The key of its image.
        first: The position of its first record.
        paths: Its files.
        last: The position of the last whole record.
        problem: What is wrong with what follows it; empty: nothing, or only that the last record is cut short.
    """

    id: str
    base: str
    image: str
    first: int
    paths: list[Path]
    last: int = 0
    problem: str = ""

    def cells(self, after: int = 0) -> Iterator[LoggedCell]:
        """Its whole records beyond a position, in order, one at a time. They are checked again as they are read."""
        for path in self.paths if self.last >= max(self.first, after + 1) else []:
            with _Reader(path) as reader:
                reader.header()
                for cell in reader.cells():
                    if cell.position > after:
                        yield cell
                    if cell.position >= self.last:  # what follows is not whole
                        return


def find(folder: Path) -> FoundLog | None:
    """The log in a session's folder, checked to its end; None: nothing was logged."""
    found: FoundLog | None = None
    paths = log_files(folder)
    for path in paths:
        try:
            with _Reader(path) as reader:
                if reader.has_no_header and path is paths[-1]:
                    break  # killed right after it was made
                header = reader.header()
                if found is None or found.id != header.id:  # another one began: what was before is over
                    found = FoundLog(header.id, header.base, header.image, header.first, [], header.first - 1)
                elif found.problem or header.first != found.last + 1:
                    found.problem = found.problem or "a part of the log is missing"
                    break
                found.paths.append(path)
                for cell in reader.cells():
                    if cell.position != found.last + 1:
                        raise _BadLog("the records of the log are not in order")
                    found.last = cell.position
        except (_BadLog, OSError) as e:
            found = found or FoundLog("", "", "", 1, [])
            found.problem = found.problem or str(e)
    return found


class _BadLog(Exception):
    """A file of the log is not what it should be."""


@dataclass(frozen=True)
class LogHeader:
    """How a file begins: the log's id, the snapshot it begins with, the image, the position of the first record."""

    id: str
    base: str
    image: str
    first: int

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.id, self.base, self.image)) or type(self.first) is not int:
            raise ValueError("not a header")


class _Reader:
    """Reads one file of a log. It is our own, and still nothing in it is believed before its checksum is."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, READ)
        self._size, self._at = os.fstat(self._handle).st_size, 0

    @property
    def has_no_header(self) -> bool:
        """Whether its header is cut short."""
        front = os.pread(self._handle, FILE.size, 0)
        return len(front) < FILE.size or self._size < FILE.size + SUM + FILE.unpack(front)[2]

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._handle)

    def header(self) -> LogHeader:
        front = self._read(FILE.size)
        if front is None:
            raise _BadLog("the beginning of the log is cut short")
        magic, version, length = FILE.unpack(front)
        if magic != MAGIC or length > MAX_HEADER:
            raise _BadLog("it is not a log of cells")
        if version != VERSION:
            raise _BadLog("a newer version of wasm-kernel wrote the log")
        checksum, text = self._read(SUM), self._read(length)
        if checksum is None or text is None or blake3(front).update(text).digest(SUM) != checksum:
            raise _BadLog("the beginning of the log is damaged")
        try:
            return LogHeader(**json.loads(text))
        except (TypeError, ValueError, RecursionError):
            raise _BadLog("the beginning of the log is not valid") from None

    def cells(self) -> Iterator[LoggedCell]:
        """Its records, up to one that is cut short. `_BadLog` at one that is damaged."""
        while (front := self._read(RECORD.size)) is not None:
            position, head_size, body_size, _ = RECORD.unpack(front)
            if front != front_of(position, head_size, body_size) or head_size > MAX_HEAD or body_size > MAX_BODY:
                if self._only_zeros_left():
                    return  # a power cut came before its bytes reached the disk
                raise _BadLog("a record of the log is damaged")
            checksum, head, body = self._read(SUM), self._read(head_size), self._read(body_size)
            if checksum is None or head is None or body is None:
                return
            if blake3(front).update(head).update(body).digest(SUM) != checksum:
                if self._at == self._size:
                    return  # the same
                raise _BadLog("a record of the log is damaged")
            yield LoggedCell(position, head, body)

    def _only_zeros_left(self) -> bool:
        at = self._at - RECORD.size
        while block := os.pread(self._handle, 1 << 20, at):
            if any(block):
                return False
            at += len(block)
        return True

    def _read(self, size: int) -> bytes | None:
        """The next bytes; None if there are not so many. Nothing is allocated that the file does not hold."""
        if self._at + size > self._size:
            return None
        pieces, end = list[bytes](), self._at + size
        while self._at < end and (piece := os.pread(self._handle, min(end - self._at, _PIECE), self._at)):
            pieces.append(piece)
            self._at += len(piece)
        return b"".join(pieces) if self._at == end else None


def front_of(position: int, head: int, body: int) -> bytes:
    """How a record begins."""
    plain = RECORD.pack(position, head, body, 0)
    return plain[:-4] + zlib.crc32(plain).to_bytes(4, "little")


def log_files(folder: Path) -> list[Path]:
    """The files of a session's log, in order."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, no paths
    except (FileNotFoundError, NotADirectoryError):
        return []
    ours = [name for name in names if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdecimal()]
    return sorted((folder / name for name in ours), key=number_of)


def number_of(path: Path) -> int:
    """Of a file of the log."""
    return int(path.stem)
