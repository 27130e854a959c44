"""Files below a folder the guest can change at any moment: opened by handle, one component at a time.

A path is never resolved and then opened; each component is opened in the folder before it with O_NOFOLLOW. A link
is read and followed by hand, and only to a place below the folder it stands in, which is also all that a guest can
make. So whatever the guest swaps meanwhile, an open handle refers to something below the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from wasm_kernel.host import trees
from wasm_kernel.host.durable import PendingFile
from wasm_kernel.model.names import HIDDEN, METADATA_NAME, is_hidden

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not hold us up
_MAX_LINKS = 16
_MAX_PATH = 4096
_STRIDE = 50  # a walk holds a handle of every so many folders above it: few, however deep it is
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # it was there a moment ago; the guest took or replaced it
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


def components(path: str | os.PathLike[str], *, backslashes: bool = False) -> list[str]:
    """A relative path's parts, checked; `PathRefused` says what is wrong with it.

    A path with a backslash is most likely a mistake, and refused; but a guest can make such names.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise PathRefused(f"path is {text!r}; it must be text")
    if not text or len(text.encode("utf-8", "surrogateescape")) > _MAX_PATH:
        raise PathRefused(f"path is {text[:80]!r}; it must have 1 to {_MAX_PATH} bytes")
    if "\0" in text:
        raise PathRefused(f"path is {text!r}; it must not contain NUL")
    if text.startswith("/") or ("\\" in text and not backslashes) or Path(text).is_absolute():
        raise PathRefused(f"path is {text!r}; it must be relative to the workspace, with / between folders")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise PathRefused(f"path is {text!r}; it must not go up with ..")
        if is_hidden(part):
            raise PathRefused(f"path is {text!r}; names that begin with {' or '.join(HIDDEN)} are not for use")
    return parts


