"""A folder's files for snapshots: saved piece by piece, and put back so that the folder is as it was."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wasm_kernel.errors import DamagedChunk, PathRefused
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.new_file import NewFiles
from wasm_kernel.host.files.workspace_survey import Identity, Survey
from wasm_kernel.model.snapshots import MAX_PATH, PIECE, SavedFile

Put = Callable[[bytes], bytes]  # stores a piece; its name
Get = Callable[[bytes, int], bytes]  # a piece by its name, of at most this length
_FEW = 50  # files and folders that are looked at one by one
_TICK_NS = 50_000_000  # a file changed this recently may change again without its times showing it


class SavedTree:
    """One folder, and what was last saved of it: a file that did not change since is not read again."""

    def __init__(self, mount: str, folder: Path) -> None:
        self.mount, self._folder = mount, folder
        self._seen: dict[str, Identity | None] = {}  # None: saved, and has to be read again
        self._folders: set[str] | None = None
        self._stamps: dict[str, Identity] = {}  # by which it is seen that nothing differs; empty: it has to be surveyed
        self._saved: dict[str, SavedFile] = {}

    def save(self, put: Put) -> list[SavedFile]:
        """Everything in the folder. Called while nobody changes it."""
        self._stamps = {}
        began = time.time_ns()
        survey = workspace_survey.survey(self._folder)
        if survey.complete and survey.files == self._seen and survey.folders == self._folders:
            return list(self._saved.values())
        saved: dict[str, SavedFile] = {}
        with Folder(self._folder, backslashes=True) as folder:
            for path, is_folder, known in _everything(folder, survey):
                entry = self._saved.get(path)
                if entry is None or known is None or self._seen.get(path) != known or entry.kind == "folder":
                    entry = self._one(folder, path, is_folder, put)
                if entry is not None:
                    saved[path] = entry
        self._saved, self._folders = saved, survey.folders
        self._seen = _settled(survey, began)
        return list(saved.values())

    def _one(self, folder: Folder, path: str, is_folder: bool, put: Put) -> SavedFile | None:
        name = os.fsencode(path)
        if is_folder:
            return SavedFile(self.mount, name, "folder") if len(name) <= MAX_PATH else None
        with contextlib.suppress(FileNotFoundError, PathRefused):
            target = folder.link_target(path)
            if target is not None:
                return SavedFile(self.mount, name, "link", target=os.fsencode(target))
            with folder.open(path) as file:
                modified = os.fstat(file.fileno()).st_mtime_ns
                pieces = tuple(put(piece) for piece in iter(lambda: file.read(PIECE), b""))
                return SavedFile(self.mount, name, "file", file.tell(), modified, chunks=pieces)
        return None

    def differs(self) -> bool:
        """Whether the folder is not as it was saved, as far as a look at it tells."""
        if self._looks_the_same():
            return False
        began = time.time_ns()
        survey = workspace_survey.survey(self._folder)
        if not survey.complete or survey.files != self._seen or survey.folders != self._folders:
            return True
        self._stamps = self._stamped(survey, began)
        return False

    def _looks_the_same(self) -> bool:
        """Whether neither folders nor files have other times than when nothing differed. For few: no folder is read."""
        return bool(self._stamps) and all(_stamp(path) == stamp for path, stamp in self._stamps.items())

    def _stamped(self, survey: Survey, began: int) -> dict[str, Identity]:
        """What `_looks_the_same` goes by; nothing if that is much, or may change again without its times showing."""
        if len(survey.files) + len(survey.folders) > _FEW:
            return {}
        paths = [str(self._folder), *(f"{self._folder}/{path}" for path in (*survey.folders, *survey.files))]
        found = {path: stamp for path in paths if (stamp := _stamp(path)) is not None and stamp[3] < began - _TICK_NS}
        return found if len(found) == len(paths) else {}

    def forget(self) -> None:
        """Forget what was saved: it may no longer be stored."""
        self._stamps = {}
        self._seen, self._folders, self._saved = {}, None, {}

    def missing(self, wanted: list[SavedFile]) -> list[SavedFile]:
        """The files that `restore` would have to write."""
        now = workspace_survey.survey(self._folder).files
        return [f for f in wanted if f.kind == "file" and not self._is_there(os.fsdecode(f.path), f, now)]

    def restore(self, wanted: list[SavedFile], get: Get) -> None:
        """Make the folder what it was. Called while no guest has it open. Without room on the disk, nothing changes.

        ``get`` is called for the pieces in the order of `in_order`; not for those that are there.
        """
        began = time.time_ns()
        survey = workspace_survey.survey(self._folder)
        targets = {os.fsdecode(entry.path): entry for entry in wanted}
        self._check_room(targets, survey)
        with Folder(self._folder, backslashes=True) as folder, NewFiles() as files:
            for item in sorted(folder.items(), key=lambda i: i.path, reverse=True):  # what is inside goes first
                entry = targets.get(item.path)
                if entry is None or entry.kind != item.kind or item.kind == "link":
                    with contextlib.suppress(FileNotFoundError, PathRefused):  # deeper than any path we take
                        folder.remove(item.path, recursive=True)
            for path, entry in sorted(targets.items()):
                if entry.kind == "folder":
                    folder.make_folder(path)
                elif entry.kind == "link":
                    with contextlib.suppress(PathRefused):  # one that leads out was never followed, and is not made
                        folder.make_link(path, os.fsdecode(entry.target))
                elif not self._is_there(path, entry, survey.files):
                    files.write(folder.create(path), pieces(entry, get), entry.modified_ns)
        self._remember(targets, began)

    def _check_room(self, targets: dict[str, SavedFile], survey: Survey) -> None:
        """What goes makes room before the rest is written; what is replaced goes after that."""
        new = [f for path, f in targets.items() if f.kind == "file" and not self._is_there(path, f, survey.files)]
        freed = sum(size for path, size in survey.sizes.items() if path not in targets)
        _check_room(self._folder, new, freed)

    def _remember(self, saved: dict[str, SavedFile], began: int) -> None:
        """Remember that what is in the folder now is stored."""
        self._stamps = {}
        survey = workspace_survey.survey(self._folder)
        there = survey.files.keys() | survey.folders
        self._saved, self._folders = {path: f for path, f in saved.items() if path in there}, survey.folders
        self._seen = _settled(survey, began)

    def _is_there(self, path: str, entry: SavedFile, now: dict[str, Identity]) -> bool:
        before = self._saved.get(path)
        same = before is not None and before.chunks == entry.chunks and before.size == entry.size
        return same and path in now and self._seen.get(path) == now[path]


def lay_out(folder: Path, wanted: list[SavedFile], get: Get) -> None:
    """Put saved files into a new folder that nobody sees before it is complete, and that the caller makes durable.

    So each has its own name from the start, which is half the work of a file that appears whole.
    """
    targets = {os.fsdecode(entry.path): entry for entry in wanted}
    _check_room(folder, [entry for entry in targets.values() if entry.kind == "file"])
    with Folder(folder, backslashes=True) as top:
        for above, entries in itertools.groupby(sorted(targets.items()), lambda item: item[0].rpartition("/")[0]):
            if above:
                top.make_folder(above)
            with top.enter(above) if above else contextlib.nullcontext(top) as here:
                for path, entry in entries:
                    _lay(here, path.rpartition("/")[2], entry, get)


def _lay(folder: Folder, name: str, entry: SavedFile, get: Get) -> None:
    if entry.kind == "folder":
        folder.make_folder(name)
    elif entry.kind == "link":
        with contextlib.suppress(PathRefused):  # as in `SavedTree.restore`
            folder.make_link(name, os.fsdecode(entry.target))
    else:
        folder.fill(name, pieces(entry, get), entry.modified_ns)


def _check_room(folder: Path, new: list[SavedFile], freed: int = 0) -> None:
    disk = os.statvfs(folder)
    needed = sum(-(-entry.size // disk.f_frsize) for entry in new) * disk.f_frsize
    if needed > disk.f_bavail * disk.f_frsize + freed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _stamp(path: str) -> Identity | None:
    """What changes when a file does, or what is in a folder."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _settled(survey: Survey, began: int) -> dict[str, Identity | None]:
    """The files by which a later change can be told; None for those that may change without their times showing it."""
    return {path: known if known[3] < began - _TICK_NS else None for path, known in survey.files.items()}


