"""A kernel's process that a host forked, as its requester has it: like a `subprocess.Popen`, but no child."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket

_UNKNOWN = int(signal.SIGKILL)  # the host ended before the kernel: nobody waited for it
_open: set[HostedProcess] = set()  # a kernel does not end because nobody keeps its object


class HostedProcess:
    """A kernel. Its connection stays open while it runs: a kernel ends when that is closed.

    Attributes:
        returncode: As of a `subprocess.Popen`: None while it runs.
        ports: Of its sockets, in the order of `channels.PORTS`.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int, ports: list[int], connection: socket.socket, args: list[str]) -> None:
        self.pid, self.ports, self.args = pid, ports, args
        self.returncode: int | None = None
        self._connection = connection
        self._handle = os.pidfd_open(pid)  # another process may get the number
        _open.add(self)

    def poll(self) -> int | None:
        """How it ended, or None."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        found = self._look(timeout)
        if found is None:
            raise TimeoutError(f"kernel {self.pid} has not ended after {timeout} s")
        return found

    def _look(self, patience: float | None) -> int | None:
        if self.returncode is None and self._readable(patience):
            try:
                line = self._connection.recv(4096)
            except OSError:
                line = b""
            status = int(line[4:]) if line.startswith(b"end ") else _UNKNOWN
            self.returncode = os.waitstatus_to_exitcode(status)
            self._connection.close()
            os.close(self._handle)
            _open.discard(self)
        return self.returncode

    def _readable(self, patience: float | None) -> bool:
        waiting = select.poll()  # which, unlike select, takes any descriptor: servers have many
        waiting.register(self._connection, select.POLLIN)
        return bool(waiting.poll(None if patience is None else patience * 1000))

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)
