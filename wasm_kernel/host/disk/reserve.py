"""What is kept ready for a full disk: the folders that deleting needs, and a little space to give up, `reserve`.

Without a free block nobody can make a folder, and so neither delete a session (it is moved to a bin first) nor begin
one. The reserve is given up a slice at a time, and made again when there is room.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from wasm_kernel.host.disk.locks import state_folder

_NAME = "reserve"
_BYTES = 1 << 20
_SLICE = 1 << 16  # enough for a bin, or for a new session: its folders, its record, the names that lead to it
_PLENTY = 16 << 20  # free bytes without which nothing is set aside
_FOLDERS = ("new", "trash")


def is_full(error: OSError) -> bool:
    """Whether something failed because the disk is full, or this user's share of it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def has_room(root: Path) -> bool:
    """Whether there is room for a checkpoint, at least for a small one."""
    return _free(root) >= _BYTES


def keep_ready(root: Path) -> None:
    """Set things aside while there is room."""
    with contextlib.suppress(OSError):
        free = _free(root)
        if free >= _SLICE:
            state = state_folder(root)
            for name in _FOLDERS:
                (state / name).mkdir(exist_ok=True)
            (state / "gate").touch(0o600)
            if free > _PLENTY:
                _set_aside(state / _NAME)


def make_way(root: Path) -> None:
    """Something has to be written: on a full disk, give up a slice for it."""
    with contextlib.suppress(OSError):
        if _free(root) < _SLICE:
            spend(root)


def spend(root: Path) -> bool:
    """Give up some of the reserve; whether there was any."""
    path = state_folder(root) / _NAME
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            left = os.fstat(handle).st_size - _SLICE
            if left > 0:
                os.ftruncate(handle, left)
            else:
                path.unlink()
        finally:
            os.close(handle)
        return True
    return False


def _free(root: Path) -> int:
    found = os.statvfs(root)
    return found.f_bavail * found.f_frsize


def _set_aside(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(handle).st_size >= _BYTES:
            return
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, _BYTES)
        else:
            os.pwrite(handle, bytes(_BYTES), 0)
    finally:
        os.close(handle)
