"""The log of cells: what was captured of a session and is not in the store yet. A write-ahead log, as databases have.

    logs/<session>/<number>.log:
        magic, version, length, checksum, JSON: the log's id, the image, the snapshot it begins with, the first position
        and for each cell: position, lengths, checksum of all of it, head (JSON), body (a change of memory)

Storing a checkpoint takes tens of milliseconds, appending a cell here a fraction of one: so that a cell can be logged
before it is answered, and stored when there is time. Rules:

* Records are numbered from 1 on; this is their *position*. Each builds on the one before, the first on a snapshot.
* A snapshot says which log's records it includes, and up to which (`Manifest.log`). Those are *folded*: not needed any
  more. A file all of whose records are folded is deleted, after the snapshot is on the disk. So a kill at any moment
  loses nothing, and nothing is done twice.
* A new file begins with every fold, so that one can be deleted while cells go on.
* When the session moves elsewhere in time (undo, a fresh start), the log is over, and another one begins.
* A record that is cut short or damaged ends the log: what comes after it is not read.

It is synced only by `sync`, about every second: a kill loses nothing, a power cut what came after that.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from blake3 import blake3

from wasm_kernel.host.durable import sync_folder
from wasm_kernel.host.store.allowance import allowance

LOGS = "snapshots/logs"  # below the state folder: a folder for each session
MAX_HEAD, MAX_BODY = 4 << 20, 1100 << 20
_MAX_HEADER = 1 << 16
_MAGIC, _VERSION = b"wkcells\n", 1
_FILE = struct.Struct("<8sHI")  # magic, version, bytes of JSON
_RECORD = struct.Struct("<QIII")  # position, bytes of the head, of the body, checksum of these
_SUM = 16
_MOST_PARTS = 1000  # of one write
_BELIEVED = 1.0  # seconds
_SUFFIX = ".log"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True)
class LoggedCell:
    """A record: its position, its head, and a change of memory."""

    position: int
    head: bytes
    body: bytes


@dataclass
class _Segment:
    """One file of the log."""

    path: Path
    last: int  # position
    size: int


class CellLog:
    """A session's log. `append` is called on one thread at a time; everything else on any."""

    def __init__(self, folder: Path, image_key: str) -> None:
        """``folder``: the session's own, made when there is something to log."""
        self._folder = folder
        self._lock = threading.Lock()
        self._segments: list[_Segment] = []
        self._handle = -1  # of the last segment, if it is open
        self._unsynced = False
        self._left: list[Path] = []  # files that were closed before they were synced
        self._next = 1  # number of the next file
        self._unbounded_until = 0.0  # on the monotonic clock: until then no bound is looked for
        self._begin("", image_key)

    def _begin(self, base: str, image_key: str) -> None:
        self.id, self._base, self._image, self.position = str(uuid.uuid4()), base, image_key, 0

    @property
    def is_on_disk(self) -> bool:
        """Whether there is anything of a log, maybe of another process's."""
        return bool(_files(self._folder))

    def find(self) -> FoundLog | None:
        """What a killed process left."""
        return find(self._folder)

    @property
    def size(self) -> int:
        """Bytes that are not folded."""
        with self._lock:
            return sum(segment.size for segment in self._segments)

    def begin(self, base: str, image_key: str) -> None:
        """The session is at a snapshot, or at its image's memory: a new log begins, and the old one is over."""
        with self._lock:
            self._close()
            self._remove_all_but(())
            self._segments.clear()
            self._begin(base, image_key)

    def _remove_all_but(self, kept: Collection[Path]) -> None:
        for path in _files(self._folder):
            if path not in kept:
                with contextlib.suppress(OSError):  # the next file has another id, which ends this one as well
                    path.unlink()

    def go_on(self, found: FoundLog) -> None:
        """Continue what was found on the disk."""
        with self._lock:
            self.id, self._base, self._image, self.position = found.id, found.base, found.image, found.last
            self._segments = [_Segment(path, found.last, path.stat().st_size) for path in found.paths]
            self._remove_all_but(found.paths)
            self._next = _number(found.paths[-1]) + 1

    def append(self, head: bytes, *body: bytes | memoryview) -> None:
        """Add a cell. If that fails, as on a full disk, or is not allowed (`NotAllowed`), the log is as it was.

        ``body``: in pieces, so that a large one is nowhere in one piece.
        """
        length = sum(map(len, body))
        if len(head) > MAX_HEAD or length > MAX_BODY:
            raise ValueError(f"a record has {len(head):,} bytes of head and {length:,} of body, which is too much")
        self._check_allowed(len(head) + length)
        with self._lock:
            if self._handle < 0:
                self._open()
            segment = self._segments[-1]
            front = _front(self.position + 1, len(head), length)
            checksum = blake3(front).update(head)
            for piece in body:
                checksum.update(piece)
            parts = [front, checksum.digest(_SUM), head, *body]
            try:
                _write_all(self._handle, parts)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._handle, segment.size)
                    os.lseek(self._handle, segment.size, os.SEEK_SET)
                raise
            self.position += 1
            segment.last, segment.size = self.position, segment.size + sum(map(len, parts))
            self._unsynced = True

    def _check_allowed(self, size: int) -> None:
        """`NotAllowed` if so many bytes are too many. That there is no bound is believed for a moment."""
        now = time.monotonic()
        if now >= self._unbounded_until:
            allowed = allowance(self._folder.parents[1])
            allowed.check_bytes(size)
            self._unbounded_until = now + _BELIEVED if allowed.rules.snapshot_bytes is None else 0.0

    def _open(self) -> None:
        if not self._segments:
            self._remove_all_but(())  # nobody wanted what another process left
        header = _Header(self.id, self._base, self._image, self.position + 1)
        text = json.dumps(asdict(header)).encode()
        front = _FILE.pack(_MAGIC, _VERSION, len(text))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{self._next:08}{_SUFFIX}"
        handle = os.open(path, _APPEND, 0o600)
        parts = [front, blake3(front).update(text).digest(_SUM), text]
        try:
            _write_all(handle, parts)
        except OSError:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        self._next += 1
        self._handle = handle
        self._segments.append(_Segment(path, self.position, sum(map(len, parts))))

    def rotate(self) -> None:
        """What is logged now is about to be stored: the next cell begins a new file."""
        with self._lock:
            self._close()

    def folded(self, log_id: str, position: int) -> None:
        """A snapshot that includes the records up to a position is on the disk."""
        with self._lock:
            if log_id != self.id:
                return
            while self._segments and self._segments[0].last <= position:
                if len(self._segments) == 1:
                    self._close()
                path = self._segments.pop(0).path
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Make what is logged survive a power cut. Blocks."""
        with self._lock:
            handles = [os.dup(self._handle)] if self._handle >= 0 and self._unsynced else []
            for path in self._left:  # without these, nothing after them counts
                with contextlib.suppress(FileNotFoundError):  # folded
                    handles.append(os.open(path, _READ))
            self._unsynced, self._left = False, []
        try:
            for handle in handles:
                os.fdatasync(handle)
            for folder in (self._folder, *self._folder.parents[:2]) if handles else ():
                sync_folder(folder)
        finally:
            for handle in handles:
                os.close(handle)

    def close(self) -> None:
        """Close its file. What is in it stays."""
        with self._lock:
            self._close()
            with contextlib.suppress(OSError):  # there is something in it, or it was never made
                self._folder.rmdir()

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
            if self._unsynced:
                self._left.append(self._segments[-1].path)
            self._unsynced = False


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
    paths = _files(folder)
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
class _Header:
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
        self._handle = os.open(path, _READ)
        self._size, self._at = os.fstat(self._handle).st_size, 0

    @property
    def has_no_header(self) -> bool:
        """Whether its header is cut short."""
        front = os.pread(self._handle, _FILE.size, 0)
        return len(front) < _FILE.size or self._size < _FILE.size + _SUM + _FILE.unpack(front)[2]

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._handle)

    def header(self) -> _Header:
        front = self._read(_FILE.size)
        if front is None:
            raise _BadLog("the beginning of the log is cut short")
        magic, version, length = _FILE.unpack(front)
        if magic != _MAGIC or length > _MAX_HEADER:
            raise _BadLog("it is not a log of cells")
        if version != _VERSION:
            raise _BadLog("a newer version of wasm-kernel wrote the log")
        checksum, text = self._read(_SUM), self._read(length)
        if checksum is None or text is None or blake3(front).update(text).digest(_SUM) != checksum:
            raise _BadLog("the beginning of the log is damaged")
        try:
            return _Header(**json.loads(text))
        except (TypeError, ValueError, RecursionError):
            raise _BadLog("the beginning of the log is not valid") from None

    def cells(self) -> Iterator[LoggedCell]:
        """Its records, up to one that is cut short. `_BadLog` at one that is damaged."""
        while (front := self._read(_RECORD.size)) is not None:
            position, head_size, body_size, _ = _RECORD.unpack(front)
            if front != _front(position, head_size, body_size) or head_size > MAX_HEAD or body_size > MAX_BODY:
                if self._only_zeros_left():
                    return  # a power cut came before its bytes reached the disk
                raise _BadLog("a record of the log is damaged")
            checksum, head, body = self._read(_SUM), self._read(head_size), self._read(body_size)
            if checksum is None or head is None or body is None:
                return
            if blake3(front).update(head).update(body).digest(_SUM) != checksum:
                if self._at == self._size:
                    return  # the same
                raise _BadLog("a record of the log is damaged")
            yield LoggedCell(position, head, body)

    def _only_zeros_left(self) -> bool:
        at = self._at - _RECORD.size
        while block := os.pread(self._handle, 1 << 20, at):
            if any(block):
                return False
            at += len(block)
        return True

    def _read(self, size: int) -> bytes | None:
        """The next bytes; None if there are not so many. Nothing is allocated that the file does not hold."""
        if self._at + size > self._size:
            return None
        data = os.pread(self._handle, size, self._at)
        self._at += len(data)
        return data if len(data) == size else None


def _front(position: int, head: int, body: int) -> bytes:
    """How a record begins."""
    plain = _RECORD.pack(position, head, body, 0)
    return plain[:-4] + zlib.crc32(plain).to_bytes(4, "little")


def _write_all(handle: int, parts: Sequence[bytes | memoryview]) -> None:
    """In as few calls as possible: the system takes only so many parts, and so many bytes, in one."""
    left, at = [memoryview(part) for part in parts if part], 0
    while at < len(left):
        done = os.writev(handle, left[at : at + _MOST_PARTS])
        while at < len(left) and done >= len(left[at]):
            done -= len(left[at])
            at += 1
        if done:
            left[at] = left[at][done:]


def _files(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, no paths
    except (FileNotFoundError, NotADirectoryError):
        return []
    ours = [name for name in names if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdecimal()]
    return sorted((folder / name for name in ours), key=_number)


def _number(path: Path) -> int:
    return int(path.stem)
