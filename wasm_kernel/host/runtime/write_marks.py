"""Has the system mark pages of a guest's memory, so that those that are written from then on are found quickly.

Without marks the system looks at every page that is there to see whether it is a file's: 10,000 places in its own
memory, which are in no cache any more when a person runs the next cell. And all pages that were ever written are then
compared. With marks it reads a bit in each page's table entry, and names those that lately were.

The marks are those of userfaultfd's asynchronous write protection (Linux 6.7). They are set when a guest rests, on all
pages but those that each cell writes to: the first write to a marked page clears the mark, in the fault that copies the
page if it is a file's, and else in one that takes 2 µs. Files' pages are read in one by one, no longer sixteen at a
time. Where marks cannot be had (another system, a container that forbids the call), everything is as without them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct

_NUMBERS = {"x86_64": 323, "aarch64": 282}  # of the system call, userfaultfd
_USER_MODE_ONLY = 1  # what anybody may ask for; what these marks need is done in the kernel anyway
_API = struct.Struct("=3Q")  # struct uffdio_api: version, features, ioctls
_RANGE = struct.Struct("=4Q")  # struct uffdio_register: start, length, mode, ioctls
_UFFDIO_API = (3 << 30) | (_API.size << 16) | (0xAA << 8) | 0x3F
_UFFDIO_REGISTER = (3 << 30) | (_RANGE.size << 16) | (0xAA << 8)
_VERSION, _WP_ASYNC, _MODE_WP = 0xAA, 1 << 15, 2

_descriptor = -1
_pid = 0  # of the process whose memory it is about


def available() -> bool:
    """Whether this process has marks, or can have them."""
    global _descriptor, _pid
    if _pid != os.getpid():  # after a fork the old one is about the parent's memory
        if _descriptor >= 0:
            os.close(_descriptor)
        _descriptor, _pid = _opened(), os.getpid()
    return _descriptor >= 0


def in_use() -> bool:
    """Whether anything of this process's memory may be marked."""
    return _descriptor >= 0 and _pid == os.getpid()


def watch(address: int, size: int) -> bool:
    """Prepare a stretch of memory to be marked (`pagescan.mark` does that); whether it can be."""
    if not available():
        return False
    try:
        fcntl.ioctl(_descriptor, _UFFDIO_REGISTER, bytearray(_RANGE.pack(address, size, _MODE_WP, 0)))
    except OSError:
        return False
    return True


def _opened() -> int:
    number = _NUMBERS.get(os.uname().machine) if hasattr(os, "uname") else None
    if number is None:
        return -1
    descriptor = int(ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY))
    if descriptor < 0:
        return -1
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, _UFFDIO_API, bytearray(_API.pack(_VERSION, _WP_ASYNC, 0)))
        return descriptor
    os.close(descriptor)
    return -1