class Folder:
    """The files below one folder. Holds a handle: use it as a context manager.

    Attributes:
        made: How many folders were made in it so far.
    """

    def __init__(self, root: Path | int, *, backslashes: bool = False) -> None:
        """``root`` may be a handle, which then belongs to this."""
        self._root = root if isinstance(root, int) else os.open(root, _FOLDER)
        self._backslashes = backslashes
        self.made = 0

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._root)

    def _parent(
        self, path: str | os.PathLike[str], *, create: bool = False
    ) -> contextlib.AbstractContextManager[tuple[int, str]]:
        return self._parent_of(self._parts(path), create=create)

    def _parts(self, path: str | os.PathLike[str]) -> list[str]:
        parts = components(path, backslashes=self._backslashes)
        if not parts:
            raise PathRefused(f"path is {os.fspath(path)!r}; it must name something in the workspace")
        return parts

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
                try:
                    deeper = os.open(name, _FOLDER, dir_fd=here)
                except FileNotFoundError:
                    if not create:
                        raise
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                        self.made += 1
                    parts.insert(0, name)
                    continue
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

    def enter(self, path: str | os.PathLike[str]) -> Folder:
        """A folder below, with a handle of its own."""
        with self._parent_of([*self._parts(path), "."]) as (folder, _):
            return Folder(os.dup(folder), backslashes=self._backslashes)

    # ---- reading

    def open(self, path: str | os.PathLike[str]) -> IO[bytes]:
        """An ordinary file, open for reading."""
        parts = self._parts(path)
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
                raise PathRefused(f"{os.fspath(path)!r} is {what}")
            os.set_blocking(handle, True)
            return os.fdopen(handle, "rb")
        raise PathRefused(f"path is {os.fspath(path)!r}; it goes through too many links")

    def items(self, *, recursive: bool = True) -> Iterator[Item]:
        """Everything below, sorted within each folder; links are listed, not followed.

        Left out is what cannot be looked at, and what no path we take reaches.
        """
        for item, _, _ in self._walk(recursive=recursive, strict=False):
            yield item

    def contents(self) -> Iterator[tuple[Item, IO[bytes] | None]]:
        """Every folder, and every ordinary file, open for reading; the same order.

        An `OSError` tells of what would have to be left out though it is there.
        """
        for item, above, parts in self._walk(recursive=True, strict=True):
            if item.kind == "folder":
                yield item, None
            elif item.kind == "file" and (file := _open_file(above, parts)) is not None:
                with file:
                    yield item, file

    def _walk(self, *, recursive: bool, strict: bool) -> Iterator[tuple[Item, int, list[str]]]:
        """What is below, each with a handle of some folder above it and the way from there."""
        anchors = [(os.dup(self._root), 0, 0)]  # a handle, how deep it is, and how much waited when we got there
        try:
            waiting = _entries(anchors[0][0], "", strict)
            while waiting:
                item = waiting.pop()
                while len(waiting) < anchors[-1][2]:
                    os.close(anchors.pop()[0])
                above, depth, _ = anchors[-1]
                parts = item.path.split("/")[depth:]
                too_long = len(os.fsencode(item.path)) > _MAX_PATH
                if too_long and strict and item.kind in ("file", "folder"):
                    raise OSError(errno.ENAMETOOLONG, f"a path has more than {_MAX_PATH} bytes", f"{item.path[:80]}...")
                yield item, above, parts
                if item.kind != "folder" or not recursive or too_long:
                    continue
                try:
                    handle = _descend(above, parts)
                except OSError as e:
                    if strict and e.errno not in _GONE:
                        raise
                    continue
                try:
                    found = _entries(handle, f"{item.path}/", strict)
                    if len(parts) >= _STRIDE:
                        anchors.append((os.dup(handle), depth + len(parts), len(waiting)))
                finally:
                    os.close(handle)
                waiting += found
        finally:
            for handle, _, _ in anchors:
                os.close(handle)

    # ---- changing

    def write(
        self,
        path: str | os.PathLike[str],
        blocks: Iterable[bytes],
        *,
        overwrite: bool = True,
        modified_ns: int | None = None,
    ) -> int:
        """Put a file there whole or not at all, folders included; the bytes written."""
        with self.create(path, overwrite=overwrite) as new:
            for block in blocks:
                new.write(block)
            new.finish(modified_ns)
            return new.size

    def create(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> NewFile:
        """A file to be written bit by bit, folders included. It gets its name when it is finished."""
        with self._parent(path, create=True) as (folder, name):
            info = _stat(name, folder)
            if info is not None and not stat.S_ISREG(info.st_mode):
                raise PathRefused(f"{os.fspath(path)!r} is there already, a {_kind(info.st_mode)}; choose another name")
            if info is not None and not overwrite:
                raise FileExistsError(errno.EEXIST, "there is such a file already", os.fspath(path))
            return NewFile(os.dup(folder), name, overwrite)

    def move(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Give something another name or folder; never one that is taken."""
        with self._parent(path) as (folder, name), self._parent(target) as (other, new_name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if _stat(new_name, other) is not None:
                raise FileExistsError(errno.EEXIST, "there is something of that name already", os.fspath(target))
            if stat.S_ISDIR(info.st_mode):  # at worst it takes the place of an empty folder made just now
                os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=other)
            else:
                os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)
                os.unlink(name, dir_fd=folder)

    def remove(self, path: str | os.PathLike[str], *, recursive: bool = False) -> None:
        """Delete a file, a link (not what it points to), or a folder."""
        with self._parent(path) as (folder, name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                trees.remove(name, parent=folder)
            else:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as e:
                    if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        text = "the folder is not empty; ask for recursive=True"
                        raise OSError(errno.ENOTEMPTY, text, os.fspath(path)) from None
                    raise

    def link_target(self, path: str | os.PathLike[str]) -> str:
        """Where a link points."""
        with self._parent(path) as (folder, name):
            return os.readlink(name, dir_fd=folder)

    def make_link(self, path: str | os.PathLike[str], target: str) -> None:
        """Make a link to a place below the folder it stands in, which is all that a guest can make."""
        components(target, backslashes=self._backslashes)
        with self._parent(path, create=True) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    def make_folder(self, path: str | os.PathLike[str], *, exist_ok: bool = True) -> None:
        """Make a folder, and those above it."""
        if exist_ok:
            with self._parent_of([*self._parts(path), "."], create=True):
                return
        with self._parent(path, create=True) as (folder, name):
            os.mkdir(name, dir_fd=folder)
            self.made += 1


class NewFile:
    """A file on its way: under a name that the guest cannot see, until `finish`. A context manager takes it away unless
    it was finished.

    Attributes:
        size: The bytes written so far.
    """

    def __init__(self, folder: int, name: str, overwrite: bool) -> None:
        self._folder, self._name, self._overwrite = folder, name, overwrite
        self.size = 0
        try:
            self._pending = PendingFile(TEMPORARY, 0o666, folder=folder)
        except BaseException:
            os.close(folder)
            raise
        self._file: IO[bytes] | None = os.fdopen(self._pending.handle, "wb", closefd=False)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.discard()

    def write(self, block: bytes | bytearray) -> None:
        """Add to it."""
        if self._file is None:
            raise ValueError("the file is finished or discarded")
        self.size += self._file.write(block)

    def finish(self, modified_ns: int | None = None) -> os.stat_result:
        """Make it last, and visible; what it is then."""
        if self._file is None:
            raise ValueError("the file is finished or discarded")
        self._file.flush()
        self._pending.sync()
        if modified_ns is not None:
            os.utime(self._pending.handle, ns=(modified_ns, modified_ns))
        # The folder is not synced: there may be thousands of files, and a power cut takes away whole ones.
        self._pending.publish(self._name, folder=self._folder, exclusive=not self._overwrite)
        info = os.fstat(self._pending.handle)
        self.discard()
        return info

    def discard(self) -> None:
        """Take it away, unless it was finished."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            with contextlib.suppress(OSError):  # what a full disk did not take
                file.close()
            with contextlib.suppress(OSError):
                self._pending.discard()
        finally:
            os.close(self._folder)


def _entries(folder: int, prefix: str, strict: bool) -> list[Item]:
    """What is in a folder, the last name first."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError as e:
                if strict and e.errno not in _GONE:
                    raise
                continue
            kind = _kind(info.st_mode)
            found.append(Item(prefix + entry.name, kind, 0 if kind == "folder" else info.st_size, info.st_mtime_ns))
    return sorted(found, key=lambda item: item.path, reverse=True)


def _descend(folder: int, parts: list[str]) -> int:
    """A handle of a folder further down; no link is followed."""
    here = os.dup(folder)
    for name in parts:
        try:
            deeper = os.open(name, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = deeper
    return here


def _open_file(folder: int, parts: list[str]) -> IO[bytes] | None:
    """A file further down, if it still is one."""
    try:
        parent = _descend(folder, parts[:-1])
        try:
            handle = os.open(parts[-1], _FILE, dir_fd=parent)
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
