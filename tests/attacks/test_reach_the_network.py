"""Attempts to connect where nobody allowed it, to take more than the limits, and to get hold of a secret.

Each succeeds with its guard switched off, which shows that the test would notice.
"""

# ruff: noqa: F811
from __future__ import annotations

import contextlib
import ctypes
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tests.attacks.guards import patched
from tests.host.network.conftest import Grant, _names, authority, both, ok, sandbox_for, secure_web, web  # noqa: F401
from tests.host.network.servers import Authority, Server, http_server, make_authority, raw_server
from wasm_kernel.host.network import guest_network, opening, resolving, secret_headers
from wasm_kernel.host.network.secrets import SecretStore
from wasm_kernel.model.network_grants import Reach

GET = "import urllib.request; print(urllib.request.urlopen('{}', timeout=20).status)"


@contextlib.contextmanager
def guard(on: bool, *changes: tuple[Any, str, Any]) -> Iterator[None]:
    with patched(*([] if on else changes)):
        yield


def reached(sandbox: Any, code: str, server: Server) -> bool:
    """Whether a server got a request by code, however that ended."""
    server.requests.clear()
    sandbox.execute(code)
    return bool(server.requests)


@pytest.mark.parametrize("on", [True, False])
def test_a_host_that_nobody_allowed(on: bool, web: Server, sandbox_for: Grant) -> None:
    with guard(on, (Reach, "allows", lambda self, name, port: True)):
        assert reached(sandbox_for(["a.example"]), GET.format(f"http://web.test:{web.port}/"), web) is not on


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "::1", "[::ffff:127.0.0.1]"])
def test_addresses_of_this_machine_by_any_name(on: bool, name: str, web: Server, sandbox_for: Grant) -> None:
    """The name was allowed; whoever owns it lets it lead here."""

    def rebound(asked: str, port: int, **options: Any) -> Any:
        return socket.getaddrinfo(name.strip("[]"), port, **options)

    judged = (resolving, "judge", lambda *args: None)
    with mock.patch.object(resolving, "look_up", rebound), guard(on, judged):
        sandbox = sandbox_for([f"evil.example:{web.port}"])
        hit = reached(sandbox, GET.format(f"http://evil.example:{web.port}/"), web)
        assert hit is (not on and name != "::1")  # where the server listens


PRIVATE = ["10.0.0.1", "192.168.1.1", "172.20.0.1", "169.254.169.254", "100.64.0.1", "fd00:ec2::254", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("address", [*PRIVATE, "fe80::1", "224.0.0.1", "0.0.0.0", "64:ff9b::a00:1", "168.63.129.16"])
def test_names_that_lead_into_private_networks(address: str, sandbox_for: Grant) -> None:
    dialled: list[str] = []
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 443))]
    sandbox = sandbox_for(["evil.example"])
    code = "import socket; socket.create_connection(('evil.example', 443))"

    def first(found: Any, port: int, end: float) -> Any:
        dialled.extend(address for address, _ in found)
        raise ConnectionRefusedError

    with mock.patch.object(resolving, "look_up", lambda *a, **o: found), mock.patch.object(opening, "_first", first):
        error = sandbox.execute(code).error
        assert error is not None
        assert error.name == "PermissionError"
        assert "which has to be allowed by itself" in error.value
        assert dialled == []
        with patched((resolving, "judge", lambda *args: None)):
            sandbox.execute(code)
        assert len(dialled) == 1


@pytest.mark.parametrize("on", [True, False])
def test_one_bad_address_among_good_ones(on: bool, web: Server, sandbox_for: Grant) -> None:
    def both_kinds(asked: str, port: int, **options: Any) -> Any:
        return [(socket.AF_INET, 1, 6, "", (address, port)) for address in ("127.0.0.1", "93.184.216.34")]

    with mock.patch.object(resolving, "look_up", both_kinds), guard(on, (resolving, "judge", lambda *args: None)):
        sandbox = sandbox_for([f"evil.example:{web.port}"])
        assert reached(sandbox, GET.format(f"http://evil.example:{web.port}/"), web) is not on


