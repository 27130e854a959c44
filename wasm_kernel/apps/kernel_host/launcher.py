"""`python -m wasm_kernel`: a kernel from the host, for which this process stands; without a host, a kernel itself.

For clients that know no provisioners. What it imports is what Python has loaded anyway: it is to take milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys

from wasm_kernel.apps.kernel_host import address, protocol
from wasm_kernel.kernel.starter import Starter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

_PATIENCE = 20.0  # seconds for a kernel to bind its sockets
_PARENT = 0.5  # seconds between looks whether the parent is gone
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")


def main() -> int:
    """Run a kernel until it is shut down; its exit status."""
    arguments, starter = sys.argv[1:], Starter()
    if "-f" in arguments[:-1] and sys.orig_argv[1:4] == protocol.OPTIONS and address.wanted(os.environ):
        connection = _asked(arguments)
        if connection is not None:
            pid = _kernel(connection)
            if pid is not None:
                return _stand_for(pid, connection, starter)
            connection.close()
    from wasm_kernel.apps import kernel_app

    return kernel_app.main(arguments, aside=_start_aside)


def _start_aside() -> None:
    from wasm_kernel.apps.kernel_host.starting import start_aside

    if address.wanted(os.environ):
        start_aside(os.environ)


def _asked(arguments: list[str]) -> _socket.socket | None:
    """A connection to the host with a request on its way; None without a host."""
    try:
        for stream in (0, 1, 2):
            os.fstat(stream)
    except OSError:  # closed: the connection would take its number, and the kernel hold the launcher's end of it
        return None
    key = address.key(sys.executable, os.environ)
    connection = protocol.connect(address.socket_path(os.environ, key))
    if connection is None:
        return None
    try:
        folder = os.open(".", os.O_PATH | os.O_CLOEXEC)
        connection.settimeout(_PATIENCE)
        data = protocol.request(protocol.PROCESS, key, arguments, os.environ)
        connection.sendall(data[protocol.send(connection, data, [folder, 0, 1, 2]) :])
        os.close(folder)
    except OSError:  # a folder that is gone, a host that just ended
        connection.close()
        return None
    return connection


def _kernel(connection: _socket.socket) -> int | None:
    """The kernel's process, once its sockets are bound; None if there will be none."""
    try:
        line = connection.recv(4096)
    except OSError:
        return None
    return int(line.split()[1]) if line.startswith(b"kernel ") else None


def _stand_for(pid: int, connection: _socket.socket, starter: Starter) -> int:
    """Pass signals on to the kernel, and end as it does."""
    kernel = os.pidfd_open(pid)

    def pass_on(number: int, _: object) -> None:
        try:
            signal.pidfd_send_signal(kernel, number)
        except ProcessLookupError:
            pass

    for name in _PASSED_ON:
        number = getattr(signal, name)
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    status = _status_at_end(connection, starter, lambda: pass_on(signal.SIGTERM, None))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _status_at_end(connection: _socket.socket, starter: Starter, terminate: Callable[[], None]) -> int:
    """Wait for the kernel's end, and terminate it when whoever started this is gone; its status as of `os.waitpid`."""
    connection.settimeout(_PARENT)
    told = False
    while True:
        try:
            line = connection.recv(4096)
        except TimeoutError:
            if not told and starter.gone():
                told = True
                terminate()
            continue
        except OSError:
            line = b""
        return int(line[4:]) if line.startswith(b"end ") else int(signal.SIGKILL)  # the host ended first: nobody knows
