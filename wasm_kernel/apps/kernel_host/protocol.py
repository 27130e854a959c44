"""What is said between a host and those who want a kernel of it. Imported by the launcher: no module that takes time.

A request is a number of bytes (four bytes, little-endian) and so many bytes of fields, divided by NUL; four descriptors
travel with its beginning: the working folder, stdin, stdout, stderr. Answers are lines: ``kernel PID``, with its ports,
when its sockets are bound, ``refused WHY``, and, from the host, ``end STATUS`` as `os.waitpid` has it.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    AnySocket = socket.socket | _socket.socket

PROCESS, CONNECTION, NEW, STATUS = "process", "connection", "new", "status"
"""Kinds of request. The kernel's requester stands for it, and its end is the kernel's (a launcher); or it manages the
kernel, and its end lets the kernel close its session (a provisioner). The same, and no client knows the ports yet: the
kernel may take others than those of its connection file. Or no kernel is wanted, but the host's state."""
OPTIONS = ["-P", "-m", "wasm_kernel"]  # what a Python is started with that becomes a kernel
_DESCRIPTORS = 4
_MOST = 16 << 20


def connect(path: str) -> _socket.socket | None:
    """A connection to the host at a path, if this user's host is there. Does not wait."""
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        connection.connect(path)
    except OSError:  # nobody there, or too many at once
        return None
    if peer(connection)[1] != os.getuid():
        connection.close()
        return None
    return connection


def peer(connection: AnySocket) -> tuple[int, int]:
    """The process and the user at the other end, as the system knows them."""
    found = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)


def request(kind: str, key: str, arguments: list[str], environ: Mapping[str, str]) -> bytes:
    """The bytes of a request."""
    fields = [kind, key, str(len(arguments)), *arguments, *(f"{name}={value}" for name, value in environ.items())]
    data = os.fsencode("\0".join(fields))
    return len(data).to_bytes(4, "little") + data


def send(connection: AnySocket, data: bytes, descriptors: list[int]) -> int:
    """Send the beginning of a request with its descriptors; how many bytes were sent."""
    packed = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    return connection.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])


def receive(connection: socket.socket) -> tuple[str, str, list[str], dict[str, str], list[int]]:
    """Read a request: its kind, key, arguments, environment and descriptors. `ValueError`: it is none."""
    data, ancillary, *_ = connection.recvmsg(4, _socket.CMSG_SPACE(4 * _DESCRIPTORS), _socket.MSG_CMSG_CLOEXEC)
    packed = b"".join(part for level, kind, part in ancillary if kind == _socket.SCM_RIGHTS)
    descriptors = [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed) // 4 * 4, 4)]
    length = int.from_bytes(_exactly(connection, 4, data), "little")
    if len(descriptors) != _DESCRIPTORS or length > _MOST:
        raise ValueError("no request")
    kind, key, count, *rest = os.fsdecode(_exactly(connection, length)).split("\0")
    arguments, variables = rest[: int(count)], rest[int(count) :]
    environ = dict(variable.split("=", 1) for variable in variables if variable)
    return kind, key, arguments, environ, descriptors


def _exactly(connection: socket.socket, length: int, begun: bytes = b"") -> bytes:
    parts = bytearray(begun)
    while len(parts) < length:
        more = connection.recv(min(length - len(parts), 1 << 20))
        if not more:
            raise ValueError("a request that ends before its end")
        parts += more
    return bytes(parts)
