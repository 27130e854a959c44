"""The server as agents use it: whole tasks over stdio and HTTP, and who is not let in."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import BlobResourceContents

from tests.host.network.servers import http_server
from tests.mcp.clients import Agent, images, over_stdio
from tests.ports import free_port

_CSV = "city,metres\nBern,542\nLima,154\n"
_PLOT = """
import pandas as pd, matplotlib.pyplot as plt
df = pd.read_csv("cities.csv")
df.plot.bar(x="city"); plt.savefig("plot.png"); plt.show()
df
"""


async def whole_task(agent: Agent) -> None:
    """Upload a CSV, plot, break something, undo, fork, download."""
    await agent.told("write_file", session="task", path="cities.csv", text=_CSV)
    shown = await agent.call("run_python", session="task", code=_PLOT)
    assert base64.b64decode(images(shown)[0].data).startswith(b"\x89PNG")
    assert shown.structured_content["ok"] and shown.structured_content["files_created"] == ["plot.png"]
    await agent.told("snapshot", session="task", label="plotted")

    broken = await agent.refused(
        "run_python", session="task", code="df = None\nimport os; os.remove('cities.csv')\n1/0"
    )
    assert "ZeroDivisionError: division by zero" in broken and "files deleted: cities.csv" in broken
    assert "files removed: cities.csv" in await agent.told("compare", session="task", before="plotted")
    await agent.told("undo", session="task")
    assert "cities.csv" in await agent.told("list_files", session="task")

    await agent.told("fork", session="task", new="other-way")
    await agent.told("run_python", session="other-way", code="df['feet'] = df.metres / 0.3048")
    assert "'feet'" in await agent.told("run_python", session="other-way", code="list(df.columns)")
    assert "'feet'" not in await agent.told("run_python", session="task", code="list(df.columns)")
    await agent.told("edit_file", session="other-way", path="cities.csv", old="Lima,154", new="Quito,2850")
    assert "Quito" in await agent.told("read_file", session="other-way", path="cities.csv")
    assert await agent.told("read_file", session="task", path="cities.csv") == _CSV

    picture = (await agent.client.read_resource("session://task/plot.png")).contents[0]
    assert isinstance(picture, BlobResourceContents) and base64.b64decode(picture.blob).startswith(b"\x89PNG")
    await agent.told("discard", session="other-way")
    assert "other-way" not in await agent.told("list_sessions")


def test_a_whole_task_over_stdio_and_the_next_conversation(tmp_path: Path) -> None:
    async def main() -> None:
        async with over_stdio(tmp_path) as agent:
            await whole_task(agent)
        async with over_stdio(tmp_path) as agent:  # another process, another conversation
            assert "(2, 2)" in await agent.told("run_python", session="task", code="df.shape")
            assert "plotted" in await agent.told("list_snapshots", session="task")

    asyncio.run(main())


def test_a_call_that_is_cancelled_is_interrupted_and_long_ones_report(tmp_path: Path) -> None:
    async def main() -> None:
        async with over_stdio(tmp_path) as agent:
            await agent.told("run_python", session="s", code="x = 1")
            reports: list[float] = []
            reported = asyncio.Event()

            async def progress(passed: float, total: float | None, message: str | None) -> None:
                reports.append(passed)
                reported.set()

            waiting = {"session": "s", "code": "x = 2\nwhile True: pass"}
            call = asyncio.ensure_future(agent.client.call_tool("run_python", waiting, progress_callback=progress))
            await asyncio.wait_for(reported.wait(), 60)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            assert "2" in await asyncio.wait_for(agent.told("run_python", session="s", code="x"), 60)

    asyncio.run(main())


def test_limits_and_the_folder_are_the_persons(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "given.txt").write_text("from the person")

    async def main() -> None:
        root = tmp_path / "root"
        options = ("--limit", "timeout=1", "memory=320M", "--mount", str(data), "--allow", f"localhost:{web.port}")
        async with over_stdio(root, *options) as agent:
            get = "import urllib.request; print(urllib.request.urlopen('http://{}/').status)"
            assert "200" in await agent.told("run_python", session="s", code=get.format(f"localhost:{web.port}"))
            assert "no permission" in await agent.refused("run_python", session="s", code=get.format("127.0.0.1:1"))
            await agent.refused("run_python", session="s", code="%session allow 127.0.0.1:1")
            assert "time" in await agent.refused("run_python", session="s", code="while True: pass")
            assert "MemoryError" in await agent.refused("run_python", session="s", code="b = bytearray(400 << 20)")
            code = "print(open('/data/given.txt').read()); open('/data/new', 'w')"
            refused = await agent.refused("run_python", session="s", code=code)
            assert "from the person" in refused and "Error" in refused
            for magic in ("%session limits memory=2G", "%session trust on", "%session mount .."):
                await agent.refused("run_python", session="s", code=magic)
            assert not [tool for tool in (await agent.client.list_tools()).tools if "limit" in tool.name]

    with http_server() as web:
        asyncio.run(main())
    assert sorted(p.name for p in data.iterdir()) == ["given.txt"]


# ---- HTTP


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"short", "a token is one line of at least 16"),
        (b"a token of several words", "a token is one line of at least 16"),
        (b"one line of a token\nand another", "a token is one line of at least 16"),
        (b"\x80" * 20, "a token is one line of at least 16"),
        (b"long-enough-to-be-a-token\n", "nothing can be served there: Address already in use"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(token: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(token)
    command = [sys.executable, "-m", "wasm_kernel.apps.cli", "mcp", "--workspace-root", str(tmp_path / "root")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command += ["--http", str(taken.getsockname()[1]), "--token-file", str(tmp_path / "token")]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert expected in said.stderr and "Serving" not in said.stderr and "Traceback" not in said.stderr
    assert said.returncode == 2


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A server on the loopback address: its process, where it is, and its token."""
    port, file = free_port(), tmp_path / "token"
    command = [sys.executable, "-m", "wasm_kernel.apps.cli", "mcp", "--workspace-root", str(tmp_path / "root")]
    server = subprocess.Popen([*command, "--http", str(port), "--token-file", str(file)])
    try:
        end = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/mcp", timeout=5)
                break
            except httpx.TransportError:
                assert server.poll() is None and time.monotonic() < end
                time.sleep(0.1)
        assert file.stat().st_mode & 0o777 == 0o600
        yield server, f"http://127.0.0.1:{port}/mcp", file.read_text().strip()
    finally:
        server.terminate()
        assert server.wait(60) == 0, "a signal ends it once everything is saved"


