"""Kernels that a real kernel manager gets from a real host."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from jupyter_client.connect import LocalPortCache

from tests.apps.kernel_host.conftest import HostKernel, Place
from tests.conformance.client import Kernel, eventually
from tests.ports import free_port
from wasm_kernel.apps.kernel_host import protocol, starting
from wasm_kernel.kernel.channels import PORTS

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., HostKernel]


def lives(kernel: Kernel) -> None:
    assert kernel.run("6 * 7").result == "42"


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def running(parent: int | None = None) -> set[int]:
    """The processes that this one, or another, started or adopted, and that run."""
    return {child.pid for child in psutil.Process(parent).children() if not ended(child.pid)}


# ---- with a host and without


def test_the_first_kernel_starts_by_itself_and_starts_the_host_of_the_next(place: Place, start: Start) -> None:
    first = start()
    assert not first.hosted
    lives(first)
    host = place.wait()
    second = start()
    assert second.hosted
    assert psutil.Process(second.pid).ppid() == host
    lives(second)
    lives(first)


def test_without_a_host_if_so_wished(host: Place, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = start(WASM_KERNEL_HOST="0")
    assert not kernel.hosted
    lives(kernel)


def test_none_is_started_if_so_wished(place: Place, start: Start) -> None:
    lives(start(WASM_KERNEL_HOST="0"))
    time.sleep(1.5)  # a kernel starts one a second after itself
    assert place.pid is None


def test_one_host_however_many_start_it(place: Place) -> None:
    before = running()  # other tests' servers
    several = [threading.Thread(target=starting.start_aside, args=(place.environ,)) for _ in range(4)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    host = place.wait()
    assert eventually(lambda: running() - before == {host})


def test_a_host_that_is_idle_ends(place: Place) -> None:
    pid = place.start(WASM_KERNEL_HOST_IDLE="0.5")
    assert eventually(lambda: ended(pid))
    assert not place.socket.exists()


def test_a_host_with_a_kernel_is_not_idle(place: Place, start: Start) -> None:
    pid = place.start(WASM_KERNEL_HOST_IDLE="10")  # within which the kernel has asked for it, however slow all is
    kernel = start()
    assert kernel.hosted
    time.sleep(12)
    assert not ended(pid)
    kernel.stop()
    assert eventually(lambda: ended(pid))  # not by asking the host: each time it would wait anew
    assert not place.socket.exists()


def test_a_kernel_is_shown_as_one(host: Place, start: Start) -> None:
    kernel = start()
    shown = Path(f"/proc/{kernel.pid}/cmdline").read_text().rstrip("\0 ")
    assert shown == f"{sys.executable} -P -m wasm_kernel -f {kernel.manager.connection_file}"
    assert "XDG_RUNTIME_DIR" not in Path(f"/proc/{kernel.pid}/environ").read_text()  # nothing of the host's
    assert kernel.run("6 * 7").result == "42"


def test_a_port_that_somebody_took_after_it_was_chosen(
    host: Place, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as somebodys:
        somebodys.bind(("127.0.0.1", free_port()))
        somebodys.listen()
        taken = somebodys.getsockname()[1]
        chosen = iter([free_port(), taken])
        monkeypatch.setattr(LocalPortCache, "find_available_port", lambda _, ip: next(chosen, None) or free_port(ip))
        kernel = start()
        assert kernel.hosted
        lives(kernel)
    ports = kernel.manager.ports
    assert taken not in ports
    file = json.loads(Path(kernel.manager.connection_file).read_text())
    assert sorted(file[name] for name in PORTS) == sorted(ports)
    kernel.client.stop_channels()
    kernel.manager.restart_kernel()
    kernel.connect()
    assert kernel.manager.ports == ports
    lives(kernel)


# ---- life and death


def test_interrupt_and_restart(host: Place, start: Start) -> None:
    kernel = start()
    assert kernel.hosted
    kernel.ok("x = 1")
    running = kernel.start("print('go')\nwhile True: pass")
    kernel.wait_for("stream", "go")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("x").result == "1"
    before = kernel.pid
    for now in (False, True):
        kernel.client.stop_channels()
        kernel.manager.restart_kernel(now=now)
        kernel.connect()
        assert kernel.hosted
        assert kernel.pid != before
        lives(kernel)
        before = kernel.pid


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_one_that_crashes_is_seen_and_others_go_on(host: Place, start: Start, how: int) -> None:
    kernel, other = start(), start()
    other.ok("x = 1")
    os.kill(kernel.pid, how)
    assert eventually(lambda: not kernel.manager.is_alive())
    assert kernel.manager.provisioner.process.returncode == -how
    assert other.run("x").result == "1"
    lives(start())


def test_a_requester_with_many_descriptors(host: Place, start: Start) -> None:
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        kernel = start()
        assert kernel.hosted
        assert kernel.manager.is_alive()
        kernel.stop()
        assert not kernel.manager.is_alive()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def test_exit_codes(host: Place, start: Start) -> None:
    kernel = start()
    process = kernel.manager.provisioner.process
    assert process.poll() is None
    with pytest.raises(TimeoutError):
        process.wait(0.05)
    kernel.client.shutdown()
    assert process.wait(30) == 0
    again = start()
    process = again.manager.provisioner.process
    process.terminate()
    assert process.wait(30) == 0  # it closes its session
    process.send_signal(signal.SIGTERM)  # nobody there: as of a Popen


REQUESTER = """
import os, sys, time
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="wasm")
manager.start_kernel()
worker = os.fork() if "fork" in sys.argv else 0  # it has all that its parent has open
if worker or "fork" not in sys.argv:
    print(type(manager.provisioner.process).__name__, manager.provisioner.process.pid, worker, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_kernel_whose_requester_is_killed_closes_its_session(host: Place, tmp_path: Path, how: str) -> None:
    log = (tmp_path / "log").open("w")
    command = [sys.executable, "-c", REQUESTER, how]
    with subprocess.Popen(command, env=host.environ, stdout=subprocess.PIPE, stderr=log, text=True) as requester:
        assert requester.stdout is not None
        kind, pid, worker = requester.stdout.readline().split()
        assert kind == "HostedProcess"
        requester.kill()
    try:
        assert eventually(lambda: ended(int(pid)))
    finally:
        if int(worker):
            os.kill(int(worker), signal.SIGKILL)
    assert "is gone; shutting down" in (tmp_path / "log").read_text()  # said where its requester would have said it


def test_a_manager_that_is_forgotten_does_not_end_its_kernel(host: Place, start: Start) -> None:
    kernel = start()
    kernel.manager.provisioner.process = None  # nobody holds it
    time.sleep(1)
    lives(kernel)
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)


