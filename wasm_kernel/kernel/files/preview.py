"""A file's preview for the browser, bounded in bytes and time: the file is opened here, and read by `contents`.

Only pictures are handed on as they are, to the browser, which is made to decode hostile ones; not if they claim to
be huge.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wasm_kernel.host.folder import Folder
from wasm_kernel.kernel.files import contents
from wasm_kernel.kernel.files.listing import Entry, encodable
from wasm_kernel.kernel.render import escape, sentence

IMAGE_BYTES = 2 << 20
SOUND_BYTES = 2 << 20
_PIXELS = 40_000_000
# Isolated, and yet with this very package, wherever it is imported from.
_READER = f"import sys; sys.path.append(sys.argv.pop(1)); from {contents.__name__} import main; main()"
_PATIENCE = 6.0  # seconds for the process that reads it
_ANSWER = 4 << 20
SOUNDS = {".wav": "audio/wav", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4"}
FILMS = {".mp4": "video/mp4", ".webm": "video/webm"}


@dataclass(frozen=True)
class Preview:
    """What to show: a sentence and HTML, or a picture with its format."""

    said: str = ""
    markup: str = ""
    image: bytes = b""
    format: str = ""


def preview(root: Path, entry: Entry) -> Preview:
    """A file of the workspace. Blocks for some seconds at worst; raises `OSError` and `PathRefused`."""
    with Folder(root, backslashes=True) as folder, folder.open(entry.path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return Preview("empty")
        if entry.group == "image" and entry.ending != ".svg":
            shown = picture(file, size)
            if shown.image:
                return shown
            file.seek(0)
            said, markup = contents.show_hex(file.read(contents.HEX_BYTES), size)
            return Preview(", ".join(filter(None, (shown.said, said))), markup)
        if entry.group in ("sound", "film", "pdf", "archive"):
            return Preview("", "")
        return read(file, encodable(entry.name))


def picture(file: IO[bytes], size: int) -> Preview:
    """A picture that a browser can show, by its bytes, not by its name."""
    data = file.read(IMAGE_BYTES + 1)
    form, width, height = image_size(data)
    if not form:
        return Preview("no picture that browsers show")
    if len(data) > IMAGE_BYTES or size > IMAGE_BYTES:
        return Preview(f"{width:,} × {height:,} pixels, too large to preview")
    if width * height > _PIXELS:
        return Preview(f"{width:,} × {height:,} pixels, too many to preview")
    return Preview(f"{width:,} × {height:,} pixels", image=data, format=form)


def image_size(data: bytes) -> tuple[str, int, int]:
    """Format, width and height, as the header says."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return "png", *struct.unpack(">II", data[16:24])
        if data.startswith((b"GIF87a", b"GIF89a")):
            return "gif", *struct.unpack("<HH", data[6:10])
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return "webp", *_webp_size(data)
        if data.startswith(b"\xff\xd8\xff"):
            return "jpeg", *_jpeg_size(data)
    except (struct.error, IndexError, ValueError):
        pass
    return "", 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ValueError("no marker")
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]


def read(file: IO[bytes], name: str) -> Preview:
    """Let a process of its own read the file."""
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
        why = "It takes too long to read."
    except (subprocess.CalledProcessError, ValueError):
        why = "It cannot be read within the limits of a preview."
    file.seek(0)
    said, markup = contents.show_hex(file.read(contents.HEX_BYTES), os.fstat(file.fileno()).st_size)
    return Preview(said, sentence(why) + markup)


def media(entry: Entry, address: str) -> str:
    """A player for a sound or a film at an address of ours."""
    tag = "audio" if entry.ending in SOUNDS else "video"
    return f'<{tag} controls preload="none" src="{escape(address)}" class="wk-player"></{tag}>'
