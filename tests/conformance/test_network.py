"""The network from a notebook: allowed by the person, by name, kept with the session; secrets that cells never see."""

from __future__ import annotations

import ast
import ctypes
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Cell, Kernel
from tests.host.network.servers import Server, http_server, make_authority
from wasm_kernel import fork_session, get_session_sandbox, import_session
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.network.connection_log import ConnectionLog

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]
VALUE = "ghp_9f8e7d6c5b4a-the-secret"


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server of HTTPS at localhost, and the environment of a kernel that trusts it."""
    made = make_authority(tmp_path_factory.mktemp("authority"), "localhost")
    with http_server(made.context) as server:
        yield server, {"SSL_CERT_FILE": str(made.file)}


def asked(kernel: Kernel, code: str, *answers: str) -> tuple[dict[str, object], Cell]:
    """What the person was asked, and what came of the cell."""
    running = kernel.start(code, allow_stdin=True)
    question = kernel.client.get_stdin_msg(timeout=30)["content"]
    for text in answers:
        kernel.client.input(text)
    return question, kernel.finish(running)


def hosts(kernel: Kernel) -> list[str]:
    return list(ast.literal_eval(kernel.ok("s = %session info\nprint(s['network'])").stdout))


def session_of(kernel: Kernel) -> str:
    return kernel.ok("s = %session info\nprint(s['session_id'])").stdout.strip()


def get(port: int, path: str = "/") -> str:
    return f"import urllib.request; print(urllib.request.urlopen('https://localhost:{port}{path}', timeout=30).status)"


def test_allowed_by_the_person_told_and_taken_back(start: Start, trusted: tuple[Server, dict[str, str]]) -> None:
    server, environ = trusted
    kernel, host = start(**environ), f"localhost:{server.port}"
    refused = kernel.run(get(server.port))
    assert refused.traceback.splitlines()[-1].endswith(f"To allow it: %session allow {host}>")
    question, cell = asked(kernel, f"%session allow {host} *.data.example 10.1.2.3:22", "no")
    assert cell.reply["ename"] == "NotGranted"
    assert "wants to connect to the network, and may send there all that it has" in str(question["prompt"])
    assert f"localhost, port {server.port}" in str(question["prompt"])
    assert "all hosts below data.example, ports 80 and 443" in str(question["prompt"])
    assert "10.1.2.3, port 22 (an address of a private network)" in str(question["prompt"])
    assert hosts(kernel) == []
    _, cell = asked(kernel, f"%session allow {host}\n{get(server.port)}", "yes")
    assert cell.stdout == "200\n", "in the same cell"
    assert kernel.ok(f"%session allow {host}").ok, "nobody is asked for what is allowed already"
    assert hosts(kernel) == [host]
    assert host in kernel.ok("%session").said
    assert re.search(rf"localhost\s+{server.port}\s+you", kernel.ok("%session allow").said)
    _, cell = asked(kernel, "%session allow other.example", "no")
    assert cell.reply["ename"] == "NotGranted", "a grant for one host is none for another"
    kernel.ok(f"import socket; s = socket.create_connection(('localhost', {server.port}))")
    assert "was not allowed" in kernel.run("%session deny other.example").said
    kernel.ok(f"%session deny {host}")
    assert kernel.run("s.send(b'x')").reply["ename"] == "PermissionError", "an open connection ends, too"
    assert kernel.run(get(server.port)).reply["ename"] == "URLError"
    assert hosts(kernel) == []


def test_kept_with_the_session_and_gone_with_every_copy(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="export,attach")
    asked(kernel, "%session allow a.example b.example:22", "yes")
    kernel.ok("%session snapshot\n")
    kernel.ok("%session export out.zip")
    kernel.stop()

    def kept(session_id: str) -> object:
        return read_record(kernel.root / session_id).extra.get("network")

    assert kept("mine") == ["a.example", "b.example:22"]
    assert not kept(fork_session("mine", kernel.root))
    assert not kept(import_session(tmp_path / "out.zip", kernel.root))
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "forged.zip", "w") as archive:
        for name, data in parts.items():
            told = (
                json.dumps({**json.loads(data), "network": ["evil.example"]}) if name.endswith("session.json") else data
            )
            archive.writestr(name, told)
    assert not kept(import_session(tmp_path / "forged.zip", kernel.root))
    again = start(WASM_KERNEL_SESSION="mine")
    assert hosts(again) == ["a.example", "b.example:22"]
    again.ok("%session revoke network")
    assert hosts(again) == []
    asked(again, "%session allow a.example", "yes")
    again.stop()
    other = start(WASM_KERNEL_SESSION="other", WASM_KERNEL_GRANTS="attach")
    record = read_record(kernel.root / "mine")
    assert record is not None
    given = {"grants": {"trust": ""}, "data_folder": "/data", "clusters": ["tls://a.example:8786"]}
    write_record(kernel.root / "mine", record.touched(record.updated_at, **given), sync=False)
    other.ok("%session attach mine")
    assert hosts(other) == []
    attached = read_record(kernel.root / "mine")
    assert attached is not None
    assert not any(attached.extra.get(name) for name in (*given, "network"))


def test_a_notebook_cannot_allow_itself_anything(start: Start, trusted: tuple[Server, dict[str, str]]) -> None:
    server, environ = trusted
    kernel, host = start(**environ), f"localhost:{server.port}"
    for code in (
        f"get_ipython().run_line_magic('session', 'al' + 'low {host}')",
        f"import wasm_guest.door as d, wasm_guest.wire as w\nprint(d.send(w.HostMagic('session', 'allow {host}')))",
    ):
        kernel.run(code, answers=("yes",))
        assert hosts(kernel) == []
    assert "nobody can be asked" in kernel.run(f"%session allow {host}", allow_stdin=False).said
    assert hosts(kernel) == []
    assert kernel.run(get(server.port)).reply["ename"] == "URLError"


def test_what_is_wrong_is_said_before_anybody_is_asked(start: Start) -> None:
    kernel = start()
    assert "'https://a.org' is an address of a page" in kernel.run("%session allow https://a.org").said
    assert "'*.com' is too much" in kernel.run("%session allow *.com").said
    assert "name the hosts to take back" in kernel.run("%session deny").said
    assert "is no single host that cells may connect to" in kernel.run("%session secret T a.org").said
    assert "'9x' is no name of a secret" in kernel.run("%session secret 9x a.org").said
    assert "what is the secret called?" in kernel.run("%session secret --header X-API-Key").said
    many = " ".join(f"a{n:02}.example" for n in range(12))
    assert "13 hosts are more than one question shows" in kernel.run(f"%session allow {many} zz.evil.example").said
    assert "no host" in kernel.ok("%session allow").said
    question, _ = asked(kernel, f"%session allow {many}", "yes")
    assert all(f"{name}, ports 80 and 443" in str(question["prompt"]) for name in many.split())


def test_completion_knows_the_hosts_that_can_be_taken_back(start: Start) -> None:
    kernel = start()
    asked(kernel, "%session allow a.example *.b.example:22", "yes")

    def completed(line: str) -> object:
        return kernel.ask("complete_request", {"code": line, "cursor_pos": len(line)})["matches"]

    assert completed("%session deny ") == ["*.b.example:22", "--all", "a.example"]
    assert completed("%session secret TOKEN a") == ["a.example"]


def test_undo_and_restore_close_connections(start: Start, trusted: tuple[Server, dict[str, str]]) -> None:
    server, environ = trusted
    kernel = start(WASM_KERNEL_SESSION="mine", **environ)
    asked(kernel, f"%session allow localhost:{server.port}", "yes")
    kernel.ok(f"import socket; s = socket.create_connection(('localhost', {server.port}))")
    kernel.ok("x = 1")
    kernel.ok("s.send(b'GET')")
    kernel.ok("%session undo")
    assert kernel.run("s.send(b'x')").reply["ename"] == "ConnectionResetError"
    kernel.ok(f"s = socket.create_connection(('localhost', {server.port}))")
    kernel.ok("%session snapshot here")
    kernel.ok("s.send(b'GET')")
    kernel.ok("%session restore here")
    assert kernel.run("s.recv(1)").reply["ename"] == "ConnectionResetError"
    kernel.ok(f"s = socket.create_connection(('localhost', {server.port}))")
    kernel.stop()
    again = start(WASM_KERNEL_SESSION="mine", **environ)
    assert again.run("s.recv(1)").reply["ename"] == "ConnectionResetError"
    assert again.ok(get(server.port)).stdout == "200\n"


def test_tasks_go_on_between_cells(start: Start, trusted: tuple[Server, dict[str, str]]) -> None:
    server, environ = trusted
    kernel = start(**environ)
    asked(kernel, f"%session allow localhost:{server.port}", "yes")
    kernel.ok(f"""
