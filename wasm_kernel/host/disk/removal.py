"""Remove a session: it is renamed out of sight, then deleted, so that it is whole or absent at every moment."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from wasm_kernel.errors import MountInside
from wasm_kernel.host.disk import reserve, tombstones
from wasm_kernel.host.disk.locks import forget_lock, gate, is_live, state_folder
from wasm_kernel.host.disk.packages import INSTALLING, PACKAGES
from wasm_kernel.host.files import delete_tree
from wasm_kernel.host.files.workspace_survey import METADATA_NAME
from wasm_kernel.model.names import STATE_FOLDER, TASKS

# Folders below the state folder that hold a folder per session, named by its id: they go with it.
_SNAPSHOTS = "snapshots/manifests"
BELONGINGS = (PACKAGES, "history", _SNAPSHOTS, TASKS, "snapshots/logs", "snapshots/memory")
_OURS = re.compile(re.escape(METADATA_NAME) + r"\.([0-9a-f]{12}|upload-[0-9a-f]{16})\Z")


class Bin:
    """Where one process puts what it deletes: out of sight, and locked, so that nobody else deletes there too.

    What a killed process leaves in its bin is thrown into the bin of whoever comes next. On a disk without a block for
    a bin there is none: then everything is deleted where it is, and a kill meanwhile leaves a part.

    Attributes:
        path: Where it is; empty if there is none.
        handle: Its descriptor, which holds the lock.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path, self.handle = "", -1
        self._above = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._make()
        except OSError as e:
            if not reserve.is_full(e):
                os.close(self._above)
                raise
            with contextlib.suppress(OSError):
                if reserve.spend(root):
                    self._make()

    def _make(self) -> None:
        trash = state_folder(self._root) / "trash"
        path = f"{trash}/{secrets.token_hex(8)}"
        with gate(self._root, exclusive=False):  # nobody looks for leftovers between the folder and its lock
            trash.mkdir(exist_ok=True)
            os.mkdir(path)  # noqa: PTH102
            self.path, self.handle = path, _lock_folder(path)

    def __enter__(self) -> Bin:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._above)
        if self.path:
            with contextlib.suppress(OSError):  # what does not go now is a leftover for the next prune
                delete_tree.remove(self.path)
            os.close(self.handle)

    def belongings(self) -> dict[str, set[str]]:
        """Which sessions have belongings, by kind: for many calls of `take`, while the gate is held exclusively."""
        return {kind: set(_names(self._root / STATE_FOLDER / kind)) for kind in BELONGINGS}

    def take(
        self, session_id: str, *, keep_snapshots: bool = False, there: Mapping[str, Container[str]] | None = None
    ) -> str | None:
        """Move a session's folder here, at once, and what belongs to it; where it is now, or None if there is none.

        ``there``: what `belongings` gave, if the caller has asked. The caller holds the session's lock, or the gate
        exclusively. Plain strings and handles: a prune calls this thousands of times.
        """
        folder = f"{self._root}/{session_id}"
        try:
            info = os.stat(session_id, dir_fd=self._above, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(f"{session_id} is a link or a file, not a folder; it is left alone")
        going = {n: kind for n, kind in enumerate(BELONGINGS) if there is None or session_id in there[kind]}
        if keep_snapshots:
            going.pop(BELONGINGS.index(_SNAPSHOTS), None)
        if not self.path:
            return self._delete_in_place(folder, [self._belonging(kind, session_id) for kind in going.values()])
        target = f"{self.path}/{session_id}"
        try:
            os.rename(session_id, session_id, src_dir_fd=self._above, dst_dir_fd=self.handle)
        except OSError as e:
            if not reserve.is_full(e):
                raise
            return self._delete_in_place(folder, [self._belonging(kind, session_id) for kind in going.values()])
        for number, kind in going.items():
            with contextlib.suppress(FileNotFoundError):
                os.rename(self._belonging(kind, session_id), f"{target}.{number}")  # noqa: PTH104 - no id has a dot
        return target

    def _delete_in_place(self, folder: str, belongings: list[str]) -> str:
        # Metadata goes last: without it a part would pass for a session from before there was metadata.
        delete_tree.empty(folder, but=METADATA_NAME)
        delete_tree.remove(folder)
        for path in belongings:
            with contextlib.suppress(OSError):
                delete_tree.remove(path)
        return folder

    def _belonging(self, kind: str, session_id: str) -> str:
        return f"{self._root}/{STATE_FOLDER}/{kind}/{session_id}"

    def destroy(self, session_id: str) -> None:
        """Delete a session that was taken. What cannot be deleted goes back to its place, if nobody took that."""
        if not self.path:
            return  # deleted where it was
        try:
            # Without its metadata it would pass for one from before there was metadata, which is never deleted. So that
            # goes last.
            delete_tree.remove(session_id, METADATA_NAME, self.handle)
        except OSError:
            aside = f"{self.path}/{session_id}"
            if not os.path.lexists(aside):
                return  # deleted where it was, or by another process
            with contextlib.suppress(OSError):
                os.rename(aside, self._root / session_id)  # noqa: PTH104
                for number, kind in enumerate(BELONGINGS):
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(f"{aside}.{number}", self._belonging(kind, session_id))  # noqa: PTH104
            raise

    def collect_leftovers(self) -> None:
        """Throw in what killed processes left: half-made sessions, bins, belongings. Forgets locks of nothing.

        The caller holds the gate exclusively, so nobody is about to begin.
        """
        state = self._root / STATE_FOLDER
        buried = tombstones.names(self._root)
        for name in _names(state / "new"):
            if not is_live(self._root, name.partition(".")[0]):
                self._throw_in(state / "new" / name)
        for kind in BELONGINGS:
            for name in _names(state / kind):
                if kind == _SNAPSHOTS and name in buried:
                    continue
                if not os.path.lexists(self._root / name) and not is_live(self._root, name):
                    self._throw_in(state / kind / name)
        for name in _names(state / INSTALLING):
            with contextlib.suppress(OSError):
                os.close(_lock_folder(str(state / INSTALLING / name)))
                self._throw_in(state / INSTALLING / name)
        for name in _names(state / "trash"):
            with contextlib.suppress(BlockingIOError, NotADirectoryError, FileNotFoundError):  # or just emptied
                os.close(_lock_folder(str(state / "trash" / name)))
                self._throw_in(state / "trash" / name)
            if (state / "trash" / name).is_file():
                self._throw_in(state / "trash" / name)
        for name in _names(state / "locks"):
            if not (self._root / name).exists() and not is_live(self._root, name):
                forget_lock(self._root, name)

    def _throw_in(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if self.path:
                os.rename(path, f"{self.path}/{secrets.token_hex(8)}")  # noqa: PTH104
            elif path.is_dir() and not path.is_symlink():
                delete_tree.remove(path)
            else:
                path.unlink()


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return []


def _lock_folder(path: str) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def remove_session(root: Path, session_id: str, *, keep_snapshots: bool = False) -> bool:
    """Delete a session whose lock the caller holds; whether there was one.

    ``keep_snapshots``: they stay as long as its tombstone, which the caller has set.
    """
    if session_id in mounted_in(root):
        raise MountInside(f"another file system is mounted inside session {session_id}; unmount it first")
    with Bin(root) as place:
        if place.take(session_id, keep_snapshots=keep_snapshots) is None:
            return False
        place.destroy(session_id)
    return True


def mounted_in(root: Path) -> set[str]:
    """The names of folders below a root in which, or at which, something is mounted."""
    import psutil

    above = os.path.realpath(root) + "/"
    points = [partition.mountpoint for partition in psutil.disk_partitions(all=True)]
    return {point[len(above) :].partition("/")[0] for point in points if point.startswith(above)}


def is_temporary(name: str) -> bool:
    """Whether a file is one that we write before it gets its name. The guest cannot make or see such a name."""
    return _OURS.match(name) is not None


def sweep_temporaries(paths: Iterable[str]) -> None:
    """Delete temporary files whose writer is gone: a living one holds a lock on it."""
    for path in paths:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)  # noqa: PTH108
            finally:
                os.close(handle)
