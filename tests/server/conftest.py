"""A Jupyter server with the extension, as an installation enables it, under a prefix as a hub's."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.ports import free_port
from tests.sessions.helpers import make_session
from wasm_kernel.model.names import key_of

BASE = "/user/ann"
QUOTA = 700 << 20
CONFIG = Path(__file__).parents[2] / "jupyter-config" / "wasm_kernel.json"


@dataclass
class Answer:
    """What came back, all of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A server that runs. Requests are sent as they are: no client mends a path."""

    port: int
    token: str
    root: Path
    process: subprocess.Popen[bytes]
    log: Path
    authorized: dict[str, str] = field(default_factory=dict)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(
        self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None, login: bool = True
    ) -> Answer:
        connection = self.connect()
        try:
            connection.request(
                method, f"{BASE}/{path}", body, {**(self.authorized if login else {}), **(headers or {})}
            )
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    # ---- its memory and its work

    def cpu_seconds(self) -> float:
        """How much it has worked so far. Unlike time that passed, this is the same on a busy machine."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def forget_peak(self) -> int:
        """Begin to look for the largest amount of memory anew; how much it is now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.peak()

    def peak(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10


@dataclass
class Session:
    """A session, and requests about its files."""

    server: Server
    id: str

    @property
    def folder(self) -> Path:
        return self.server.root / self.id

    def url(self, what: str) -> str:
        return f"wasm-kernel/sessions/{self.id}/{what}"

    def file(self, path: str | bytes) -> str:
        return self.url(f"files/{key_of(os.fsdecode(path))}")

    def get(self, path: str | bytes, query: str = "", **headers: str) -> Answer:
        return self.server.get(self.file(path) + query, **headers)

    def put(self, path: str | bytes, body: Any, query: str = "", **headers: str) -> Answer:
        return self.server.request("PUT", self.file(path) + query, body=body, headers=headers)

    def post(self, path: str | bytes, query: str) -> Answer:
        return self.server.request("POST", self.file(path) + query)

    def delete(self, path: str | bytes, query: str = "") -> Answer:
        return self.server.request("DELETE", self.file(path) + query)

    def leftovers(self) -> list[str]:
        """Uploads that were begun and are still there."""
        return [str(p.relative_to(self.folder)) for p in self.folder.rglob(".metadata.json.*")]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), f"c.WasmKernel.limits = {{'disk': '{QUOTA}'}}\n") as made:
        yield made


API = "wasm-kernel/api/v0"


@dataclass
class Api:
    """Requests to the API of a server."""

    server: Server

    def __call__(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        """The answer's JSON; what is not answered as expected fails."""
        answer = self.raw(method, path, body, **headers)
        assert answer.status == status, (method, path, answer.status, answer.body[:2000])
        if status >= 400:
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.json["status"] == status and answer.json["detail"]
        return strict_json(answer.body) if answer.body else None

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        data = body if isinstance(body, bytes) or body is None else json.dumps(body)
        return self.server.request(method, f"{API}/{path}", body=data, headers=given)

    def create(self, **wanted: Any) -> str:
        made = self("POST", "sandboxes", wanted, 201)
        assert made["state"] == "ready"
        return str(made["sandbox_id"])

    def run(self, sandbox_id: str, code: str, **wanted: Any) -> Any:
        """A task that has ended."""
        return self("POST", f"sandboxes/{sandbox_id}/tasks?wait=100", {"code": code, **wanted})

    def value(self, sandbox_id: str, code: str) -> str:
        """What an expression is."""
        task = self.run(sandbox_id, code)
        assert task["outcome"]["kind"] == "ok", task
        return str(task["result"]["result"]["text/plain"])

    def begin(self, sandbox_id: str, code: str) -> str:
        """A task that runs, and has said so: first of all, or where its code says ``print('begun')``."""
        text = code if "print('begun')" in code else f"print('begun')\n{code}"
        task_id = str(self("POST", f"sandboxes/{sandbox_id}/tasks", {"code": text}, 202)["task_id"])
        self.until(lambda: self("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")["events"])
        return task_id

    def events(self, sandbox_id: str, task_id: str, query: str = "") -> list[Any]:
        answer = self.raw("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}/events{query}")
        assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-ndjson"
        return [strict_json(line) for line in answer.body.split(b"\n") if line]

    def state(self, sandbox_id: str) -> str:
        return str(self("GET", f"sandboxes/{sandbox_id}")["state"])

    def until(self, what: Callable[[], Any], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.05)


def strict_json(data: bytes) -> Any:
    """JSON as other languages read it: no NaN, no half characters."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    found = json.loads(data.decode(), parse_constant=refuse)
    json.dumps(found, ensure_ascii=False).encode()
    return found


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The API of a server of its own, with room for four sandboxes."""
    home = tmp_path_factory.mktemp("api")
    settings = f"""
c.WasmKernelExtension.max_live_sandboxes = 4
c.WasmKernelExtension.archive_folder = {str(home / "archive")!r}
c.WasmKernel.maxima = {{"memory": "1G", "timeout": "1h"}}
"""
    with running(home, settings) as server:
        yield Api(server)


@contextlib.contextmanager
def running(home: Path, settings: str) -> Iterator[Server]:
    """A server over a folder, which may have been another's before."""
    root = home / "workspace"
    enabled = home / "etc" / "jupyter_server_config.d"
    config = home / "config"
    for folder in (root, enabled, config):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(CONFIG, enabled)
    others = ("jupyterlab", "jupyter_lsp", "notebook_shim", "jupyter_server_terminals")  # only take time
    (config / "jupyter_server_config.json").write_text(
        json.dumps({"ServerApp": {"jpserver_extensions": dict.fromkeys(others, False)}})
    )
    (config / "jupyter_wasm_kernel_config.py").write_text(settings)
    (config / "forbid.py").write_text(_FORBID)
    port = free_port()
    token = secrets.token_hex(16)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "JPY_"))} | {
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_CONFIG_PATH": str(home / "etc"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "WASM_KERNEL_WORKSPACE": str(root),
        "JUPYTER_TOKEN": token,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(config), os.environ.get("PYTHONPATH")))),
    }
    log = home / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}",
                "--ServerApp.port_retries=0", f"--ServerApp.base_url={BASE}/", f"--ServerApp.root_dir={home}",
                "--ServerApp.authorizer_class=forbid.Forbid",
            ],
            env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    made = Server(port, token, root, process, log, {"Authorization": f"token {token}"})
    try:
        end = time.monotonic() + 60
        while True:
            try:
                assert made.get("api/status").status == 200
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.1)
        yield made
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


_FORBID = """
from jupyter_server.auth import Authorizer

class Forbid(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        if resource == "wasm_kernel" and handler.request.headers.get("X-Test-Forbid") == action:
            return False
        return True
"""


@pytest.fixture
def session(server: Server) -> Session:
    """A session with a few files; beside it lies what must not be touched."""
    (server.root.parent / "secret").write_bytes(b"secret")
    files = {"a.txt": "0123456789", "data/b.csv": "x,y\n1,2\n", "data/deep/c.bin": bytes(range(256))}
    return Session(server, make_session(server.root, files=files))
