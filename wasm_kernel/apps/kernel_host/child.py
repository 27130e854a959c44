"""What a host forked for a request: reads it, becomes what its requester would have started, and runs a kernel."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from wasm_kernel.apps import kernel_app
from wasm_kernel.apps.kernel_host import protocol, standing
from wasm_kernel.kernel.channels import PORTS
from wasm_kernel.kernel.starter import Starter

_PATIENCE = 10.0  # seconds for a requester to say what it wants
_OF_WASMTIME = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}  # its handlers are in C, and stay
_OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # ignored by every Python


class Requester(Starter):
    """Whoever asked the host for this kernel. Its end of the connection closes when it is gone.

    Unless a process that it forked has that, too, as a pool's workers have: so the process itself is looked at as well.
    """

    def __init__(self, connection: socket.socket, kind: str) -> None:
        self._connection, self._kind = connection, kind
        self._process = os.pidfd_open(protocol.peer(connection)[0])
        self.descriptor = connection.fileno()
        self.learns_ports = kind == protocol.NEW

    def bound(self, ports: Mapping[str, int]) -> None:
        """Say that clients can connect; end if nobody listens any more: the requester may have started another."""
        try:
            line = " ".join(["kernel", str(os.getpid()), *(str(ports[name]) for name in PORTS)])
            self._connection.sendall(f"{line}\n".encode())
        except OSError:
            os._exit(1)

    def gone(self) -> bool:
        """Whether the requester is gone. What stands for a process was then killed, and so is this."""
        try:
            gone = self._connection.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
        except BlockingIOError:
            gone = bool(select.select([self._process], [], [], 0)[0])
        except OSError:
            gone = True
        if gone and self._kind == protocol.PROCESS:
            os.kill(os.getpid(), signal.SIGKILL)
        return gone


def serve(connection: socket.socket, key: str, state: Mapping[str, object]) -> NoReturn:
    """Serve the request on a connection, in a process of its own."""
    code = 1
    try:
        connection.settimeout(_PATIENCE)
        kind, wanted, arguments, environ, descriptors = protocol.receive(connection)
        connection.settimeout(None)
        if kind == protocol.STATUS:
            connection.sendall(json.dumps(state).encode() + b"\n")
            code = 0
        elif problem := _become(connection, key == wanted, environ, descriptors):
            connection.sendall(b"refused %s\n" % problem.encode())
        else:
            sys.argv = [sys.argv[0], *arguments]
            _show_as([sys.executable, *protocol.OPTIONS, *arguments])
            code = kernel_app.main(arguments, Requester(connection, kind))
    except (OSError, ValueError):  # gone, or no request
        code = 1
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException:  # noqa: BLE001 - nothing of this may run on in the host's loop
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _become(connection: socket.socket, asked_the_right_one: bool, environ: dict[str, str], given: list[int]) -> str:
    """Become the requester's process; why that is not possible, or nothing."""
    if not asked_the_right_one:
        return "this host is for another Python or environment"
    theirs = standing.of(protocol.peer(connection)[0])
    different = standing.take_over(theirs)
    if different:
        return f"the host cannot take over: {', '.join(different)}"
    os.setsid()
    folder, *streams = given
    os.fchdir(folder)
    os.close(folder)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _streams_anew()
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    tempfile.tempdir = None  # it goes by the environment
    _signals_like(theirs)
    return ""


def _show_as(command: list[str]) -> None:
    """Let `ps` show this process as the kernel it is, not as the host.

    The command line is where the system put it, followed by the first environment, which nothing uses any more. If its
    last byte is not zero, the system takes it for one text that may go on into the environment.
    """
    places = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49]
    start, end, _, last = map(int, places)
    if not start or not end < last:
        return  # another kind of system
    text = os.fsencode(" ".join(command)).ljust(end - start)[: last - start - 1]
    ctypes.memmove(start, text.ljust(last - start, b"\0"), last - start)


def _streams_anew() -> None:
    """The standard streams, as a new Python makes them: how they are buffered depends on what they lead to."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        through = bool(old.write_through)  # PYTHONUNBUFFERED, which a host shares with its kernels
        raw = open(number, "wb" if number else "rb", 0 if through and number else -1, closefd=False)  # noqa: SIM115
        by_line = not through and (name == "stderr" or os.isatty(number))
        new = io.TextIOWrapper(raw, old.encoding, old.errors, "\n" if number else None, by_line, through)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _signals_like(theirs: standing.Standing) -> None:
    """Dispositions and mask as after an exec: what was ignored is ignored, the rest as a new Python has it."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - _OF_WASMTIME - {signal.SIGKILL, signal.SIGSTOP}:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        ignored = number in _OF_PYTHON or theirs.ignored >> (number - 1) & 1
        signal.signal(number, signal.SIG_IGN if ignored else usual)
    blocked = {number for number in signal.valid_signals() if theirs.blocked >> (number - 1) & 1}
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
