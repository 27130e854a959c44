"""A host: listens, forks, and reports how kernels ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from wasm_kernel.apps.kernel_host import child, protocol
from wasm_kernel.apps.kernel_host.freshness import Freshness

_BACKLOG = 64


class HostProcess:
    """The one process that forks kernels. ``run`` returns when it is no longer needed, or was told to end."""

    def __init__(self, path: Path, key: str, image: str, idle_seconds: float, lock: int) -> None:
        self._lock = lock  # of the path
        self._path, self._key, self._image, self._idle = path, key, image, idle_seconds
        self._made_of = Freshness()
        self._kernels: dict[int, socket.socket] = {}  # and whoever waits for their end
        self._started = time.time()
        self._last = time.monotonic()
        self._listener: socket.socket | None = self._listen()
        self._told, self._tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        self._ends = False
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)

    def _listen(self) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._inode = self._path.stat().st_ino
        return listener

    def _end(self, *_: object) -> None:
        self._ends = True

    def run(self) -> None:
        """Serve until nobody needs it: idle, stopped, or retired and without kernels."""
        while not self._ends and (self._listener is not None or self._kernels):
            waiting = [self._told] if self._listener is None else [self._told, self._listener.fileno()]
            ready, _, _ = select.select(waiting, [], [], self._patience())
            if self._told in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._told, 4096)
            self._reap()
            if self._listener is not None and self._listener.fileno() in ready:
                self._serve(self._listener)
            elif not self._kernels and time.monotonic() - self._last >= self._idle:
                break
        self._retire()

    def _patience(self) -> float | None:
        return None if self._kernels else max(0.0, self._last + self._idle - time.monotonic())

    def _reap(self) -> None:
        while self._kernels:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._last = time.monotonic()
            with contextlib.closing(self._kernels.pop(pid)) as connection, contextlib.suppress(OSError):
                connection.send(b"end %d\n" % status, socket.MSG_DONTWAIT)

    def _serve(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # whoever it was is gone
            return
        if protocol.peer(connection)[1] != os.getuid():
            connection.close()
            return
        self._last = time.monotonic()
        if self._made_of.lost:
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.send(b"refused the package or the image is another now\n", socket.MSG_DONTWAIT)
            self._retire()
            return
        self._fork(connection, listener)

    def _fork(self, connection: socket.socket, listener: socket.socket) -> None:
        try:
            pid = os.fork()
        except OSError as e:  # too many processes; whoever starts one itself gets the same answer
            print(f"no kernel: {e}", file=sys.stderr, flush=True)
            connection.close()
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            listener.close()
            for other in self._kernels.values():
                other.close()
            for descriptor in (self._told, self._tell, self._lock):
                os.close(descriptor)
            child.serve(connection, self._key, self._state())
        self._kernels[pid] = connection

    def _state(self) -> dict[str, object]:
        return {
            "pid": os.getppid(),
            "python": sys.executable,
            "image": self._image,
            "started": self._started,
            "idle_seconds": self._idle,
            "kernels": sorted(self._kernels),
        }

    def _retire(self) -> None:
        """Take no more requests. Who asks from now on finds nobody, and starts another host."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                if self._path.stat().st_ino == self._inode:
                    self._path.unlink()
            self._listener.close()
            self._listener = None
            os.close(self._lock)
