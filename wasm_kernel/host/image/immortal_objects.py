"""Make the objects of a saved base memory immortal, so that looking at them does not copy pages.

The layout is that of CPython 3.15 on a 32-bit machine: an object begins with its reference count, then its type.
The list of objects comes from a copy of the guest that walked its own heap (`guest/immortal.py`); what that walk
itself allocated is not in the saved memory. So each entry is checked there: the type must match, and the count must
be a count. A freed block begins with a pointer into the heap or with 0, which is neither.
"""

from __future__ import annotations

import mmap
from array import array
from pathlib import Path

_IMMORTAL = 5 << 28  # _Py_IMMORTAL_INITIAL_REFCNT, 32 bit
_LARGEST_COUNT = 1 << 20  # below every heap address


def make_immortal(path: Path, pairs: bytes) -> int:
    """Set the count of every listed object that is in the memory; how many there were."""
    listed = array("I")
    listed.frombytes(pairs[: len(pairs) // 8 * 8])
    done = 0
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        words = memoryview(memory).cast("I")
        try:
            for i in range(0, len(listed), 2):
                at = listed[i] >> 2
                if (
                    not listed[i] & 3
                    and at + 1 < len(words)
                    and words[at + 1] == listed[i + 1]
                    and 0 < words[at] < _LARGEST_COUNT
                ):
                    words[at] = _IMMORTAL
                    done += 1
        finally:
            words.release()
    return done
