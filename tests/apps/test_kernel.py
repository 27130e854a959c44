"""The kernel through jupyter_client: what issue 2 promises of it. Conformance has its own folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.filterwarnings("ignore")

Message = dict[str, Any]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[KernelManager, BlockingKernelClient]]]:
    running: list[tuple[KernelManager, BlockingKernelClient]] = []

    def start(**env: str) -> tuple[KernelManager, BlockingKernelClient]:
        manager = KernelManager(kernel_name="wasm")
        manager.start_kernel(env={**os.environ, "WASM_KERNEL_WORKSPACE": str(tmp_path / "sessions"), **env})
        client = manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        running.append((manager, client))
        return manager, client

    yield start
    for manager, client in running:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str, **options: Any) -> tuple[Message, list[Message]]:
    messages: list[Message] = []
    reply = client.execute_interactive(code, output_hook=messages.append, timeout=60, **options)
    return reply["content"], [m for m in messages if m["msg_type"] not in ("status", "execute_input")]


def reply_to_execute(client: BlockingKernelClient) -> Message:
    while True:
        message: Message = client.get_shell_msg(timeout=30)
        if message["msg_type"] == "execute_reply":
            return message["content"]


def test_cells_outputs_errors_and_recovery(start: Any, tmp_path: Path) -> None:
    _, client = start()
    reply, outputs = run(client, "import pandas as pd\nprint('hi')\npd.DataFrame({'a': [1]})")
    assert reply["status"] == "ok"
    assert [m["msg_type"] for m in outputs] == ["stream", "execute_result"]
    assert "<table" in outputs[1]["content"]["data"]["text/html"]
    reply, outputs = run(client, "1/0")
    assert reply["ename"] == "ZeroDivisionError"
    assert outputs[0]["msg_type"] == "error"
    reply, outputs = run(client, "import os; os.abort()")
    assert reply["status"] == "error"
    assert "variables are back" in outputs[0]["content"]["evalue"]
    reply, _ = run(client, "pd.__name__")
    assert reply["status"] == "ok"
    assert reply["execution_count"] == 4
    (metadata,) = (tmp_path / "sessions").glob("*/.metadata.json")
    end = time.monotonic() + 60  # it is written behind the answers
    while json.loads(metadata.read_text()).get("execution_count") != 4:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_interrupt_and_input(start: Any) -> None:
    manager, client = start()
    client.execute("x = 5\nprint('go')\nwhile True: pass")
    while client.get_iopub_msg(timeout=30)["msg_type"] != "stream":
        pass
    manager.interrupt_kernel()
    assert reply_to_execute(client)["ename"] == "KeyboardInterrupt"
    reply, outputs = run(client, "print(x, input('? '))", allow_stdin=True, stdin_hook=lambda m: client.input("yes"))
    assert reply["status"] == "ok"
    assert outputs[-1]["content"]["text"] == "5 yes\n"


def test_without_an_image_the_kernel_answers_at_once_and_the_first_cell_shows_the_build(
    start: Any, tmp_path: Path
) -> None:
    started = time.monotonic()
    manager, client = start(WASM_KERNEL_CACHE=str(tmp_path / "empty"))
    assert time.monotonic() - started < 30, "kernel_info must not wait for the image"
    client.execute("1 + 1")
    shown = []
    while len(shown) < 2:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown.append(message)
    assert shown[0]["msg_type"] == "display_data"
    assert shown[1]["msg_type"] == "update_display_data"
    assert "building the sandbox" in shown[1]["content"]["data"]["text/plain"]
    assert "<progress" in shown[1]["content"]["data"]["text/html"]
    manager.interrupt_kernel()
    reply = reply_to_execute(client)
    assert reply["status"] == "error"
    assert reply["ename"] == "KeyboardInterrupt"
