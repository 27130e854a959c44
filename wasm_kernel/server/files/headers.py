"""What HTTP headers say about a file: name, type, version, range. No I/O."""

from __future__ import annotations

import os
import re
from email.utils import formatdate
from urllib.parse import quote

from wasm_kernel.model.names import safe_name

BINARY = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
# What a browser may show instead of saving: nothing that can hold a script. HTML, SVG and XML are never among these.
_INLINE = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "webm": "video/webm",
    **dict.fromkeys(
        ("txt", "text", "log", "md", "csv", "tsv", "json", "py", "toml", "yaml", "yml", "ini", "cfg"), _TEXT
    ),
}
_RANGE = re.compile(r"bytes=\s*([0-9]*)\s*-\s*([0-9]*)\s*\Z")
_MAX_DIGITS = 19


def inline_type(name: str) -> str | None:
    """The type to show a file as; None if it is only to be saved."""
    return _INLINE.get(name.rpartition(".")[2].lower()) if "." in name else None


def content_disposition(name: str, *, inline: bool = False) -> str:
    """The header that names a file (RFC 6266), harmless whatever the guest called it."""
    safe = safe_name(name)
    plain = re.sub(r"[^A-Za-z0-9 !#$&+.^_`{}~()\[\]@=,-]", "_", safe)
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}"


def etag(info: os.stat_result) -> str:
    """A file's version. The guest can set a file's time, but not when it did so."""
    return f'"{info.st_ino:x}-{info.st_size:x}-{info.st_mtime_ns:x}-{info.st_ctime_ns:x}"'


def http_date(seconds: float) -> str | None:
    """A time as HTTP writes it; None if it cannot be written so."""
    try:
        return formatdate(int(seconds), usegmt=True)
    except (ValueError, OverflowError, OSError):
        return None


class RangeNotSatisfiable(ValueError):
    """A range that begins beyond the end."""


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last of a single range; None if all is to be sent, as for several ranges."""
    match = _RANGE.match((header or "").strip())
    if match is None or not any(match.groups()) or max(map(len, match.groups())) > _MAX_DIGITS:
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None  # not a range at all
    if start >= size or start >= end:
        raise RangeNotSatisfiable(f"the file has {size} bytes")
    return start, end
