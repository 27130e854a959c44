"""A session's installed packages on disk: sets that never change, and a link that says which one is in use.

workspace_root/.wasm-kernel/packages/<id>/             what the guest sees as /packages, read-only
workspace_root/.wasm-kernel/packages/<id>/<set>/       one set of packages, whole
workspace_root/.wasm-kernel/packages/<id>/current      a link to the set in use; none before the first install
workspace_root/.wasm-kernel/installing/<id>.<random>/  a set being made; who makes it holds a lock on it

An install makes a new set beside the old one and moves the link, so whoever is killed leaves one of the two in use.
The old set stays while the session may be open: what a guest imported from it goes on working. It goes when the
session is next opened.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wasm_kernel.host.disk.locks import gate, state_folder
from wasm_kernel.host.durable import sync_folder, sync_tree
from wasm_kernel.host.files import delete_tree

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGES, INSTALLING = "packages", "installing"
_CURRENT = "current"
_REQUESTED = ".requested"  # in a set: what was asked for, a requirement a line; the rest came with it
_PYC = ".cpython-315.pyc"
_BLOCK = 4096


def in_use(folder: Path) -> str:
    """The name of the set in use; empty when nothing was installed yet. Called at every turn of a guest."""
    try:
        return os.readlink(f"{folder}/{_CURRENT}")  # noqa: PTH115
    except OSError:
        return ""


def prepare(root: Path, session_id: str) -> Path:
    """The folder to mount for a session that is being opened, made if needed. The caller holds the session's lock.

    Sets no longer in use are deleted here: no guest of the session lives that could still import from one.
    """
    folder = state_folder(root) / PACKAGES / session_id
    folder.mkdir(parents=True, exist_ok=True)
    keep = {_CURRENT, in_use(folder)}
    if any(name not in keep for name in os.listdir(folder)):  # noqa: PTH208
        with contextlib.suppress(OSError), _locked(folder, wait=False):  # whoever installs now tidies up afterwards
            keep = {_CURRENT, in_use(folder)}
            for name in os.listdir(folder):  # noqa: PTH208
                if name not in keep:
                    delete_tree.remove(folder / name)
    return folder


@contextlib.contextmanager
def changing(
    root: Path, session_id: str, cancel: threading.Event | None = None, on_wait: Callable[[], None] = lambda: None
) -> Iterator[StagedPackages]:
    """Change a session's packages; one change at a time, others wait. `FileNotFoundError` without a session.

    ``on_wait`` is called once when another install has to end first; `InterruptedError` when ``cancel`` is set.
    """
    with gate(root, exclusive=False):  # the session cannot go between the look and the lock
        if not _is_session(root, session_id):
            raise FileNotFoundError(f"there is no session {session_id} in {root}")
        folder = state_folder(root) / PACKAGES / session_id
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder, cancel=cancel, on_wait=on_wait):
        place = state_folder(root) / INSTALLING
        with gate(root, exclusive=False):  # nobody looks for leftovers between the folder and its lock
            place.mkdir(exist_ok=True)
            staging = place / f"{session_id}.{secrets.token_hex(4)}"
            staging.mkdir(mode=0o700)
            handle = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield StagedPackages(root, session_id, folder, staging)
        finally:
            with contextlib.suppress(OSError):  # what does not go now, the next prune sweeps
                delete_tree.remove(staging)
            os.close(handle)


class StagedPackages:
    """A new set in the making.

    Attributes:
        old: The set in use, or None.
        new: Where the new set is made.
        work: A folder for whatever else the making needs; it goes with the change.
    """

    def __init__(self, root: Path, session_id: str, folder: Path, staging: Path) -> None:
        self._root, self._session_id, self._folder, self._staging = root, session_id, folder, staging
        name = in_use(folder)
        self.old = folder / name if name else None
        self.new, self.work = staging / "new", staging / "work"
        self.new.mkdir()
        self.work.mkdir()

    def copy_old(self, but: set[str]) -> None:
        """Begin with the old set, without some of its files (paths below it). Files are shared: no set changes."""
        if self.old is None:
            return
        for path in _files(self.old):
            if path not in but:
                _share(self.old / path, self.new / path)

    def share_with_old(self) -> list[str]:
        """Use the old set's files where they are the same, and bytecode made for them; the paths of all others."""
        if self.old is None:
            return list(_files(self.new))
        shared = set()
        for path in _files(self.old):
            ours = self.new / path
            if path.endswith(_PYC):
                source = os.path.join(os.path.dirname(os.path.dirname(path)), f"{ours.name[: -len(_PYC)]}.py")  # noqa: PTH118, PTH120
                if _same(self.old / source, self.new / source):
                    _share(self.old / path, ours)
                    shared.add(path)
            elif _same(self.old / path, ours):
                ours.unlink()
                _share(self.old / path, ours)
                shared.add(path)
        return [path for path in _files(self.new) if path not in shared]

    def put_in_use(self, requested: list[str]) -> Path:
        """Make the new set the one in use, at once; where it is now. `FileNotFoundError` if the session has gone."""
        (self.new / _REQUESTED).unlink(missing_ok=True)  # shared with the old set, perhaps
        (self.new / _REQUESTED).write_text("".join(f"{line}\n" for line in requested))
        name = f"set-{secrets.token_hex(4)}"
        link = self._staging / _CURRENT
        link.symlink_to(name)
        sync_tree(self.new)  # or a power cut leaves the link, and files without their bytes
        with gate(self._root, exclusive=False):
            if not _is_session(self._root, self._session_id):
                raise FileNotFoundError(f"session {self._session_id} was deleted meanwhile")
            os.rename(self.new, self._folder / name)  # noqa: PTH104
            os.replace(link, self._folder / _CURRENT)  # noqa: PTH105
            sync_folder(self._folder)
        return self._folder / name


