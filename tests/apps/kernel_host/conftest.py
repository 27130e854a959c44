"""Hosts of a test's own: where their sockets are nobody else looks, and they end with the test."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Kernel, eventually
from wasm_kernel.apps.kernel_host import address, protocol, starting
from wasm_kernel.apps.kernel_host.hosted_process import HostedProcess


class Place:
    """Where a test's hosts are, and an environment whose kernels come from there."""

    def __init__(self, folder: Path, sessions: Path) -> None:
        self.folder = folder
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("JPY_")}
        self.environ |= {"XDG_RUNTIME_DIR": str(folder), "WASM_KERNEL_WORKSPACE": str(sessions)}
        del self.environ["WASM_KERNEL_HOST"]

    @property
    def socket(self) -> Path:
        return Path(address.socket_path(self.environ, address.key(sys.executable, self.environ)))

    @property
    def pid(self) -> int | None:
        """The host that listens there now."""
        found = protocol.connect(str(self.socket))
        if found is None:
            return None
        pid, _ = protocol.peer(found)
        found.close()
        return pid

    def start(self, **more: str) -> int:
        """Start a host, as a kernel would."""
        self.environ |= more
        starting.start_aside(self.environ)
        return self.wait()

    def wait(self) -> int:
        assert eventually(lambda: self.pid is not None), self.said
        found = self.pid
        assert found is not None
        return found

    @property
    def said(self) -> str:
        """What hosts wrote there."""
        return "".join(log.read_text() for log in self.folder.rglob("*.log"))

    def stop(self) -> None:
        for path in self.folder.rglob("*.sock"):
            found = protocol.connect(str(path))
            if found is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(protocol.peer(found)[0], signal.SIGTERM)
                found.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty place for hosts."""
    folder = Path(tempfile.mkdtemp(prefix="wk-host-"))  # a socket's path is short
    made = Place(folder, tmp_path / "sessions")
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def host(place: Place) -> Place:
    """A host that runs."""
    place.start()
    return place


@pytest.fixture
def start(place: Place, tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Start kernels that may come from a host; all end with the test."""
    running: list[Kernel] = []

    def start(**options: str) -> Kernel:
        running.append(HostKernel(tmp_path / "sessions", place, **options))
        return running[-1]

    yield start
    for kernel in running:
        kernel.stop()


class HostKernel(Kernel):
    """A kernel that may come from a host."""

    def __init__(self, root: Path, place: Place, **options: str) -> None:
        super().__init__(root, **{**_difference(place.environ), **options})

    @property
    def hosted(self) -> bool:
        return isinstance(self.manager.provisioner.process, HostedProcess)


def _difference(environ: dict[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in environ.items() if os.environ.get(name) != value}, "WASM_KERNEL_HOST": ""}
