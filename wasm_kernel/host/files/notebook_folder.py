"""Files beside the notebook, for its session to have: looked at and copied by handle, and never through a link.

Names that begin with a dot (.env, .git, .ssh) are the person's own business and do not exist here, as they do not at
/data (`interposer.wat`). Nobody but the person can change the folder, so a link is not a race, but what somebody else
may have put there: it could lead to hidden names, or outside.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import BLOCK, Folder
from wasm_kernel.host.files.folder_walk import MAX_PATH, Item, descend, kind_of, open_file, walk
from wasm_kernel.model.names import is_kept_back

_WILD = frozenset("*?[")


def look(folder: Path, path: str) -> Item | None:
    """A file or folder that a session could have; None if there is none of that path, or it is kept back."""
    try:
        with _opened(folder) as root:
            return _item(root, _parts(path))
    except (OSError, PathRefused):
        return None


def matching(folder: Path, path: str) -> list[str]:
    """The paths that a path with wildcards in its last name stands for; itself, if it has none or is there."""
    above, _, name = path.rstrip("/").rpartition("/")
    if not _WILD & set(name) or look(folder, path) is not None:
        return [path]
    with _opened(folder) as root, _entered(root, _parts(above)) as here:
        there = os.listdir(here)  # noqa: PTH208 - of a handle
        names = sorted(n for n in there if fnmatch.fnmatchcase(n, name) and not is_kept_back(n))
    if not names:
        raise PathRefused(f"nothing beside the notebook matches {path!r}")
    return [f"{above}/{n}" if above else n for n in names]


def survey(folder: Path, paths: Sequence[str], most: int) -> list[Item]:
    """Every file and folder at these paths and below them. Raises `PathRefused` beyond ``most`` of them."""
    found: dict[str, Item] = {}
    with _opened(folder) as root:
        for path in paths:
            for item, _, _ in _below(root, path):
                found[item.path] = item
                if len(found) > most:
                    raise PathRefused(
                        f"{path!r} holds more than {most:,} files and folders, which is this session's limit; raise "
                        "that with %session limits files=…, or leave them where they are: %session mount"
                    )
    return list(found.values())


def copy(folder: Path, paths: Sequence[str], target: Path, room: int, on_bytes: Callable[[int], None]) -> None:
    """Copy these, and what is below them, to the same paths in a session's folder. Each file is there whole or not.

    ``room``: bytes that may be written, whatever the files have grown to. ``on_bytes`` is called with each piece's
    size; what it raises ends the copy.
    """
    left = [room]

    def pieces(file: Iterable[bytes], path: str) -> Iterator[bytes]:
        for piece in file:
            left[0] -= len(piece)
            if left[0] < 0:
                raise PathRefused(f"there is no room for {path!r}: it is larger than it was a moment ago")
            on_bytes(len(piece))
            yield piece

    with _opened(folder) as root, Folder(target) as session:
        for path in paths:
            for item, above, parts in _below(root, path):
                if item.kind == "folder":
                    session.make_folder(item.path)
                elif (file := open_file(above, parts)) is not None:
                    with file:
                        blocks = pieces(iter(lambda file=file: file.read(BLOCK), b""), item.path)  # type: ignore[misc]
                        session.write(item.path, blocks, modified_ns=item.modified_ns)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _entered(root: int, parts: list[str]) -> Iterator[int]:
    handle = descend(root, parts)
    try:
        yield handle
    finally:
        os.close(handle)


def _parts(path: str) -> list[str]:
    """A path's names, checked. None for the folder itself."""
    if "\0" in path or len(os.fsencode(path)) > MAX_PATH:
        raise PathRefused(f"{path[:80]!r} is not a path")
    if path.startswith("/"):
        raise PathRefused(f"{path!r} is not beside the notebook: give a path relative to its folder")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(f"{path!r} is not beside the notebook: it must not go up with ..")
    for part in parts:
        if is_kept_back(part):
            raise PathRefused(f"{path!r}: names that begin with a dot are not given to sessions")
    return parts


def _item(root: int, parts: list[str]) -> Item:
    """What is there. Raises `OSError`, and `PathRefused` for what is neither a file nor a folder."""
    path = "/".join(parts)
    if not parts:
        return Item("", "folder", 0, os.fstat(root).st_mtime_ns)
    with _entered(root, parts[:-1]) as above:
        info = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
    kind = kind_of(info.st_mode)
    if kind not in ("file", "folder"):
        what = "a link, and links are not followed: name what it leads to" if stat.S_ISLNK(info.st_mode) else "no file"
        raise PathRefused(f"{path!r} is {what}")
    return Item(path, kind, info.st_size if kind == "file" else 0, info.st_mtime_ns)


def _below(root: int, path: str) -> Iterator[tuple[Item, int, list[str]]]:
    """What is at a path, and all that is below it, with a handle of some folder above each and the way from there."""
    parts = _parts(path)
    try:
        top = _item(root, parts)
        if parts:
            yield top, root, parts
        if top.kind != "folder":
            return
        with (
            _entered(root, parts) as here,
            closing(walk(here, recursive=True, strict=False, hidden=is_kept_back)) as found,
        ):
            prefix = f"{top.path}/" if parts else ""
            for item, above, way in found:
                if item.kind in ("file", "folder"):
                    yield Item(prefix + item.path, item.kind, item.size, item.modified_ns), above, way
    except FileNotFoundError:
        raise PathRefused(f"there is no {path!r} beside the notebook") from None
    except OSError as e:
        if e.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise PathRefused(f"{path!r} leads through something that is no folder, such as a link") from None
