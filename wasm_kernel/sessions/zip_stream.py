"""A session's files and folders as one zip, made while it is sent: in constant memory, but for the list at its end."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.files.folder import BLOCK, Folder, Item
from wasm_kernel.model.names import Names, Paths

_MAX_NAMES = 64 << 20  # bytes of all paths: zipfile keeps them for the list at the end
_LEVEL = 1  # as fast as a network; higher levels gain little
# Compressing these again gains nothing.
_PACKED = frozenset(
    ("7z", "bz2", "docx", "feather", "gif", "gz", "jpeg", "jpg", "mp3", "mp4", "npz", "parquet", "png", "pptx", "rar")
    + ("webm", "webp", "whl", "xlsx", "xz", "zip", "zst")
)


class ZipTooLarge(ConfigurationError):
    """More than one archive may hold."""


@dataclass(frozen=True)
class Bounds:
    """How much one archive may hold."""

    max_bytes: int
    max_files: int


@dataclass
class _Tally:
    bounds: Bounds
    size: int = 0
    count: int = 0
    names: int = 0

    def add(self, size: int, name: str) -> None:
        self.size += size
        self.count += 1
        self.names += len(name.encode())
        if self.count > self.bounds.max_files or self.names > _MAX_NAMES:
            raise ZipTooLarge(f"more than {self.bounds.max_files:,} files and folders; ask for fewer at once")
        if self.size > self.bounds.max_bytes:
            raise ZipTooLarge(f"more than {self.bounds.max_bytes:,} bytes; ask for less at once")


def check(folder: Folder, selection: list[str], bounds: Bounds) -> None:
    """Raise beforehand what making the archive would raise: once it is being sent, it can only be cut off."""
    for _ in _members(folder, selection, bounds):
        pass


def zip_blocks(folder: Folder, selection: list[str], bounds: Bounds) -> Iterator[bytes]:
    """The archive, block by block. Without paths: everything."""
    sink = _Sink()
    with zipfile.ZipFile(cast(Any, sink), "w") as archive:
        for name, item, file in _members(folder, selection, bounds):
            info = zipfile.ZipInfo(name, _date(item.modified_ns))
            info.create_system = 3
            if file is None:
                info.external_attr = 0o40755 << 16 | 0x10
                archive.writestr(info, b"")
            else:
                info.external_attr = 0o100644 << 16
                packed = name.rpartition(".")[2].lower() in _PACKED
                info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                info._compresslevel = _LEVEL  # type: ignore[attr-defined]  # public only since Python 3.13
                left = os.fstat(file.fileno()).st_size  # the guest may change its length while we read
                with archive.open(info, "w", force_zip64=True) as member:
                    while left > 0 and (block := file.read(min(BLOCK, left))):
                        left -= member.write(block)
                        if sink.size >= BLOCK:
                            yield sink.take()
            if sink.size >= BLOCK:
                yield sink.take()
    yield sink.take()


def _members(folder: Folder, selection: list[str], bounds: Bounds) -> Iterator[tuple[str, Item, IO[bytes] | None]]:
    """Each item with its safe name; links inside folders are left out, links asked for by name are followed."""
    tally, top = _Tally(bounds), Names()
    if not selection:
        yield from _tree(folder, Paths("", top), tally)
    for path in selection:
        name = path.rstrip("/").rpartition("/")[2]
        try:
            inner = folder.enter(path)
        except NotADirectoryError:
            inner = None
        if inner is None:
            with folder.open(path) as file:
                info = os.fstat(file.fileno())
                safe = top.take(name)
                tally.add(info.st_size, safe)
                yield safe, Item(name, "file", info.st_size, info.st_mtime_ns), file
            continue
        with inner:
            safe = f"{top.take(name)}/"
            tally.add(0, safe)
            yield safe, Item(name, "folder", 0, time.time_ns()), None
            yield from _tree(inner, Paths(safe), tally)


def _tree(folder: Folder, paths: Paths, tally: _Tally) -> Iterator[tuple[str, Item, IO[bytes] | None]]:
    for item, file in folder.contents():
        safe = paths.take(item.path, folder=file is None)
        tally.add(os.fstat(file.fileno()).st_size if file is not None else 0, safe)
        yield safe, item, file


def _date(modified_ns: int) -> tuple[int, int, int, int, int, int]:
    """A time as zip files store it: from 1980 to 2107, to two seconds."""
    try:
        moment = time.localtime(modified_ns / 1e9)
    except (ValueError, OverflowError, OSError):
        return (1980, 1, 1, 0, 0, 0)
    if moment.tm_year < 1980:
        return (1980, 1, 1, 0, 0, 0)
    if moment.tm_year > 2107:
        return (2107, 12, 31, 23, 59, 58)
    return moment[:6]


class _Sink:
    """What zipfile writes to. It cannot seek, so sizes follow the data."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:
        self._blocks.append(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        data = b"".join(self._blocks)
        self._blocks, self.size = [], 0
        return data
