"""When a file was made, which tells it from a later one that was given the same inode. Linux tells only by statx."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

_EMPTY_PATH, _BIRTH, _LENGTH = 0x1000, 0x800, 256


class _Statx(ctypes.Structure):
    _fields_ = [
        ("mask", ctypes.c_uint32),
        ("between", ctypes.c_uint8 * 76),
        ("seconds", ctypes.c_int64),
        ("nanoseconds", ctypes.c_uint32),
        ("rest", ctypes.c_uint8 * (_LENGTH - 92)),
    ]


def born(handle: int) -> int:
    """When an open file was made, in nanoseconds since 1970; 0 where the system or the file system does not say."""
    told = getattr(os.fstat(handle), "st_birthtime", None)
    if told is not None:
        return int(told * 1e9)
    found = _Statx()
    statx = _statx()
    if statx is None or statx(handle, b"", _EMPTY_PATH, _BIRTH, ctypes.byref(found)) != 0:
        return 0
    return found.seconds * 1_000_000_000 + found.nanoseconds if found.mask & _BIRTH else 0


@functools.cache
def _statx() -> Any:
    return getattr(ctypes.CDLL(None), "statx", None)
