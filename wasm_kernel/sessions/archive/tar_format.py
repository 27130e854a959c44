"""Sessions as .tar.zst files.

The reader is our own: tarfile accepts a truncated file, and reads extended headers of any size.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import zstandard

from wasm_kernel.errors import BadArchive
from wasm_kernel.sessions.archive.members import Add, Member, Read, Source, blamed_on, guarded

_BLOCK = 512
_MAX_EXTENDED = 1 << 16  # bytes of an extended header, which holds a path
_MAX_PADDING = 1 << 20


@contextlib.contextmanager
def write_tar(file: IO[bytes]) -> Iterator[Add]:
    """Write a .tar.zst."""
    with (
        zstandard.ZstdCompressor(level=6, write_checksum=True).stream_writer(file, closefd=False) as packed,
        tarfile.open(
            fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):

        def add(name: str, source: Source, size: int) -> None:
            info = tarfile.TarInfo(name.rstrip("/"))
            if name.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
                return
            info.size, info.mode = size, 0o644
            archive.addfile(info, _Exactly(source, size))

        yield add


class _Exactly:
    """Reads exactly the size the tar header promised, even if the guest changes the file's length."""

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._left = source, size

    def read(self, wanted: int = -1) -> bytes:
        length = self._left if wanted < 0 else min(wanted, self._left)
        data = self._source.read(length)
        data += bytes(length - len(data))
        self._left -= length
        return data


def read_tar(file: IO[bytes], archive: Path) -> Iterator[Member]:
    """The members of a .tar.zst: ordinary files and folders, and nothing else."""
    with zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as stream:
        read = guarded(stream, archive)

        def take(size: int) -> bytes:
            data = read(size)
            if len(data) < size:
                raise BadArchive(f"{archive} is damaged: it ends too early")
            return data

        while (block := take(_BLOCK)) != bytes(_BLOCK):
            with blamed_on(archive):
                name, size = _header(block, take, archive)
            yield name, _part(take, size)
            take(-size % _BLOCK)
        rest = read(_MAX_PADDING)  # to the end, where the checksum is
        if len(rest) == _MAX_PADDING or rest.strip(b"\0"):
            raise BadArchive(f"{archive} is damaged: it continues after its end")


def _header(block: bytes, take: Read, archive: Path) -> tuple[str, int]:
    """A member's name and size; a folder has none."""
    info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    extended: dict[bytes, bytes] = {}
    if info.type == tarfile.XHDTYPE:
        if not 0 <= info.size <= _MAX_EXTENDED:
            raise BadArchive(f"{archive} has an extended header of {info.size} bytes")
        extended = _extended(take(info.size + -info.size % _BLOCK)[: info.size])
        info = tarfile.TarInfo.frombuf(take(_BLOCK), "utf-8", "surrogateescape")
    name = os.fsdecode(extended.get(b"path", os.fsencode(info.name)))
    if info.type == tarfile.DIRTYPE:
        return f"{name}/", 0
    size = int(extended.get(b"size", b"%d" % info.size))
    sparse = any(key.startswith(b"GNU.sparse") for key in extended)
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or sparse or size < 0:
        raise BadArchive(f"{archive} holds {name[:80]!r}, which is not an ordinary file")
    return name, size


def _extended(data: bytes) -> dict[bytes, bytes]:
    """The fields of an extended header, each a line that begins with its length."""
    found: dict[bytes, bytes] = {}
    start = 0
    while start < len(data):
        length, space, _ = data[start : start + 8].partition(b" ")
        end = start + int(length)
        line = data[start + len(length) + len(space) : end]
        if not length.isdigit() or end > len(data) or not line.endswith(b"\n"):
            raise ValueError("an extended header is malformed")
        key, _, value = line[:-1].partition(b"=")
        found[key] = value
        start = end
    return found


def _part(take: Read, size: int) -> Read:
    left = size

    def read(wanted: int) -> bytes:
        nonlocal left
        data = take(min(wanted, left))
        left -= len(data)
        return data

    return read
