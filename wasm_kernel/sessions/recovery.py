"""Restores single files from a session's newest snapshot; memory and all other files stay as they are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.errors import PathRefused, WasmKernelError
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.saved_tree import pieces
from wasm_kernel.host.files.workspace_survey import survey
from wasm_kernel.model.snapshots import SavedFile
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store
from wasm_kernel.sessions.snapshots import newest_snapshot, piece_of


@dataclass(frozen=True)
class Kept:
    """Which of some files and folders a snapshot can restore.

    Attributes:
        files: Those it can restore.
        lost: Paths of files that it does not have in their current version.
    """

    files: tuple[SavedFile, ...] = ()
    lost: tuple[str, ...] = ()


def kept(root: Path, session_id: str, paths: Sequence[str]) -> Kept:
    """Which of these files and folders, and their contents, the newest snapshot can restore."""
    saved: dict[str, SavedFile] = {}
    newest = newest_snapshot(root, session_id)
    if newest is not None:
        with contextlib.closing(snapshot_store(root)) as store, contextlib.suppress(WasmKernelError, OSError):
            manifest = read_snapshot(store, session_id, newest.snapshot_id)  # a damaged one has nothing
            saved = {os.fsdecode(f.path): f for f in manifest.files if f.mount == "app"}
    now = survey(root / session_id).files
    lost = [path for path in _below(now, paths) if not _is_same(saved.get(path), now[path])]
    gone = set(lost)
    return Kept(tuple(saved[path] for path in _below(saved, paths) if path not in gone), tuple(lost))


def bring_back(root: Path, session_id: str, files: Sequence[SavedFile]) -> list[str]:
    """Put files and folders back. Nothing is overwritten; returns the paths that are already taken."""
    taken = []
    with contextlib.closing(snapshot_store(root)) as store, Folder(root / session_id, backslashes=True) as folder:
        for file in sorted(files, key=lambda f: f.path):  # a folder before what is in it
            path = os.fsdecode(file.path)
            try:
                if file.kind == "folder":
                    folder.make_folder(path)
                elif file.kind == "link":
                    folder.make_link(path, os.fsdecode(file.target))
                else:
                    content = pieces(file, lambda name, length: piece_of(store, name, length))
                    folder.write(path, content, overwrite=False, modified_ns=file.modified_ns)
            except (FileExistsError, NotADirectoryError, PathRefused):
                taken.append(path)
    return taken


def _below(found: dict[str, SavedFile] | dict[str, tuple[int, int, int, int]], paths: Sequence[str]) -> Iterator[str]:
    wanted, folders = set(paths), tuple(f"{path}/" for path in paths)
    return (path for path in sorted(found) if path in wanted or path.startswith(folders))


def _is_same(saved: SavedFile | None, now: tuple[int, int, int, int]) -> bool:
    _, size, modified_ns, _ = now
    if saved is None or saved.kind == "folder":
        return False
    return saved.kind == "link" or (saved.size, saved.modified_ns) == (size, modified_ns)
