"""Take a session away: renamed out of sight first, deleted then, so that it is whole or absent at every moment."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from wasm_kernel.host.ledger import STATE_FOLDER, forget_lock, is_live, state_folder
from wasm_kernel.host.workspace import METADATA_NAME

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_ATTEMPTS = 5  # a folder may still be written to by somebody who had it open


class MountInside(OSError):
    """Another file system is mounted in the folder: it is not deleted."""


def trash_folder(root: Path) -> str:
    """Where sessions go on their way out, made if needed."""
    trash = state_folder(root) / "trash"
    trash.mkdir(exist_ok=True)
    return str(trash)


def set_aside(root: Path, session_id: str, trash: str) -> str | None:
    """Move a session's folder to the trash, at once; None when there is none.

    The caller holds the session's lock, or the gate exclusively. Plain strings: a prune calls this thousands of times.
    """
    folder = f"{root}/{session_id}"
    try:
        info = os.lstat(folder)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(f"{session_id} is a link or a file, not a folder; it is left alone")
    target = f"{trash}/{session_id}.{secrets.token_hex(4)}"
    os.rename(folder, target)  # noqa: PTH104
    return target


def put_back(root: Path, session_id: str, aside: str) -> None:
    """Undo `set_aside`, if nobody took the place."""
    with contextlib.suppress(OSError):
        os.rename(aside, root / session_id)  # noqa: PTH104


def destroy(folder: str | Path) -> None:
    """Delete a folder that was set aside. Links are deleted, not followed; another file system inside is refused."""
    device = os.lstat(folder).st_dev
    for attempt in range(_ATTEMPTS):
        _empty(os.open(folder, _FOLDER), device)
        try:
            os.rmdir(folder)  # noqa: PTH106
            return
        except OSError as e:
            if e.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                raise


def _empty(handle: int, device: int) -> None:
    """Delete everything in an open folder, and close it."""
    try:
        with os.scandir(handle) as entries:
            found = list(entries)
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                _unlink(entry.name, handle)
                continue
            inner = _open(entry.name, handle)
            if os.fstat(inner).st_dev != device:
                os.close(inner)
                raise MountInside(f"another file system is mounted at {entry.name!r}; unmount it first")
            _empty(inner, device)
            with contextlib.suppress(OSError):  # somebody put something there meanwhile: the next attempt finds it
                os.rmdir(entry.name, dir_fd=handle)
    finally:
        os.close(handle)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except PermissionError:  # the folder is read-only
        os.fchmod(folder, 0o700)
        os.unlink(name, dir_fd=folder)


def _open(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=True)
        return os.open(name, _FOLDER, dir_fd=folder)


def has_mount_inside(folder: Path) -> bool:
    """Whether another file system is mounted somewhere below."""
    device = os.lstat(folder).st_dev
    for path, folders, _ in os.walk(folder):
        for name in folders:
            with contextlib.suppress(OSError):
                info = os.lstat(f"{path}/{name}")
                if stat.S_ISDIR(info.st_mode) and info.st_dev != device:
                    return True
    return False


def remove_session(root: Path, session_id: str) -> bool:
    """Delete a session whose lock the caller holds; whether there was one."""
    folder = root / session_id
    if folder.is_dir() and not folder.is_symlink() and has_mount_inside(folder):
        raise MountInside(f"another file system is mounted inside session {session_id}; unmount it first")
    aside = set_aside(root, session_id, trash_folder(root))
    if aside is None:
        return False
    destroy(aside)
    return True


def sweep(root: Path) -> None:
    """Delete what killed processes left: half-made sessions, half-deleted ones, temporary metadata.

    The caller holds the gate exclusively, so nobody is in the middle of making one.
    """
    state = root / STATE_FOLDER
    for place in ("new", "trash"):
        folder = state / place
        if folder.is_dir():
            for child in folder.iterdir():
                with contextlib.suppress(OSError):
                    if child.is_dir() and not child.is_symlink():
                        destroy(child)
                    else:
                        child.unlink()
    locks = state / "locks"
    if locks.is_dir():
        for child in locks.iterdir():
            if not (root / child.name).exists() and not is_live(root, child.name):
                forget_lock(root, child.name)


def sweep_temporaries(folder: Path) -> None:
    """Delete temporary metadata and uploads of a session nobody uses."""
    for path, _, names in os.walk(folder):
        for name in names:
            if name.startswith(f"{METADATA_NAME}.") and ".damaged-" not in name:
                with contextlib.suppress(OSError):
                    Path(path, name).unlink()
