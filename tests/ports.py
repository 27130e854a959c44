"""Ports that nobody else takes between the moment they are chosen and the moment a kernel or a server binds them.

Who chooses a port by binding a socket to port 0, as kernel managers do, gets one of those that the system hands out to
everybody: by the time a kernel binds it, it may be a connection's. These are others, in blocks. The first port of a
block stays bound, so that no two processes of tests share one.
"""

from __future__ import annotations

import errno
import itertools
import socket
import threading
from collections.abc import Iterator

from jupyter_client.connect import LocalPortCache

_BLOCK = 500
_FIRSTS = range(10_000, 32_000, _BLOCK)  # below those that Linux and macOS hand out
_lock = threading.Lock()


def free_port(ip: str = "127.0.0.1") -> int:
    """A port that nobody uses, and that this process chooses again only after all others of its block."""
    with _lock:
        return next(port for port in _ours if _is_free(ip, port))


def let_kernels_have_them() -> None:
    """Kernel managers of this process choose from these."""

    def find_available_port(self: LocalPortCache, ip: str) -> int:
        return free_port(ip)

    LocalPortCache.find_available_port = find_available_port  # type: ignore[method-assign]


def _block() -> Iterator[int]:
    for first in _FIRSTS:
        with socket.socket() as claim:
            try:
                claim.bind(("127.0.0.1", first))
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                continue
            yield from itertools.cycle(range(first + 1, first + _BLOCK))
    raise RuntimeError("all ports of tests are in use")


def _is_free(ip: str, port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind((ip, port))
        except OSError as e:
            if e.errno != errno.EADDRINUSE:
                raise
            return False
    return True


_ours = _block()
