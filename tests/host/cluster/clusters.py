"""Real Dask clusters: a scheduler and workers, each a process of its own, and sandboxes that run their workers there."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wasm_kernel import SandboxResult
from wasm_kernel.host.cluster.session_cluster import SessionCluster
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.model.policy import ExecutionPolicy

PATIENCE = 120.0


def until(holds: Callable[[], Any], what: str = "it did not happen") -> Any:
    """Wait until something holds; what it gave."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


class DaskCluster:
    """A scheduler and workers of `wasm-kernel worker`, in a folder."""

    def __init__(
        self, folder: Path, scheme: str = "tcp", options: tuple[str, ...] = (), python: str = sys.executable, **env: str
    ) -> None:
        """``options``: of scheduler and workers, such as those for TLS. ``python``: what runs them."""
        self._folder, self._options, self._python = folder, options, python
        folder.mkdir(parents=True, exist_ok=True)
        self._env = {**os.environ, "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False", **env}
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._start(
            "distributed.cli.dask_scheduler", "--protocol", scheme, "--host", "127.0.0.1", "--port", "0",
            "--no-dashboard", "--scheduler-file", str(file), *options,
        )  # fmt: skip
        self.address = until(lambda: _address(file), "the scheduler did not start")

    def add(self, *options: str, wait: bool = True) -> subprocess.Popen[bytes]:
        """Another worker, of one thread unless the options say more."""
        threads = () if "--nthreads" in options else ("--nthreads", "1")
        name = f"worker-{len(self.processes)}"
        worker = self._start(
            "wasm_kernel.apps.cli", "worker", self.address, "--no-dashboard", "--no-nanny", "--name", name,
            "--local-directory", str(self._folder / name), *threads, *self._options, *options,
        )  # fmt: skip
        if wait:
            log = self._folder / f"{len(self.processes) - 1}.log"
            until(lambda: b"Registered to" in log.read_bytes() or worker.poll() is not None, "no worker started")
            assert worker.poll() is None, log.read_text()
        return worker

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [self._python, "-m", module, *arguments], stdout=log, stderr=log, env=self._env, cwd=self._folder
            )
        self.processes.append(process)
        return process

    @property
    def logs(self) -> str:
        """All that its processes said."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))

    def close(self) -> None:
        """End all of it."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait()


def _address(file: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return str(json.loads(file.read_text())["address"])
    return ""


class Attached:
    """A sandbox whose workers run on a cluster."""

    def __init__(self, address: str, folder: Path, **policy: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, img = folder, image.load()
        self.sandbox = Sandbox(img, folder, ExecutionPolicy(**policy), in_session=True)
        self.events: list[Any] = []
        try:
            self.cluster = SessionCluster(address, img)
        except BaseException:
            self.sandbox.close()
            raise
        self.sandbox.workers_elsewhere = self.cluster

    def run(self, code: str) -> SandboxResult:
        """A cell."""
        return self.sandbox.execute(code, on_event=self.events.append)

    def ok(self, code: str) -> str:
        """A cell that succeeds; what it printed."""
        result = self.run(code)
        assert result.success, result.error.traceback if result.error else result.outcome
        return result.stdout

    def close(self) -> None:
        """End it."""
        self.cluster.close()
        self.sandbox.close()


@contextlib.contextmanager
def attached(address: str, folder: Path, **policy: Any) -> Iterator[Attached]:
    """A sandbox whose workers run on a cluster."""
    found = Attached(address, folder, **policy)
    try:
        yield found
    finally:
        found.close()
