"""Files that appear whole or not at all, and that last: the one atomic write.

Written under a temporary name, synced, renamed, and the folder synced, in this order. Without the first sync a power
cut can leave the name on a file without its bytes; without the second it can take the name away again. A temporary file
is locked while its writer lives, so whoever sweeps what killed processes left can tell the two apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType


class PendingFile:
    """A file being written under a temporary name, until `publish` gives it its own; `discard` ends it.

    Attributes:
        handle: Its descriptor, open for writing.
    """

    __slots__ = ("_folder", "_temporary", "handle")

    def __init__(self, prefix: str, mode: int = 0o600, *, random_bytes: int = 8, folder: int | None = None) -> None:
        """The temporary name is ``prefix`` and random digits, in the folder open as ``folder`` if that is given."""
        self._folder = folder
        self.handle, self._temporary = _open_temporary(prefix, random_bytes, mode, folder)

    def __enter__(self) -> PendingFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.discard()

    def write(self, data: bytes | bytearray) -> None:
        """Append bytes to the file, all of them."""
        write_all(self.handle, data)

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        os.fsync(self.handle)

    def publish(self, target: str | Path, *, folder: int | None = None, exclusive: bool = False) -> None:
        """Give it its name, in the folder open as ``folder`` if that is given; whoever calls this syncs the folder.

        ``exclusive``: `FileExistsError` where there is one of that name, which a rename would replace.
        """
        if exclusive:
            os.link(self._temporary, target, src_dir_fd=self._folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(self._temporary, dir_fd=self._folder)
        else:
            os.rename(self._temporary, target, src_dir_fd=self._folder, dst_dir_fd=folder)
        self._temporary = ""

    def discard(self) -> None:
        """Close it, and delete it unless it is published. Until then it is open, and so locked."""
        if self.handle < 0:
            return
        handle, self.handle = self.handle, -1
        try:
            if self._temporary:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._temporary, dir_fd=self._folder)
        finally:
            os.close(handle)


@contextlib.contextmanager
def writing(
    target: Path,
    *,
    temporary: str = "",
    mode: int = 0o600,
    random_bytes: int = 8,
    sync: bool = True,
    exclusive: bool = False,
) -> Iterator[PendingFile]:
    """A file to write, which is at ``target`` when the block ends, and nowhere when it fails.

    Args:
        target: Where it will be. A file of that name is replaced, unless ``exclusive`` (then: `FileExistsError`).
        temporary: How its path begins until then, on the same file system; by default it is ``target``.
        mode: Its permissions, before the umask.
        random_bytes: How many make the temporary name unique; leftovers are recognised by that.
        sync: Whether it survives a power cut at once. Without this it still appears whole or not at all.
        exclusive: Whether it must be new.
    """
    with PendingFile(temporary or f"{target}.", mode, random_bytes=random_bytes) as file:
        yield file
        if sync:
            file.sync()
        file.publish(target, exclusive=exclusive)
    if sync:
        sync_folder(target.parent)


def write_file(
    target: Path,
    data: bytes,
    *,
    temporary: str = "",
    random_bytes: int = 8,
    sync: bool = True,
    exclusive: bool = False,
) -> None:
    """Put a file there, for its owner only, whole or not at all: see `writing`."""
    with writing(target, temporary=temporary, random_bytes=random_bytes, sync=sync, exclusive=exclusive) as file:
        file.write(data)


def write_all(handle: int, data: bytes | bytearray) -> None:
    """Write everything: a disk that is almost full accepts only a part at first."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, lastingly; nothing happens if it is there."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_file_system(handle: int) -> None:
    """Make all that was written to the file system of an open file or folder survive a power cut.

    For many files this is one wait for the disk, where a sync of each would be as many.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "what was written could not be made durable")
    else:
        os.sync()


def begin_writing(handle: int) -> None:
    """Let the system begin to write a file to the disk, where it can be told to: a later sync waits for less."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "sync_file_range"):
        libc.sync_file_range(handle, ctypes.c_int64(0), ctypes.c_int64(0), 2)


def sync_tree(folder: Path) -> None:
    """Make all that is in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file_system(handle)
    finally:
        os.close(handle)


def _open_temporary(prefix: str, random_bytes: int, mode: int, folder: int | None) -> tuple[int, str]:
    """A new file, open for writing and locked, and its name."""
    while True:
        name = f"{prefix}{secrets.token_hex(random_bytes)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(name, flags, mode, dir_fd=folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle, name
        except KeyboardInterrupt:  # nobody would know its name
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        os.close(handle)  # swept before it was locked