import asyncio
async def get():
    reader, writer = await asyncio.open_connection("localhost", {server.port}, ssl=True)
    writer.write(b"GET /between HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    print("got", len(await reader.read()) > 50)
task = asyncio.create_task(get())
""")
    kernel.wait_for("stream", "got True")


def test_every_connection_is_written_down(start: Start, trusted: tuple[Server, dict[str, str]]) -> None:
    server, environ = trusted
    kernel = start(WASM_KERNEL_SESSION="mine", **environ)
    asked(kernel, f"%session allow localhost:{server.port}", "yes")
    kernel.ok(get(server.port))
    kernel.run(f"import socket; socket.create_connection(('localhost', {server.port})); 1/0")
    kernel.stop()
    log = kernel.root / ".wasm-kernel" / "history" / "mine" / "network.jsonl"
    first, second = ConnectionLog(log.parent).lines()
    assert (first["host"], first["port"], first["encrypted"]) == ("localhost", server.port, True)
    assert first["sent"] > 50
    assert first["received"] > 50
    assert first["time"].startswith("20")
    assert second["session_bytes"] == first["session_bytes"] == first["sent"] + first["received"]
    assert (log.stat().st_mode & 0o777) == 0o600
    again = start(WASM_KERNEL_SESSION="mine", **environ)
    again.ok(get(server.port))
    again.stop()
    assert json.loads(log.read_text().splitlines()[-1])["session_bytes"] > 1.5 * first["session_bytes"]


def test_a_secret_reaches_its_host_and_nothing_else(
    start: Start, trusted: tuple[Server, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server, environ = trusted
    host = f"localhost:{server.port}"
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="export", **environ)
    asked(kernel, f"%session allow {host}", "yes")
    question, cell = asked(kernel, f"token = %session secret API_TOKEN {host}\nprint(token)", VALUE)
    assert question["password"] is True
    assert f"{host} only" in str(question["prompt"])
    assert cell.stdout == "wasm-kernel-secret-API_TOKEN\n"
    server.requests.clear()
    code = f"""
import base64, urllib.request
def get(**headers):
    request = urllib.request.Request("https://{host}/q?" + token, data=token.encode(), headers=headers)
    return urllib.request.urlopen(request).read()
a = get(Authorization="Bearer " + token)
b = get(Authorization="Basic " + base64.b64encode(f"ann:{{token}}".encode()).decode())
c = get(**{{"X-Request-ID": token, "Cookie": token}})
"""
    kernel.ok(code)
    (path, first, body), (_, second, _), (_, third, _) = server.requests
    assert first["authorization"] == f"Bearer {VALUE}"
    assert second["authorization"] == "Basic " + __import__("base64").b64encode(f"ann:{VALUE}".encode()).decode()
    assert third["x-request-id"] == third["cookie"] == "wasm-kernel-secret-API_TOKEN"
    assert VALUE not in path + body.decode()
    assert "API_TOKEN" in kernel.ok("%session secret").said
    kernel.ok("%session snapshot kept")
    kernel.ok("%session export out.zip")
    shown = json.dumps([cell.reply, cell.messages], default=str)
    history = kernel.ask("history_request", {"hist_access_type": "tail", "n": 50, "raw": True, "output": True})
    kernel.stop()
    assert VALUE not in shown
    assert VALUE not in json.dumps(history.reply if isinstance(history, Cell) else history, default=str)
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()]
    assert holding == []
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert not any(VALUE.encode() in archive.read(name) for name in archive.namelist())
    assert not _in_memory(kernel.root, "mine", VALUE)
    assert _in_memory(kernel.root, "mine", "wasm-kernel-secret-API_TOKEN"), "where the value would be seen"
    again = start(WASM_KERNEL_SESSION="mine", **environ)
    server.requests.clear()
    again.ok('get(Authorization="Bearer " + token)')
    assert server.requests[0][1]["authorization"].endswith("secret-API_TOKEN"), "it is gone with its kernel"


def _in_memory(root: Path, session_id: str, text: str) -> bool:
    """Whether a text is in the memory that a session was saved with."""
    with get_session_sandbox(session_id, workspace_root=root) as sandbox:
        live = sandbox._live
        from wasm_kernel.sessions.opening import resume

        resume(live)
        sandbox.execute("1")
        instance = live.sandbox._guest.instance
        assert instance is not None
        # in parts, so that this process's own copy of the text is not what is found
        return text.encode() in ctypes.string_at(*instance.memory_span)


def test_secrets_are_refused_listed_and_forgotten(start: Start, trusted: tuple[Server, dict[str, str]]) -> None:
    server, environ = trusted
    host = f"localhost:{server.port}"
    kernel = start(**environ)
    asked(kernel, f"%session allow {host}", "yes")
    assert "is no single host that cells may connect to" in kernel.run("%session secret A localhost:1").said
    _, cell = asked(kernel, "%session secret A", "")
    assert cell.reply["ename"] == "NotGranted"
    _, cell = asked(kernel, "%session secret A", "with space in it")
    assert "without spaces" in cell.said
    assert "with space in it" not in cell.said
    assert "nobody can be asked" in kernel.run("%session secret A", allow_stdin=False).said
    asked(kernel, "%session secret A --header X-API-Key", VALUE)
    server.requests.clear()
    code = f"urllib.request.urlopen(urllib.request.Request('https://{host}/', headers={{'X-API-Key': 'wasm-kernel-secret-A'}}))"
    kernel.ok(f"import urllib.request; {code}")
    assert server.requests[0][1]["x-api-key"] == VALUE
    assert "no header for a secret" in kernel.run("%session secret B --header Origin").said
    kernel.ok("%session secret --forget A")
    asked(kernel, "%session secret B", VALUE)
    kernel.ok("%session deny --all")
    assert "B" not in kernel.ok("s = %session secret\nprint(s)").stdout


def test_the_configuration_allows_hosts_for_all(
    start: Start, tmp_path: Path, trusted: tuple[Server, dict[str, str]]
) -> None:
    server, environ = trusted
    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "jupyter_wasm_kernel_config.py").write_text(f"c.WasmKernel.network = ['localhost:{server.port}']\n")
    kernel = start(JUPYTER_CONFIG_DIR=str(folder), **environ)
    assert hosts(kernel) == [f"localhost:{server.port}"]
    assert kernel.ok(get(server.port)).stdout == "200\n"
    assert "allowed by the configuration" in kernel.run(f"%session deny localhost:{server.port}").said
    (folder / "jupyter_wasm_kernel_config.py").write_text("c.WasmKernel.network = ['*']\n")
    assert "WasmKernel.network cannot be used: '*' is no host" in start(JUPYTER_CONFIG_DIR=str(folder)).run("1").said


def test_widgets_and_interrupts_while_a_cell_awaits_the_network(
    start: Start, trusted: tuple[Server, dict[str, str]]
) -> None:
    server, environ = trusted
    kernel = start(**environ)
    asked(kernel, f"%session allow localhost:{server.port}", "yes")
    for code in (
        f"import urllib.request; urllib.request.urlopen('https://localhost:{server.port}/slow')",
        f"import asyncio; r, w = await asyncio.open_connection('localhost', {server.port}); print('waits'); await r.read()",
    ):
        running = kernel.start(f"print('begins')\n{code}")
        kernel.wait_for("stream", "begins")
        kernel.manager.interrupt_kernel()
        assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"
    assert kernel.ok("print(1)").stdout == "1\n"
