"""The guest's side of the door: frames out, answers back."""

import _host

from . import wire

held = False  # whether an interrupt waits, until what the host has answered is put away
waiting = None  # the interrupt that does
time_limit = None  # the error of a request's time limit, once that is over: whoever catches everything lets it pass


def send(event):
    """Tell the host something. What the host refuses (too large, past a cap) is dropped: it says so itself."""
    flush()
    try:
        return _host.call(wire.encode_event(event, default=as_json))
    except OSError as error:
        if error is time_limit:
            raise
        return b""


def flush():
    """Bring what was printed to the host first, so that order is kept."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def as_json(value):
    """What mime bundles may hold and JSON does not know."""
    import base64

    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # numpy scalars
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return repr(value)
