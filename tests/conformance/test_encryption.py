"""A kernel whose manager asks for encrypted sockets (CurveZMQ): everything works, and who has no key gets nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.conformance.client import PATIENCE, Kernel, eventually
from wasm_kernel.apps import kernelspec
from wasm_kernel.kernel.channels import PORTS

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not zmq.has("curve"), reason="this pyzmq was built without CurveZMQ"),
]
CHANNELS = {
    "shell_port": zmq.DEALER, "control_port": zmq.DEALER, "stdin_port": zmq.DEALER, "iopub_port": zmq.SUB,
    "hb_port": zmq.REQ,
}  # fmt: skip


class Encrypted(Kernel):
    """A kernel started by a manager that starts none without encryption, from the kernelspec as we install it."""

    def __init__(self, place: Path, transport: str) -> None:
        folder = Path(kernelspec.install(prefix=str(place)))
        self.manager = KernelManager(
            kernel_name="wasm",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(folder.parent)]),
            transport_encryption="required",
            transport=transport,
            connection_file=str(place / "connection.json"),
        )
        self.others: list[dict[str, Any]] = []
        environ = {name: value for name, value in os.environ.items() if not name.startswith("JPY_")}
        self.manager.start_kernel(env={**environ, "WASM_KERNEL_WORKSPACE": str(place / "sessions")})
        self.connect()


@pytest.fixture(scope="module", params=["tcp", "ipc"])
def encrypted(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Encrypted]:
    kernel = Encrypted(tmp_path_factory.mktemp("curve"), request.param)
    yield kernel
    kernel.stop()


def test_cells_interrupts_questions_and_restarts_work(encrypted: Encrypted) -> None:
    assert encrypted.run("6 * 7").result == "42"
    assert encrypted.run("input('Who? ')", answers=("Ann",)).result == "'Ann'"
    busy = encrypted.start("print('on', flush=True)\nwhile True: pass")
    encrypted.wait_for("stream", "on")
    encrypted.manager.interrupt_kernel()
    assert encrypted.finish(busy).reply["ename"] == "KeyboardInterrupt"
    encrypted.client.hb_channel.unpause()
    time.sleep(2 * encrypted.client.hb_channel.time_to_dead)  # what it knew before is too old
    assert eventually(encrypted.client.hb_channel.is_beating)
    encrypted.client.stop_channels()
    encrypted.manager.restart_kernel(now=False)
    encrypted.connect()
    assert encrypted.run("1 + 1").result == "2"


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("keys", ["none", "another server's"])
def test_who_does_not_know_the_key_gets_nothing(encrypted: Encrypted, port: str, keys: str) -> None:
    """Though it has the key that signs messages, and subscribes to everything while cells print."""
    assert reach(encrypted, port, None if keys == "none" else zmq.curve_keypair()[0]) == (False, False)


@pytest.mark.parametrize("port", PORTS)
def test_who_knows_it_gets_answers(encrypted: Encrypted, port: str) -> None:
    """What the test above listens for is there to be heard."""
    answered = port != "stdin_port"  # where a kernel sends nothing but questions
    assert reach(encrypted, port, encrypted.manager.curve_publickey, answered=answered) == (True, answered)


def reach(encrypted: Encrypted, port: str, server_key: bytes | None, *, answered: bool = False) -> tuple[bool, bool]:
    """Whether a socket of one's own is let in by the kernel, and whether it hears anything."""
    with zmq.Context() as context, context.socket(CHANNELS[port]) as socket:
        socket.linger = 0
        socket.sndtimeo = int(PATIENCE * 1000) if answered else 1000  # who was refused already has nobody to send to
        if server_key is not None:
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
            socket.curve_serverkey = server_key
        if port == "iopub_port":
            socket.subscribe(b"")
        with socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as monitor:
            socket.connect(encrypted.manager._make_url(port.removesuffix("_port")))
            session = encrypted.client.session
            with contextlib.suppress(zmq.Again):
                if port == "hb_port":
                    socket.send(b"ping")
                elif port != "iopub_port":
                    session.send(socket, session.msg("kernel_info_request"))
            encrypted.ok("print('something to hear')")
            heard = bool(socket.poll(PATIENCE * 1000 if answered else 1000))
            let_in = bool(monitor.poll(0))
            socket.disable_monitor()
        return let_in, heard


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"curve_publickey": "x" * 40}, "has no curve_secretkey"),
        ({"curve_secretkey": "x" * 40}, "has no curve_publickey"),
        ({"curve_publickey": "short", "curve_secretkey": "short"}, "40 characters each"),
        ({"curve_publickey": 7, "curve_secretkey": 7}, "40 characters each"),
        (
            {"curve_publickey": zmq.curve_keypair()[0].decode(), "curve_secretkey": zmq.curve_keypair()[1].decode()},
            "do not belong together",
        ),
    ],
)
def test_keys_that_cannot_be_used_start_no_kernel(tmp_path: Path, keys: dict[str, Any], says: str) -> None:
    """Rather than one that anybody can listen to."""
    file = tmp_path / "connection.json"
    file.write_text(json.dumps({"ip": "127.0.0.1", "transport": "tcp", "key": "k", **dict.fromkeys(PORTS, 0), **keys}))
    command = [sys.executable, "-m", "wasm_kernel", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