def requested(folder: Path | None) -> list[str]:
    """What was asked for in a set."""
    if folder is None:
        return []
    try:
        return (folder / _REQUESTED).read_text().split("\n")[:-1]
    except OSError:
        return []


def installed(folder: Path | None) -> list[Distribution]:
    """The distributions in a folder of packages."""
    from importlib.metadata import distributions  # not on the way to a kernel's first cell

    return [] if folder is None else list(distributions(path=[str(folder)]))


def set_in_use(root: Path, session_id: str) -> Path | None:
    """The folder of the set a session uses now, or None."""
    folder = state_folder(root) / PACKAGES / session_id
    name = in_use(folder)
    return folder / name if name else None


def measure(*folders: Path) -> tuple[int, str]:
    """Bytes that folders of packages take, and the first thing there that is neither file nor folder, if any.

    Each file and folder counts as a block at least: many small ones take room, too. What is linked counts once, and
    what goes meanwhile not at all.
    """
    size, odd = 0, ""
    seen: set[int] = set()
    for where, inner, names in (found for folder in folders for found in os.walk(folder)):
        for name in [*inner, *names]:
            try:
                info = os.lstat(f"{where}/{name}")
            except FileNotFoundError:
                continue
            if info.st_nlink > 1 and stat.S_ISREG(info.st_mode):
                if info.st_ino in seen:
                    continue
                seen.add(info.st_ino)
            if stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
                size += max(info.st_size, _BLOCK)
            else:
                odd = odd or name
    return size, odd


def _is_session(root: Path, session_id: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(os.lstat(root / session_id).st_mode)
    return False


def _files(folder: Path) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        inner = os.path.relpath(where, folder)
        for name in names:
            yield name if inner == "." else f"{inner}/{name}"


def _same(one: Path, other: Path) -> bool:
    import filecmp

    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _share(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as e:  # a file system without hard links, or too many of them
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        import shutil

        shutil.copyfile(source, target, follow_symlinks=False)


@contextlib.contextmanager
def _locked(
    folder: Path,
    *,
    wait: bool = True,
    cancel: threading.Event | None = None,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait:
                    raise
            if cancel is not None and cancel.is_set():
                raise InterruptedError("cancelled")
            if not told:
                told = True
                on_wait()
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)
