"""What the guest opened and closed, as the filter writes it down: enough to open it again after a trap."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_CLOSE = 2
_OPEN_RECORD = struct.Struct("<IIIIIIQI")


@dataclass(frozen=True)
class OpenFile:
    """What it takes to open a guest's descriptor again."""

    fd: int
    mount: int  # the preopened folder's descriptor
    path: bytes
    lookup: int
    oflags: int
    fdflags: int
    rights: int
    offset: int = 0


def entries(data: bytes) -> Iterator[tuple[int, OpenFile | None]]:
    """Descriptors in the order they were opened, or closed: None. ``mount`` may be any folder's that is open."""
    at = 0
    while at < len(data):
        if int.from_bytes(data[at : at + 4], "little") == _CLOSE:
            yield int.from_bytes(data[at + 4 : at + 8], "little"), None
            at += 8
            continue
        _, fd, mount, lookup, oflags, fdflags, rights, length = _OPEN_RECORD.unpack_from(data, at)
        at += _OPEN_RECORD.size
        yield fd, OpenFile(fd, mount, data[at : at + length], lookup, oflags, fdflags, rights)
        at += length
