"""Archive formats, by file name ending."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.sessions.archive.members import Reader, Writer
from wasm_kernel.sessions.archive.tar_format import read_tar, write_tar
from wasm_kernel.sessions.archive.zip_format import read_zip, write_zip


@dataclass(frozen=True)
class Format:
    """How archives of one kind are written and read."""

    write: Writer
    read: Reader


FORMATS = {".zip": Format(write_zip, read_zip), ".tar.zst": Format(write_tar, read_tar)}


def format_of(path: Path) -> Format:
    """The format of an archive; `ConfigurationError` if its name does not say."""
    for ending, found in FORMATS.items():
        if path.name.endswith(ending):
            return found
    raise ConfigurationError(f"{path.name!r} is not an archive name; it must end in {' or '.join(FORMATS)}")
