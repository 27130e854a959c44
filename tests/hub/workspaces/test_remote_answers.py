"""A user's server that answers the service as it likes: with too much, too long, compressed, or with what is none."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.workspaces import checked_answers
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer
from wasm_kernel.hub.workspaces.remote import Remote

MB = 1 << 20
USER = HubUser("eve", (), True, "/user/eve/")
JOBS: dict[str, dict[str, Any]] = {
    "look": {},
    "snapshots": {},
    "remove": {"decisions": [[str(uuid.uuid4()), "", 0, None]]},
    "thin": {"policy": {"max_count": 1}},
    "sweep": {},
    "forget": {"snapshot_ids": [str(uuid.uuid4())]},
    "tell": {"notices": []},
}
BOMB = b'{"items": [' + b"{}," * (30 * MB // 3) + b"{}]}"
PACKED = {"gzip": gzip.compress(BOMB), "deflate": zlib.compress(BOMB), "br": b"x" * 1000}


class Eve:
    """Her server. ``respond`` does what it likes with a request."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.respond: Callable[[BaseHTTPRequestHandler], None] = lambda request: None
        eve = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                eve.asked.append((self.command, self.path, dict(self.headers)))
                try:
                    eve.respond(self)
                except OSError:
                    pass  # the service hung up
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def do(self, job: str, **arguments: Any) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            remote = Remote(None, f"http://127.0.0.1:{self._http.server_port}", "token")  # type: ignore[arg-type]
            try:
                return await remote.do(USER, job, **arguments)
            finally:
                remote.close()

        return asyncio.run(work())

    def answers(self, body: bytes, status: int = 200, **headers: str) -> None:
        def respond(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                request.send_header(name.replace("_", "-"), value)
            request.end_headers()
            request.wfile.write(body)

        self.respond = respond

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def eve() -> Iterator[Eve]:
    server = Eve()
    yield server
    server.close()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_nothing_is_unpacked(eve: Eve, job: str, encoding: str) -> None:
    """58 KB once became 1.4 GB."""
    eve.answers(PACKED[encoding], Content_Encoding=encoding)
    before = peak()
    told = eve.do(job, **JOBS[job])
    assert "compressed" in str(told)
    assert peak() - before < 20 * MB
    assert {headers["Accept-Encoding"] for _, _, headers in eve.asked} == {"identity"}


def endless(request: BaseHTTPRequestHandler, *headers: tuple[str, str], chunked: bool = False) -> None:
    request.protocol_version = "HTTP/1.1"
    request.send_response(200)
    for header in headers:
        request.send_header(*header)
    request.end_headers()
    block = b'{"items": [' + b"[" * MB
    while True:
        request.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)


LONG = {
    "a length": lambda request: endless(request, ("Content-Length", str(1 << 40))),
    "chunks": lambda request: endless(request, ("Transfer-Encoding", "chunked"), chunked=True),
    "until it ends": endless,
    "headers": lambda request: endless(request, *[(f"X-{n}", "x" * 1000) for n in range(5000)]),
    "a header": lambda request: endless(request, ("X", "x" * MB)),
}


@pytest.mark.parametrize("job", ["look", "remove"])
@pytest.mark.parametrize("how", LONG)
def test_an_answer_is_cut_off_at_its_bound(eve: Eve, job: str, how: str) -> None:
    eve.respond = LONG[how]
    before = peak()
    told = eve.do(job, **JOBS[job])
    assert "at most 2.0 MB" in told["problem"]
    assert peak() - before < 20 * MB


def sandbox(**more: Any) -> dict[str, Any]:
    return {
        "sandbox_id": str(uuid.uuid4()), "state": "released", "created_at": "2026-11-01T00:00:00Z",
        "updated_at": "2026-11-01T00:00:00Z", "size_bytes": 5, "problem": "", "title": "t", "notebook": "",
        "former_notebook": "", "stamp": "1-2", "execution_count": 1, "snapshot_count": 0, **more,
    }  # fmt: skip


