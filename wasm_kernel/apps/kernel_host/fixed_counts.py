"""Makes objects immortal, so that kernels share the memory they are in: looking at an object no longer writes to it.

CPython counts references in the object itself, so whoever calls a function or reads a constant writes to its page, and
has a page of its own from then on. Since 3.12, a count of `_IMMORTAL` means: never counted, never freed (PEP 683). A
host gives it to all that it has imported, which is never freed anyway. That saves a quarter of a kernel's own memory.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from types import CodeType
from typing import Any

_IMMORTAL = 0xFFFFFFFF  # in the lower half of the count
_OF_CODE = ("co_consts", "co_names", "co_filename", "co_name", "co_qualname", "co_linetable", "co_exceptiontable")


def can_be_fixed() -> bool:
    """Whether this interpreter has immortal objects, in the way this module knows; it is tried on one."""
    known = sys.implementation.name == "cpython" and (3, 12) <= sys.version_info < (3, 14)
    if not known or sys.byteorder != "little" or sys.maxsize < 2**32:
        return False
    tried = object()
    _fix(id(tried))
    before = sys.getrefcount(tried)
    more = [tried] * 10
    return sys.getrefcount(more[0]) == before


def fix_all() -> int:
    """Make everything immortal that is there now; how many objects. Does nothing where it cannot be done."""
    if not can_be_fixed():
        return 0
    seen = _reachable()
    for address in seen:
        _fix(address)
    return len(seen)


def _fix(address: int) -> None:
    ctypes.c_uint32.from_address(address).value = _IMMORTAL


def _reachable() -> set[int]:
    """The addresses of all objects that the collector knows, and of what these refer to, without those made here.

    No generator: the collector would know it, and through it everything that is gathered.
    """
    waiting: list[Any] = gc.get_objects()
    seen = {id(found) for found in waiting}
    while waiting:
        found = waiting.pop()
        more = gc.get_referents(found)
        if isinstance(found, CodeType):  # which the collector does not look into
            more += [getattr(found, name) for name in _OF_CODE]
        for each in more:
            if id(each) not in seen and each is not seen and each is not waiting:
                seen.add(id(each))
                waiting.append(each)
    return seen
