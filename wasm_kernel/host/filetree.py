"""A folder's files for snapshots: saved piece by piece, and put back so that the folder is as it was."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from wasm_kernel.host import workspace
from wasm_kernel.host.folder import Folder, Item, PathRefused
from wasm_kernel.model.snapshots import SavedFile

PIECE = 1 << 20
Put = Callable[[bytes], bytes]  # stores a piece; its name
Get = Callable[[bytes, int], bytes]  # a piece by its name, of at most this length
_Identity = tuple[int, int, int, int]


class SavedTree:
    """One folder, and what was last saved of it: a file that did not change since is not read again."""

    def __init__(self, mount: str, folder: Path) -> None:
        self._mount, self._folder = mount, folder
        self._seen: dict[str, _Identity] = {}
        self._entries = -1
        self._saved: dict[str, SavedFile] = {}

    def save(self, put: Put) -> list[SavedFile]:
        """Everything in the folder. Called while nobody changes it."""
        survey = workspace.survey(self._folder)
        if survey.files == self._seen and survey.entries == self._entries:
            return list(self._saved.values())
        saved: dict[str, SavedFile] = {}
        with Folder(self._folder, backslashes=True) as folder:
            for item in folder.items():
                entry = self._one(folder, item, survey.files, put)
                if entry is not None:
                    saved[item.path] = entry
        self._saved, self._seen, self._entries = saved, survey.files, survey.entries
        return list(saved.values())

    def _one(self, folder: Folder, item: Item, now: dict[str, _Identity], put: Put) -> SavedFile | None:
        path = os.fsencode(item.path)
        if item.kind == "folder":
            return SavedFile(self._mount, path, "folder")
        with contextlib.suppress(FileNotFoundError, PathRefused):
            if item.kind == "link":
                return SavedFile(self._mount, path, "link", target=os.fsencode(folder.link_target(item.path)))
            before = self._saved.get(item.path)
            if before is not None and before.kind == "file" and self._seen.get(item.path) == now.get(item.path):
                return before
            if item.kind == "file":
                with folder.open(item.path) as file:
                    pieces = tuple(put(piece) for piece in iter(lambda: file.read(PIECE), b""))
                    size = file.tell()
                return SavedFile(self._mount, path, "file", size, item.modified_ns, chunks=pieces)
        return None

    def restore(self, wanted: list[SavedFile], get: Get) -> None:
        """Make the folder what it was. Called while no guest has it open."""
        survey = workspace.survey(self._folder)
        targets = {os.fsdecode(entry.path): entry for entry in wanted}
        with Folder(self._folder, backslashes=True) as folder:
            for item in sorted(folder.items(), key=lambda i: i.path, reverse=True):  # what is inside goes first
                entry = targets.get(item.path)
                if entry is None or entry.kind != item.kind or item.kind == "link":
                    with contextlib.suppress(FileNotFoundError):
                        folder.remove(item.path, recursive=True)
            for path, entry in sorted(targets.items()):
                if entry.kind == "folder":
                    folder.make_folder(path)
                elif entry.kind == "link":
                    with contextlib.suppress(PathRefused):  # one that leads out was never followed, and is not made
                        folder.make_link(path, os.fsdecode(entry.target))
                elif not self._is_there(path, entry, survey.files):
                    folder.write(path, _pieces(entry, get), modified_ns=entry.modified_ns)
        self._seen, self._entries, self._saved = {}, -1, {}

    def _is_there(self, path: str, entry: SavedFile, now: dict[str, _Identity]) -> bool:
        before = self._saved.get(path)
        same = before is not None and before.chunks == entry.chunks and before.size == entry.size
        return same and path in now and self._seen.get(path) == now[path]


def _pieces(entry: SavedFile, get: Get) -> Iterator[bytes]:
    left = entry.size
    for name in entry.chunks:
        piece = get(name, min(PIECE, left))
        left -= len(piece)
        yield piece
