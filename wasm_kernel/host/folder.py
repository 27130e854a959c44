"""Files below a folder the guest can change at any moment: opened by handle, one component at a time.

A path is never resolved and then opened; each component is opened in the folder before it with O_NOFOLLOW. A link
is read and followed by hand, and only to a place below the folder it stands in, which is also all that a guest can
make. So whatever the guest swaps meanwhile, an open handle refers to something below the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from wasm_kernel.host import trees
from wasm_kernel.host.workspace import METADATA_NAME

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not hold us up
_MAX_LINKS = 16
_MAX_PATH = 4096
BLOCK = 1 << 20
TEMPORARY = f"{METADATA_NAME}.upload-"  # the guest cannot see such a name, in any folder


class PathRefused(ValueError):
    """A path that the host does not touch: it leaves the workspace, or is not a file of the user's."""


@dataclass(frozen=True)
class Item:
    """Something in the folder. ``kind`` is file, folder, link or other."""

    path: str
    kind: str
    size: int
    modified_ns: int


def components(path: str | os.PathLike[str]) -> list[str]:
    """A relative path's parts, checked; `PathRefused` says what is wrong with it."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise PathRefused(f"path is {text!r}; it must be text")
    if not text or len(text.encode("utf-8", "surrogateescape")) > _MAX_PATH:
        raise PathRefused(f"path is {text[:80]!r}; it must have 1 to {_MAX_PATH} bytes")
    if "\0" in text:
        raise PathRefused(f"path is {text!r}; it must not contain NUL")
    if text.startswith("/") or "\\" in text or Path(text).is_absolute():
        raise PathRefused(f"path is {text!r}; it must be relative to the workspace, with / between folders")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise PathRefused(f"path is {text!r}; it must not go up with ..")
        if part.lower().startswith(METADATA_NAME):
            raise PathRefused(f"path is {text!r}; names that begin with {METADATA_NAME} are not for use")
    return parts


class Folder:
    """The files below one folder. Holds a handle: use it as a context manager."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _FOLDER)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._root)

    def _parent(
        self, path: str | os.PathLike[str], *, create: bool = False
    ) -> contextlib.AbstractContextManager[tuple[int, str]]:
        parts = components(path)
        if not parts:
            raise PathRefused(f"path is {os.fspath(path)!r}; it must name something in the workspace")
        return self._parent_of(parts, create=create)

    @contextlib.contextmanager
    def _parent_of(self, parts: list[str], *, create: bool = False) -> Iterator[tuple[int, str]]:
        """A handle of the folder that holds the last component, and that component, links followed."""
        path = "/".join(parts)
        parts = list(parts)
        here = os.dup(self._root)
        links = 0
        try:
            while len(parts) > 1:
                name = parts.pop(0)
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                try:
                    deeper = os.open(name, _FOLDER, dir_fd=here)
                except OSError as e:
                    target = self._link(here, name) if e.errno in (errno.ELOOP, errno.ENOTDIR) else None
                    if target is None:
                        raise
                    links += 1
                    if links > _MAX_LINKS:
                        raise PathRefused(f"path is {path!r}; it goes through too many links") from None
                    parts[:0] = target
                    continue
                os.close(here)
                here = deeper
            yield here, parts[0]
        finally:
            os.close(here)

    @staticmethod
    def _link(folder: int, name: str) -> list[str] | None:
        """Where a link points, if it is one; refused if that may be outside."""
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError:
            return None
        try:
            return components(target)
        except PathRefused:
            raise PathRefused(f"{name!r} is a link to {target!r}, which may leave the workspace") from None

    # ---- reading

    def open(self, path: str | os.PathLike[str]) -> IO[bytes]:
        """An ordinary file, open for reading."""
        parts = components(path)
        if not parts:
            raise PathRefused(f"path is {os.fspath(path)!r}; it must name something in the workspace")
        return self._open(parts)

    def open_item(self, item: Item) -> IO[bytes]:
        """A file that was listed, whatever characters its name has."""
        return self._open(item.path.split("/"))

    def _open(self, parts: list[str]) -> IO[bytes]:
        path = "/".join(parts)
        for _ in range(_MAX_LINKS):
            with self._parent_of(parts) as (folder, name):
                try:
                    handle = os.open(name, _FILE, dir_fd=folder)
                except OSError as e:
                    target = self._link(folder, name) if e.errno == errno.ELOOP else None
                    if target is None:
                        raise
                    parts = [*parts[:-1], *target]
                    continue
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                os.close(handle)
                what = "a folder" if stat.S_ISDIR(info.st_mode) else "not an ordinary file"
                raise PathRefused(f"{path!r} is {what}")
            os.set_blocking(handle, True)
            return os.fdopen(handle, "rb")
        raise PathRefused(f"path is {path!r}; it goes through too many links")

    def items(self, *, recursive: bool = True) -> Iterator[Item]:
        """Everything below, sorted within each folder; links are listed, not followed."""
        yield from self._items(os.dup(self._root), "", recursive, 0)

    def _items(self, handle: int, prefix: str, recursive: bool, depth: int) -> Iterator[Item]:
        try:
            found = []
            with os.scandir(handle) as entries:
                for entry in entries:
                    if entry.name.lower().startswith(METADATA_NAME):
                        continue
                    with contextlib.suppress(OSError):
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
            for name, info in sorted(found, key=lambda pair: pair[0]):
                kind = _kind(info.st_mode)
                yield Item(prefix + name, kind, 0 if kind == "folder" else info.st_size, info.st_mtime_ns)
                if kind == "folder" and recursive and depth < 200:
                    try:
                        deeper = os.open(name, _FOLDER, dir_fd=handle)
                    except OSError:
                        continue
                    yield from self._items(deeper, f"{prefix}{name}/", recursive, depth + 1)
        finally:
            os.close(handle)

    # ---- changing

    def write(self, path: str | os.PathLike[str], blocks: Iterable[bytes], *, overwrite: bool = True) -> int:
        """Put a file there whole or not at all, folders included; the bytes written."""
        with self._parent(path, create=True) as (folder, name):
            info = _stat(name, folder)
            if info is not None and not stat.S_ISREG(info.st_mode):
                raise PathRefused(f"{os.fspath(path)!r} is there already, a {_kind(info.st_mode)}; choose another name")
            if info is not None and not overwrite:
                raise FileExistsError(errno.EEXIST, "there is such a file already", os.fspath(path))
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(temporary, flags, 0o666, dir_fd=folder)
            try:
                size = 0
                with os.fdopen(handle, "wb") as file:
                    for block in blocks:
                        size += file.write(block)
                    file.flush()
                    os.fsync(file.fileno())
                if overwrite:
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                else:  # a link fails where somebody else was faster; a rename would overwrite
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                    os.unlink(temporary, dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            return size

    def remove(self, path: str | os.PathLike[str], *, recursive: bool = False) -> None:
        """Delete a file, a link (not what it points to), or a folder."""
        with self._parent(path) as (folder, name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                trees.remove_at(name, folder)
            else:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as e:
                    if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        text = "the folder is not empty; ask for recursive=True"
                        raise OSError(errno.ENOTEMPTY, text, os.fspath(path)) from None
                    raise

    def make_folder(self, path: str | os.PathLike[str]) -> None:
        """Make a folder, and those above it."""
        with self._parent(f"{os.fspath(path)}/x", create=True):
            pass


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def blocks_of(data: Any) -> Iterator[bytes]:
    """Text, bytes, an open file or an iterable of bytes, as blocks of a bounded size."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        view = memoryview(data).cast("B")
        for start in range(0, len(view), BLOCK):
            yield bytes(view[start : start + BLOCK])
    elif hasattr(data, "read"):
        while block := data.read(BLOCK):
            yield block.encode() if isinstance(block, str) else block
    else:
        yield from data