@pytest.mark.parametrize("on", [True, False])
def test_a_name_that_changes_between_look_ups(on: bool, web: Server, sandbox_for: Grant) -> None:
    """Public when it is judged, this machine's when it is dialled: there is one look-up, so there is no between."""
    looks: list[str] = []

    def changing(asked: str, port: int, **options: Any) -> Any:
        looks.append("203.0.113.5" if not looks else "127.0.0.1")
        return [(socket.AF_INET, 1, 6, "", (looks[-1], port))]

    def twice(name: str, port: int, reach: Reach, allow: Any) -> Any:
        resolving.look_up(name, port)
        return [(place[0], family) for family, _, _, _, place in resolving.look_up(name, port)]

    with (
        mock.patch.object(resolving, "look_up", changing),
        mock.patch.object(resolving, "is_public", lambda address: str(address) == "203.0.113.5"),
        guard(on, (resolving, "addresses", twice)),
    ):
        sandbox = sandbox_for([f"evil.example:{web.port}"], network_connect_seconds=1)
        assert reached(sandbox, GET.format(f"http://evil.example:{web.port}/"), web) is not on
        assert len(looks) == (1 if on else 2)


@pytest.mark.parametrize("on", [True, False])
def test_this_machines_public_address(on: bool, sandbox_for: Grant) -> None:
    dialled: list[Any] = []

    def first(found: Any, port: int, end: float) -> Any:
        dialled.append(found)
        raise ConnectionRefusedError

    with (
        mock.patch.object(resolving, "look_up", lambda *a, **o: [(socket.AF_INET, 1, 6, "", ("93.184.216.34", 443))]),
        mock.patch.object(resolving, "_own_addresses", lambda: frozenset({"93.184.216.34"} if on else ())),
        mock.patch.object(opening, "_first", first),
    ):
        sandbox_for(["evil.example"]).execute("import socket; socket.create_connection(('evil.example', 443))")
    assert bool(dialled) is not on


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(
    "spelling", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "::ffff:127.0.0.1", "017700000001"]
)
def test_raw_addresses(on: bool, spelling: str, web: Server, sandbox_for: Grant) -> None:
    sandbox = sandbox_for(["a.example", f"*.b.example:{web.port}"])
    code = f"import socket; s = socket.create_connection(('{spelling}', {web.port})); s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); s.recv(9)"
    with guard(
        on,
        (Reach, "allows", lambda self, name, port: True),
        (guest_network.network_grants, "normalised", lambda name: name),
    ):
        assert reached(sandbox, code, web) is not on


@pytest.mark.parametrize("on", [True, False])
def test_a_redirect_to_this_machine(on: bool, web: Server, sandbox_for: Grant) -> None:
    with http_server() as inner:
        sandbox = sandbox_for(both(web))
        target = f"http:!!127.0.0.1:{inner.port}!metadata"
        with guard(on, (Reach, "allows", lambda self, name, port: True)):
            assert reached(sandbox, GET.format(f"http://web.test:{web.port}/redirect/{target}"), inner) is not on


