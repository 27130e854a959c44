"""Records what is asked of the disk, and says which of it a power cut could undo or leave half done.

Every call still happens. A file is durable when it was synced as it is now, its folder after it got its name there, and
each folder made on the way from its parent.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel.host import durable
from wasm_kernel.host.files import new_file

Identity = tuple[int, int]
Site = tuple[str, str, str]
_OURS = str(Path(durable.__file__).parents[1])


@dataclass(frozen=True)
class Named:
    """Something got a name: by a rename, a link, or because it is a new folder."""

    moment: int
    path: Path
    folder: Identity
    is_whole: bool  # its bytes were synced before


@dataclass
class Recording:
    """What happened, in order.

    Attributes:
        named: What got a name.
        unlinked: When which path was deleted or moved away.
        sites: Where the calls that made things durable came from.
        deaf_to: Syncs that came from here are passed over, as if they were not in the code.
    """

    named: list[Named] = field(default_factory=list)
    unlinked: dict[Path, int] = field(default_factory=dict)
    sites: set[Site] = field(default_factory=set)
    deaf_to: Site | None = None
    _now: int = 0
    _folders: dict[Identity, int] = field(default_factory=dict)
    _files: dict[Identity, tuple[int, int]] = field(default_factory=dict)
    _syncs: list[tuple[Identity, int]] = field(default_factory=list)
    _everything: int = -1
    _all_synced_ns: int = -1

    def problems(self, concerns: Callable[[Path], bool]) -> list[str]:
        """What a power cut could still undo of the paths that matter."""
        found = []
        for one in self.named:
            if not concerns(one.path) or self.unlinked.get(one.path, -1) > one.moment:
                continue
            if not one.is_whole:
                found.append(f"{one.path.name} got its name before its bytes were synced")
            if max(self._folders.get(one.folder, -1), self._everything) < one.moment:
                found.append(f"the folder of {one.path.name} was not synced afterwards")
        return found

    def moment_of(self, path: Path) -> int:
        """When something got its name, for the last time."""
        return max(one.moment for one in self.named if one.path == path)

    def durable_at(self, path: Path) -> int:
        """When the name of something was first durable."""
        (one,) = [one for one in self.named if one.path == path]
        return min((m for folder, m in self._syncs if folder == one.folder and m > one.moment), default=sys.maxsize)

    def unsynced(self, path: Path) -> list[str]:
        """What of a file that changes under its name could still be lost."""
        info, moments = path.stat(), [one.moment for one in self.named if one.path == path]
        found = [] if self._is_whole(info) else [f"{path.name} was not synced as it is now"]
        if self._folders.get(_identity(path.parent.stat()), -1) < max(moments, default=0):
            found.append(f"the folder of {path.name} was not synced")
        return found

    # ---- what is called

    def tick(self) -> int:
        self._now += 1
        return self._now

    def synced(self, handle: int) -> None:
        info = os.fstat(handle)
        if self._ignores("folder" if stat.S_ISDIR(info.st_mode) else "file"):
            return
        if stat.S_ISDIR(info.st_mode):
            self._folders[_identity(info)] = self.tick()
            self._syncs.append((_identity(info), self._now))
        else:
            self._files[_identity(info)] = info.st_size, info.st_mtime_ns

    def synced_everything(self) -> None:
        if not self._ignores("everything"):
            self._everything = self.tick()
            self._all_synced_ns = time.time_ns()

    def got_name(self, path: Path, folder: os.stat_result, info: os.stat_result) -> None:
        below = [info, *(p.lstat() for p in path.rglob("*"))] if stat.S_ISDIR(info.st_mode) else [info]
        self.named.append(Named(self.tick(), path, _identity(folder), all(map(self._is_whole, below))))

    def _is_whole(self, info: os.stat_result) -> bool:
        if info.st_ctime_ns <= self._all_synced_ns or stat.S_ISLNK(info.st_mode):
            return True
        if stat.S_ISDIR(info.st_mode):
            return _identity(info) in self._folders
        return self._files.get(_identity(info)) == (info.st_size, info.st_mtime_ns)

    def _ignores(self, what: str) -> bool:
        frame = sys._getframe(3)
        while not frame.f_code.co_filename.startswith(_OURS) or frame.f_code.co_filename == durable.__file__:
            if frame.f_back is None:
                return False
            frame = frame.f_back
        site = Path(frame.f_code.co_filename).stem, frame.f_code.co_qualname, what
        self.sites.add(site)
        return site == self.deaf_to


def _identity(info: os.stat_result) -> Identity:
    return info.st_dev, info.st_ino


@contextlib.contextmanager
def recorded(deaf_to: Site | None = None) -> Iterator[Recording]:
    """Record what this process does to its disks meanwhile."""
    recording = Recording(deaf_to=deaf_to)
    with pytest.MonkeyPatch.context() as patch:
        _listen(recording, patch)
        yield recording


def _listen(recording: Recording, patch: pytest.MonkeyPatch) -> None:
    names = ("fsync", "fdatasync", "rename", "replace", "link", "mkdir", "unlink")
    real = {name: getattr(os, name) for name in names}

    def syncing(name: str) -> Callable[[int], None]:
        def call(handle: int) -> None:
            real[name](handle)
            recording.synced(handle)

        return call

    def naming(name: str) -> Callable[..., None]:
        def call(source: Any, target: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None, **more: Any) -> None:
            where, before = _path(target, dst_dir_fd), _path(source, src_dir_fd)
            info = os.stat(source, dir_fd=src_dir_fd, follow_symlinks=False)
            if src_dir_fd is not None or dst_dir_fd is not None:
                more |= {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
            real[name](source, target, **more)
            if name != "link":
                recording.unlinked[before] = recording.tick()
            recording.got_name(where, os.stat(where.parent), info)

        return call

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        real["mkdir"](path, mode, dir_fd=dir_fd)
        where = _path(path, dir_fd)
        recording.named.append(Named(recording.tick(), where, _identity(os.stat(where.parent)), True))

    def unlink(path: Any, *, dir_fd: Any = None) -> None:
        real["unlink"](path, dir_fd=dir_fd)
        recording.unlinked[_path(path, dir_fd)] = recording.tick()

    really = durable.sync_file_system

    def sync_file_system(handle: int) -> None:
        really(handle)
        recording.synced_everything()

    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, syncing(name))
    for name in ("rename", "replace", "link"):
        patch.setattr(os, name, naming(name))
    patch.setattr(os, "mkdir", mkdir)
    patch.setattr(os, "unlink", unlink)
    for module in (durable, new_file):
        patch.setattr(module, "sync_file_system", sync_file_system)


def _path(name: Any, folder: int | None) -> Path:
    above = Path(f"/proc/self/fd/{folder}").readlink() if folder is not None else Path.cwd()
    return above / os.fsdecode(name)
