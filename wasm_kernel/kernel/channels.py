"""A kernel's five sockets: bound as the connection file says, used from the threads that need them.

Shell belongs to the main thread, control to a thread of its own, stdin to the main thread, the heartbeat to libzmq.
IOPub is written by all of them, and by the sandbox's thread: one lock, and no thread in between, so that what is sent
first arrives first and nothing has to be flushed.

With keys in the connection file (a manager's `transport_encryption`) all five speak CurveZMQ: clients without
the public key get no answer, and nobody in between can read or change anything.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zmq

if TYPE_CHECKING:
    import asyncio

CURVE_KEYS = ("curve_publickey", "curve_secretkey")
PORTS = ("shell_port", "control_port", "stdin_port", "iopub_port", "hb_port")
_PORT_PATIENCE = 1.0  # seconds
_GATHER_SECONDS = 0.002
_MORE, _EVENTS, _READABLE = int(zmq.SNDMORE), int(zmq.EVENTS), int(zmq.POLLIN)
_LINGER = 1000  # ms that pending messages get when the kernel ends


class BadConnectionFile(ValueError):
    """The connection file cannot be used; the message says why."""


def read_connection_file(path: Path) -> dict[str, Any]:
    """Read the connection file."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as e:
        raise BadConnectionFile(f"the connection file {str(path)!r} cannot be read: {e.strerror}") from None
    except ValueError as e:
        raise BadConnectionFile(f"the connection file {str(path)!r} is not JSON: {e}") from None
    if not isinstance(found, dict) or not all(isinstance(found.get(port), int) for port in PORTS):
        raise BadConnectionFile(f"the connection file {str(path)!r} does not name all of {', '.join(PORTS)}")
    return found


def _curve_keys(connection: dict[str, Any]) -> tuple[bytes, bytes] | None:
    """The public and the secret key, if the connection file asks for encryption. Never silently goes without."""
    public, secret = (connection.get(name) for name in CURVE_KEYS)
    if public is None and secret is None:
        return None
    if not zmq.has("curve"):
        raise BadConnectionFile(
            "the connection file asks for encryption, which this pyzmq does not support; install one built with "
            "CurveZMQ, or set KernelManager.transport_encryption to 'disabled'"
        )
    if public is None or secret is None:
        missing = CURVE_KEYS[0] if public is None else CURVE_KEYS[1]
        raise BadConnectionFile(f"the connection file has no {missing}; encryption needs both keys")
    try:
        keys = public.encode("ascii"), secret.encode("ascii")
        derived = zmq.curve_public(keys[1])
    except (AttributeError, ValueError, zmq.ZMQError):
        raise BadConnectionFile(
            f"{' and '.join(CURVE_KEYS)} of the connection file must be 40 characters each, in Z85"
        ) from None
    if derived != keys[0]:
        raise BadConnectionFile(f"{' and '.join(CURVE_KEYS)} of the connection file do not belong together")
    return keys


