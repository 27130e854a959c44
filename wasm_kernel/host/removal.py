"""Take a session away: renamed out of sight first, deleted then, so that it is whole or absent at every moment."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from wasm_kernel.host import trees
from wasm_kernel.host.ledger import STATE_FOLDER, forget_lock, is_live, state_folder
from wasm_kernel.host.workspace import METADATA_NAME


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


def has_mount_inside(folder: Path) -> bool:
    """Whether another file system is mounted somewhere below, as far down as a path reaches."""
    device = os.lstat(folder).st_dev
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.stat(follow_symlinks=False).st_dev != device:
                        return True
                    waiting.append(entry.path)
    return False


def remove_session(root: Path, session_id: str) -> bool:
    """Delete a session whose lock the caller holds; whether there was one."""
    folder = root / session_id
    if folder.is_dir() and not folder.is_symlink() and has_mount_inside(folder):
        raise trees.MountInside(f"another file system is mounted inside session {session_id}; unmount it first")
    aside = set_aside(root, session_id, trash_folder(root))
    if aside is None:
        return False
    trees.remove(aside)
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
                        trees.remove(child)
                    else:
                        child.unlink()
    locks = state / "locks"
    if locks.is_dir():
        for child in locks.iterdir():
            if not (root / child.name).exists() and not is_live(root, child.name):
                forget_lock(root, child.name)


def sweep_temporaries(folder: Path) -> None:
    """Delete temporary metadata and uploads of a session nobody uses, as far down as a path reaches."""
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.name.startswith(f"{METADATA_NAME}.") and ".damaged-" not in entry.name:
                    os.unlink(entry.path)  # noqa: PTH108
