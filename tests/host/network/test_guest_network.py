"""A guest's network, with real servers on this machine: what ordinary code does with it, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.client import eventually
from tests.host.network.conftest import Grant, both, fails, ok
from tests.host.network.servers import Authority, Server, http_server, make_authority, raw_server
from wasm_kernel import BaseSandbox, ExecutionPolicy, OutcomeKind
from wasm_kernel.guest import wire
from wasm_kernel.host.network import resolving
from wasm_kernel.host.network.connection_log import ConnectionLog
from wasm_kernel.host.network.guest_network import GuestNetwork
from wasm_kernel.model.network_grants import parse_all

SERVED = "json.loads({}.read())['path']"


def test_a_socket(granted: BaseSandbox) -> None:
    code = """
import socket
import ssl
with socket.create_connection(("web.test", PLAIN), timeout=30) as s:
    s.sendall(b"GET /plain HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    data = b""
    while piece := s.recv(1000):
        data += piece
    print(data.split(b"\\r\\n")[0].decode(), b"/plain" in data, s.getpeername()[0], s.fileno() > 1000)
print(s.fileno())
"""
    assert ok(granted, code) == "HTTP/1.1 200 OK True web.test True\n-1\n"


def test_the_standard_library_and_pandas(granted: BaseSandbox) -> None:
    code = """
import http.client, json, urllib.request
print(json.loads(urllib.request.urlopen(f"http://web.test:{PLAIN}/a").read())["path"])
print(json.loads(urllib.request.urlopen(f"https://web.test:{SECURE}/b").read())["path"])
c = http.client.HTTPSConnection("web.test", SECURE, timeout=30)
for path in ("/c", "/d"):
    c.request("POST", path, body=b"x" * 300_000)
    answer = json.loads(c.getresponse().read())
    print(answer["path"], len(answer["body"]))
c.close()
import pandas as pd
print(pd.read_csv(f"https://web.test:{SECURE}/cities.csv")["people"].sum())
"""
    assert ok(granted, code) == "/a\n/b\n/c 300000\n/d 300000\n9885\n"


def test_the_names_that_libraries_import_from_ssl(granted: BaseSandbox) -> None:
    """Python's own, but for what nobody can have here and what went with older releases."""
    public = [
        name
        for name, value in vars(ssl).items()
        if name[0] != "_" and (isinstance(value, type | int) or callable(value))
    ]
    older = {"RAND_pseudo_bytes", "wrap_socket", "create_connection", "namedtuple", "socket"}
    code = f"import ssl\nprint([name for name in {sorted(set(public) - older)} if not hasattr(ssl, name)])"
    assert ok(granted, code) == "[]\n"
    assert (
        ok(
            granted,
            "ssl.create_default_context().verify_flags |= ssl.VERIFY_X509_STRICT; print(ssl.OP_NO_TLSv1 in ssl.Options)",
        )
        == "True\n"
    )


def test_asyncio(granted: BaseSandbox) -> None:
    code = """
import asyncio
async def get(port, path, **options):
    reader, writer = await asyncio.open_connection("web.test", port, **options)
    writer.write(f"GET {path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n".encode())
    data = await reader.read()
    tls = writer.get_extra_info("ssl_object")
    writer.close()
    await writer.wait_closed()
    return path.encode() in data, tls and tls.version()
print(await get(PLAIN, "/one"))
print(await asyncio.gather(*(get(SECURE, f"/{n}", ssl=True) for n in range(3))))
print(asyncio.run(get(SECURE, "/run", ssl=True)))
"""
    secure = "(True, 'TLSv1.3')"
    assert ok(granted, code) == f"(True, None)\n[{secure}, {secure}, {secure}]\n{secure}\n"


def test_select_and_timeouts(sandbox_for: Grant) -> None:
    def echo_later(sock: socket.socket) -> None:
        while data := sock.recv(100):
            time.sleep(0.3)
            sock.sendall(data)

    code = """
import select, selectors, socket
s = socket.create_connection(("127.0.0.1", PORT))
print(select.select([s], [s], [], 0) == ([], [s], []))
s.settimeout(0.05)
s.sendall(b"hello")
try: s.recv(10)
except TimeoutError as e: print("late", e)
print(select.select([s], [], [], 20)[0] == [s], s.recv(2), s.recv(2, socket.MSG_PEEK), s.recv(10) + s.recv(10))
s.setblocking(False)
try: s.recv(1)
except BlockingIOError: print("nothing yet")
s.send(b"again")
with selectors.DefaultSelector() as selector:
    selector.register(s, selectors.EVENT_READ)
    print([key.fileobj is s for key, events in selector.select(20)], s.recv(10))
poll = select.poll(); poll.register(s, select.POLLIN | select.POLLOUT)
print(poll.poll(1000) == [(s.fileno(), select.POLLOUT)])
s.shutdown(socket.SHUT_WR); s.setblocking(True); print(s.recv(1))
"""
    with raw_server(echo_later) as server:
        said = ok(sandbox_for([f"127.0.0.1:{server.port}"]), code.replace("PORT", str(server.port)))
    assert said == ("True\nlate timed out\nTrue b'he' b'll' b'llo'\nnothing yet\n[True] b'again'\nTrue\nb''\n")


def test_without_a_grant_one_line_says_what_to_do(granted: BaseSandbox, sandbox: BaseSandbox) -> None:
    code = "import socket; socket.getaddrinfo('api.github.com', 443); socket.create_connection(('api.github.com', 443))"
    name, text = fails(granted, code)
    assert name == "PermissionError"
    assert "api.github.com:443" in text
    assert text.endswith("ExecutionPolicy(network=['api.github.com'])")
    assert "\n" not in text
    name, text = fails(granted, "import socket; socket.create_connection(('fe80::1', 443))")
    assert "connect to [fe80::1]:443. To allow it" in text
    name, text = fails(sandbox, "import pandas as pd; pd.read_csv('http://db.internal:8080/x.csv')")
    assert name == "URLError"
    assert "ExecutionPolicy(network=['db.internal:8080'])" in text


def test_ports_that_were_not_said(sandbox_for: Grant, web: Server) -> None:
    sandbox = sandbox_for(["web.test"])
    assert "web.test:22" in fails(sandbox, "import socket; socket.create_connection(('web.test', 22))")[1]
    assert fails(sandbox, f"socket.create_connection(('web.test', {web.port}))")[0] == "PermissionError"


def test_nothing_can_listen(granted: BaseSandbox) -> None:
    assert "only outgoing" in fails(granted, "import socket; socket.socket().listen()")[1]
    assert "only outgoing" in fails(granted, "import socket; socket.create_server(('', 8000))")[1]
    assert fails(granted, "import socket; socket.socket(type=socket.SOCK_DGRAM)")[0] == "OSError"


def test_names_that_are_not_known(sandbox_for: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(resolving, "look_up", unknown)
    name, text = fails(
        sandbox_for(["nowhere.example"]), "import socket; socket.create_connection(('nowhere.example', 80))"
    )
    assert name == "gaierror"
    assert "nowhere.example:80" in text


def test_refused_connections(sandbox_for: Grant) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
    assert fails(sandbox_for([f"127.0.0.1:{port}"]), code)[0] == "ConnectionRefusedError"
    code = f"import asyncio; await asyncio.open_connection('127.0.0.1', {port})"
    assert fails(sandbox_for([f"127.0.0.1:{port}"]), code)[0] == "ConnectionRefusedError"


def test_certificates_are_the_hosts_to_check(
    sandbox_for: Grant, authority: Authority, tmp_path_factory: pytest.TempPathFactory, secure_web: Server
) -> None:
    stranger = make_authority(tmp_path_factory.mktemp("stranger"), "web.test")
    with http_server(stranger.context) as untrusted:
        sandbox = sandbox_for([*both(untrusted, secure_web)])
        code = f"""
import ssl, urllib.request
context = ssl._create_unverified_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
urllib.request.urlopen("https://web.test:{untrusted.port}/", context=context)
"""
        name, text = fails(sandbox, code)
        assert name == "URLError"
        assert "certificate" in text
        name, text = fails(
            sandbox, code.replace("web.test", "127.0.0.1").replace(str(untrusted.port), str(secure_web.port))
        )
        assert "not valid for '127.0.0.1'" in text
        code = f"import asyncio; await asyncio.open_connection('web.test', {untrusted.port}, ssl=True)"
        assert fails(sandbox, code)[0] == "SSLCertVerificationError"
        assert untrusted.requests == []


def test_the_name_of_a_certificate_is_granted_too(granted: BaseSandbox) -> None:
    code = """
import socket, ssl
s = socket.create_connection(("127.0.0.1", SECURE))
ssl.create_default_context().wrap_socket(s, server_hostname="{}")
"""
    assert "no permission to connect to evil.example" in fails(granted, code.format("evil.example"))[1]
    ok(granted, code.format("web.test"))


def test_encryption_begins_later(sandbox_for: Grant, authority: Authority) -> None:
    """STARTTLS: some plain words first, then TLS on the same connection."""

    def serve(sock: socket.socket) -> None:
        sock.sendall(b"hello\n")
        assert sock.recv(100) == b"STARTTLS\n"
        sock.sendall(b"go\n")
        with authority.context.wrap_socket(sock, server_side=True) as secure:
            secure.sendall(secure.recv(100).upper())

    code = """
import socket, ssl
s = socket.create_connection(("web.test", PORT))
print(s.recv(100)); s.sendall(b"STARTTLS\\n"); print(s.recv(100))
s = ssl.create_default_context().wrap_socket(s, server_hostname="web.test")
s.sendall(b"quiet"); print(s.recv(100), s.version(), len(s.getpeercert(True)) > 100, s.getpeercert()["subjectAltName"][0])
"""
    with raw_server(serve) as server:
        said = ok(sandbox_for(both(server)), code.replace("PORT", str(server.port)))
    assert said == "b'hello\\n'\nb'go\\n'\nb'QUIET' TLSv1.3 True ('DNS', 'web.test')\n"


FILL = """
import socket, ssl
s = socket.create_connection(("web.test", PORT))
s.setblocking(False)
sent = 0
try:
    while sent < 200_000_000: sent += s.send(bytes(1 << 18))
except BlockingIOError:
    pass
s.setblocking(True)
"""


@pytest.mark.parametrize("end", ["s.shutdown(socket.SHUT_WR); assert int(s.recv(20)) == sent", "s.close()"])
def test_what_was_taken_arrives_before_the_end(end: str, sandbox_for: Grant) -> None:
    got: list[int] = []
    ended = threading.Event()

    def serve(sock: socket.socket) -> None:
        time.sleep(0.5)  # so that the system takes no more at first
        while data := sock.recv(1 << 20):
            got.append(len(data))
        ended.set()
        sock.sendall(str(sum(got)).encode())

    with raw_server(serve) as server:
        said = ok(sandbox_for(both(server)), FILL.replace("PORT", str(server.port)) + end + "\nprint(sent)")
        assert ended.wait(60)
    assert sum(got) == int(said) > 0


def test_both_directions_end(granted: BaseSandbox) -> None:
    code = """
import socket
s = socket.create_connection(("web.test", PLAIN))
s.shutdown(socket.SHUT_RDWR); print(s.recv(1))
"""
    assert ok(granted, code) == "b''\n"


def test_what_was_taken_arrives_before_encryption(sandbox_for: Grant, authority: Authority) -> None:
    done = threading.Event()
    got: list[int] = []

    def serve(sock: socket.socket) -> None:
        time.sleep(0.5)
        while not done.is_set() or sum(got) < total[0]:
            data = sock.recv(min(1 << 20, total[0] - sum(got)) if total else 1)
            got.append(len(data))
        with authority.context.wrap_socket(sock, server_side=True) as secure:
            secure.sendall(secure.recv(100).upper())

    total: list[int] = []

    def told(event: object) -> None:
        if isinstance(event, wire.Stream) and event.text.strip().isdigit():
            total.append(int(event.text))
            done.set()

    code = """
print(sent, flush=True)
s = ssl.create_default_context().wrap_socket(s, server_hostname="web.test")
s.sendall(b"quiet"); print(s.recv(100))
"""
    with raw_server(serve) as server:
        result = sandbox_for(both(server)).execute(FILL.replace("PORT", str(server.port)) + code, on_event=told)
    assert "b'QUIET'" in result.stdout, result.error


def test_what_was_decrypted_already_is_there_to_read(sandbox_for: Grant, authority: Authority) -> None:
    over = threading.Event()

    def serve(sock: socket.socket) -> None:
        with authority.context.wrap_socket(sock, server_side=True) as secure:
            secure.sendall(b"hello")
            over.wait(60)

    code = """
import select, socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(("web.test", PORT)), server_hostname="web.test")
print(s.recv(1), select.select([s], [], [], 2)[0] == [s], s.recv(10))
"""
    with raw_server(serve) as server:
        assert ok(sandbox_for(both(server)), code.replace("PORT", str(server.port))) == "b'h' True b'ello'\n"
        over.set()


def test_encryption_does_not_begin_twice(granted: BaseSandbox) -> None:
    code = """
import json, socket, ssl
from wasm_guest import connections
s = ssl.create_default_context().wrap_socket(socket.create_connection(("web.test", SECURE)), server_hostname="web.test")
connections.call("tls", connection=s.connection, host="web.test", protocols=[])
"""
    name, text = fails(granted, code)
    assert (name, "encrypted already" in text) == ("SSLError", True)


WAITS = {
    "receive": "s.recv(1)",
    "select": "import select; select.select([s], [], [])",
    "await": "import asyncio; r, w = await asyncio.open_connection('127.0.0.1', PORT); await r.read()",
    "tls": "import ssl; ssl.create_default_context().wrap_socket(s, server_hostname='127.0.0.1')",
    "send": "s.sendall(bytes(100_000_000))",
    "look-up": "import socket; socket.create_connection(('slow.example', 443))",
}


@pytest.mark.parametrize("what", WAITS)
def test_every_wait_can_be_interrupted(what: str, sandbox_for: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    real = resolving.look_up

    def slow(name: str, port: int, **options: object) -> object:
        if name == "slow.example":
            waits.wait(60)
        return real(name, port, **options)

    monkeypatch.setattr(resolving, "look_up", slow)
    with raw_server(lambda sock: bool(waits.wait(60))) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}", "slow.example"])
        ok(sandbox, f"import socket; s = socket.create_connection(('127.0.0.1', {server.port}))")
        threading.Timer(0.5, sandbox.interrupt).start()
        before = time.monotonic()
        result = sandbox.execute(WAITS[what].replace("PORT", str(server.port)))
        assert result.outcome.kind is OutcomeKind.INTERRUPTED
        assert time.monotonic() - before < 30  # nobody else would have ended it
        assert ok(sandbox, "print(1)") == "1\n"
        waits.set()


def test_a_time_limit_ends_a_wait(sandbox_for: Grant) -> None:
    with raw_server(lambda sock: time.sleep(30)) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"], timeout_seconds=0.5)
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.port})).recv(1)"
        assert "ran longer than its limit" in sandbox.execute(code).outcome.message


