"""Two machines, each with a disk and a kernel of its own, and a store between them: a folder, or a real S3 server."""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conformance.client import Kernel
from tests.conformance.test_notebook_sessions import Server, end, session_of, write_notebook
from tests.sessions.remote.conftest import address, objects, s3, s3_server
from tests.sessions.remote.test_pushing import made, push
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.sessions.remote.states import states
from wasm_kernel.sessions.remote.stored import remote_sessions

__all__ = ["address", "objects", "s3", "s3_server"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.close()


@pytest.fixture
def notebook(server: Server) -> Path:
    return write_notebook(server.root / "a.ipynb")


Start = Callable[..., Kernel]


@pytest.fixture
def on(server: Server, notebook: Path, tmp_path: Path, address: str) -> Iterator[Start]:
    """Open the notebook on a machine, by its name."""
    running: list[Kernel] = []
    config = tmp_path / "config"
    config.mkdir()
    (config / "jupyter_wasm_kernel_config.py").write_text(
        "c.WasmKernel.remote_close_seconds = 30\nc.WasmKernel.remote_interval_seconds = 1\n"
    )

    def on(node: str, **env: str) -> Kernel:
        given = {"WASM_KERNEL_REMOTE": address, "JUPYTER_CONFIG_DIR": str(config), **env}
        given |= {"JUPYTER_RUNTIME_DIR": str(server.runtime), "JPY_SESSION_NAME": str(notebook)}
        running.append(Kernel(tmp_path / node, **given))
        return running[-1]

    yield on
    for kernel in running:
        kernel.stop()


def until(what: Callable[[], Any], seconds: float = 300.0, pause: float = 0.1) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(pause)
    return found


def told(kernel: Kernel, text: str, so_far: str = "") -> str:
    """What a cell shows, once it has this, if none did so far: the session is pushed about every second."""

    def said() -> str:
        shown: str = kernel.ok("1").said
        return shown if text in shown else ""

    return so_far if text in so_far else str(until(said, pause=0.5))


def pushed(kernel: Kernel) -> bool:
    return kernel.ok("s = %session info\nprint(s['remote']['pushed_seconds'])").stdout.strip() != "None"


def test_a_notebook_goes_on_on_another_machine_and_comes_back(on: Start) -> None:
    one = on("one")
    one.ok("import numpy as np; x = np.arange(5); open('made.txt', 'w').write('one')")
    session_id = session_of(one)
    end(one)
    two = on("two")
    assert two.ok("print(x.sum(), open('made.txt').read())").stdout == "10 one\n"
    assert session_of(two) == session_id
    two.ok("x = x * 2; open('made.txt', 'a').write(' two')")
    end(two)
    again = on("one")
    assert again.ok("print(x.sum(), open('made.txt').read())").stdout == "20 one two\n"


def test_it_is_pushed_while_it_runs_and_taken_over_by_who_says_so(on: Start, address: str) -> None:
    one = on("one")
    one.ok("x = 1")
    session_id = session_of(one)
    until(lambda: pushed(one))
    shown = one.ok("%session info").said
    assert re.search(r"object store.*pushed .*, to " + re.escape(address), shown, re.DOTALL)
    two = on("two")
    first = two.run("x")
    assert not first.ok and re.search(r"is open at .*, process \d+, since 20", first.said)
    assert f"%session attach {session_id}" in first.said
    assert session_of(two) != session_id
    named = on("named", WASM_KERNEL_SESSION=session_id).run("x")
    assert not named.ok and f"`%session attach {session_id}` in a kernel that is started without" in named.said
    refused = two.run(f"%session attach {session_id}", answers=("no",))
    assert not refused.ok
    two.ok(f"%session attach {session_id}", answers=("yes",))
    assert two.ok("x += 1; print(x)").stdout.startswith("2")
    pushes = one.ok("y = 'only here'")  # and is refused
    told(one, "has taken it over", pushes.said)
    assert one.ok("print(x, y)").stdout == "1 only here\n", "it goes on, and loses nothing"
    end(two)
    end(one)
    again = on("three")
    assert again.ok("print(x)").stdout == "2\n"
    assert not again.run("y").ok


def test_a_kernel_that_is_killed_goes_on_here_at_once(on: Start) -> None:
    one = on("one")
    one.ok("x = 1")
    session_id = session_of(one)
    until(lambda: pushed(one))
    one.ok("x = 2")
    os.kill(one.pid, 9)
    again = on("one")  # its lease was not given back, but this disk is the one that had it
    assert again.ok("print(x)").stdout == "2\n"
    assert session_of(again) == session_id


def test_kill_during_a_push_leaves_the_last_whole_state(on: Start, objects: Objects) -> None:
    one = on("one")
    one.ok("import os; x = 'whole'")
    session_id = session_of(one)
    first = until(lambda: states(objects, session_id))
    for _ in range(4):
        one.ok("x = 'later'; data = os.urandom(30 << 20)")
    packs = f"sessions/{session_id}/packs/"
    before = objects.names(packs)
    until(lambda: objects.names(packs) != before)
    os.kill(one.pid, 9)
    two = on("two")
    two.run("1")
    two.ok(f"%session attach {session_id}", answers=("yes",))
    assert two.ok("print(x)").stdout.strip() in ("whole", "later"), first
    again = on("one")
    assert "is open at" in again.run("1").said


class Proxy:
    """Between a kernel and its store: passes requests on, refuses them, or makes them wait."""

    def __init__(self, target: str) -> None:
        self.refuses, self.waits, self.asked = False, 0.0, 0
        proxy, host = self, target.removeprefix("http://")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.asked += 1
                time.sleep(proxy.waits)
                if proxy.refuses:
                    self.send_response(503)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                there = http.client.HTTPConnection(host)
                there.request(self.command, self.path, body, dict(self.headers))
                answer = there.getresponse()
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                there.close()

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self.waits = 0.0
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def proxy(s3_server: str) -> Iterator[Proxy]:
    proxy = Proxy(s3_server)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_a_store_that_fails_is_told_once_and_tried_again(on: Start, proxy: Proxy, address: str) -> None:
    proxy.refuses = True
    one = on("one", AWS_ENDPOINT_URL=proxy.url)
    first = one.ok("x = 1")
    assert "cannot be asked" in first.said
    assert "Nothing is lost" in told(one, "cannot be pushed", first.said)
    assert "cannot be pushed" not in one.ok("x").said
    proxy.refuses = False
    until(lambda: pushed(one))
    end(one)
    assert on("two").ok("print(x)").stdout == "1\n"


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_cells_do_not_wait_for_a_slow_store_nor_does_the_end(on: Start, proxy: Proxy, address: str) -> None:
    one = on("one", AWS_ENDPOINT_URL=proxy.url)
    one.ok("x = 1")
    until(lambda: pushed(one))
    proxy.waits, before = 15.0, proxy.asked
    one.ok("x = 2")
    until(lambda: proxy.asked > before)  # it is pushing now
    began = time.monotonic()
    for _ in range(5):
        one.ok("x += 1")
    assert time.monotonic() - began < 12, "less than one answer of the store"
    os.kill(one.pid, 9)
    proxy.waits = 0.0
    assert on("one").ok("print(x)").stdout == "7\n"


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_a_bucket_that_is_not_ours_is_a_notice_and_nothing_is_lost(on: Start, address: str) -> None:
    one = on("one", WASM_KERNEL_REMOTE="s3://no-such-bucket-here/x")
    told(one, "cannot be pushed to s3://no-such-bucket-here/x", one.ok("x = 1").said)
    end(one)
    assert on("one").ok("print(x)").stdout == "1\n"


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_a_last_push_that_takes_long_is_finished_by_a_process_of_its_own(
    on: Start, proxy: Proxy, address: str, tmp_path: Path
) -> None:
    defaults = tmp_path / "defaults"
    defaults.mkdir()
    one = on("one", AWS_ENDPOINT_URL=proxy.url, JUPYTER_CONFIG_DIR=str(defaults))
    one.ok("x = 1")
    session_id = session_of(one)
    until(lambda: pushed(one), pause=6)  # after five quiet seconds
    one.ok("x = 2")
    proxy.waits = 1.0
    end(one)

    def finishing() -> list[psutil.Process]:
        every = psutil.process_iter(["cmdline", "status"])
        return [p for p in every if session_id in (p.info["cmdline"] or []) and p.info["status"] != "zombie"]

    assert finishing()
    until(lambda: not finishing())
    proxy.waits = 0.0
    assert on("two").ok("print(x)").stdout == "2\n"


def test_what_is_deleted_on_one_machine_is_not_brought_back_by_another(on: Start, address: str) -> None:
    one = on("one")
    one.ok("x = 1")
    session_id = session_of(one)
    end(one)
    two = on("two")
    assert two.ok("print(x)").stdout == "1\n"
    end(two)
    one = on("one")
    planned = one.ok("%prune --max-sessions 0").said
    assert "No session would be deleted" in planned, "the one that it works in"
    assert f"are deleted, also from {address}" in one.ok("%session delete --yes").said
    end(one)
    two = on("two")
    first = two.ok("print(x)")
    assert first.stdout.startswith("1\n"), "what is on its disk stays there"
    assert "%session fork" in told(two, "was deleted in", first.said)
    assert session_of(two) == session_id
    shown = two.ok("%session info").said
    assert "not any more" in shown
    end(two)
    three = on("three")
    assert not three.run("x").ok
    assert session_of(three) != session_id


def test_prune_deletes_what_is_only_in_the_store(on: Start, objects: Objects, tmp_path: Path) -> None:
    old = made(tmp_path / "elsewhere", "x = 1")
    push(objects, tmp_path / "elsewhere", old)
    one = on("one")
    one.ok("y = 1")
    shown = one.ok("%prune --older-than 0s")
    assert old in shown.said and "in the object store" in shown.said
    refused = one.run("%prune --older-than 0s --yes", answers=("no",))
    assert not refused.ok and old in remote_sessions(objects)
    one.ok("%prune --older-than 0s --yes", answers=("yes",))
    assert old not in remote_sessions(objects)
