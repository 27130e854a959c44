"""A file's preview, bounded in bytes and time: the file is opened here, and read by `contents`.

Formats that web browsers can show are passed on to them, by `media`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from wasm_kernel.host.files.folder import Folder
from wasm_kernel.kernel.files import contents, media
from wasm_kernel.kernel.files.listing import Entry, encodable, ending_of
from wasm_kernel.kernel.files.transfer import Links
from wasm_kernel.kernel.render import sentence

# Isolated, but with this package, wherever it is imported from.
_READER = f"import sys; sys.path.append(sys.argv.pop(1)); from {contents.__name__} import main; main()"
_PATIENCE = 6.0  # seconds for the process that reads it
_ANSWER = 4 << 20
_DRAWING = 1 << 20


@dataclass(frozen=True)
class Preview:
    """What to show: a note and HTML. ``drawing``: an SVG, to be drawn on request.

    Only on request, because a small one can keep a web browser busy for hours.
    """

    said: str = ""
    markup: str = ""
    drawing: bytes = b""


def preview(root: Path, entry: Entry, links: Links | None = None) -> Preview:
    """Preview a file of the workspace. Blocks for some seconds at worst; raises `OSError` and `PathRefused`."""
    with Folder(root, backslashes=True) as folder, folder.open(entry.path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return Preview("empty")
        shown_as = media.shown_as(entry.name)
        if shown_as is not None:
            try:
                return Preview(*shown_as(file, size, entry, links))
            except media.NotShown as e:
                return _bytes(file, str(e))
        found = read(file, encodable(entry.name))
        if ending_of(entry.name) == ".svg" and size <= _DRAWING:
            file.seek(0)
            return replace(found, drawing=file.read(_DRAWING))
        return found


def read(file: IO[bytes], name: str) -> Preview:
    """Read the file in a separate process."""
    command = [sys.executable, "-I", "-c", _READER, str(Path(contents.__file__).parents[3]), name.replace("\0", "")]
    try:
        done = subprocess.run(
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            env={"PYTHONHASHSEED": "0"},
            cwd="/",
            check=True,
        )
        said, markup = json.loads(done.stdout[:_ANSWER])
        return Preview(str(said), str(markup))
    except subprocess.TimeoutExpired:
        why = "Reading it takes too long."
    except (subprocess.CalledProcessError, ValueError):
        why = "It cannot be read within the limits of a preview."
    found = _bytes(file)
    return replace(found, markup=sentence(why) + found.markup)


def _bytes(file: IO[bytes], why: str = "") -> Preview:
    """The first bytes, and why only those."""
    file.seek(0)
    said, markup = contents.show_hex(file.read(contents.HEX_BYTES), os.fstat(file.fileno()).st_size)
    return Preview(", ".join(filter(None, (why, said))), markup)
