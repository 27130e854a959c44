"""Sessions opened and closed 200 times, in a program, a kernel and a server: no descriptor and no thread stays behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conformance.client import Kernel, eventually
from tests.server.conftest import Api, running
from wasm_kernel import (
    SandboxLogger,
    create_session_sandbox,
    create_snapshot,
    delete_session_workspace,
    get_session_sandbox,
)

QUIET = SandboxLogger(level="error")
TIMES = 200
_WARM = 10  # what is opened once and for all is there by then


def check(pid: int, once: Callable[[int], None]) -> None:
    """Do something 200 times, and compare what the process has open then with what it had near the beginning."""
    process = psutil.Process(pid)
    for n in range(_WARM):
        once(n)
    gc.collect()
    before = process.num_fds(), process.num_threads()
    for n in range(_WARM, TIMES):
        once(n)
    gc.collect()

    def is_as_before() -> bool:  # pools of threads differ by one or two, with the machine's load
        return process.num_fds() <= before[0] + 3 and process.num_threads() <= before[1] + 3

    assert eventually(is_as_before), (before, process.num_fds(), process.num_threads(), _opened(pid))


def _opened(pid: int) -> list[str]:
    found = []
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(handle))
        except FileNotFoundError:
            continue
    return sorted(found)


def test_in_a_program(tmp_path: Path) -> None:
    def once(n: int) -> None:
        session_id, sandbox = create_session_sandbox(workspace_root=tmp_path, logger=QUIET)
        if n % 4 == 0:
            assert sandbox.execute("file = open('f', 'w'); file.write('x')").success
            create_snapshot(session_id, tmp_path, logger=QUIET)
        sandbox.close()
        with get_session_sandbox(session_id, workspace_root=tmp_path, logger=QUIET, resume=n % 8 == 0):
            pass
        delete_session_workspace(session_id, tmp_path, QUIET)

    check(os.getpid(), once)


def test_in_a_kernel(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "sessions")
    try:

        def once(n: int) -> None:
            kernel.ok("%session new")
            if n % 8 == 0:
                kernel.ok("file = open('f', 'w'); file.write('x')")

        check(kernel.pid, once)
    finally:
        kernel.stop()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with running(tmp_path, "c.WasmKernelExtension.idle_timeout_seconds = 0\n") as server:
        yield Api(server)


def test_in_a_server(api: Api) -> None:
    def once(n: int) -> None:
        sandbox_id = api.create()
        if n % 4 == 0:
            assert api.run(sandbox_id, "file = open('f', 'w'); file.write('x')")["outcome"]["kind"] == "ok"
        api("DELETE", f"sandboxes/{sandbox_id}")

    check(api.server.process.pid, once)
