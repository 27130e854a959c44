"""Memories that sessions were left with, as files to be mapped: a cache beside the store, of what its snapshots have.

    memory/<session>/<snapshot>.mem     left by whoever closed the session, for the next one
    memory/<session>/<snapshot>.used    mapped by somebody, who has it locked; or a leftover, if nobody has

Whoever opens the session takes the file by renaming it: so one that cannot be read without the process's end (a bad
disk) is tried once. It is never the only copy, and never the reason that something else has no room: it goes when it is
old, when there are too many, when the disk or the administrator's allowance is nearly full, when its snapshot is gone,
and with its session.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.host import administrator
from wasm_kernel.host.durable import PendingFile, begin_writing

MEMORY = "memory"  # below the store's folder: a folder for each session
_READY, _USED = ".mem", ".used"
_MOST_BYTES, _MOST_TOGETHER = 1 << 30, 2 << 30  # of one, and of all below a root
_MOST_AGE = 24 * 3600.0  # seconds
_LEAST_FREE = 2 << 30  # bytes on the disk that are left to others


@dataclass(frozen=True)
class _Found:
    path: str
    session_id: str
    size: int
    at: float

    @property
    def is_used(self) -> bool:
        """Whether somebody has it open."""
        if not self.path.endswith(_USED):
            return False
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(handle)
        return False

    def delete(self) -> int:
        """Delete it; the bytes that it took."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108
            return self.size
        return 0


class MemoryFiles:
    """Those of one session, whose lock the caller holds."""

    def __init__(self, store: Path, session_id: str) -> None:
        self._store, self._session_id = store, session_id
        self._folder = store / MEMORY / session_id

    def claim(self, snapshot_id: str) -> Path | None:
        """The file with the memory of a snapshot, to be opened now; None: there is none. Others of the session go."""
        if not self._folder.is_dir():
            return None
        used = self._folder / f"{snapshot_id}{_USED}"
        with contextlib.suppress(OSError):
            (self._folder / f"{snapshot_id}{_READY}").rename(used)
            self._delete_all_but(used.name)
            return used
        self._delete_all_but("")
        return None

    def give_back(self, snapshot_id: str) -> None:
        """What was claimed is right, and can be used again."""
        with contextlib.suppress(OSError):
            (self._folder / f"{snapshot_id}{_USED}").rename(self._folder / f"{snapshot_id}{_READY}")

    def put(self, snapshot_id: str, size: int, write: Callable[[int], object]) -> None:
        """Let ``write`` fill a file with the memory of a snapshot, of about so many bytes, if there is room for it."""
        if not _is_room(self._store, size):
            self.drop()
            return
        name = f"{snapshot_id}{_READY}"
        with PendingFile(f"{self._store}/new/", random_bytes=16) as file:
            write(file.handle)
            begin_writing(file.handle)  # a snapshot's sync of the whole file system would wait for it
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.publish(self._folder / name)
        self._delete_all_but(name)
        sweep(self._store)

    def drop(self) -> None:
        """Delete them all."""
        self._delete_all_but("")
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _delete_all_but(self, name: str) -> None:
        for found in _in_folder(self._folder):
            if Path(found.path).name != name:
                found.delete()


def total_bytes(store: Path) -> int:
    """What all of them take on the disk."""
    return sum(found.size for found in _everything(store))


def drop_all(store: Path) -> int:
    """Delete all that nobody uses: something else needs the room. The bytes they took."""
    return sum(found.delete() for found in _everything(store) if not found.is_used)


def sweep(store: Path) -> None:
    """Delete what is old, too much, left by a killed process, or of a snapshot that is gone."""
    if _free(store) < _LEAST_FREE:
        drop_all(store)
    together, oldest = 0, time.time() - _MOST_AGE
    for found in sorted(_everything(store), key=lambda one: one.at, reverse=True):
        name, suffix = os.path.splitext(os.path.basename(found.path))  # noqa: PTH119, PTH122
        snapshot = f"{store}/manifests/{found.session_id}/{name}.snap"
        together += found.size
        expired = found.at < oldest or together > _MOST_TOGETHER or not os.path.lexists(snapshot)
        if (expired or suffix == _USED) and not found.is_used:
            together -= found.delete()
    for folder in _folders(store):
        with contextlib.suppress(OSError):  # it is in use
            folder.rmdir()


def _is_room(store: Path, size: int) -> bool:
    most = administrator.rules().snapshot_bytes
    if most is not None and total_bytes(store) + size > most // 4:
        return False
    return size <= _MOST_BYTES and _free(store) - size >= _LEAST_FREE


def _free(store: Path) -> int:
    with contextlib.suppress(OSError):
        found = os.statvfs(store)
        return found.f_bavail * found.f_frsize
    return 0


def _folders(store: Path) -> list[Path]:
    try:
        return [store / MEMORY / name for name in os.listdir(store / MEMORY)]  # noqa: PTH208 - names, no paths
    except OSError:
        return []


def _everything(store: Path) -> Iterator[_Found]:
    for folder in _folders(store):
        yield from _in_folder(folder)


def _in_folder(folder: Path) -> Iterator[_Found]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                yield _Found(entry.path, folder.name, info.st_blocks * 512, info.st_mtime)
