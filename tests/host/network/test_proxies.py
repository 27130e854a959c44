"""Which proxy the environment names, and what is asked of it."""

from __future__ import annotations

import socket

import pytest

from wasm_kernel.host.network.faults import Fault
from wasm_kernel.host.network.proxies import Proxy, proxy_for, tunnel


@pytest.mark.parametrize(
    ("environ", "host", "port", "wanted"),
    [
        ({}, "a.org", 443, None),
        ({"https_proxy": "http://p:3128"}, "a.org", 443, Proxy("p", 3128)),
        ({"https_proxy": "http://p:3128"}, "a.org", 5432, Proxy("p", 3128)),
        ({"https_proxy": "http://p:3128"}, "a.org", 80, None),
        ({"http_proxy": "p:3128"}, "a.org", 80, Proxy("p", 3128)),
        ({"all_proxy": "http://p"}, "a.org", 443, Proxy("p", 80)),
        ({"https_proxy": "http://p:3128", "no_proxy": "a.org"}, "a.org", 443, None),
        ({"https_proxy": "http://p:3128", "no_proxy": ".a.org"}, "b.a.org", 443, None),
        ({"https_proxy": "http://p:3128", "no_proxy": "*"}, "a.org", 443, None),
        *(
            ({"all_proxy": "http://p:3128"}, name, 8080, None)
            for name in ("localhost", "127.0.0.1", "127.9.9.9", "::1")
        ),
        ({"all_proxy": "http://p:3128"}, "10.0.0.1", 8080, Proxy("p", 3128)),
        ({"https_proxy": "http://me:s%40cret@p:3128"}, "a.org", 443, Proxy("p", 3128, "bWU6c0BjcmV0")),
    ],
)
def test_the_environment(
    environ: dict[str, str], host: str, port: int, wanted: Proxy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(host, port) == wanted


def test_credentials_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://me:s3cr3t@p:1080")
    with pytest.raises(Fault) as error:
        proxy_for("a.org", 443)
    assert "s3cr3t" not in str(error.value)
    assert "s3cr3t" not in repr(Proxy("p", 1, "s3cr3t"))


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nrest", ""),
        (b"HTTP/1.0 200\r\n\r\nrest", ""),
        (b"HTTP/1.1 407 Who are you?\r\n\r\n", "it answered 407"),
        (b"nonsense\r\n\r\n", "it answered nothing"),
        (b"HTTP/1.1 200", "gave no answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n", "gave no answer"),
    ],
)
def test_answers(answer: bytes, wanted: str) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(answer)
        there.shutdown(socket.SHUT_WR)
        if wanted:
            with pytest.raises(Fault, match=wanted):
                tunnel(here, Proxy("p", 1), "a.org", 443)
        else:
            tunnel(here, Proxy("p", 1), "a.org", 443)
            assert here.recv(10) == b"rest", "what follows is the guest's"
