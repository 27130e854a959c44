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
* Before the session's files become those of another moment, ``moving`` in the folder names the snapshot it moves to. It
  goes when the store or a new log says that the session is there. Whoever finds it after a kill has the move to finish.

It is synced only by `sync`, about every second: a kill loses nothing, a power cut what came after that.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from blake3 import blake3

from wasm_kernel.host.durable import sync_folder
from wasm_kernel.host.store.allowance import allowance
from wasm_kernel.host.store.found_log import (
    FILE,
    MAGIC,
    MAX_BODY,
    MAX_HEAD,
    READ,
    SUFFIX,
    SUM,
    VERSION,
    FoundLog,
    LogHeader,
    find,
    front_of,
    log_files,
    number_of,
)

LOGS = "snapshots/logs"  # below the state folder: a folder for each session
_MOST_PARTS = 1000  # of one write
_BELIEVED = 1.0  # seconds
_MOVING = "moving"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
        return bool(log_files(self._folder))

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
        for path in log_files(self._folder):
            if path not in kept:
                with contextlib.suppress(OSError):  # the next file has another id, which ends this one as well
                    path.unlink()

    def moving(self, snapshot_id: str) -> None:
        """The session is about to become what it was at a snapshot, file by file."""
        with contextlib.suppress(OSError):  # a full disk: only a kill right now would show
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / _MOVING).write_text(snapshot_id)

    def arrived(self) -> None:
        """It is there, or has not moved."""
        with contextlib.suppress(OSError):
            (self._folder / _MOVING).unlink()

    @property
    def destination(self) -> str:
        """The snapshot that the session was moving to when it was killed; empty: it was not moving."""
        try:
            return (self._folder / _MOVING).read_text()
        except (OSError, ValueError):
            return ""

    def go_on(self, found: FoundLog) -> None:
        """Continue what was found on the disk."""
        with self._lock:
            self.id, self._base, self._image, self.position = found.id, found.base, found.image, found.last
            self._segments = [_Segment(path, found.last, path.stat().st_size) for path in found.paths]
            self._remove_all_but(found.paths)
            self._next = number_of(found.paths[-1]) + 1

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
            front = front_of(self.position + 1, len(head), length)
            checksum = blake3(front).update(head)
            for piece in body:
                checksum.update(piece)
            parts = [front, checksum.digest(SUM), head, *body]
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
        header = LogHeader(self.id, self._base, self._image, self.position + 1)
        text = json.dumps(asdict(header)).encode()
        front = FILE.pack(MAGIC, VERSION, len(text))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{self._next:08}{SUFFIX}"
        handle = os.open(path, _APPEND, 0o600)
        parts = [front, blake3(front).update(text).digest(SUM), text]
        try:
            _write_all(handle, parts)
        except OSError:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        self.arrived()  # this log says where it is
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
                    handles.append(os.open(path, READ))
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