@pytest.fixture
def http(served: tuple[subprocess.Popen[bytes], str, str]) -> tuple[str, str]:
    """Where it is, and its token."""
    return served[1:]


@contextlib.asynccontextmanager
async def over_http(address: str, token: str) -> AsyncIterator[Agent]:
    """An agent that has the token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as transport,
        Client(streamable_http_client(address, http_client=transport)) as client,
    ):
        yield Agent(client)


def test_a_whole_task_over_http(http: tuple[str, str]) -> None:
    async def main() -> None:
        async with over_http(*http) as agent:
            await whole_task(agent)

    asyncio.run(main())


def test_a_signal_ends_what_runs_and_all_is_saved(
    served: tuple[subprocess.Popen[bytes], str, str], tmp_path: Path
) -> None:
    server, *where = served

    async def main() -> None:
        async with over_http(*where) as agent:
            await agent.told("run_python", session="s", code="x = 1")
            code = "open('runs', 'w').close()\nwhile True: pass"
            call = asyncio.ensure_future(agent.call("run_python", session="s", code=code))
            while "runs" not in await agent.told("list_files", session="s"):
                await asyncio.sleep(0.05)
            server.terminate()
            assert await asyncio.to_thread(server.wait, 60) == 0
            with contextlib.suppress(MCPError):
                await call

    asyncio.run(main())

    async def later() -> None:
        async with over_stdio(tmp_path / "root") as agent:
            assert "\n1" in await agent.told("run_python", session="s", code="x")

    asyncio.run(later())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_that_reads_from_stdin(number: signal.Signals, tmp_path: Path) -> None:
    """As Ctrl-C does in a terminal, where nobody sends it a line."""
    command = [sys.executable, "-m", "wasm_kernel.apps.cli", "mcp", "--workspace-root", str(tmp_path)]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode())
        server.stdin.write(b"\n")
        server.stdin.flush()
        assert b"wasm-kernel" in server.stdout.readline()
        server.send_signal(number)
        try:
            assert server.wait(60) == -number
        finally:
            server.kill()


def test_over_http_only_who_has_the_token_from_this_machine(http: tuple[str, str]) -> None:
    address, token = http
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    right = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {token}x"}, {"Authorization": token}):
        answer = httpx.post(address, json=body, headers={**right, "Authorization": "none", **headers})
        assert answer.status_code == 401 and token not in answer.text
    for wrong in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):  # a page that rebinds its name
        assert httpx.post(address, json=body, headers={**right, **wrong}).status_code in (403, 421)
