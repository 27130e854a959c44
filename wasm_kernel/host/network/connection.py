"""One connection that the host holds for a guest. On the sandbox's thread, which never blocks in it.

It is *busy* while a step (connecting, agreeing on TLS) is done on another thread. What the guest sends is taken at
once, up to a little, and goes out when the other end takes it.
"""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from wasm_kernel.host.network.faults import Fault, Kind, fault_of
from wasm_kernel.host.network.opening import BackgroundStep, secure, wrapped
from wasm_kernel.host.network.secret_headers import SecretHeaders
from wasm_kernel.model.network_grants import HostGrant, with_port
from wasm_kernel.model.public_addresses import Address, as_address

MOST_AT_ONCE = 1 << 18  # bytes that are sent or received in one go
_MOST_CERTIFICATE = 64 << 10
READ, WRITE = 1, 2
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """A connection, or what will be one.

    Attributes:
        name: The host that the guest asked for.
        port: Its port.
        granted: The grants that let it be.
        opened_at: When it was asked for.
        sent: Bytes that the guest sent.
        received: Bytes that it got.
        problem: Why it was not opened, or was ended; empty if nothing went wrong.
        secured: Whether it is encrypted, or was meant to be.
        ended: Whether it was closed.
    """

    def __init__(
        self,
        name: str,
        port: int,
        step: BackgroundStep[socket.socket],
        wake: Callable[[], None],
        granted: frozenset[HostGrant] = frozenset(),
    ) -> None:
        """``wake``: to be called when a step is done, on any thread."""
        self.name, self.port, self.granted = name, port, granted
        self.opened_at, self._began = datetime.now(UTC), time.monotonic()
        self.sent = self.received = 0
        self.problem = ""
        self._wake = wake
        self._step: BackgroundStep[Any] | None = step
        self._sock: socket.socket | None = None
        self._unsent = b""
        self._heads: SecretHeaders | None = None
        self.secured = self.ended = False

    @property
    def where(self) -> str:
        """The host and port, for a person."""
        return with_port(self.name, self.port)

    @property
    def address(self) -> Address | None:
        """The address that it leads to, be it a proxy's; None if it does not, or not yet."""
        with contextlib.suppress(OSError):
            return as_address(self._sock.getpeername()[0]) if self._sock is not None else None
        return None

    @property
    def seconds(self) -> float:
        """How long it has been there."""
        return time.monotonic() - self._began

    # ---- steps

    @property
    def busy(self) -> bool:
        """Whether a step is being done."""
        return self._step is not None and self._step.running

    @property
    def step(self) -> BackgroundStep[Any] | None:
        """The step that is being done, or whose end nobody has looked at."""
        return self._step

    def finish(self) -> dict[str, Any]:
        """Take the result of a step that is done; what the guest may know of it. Raises `Fault`."""
        step, self._step = self._step, None
        if step is not None:
            try:
                self._sock = step.result()
            except Fault as e:
                self.problem = e.text
                raise
        return _description(self._sock) if isinstance(self._sock, ssl.SSLSocket) else {}

    def start_tls(self, name: str, protocols: tuple[str, ...], seconds: float, heads: SecretHeaders | None) -> None:
        """Begin to agree on TLS, for a name. ``heads``: what puts secrets into requests on it."""
        sock = self._usable()
        if self.secured or isinstance(sock, ssl.SSLSocket):
            raise Fault(Kind.TLS, f"the connection to {self.where} is encrypted already")
        if self._unsent:
            raise Fault(Kind.TLS, f"the connection to {self.where} has something to send first")
        self.secured = True
        try:
            secured = wrapped(sock, name, protocols)
        except (OSError, ValueError) as e:
            self._sock = None
            raise fault_of(e, self.where) from None
        self._sock, self._heads = secured, heads
        self._step = BackgroundStep(lambda: secure(secured, seconds), self.where, self._wake, _close)

    # ---- bytes

    def receive(self, size: int) -> bytes | None:
        """What has arrived, up to so much; empty at the end, None if there is nothing yet. Raises `Fault`."""
        sock = self._usable()
        with contextlib.suppress(Fault):  # a server may say why it takes no more, and close: that can still be read
            self._flush()
        try:
            data = sock.recv(min(size, MOST_AT_ONCE))
        except _AGAIN:
            return None
        except ssl.SSLEOFError:
            data = b""
        except OSError as e:
            raise self._broken(e) from None
        self.received += len(data)
        return data

    def send(self, data: bytes) -> int | None:
        """Take bytes to send: how many, or None if it cannot take any now. Raises `Fault`."""
        self._usable()
        self._flush()
        if self._unsent:
            return None
        taken = data[:MOST_AT_ONCE]
        self._unsent = self._heads.feed(taken) if self._heads is not None else taken
        self.sent += len(taken)
        self._flush()
        return len(taken)

    def shut_down(self, how: int) -> None:
        """End one direction, or both. What was taken is sent first, as far as the other end takes it now."""
        sock = self._usable()
        self._flush()
        with contextlib.suppress(OSError):
            if not isinstance(sock, ssl.SSLSocket):
                sock.shutdown(how)
            elif how != socket.SHUT_RD:  # of TLS, one half cannot be ended and the other go on
                socket.socket.shutdown(sock, socket.SHUT_WR)

    @property
    def has_unsent(self) -> bool:
        """Whether something was taken and is still to be sent."""
        return bool(self._unsent) and self._sock is not None

    def _flush(self) -> None:
        sock = self._usable()
        while self._unsent:
            try:
                count = sock.send(self._unsent)
            except _AGAIN:
                return
            except OSError as e:
                raise self._broken(e) from None
            self._unsent = self._unsent[count:]

    def _usable(self) -> socket.socket:
        if self.busy:
            raise Fault(Kind.FAILED, f"the connection to {self.where} is not ready yet")
        if self._step is not None:
            self.finish()
        if self._sock is None:
            raise Fault(Kind.RESET, self.problem or f"the connection to {self.where} is closed")
        return self._sock

    def _broken(self, error: OSError) -> Fault:
        fault = fault_of(error, self.where)
        self.problem = fault.text
        return fault

    # ---- waiting

    def ready(self, events: int) -> int:
        """Which of these events are there already, without asking the system."""
        if self._step is not None:
            return 0 if self.busy else events
        if self._sock is None:
            return events
        with contextlib.suppress(ValueError):
            if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
                return events & READ
        return 0

    def watched(self, events: int) -> tuple[int, int] | None:
        """The descriptor and the events to ask the system for; None while a step is done."""
        if self._step is not None or self._sock is None:
            return None
        mask = select.POLLIN if events & READ else 0
        if events & WRITE or self._unsent:
            mask |= select.POLLOUT
        return self._sock.fileno(), mask

    def happened(self, mask: int, events: int) -> int:
        """What the system's answer means: which of these events."""
        ended = mask & (select.POLLHUP | select.POLLERR | select.POLLNVAL)
        if mask & select.POLLOUT and self._unsent:
            with contextlib.suppress(Fault):  # the guest learns it when it next uses this
                self._flush()
        readable = READ if mask & select.POLLIN or ended else 0
        writable = WRITE if ended or (mask & select.POLLOUT and not self._unsent) else 0
        return events & (readable | writable)

    def close(self) -> None:
        """Let go of it. A step that is being done ends soon, by itself."""
        self.ended = True
        step, self._step = self._step, None
        sock, self._sock = self._sock, None
        if sock is not None:
            with contextlib.suppress(OSError):  # also ends a step that uses it
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        if step is not None:
            step.abandon()
        elif sock is not None:
            _close(sock)


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.close()


def _description(sock: ssl.SSLSocket) -> dict[str, Any]:
    """What a guest may know of an encrypted connection: what any client sees."""
    certificate = sock.getpeercert(binary_form=True) or b""
    small = len(certificate) <= _MOST_CERTIFICATE
    return {
        "version": sock.version(),
        "cipher": sock.cipher(),
        "alpn": sock.selected_alpn_protocol(),
        "peer": sock.getpeercert() if small else {},
        "certificate": base64.b64encode(certificate).decode() if small else "",
    }
