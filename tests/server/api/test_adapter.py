"""A sandbox of the API is a session that runs as a notebook's does: startup code, background tasks, checkpoints."""

from __future__ import annotations

import pytest

from tests.server.conftest import Api, running
from wasm_kernel.sessions.snapshots import list_snapshots


def test_startup_code_runs_once_in_every_fresh_guest(tmp_path_factory: pytest.TempPathFactory) -> None:
    code = 'c.WasmKernel.startup_code = \'import math; started = globals().get("started", 0) + 1; print("hello")\'\n'
    with running(tmp_path_factory.mktemp("startup"), code) as server:
        api = Api(server)
        sandbox_id = api.create(idle_timeout_seconds=1)
        first = api.run(sandbox_id, "math.pi > 3, started")
        assert first["result"]["result"]["text/plain"] == "(True, 1)"
        assert first["result"]["stdout"] == "hello\n"
        assert api.value(sandbox_id, "started") == "1"
        api.until(lambda: api.state(sandbox_id) == "released")
        assert api.value(sandbox_id, "started") == "1", "memory that comes back has run it"
        api.run(sandbox_id, "started = 5")
        assert api.run(sandbox_id, "started", fresh=True)["result"]["result"]["text/plain"] == "1"


_TICKING = """
import asyncio
ticks = 0
async def tick():
    global ticks
    while ticks < 3:
        await asyncio.sleep(0.05)
        ticks += 1
    print('ticked')
task = asyncio.create_task(tick())
"""


def test_background_tasks_go_on_between_tasks(api: Api) -> None:
    sandbox_id = api.create()
    begun = api.run(sandbox_id, _TICKING)["task_id"]
    api.until(lambda: "ticked" in str(api.events(sandbox_id, begun)))
    assert api.value(sandbox_id, "ticks, task.done()") == "(3, True)"
    found = api("GET", f"sandboxes/{sandbox_id}/tasks/{begun}")["result"]
    assert found["stdout"] == "ticked\n", "what it prints belongs to the task that started it"


def test_background_tasks_go_on_after_a_release(api: Api) -> None:
    sandbox_id = api.create(idle_timeout_seconds=1)
    api.run(sandbox_id, _TICKING.replace("0.05", "3"))
    api.until(lambda: api.state(sandbox_id) == "released")
    api.until(lambda: api.value(sandbox_id, "ticks") != "0")


def test_a_checkpoint_says_what_its_task_did(api: Api) -> None:
    sandbox_id = api.create()
    api.run(sandbox_id, "a = 1")
    api.run(sandbox_id, "b = 2; open('new', 'w').close()")
    api.until(lambda: [s.metadata.get("number") for s in list_snapshots(api.server.root, sandbox_id)] == [2])
    (snapshot,) = list_snapshots(api.server.root, sandbox_id)
    assert snapshot.metadata["variables"]["added"] == ["b"]
    assert snapshot.metadata["files"]["added"] == ["new"]
    assert snapshot.execution_count == 3
