"""Delete folders that a guest filled: however deep, without following links, without crossing into another file system.

Nothing is deleted recursively: a tree a guest makes can be deeper than any recursion and any number of descriptors.
Every folder found is moved up to the top and emptied there.
"""

from __future__ import annotations

import errno
import os
import stat

from wasm_kernel.errors import MountInside

TYPE_CHECKING = False  # a process that only deletes (`deleting_process`) starts without what it does not need
if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 5  # somebody may still put things there


def remove(folder: str | Path, last: str = "", parent: int | None = None) -> None:
    """Delete a folder, by its path or by its name in ``parent``. If that fails, the file ``last`` is still in it."""
    for attempt in range(_ATTEMPTS):
        handle = os.open(folder, _FOLDER, dir_fd=parent)
        kept = -1
        try:
            _empty(handle, last)
            if last:
                kept = _last_file(last, handle)
                _delete_last(last, handle)
            try:
                os.rmdir(folder, dir_fd=parent)
                return
            except OSError as e:
                if kept >= 0:
                    _put_back(last, handle, kept)
                if e.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                    raise
        finally:
            if kept >= 0:
                os.close(kept)
            os.close(handle)


def _last_file(name: str, folder: int) -> int:
    """The file that goes last, open: as long as it is, its content can be had back. -1: there is none."""
    try:
        return os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return -1


def _delete_last(name: str, folder: int) -> None:
    try:
        _unlink(name, folder)
    except (IsADirectoryError, PermissionError):  # a folder of that name; systems differ in what they say
        _empty(folder)


def _put_back(name: str, folder: int, kept: int) -> None:
    """Write a file anew that was deleted too soon. (To rename it, and back, would have ext4 write it to the disk.)"""
    info = os.fstat(kept)
    if not stat.S_ISREG(info.st_mode):
        return
    new = os.open(name, _NEW, stat.S_IMODE(info.st_mode), dir_fd=folder)
    try:
        left = memoryview(os.pread(kept, info.st_size, 0))
        while left:
            left = left[os.write(new, left) :]
    finally:
        os.close(new)


def empty(folder: str | Path, but: str = "") -> None:
    """Delete everything in a folder, except the file ``but``."""
    handle = os.open(folder, _FOLDER)
    try:
        _empty(handle, but)
    finally:
        os.close(handle)


def _empty(top: int, but: str = "") -> None:
    device = -1
    stuck = 0
    while stuck < _ATTEMPTS:
        with os.scandir(top) as entries:
            found = [entry for entry in entries if entry.name != but]
        folders = []
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                _unlink(entry.name, top)
        if not folders:
            return  # what somebody puts there meanwhile, the caller sees when it deletes the folder
        stuck += 1
        device = os.fstat(top).st_dev if device < 0 else device
        for name in folders:
            inner = _open(name, top)
            try:
                if os.fstat(inner).st_dev != device:
                    raise MountInside(f"another file system is mounted at {name!r}; unmount it first")
                _flatten(inner, top)
            finally:
                os.close(inner)
            try:
                os.rmdir(name, dir_fd=top)
                stuck = 0
            except OSError:  # something was put there meanwhile: the next round finds it
                pass


def _flatten(folder: int, top: int) -> None:
    """Delete the files of a folder, and move its folders to the top."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            try:
                _move_up(entry.name, folder, top)
            except PermissionError:  # it, or what holds it, is read-only
                os.fchmod(folder, 0o700)
                os.chmod(entry.name, 0o700, dir_fd=folder)
                _move_up(entry.name, folder, top)
            except OSError as e:
                if e.errno in (errno.EBUSY, errno.EXDEV):
                    raise MountInside(f"another file system is mounted at {entry.name!r}; unmount it first") from None
                raise
        else:
            _unlink(entry.name, folder)


def _move_up(name: str, folder: int, top: int) -> None:
    while True:
        try:
            os.rename(name, os.urandom(12).hex(), src_dir_fd=folder, dst_dir_fd=top)
        except FileNotFoundError:  # it was the last leaf
            return
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # One more name at the top needs a block: free those of a folder, which ext4 gives back with the next sync.
            _delete_a_leaf(name, folder)
            os.fsync(top)
        else:
            return


def _delete_a_leaf(name: str, folder: int) -> None:
    """Delete the first folder without folders that is found below one, or that one."""
    above, here = os.dup(folder), _open(name, folder)
    try:
        while True:
            with os.scandir(here) as entries:
                found = list(entries)
            inner = next((entry.name for entry in found if entry.is_dir(follow_symlinks=False)), None)
            if inner is None:
                break
            deeper = _open(inner, here)
            os.close(above)
            above, here, name = here, deeper, inner
        for entry in found:
            _unlink(entry.name, here)
        os.rmdir(name, dir_fd=above)
    finally:
        os.close(above)
        os.close(here)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:  # try, not suppress: a prune calls this thousands of times
        pass
    except PermissionError:  # the folder is read-only
        os.fchmod(folder, 0o700)
        os.unlink(name, dir_fd=folder)


def _open(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)
