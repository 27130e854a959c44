"""Secrets in heads of requests: where they go, and all the places where they must not."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.host.network.secret_headers import MOST_HEAD, SecretHeaders
from wasm_kernel.host.network.secrets import Secret, SecretStore, placeholder

VALUE = b"s3cr3t-value"
MARK = placeholder("TOKEN").encode()
TOKEN = Secret("TOKEN", "a.org", "authorization", VALUE)
KEY = Secret("KEY", "a.org", "x-api-key", b"k3y")


def sent(*pieces: bytes, secrets: list[Secret] | None = None) -> bytes:
    heads = SecretHeaders("a.org", 443, lambda: [TOKEN, KEY] if secrets is None else secrets)
    return b"".join(map(heads.feed, pieces)) + heads.held


def request(*lines: bytes, body: bytes = b"", first: bytes = b"GET / HTTP/1.1", host: bytes = b"Host: a.org") -> bytes:
    return b"\r\n".join([first, host, *lines, b"", b""]) + body


WANTED = b"Authorization: Bearer " + MARK
POST = b"POST / HTTP/1.1"


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"token", b"Token"])
def test_the_whole_credential(scheme: bytes) -> None:
    out = sent(request(b"Authorization: " + scheme + b" " + MARK))
    assert out == request(b"Authorization: " + scheme + b" " + VALUE)


def test_basic_in_both_places() -> None:
    for pair, wanted in (
        (b"user:" + MARK, b"user:" + VALUE),
        (MARK + b":", VALUE + b":"),
        (MARK + b":x", VALUE + b":x"),
    ):
        out = sent(request(b"Authorization: Basic " + base64.b64encode(pair)))
        assert out == request(b"Authorization: Basic " + base64.b64encode(wanted))


def test_a_header_that_the_person_named() -> None:
    mark = placeholder("KEY").encode()
    assert sent(request(b"X-API-Key: " + mark)) == request(b"X-API-Key: k3y")
    assert b"k3y" not in sent(request(b"Authorization: Bearer " + mark))


@pytest.mark.parametrize(
    "hostile",
    [
        request(b"X-Request-ID: " + MARK),
        request(b"Origin: https://" + MARK),
        request(b"Authorization: Bearer x" + MARK),
        request(b"Authorization: Bearer " + MARK + b" " + MARK),
        request(b"Authorization: " + MARK + b" x"),
        request(b"Authorization: Basic " + base64.b64encode(b"user:x" + MARK)),
        request(b"Authorization: Basic !!!"),
        request(b"Authorization: Basic !" + base64.b64encode(b"user:" + MARK)),
        request(b"Authorization : Bearer " + MARK),
        request(b"Authorization:\r\n Bearer " + MARK),
        request(first=b"GET /?t=" + MARK + b" HTTP/1.1"),
        request(b"Authorization: Bearer " + MARK, first=b"GET / HTTP/1.0"),
        request(b"Authorization: Bearer " + MARK, first=b"TRACE / HTTP/1.1"),
        request(b"Authorization: Bearer " + MARK, first=b"PRI * HTTP/2.0"),
        request(b"Authorization: Bearer " + MARK, first=b"CONNECT / HTTP/1.1"),
        request(b"Content-Length: 9", first=POST, body=b"POST / HT" + request(b"Origin: " + MARK)),
        request(b"Content-Length: 99", first=POST, body=request(b"Authorization: Bearer " + MARK)),
        request(
            b"Content-Length: 5",
            b"Transfer-Encoding: chunked",
            first=POST,
            body=request(b"Authorization: Bearer " + MARK),
        ),
        request(
            b"Content-Length: 0", b"Content-Length: 99", first=POST, body=request(b"Authorization: Bearer " + MARK)
        ),
        request(b"Content-Length: 00", first=POST, body=request(b"Authorization: Bearer " + MARK)),
        request(b"Content-Length: +0", first=POST, body=request(b"Authorization: Bearer " + MARK)),
        request(b"Transfer-Encoding: chunked, identity", first=POST, body=request(b"Authorization: Bearer " + MARK)),
        request(b"Transfer-Encoding: chunked", first=POST, body=b"63\r\n" + request(b"Authorization: Bearer " + MARK)),
        request(b"Transfer-Encoding: chunked", first=POST, body=b"3\r\nabcX\r\n0\r\n\r\n" + request(WANTED)),
        request(
            b"Transfer-Encoding: chunked", first=POST, body=b"0;x\r\n\r\n" + request(b"Authorization: Bearer " + MARK)
        ),
        request(
            b"Transfer-Encoding: chunked",
            first=POST,
            body=b"0\r\nX: y\r\n\r\n" + request(b"Authorization: Bearer " + MARK),
        ),
        b"GET / HTTP/1.1\nHost: a.org\n" + WANTED + b"\n\r\n\r\n",
        request(b"X: a\x00b", WANTED),
        request(b"X: a\nTransfer-Encoding: chunked", WANTED),
        request(b"Content-Length : 5", WANTED),
        request(b"X: " + b"x" * MOST_HEAD, WANTED),
        b"not http\r\n\r\n" + request(WANTED),
        b"\r\n\r\n" + request(WANTED),
        request(WANTED, first=b"OPTIONS / HTTP/1.1"),
        request(b"HTTP2-Settings: x", body=request(WANTED)),
        request(b"Upgrade: h2c", body=request(b"Authorization: Bearer " + MARK)),
        request(b"Content-Length: 5", b"Transfer-Encoding: chunked", first=POST, body=b"0\r\n\r\n" + request(WANTED)),
        request(b"Transfer-Encoding: chunked, identity", first=POST, body=b"0\r\n\r\n" + request(WANTED)),
        request(b"Transfer-Encoding: chunked", first=POST, body=b"0\r\nX: y\r\n" + request(WANTED)),
        request(b"X-API-Key: x" + placeholder("KEY").encode()),
        # what a server that leads to several hosts, or to any, would hand on to another one
        request(WANTED, host=b"Host: evil.example"),
        request(WANTED, host=b"Host: a.org.evil.example"),
        request(WANTED, host=b"Host: a.org:8443"),
        request(WANTED, host=b"Host: me@a.org"),
        request(WANTED, host=b"Host:"),
        request(WANTED, host=b"X: y"),
        request(WANTED, b"Host: evil.example"),
        request(WANTED, b"Host: a.org"),
        request(WANTED, first=b"GET https://evil.example/ HTTP/1.1"),
        request(WANTED, first=b"GET https://a.org/ HTTP/1.1"),
        request(WANTED, first=b"GET //evil.example/ HTTP/1.1"),
        request(WANTED, first=b"GET @evil.example/ HTTP/1.1"),
        # what a server that does not expect a body would take for the next request
        request(b"Content-Length: 5", body=b"PUT /" + request(WANTED)),
        request(b"Content-Length: 5", body=b"PUT /" + request(WANTED), first=b"HEAD / HTTP/1.1"),
        request(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + request(WANTED)),
        # what a server that is a proxy as well would hand on to the other end of the tunnel
        request(body=request(WANTED), first=b"CONNECT evil.example:443 HTTP/1.1"),
        request(body=request(WANTED), first=b"CONNECT evil.example:443 HTTP/1.1", host=b"Host: evil.example:443"),
        request(b"Expect: 100-continue", b"Content-Length: 5", body=b"PUT /" + request(WANTED), first=POST),
    ],
)
def test_nowhere_else(hostile: bytes) -> None:
    assert sent(hostile) == hostile
    assert sent(*(hostile[n : n + 1] for n in range(min(len(hostile), 3000)))) == hostile[:3000]


def test_requests_one_after_the_other() -> None:
    plain, wanted = request(b"Authorization: Bearer " + MARK), request(b"Authorization: Bearer " + VALUE)
    with_body = request(b"Content-Length: 3", body=b"abc", first=POST)
    chunked = request(b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n", first=POST)
    assert sent(plain + with_body + plain + chunked + plain) == wanted + with_body + wanted + chunked + wanted


@pytest.mark.parametrize(
    "hello",
    [
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"*1\r\n$4\r\nPING\r\n",
        b"a001 NOOP\r\n",
        b"EHLO\r\n",
        b"EHLO me.example\r\n",  # this and the next look like a method at first
        b"USER ann\r\n",
    ],
)
def test_what_is_no_http_waits_for_nothing(hello: bytes) -> None:
    heads = SecretHeaders("a.org", 443, lambda: [TOKEN])
    assert heads.feed(hello) == hello
    assert heads.feed(request(WANTED)) == request(WANTED)


@pytest.mark.parametrize("host", [b"a.org", b"A.Org", b"a.org:443"])
def test_the_host_in_its_spellings(host: bytes) -> None:
    assert VALUE in sent(request(WANTED, host=b"host: " + host))


def test_an_address_as_the_host() -> None:
    for named, wanted in ((b"[::1]:8443", True), (b"[::1]", True), (b"::1", False)):
        heads = SecretHeaders("::1", 8443, lambda: [TOKEN])
        assert (VALUE in heads.feed(request(WANTED, host=b"Host: " + named))) is wanted


def test_a_port_of_its_own() -> None:
    kept = SecretStore()
    kept.keep("ANY", "a.org", "authorization", "x")
    kept.keep("ONE", "a.org", "authorization", "x", port=8443)
    assert [secret.name for secret in kept.for_host("a.org", 443)] == ["ANY"]
    assert [secret.name for secret in kept.for_host("a.org", 8443)] == ["ANY", "ONE"]
    assert [secret.name for secret in kept.for_host("b.org", 8443)] == []
    assert [secret.where for secret in kept] == ["a.org", "a.org:8443"]


def test_a_request_in_pieces() -> None:
    plain, wanted = request(WANTED), request(b"Authorization: Bearer " + VALUE)
    for size in (1, 2, 7):
        assert sent(*(plain[n : n + size] for n in range(0, len(plain), size))) == wanted


def test_without_secrets_any_more() -> None:
    plain = request(b"Authorization: Bearer " + MARK)
    assert sent(plain, secrets=[]) == plain


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7))
def test_any_bytes_go_through_whole(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)
    assert sent(*(data[n : n + size] for n in range(0, len(data), size))) == data


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nX:" + b" \t" * 30000 + b"\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 12000 + b"\r\n",
        b"GET " + b"x" * 60000 + b"\r\n\r\n",
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50000),
        b"\r\n\r\n" * 100000,
    ],
)
def test_hostile_heads_take_little_time(data: bytes) -> None:
    before = time.process_time()
    assert sent(data) == data
    assert sent(*(data[n : n + 100] for n in range(0, len(data), 100))) == data
    assert time.process_time() - before < 5  # a quadratic search would take minutes
