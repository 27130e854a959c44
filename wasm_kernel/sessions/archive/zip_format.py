"""Sessions as .zip files. zipfile reads them; we check what it does not."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from wasm_kernel.errors import BadArchive
from wasm_kernel.host.files.folder import BLOCK
from wasm_kernel.sessions.archive.members import Add, Member, Source, blamed_on, guarded

_FLAGS = 0x80E  # compression level, sizes after the data, UTF-8 names; not encryption, not patches
_END = 22  # bytes of a zip's end record, without its comment


@contextlib.contextmanager
def write_zip(file: IO[bytes]) -> Iterator[Add]:
    """Write a .zip; names are kept byte by byte."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:

        def add(name: str, source: Source, size: int) -> None:
            if name.endswith("/"):
                archive.writestr(_to_zip(name), b"")
                return
            with archive.open(_to_zip(name), "w", force_zip64=True) as member:
                while size > 0 and (
                    block := source.read(min(BLOCK, size))
                ):  # the guest may change its length while we read
                    size -= member.write(block)

        yield add


def read_zip(file: IO[bytes], archive: Path) -> Iterator[Member]:
    """The members of a .zip: ordinary files and folders, and nothing else."""
    with blamed_on(archive):
        packed = zipfile.ZipFile(file)
        file.seek(-_END - len(packed.comment), os.SEEK_END)
        end = file.read(_END)
    # zipfile stops at what looks like the last entry; the end of the file says how many there are.
    members = packed.infolist()
    if end[:4] != b"PK\5\6" or int.from_bytes(end[10:12], "little") not in (len(members) & 0xFFFF, 0xFFFF):
        raise BadArchive(f"{archive} is damaged: its list of files has no end")
    for info in members:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise BadArchive(f"{archive} holds {info.filename[:80]!r}, which is not an ordinary file")
        if info.flag_bits & ~_FLAGS or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadArchive(f"{archive} holds {info.filename[:80]!r} encrypted, or compressed in an unknown way")
        with blamed_on(archive):  # compares the name with the one next to the data, for folders too
            source = packed.open(info)
        with source:
            yield _from_zip(info.filename), guarded(source, archive)


# Names in a zip are text. A byte that is not UTF-8 becomes a private-use character, as do the bytes of such characters.


def _to_zip(path: str) -> str:
    return re.sub("[\udc80-\udcff\uf780-\uf7ff]", lambda m: "".join(chr(0xF700 + b) for b in os.fsencode(m[0])), path)


def _from_zip(name: str) -> str:
    return re.sub("[\uf780-\uf7ff]+", lambda m: os.fsdecode(bytes(ord(c) - 0xF700 for c in m[0])), name)
