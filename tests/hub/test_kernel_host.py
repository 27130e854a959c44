"""A user's server on a real hub: its kernels come from the user's own kernel host."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.apps.kernel_host.clients import ServerKernel, note_parents, parents
from tests.apps.kernel_host.test_provisioner import ended
from tests.conformance.client import eventually
from tests.hub.hub import HOST_USER, Hub
from wasm_kernel.apps.kernel_host import protocol


@pytest.fixture
def sockets(hub: Hub) -> Iterator[Path]:
    """The folder of that user's hosts, which end with the test."""
    runtime = hub.home(HOST_USER) / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    yield runtime / "wasm-kernel"
    for pid in _hosts(runtime / "wasm-kernel"):
        os.kill(pid, signal.SIGTERM)


def _hosts(folder: Path) -> list[int]:
    found = []
    for path in folder.glob("*.sock"):
        connection = protocol.connect(str(path))
        if connection is not None:
            found.append(protocol.peer(connection)[0])
            connection.close()
    return found


def test_kernels_come_from_the_users_host(hub: Hub, sockets: Path) -> None:
    home = hub.home(HOST_USER)
    born = note_parents(home / ".jupyter")
    lab = hub.start(HOST_USER)
    runtime = home / ".local" / "share" / "jupyter" / "runtime"
    with processes.shared("kernel_host"), contextlib.ExitStack() as ends:
        ends.callback(hub.stop, HOST_USER)
        first = ServerKernel(lab, runtime, "first.ipynb")
        assert first.run("import os; x = 1")["status"] == "ok"
        assert eventually(lambda: _hosts(sockets))
        second = ServerKernel(lab, runtime, "second.ipynb")
        assert second.run("1")["status"] == "ok"
        (host,) = _hosts(sockets)
        assert parents(born)[-1][1] == host
        second.act("restart")
        assert second.run("1")["status"] == "ok"
        assert parents(born)[-1][1] == host
        os.kill(parents(born)[-1][0], signal.SIGKILL)
        assert first.run("assert x == 1")["status"] == "ok"
        environ = Path(f"/proc/{host}/environ").read_text()
        assert "TOKEN" not in environ
    assert eventually(lambda: all(ended(pid) for pid, _ in parents(born)))