@pytest.mark.parametrize("on", [True, False])
def test_a_server_with_a_strangers_certificate(
    on: bool,
    authority: Authority,
    sandbox_for: Grant,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stranger = make_authority(tmp_path_factory.mktemp("stranger"), "web.test")

    def unchecked(protocols: Any, environ: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    code = "import ssl; c = ssl._create_unverified_context(); import urllib.request; urllib.request.urlopen('{}', context=c)"
    with http_server(stranger.context) as server, guard(on, (opening, "_context", unchecked)):
        assert reached(sandbox_for(both(server)), code.format(f"https://web.test:{server.port}/"), server) is not on


@pytest.mark.parametrize("on", [True, False])
def test_a_server_that_answers_for_ever(on: bool, web: Server, sandbox_for: Grant) -> None:
    sandbox = sandbox_for(both(web), network_cell_bytes=1_000_000 if on else 1 << 30)
    code = f"""
import urllib.request
answer, got = urllib.request.urlopen("http://web.test:{web.port}/forever"), 0
try:
    while got < 3_000_000:
        got += len(answer.read1(100_000))
except OSError as e:
    pass
print(got)
"""
    assert (int(ok(sandbox, code)) <= 1_000_000) is on


SECRET = "the-s3cr3t-value"


@pytest.fixture
def other(authority: Authority) -> Iterator[Server]:
    """Another server of HTTPS, which no secret is for."""
    with http_server(authority.context) as server:
        yield server


def sees(server: Server, sandbox: Any, url: str, **headers: str) -> bool:
    """Whether the secret reached a server."""
    server.requests.clear()
    mark = "wasm-kernel-secret-T"
    given = headers or {"Authorization": f"Bearer {mark}"}
    sandbox.execute(
        f"import urllib.request; urllib.request.urlopen(urllib.request.Request({url!r}, headers={given!r}, "
        f"method={'TRACE' if url.endswith('trace') else 'GET'!r}))"
    )
    return SECRET in repr(server.requests)


@pytest.mark.parametrize("on", [True, False])
def test_a_secret_for_another_host(on: bool, secure_web: Server, other: Server, sandbox_for: Grant) -> None:
    sandbox = sandbox_for([*both(secure_web), f"localhost:{other.port}"])
    secrets = sandbox._sandbox.network.secrets
    secrets.keep("T", "web.test", "authorization", SECRET)
    assert sees(secure_web, sandbox, f"https://web.test:{secure_web.port}/")
    with guard(on, (SecretStore, "for_host", lambda self, host, port: list(self))):
        assert sees(other, sandbox, f"https://localhost:{other.port}/") is not on


def test_a_secret_without_encryption_or_where_it_is_given_back(
    secure_web: Server,
    web: Server,
    sandbox_for: Grant,
) -> None:
    sandbox = sandbox_for(both(secure_web, web))
    sandbox._sandbox.network.secrets.keep("T", "web.test", "authorization", SECRET)
    mark = "wasm-kernel-secret-T"
    assert not sees(web, sandbox, f"http://web.test:{web.port}/")
    assert not sees(secure_web, sandbox, f"https://web.test:{secure_web.port}/?{mark}", Accept=mark)
    assert not sees(
        secure_web, sandbox, f"https://web.test:{secure_web.port}/", **{"X-Request-ID": mark, "Origin": mark}
    )
    with patched(
        (secret_headers, "_with_secret", lambda name, value, secrets: value.replace(mark.encode(), SECRET.encode()))
    ):
        assert sees(secure_web, sandbox, f"https://web.test:{secure_web.port}/", **{"X-Request-ID": mark})


@pytest.mark.parametrize("on", [True, False])
def test_a_secret_for_another_name_of_the_same_server(on: bool, secure_web: Server, sandbox_for: Grant) -> None:
    """What serves many names hands a request on to whom its ``Host`` header names."""
    sandbox = sandbox_for(both(secure_web))
    sandbox._sandbox.network.secrets.keep("T", "web.test", "authorization", SECRET)
    given = {"Authorization": "Bearer wasm-kernel-secret-T", "Host": "evil.example"}
    with guard(on, (secret_headers.SecretHeaders, "_for_our_host", lambda self, named: True)):
        assert sees(secure_web, sandbox, f"https://web.test:{secure_web.port}/", **given) is not on
    assert secure_web.requests[0][1]["host"] == "evil.example", "it is sent as it is"


def test_a_secret_under_another_hosts_name(secure_web: Server, sandbox_for: Grant) -> None:
    """The connection leads to localhost; encryption, and the request, are for web.test."""
    sandbox = sandbox_for([*both(secure_web), f"localhost:{secure_web.port}"])
    sandbox._sandbox.network.secrets.keep("T", "web.test", "authorization", SECRET)
    code = f"""
import socket, ssl
def get(host):
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, {secure_web.port})), server_hostname="web.test")
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\nAuthorization: Bearer wasm-kernel-secret-T\\r\\n\\r\\n")
    return s.recv(100)
get(HOST)
"""
    for host, wanted in (("web.test", True), ("localhost", False)):
        secure_web.requests.clear()
        ok(sandbox, code.replace("HOST", repr(host)))
        assert (SECRET in repr(secure_web.requests)) is wanted
        assert len(secure_web.requests) == 1


def test_a_host_with_a_secret_is_spoken_to_in_a_protocol_that_can_be_read(
    authority: Authority, sandbox_for: Grant
) -> None:
    folder = authority.file.parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    with http_server(context) as server:
        sandbox = sandbox_for(both(server))
        code = f"""
import socket, ssl
context = ssl.create_default_context()
context.set_alpn_protocols(["h2", "http/1.1"])
with socket.create_connection(("web.test", {server.port})) as plain:
    print(context.wrap_socket(plain, server_hostname="web.test").selected_alpn_protocol())
"""
        assert ok(sandbox, code) == "h2\n"
        sandbox._sandbox.network.secrets.keep("T", "web.test", "authorization", SECRET)
        assert ok(sandbox, code) == "http/1.1\n"


@pytest.mark.parametrize("on", [True, False])
def test_a_private_address_behind_a_proxy(on: bool, sandbox_for: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy looks the name up by itself; what this machine sees of it must be allowed all the same."""
    asked: list[bytes] = []
    with raw_server(lambda sock: asked.append(sock.recv(1000))) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setattr(resolving, "look_up", lambda *a, **o: [(socket.AF_INET, 1, 6, "", ("10.0.0.1", 443))])
        with guard(on, (resolving, "judge", lambda *args: None)):
            sandbox_for(["evil.example"]).execute("import socket; socket.create_connection(('evil.example', 443))")
    assert bool(asked) is not on


@pytest.mark.parametrize("hidden", [True, False])
def test_a_secret_in_the_guests_memory(hidden: bool, secure_web: Server, sandbox_for: Grant) -> None:
    sandbox = sandbox_for(both(secure_web))
    sandbox._sandbox.network.secrets.keep("T", "web.test", "authorization", SECRET)
    assert sees(secure_web, sandbox, f"https://web.test:{secure_web.port}/")
    if not hidden:  # the guest itself would have to send it
        sandbox.execute("word = 'the-s3cr3t' + '-value'")
    instance = sandbox._sandbox._guest.instance
    assert instance is not None
    assert (SECRET.encode() in ctypes.string_at(*instance.memory_span)) is not hidden
    assert SECRET not in repr(list(sandbox._sandbox.network.secrets))


HOSTILE = [
    ("open", {"host": 3, "port": 80}),
    ("open", {"host": "a" * 5000, "port": 80}),
    ("open", {"host": "a.example", "port": "80"}),
    ("open", {"host": "a.example", "port": 70000}),
    ("open", {"host": "a.example", "port": True}),
    ("open", {}),
    ("finish", {"connection": -1, "seconds": 1}),
    ("finish", {"connection": 1, "seconds": float("nan")}),
    ("wait", {"connections": [[1, 1]], "seconds": 10**999}),
    ("receive", {"connection": 1 << 70, "size": 1, "seconds": 0}),
    ("receive", {"connection": 1, "size": -5, "seconds": 0}),
    ("receive", {"connection": 1, "size": 1, "seconds": "long"}),
    ("send", {"connection": 1, "seconds": 0}),
    ("wait", {"connections": [[1, 2]] * 5_000, "seconds": 0}),
    ("wait", {"connections": [[[], {}]], "seconds": 0}),
    ("wait", {"connections": [[float("inf"), 1]], "seconds": 0}),
    ("tls", {"connection": 1, "host": "x", "protocols": ["a"] * 99}),
    ("tls", {"connection": 1, "host": "x", "protocols": [""]}),
    ("shutdown", {"connection": 1, "how": 9}),
    ("__init__", {}),
    ("_ACTIONS", {}),
]


def test_hostile_frames_are_refused(sandbox_for: Grant) -> None:
    """Neither the kernel nor the sandbox minds; what is no frame of ours gets no answer."""
    sandbox = sandbox_for(["a.example"])
    code = """
import _host, wasm_guest.wire as w
nan, inf = float("nan"), float("inf")
for action, arguments in HOSTILE:
    for buffers in ((), (b"x",), (b"x", b"y")):
        try:
            answer = _host.call(w.encode_event(w.Network(action, arguments, buffers)))
            assert answer[:1] in (b"X", b"T") and b"internal" not in answer, (action, arguments, answer)
        except OSError:
            pass
print("still here")
"""
    assert ok(sandbox, code.replace("HOSTILE", repr(HOSTILE))) == "still here\n"
    assert ok(sandbox, "print(1)") == "1\n"


@pytest.mark.parametrize("on", [True, False])
def test_more_connections_than_allowed(on: bool, web: Server, sandbox_for: Grant) -> None:
    sandbox = sandbox_for(both(web), network_connections=5 if on else 64)
    code = f"""
import socket
kept = []
try:
    while len(kept) < 20: kept.append(socket.create_connection(("web.test", {web.port})))
except OSError: pass
print(len(kept))
"""
    assert ok(sandbox, code) == ("5\n" if on else "20\n")


def test_names_that_nobody_allowed_are_not_looked_up(sandbox_for: Grant) -> None:
    """A look-up leaves the machine, with whatever the name says, and tells of names that only the inside knows."""
    asked: list[str] = []
    code = """
import asyncio, http.client, socket, ssl, urllib.request
name = "what-cells-know.evil.example"
tries = (
    lambda: socket.create_connection((name, 80), 5), lambda: urllib.request.urlopen(f"https://{name}/"),
    lambda: http.client.HTTPConnection(name).connect(), lambda: ssl.get_server_certificate((name, 443)),
    lambda: socket.socket().connect_ex((name, 443)),
)
for one in tries:
    try: one()
    except OSError as e: print("no permission" in str(e))
print(socket.gethostbyname(name), socket.getaddrinfo(name, 80)[0][4], socket.gethostbyname_ex(name)[2], socket.getfqdn(name) == name)
try: await asyncio.open_connection(name, 80)
except OSError as e: print("no permission" in str(e))
"""
    with mock.patch.object(resolving, "look_up", lambda name, *args, **options: asked.append(name)):
        said = ok(sandbox_for(["a.example"]), code).splitlines()
        assert said.count("True") == 6 and len(said) == 7
        assert asked == []
        sandbox_for(["*.evil.example"]).execute(code)
        assert asked