def test_time_to_connect(sandbox_for: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(resolving, "look_up", lambda *args, **options: never.wait(60))
    sandbox = sandbox_for(["slow.example"], network_connect_seconds=0.2)
    name, text = fails(sandbox, "import socket; socket.create_connection(('slow.example', 443))")
    never.set()
    assert name == "TimeoutError"
    assert "limit connect" in text


def test_time_to_agree_on_encryption(sandbox_for: Grant) -> None:
    with raw_server(lambda sock: time.sleep(30)) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"], network_connect_seconds=0.3)
        code = f"import urllib.request; urllib.request.urlopen('https://127.0.0.1:{server.port}/')"
        name, text = fails(sandbox, code)
        assert name in ("TimeoutError", "URLError")
        assert "did not answer" in text


def test_connections_at_once(sandbox_for: Grant) -> None:
    with raw_server(lambda sock: sock.recv(1)) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"], network_connections=3)
        code = f"import socket; c = lambda: socket.create_connection(('127.0.0.1', {server.port}))\nkept = [c() for _ in range(3)]"
        ok(sandbox, code)
        name, text = fails(sandbox, "c()")
        assert (name, "limit connections" in text) == ("OSError", True)
        ok(sandbox, "kept.pop().close(); kept.append(c())")


def test_what_was_given_up_counts_until_it_is_done(sandbox_for: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up cannot be stopped: a guest that begins many has as many threads."""
    go, asked = threading.Event(), []
    monkeypatch.setattr(resolving, "look_up", lambda name, *args, **options: asked.append(name) or go.wait(60))
    sandbox = sandbox_for(["slow.example"], network_connections=3)
    code = """
import socket
import ssl
for n in range(20):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(("slow.example", 443))
    except BlockingIOError: pass
    s.close()
"""
    assert "limit connections" in fails(sandbox, code)[1]
    go.set()
    assert len(asked) == 3


def test_bytes_of_a_cell_and_of_all(sandbox_for: Grant, web: Server) -> None:
    sandbox = sandbox_for(both(web), network_cell_bytes=100_000, network_session_bytes=250_000)
    code = f"import urllib.request; urllib.request.urlopen('http://web.test:{web.port}/forever').read()"
    for _ in range(2):
        assert "limit transfer" in fails(sandbox, code)[1]
    assert "limit traffic" in fails(sandbox, code)[1]
    code = f"import socket; socket.create_connection(('web.test', {web.port}))"
    assert "limit traffic" in fails(sandbox, code)[1], "nor is another one opened"
    assert sandbox._sandbox.network.traffic.session <= 250_000


def test_bytes_that_are_sent_count_too(sandbox_for: Grant) -> None:
    got: list[int] = []
    ended = threading.Event()

    def serve(sock: socket.socket) -> None:
        while data := sock.recv(65536):
            got.append(len(data))
        ended.set()

    with raw_server(serve) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"], network_cell_bytes=100_000)
        code = f"import socket; s = socket.create_connection(('127.0.0.1', {server.port})); s.sendall(bytes(1_000_000))"
        assert "limit transfer" in fails(sandbox, code)[1]
        ok(sandbox, "s.close()")
        assert ended.wait(60)
    assert sum(got) == 100_000


def test_what_was_taken_back_is_closed_before_the_next_cell(sandbox_for: Grant) -> None:
    ended = threading.Event()

    def serve(sock: socket.socket) -> None:
        assert not sock.recv(1)
        ended.set()

    with raw_server(serve) as server:
        sandbox = sandbox_for([])
        network = sandbox._sandbox.network
        network.granted = parse_all([f"127.0.0.1:{server.port}"])
        ok(sandbox, f"import socket; s = socket.create_connection(('127.0.0.1', {server.port}))")
        network.granted |= parse_all(["a.example"])
        ok(sandbox, "s.send(b'')")
        network.granted = parse_all(["a.example"])
        ok(sandbox, "1")
        assert ended.wait(60)
        assert fails(sandbox, "s.send(b'x')")[0] == "PermissionError"


def test_a_fresh_guest_and_the_end_close_connections(sandbox_for: Grant) -> None:
    closed = threading.Semaphore(0)

    def serve(sock: socket.socket) -> None:
        assert not sock.recv(1)
        closed.release()

    with raw_server(serve) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"])
        code = f"import socket; s = socket.create_connection(('127.0.0.1', {server.port}))"
        for end in (sandbox.reset, sandbox.close):
            ok(sandbox, code)
            end()
            assert closed.acquire(timeout=60)
            assert sandbox._sandbox.network._bell is None, "nor is a descriptor left"


def test_a_name_in_its_spellings(granted: BaseSandbox) -> None:
    code = 'import socket\nfor name in ("WEB.Test", "web.test.", "\uff57eb.test"): socket.create_connection((name, PLAIN)).close()'
    ok(granted, code)


def test_no_more_is_waited_for_than_can_be_open() -> None:
    network = GuestNetwork(ExecutionPolicy)
    for count, fits in ((100, True), (5000, False)):
        frame = wire.Network("wait", {"connections": [[n, 1] for n in range(count)], "seconds": 0}, ())
        with nullcontext() if fits else pytest.raises(wire.BadFrame):
            network.answer(frame, lambda *args: True)


def test_what_is_taken_back_ends_within_the_cell(sandbox_for: Grant, web: Server) -> None:
    sandbox = sandbox_for([])
    network = sandbox._sandbox.network
    network.granted = parse_all(both(web))

    def deny(event: object) -> None:
        network.granted = frozenset()

    code = f"import socket; s = socket.create_connection(('web.test', {web.port})); display(1); s.send(b'x')"
    error = sandbox.execute(code, on_event=deny).error
    assert error is not None and error.name == "PermissionError"


def test_an_address_that_is_taken_back_ends_connections_by_name(sandbox_for: Grant, web: Server) -> None:
    sandbox = sandbox_for([])
    network = sandbox._sandbox.network
    network.granted = parse_all(both(web))
    connect = f"import socket; s = socket.create_connection(('web.test', {web.port}))"
    ok(sandbox, connect)
    network.granted |= parse_all(["a.example"])
    ok(sandbox, "s.send(b'GET')")
    network.granted -= parse_all([f"127.0.0.1:{web.port}"])
    name, text = fails(sandbox, "s.send(b'x')")
    assert (name, "web.test is 127.0.0.1, an address of this machine" in text) == ("PermissionError", True)
    assert network._open == {}


def test_a_kill_leaves_a_line_for_what_was_open(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from wasm_kernel import ExecutionPolicy, create_session_sandbox
root, port = sys.argv[1:]
session_id, sandbox = create_session_sandbox(workspace_root=root, policy=ExecutionPolicy(network=[f"127.0.0.1:{port}"]))
print(session_id, flush=True)
sandbox.execute(f"import socket; s = socket.create_connection(('127.0.0.1', {port}))")
os.kill(os.getpid(), signal.SIGKILL)
"""
    with raw_server(lambda sock: sock.recv(1)) as server:
        command = [sys.executable, "-c", program, str(tmp_path), str(server.port)]
        ended = subprocess.run(command, timeout=120, check=False, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == -signal.SIGKILL
    (line,) = ConnectionLog(tmp_path / ".wasm-kernel" / "history" / ended.stdout.strip()).lines()
    assert (line["host"], line["port"], "ended" in line) == ("127.0.0.1", server.port, False)


def test_a_trap_closes_connections(sandbox_for: Grant) -> None:
    with raw_server(lambda sock: sock.recv(1)) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"], interrupt_grace_seconds=0.1)
        ok(sandbox, f"import socket; s = socket.create_connection(('127.0.0.1', {server.port}))")
        stuck = "import signal\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass"
        given = sandbox._sandbox.policy
        sandbox._sandbox.change_policy(replace(given, timeout_seconds=1))
        assert not sandbox.execute(stuck).success
        sandbox._sandbox.change_policy(given)
        assert fails(sandbox, "s.send(b'x')")[0] == "ConnectionResetError"
        assert sandbox._sandbox.network._open == {}


def test_a_proxy_of_the_environment(
    sandbox_for: Grant, monkeypatch: pytest.MonkeyPatch, secure_web: Server, web: Server
) -> None:
    heads: list[bytes] = []

    def proxy(sock: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        heads.append(head)
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        with socket.create_connection(("127.0.0.1", port)) as there:
            sock.sendall(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
            threading.Thread(target=_copy, args=(there, sock), daemon=True).start()
            _copy(sock, there)

    with raw_server(proxy) as server:
        monkeypatch.setenv("https_proxy", f"http://me:s3cr3t@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", f"other.test,web.test:{web.port}")
        sandbox = sandbox_for(both(secure_web, web))
        code = f"import urllib.request; print(urllib.request.urlopen('https://web.test:{secure_web.port}/x').status)"
        assert ok(sandbox, code) == "200\n"
        assert heads[0].startswith(f"CONNECT web.test:{secure_web.port} HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic bWU6czNjcjN0\r\n" in heads[0]
        ok(sandbox, f"urllib.request.urlopen('http://web.test:{web.port}/x')")
        assert len(heads) == 1
        assert "s3cr3t" not in ok(sandbox, "import os; print(dict(os.environ))")
    name, text = fails(sandbox, code)
    assert "s3cr3t" not in text


def _copy(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    finally:
        try:
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_many_connections_leave_nothing(sandbox_for: Grant, web: Server) -> None:

    sandbox = sandbox_for(both(web))
    code = f"import urllib.request\nfor n in range(20): urllib.request.urlopen('http://web.test:{web.port}/').read()"
    ok(sandbox, code)
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        ok(sandbox, code)
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= files + 4 and threading.active_count() <= threads + 4)
    sandbox.close()


def test_numbers_of_another_life_are_reset(granted: BaseSandbox) -> None:
    code = """
import socket
import ssl
s = socket.socket(); s._connection = 12345
s.recv(1)
"""
    assert fails(granted, code)[0] == "ConnectionResetError"
    assert json.loads(ok(granted, "print(1)")) == 1


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has no workers")
def test_workers_have_no_connections(sandbox_for: Grant) -> None:
    with raw_server(lambda sock: sock.sendall(sock.recv(100).upper())) as server:
        sandbox = sandbox_for([f"127.0.0.1:{server.port}"], workers=2)
        code = f"""
import asyncio, socket, time
from concurrent.futures import ProcessPoolExecutor
s = socket.create_connection(("127.0.0.1", {server.port}))
def use(number):
    time.sleep(0.2)  # so that its result comes while the loop waits for the connection
    try: return s.send(b"from a worker")
    except OSError as e: return type(e).__name__
def connect(number):
    try: socket.create_connection(("127.0.0.1", {server.port}))
    except OSError as e: return type(e).__name__
reader, writer = await asyncio.open_connection("127.0.0.1", {server.port})
loop = asyncio.get_running_loop()
loop._selector.listens, loop._selector._look_at = True, time.monotonic() + 60  # as where widgets may send messages
with ProcessPoolExecutor(2) as pool:
    print(list(pool.map(use, range(2))), list(pool.map(connect, range(2))))
    print(await loop.run_in_executor(pool, use, 3))
s.sendall(b"parent"); print(s.recv(100))
"""
        reset = "ConnectionResetError"
        assert ok(sandbox, code) == f"['{reset}', '{reset}'] ['{reset}', '{reset}']\n{reset}\nb'PARENT'\n"
