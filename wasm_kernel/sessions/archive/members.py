"""What an archive contains, and how members are written and read in any format.

session.json     the session's metadata
files/…          its files and folders, under their paths
"""

from __future__ import annotations

import contextlib
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol

import zstandard

from wasm_kernel.errors import BadArchive

RECORD = "session.json"  # next to files/, so that no file of the session can be mistaken for it
FILES = "files/"

OnProgress = Callable[[int, int], None]
"""Called with how much is done, and how much there is in all."""


class Source(Protocol):
    """What a file's bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Read at most ``size`` bytes; empty at the end."""


Add = Callable[[str, Source, int], None]
"""Adds a file of this size under a name; a name that ends in / is a folder."""
Writer = Callable[[IO[bytes]], contextlib.AbstractContextManager[Add]]
"""Writes an archive to a file: a context manager that returns a function to add members."""

Read = Callable[[int], bytes]
"""Reads at most this many bytes; empty at the end."""
Member = tuple[str, Read]
"""A name, which ends in / for a folder, and its contents, to be read completely before the next member."""
Reader = Callable[[IO[bytes], Path], Iterator[Member]]
"""Reads the members of an archive from a file; the path is for error messages."""


@contextlib.contextmanager
def blamed_on(archive: Path) -> Iterator[None]:
    """Turn anything that goes wrong while an archive is read into `BadArchive`."""
    try:
        yield
    except BadArchive:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, zstandard.ZstdError, zlib.error, struct.error) as e:
        raise BadArchive(f"{archive} is damaged, or not an archive: {e}") from None
    except (EOFError, OSError, ValueError, OverflowError, RuntimeError) as e:  # zipfile raises all of these, too
        raise BadArchive(f"{archive} is damaged, or not an archive: {e}") from None


def guarded(source: IO[bytes], archive: Path) -> Read:
    """Reads from a part of an archive; errors become `BadArchive`."""

    def read(size: int) -> bytes:
        with blamed_on(archive):
            return source.read(size)

    return read