def readable(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message can be received."""
    return bool(int(socket.getsockopt(_EVENTS)) & _READABLE)


class QuickSocket(zmq.Socket[bytes]):
    """A socket that sends a message in a third of the time: pyzmq's flags are enumerations, slow to combine."""

    def send_multipart(self, msg_parts: Sequence[Any], *args: Any, **options: Any) -> None:
        """Send a message of small frames."""
        send = super(zmq.Socket, self).send  # the one in C: the other looks at options that are not given here
        for frame in msg_parts[:-1]:
            send(frame, _MORE)
        send(msg_parts[-1])


class IOPub:
    """The IOPub socket. `Session.send` can use it as a socket."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._lock = threading.Lock()
        self.fd: int = socket.FD
        self.welcome: Callable[[bytes], list[bytes]] | None = None  # the frames that greet a new subscriber
        self._gathers = False
        self._gathered: list[Callable[[], list[Any]]] = []

    def send_multipart(self, frames: list[Any], *args: Any, **options: Any) -> None:
        """Send to every subscriber. Called on any thread."""
        self.send_made(lambda: frames)

    def send_made(self, make: Callable[[], list[Any]]) -> None:
        """The same, with frames that are made when they are sent. ``make`` must not send any."""
        with self._lock:
            self._gathered.append(make)
            if not self._gathers:
                self._send()

    @contextlib.contextmanager
    def gathering(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """While a cell is on its way to the guest, nothing is made or sent: that would only hold it up.

        All of it is sent in order by `send_gathered`, after a moment, and at the end.
        """
        with self._lock:
            self._gathers = True
        late = loop.call_later(_GATHER_SECONDS, self.send_gathered)
        try:
            yield
        finally:
            late.cancel()
            self.send_gathered()

    def send_gathered(self) -> None:
        """Send what waits, in order, and from now on at once. Called on any thread, also if nothing is gathered."""
        with self._lock:
            self._gathers = False
            self._send()

    def _send(self) -> None:
        messages, self._gathered = self._gathered, []
        if self._socket.closed or not messages:
            return
        self._greet()  # before anything else: iopub_welcome is the first thing a subscriber gets
        for make in messages:
            with contextlib.suppress(ValueError, TypeError):  # no JSON: half a surrogate, in a request's header or code
                self._socket.send_multipart(make())
        self._greet()  # the descriptor does not signal a subscription that sending has already read

    def look_for_subscribers(self) -> None:
        """Greet new subscribers; to be called when ``fd`` is readable."""
        with self._lock:
            if not self._socket.closed:
                self._greet()

    def _greet(self) -> None:
        while readable(self._socket):
            frame = self._socket.recv()
            if frame[:1] == b"\x01" and self.welcome is not None:
                self._socket.send_multipart(self.welcome(frame[1:]))

    def close(self) -> None:
        """Close the socket."""
        with self._lock:
            self._send()
            self._socket.close(_LINGER)


class Channels:
    """The sockets, bound."""

    def __init__(self, connection: dict[str, Any], *, others: bool = False) -> None:
        """``others``: take another port in place of one that is in use."""
        self._others = others
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._keys = _curve_keys(connection)
        self.ports: dict[str, int] = {}
        self.shell = self._bind(zmq.ROUTER, "shell_port", connection)
        self.control = self._bind(zmq.ROUTER, "control_port", connection)
        self.stdin = self._bind(zmq.ROUTER, "stdin_port", connection)
        self.iopub = IOPub(self._bind(zmq.XPUB, "iopub_port", connection))
        self._heartbeat = self._bind(zmq.ROUTER, "hb_port", connection)
        threading.Thread(target=self._beat, name="wasm-kernel-heartbeat", daemon=True).start()

    def _bind(self, kind: int, port: str, connection: dict[str, Any]) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind, QuickSocket)
        socket.linger = _LINGER
        if kind == zmq.ROUTER:
            socket.router_handover = 1  # a client that reconnects under its name is the same client
        if kind == zmq.XPUB:
            socket.xpub_verbose = 1
            socket.sndhwm = 0  # a slow front end loses nothing; what a cell may send is bounded
        if self._keys is not None:
            socket.curve_publickey, socket.curve_secretkey = self._keys
            socket.curve_server = True
        wanted = connection[port]
        transport, ip = connection.get("transport", "tcp"), connection.get("ip", "127.0.0.1")
        try:
            if transport == "ipc":
                number = wanted or _free_ipc_number(ip)
                socket.bind(f"ipc://{ip}-{number}")
            elif wanted and self._can_be_had(socket, f"{transport}://{ip}:{wanted}"):
                number = wanted
            else:
                number = socket.bind_to_random_port(f"{transport}://{ip}")
        except zmq.ZMQError as e:
            raise BadConnectionFile(f"{port} {wanted} of the connection file cannot be bound: {e}") from None
        self.ports[port] = number
        return socket

    def _can_be_had(self, socket: zmq.Socket[bytes], address: str) -> bool:
        """Bind a socket to a port; False: somebody has it, and another one will do."""
        try:
            _bind_patiently(socket, address, 0.0 if self._others else _PORT_PATIENCE)
        except zmq.ZMQError as e:
            if e.errno != errno.EADDRINUSE or not self._others:
                raise
            return False
        return True

    def _beat(self) -> None:
        with contextlib.suppress(zmq.ZMQError):  # ends when the context does
            zmq.proxy(self._heartbeat, self._heartbeat)
        self._heartbeat.close(0)

    def close(self) -> None:
        """Send what is pending, then close. The control thread must have ended."""
        self.shell.close(_LINGER)
        self.control.close(_LINGER)
        self.stdin.close(_LINGER)
        self.iopub.close()
        self._context.term()


def _bind_patiently(socket: zmq.Socket[bytes], to: str, patience: float) -> None:
    """Bind a socket; a kernel that was killed a moment ago may still be about to leave the port."""
    end = time.monotonic() + patience
    while True:
        try:
            socket.bind(to)
            return
        except zmq.ZMQError as e:
            if e.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise
        time.sleep(0.01)


def _free_ipc_number(ip: str) -> int:
    number = 1
    while Path(f"{ip}-{number}").exists():
        number += 1
    return number
