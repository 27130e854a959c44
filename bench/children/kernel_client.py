"""A Jupyter client that measures kernels. A native worker imports it, so nothing of it or of its libraries' memory is
shared with wasm-kernel's processes.

Its sockets try to connect every few milliseconds instead of every hundred as zmq's do when left alone, so that a start
is as long as the kernel takes, not the next tenth of a second.
"""

import math
import os
import queue
import select
import signal
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq
from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session

FRAME = "import pandas as pd; pd.DataFrame({'a': [1, 2]})"
_SHOWN = "1  2"
LINES = 100_000
_PRINTED = "".join(f"{i}\n" for i in range(LINES))
_PATIENCE = 60.0  # for anything
_SILENCE = 2.0  # after the reply: what has not arrived by then is lost
_NUDGE = 0.02
_REST = 1.0
_CONTEXT = zmq.Context()

Message = dict[str, Any]


class KernelGone(Exception):
    """The kernel's process ended, or it no longer answers."""


class Kernel:
    """A kernel's process and this client's connections to it."""

    def __init__(
        self,
        argv: list[str],
        interrupt_mode: str,
        folder: str,
        *,
        place: str | None = None,
        extra: dict[str, str] | None = None,
    ) -> None:
        """Start it in a new folder below ``folder``, or in ``place``, where another one may have been before."""
        place = place or tempfile.mkdtemp(dir=folder)
        key = os.urandom(16).hex()
        file, info = write_connection_file(os.path.join(place, f"kernel-{key[:8]}.json"), key=key.encode())
        self._session = Session(key=key.encode())
        self._by_message = interrupt_mode == "message"
        self._log = open(os.path.join(place, "log"), "wb")  # noqa: SIM115 - lives as long as the process
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            [part.replace("{connection_file}", file) for part in argv],
            cwd=place,
            env={**os.environ, "WASM_KERNEL_WORKSPACE": os.path.join(place, "workspace"), **(extra or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self._end = os.pidfd_open(self._process.pid)
        self._sockets = {
            "shell": self._connect(zmq.DEALER, info["shell_port"]),
            "iopub": self._connect(zmq.SUB, info["iopub_port"]),
            "control": self._connect(zmq.DEALER, info["control_port"]),
        }
        self._poller = zmq.Poller()
        for socket in self._sockets.values():
            self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self._end, zmq.POLLIN)
        self._waiting: queue.SimpleQueue[tuple[str, Message]] = queue.SimpleQueue()

    def _connect(self, kind: int, port: int) -> zmq.Socket[bytes]:
        socket = _CONTEXT.socket(kind)
        socket.linger = 0
        socket.reconnect_ivl = 3
        if kind == zmq.SUB:
            socket.subscribe(b"")
        else:
            socket.identity = self._session.bsession
        socket.connect(f"tcp://127.0.0.1:{port}")
        return socket

    def send(self, channel: str, kind: str, content: Message) -> str:
        """Send a request; its id."""
        message = self._session.msg(kind, content)
        self._session.send(self._sockets[channel], message)
        return str(message["header"]["msg_id"])

    def receive(self, seconds: float) -> tuple[str, Message] | None:
        """The next message and its channel; None if there is none for so long."""
        if self._waiting.empty():
            ready = dict(self._poller.poll(max(0, round(seconds * 1e3))))
            for name, socket in self._sockets.items():
                if socket in ready:
                    _, parts = self._session.feed_identities(socket.recv_multipart())
                    self._waiting.put((name, self._session.deserialize(parts)))
            if self._waiting.empty():
                if self._end in ready:
                    raise KernelGone(f"the kernel ended with {self._process.wait()}: {self.complaints()}")
                return None
        return self._waiting.get()

    def complaints(self) -> str:
        """The end of what the kernel wrote to its standard output and error."""
        return Path(self._log.name).read_text(errors="replace")[-1000:]

    def expect(self, request: str, *kinds: str) -> Message:
        """Wait for a message of one of these kinds about the request; its content. "busy" and "idle" are kinds here."""
        deadline = time.perf_counter() + _PATIENCE
        while (left := deadline - time.perf_counter()) > 0:
            received = self.receive(left)
            if received and kind_of(received[1]) in kinds and received[1]["parent_header"].get("msg_id") == request:
                return dict(received[1]["content"])
        raise KernelGone(f"no {kinds[0]} within {_PATIENCE:.0f} s: {self.complaints()}")

    def ready(self) -> float:
        """Wait for the reply to kernel_info and until what the kernel publishes arrives; when the reply came."""
        self.send("shell", "kernel_info_request", {})
        replied, heard = 0.0, False
        while not (replied and heard):
            received = self.receive(_NUDGE)
            if received and received[0] == "shell":
                replied = replied or time.perf_counter()
            heard = heard or bool(received and received[0] == "iopub")
            if replied and not received:
                self.send("shell", "kernel_info_request", {})
            if time.perf_counter() > self.started + _PATIENCE:
                raise KernelGone(f"no kernel_info_reply within {_PATIENCE:.0f} s: {self.complaints()}")
        return replied

    def execute(self, code: str, *, stop_on_error: bool = True) -> str:
        """Ask for a cell's execution; the request's id."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        return self.send("shell", "execute_request", {**content, "stop_on_error": stop_on_error})

    def run(self, code: str, status: str = "ok") -> float:
        """Run a cell to its end, which must have this status; when `idle` arrived."""
        request = self.execute(code)
        reply: Message | None = None
        idle = 0.0
        deadline = time.perf_counter() + _PATIENCE
        while reply is None or not idle:
            received = self.receive(deadline - time.perf_counter())
            if received is None:
                raise KernelGone(f"{code!r} did not end within {_PATIENCE:.0f} s: {self.complaints()}")
            message = received[1]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind_of(message) == "execute_reply":
                reply = message["content"]
            elif kind_of(message) == "idle":
                idle = time.perf_counter()
        if reply["status"] != status:
            raise RuntimeError(f"{code!r} did not end with {status!r}: {reply}")
        return idle

    def interrupt(self) -> None:
        """Interrupt what runs, in the way the kernelspec asks for."""
        if self._by_message:
            self.send("control", "interrupt_request", {})
        else:
            self._process.send_signal(signal.SIGINT)

    def shut_down(self, patience: float = 15.0) -> float:
        """Seconds from shutdown_request until the process is gone."""
        asked = time.perf_counter()
        self.send("control", "shutdown_request", {"restart": False})
        if not select.select([self._end], [], [], patience)[0]:
            raise KernelGone(f"the kernel did not shut down within {patience:.0f} s")
        return time.perf_counter() - asked

    def pss(self) -> int:
        """Proportional set size, in bytes, of the process and its children."""
        total = 0
        pids = [self._process.pid]
        for pid in pids:
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        return total

    def threads(self) -> int:
        """How many threads the process has."""
        return len(os.listdir(f"/proc/{self._process.pid}/task"))

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)
        for socket in self._sockets.values():
            socket.close()
        self._log.close()


def kind_of(message: Message) -> str:
    """A message's type; of a status, the state."""
    kind = str(message["header"]["msg_type"])
    return str(message["content"]["execution_state"]) if kind == "status" else kind


def life(argv: list[str], interrupt_mode: str, folder: str, extra: dict[str, str] | None = None) -> dict[str, float]:
    """Seconds from the start of the process to its kernel_info_reply and to its first DataFrame, and of its end."""
    with Kernel(argv, interrupt_mode, folder, extra=extra) as kernel:
        replied = kernel.ready()
        request = kernel.execute(FRAME)
        content = kernel.expect(request, "execute_result", "stream")  # akernel shows results as printed text
        shown = time.perf_counter()
        if _SHOWN not in content.get("text", "") + content.get("data", {}).get("text/plain", ""):
            raise RuntimeError(f"this is no DataFrame: {content}")
        kernel.expect(request, "idle")
        time.sleep(0.1)
        return {
            "start": replied - kernel.started,
            "frame": shown - kernel.started,
            "shutdown": kernel.shut_down(),
        }


def cells(argv: list[str], interrupt_mode: str, folder: str, count: int, interrupts: int) -> dict[str, float]:
    """Seconds of no-op cells, of errors, of many printed lines and of interrupts."""
    with Kernel(argv, interrupt_mode, folder) as kernel:
        kernel.ready()
        _trips(kernel, "pass", 20)
        trips = _trips(kernel, "pass", count)
        apart = _trips(kernel, "pass", count // 3, pause=0.05)
        errors = _trips(kernel, "1/0", count // 6, status="error", pause=0.05)
        lines, delivered = _lines(kernel)
    with Kernel(argv, interrupt_mode, folder) as kernel:  # the other one may still be printing
        kernel.ready()
        kernel.run("kept = 1")
        return {
            "trip": statistics.median(trips),
            "trip p99": trips[math.ceil(0.99 * count) - 1],
            "apart": statistics.median(apart),
            "error": statistics.median(errors),
            "lines": lines,
            "delivered": delivered,
            **_interrupts(kernel, interrupts),
        }


def _trips(kernel: Kernel, code: str, count: int, *, status: str = "ok", pause: float = 0.0) -> list[float]:
    """Seconds of cells from request to idle, the shortest first; ``pause``: seconds between one and the next."""
    trips = []
    for _ in range(count):
        time.sleep(pause)
        asked = time.perf_counter()
        trips.append(kernel.run(code, status) - asked)
    return sorted(trips)


def messages(argv: list[str], folder: str, count: int, outputs: int) -> dict[str, float]:
    """What a kernel's message loop costs, of one whose cells do nothing (`idle_kernel.py`)."""
    with Kernel(argv, "message", folder) as kernel:
        replied = kernel.ready()
        _trips(kernel, "", 20)
        trips = _trips(kernel, "", count)
        sent, ordered = _outputs(kernel, outputs)
        return {
            "start": replied - kernel.started,
            "trip": statistics.median(trips),
            "trip p99": trips[math.ceil(0.99 * count) - 1],
            "outputs": sent,
            "ordered": ordered,
            "meanwhile": _asked_meanwhile(kernel, 0.3),
            "pss": kernel.pss(),
            "threads": kernel.threads(),
        }


def _outputs(kernel: Kernel, count: int) -> tuple[float, float]:
    """Seconds of a cell that publishes lines, and 1 if all of them came, in order, before idle."""
    asked = time.perf_counter()
    request = kernel.execute(f"lines {count}")
    seen, kind = "", ""
    while kind != "idle":
        received = kernel.receive(_PATIENCE)
        if received is None:
            raise KernelGone(f"no idle within {_PATIENCE:.0f} s: {kernel.complaints()}")
        if received[1]["parent_header"].get("msg_id") == request:
            kind = kind_of(received[1])
            if kind == "stream":
                seen += received[1]["content"]["text"]
    taken = time.perf_counter() - asked
    return taken, float(seen == "".join(f"{line}\n" for line in range(count)))


def _asked_meanwhile(kernel: Kernel, busy: float) -> float:
    """Seconds until kernel_info is answered while a cell waits for ``busy`` seconds."""
    cell = kernel.execute(f"wait {busy}")
    kernel.expect(cell, "busy")
    asked = time.perf_counter()
    kernel.expect(kernel.send("shell", "kernel_info_request", {}), "kernel_info_reply")
    taken = time.perf_counter() - asked
    time.sleep(busy)
    return taken


def _lines(kernel: Kernel) -> tuple[float, float]:
    """Seconds until `idle`, or until the last that came, and the share of the text that arrived."""
    text: list[str] = []
    kind, replied = "", False
    asked = last = time.perf_counter()
    request = kernel.execute(f"for i in range({LINES}): print(i)")
    while kind != "idle":
        received = kernel.receive(_SILENCE if replied else _PATIENCE)
        if received is None:
            break
        last = time.perf_counter()
        message = received[1]
        if message["parent_header"].get("msg_id") == request:
            kind = kind_of(message)
            replied = replied or kind == "execute_reply"
            if kind == "stream":
                text.append(message["content"]["text"])
    arrived = "".join(text)
    if kind == "idle" and arrived == _PRINTED:
        return last - asked, 1.0
    return last - asked, min(len(arrived), len(_PRINTED) - 1) / len(_PRINTED)


def _interrupts(kernel: Kernel, count: int) -> dict[str, float]:
    """The median of the seconds from an interrupt to its cell's reply; nothing if the kernel does not survive it."""
    taken = []
    try:
        for turn in range(count):
            request = kernel.execute("while True: pass")
            kernel.expect(request, "busy")
            time.sleep(0.15 + turn * 0.0013)  # another phase of every periodic thing each time
            asked = time.perf_counter()
            kernel.interrupt()
            reply = kernel.expect(request, "execute_reply")
            taken.append(time.perf_counter() - asked)
            if reply["status"] == "ok":
                raise RuntimeError(f"the cell was not interrupted: {reply}")
            time.sleep(0.05)
        kernel.run("kept")
    except KernelGone:
        return {}
    return {"interrupt": statistics.median(taken)}


def memory(argv: list[str], interrupt_mode: str, folder: str, more: int) -> dict[str, float]:
    """PSS in bytes: of a kernel that ran one cell, of the same with pandas, and of it and more of its kind."""
    with ExitStack() as stack:

        def add() -> Kernel:
            kernel = stack.enter_context(Kernel(argv, interrupt_mode, folder))
            kernel.ready()
            return kernel

        first = add()
        first.run("x = 1")
        time.sleep(_REST)
        idle = first.pss()
        first.run(FRAME)
        time.sleep(_REST)
        frame = first.pss()
        kernels = [first, *(add() for _ in range(more))]
        for kernel in kernels[1:]:
            kernel.run(FRAME)
        time.sleep(_REST)
        return {"idle": idle, "pandas": frame, "five": sum(kernel.pss() for kernel in kernels)}