def _everything(folder: Folder, survey: Survey) -> Iterator[tuple[str, bool, Identity | None]]:
    """Each path, whether it is a folder, and its identity if it is known."""
    if survey.complete:
        yield from ((path, True, None) for path in sorted(survey.folders))
        yield from ((path, False, known) for path, known in sorted(survey.files.items()))
    else:  # such as folders deeper than a survey goes
        yield from ((item.path, item.kind == "folder", survey.files.get(item.path)) for item in folder.items())


def in_order(wanted: Iterable[SavedFile]) -> Iterator[tuple[bytes, int]]:
    """The pieces of files, each with its length, in the order in which `SavedTree.restore` wants them."""
    for entry in sorted(wanted, key=lambda entry: os.fsdecode(entry.path)):
        for number, name in enumerate(entry.chunks):
            yield name, min(PIECE, entry.size - number * PIECE)


def pieces(entry: SavedFile, get: Get) -> Iterator[bytes]:
    """A saved file's content."""
    left = entry.size
    for name in entry.chunks:
        piece = get(name, min(PIECE, left))
        if len(piece) != min(PIECE, left):
            raise DamagedChunk(
                f"a part of {os.fsdecode(entry.path)!r} is shorter than it should be; use another snapshot"
            )
        left -= len(piece)
        yield piece
