"""Delete folders that a guest filled: however deep, without following links, without crossing into another file system.

Nothing is deleted recursively: a tree a guest makes can be deeper than any recursion and any number of descriptors.
Every folder found is moved up to the top and emptied there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from wasm_kernel.errors import MountInside

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 5  # somebody may still put things there


def remove(folder: str | Path, last: str = "", parent: int | None = None, *, keep_as: str = "") -> None:
    """Delete a folder, by its path or by its name in ``parent``. If that fails, the file ``last`` is still in it.

    ``keep_as``: a path, or a name in ``parent``, to which the file ``last`` moves instead of being deleted; a file that
    is there goes.
    """
    aside = keep_as or f"{folder}.{last}"
    for attempt in range(_ATTEMPTS):
        handle = os.open(folder, _FOLDER, dir_fd=parent)
        try:
            _empty(handle, last)
            moved = bool(last) and _move(last, handle, aside, parent)
            try:
                os.rmdir(folder, dir_fd=parent)
                break
            except OSError as e:
                if moved:
                    _move(aside, parent, last, handle)
                if e.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                    raise
        finally:
            os.close(handle)
    if last and not keep_as:
        _unlink(aside, parent)


def _move(name: str, folder: int | None, target: str, other: int | None) -> bool:
    """Rename a file; False if there is none."""
    try:
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=other)
    except FileNotFoundError:
        return False
    return True


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
            with contextlib.suppress(OSError):  # something was put there meanwhile: the next round finds it
                os.rmdir(name, dir_fd=top)
                stuck = 0


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
            os.rename(name, secrets.token_hex(12), src_dir_fd=folder, dst_dir_fd=top)
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


def _unlink(name: str, folder: int | None) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:  # try, not suppress: a prune calls this thousands of times
        pass
    except PermissionError:  # the folder is read-only
        if folder is None:
            raise
        os.fchmod(folder, 0o700)
        os.unlink(name, dir_fd=folder)


def _open(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)
