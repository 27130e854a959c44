"""Opening a connection and securing it: blocking steps, which a `BackgroundStep` does on a thread of its own.

A look-up cannot be interrupted and a server may answer slowly, so the guest's thread never does any of it; it looks
whether a step is done, and leaves it alone when the guest no longer waits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

from wasm_kernel.host.network import proxies, resolving
from wasm_kernel.host.network.faults import Fault, fault_of
from wasm_kernel.model.network_grants import Reach
from wasm_kernel.model.public_addresses import as_address

T = TypeVar("T")


class BackgroundStep(Generic[T]):
    """Work on a thread. What it makes of a connection after it was abandoned is closed."""

    def __init__(
        self, work: Callable[[], T], where: str, wake: Callable[[], None], discard: Callable[[T], None]
    ) -> None:
        self._work, self._where, self._wake, self._discard = work, where, wake, discard
        self._lock = threading.Lock()
        self._result: T | None = None
        self._fault: Fault | None = None
        self.done = self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="wasm-kernel-connect", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        result, fault = None, None
        try:
            result = self._work()
        except Exception as e:  # noqa: BLE001 - told to the guest
            fault = fault_of(e, self._where)
        with self._lock:
            self._result, self._fault, self.done = result, fault, True
            if self._abandoned and result is not None:
                self._discard(result)
        self._wake()

    @property
    def running(self) -> bool:
        """Whether its thread still does something."""
        return not self.done

    def result(self) -> T:
        """What it made, once it is done. Raises `Fault`."""
        if self._fault is not None:
            raise self._fault
        assert self._result is not None
        return self._result

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._abandoned = True
            if self.done and self._result is not None:
                self._discard(self._result)


def open_socket(name: str, port: int, reach: Reach, seconds: float, allow: Callable[[str], str]) -> socket.socket:
    """A connection to a host that is granted. Blocks."""
    end = time.monotonic() + seconds
    proxy = proxies.proxy_for(name, port)
    if proxy is None:
        return _first(resolving.addresses(name, port, reach, allow), port, end)
    try:
        resolving.addresses(name, port, reach, allow)  # the proxy will look again; what we see must be allowed
    except socket.gaierror:
        if as_address(name) is not None:
            raise
    sock = socket.create_connection((proxy.host, proxy.port), _left(end))
    try:
        sock.settimeout(_left(end))
        proxies.tunnel(sock, proxy, name, port)
    except BaseException:
        sock.close()
        raise
    return _prepared(sock)


def _first(found: resolving.Found, port: int, end: float) -> socket.socket:
    """The first address that answers. These are addresses: nothing is looked up any more."""
    error: OSError | None = None
    for number, (address, family) in enumerate(found):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(_left(end) / (len(found) - number))
            sock.connect((address, port))
            return _prepared(sock)
        except OSError as e:
            sock.close()
            error = e
    assert error is not None
    raise error


def _prepared(sock: socket.socket) -> socket.socket:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def wrapped(sock: socket.socket, name: str, protocols: tuple[str, ...]) -> ssl.SSLSocket:
    """A connection on which `secure` will agree on TLS, for a name. Nothing is sent yet.

    Nothing that a guest says changes what is checked: the certificate is, by the host's own list of authorities.
    """
    environ = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return _context(protocols, environ).wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)


@lru_cache(maxsize=8)
def _context(protocols: tuple[str, ...], environ: tuple[str | None, ...]) -> ssl.SSLContext:
    """Reading the list of authorities takes a while. ``environ``: where else they may be."""
    context = ssl.create_default_context()
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def secure(sock: ssl.SSLSocket, seconds: float) -> ssl.SSLSocket:
    """Agree on TLS. Blocks."""
    sock.settimeout(seconds)
    sock.do_handshake()
    sock.setblocking(False)
    return sock
