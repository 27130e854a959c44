"""Pictures, audio, video and PDF: passed on unchanged to the web browser, which is built to decode hostile ones.

Small ones are embedded as data: URLs: what was checked is what is shown, in an origin of its own. Larger ones are
fetched from the server extension, whose responses forbid anything in them to run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import IO

from wasm_kernel.kernel.files.listing import Entry, ending_of
from wasm_kernel.kernel.files.preview_parts import Preview
from wasm_kernel.kernel.files.transfer import Links, data_address
from wasm_kernel.kernel.render import escape

SMALL = 1_500_000  # bytes; Chromium opens no URL of more than 2 MiB in a frame
_LARGE_PICTURE = 64 << 20
_PIXELS = 40_000_000
_HEAD = 1 << 20  # a picture's size is in here; cameras can write a lot before it
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
SOUNDS = {".wav": "audio/wav", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4"}
FILMS = {".mp4": "video/mp4", ".webm": "video/webm"}
PDF = ".pdf"


class NotShown(Exception):
    """The web browser cannot, or must not, show it; the message says why."""


def shown_as(name: str) -> Callable[[IO[bytes], int, Entry, Links | None], Preview] | None:
    """The function that shows a file of this name; None: not handled here."""
    ending = ending_of(name)
    if ending in PICTURES:
        return picture
    if ending in SOUNDS or ending in FILMS:
        return player
    return document if ending == PDF else None


def picture(file: IO[bytes], size: int, entry: Entry, links: Links | None) -> Preview:
    """A picture, by its bytes, not by its name; not one that claims to be huge."""
    head = file.read(_HEAD)
    kind, width, height = image_size(head)
    if not kind:
        raise NotShown("not a picture that browsers can show")
    said = f"{width:,} × {height:,} pixels"
    if width * height > _PIXELS:
        raise NotShown(f"{said}, too many to preview")
    if size > _LARGE_PICTURE:
        raise NotShown(f"{said}, too large to preview")
    return said, f'<img class="wk-picture" alt="" src="{_address(file, size, f"image/{kind}", entry, links)}">'


def player(file: IO[bytes], size: int, entry: Entry, links: Links | None) -> Preview:
    """Audio or video with playback controls."""
    kind = SOUNDS.get(ending_of(entry.name)) or FILMS[ending_of(entry.name)]
    if not _is_playable(file.read(12)):
        raise NotShown("not audio or video that browsers can play")
    tag = kind.partition("/")[0]
    address = _address(file, size, kind, entry, links)
    return "", f'<{tag} controls preload="metadata" src="{address}" class="wk-player"></{tag}>'


def document(file: IO[bytes], size: int, entry: Entry, links: Links | None) -> Preview:
    """A PDF in the web browser's own viewer. Without a viewer the text inside is shown, which a frame would not do."""
    if b"%PDF-" not in file.read(1024):
        raise NotShown("not a PDF")
    address = _address(file, size, "application/pdf", entry, links)
    instead = '<span class="wk-dim">This browser cannot show PDFs here; download the file to view it.</span>'
    return "", f'<object class="wk-document" type="application/pdf" data="{address}">{instead}</object>'


def drawing(svg: bytes) -> str:
    """An SVG as a picture: in this form browsers neither run nor fetch anything."""
    return f'<img class="wk-picture" alt="" src="{data_address(svg, "image/svg+xml")}">'


def _address(file: IO[bytes], size: int, kind: str, entry: Entry, links: Links | None) -> str:
    if size <= SMALL:
        file.seek(0)
        return data_address(file.read(SMALL), kind)
    if links is None:
        raise NotShown("too large to preview without wasm-kernel's server extension")
    return escape(links.shown(entry.path, entry.modified_ns))


def _is_playable(head: bytes) -> bool:
    starts = (b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3")
    riff = head[:4] == b"RIFF" and head[8:12] == b"WAVE"
    frames = head[:1] == b"\xff" and len(head) > 1 and head[1] & 0xE0 == 0xE0  # MP3 without a header
    return head.startswith(starts) or riff or frames or head[4:8] == b"ftyp"


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
