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
from pathlib import Path
from typing import IO

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.durable import write_all
from wasm_kernel.host.files import delete_tree
from wasm_kernel.host.files.folder_walk import MAX_PATH, OPEN_FILE, OPEN_FOLDER, Item, kind_of, open_file, walk
from wasm_kernel.host.files.new_file import BLOCK, NewFile, blocks_of
from wasm_kernel.model.names import HIDDEN, is_hidden

_MAX_LINKS = 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

__all__ = ["BLOCK", "Folder", "Item", "NewFile", "blocks_of", "components"]


def components(path: str | os.PathLike[str], *, backslashes: bool = False) -> list[str]:
    """A relative path's parts, checked; `PathRefused` says what is wrong with it.

    A path with a backslash is most likely a mistake, and refused; but a guest can make such names.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise PathRefused(f"path is {text!r}; it must be text")
    if not text or len(text.encode("utf-8", "surrogateescape")) > MAX_PATH:
        raise PathRefused(f"path is {text[:80]!r}; it must have 1 to {MAX_PATH} bytes")
    if "\0" in text:
        raise PathRefused(f"path is {text!r}; it must not contain NUL")
    if text.startswith("/") or ("\\" in text and not backslashes) or Path(text).is_absolute():
        raise PathRefused(f"path is {text!r}; it must be relative to the workspace, with / between folders")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise PathRefused(f"path is {text!r}; it must not go up with ..")
        if is_hidden(part):
            raise PathRefused(f"path is {text!r}; names that begin with {' or '.join(HIDDEN)} are reserved")
    return parts


class Folder:
    """The files below one folder. Holds a handle: use it as a context manager.

    Attributes:
        made: How many folders were made in it so far.
    """

    def __init__(self, root: Path | int, *, backslashes: bool = False) -> None:
        """``root`` may be a handle, which this object then owns."""
        self._root = root if isinstance(root, int) else os.open(root, OPEN_FOLDER)
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
                    deeper = os.open(name, OPEN_FOLDER, dir_fd=here)
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
        """Where a link points, if it is one; refused if that could be outside."""
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
                    handle = os.open(name, OPEN_FILE, dir_fd=folder)
                except OSError as e:
                    if e.errno == errno.ENXIO:
                        raise PathRefused(f"{os.fspath(path)!r} is not an ordinary file") from None  # a socket
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

    def look(self, path: str | os.PathLike[str]) -> Item:
        """What a path leads to, links followed: a file, a folder, something else; a link if it leads nowhere."""
        try:
            try:
                with self.enter(path) as inner:
                    info = os.fstat(inner._root)
            except NotADirectoryError:
                with self.open(path) as file:
                    info = os.fstat(file.fileno())
        except (OSError, PathRefused):
            with self._parent(path) as (folder, name):
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = kind_of(info.st_mode)
        return Item(os.fspath(path), kind, 0 if kind == "folder" else info.st_size, info.st_mtime_ns)

    def items(self, *, recursive: bool = True) -> Iterator[Item]:
        """Everything below, sorted within each folder; links are listed, not followed.

        What cannot be looked at is left out, as is what has a path longer than we take.
        """
        for item, _, _ in walk(self._root, recursive=recursive, strict=False):
            yield item

    def contents(self) -> Iterator[tuple[Item, IO[bytes] | None]]:
        """Every folder, and every ordinary file, open for reading, in the same order.

        Raises `OSError` rather than leave out something that is there.
        """
        for item, above, parts in walk(self._root, recursive=True, strict=True):
            if item.kind == "folder":
                yield item, None
            elif item.kind == "file" and (file := open_file(above, parts)) is not None:
                with file:
                    yield item, file

    # ---- changing

    def write(
        self,
        path: str | os.PathLike[str],
        blocks: Iterable[bytes],
        *,
        overwrite: bool = True,
        modified_ns: int | None = None,
        sync: bool = True,
    ) -> int:
        """Put a file there whole or not at all, folders included; the bytes written.

        Without ``sync`` a power cut can leave it without its bytes, until the caller makes it durable.
        """
        with self.create(path, overwrite=overwrite) as new:
            for block in blocks:
                new.write(block)
            new.finish(modified_ns, sync=sync)
            return new.size

    def create(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> NewFile:
        """A file to be written bit by bit, folders included. It gets its name when it is finished."""
        made = self.made
        with self._parent(path, create=True) as (folder, name):
            info = _stat(name, folder)
            if info is not None and not stat.S_ISREG(info.st_mode):
                raise PathRefused(
                    f"{os.fspath(path)!r} already exists as a {kind_of(info.st_mode)}; choose another name"
                )
            if info is not None and not overwrite:
                raise FileExistsError(errno.EEXIST, "there is already a file of that name", os.fspath(path))
            return NewFile(os.dup(folder), name, overwrite, in_new_folder=self.made > made)

    def fill(self, path: str | os.PathLike[str], blocks: Iterable[bytes], modified_ns: int) -> None:
        """Write a new file under its own name from the start: for a folder that nobody sees before it is complete."""
        with self._parent(path) as (folder, name):
            handle = os.open(name, _NEW, 0o666, dir_fd=folder)
            try:
                for block in blocks:
                    write_all(handle, block)
                os.utime(handle, ns=(modified_ns, modified_ns))
            finally:
                os.close(handle)

    def move(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Give something another name or folder; never one that is taken."""
        with self._parent(path) as (folder, name), self._parent(target) as (other, new_name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if _stat(new_name, other) is not None:
                raise FileExistsError(errno.EEXIST, "there is already something of that name", os.fspath(target))
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
                delete_tree.remove(name, parent=folder)
            else:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as e:
                    if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        text = "the folder is not empty; ask for recursive=True"
                        raise OSError(errno.ENOTEMPTY, text, os.fspath(path)) from None
                    raise

    def link_target(self, path: str | os.PathLike[str]) -> str | None:
        """Where a link points; None: it is no link."""
        with self._parent(path) as (folder, name):
            try:
                return os.readlink(name, dir_fd=folder)
            except OSError as e:
                if e.errno != errno.EINVAL:
                    raise
                return None

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


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
