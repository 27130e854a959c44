"""What the C library's allocator keeps of memory that was freed: left alone, a quarter of what a resting kernel has.

glibc gives every thread an arena of its own, and what one thread has freed no other one uses: buffers of the thread
that runs the guest, of the one that writes checkpoints. It also learns to keep large blocks. Elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt
# What is free at the end of the heap stays for a while: to give it back at once cost 30 page faults in every cell. All
# of it goes with `give_back`, when the kernel rests.
_SETTINGS = {_ARENA_MAX: 2, _MMAP_THRESHOLD: 256 << 10, _TRIM_THRESHOLD: 4 << 20}


def keep_little() -> None:
    """Two arenas for all threads, and large blocks go back at once. To be called before threads are started."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return  # somebody knows better
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in _SETTINGS.items():
            mallopt(name, value)


def give_back() -> None:
    """Give free pages back to the system, from within arenas, too. Takes about a millisecond."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
