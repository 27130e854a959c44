"""Files put into a session over HTTP: whole or not at all, never more than fits, never over what is there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conftest import BASE, QUOTA, Server, Session
from tests.sessions.helpers import make_session, tree
from wasm_kernel import BaseSandbox, ExecutionPolicy, get_session_sandbox
from wasm_kernel.host.disk import locks

MiB = 1 << 20


def test_a_new_file(session: Session) -> None:
    answer = session.put("new/folder/f.bin", bytes(range(256)))
    assert answer.status == 201
    assert (answer.json["name"], answer.json["key"], answer.json["size"]) == ("f.bin", "new/folder/f.bin", 256)
    assert (session.folder / "new/folder/f.bin").read_bytes() == bytes(range(256))
    assert session.put("empty", b"").status == 201
    assert (session.folder / "empty").read_bytes() == b""
    assert not session.leftovers()


def test_what_is_there_is_replaced_only_when_asked(session: Session) -> None:
    for query in ("", "?overwrite=0"):
        refused = session.put("a.txt", b"new", query)
        assert refused.status == 409 and refused.headers["Content-Type"] == "application/problem+json"
    assert (session.folder / "a.txt").read_bytes() == b"0123456789"
    assert session.put("a.txt", b"new", "?overwrite=1").status == 200
    assert (session.folder / "a.txt").read_bytes() == b"new"
    assert session.put("data", b"new", "?overwrite=1").status == 403  # a folder
    assert session.put("a.txt/x", b"new").status == 404
    assert session.put("a.txt", b"new", "?overwrite=perhaps").status == 400
    assert not session.leftovers()


def test_of_two_at_once_one_wins(session: Session) -> None:
    """Both were begun when there was none."""
    first = Slow(session, "twice", 10)
    second = Slow(session, "twice", 10)
    assert first.end(b"1" * 10) == 201
    assert second.end(b"2" * 10) == 409
    assert (session.folder / "twice").read_bytes() == b"1" * 10
    assert not session.leftovers()


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e%2fx", "%2fx", "x%00", ".metadata.json", "d/.metadata.json.upload-x", "n" * 256]
)
def test_names_that_are_refused(session: Session, name: str) -> None:
    before = tree(session.folder)
    answer = session.server.request("PUT", session.url(f"files/{name}"), body=b"x")
    assert answer.status == 400 and answer.headers["Content-Type"] == "application/problem+json"
    assert tree(session.folder) == before


@pytest.mark.parametrize(
    "name", ["ä b\u202e.txt", "q'\"<>.txt", "n" * 255, b"\xff\xfe", "new\nline", "back\\slash"], ids=ascii
)
def test_names_that_are_taken_as_they_are(session: Session, name: str | bytes) -> None:
    assert session.put(name, b"x").status == 201
    assert os.fsencode(name) in os.listdir(os.fsencode(session.folder))
    assert session.get(name).body == b"x"
    assert session.delete(name).status == 204


# ---- room


class Slow:
    """An upload of which only the head was sent."""

    def __init__(self, session: Session, name: str, size: int | None, *, expect: bool = False) -> None:
        before = len(session.leftovers())
        self.socket = socket.create_connection(("127.0.0.1", session.server.port), timeout=30)
        length = f"Content-Length: {size}" if size is not None else "Transfer-Encoding: chunked"
        self.socket.sendall(
            f"PUT {BASE}/{session.file(name)} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n"
            f"Authorization: token {session.server.token}\r\n{'Expect: 100-continue' if expect else 'X-A: b'}\r\n\r\n".encode()
        )
        end = time.monotonic() + 60
        while len(session.leftovers()) == before and not expect:
            assert time.monotonic() < end
            time.sleep(0.01)

    def answer(self) -> bytes:
        return self.socket.recv(65536)

    def end(self, data: bytes) -> int:
        self.socket.sendall(data)
        status = int(self.answer().split()[1])
        self.socket.close()
        return status


def test_what_does_not_fit_is_refused_before_it_is_sent(session: Session) -> None:
    upload = Slow(session, "new/huge", QUOTA + 1, expect=True)
    answer = upload.answer()
    assert answer.startswith(b"HTTP/1.1 413 ") and b"application/problem+json" in answer
    assert b'"limit": %d' % QUOTA in answer and b"room for" in answer
    upload.socket.close()
    assert not (session.folder / "new").exists()
    fits = Slow(session, "fits", 3, expect=True)
    assert fits.answer().startswith(b"HTTP/1.1 100 ")
    assert fits.end(b"abc") == 201


def test_the_limits_of_the_kernel_that_runs_are_the_servers(session: Session) -> None:
    """Those of the configuration hold while none does."""
    with contextlib.closing(
        get_session_sandbox(
            session.id, policy=ExecutionPolicy(workspace_bytes=MiB, max_files=9), workspace_root=session.server.root
        )
    ) as sandbox:
        assert session.put("b", bytes(2 * MiB)).status == 413
        quota = session.server.get(session.url("list")).json["quota"]
        assert (quota["limit"], quota["max_entries"]) == (MiB, 9)
        sandbox._live.change_policy(ExecutionPolicy(workspace_bytes=3 * MiB, max_file_bytes=MiB))
        refused = session.put("b", bytes(2 * MiB))
        assert refused.status == 413 and "a file may have at most 1,048,576" in refused.json["detail"]
        chunked = session.put("b", (bytes(1000) for _ in range(2000)), Transfer_Encoding="chunked")
        assert chunked.status == 413
        assert session.put("b", bytes(MiB // 2)).status == 201
        assert session.server.get(session.url("list")).json["quota"]["limit"] == 3 * MiB
        assert not sandbox.execute("import os; os.makedirs('.wasm-kernel/locks')").success
        locks = session.folder / ".wasm-kernel" / "locks"  # as a guest may have done before that was refused
        locks.mkdir(parents=True)
        (locks / session.id).write_text('{"limits": {"disk": 1}}')
        assert session.server.get(session.url("list")).json["quota"]["limit"] == 3 * MiB
    assert session.server.get(session.url("list")).json["quota"]["limit"] == QUOTA
    assert session.put("c", bytes(4 * MiB)).status == 201


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"{",
        b"[]",
        b'{"limits": 3}',
        b'{"limits": {"disk": "x"}}',
        b'{"limits": {"nothing": 1}}',
        b'{"pid": "x", "scratch": 3}',
        b'{"pid": -1, "scratch": "/usr"}',
        b'{"pid": true, "scratch": "../../.."}',
        b'{"pid": 99999999999999999999, "scratch": "/usr\\u0000"}',
    ],
)
def test_a_lock_that_says_nothing_of_use(session: Session, told: bytes) -> None:
    lock = locks.lock_session(session.server.root, session.id)
    try:
        before = session.server.get(session.url("list")).json["quota"]
        lock.path.write_bytes(told)
        assert before["limit"] == QUOTA
        assert session.server.get(session.url("list")).json["quota"] == before
    finally:
        lock.release()


@contextlib.contextmanager
def guest(session: Session) -> Iterator[BaseSandbox]:
    """A guest of the session, in a process that is not the server's, with room for 8 MiB."""
    policy = ExecutionPolicy(workspace_bytes=8 * MiB)
    with contextlib.closing(
        get_session_sandbox(session.id, policy=policy, workspace_root=session.server.root)
    ) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("fill", "free"),
    [
        ("open('/tmp/big', 'wb').write(bytes(5 << 20))", "import os; os.remove('/tmp/big')"),
        ("f = open('big', 'wb'); f.write(bytes(5 << 20)); f.flush(); import os; os.remove('big')", "f.close()"),
        (
            "f = open('/tmp/big', 'wb'); f.write(bytes(5 << 20)); f.flush(); import os; os.remove('/tmp/big')",
            "f.close()",
        ),
    ],
    ids=["in /tmp", "deleted but open", "deleted in /tmp but open"],
)
def test_what_a_guest_has_beside_its_workspace_counts(session: Session, fill: str, free: str) -> None:
    """The room that is left is what the guest itself has left."""
    with guest(session) as sandbox:
        assert sandbox.execute(fill).success
        assert session.put("upload", bytes(5 * MiB)).status == 413
        quota, own = session.server.get(session.url("list")).json["quota"], sandbox._sandbox.quota()
        assert (quota["used"], quota["entries"]) == (own.used, own.entries)
        assert quota["used"] > 5 * MiB
        assert sandbox.execute("open('small', 'wb').write(bytes(2 << 20))").success
        assert not sandbox.execute("open('large', 'wb').write(bytes(2 << 20))").success
        assert sandbox.execute(f"{free}; os.remove('small'); os.remove('large')").success
        assert session.put("upload", bytes(5 * MiB)).status == 201
    assert session.put("more", bytes(5 * MiB)).status == 201, "what a guest had beside its workspace is gone with it"


