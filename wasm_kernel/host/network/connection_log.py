"""A line for every connection of a session: which host and port, when, how many bytes, and what went wrong.

    {"time": "2026-11-18T13:05:00Z", "ended": "2026-11-18T13:05:01Z", "host": "api.github.com", "port": 443,
     "encrypted": true, "sent": 512, "received": 20480, "seconds": 0.8, "problem": "", "session_bytes": 123456}

It is beside the session's input history, out of the guest's sight, and goes with the session. This line is written when
the connection ends; a shorter one, without ``ended``, when it begins, so that a kernel that is killed leaves it, too.
``session_bytes`` is all that the session has sent and received by then. The file has 1 MB at most, and so has the one
before it.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.host.network.connection import Connection
from wasm_kernel.model.records import format_time

NAME = "network.jsonl"
_MOST = 1 << 20
_TAIL = 4096  # bytes: a line is shorter


def line_of(connection: Connection, session_bytes: int) -> dict[str, Any]:
    """What is written of a connection that begins, or has ended."""
    begun = {"time": format_time(connection.opened_at), "host": connection.name, "port": connection.port}
    if not connection.ended:
        return {**begun, "sent": 0, "received": 0, "session_bytes": session_bytes}
    return {
        **begun,
        "ended": format_time(datetime.now(UTC)),
        "encrypted": connection.secured,
        "sent": connection.sent,
        "received": connection.received,
        "seconds": round(connection.seconds, 3),
        "problem": connection.problem[:300],
        "session_bytes": session_bytes,
    }


class ConnectionLog:
    """The log of one session; its folder is made with the first line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def session_bytes(self) -> int:
        """What the session had sent and received by the last line."""
        for path in (self._path, self._before):
            for line in reversed(_tail(path, _TAIL).splitlines()):  # a power cut may have damaged the last one
                with contextlib.suppress(ValueError, AttributeError):
                    count = json.loads(line).get("session_bytes")
                    if type(count) is int and count >= 0:
                        return count
        return 0

    def add(self, line: dict[str, Any]) -> None:
        """Append a line. What cannot be written (a full disk) is not: the connection has ended all the same."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(self._path, flags, 0o600)
            try:
                size = os.fstat(handle).st_size
                torn = size and os.pread(handle, 1, size - 1) != b"\n"  # by a power cut: this line begins anew
                size += os.write(handle, ("\n" * bool(torn) + json.dumps(line) + "\n").encode())
            finally:
                os.close(handle)
            if size >= _MOST:
                self._path.rename(self._before)

    def lines(self) -> list[dict[str, Any]]:
        """One line for each connection that is kept, oldest first; without ``ended`` if it is open, or was when its
        kernel was killed.
        """
        found: list[dict[str, Any]] = []
        for path in (self._before, self._path):
            for text in _tail(path, 2 * _MOST).splitlines():
                with contextlib.suppress(ValueError):
                    line = json.loads(text)
                    if isinstance(line, dict):
                        found.append(line)
        over = {_begun(line) for line in found if "ended" in line}
        return [line for line in found if "ended" in line or _begun(line) not in over]

    @property
    def _before(self) -> Path:
        return self._path.with_name(f"{NAME}.1")


def _begun(line: dict[str, Any]) -> str:
    """What both lines of a connection have in common."""
    return repr([line.get(name) for name in ("time", "host", "port")])


def _tail(path: Path, most: int) -> bytes:
    """The end of a file; nothing if there is no such file. Whoever else can write there cannot make this wait."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(handle, most, max(0, os.fstat(handle).st_size - most))
    except OSError:
        return b""
    finally:
        os.close(handle)
