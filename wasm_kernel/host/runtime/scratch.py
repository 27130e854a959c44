"""Scratch folders: what each guest sees as /tmp. They go when their sandbox closes, or after their process died.

All of a process's folders at a place are in one, with a lock held while the process lives. Whoever makes the next
one deletes those whose lock is free.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import threading
from pathlib import Path

from wasm_kernel.host.files import delete_tree

_PREFIX = "wasm-kernel-scratch-"
_FOLDER_PREFIX = "tmp-"
_LOCK = "lock"
_MEMORY = Path("/dev/shm")  # where there is no room for temporary files
_guard = threading.Lock()
_mine: dict[Path, tuple[Path, int]] = {}  # for each place, this process's folder there, and the handle that locks it
_mine_pid = 0


def make() -> Path:
    """A new, empty scratch folder, with the folders a guest's /tmp must have; on a full disk it is in memory."""
    try:
        return _make_in(Path(tempfile.gettempdir()))
    except OSError as e:
        # Python finds no folder for temporary files (ENOENT) where it cannot write to any.
        if e.errno not in (errno.ENOSPC, errno.EDQUOT, errno.ENOENT) or not _MEMORY.is_dir():
            raise
        return _make_in(_MEMORY)


def _make_in(place: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=_process_folder(place)))
    try:
        furnish(folder)
    except OSError:
        remove(folder)
        raise
    return folder


def of_another(told: object) -> Path | None:
    """A scratch folder that another process said it uses; None unless it is one, and this user's.

    Links in the place of its folders are not followed.
    """
    if not isinstance(told, str) or "\0" in told:
        return None
    folder = Path(told)
    if not folder.is_absolute() or ".." in folder.parts:
        return None
    if not (folder.name.startswith(_FOLDER_PREFIX) and folder.parent.name.startswith(_PREFIX)):
        return None
    try:
        found = (folder.parent.lstat(), folder.lstat())
    except OSError:
        return None
    return folder if all(stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() for info in found) else None


def remove(folder: Path) -> None:
    """Delete a scratch folder, and the process's there when it was the last."""
    _discard(folder)
    with _guard:
        place = folder.parent.parent
        mine, handle = _mine.get(place, (None, -1))
        if mine is not None and _mine_pid == os.getpid() and [p.name for p in mine.iterdir()] == [_LOCK]:
            _discard(mine)
            os.close(handle)
            del _mine[place]


def empty(folder: Path) -> None:
    """Delete everything in a scratch folder."""
    with contextlib.suppress(OSError):
        delete_tree.empty(folder)


def _discard(folder: Path) -> None:
    with contextlib.suppress(OSError):
        delete_tree.remove(folder)


def _process_folder(place: Path) -> Path:
    global _mine_pid
    with _guard:
        if _mine_pid != os.getpid():  # a forked child makes its own
            _mine.clear()
            _mine_pid = os.getpid()
        if place not in _mine:
            _sweep(place)
            _mine[place] = _new_folder(place)
        return _mine[place][0]


def _new_folder(place: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return folder, handle
        os.close(handle)  # swept between the folder and its lock


def _sweep(place: Path) -> None:
    """Delete what dead processes of this user left."""
    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            info = folder.lstat()
            if info.st_uid != os.getuid() or folder.is_symlink():
                continue
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _discard(folder)
            finally:
                os.close(handle)


# What IPython and matplotlib made there when the base memory was built, and expect to find.
_SCRATCH_FOLDERS = (".ipython", ".ipython/profile_default", ".config", ".config/matplotlib")


def furnish(scratch: Path) -> None:
    """Make the folders a guest's /tmp must have."""
    for name in _SCRATCH_FOLDERS:
        (scratch / name).mkdir(exist_ok=True, parents=True)  # a cleaner of /tmp may have taken all of it
