"""What the user's variables are, in short: for the timeline and for comparing two snapshots."""

import time
from itertools import islice

_MOST = 500
_SECONDS = 0.005  # a person waits for this
_LONGEST = 60


def summary(shell):
    """Name to [type, size, fingerprint]. Looks at no more of a value than a glance: no user code runs but len().

    What every cell leaves behind (`_i7`, `_7`) is not touched: all its reference counts would be written to.
    """
    hidden, variables = shell.user_ns_hidden, shell.user_ns
    found = {}
    end = time.monotonic() + _SECONDS
    for name in [name for name in variables if type(name) is str and not name.startswith("_")]:
        value = variables.get(name)
        if (name in hidden and hidden[name] is value) or len(found) >= _MOST:
            continue
        found[name[:200]] = _glance(value) if time.monotonic() < end else [type(value).__name__[:80], 0, str(id(value))]
    return found


def _glance(value):
    kind = type(value)
    name = kind.__name__[:80]
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        if kind in (str, bytes):
            return [name, len(value), _hash(value)]
        return [name, 0, _short(value)[:_LONGEST]]
    shape = getattr(value, "shape", None) if kind.__module__.partition(".")[0] in ("numpy", "pandas") else None
    if isinstance(shape, tuple):
        size = 1
        for length in shape:
            size *= length if isinstance(length, int) else 0
        return [name, size, f"{id(value)} {shape} {_content(value)}"]
    if kind in (list, tuple, dict, set, frozenset, bytearray):
        return [name, len(value), f"{id(value)} {len(value)} {_content(value)}"]
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
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy" and value.dtype.hasobject is False:
            flat = value.reshape(-1)
            step = max(1, flat.size // 4096)
            return zlib.crc32(flat[::step].tobytes())
        if kind.__name__ == "DataFrame":
            parts = [list(map(str, value.columns[:50])), [id(b) for b in (value.iloc[:, i].array for i in range(0))]]
            sample = value.iloc[:: max(1, len(value) // 64), :50].to_numpy().reshape(-1).tolist()
            return zlib.crc32(f"{parts} {[_item(v) for v in sample]}".encode())
        if kind.__name__ == "Series":
            sample = value.iloc[:: max(1, len(value) // 64)].tolist()
            return zlib.crc32(" ".join([_item(v) for v in sample]).encode())
        if kind in (list, tuple):
            step = max(1, len(value) // 256)
            return zlib.crc32(" ".join([_item(v) for v in value[::step]]).encode())
        if kind is dict:
            return zlib.crc32(" ".join(f"{_item(k)}:{_item(v)}" for k, v in islice(value.items(), 256)).encode())
        if kind in (set, frozenset):
            return zlib.crc32(" ".join(sorted(_item(v) for v in islice(value, 256))).encode())
        return zlib.crc32(value)
    except Exception:
        return 0


def _item(value):
    """A value in a container, told apart from others by a few characters."""
    kind = type(value)
    if kind in (int, float, bool, complex, str, bytes, type(None)):
        return _short(value)
    # Made anew at each look, so their ids say nothing.
    return repr(value)[:40] if kind.__module__ == "datetime" or kind.__module__.startswith("pandas") else str(id(value))


def _short(value):
    """The beginning of a value's repr, without making all of it: that of 100 MB takes a second."""
    if type(value) in (str, bytes):
        return f"{len(value)} {value[:40]!r}"
    if type(value) is int and value.bit_length() > 200:
        return _hash(value)
    return repr(value)[:40]
