"""Landlock: a process gives up, for good, every folder but those it names. Linux 5.19 and later; needs no privileges.

The kernel looks at where a file really is, so links, mounts and renames made meanwhile do not help to get out.
Landlock does not cover what is opened already, nor ``stat`` and ``chmod`` by path, which reveal and change no contents.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture that we run on
_VERSION_ONLY, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38
_LEAST = 2  # earlier versions cannot rename into another folder

_WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 1, 1 << 2, 1 << 3
_REMOVE_FOLDER, _REMOVE_FILE, _MAKE_FOLDER, _MAKE_FILE, _MAKE_LINK = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_RENAME_ACROSS, _TRUNCATE = 1 << 13, 1 << 14
_EVERYTHING = (1 << 14) - 1

READ = _READ_FILE | _READ_FOLDER
FILES = READ | _WRITE_FILE | _REMOVE_FILE | _MAKE_FILE | _TRUNCATE
ALL = FILES | _REMOVE_FOLDER | _MAKE_FOLDER | _MAKE_LINK | _RENAME_ACROSS


class _Rule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def is_available() -> bool:
    """Whether this system has it."""
    return _version() >= _LEAST


def restrict(folders: dict[int, int]) -> None:
    """Keep this thread, and all it starts, to these folders: a handle each, and what may be done below (``READ``)."""
    handled = _EVERYTHING | (_TRUNCATE if _version() >= 3 else 0)
    attributes = ctypes.c_uint64(handled)
    ruleset = _call(_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    try:
        for folder, allowed in folders.items():
            rule = _Rule(allowed & handled, folder)
            _call(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        _check(_library().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
        _call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _version() -> int:
    if sys.platform != "linux":
        return 0
    return int(_library().syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION_ONLY))


def _call(number: int, *arguments: object) -> int:
    return _check(_library().syscall(ctypes.c_long(number), *arguments))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "Landlock")
    return result


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
