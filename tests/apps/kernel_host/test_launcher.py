"""`python -m wasm_kernel`, as clients start it that know no provisioners: a small process that stands for the kernel."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import KernelManager

from tests.apps.kernel_host.conftest import HostKernel, Place
from tests.apps.kernel_host.test_provisioner import REQUESTER, ended, lives
from tests.conformance.client import eventually
from tests.ports import free_port
from wasm_kernel.apps.kernel_host import protocol

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[[], "LaunchedKernel"]


class LaunchedKernel(HostKernel):
    """A kernel of a manager that knows no provisioner of ours."""

    def __init__(self, place: Place) -> None:
        self.manager = KernelManager(kernel_name="wasm")
        spec: Any = self.manager.kernel_spec
        del spec.metadata["kernel_provisioner"]
        self.place, self.others = place, []
        self.manager.start_kernel(env={**place.environ, "WASM_KERNEL_HOST": ""})
        self.connect()

    @property
    def kernel(self) -> psutil.Process:
        """The kernel itself."""
        assert eventually(lambda: len(kernels(self.place.pid)) == 1)  # one that was replaced may still be ending
        (found,) = kernels(self.place.pid)
        return psutil.Process(found)


def kernels(host: int | None) -> list[int]:
    """The kernels of a host. It has other children: one for each who looks whether it is there."""
    found = []
    for child in psutil.Process(host).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            if " -f " in " ".join(child.cmdline()) and not ended(child.pid):
                found.append(child.pid)
    return found


@pytest.fixture
def start(host: Place) -> Iterator[Start]:
    made: list[LaunchedKernel] = []

    def start() -> LaunchedKernel:
        made.append(LaunchedKernel(host))
        return made[-1]

    yield start
    for kernel in made:
        kernel.stop()


def test_the_kernel_comes_from_the_host(start: Start, host: Place) -> None:
    kernel = start()
    assert kernel.kernel.pid != kernel.pid
    lives(kernel)
    launcher = psutil.Process(kernel.pid)
    assert not any("ipykernel" in file.path or "zmq" in file.path for file in launcher.memory_maps())


def test_interrupt_and_restart(start: Start) -> None:
    kernel = start()
    for interrupt in (kernel.manager.interrupt_kernel, lambda: os.kill(kernel.pid, signal.SIGINT)):
        running = kernel.start("print('go')\nwhile True: pass")
        kernel.wait_for("stream", "go")
        interrupt()
        assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"
    for now in (False, True, True):  # at once: its ports must be free again
        before = kernel.kernel.pid
        kernel.client.stop_channels()
        kernel.manager.restart_kernel(now=now)
        kernel.connect()
        assert kernel.kernel.pid != before
        lives(kernel)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_a_launcher_ends_as_its_kernel_does(start: Start, how: int) -> None:
    kernel = start()
    kernel.kernel.send_signal(how)
    assert kernel.manager.provisioner.process.wait(30) == -how


def test_a_kernel_that_is_shut_down_ends_its_launcher_with_0(start: Start) -> None:
    kernel = start()
    kernel.client.shutdown()
    assert kernel.manager.provisioner.process.wait(30) == 0


@contextlib.contextmanager
def not_ignored(number: int) -> Iterator[None]:
    """What is started meanwhile does not ignore a signal, as it would if these tests do (`nohup`)."""
    if number == signal.SIGKILL:
        yield
        return
    before = signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_kernel_ends_with_its_launcher(start: Start, how: int) -> None:
    with not_ignored(how):
        kernel = start()
    process = kernel.kernel
    os.kill(kernel.pid, how)
    assert eventually(lambda: ended(process.pid))
    assert eventually(lambda: not kernel.manager.is_alive())


def test_a_launcher_whose_parent_is_gone_ends_its_kernel(host: Place, tmp_path: Path) -> None:
    pid = host.pid
    code = REQUESTER.replace(
        "manager.start", "del manager.kernel_spec.metadata['kernel_provisioner']\nmanager.start", 1
    )
    log = (tmp_path / "log").open("w")
    with subprocess.Popen(
        [sys.executable, "-c", code], env=host.environ, stdout=subprocess.PIPE, stderr=log, text=True
    ) as requester:
        assert requester.stdout is not None
        kind, launcher, _ = requester.stdout.readline().split()
        assert kind == "Popen"
        assert eventually(lambda: kernels(pid))
        requester.kill()
    assert eventually(lambda: not kernels(pid) and ended(int(launcher)))


def test_so_does_one_whose_parent_was_gone_before_it_could_look(host: Place, tmp_path: Path) -> None:
    """Jupyter names the parent: `JPY_PARENT_PID`. Here that process is gone before the launcher begins."""
    pid = host.pid
    gone = subprocess.Popen(["true"])
    gone.wait()
    command = [sys.executable, *protocol.OPTIONS, "-f", str(_connection(tmp_path))]
    with subprocess.Popen(command, env={**host.environ, "JPY_PARENT_PID": str(gone.pid)}) as launcher:
        assert eventually(lambda: ended(launcher.pid))
    assert eventually(lambda: not kernels(pid))


def test_a_bad_connection_file_says_so_where_the_launcher_was_started(host: Place, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    command = [sys.executable, "-P", "-m", "wasm_kernel", "-f", str(bad)]
    for environ in (host.environ, {**host.environ, "WASM_KERNEL_HOST": "0"}):
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert done.returncode == 2
        assert "does not name all of" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-"])
def test_a_launcher_whose_streams_are_closed_needs_no_host(host: Place, tmp_path: Path, closed: str) -> None:
    pid = host.pid
    command = [
        "bash",
        "-c",
        f'exec "$0" -P -m wasm_kernel -f "$1" {closed}',
        sys.executable,
        str(_connection(tmp_path)),
    ]
    process = subprocess.Popen(command, env=host.environ)
    try:
        assert eventually(lambda: _answers(tmp_path))
        assert not kernels(pid)
    finally:
        process.kill()
        process.wait()


def _connection(folder: Path) -> Path:
    ports = [free_port() for _ in range(5)]
    names = ("shell_port", "control_port", "stdin_port", "iopub_port", "hb_port")
    found = {"ip": "127.0.0.1", "transport": "tcp", "key": "k", "signature_scheme": "hmac-sha256"}
    path = folder / "connection.json"
    path.write_text(json.dumps({**found, **dict(zip(names, ports, strict=True))}))
    return path


def _answers(folder: Path) -> bool:
    port = json.loads((folder / "connection.json").read_text())["shell_port"]
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
