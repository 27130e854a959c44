"""Walking through a tree that the guest can change at any moment, however deep it is, with few handles."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import IO

from wasm_kernel.model.names import is_hidden

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a FIFO must not block
MAX_PATH = 4096  # bytes
_STRIDE = 50  # of so many folders above it a walk holds one handle: few, however deep it is
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # it was there a moment ago; the guest took or replaced it


@dataclass(frozen=True)
class Item:
    """Something in the folder. ``kind`` is file, folder, link or other."""

    path: str
    kind: str
    size: int
    modified_ns: int


def walk(
    root: int, *, recursive: bool, strict: bool, hidden: Callable[[str], bool] = is_hidden
) -> Generator[tuple[Item, int, list[str]], None, None]:
    """What is below a folder, sorted within each, with a handle of some folder above it and the way from there.

    ``strict``: raise `OSError` rather than leave out something that is there. ``hidden``: names to leave out.
    """
    anchors = [(os.dup(root), 0, 0)]  # a handle, how deep it is, and how much waited when we got there
    try:
        waiting = _entries(anchors[0][0], "", strict, hidden)
        while waiting:
            item = waiting.pop()
            while len(waiting) < anchors[-1][2]:
                os.close(anchors.pop()[0])
            above, depth, _ = anchors[-1]
            parts = item.path.split("/")[depth:]
            too_long = len(os.fsencode(item.path)) > MAX_PATH
            if too_long and strict and item.kind in ("file", "folder"):
                raise OSError(errno.ENAMETOOLONG, f"a path has more than {MAX_PATH} bytes", f"{item.path[:80]}...")
            yield item, above, parts
            if item.kind != "folder" or not recursive or too_long:
                continue
            try:
                handle = descend(above, parts)
            except OSError as e:
                if strict and e.errno not in _GONE:
                    raise
                continue
            try:
                found = _entries(handle, f"{item.path}/", strict, hidden)
                if len(parts) >= _STRIDE:
                    anchors.append((os.dup(handle), depth + len(parts), len(waiting)))
            finally:
                os.close(handle)
            waiting += found
    finally:
        for handle, _, _ in anchors:
            os.close(handle)


def _entries(folder: int, prefix: str, strict: bool, hidden: Callable[[str], bool]) -> list[Item]:
    """What is in a folder, the last name first."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if hidden(entry.name):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError as e:
                if strict and e.errno not in _GONE:
                    raise
                continue
            kind = kind_of(info.st_mode)
            found.append(Item(prefix + entry.name, kind, 0 if kind == "folder" else info.st_size, info.st_mtime_ns))
    return sorted(found, key=lambda item: item.path, reverse=True)


def descend(folder: int, parts: list[str]) -> int:
    """A handle of a folder further down; no link is followed."""
    here = os.dup(folder)
    for name in parts:
        try:
            deeper = os.open(name, OPEN_FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = deeper
    return here


def open_file(folder: int, parts: list[str]) -> IO[bytes] | None:
    """A file further down, if it still is one."""
    try:
        parent = descend(folder, parts[:-1])
        try:
            handle = os.open(parts[-1], OPEN_FILE, dir_fd=parent)
        finally:
            os.close(parent)
    except OSError as e:
        if e.errno in _GONE:
            return None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    os.set_blocking(handle, True)
    return os.fdopen(handle, "rb")


def kind_of(mode: int) -> str:
    """What a file's mode says it is, in the words of `Item`."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
