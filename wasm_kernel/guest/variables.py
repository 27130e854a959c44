"""What the user's variables are, in short: for the timeline and for comparing two snapshots."""

import math
import time
from itertools import islice

from . import tables
from .short_forms import array, kinds, type_name

_MOST = 500
_SECONDS = 0.005  # a person waits for this
_LONGEST = 60
_PLAIN, _LONG = {int, float, bool, complex, type(None)}, 10_000
_last = {}  # the last summary


def users(shell):
    """The user's variables, by name.

    What every cell leaves behind (`_i7`, `_7`) is not touched: all its reference counts would be written to.
    """
    hidden, variables = shell.user_ns_hidden, shell.user_ns
    count = 0
    for name in [name for name in variables if type(name) is str and not name.startswith("_")]:
        value = variables.get(name)
        if (name in hidden and hidden[name] is value) or count >= _MOST:
            continue
        count += 1
        yield name[:200], value


def summary(shell):
    """Name to [type, size, fingerprint]. Looks at no more of a value than a glance, and no user code runs."""
    global _last
    found = {}
    end = time.monotonic() + _SECONDS
    for name, value in users(shell):
        found[name] = _glance(value) if _is_plain(value) or time.monotonic() < end else _unseen(name, value)
    _last = found
    return found


def _is_plain(value):
    """Whether a glance at a value takes no time, so that what it shows is always shown."""
    kind = type(value)
    return kind in _PLAIN or (kind in (str, bytes) and len(value) < _LONG)


def _unseen(name, value):
    """What is said of a value for which there was no time: what was said before, or it would seem to have changed."""
    kind, identity = type_name(type(value)), str(id(value))
    known = _last.get(name)
    is_same = known is not None and known[0] == kind and known[2].partition(" ")[0] == identity
    return known if is_same else [kind, 0, identity]


def _glance(value):
    kind = type(value)
    name = type_name(kind)
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        if kind in (str, bytes):
            return [name, len(value), _hash(value)]
        return [name, 0, _short(value)[:_LONGEST]]
    if kind in (list, tuple, dict, set, frozenset, bytearray):
        return [name, len(value), f"{id(value)} {len(value)} {_content(value)}"]
    if kind in kinds().frames or array(value) is not None:
        shape = tables.dimensions(value)
        return [name, math.prod(shape), f"{id(value)} {shape} {_content(value)}"]
    return [name, 0, str(id(value))]


def _hash(value):
    return f"{hash(value) & 0xFFFFFFFFFFFF:x}"


def _content(value):
    """A number that changes when the content does, as far as a glance shows it.

    Only what is looked at is touched: whatever else is, its reference counts if nothing more, would be stored again
    with the checkpoint of every cell.
    """
    import zlib

    kind = type(value)
    try:
        if kind in kinds().frames:
            return zlib.crc32(" ".join(map(_sample, tables.samples(value, 64))).encode())
        if kind in (list, tuple):
            step = max(1, len(value) // 256)
            return zlib.crc32(" ".join([_item(v) for v in value[::step]]).encode())
        if kind is dict:
            return zlib.crc32(" ".join(f"{_item(k)}:{_item(v)}" for k, v in islice(value.items(), 256)).encode())
        if kind in (set, frozenset):
            return zlib.crc32(" ".join(sorted(_item(v) for v in islice(value, 256))).encode())
        if kind is bytearray:
            return zlib.crc32(value)
        flat = array(value).reshape(-1)
        return _sample(flat[:: max(1, flat.size // 4096)])
    except Exception:
        return 0


def _sample(found):
    """What tells a few values of an array from others, or labels."""
    import zlib

    if type(found) is kinds().ndarray and not found.dtype.hasobject:
        return str(zlib.crc32(found.tobytes()))
    return " ".join(map(_item, found.reshape(-1).tolist())) if type(found) is kinds().ndarray else str(found)


def _item(value):
    """A value in a container, told apart from others by a few characters."""
    kind = type(value)
    if kind in (int, float, bool, complex, str, bytes, type(None)):
        return _short(value)
    return str(id(value))


def _short(value):
    """The beginning of a value's repr, without making all of it: that of 100 MB takes a second."""
    if type(value) in (str, bytes):
        return f"{len(value)} {value[:40]!r}"
    if type(value) is int and value.bit_length() > 200:
        return _hash(value)
    return repr(value)[:40]
