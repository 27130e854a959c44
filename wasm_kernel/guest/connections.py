"""The guest's side of connections that the host holds: one call per action, and errors as Python has them."""

import errno
import json
import socket

import _host

from . import door, wire

READ, WRITE = 1, 2
MOST_AT_ONCE = 1 << 18  # bytes that the host takes or gives in one go


class NotYet(Exception):
    """It would have to wait, longer than it was told to."""


def call(action, data=None, **arguments):
    """Have the host do something; its answer, as bytes. Raises what went wrong, or `NotYet`."""
    frame = wire.encode_event(wire.Network(action, arguments, () if data is None else (data,)))
    try:
        answer = _host.call(frame)
    except OSError as refused:
        if refused is door.time_limit:
            raise
        answer = b""
    kind, content = answer[:1], answer[1:]
    if kind == wire.ANSWER_TEXT:
        return content
    if kind == wire.ANSWER_NOT_YET:
        raise NotYet
    if kind == wire.ANSWER_INTERRUPTED:
        raise KeyboardInterrupt
    if kind == wire.ANSWER_ERROR:
        raise error(*json.loads(content))
    raise error("reset", "there are no connections here, as in a worker of a pool")


def error(kind, text):
    """The exception for what went wrong: `host.network.faults` has the other half of this table."""
    if kind in ("certificate", "tls"):
        import ssl

        if kind == "tls":
            return ssl.SSLError(1, text)
        problem = ssl.SSLCertVerificationError(1, text)
        problem.verify_code, problem.verify_message = 1, text
        return problem
    make, code = _ERRORS.get(kind, (OSError, errno.EIO))
    return make(code, text)


_ERRORS = {
    "permission": (PermissionError, errno.EACCES),
    "name": (socket.gaierror, socket.EAI_NONAME),
    "refused": (ConnectionRefusedError, errno.ECONNREFUSED),
    "reset": (ConnectionResetError, errno.ECONNRESET),
    "timeout": (TimeoutError, errno.ETIMEDOUT),
    "unreachable": (OSError, errno.EHOSTUNREACH),
    "limit": (OSError, errno.EDQUOT),
    "failed": (OSError, errno.EIO),
}


def wait(wanted, seconds):
    """Which connections are ready, of pairs of number and events; a dict. ``seconds``: at most; None: for ever."""
    return dict(json.loads(call("wait", connections=wanted, seconds=seconds)))
