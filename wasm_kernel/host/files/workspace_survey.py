"""A workspace's files as the host sees them: by directory handle, never following a link the guest made.

The guest may rename and replace anything at any moment. So folders are opened one component at a time with
O_NOFOLLOW, and what is read is what the open handle refers to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model import names

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 200  # a deeper tree is not looked into: the survey is then incomplete

METADATA_NAME = names.METADATA_NAME
Identity = tuple[int, int, int, int]


@dataclass
class Survey:
    """What is in a folder at one moment.

    Attributes:
        files: Relative path to identity (inode, size, mtime, ctime) of everything that is not a folder.
        sizes: Relative path to disk space of everything: the larger of size and blocks.
        folders: Relative paths of all folders.
        complete: False when something could not be looked at: a tree too deep, no descriptor left. It is then not known
            how much room is left, and the guest gets none.
    """

    files: dict[str, Identity] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    complete: bool = True

    @property
    def entries(self) -> int:
        """How many files, folders and links there are."""
        return len(self.sizes)

    @property
    def used_bytes(self) -> int:
        """The disk space of all of them."""
        return sum(self.sizes.values())


def prepare(path: Path) -> Path:
    """Create a workspace folder if needed and return its absolute path."""
    path = Path(path)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ConfigurationError(
            f"workspace {str(path)!r} is not a folder; give a folder, or a path that does not exist"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ConfigurationError(
            f"workspace {str(path)!r} cannot be created: {e.strerror}; choose a folder you can write to"
        ) from e
    return path.absolute()


def survey(root: Path, is_hidden: Callable[[str], bool] = names.is_hidden, known: Survey | None = None) -> Survey:
    """Look at every file below ``root`` that is not hidden. Folders that vanish or change meanwhile are skipped.

    ``known``: an earlier survey. What has the same name and inode is taken from it, so that only the rest is looked at,
    which takes a fraction of the time; a file that was changed in place is then found as it was.
    """
    found = Survey()
    try:
        handle = os.open(root, _FOLDER)
    except FileNotFoundError:
        return found
    except OSError:
        found.complete = False
        return found
    _survey_folder(handle, "", found, 0, is_hidden, known or Survey())
    return found


def _survey_folder(
    handle: int, prefix: str, found: Survey, depth: int, is_hidden: Callable[[str], bool], known: Survey
) -> None:
    folders: list[str] = []
    files, sizes, before = found.files, found.sizes, known.files
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if is_hidden(name):
                    continue
                path = prefix + name
                was = before.get(path)
                if was is not None and was[0] == entry.inode() and not entry.is_dir(follow_symlinks=False):
                    files[path], sizes[path] = was, known.sizes[path]
                    continue
                try:
                    info = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError:
                    found.complete = False
                    continue
                sizes[path] = max(info.st_size, info.st_blocks * 512)
                if stat.S_ISDIR(info.st_mode):
                    folders.append(name)
                    found.folders.add(path)
                else:
                    files[path] = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        if depth >= _MAX_DEPTH and folders:
            found.complete = False
            return
        for name in folders:
            try:
                inner = os.open(name, _FOLDER, dir_fd=handle)
            except (FileNotFoundError, NotADirectoryError, PermissionError):  # the guest cannot get in there either
                continue
            except OSError:
                found.complete = False
                continue
            _survey_folder(inner, f"{prefix}{name}/", found, depth + 1, is_hidden, known)
    except OSError:
        found.complete = False
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Changes:
    """What happened to files between two surveys."""

    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def changes(before: Survey, after: Survey) -> Changes:
    """Compare two surveys. ``modified`` lists every file written, new ones too."""
    created = sorted(name for name in after.files if name not in before.files)
    rewritten = [name for name, what in after.files.items() if name in before.files and before.files[name] != what]
    return Changes(
        created=[_printable(n) for n in created],
        modified=[_printable(n) for n in sorted([*created, *rewritten])],
        deleted=[_printable(n) for n in sorted(n for n in before.files if n not in after.files)],
    )


def _printable(name: str) -> str:
    """A file name that can be encoded: bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