def test_a_scratch_folder_that_is_a_link_is_not_looked_into(session: Session, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(bytes(5 * MiB))
    mine = tmp_path / "wasm-kernel-scratch-x"
    mine.mkdir()
    (mine / "tmp-link").symlink_to(elsewhere)
    (mine / "tmp-real").mkdir()
    (mine / "tmp-real" / "large").symlink_to(elsewhere)
    (tmp_path / "wasm-kernel-scratch-link").symlink_to(mine)
    lock = locks.lock_session(session.server.root, session.id)
    try:
        for scratch in (mine / "tmp-link", mine / "tmp-real", tmp_path / "wasm-kernel-scratch-link" / "tmp-real"):
            lock.path.write_text(json.dumps({"pid": os.getpid(), "scratch": str(scratch)}))
            assert session.server.get(session.url("list")).json["quota"]["used"] < MiB
    finally:
        lock.release()


def test_uploads_under_way_are_counted(session: Session) -> None:
    first = Slow(session, "data/first", QUOTA - MiB)
    assert session.put("second", bytes(2 * MiB)).status == 413
    assert session.put("third", bytes(MiB // 2)).status == 201
    first.socket.close()
    until_gone(session)
    assert session.put("second", bytes(2 * MiB)).status == 201


def test_what_is_replaced_makes_room(session: Session) -> None:
    with open(session.folder / "a.txt", "wb") as file:
        file.truncate(QUOTA - MiB)
    assert session.put("b.txt", bytes(2 * MiB)).status == 413
    assert session.put("a.txt", bytes(2 * MiB), "?overwrite=1").status == 200
    assert session.put("b.txt", bytes(2 * MiB)).status == 201


def test_a_body_of_unknown_length_is_cut_where_room_ends(session: Session) -> None:
    assert session.put("chunked", (b"x" * 1000 for _ in range(3000)), Transfer_Encoding="chunked").status == 201
    assert (session.folder / "chunked").stat().st_size == 3_000_000
    with open(session.folder / "filler", "wb") as file:
        file.truncate(QUOTA - 5 * MiB)
    upload = Slow(session, "endless", None)
    block = b"%x\r\n%s\r\n" % (MiB, bytes(MiB))
    with pytest.raises(OSError):
        for _ in range(200):
            upload.socket.sendall(block)
            time.sleep(0.01)
    until_gone(session)
    assert not (session.folder / "endless").exists()


def test_a_client_that_goes_away_leaves_nothing(session: Session) -> None:
    for size in (100, 50 * MiB):
        upload = Slow(session, "data/half", size)
        upload.socket.sendall(bytes(size // 2))
        assert session.leftovers()
        assert not [e for e in session.server.get(session.url("list?path=data")).json["entries"] if e["name"] == "half"]
        upload.socket.close()
        until_gone(session)
    assert not (session.folder / "data" / "half").exists()


def until_gone(session: Session) -> None:
    end = time.monotonic() + 60
    while session.leftovers():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_large_file_takes_no_memory(server: Server) -> None:
    session = Session(server, make_session(server.root))
    session.put("warm", bytes(2 * MiB))
    block, blocks = os.urandom(MiB), 300

    def body() -> Iterator[bytes]:
        for _ in range(blocks):
            yield block

    waits: list[float] = []
    ending = threading.Event()

    def ask() -> None:
        while not ending.wait(0.2):
            began = time.monotonic()
            session.get("warm", Range="bytes=0-0")
            waits.append(time.monotonic() - began)

    before = server.forget_peak()
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        answer = session.put("large.bin", body(), **{"Content-Length": str(blocks * MiB)})
    finally:
        ending.set()
        thread.join()
    assert answer.status == 201 and answer.json["size"] == blocks * MiB
    assert server.peak() - before < 30 * MiB
    assert max(waits, default=0.0) < 20  # others are served meanwhile
    with open(session.folder / "large.bin", "rb") as file:
        assert all(file.read(MiB) == block for _ in range(blocks)) and not file.read(1)
    (session.folder / "large.bin").unlink()


# ---- folders, names, deleting


def test_a_folder(session: Session) -> None:
    assert session.post("new/inner", "?mkdir=1").status == 201
    assert (session.folder / "new/inner").is_dir()
    assert session.post("new/inner", "?mkdir=1").status == 409
    assert session.post("a.txt", "?mkdir=1").status == 409
    assert session.post("a.txt/x", "?mkdir=1").status == 404
    assert session.post("x", "").status == 400
    assert session.post("x", "?mkdir=1&move_to=y").status == 400


def test_move(session: Session) -> None:
    moved = session.post("a.txt", "?move_to=data/%C3%A4%0A.txt")
    assert (moved.status, moved.json["key"]) == (200, "data/%C3%A4%0A.txt")
    assert (session.folder / "data/ä\n.txt").read_bytes() == b"0123456789" and not (session.folder / "a.txt").exists()
    assert session.post("data", "?move_to=renamed").status == 200
    assert (session.folder / "renamed/deep/c.bin").exists()
    assert session.post("renamed", "?move_to=renamed/deep/in-itself").status == 400
    assert session.post("renamed/b.csv", "?move_to=renamed/deep/c.bin").status == 409
    assert session.post("renamed/b.csv", "?move_to=renamed/deep").status == 409
    assert session.post("renamed/b.csv", "?move_to=nowhere/b.csv").status == 404
    assert session.post("nothing", "?move_to=x").status == 404
    for target in ("../x", "%2Fx", ".metadata.json", "x%00"):
        assert session.post("renamed/b.csv", f"?move_to={target}").status == 400
    (session.folder / "link").symlink_to("renamed")
    assert session.post("link", "?move_to=link2").status == 200
    assert (session.folder / "link2").is_symlink()


def test_delete(session: Session) -> None:
    assert session.delete("a.txt").status == 204
    assert session.delete("a.txt").status == 404
    refused = session.delete("data")
    assert refused.status == 409 and "not empty" in refused.json["detail"]
    (session.folder / "data" / "out").symlink_to(session.server.root.parent)
    assert session.delete("data", "?recursive=1").status == 204
    assert not (session.folder / "data").exists()
    assert (session.server.root.parent / "secret").exists()
    (session.folder / "link").symlink_to("/etc")
    assert session.delete("link").status == 204