def lists(eve: Eve, items: list[Any], *, generous: bool = False, last: bool = True) -> None:
    """Answer as the API does; ``generous``: with all there is, whatever was asked for."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        body: Any = {"snapshots": 0, "snapshot_bytes": 0, "disk_free_bytes": 1}
        if not url.path.endswith("usage"):
            query = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
            end = query["offset"] + query["limit"]
            some = items if generous else items[query["offset"] : end]
            body = {"items": some, "next_offset": end if end < len(items) or not last else None}
        Answering.send(request, json.dumps(body).encode())

    eve.respond = respond


class Answering:
    """How a server answers."""

    @staticmethod
    def send(request: BaseHTTPRequestHandler, body: bytes) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def test_pages_are_put_together(eve: Eve) -> None:
    items = [sandbox() for _ in range(1100)]
    lists(eve, items)
    found = eve.do("look")
    assert [s["session_id"] for s in found["sessions"]] == [s["sandbox_id"] for s in items]
    assert len(checked_answers.user_census(USER, None, found).sessions) == 1100  # type: ignore[arg-type]


def test_large_items_come_in_smaller_pages(eve: Eve) -> None:
    items = [sandbox(notebook="/" + "n" * 4000, more="\x01" * 20_000) for _ in range(60)]
    lists(eve, items)
    found = eve.do("look")["sessions"]
    assert [s["session_id"] for s in found] == [s["sandbox_id"] for s in items]
    assert all(len(s["notebook"]) <= 1000 for s in found)


def test_more_items_than_asked_for_are_refused(eve: Eve) -> None:
    lists(eve, [{}] * 251, generous=True)
    assert "more than the 250 items asked for" in eve.do("look")["problem"]
    assert len(eve.asked) == 2


def test_a_list_that_does_not_end(eve: Eve) -> None:
    lists(eve, [], last=False)
    assert "does not end" in eve.do("snapshots")["problem"]
    assert len(eve.asked) == 1


def test_what_is_in_an_item_is_not_kept(eve: Eve) -> None:
    """Each page is small; what they are made of takes fifty times as much, and would add up."""
    cell = "[" + "{}," * 20_000 + "{}]"
    body = f'{{"items": [{",".join([json.dumps(sandbox())[:-1] + f", {chr(34)}more{chr(34)}: {cell}}}"] * 25)}], "next_offset": 1}}'
    assert len(body) < 2 * MB
    usage = json.dumps({"snapshots": 0, "snapshot_bytes": 0, "disk_free_bytes": 1}).encode()

    def respond(request: BaseHTTPRequestHandler) -> None:
        Answering.send(request, usage if "usage" in request.path else body.encode() if len(eve.asked) < 30 else b"[]")

    eve.respond = respond
    before = peak()
    assert "not an object" in eve.do("look")["problem"]
    assert peak() - before < 150 * MB


NONSENSE = [
    b"[]", b"5", b"", b"null", b"[" * 100_000, b'{"items": ' + b"[" * 900 + b"]" * 900 + b"}", b'{"items": 5}',
    b'{"items": [5]}', b'{"items": [[]]}', b"\xff", b'{"items": [], "next_offset": []}', b"1" * 10_000,
    json.dumps({"items": [sandbox(title=[[]] * 1000)], "next_offset": None}).encode(),
    json.dumps({"items": [sandbox(size_bytes=10**4000)], "next_offset": None}).encode(),
    json.dumps({"items": [sandbox(size_bytes=1.5)], "next_offset": None}).encode(),
    json.dumps({"sessions": [5], "errors": {}, "live": [], "totals": {}}).encode(),
    json.dumps({"sessions": [], "errors": [], "live": {}, "totals": {"snapshot_bytes_freed": 0}}).encode(),
    json.dumps({"sessions": [], "errors": {}, "live": [], "totals": {"snapshot_bytes_freed": [[]]}}).encode(),
    json.dumps({"snapshots": [[[]]], "totals": {"snapshot_bytes_freed": 0}, "snapshot_bytes": "x"}).encode(),
    b'{"snapshots": ' + b"[" * 900 + b"]" * 900 + b', "totals": {"snapshot_bytes_freed": 0}}',
]  # fmt: skip


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("status", [200, 400])
def test_nonsense_is_a_problem_and_never_an_exception(eve: Eve, job: str, status: int) -> None:
    for body in NONSENSE:
        eve.answers(body, status)
        told = eve.do(job, **JOBS[job])
        assert isinstance(told, dict)
        try:
            checked_answers.user_census(USER, None, told)  # type: ignore[arg-type]
        except BadAnswer:
            pass


def test_many_sessions_are_removed_in_several_requests(eve: Eve) -> None:
    """So that each answer is short."""
    ids = [str(uuid.uuid4()) for _ in range(600)]
    eve.answers(b'{"sessions": [], "errors": {}, "live": [], "totals": {"snapshot_bytes_freed": 1}}')
    told = eve.do("remove", decisions=[[name, "", 0, None] for name in ids])
    assert len(eve.asked) == 3
    assert sorted(told["changed"]) == sorted(ids)
    assert told["totals"]["snapshot_bytes_freed"] == 3