def test_a_kernel_whose_host_is_killed_goes_on(host: Place, start: Start) -> None:
    kernel = start()
    kernel.ok("x = 1")
    pid = host.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: host.pid is None)
    assert kernel.run("x").result == "1"
    assert kernel.manager.is_alive()
    another = start()
    assert not another.hosted
    lives(another)
    host.wait()  # that one has started a host
    kernel.stop()
    assert kernel.manager.provisioner is None or not kernel.manager.is_alive()


def test_a_host_that_dies_during_a_request(host: Place, start: Start) -> None:
    pid = host.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(1, os.kill, (pid, signal.SIGKILL)).start()
    kernel = start()
    assert not kernel.hosted
    lives(kernel)


def test_many_at_once(host: Place, start: Start) -> None:
    made: list[HostKernel] = []
    threads = [threading.Thread(target=lambda: made.append(start())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({kernel.pid for kernel in made}) == 6
    for kernel in made:
        assert kernel.hosted
        lives(kernel)


# ---- who may


def test_another_users_socket_is_not_used(place: Place, start: Start) -> None:
    if os.getuid():
        pytest.skip("only root can become another user")
    place.socket.parent.mkdir(mode=0o700)
    code = "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os.setuid(65534); s.listen(); print(1, flush=True); s.accept()"
    with subprocess.Popen([sys.executable, "-c", code, place.socket], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert protocol.connect(str(place.socket)) is None
        other.kill()


def test_a_host_serves_no_other_user(host: Place) -> None:
    if os.getuid():
        pytest.skip("only root can become another user")
    socket = host.socket
    for path in (host.folder, socket.parent, socket):
        path.chmod(0o777)
    code = "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(30); print(s.recv(10))"
    done = subprocess.run([sys.executable, "-c", code, socket], capture_output=True, text=True)
    assert done.stdout == "b''\n"
    for path in (host.folder, socket.parent):
        path.chmod(0o700)


def test_a_folder_that_others_can_enter_is_not_used(place: Place) -> None:
    place.socket.parent.mkdir(mode=0o700)
    place.socket.parent.chmod(0o755)
    starting.start_aside(place.environ)
    time.sleep(1)
    assert not place.socket.exists()


# ---- what comes with a request


def test_what_only_a_process_of_its_own_can_give(host: Place, start: Start) -> None:
    kernel = start()
    manager = type(kernel.manager)(kernel_name="wasm")
    manager.start_kernel(env=kernel_environ(host), stderr=subprocess.PIPE)
    try:
        assert isinstance(manager.provisioner.process, subprocess.Popen)
    finally:
        manager.shutdown_kernel(now=True)


def kernel_environ(place: Place) -> dict[str, str]:
    return {**place.environ, "WASM_KERNEL_HOST": ""}


def test_a_host_is_for_the_settings_a_process_starts_with(host: Place, start: Start) -> None:
    assert not start(PYTHONHASHSEED="7").hosted
    assert start(ANYTHING_ELSE="7").hosted


# ---- what retires a host


def test_code_that_was_replaced_retires_a_host(place: Place, start: Start, tmp_path: Path) -> None:
    module = tmp_path / "path" / "sitecustomize.py"
    module.parent.mkdir()
    module.write_text("version = 1")
    pid = place.start(PYTHONPATH=str(module.parent))
    assert start().hosted
    (module.parent / "new").write_text("version = 2")
    (module.parent / "new").replace(module)  # as an upgrade does
    kernel = start()
    assert not kernel.hosted
    lives(kernel)
    assert eventually(lambda: place.pid not in (None, pid))  # a new one
    assert start().hosted
