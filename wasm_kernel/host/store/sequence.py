"""A number that only grows, kept by the store: the order of snapshots does not depend on anybody's clock.

    folder/sequence          the last number given out, as decimal digits

It is not synced: a power cut may take the last few numbers back. Whoever asks for one therefore says which number it
must exceed, so that within a session the order always holds. A new file begins at the current time in microseconds,
more than were ever given out one by one: a file that was lost does not put what follows before what was there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

MOST = 1 << 60
_NAME = "sequence"
_DIGITS = 20  # always as many: overwriting them needs no new block on a full disk


def next_number(folder: Path, after: int = 0) -> int:
    """A number that nobody got before, greater than ``after``."""
    handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        number = min(max(_last(handle), after) + 1, MOST)
        if os.fstat(handle).st_size > _DIGITS:  # damaged
            os.ftruncate(handle, _DIGITS)
        os.pwrite(handle, b"%0*d" % (_DIGITS, number), 0)
        return number
    finally:
        os.close(handle)


def _last(handle: int) -> int:
    digits = os.pread(handle, _DIGITS + 1, 0)
    with contextlib.suppress(ValueError):
        if len(digits) == _DIGITS and 0 <= (found := int(digits)) < MOST:
            return found
    return time.time_ns() // 1000
