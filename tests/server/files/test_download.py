"""A session's files, downloaded: whole, in parts, by name, and by names no one should have given."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
import time
from email.message import Message
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.server.conftest import BASE, Server, Session
from tests.sessions.helpers import make_session

MiB = 1 << 20


def test_a_file_as_it_is(session: Session) -> None:
    answer = session.get("data/deep/c.bin")
    assert (answer.status, answer.body) == (200, bytes(range(256)))
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == "256"
    assert answer.headers["Content-Disposition"] == "attachment; filename=\"c.bin\"; filename*=UTF-8''c.bin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Last-Modified" in answer.headers and answer.headers["Accept-Ranges"] == "bytes"


def test_an_empty_file(session: Session) -> None:
    (session.folder / "empty").touch()
    answer = session.get("empty")
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
    assert session.get("empty", Range="bytes=0-").status == 416


def test_head_says_the_same_without_the_bytes(session: Session) -> None:
    whole, head = session.get("a.txt"), session.server.request("HEAD", session.file("a.txt"))
    assert (head.status, head.body) == (200, b"")
    differ = {n for n in whole.headers if whole.headers[n] != head.headers.get(n)} - {"Date", "Set-Cookie"}
    assert not differ


# ---- who may


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_without_a_token_nothing(session: Session, method: str) -> None:
    for headers in ({}, {"Authorization": "token wrong"}):
        answer = session.server.request(method, session.file("a.txt"), login=False, headers=headers)
        assert answer.status == 403
        if method != "HEAD":
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.json["status"] == 403
    assert (session.folder / "a.txt").read_bytes() == b"0123456789"
    for what in ("list", "archive"):
        assert session.server.request("GET", session.url(what), login=False).status == 403


def test_the_servers_authorizer_is_asked(session: Session) -> None:
    for method, action in [("GET", "read"), ("HEAD", "read"), ("PUT", "write"), ("POST", "write"), ("DELETE", "write")]:
        answer = session.server.request(method, session.file("a.txt"), headers={"X-Test-Forbid": action})
        assert answer.status == 403, method
    for what in ("list", "archive"):
        answer = session.server.request("GET", session.url(what), headers={"X-Test-Forbid": "read"})
        assert answer.status == 403 and answer.headers["Content-Type"] == "application/problem+json"
    assert session.get("a.txt").status == 200


def test_a_cookie_alone_changes_nothing(session: Session) -> None:
    """A page of somebody else's could send it; what only we can read has to come with it."""
    connection = session.server.connect()
    connection.request("GET", f"{BASE}/login?token={session.server.token}")
    cookies = [c.split(";")[0] for c in connection.getresponse().headers.get_all("Set-Cookie") or []]
    connection.close()
    sent = {"Cookie": "; ".join(cookies)}
    assert session.server.request("GET", session.file("a.txt"), login=False, headers=sent).status == 200
    for method in ("PUT", "POST", "DELETE"):
        refused = session.server.request(method, session.file("a.txt"), login=False, headers=sent)
        assert refused.status == 403 and "_xsrf" in refused.json["detail"]
    sent = {"Cookie": "; ".join([*cookies, "_xsrf=61626364"]), "X-XSRFToken": "61626364"}
    done = session.server.request("DELETE", session.file("a.txt"), login=False, headers=sent)
    assert done.status == 204


# ---- parts and versions


@pytest.mark.parametrize(
    ("wanted", "status", "body", "said"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=3-1", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=" + "9" * 500 + "-", 200, b"0123456789", None),
    ],
)
def test_a_part(session: Session, wanted: str, status: int, body: bytes | None, said: str | None) -> None:
    answer = session.get("a.txt", Range=wanted)
    assert answer.status == status
    assert answer.headers.get("Content-Range") == said
    if body is not None:
        assert answer.body == body and answer.headers["Content-Length"] == str(len(body))
    else:
        assert answer.json["status"] == 416


def test_a_version_that_is_known_is_not_sent_again(session: Session) -> None:
    first = session.get("a.txt")
    tag = first.headers["Etag"]
    known = session.get("a.txt", If_None_Match=tag)
    assert (known.status, known.body, known.headers["Etag"]) == (304, b"", tag)
    assert session.get("a.txt", If_Modified_Since=first.headers["Last-Modified"]).status == 304
    assert session.get("a.txt", If_Modified_Since="nonsense").status == 200
    info = (session.folder / "a.txt").stat()
    (session.folder / "a.txt").write_bytes(b"9876543210")
    os.utime(session.folder / "a.txt", ns=(info.st_atime_ns, info.st_mtime_ns))  # as a guest may try
    changed = session.get("a.txt", If_None_Match=tag)
    assert changed.status == 200 and changed.headers["Etag"] != tag
    assert session.get("a.txt", Range="bytes=0-1", If_Range=tag).status == 200
    assert session.get("a.txt", Range="bytes=0-1", If_Range=changed.headers["Etag"]).body == b"98"


# ---- shown in the browser


def test_only_what_cannot_run_is_shown(session: Session) -> None:
    page = b"<script>alert(1)</script>"
    for name, kind in {
        "p.png": "image/png", "p.JPG": "image/jpeg", "p.gif": "image/gif", "p.webp": "image/webp",
        "p.pdf": "application/pdf", "p.wav": "audio/wav", "p.MP4": "video/mp4", "p.txt": "text/plain; charset=utf-8", "p.csv": "text/plain; charset=utf-8",
        "p.html": None, "p.svg": None, "p.xml": None, "p.xhtml": None, "p.js": None, "p": None, "png": None, "p.png.html": None,
    }.items():  # fmt: skip
        (session.folder / name).write_bytes(page)
        answer = session.get(name, "?inline=1")
        assert answer.headers["Content-Type"] == (kind or "application/octet-stream"), name
        assert answer.headers["Content-Disposition"].startswith("inline" if kind else "attachment"), name
        assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert session.get(name).headers["Content-Type"] == "application/octet-stream"


# ---- names

HOSTILE = [
    'quote".txt', "semi;colon.txt", "new\nline.txt", "cr\r\nSet-Cookie: x=1.txt", "tab\t.txt", "esc\x1b[31m.txt",
    "rtl\u202etxt.exe", "iso\u2066x\u2069.txt", "ä€😀.txt", "%2e%2e%2f.txt", "back\\slash.txt", "<img src=x onerror=alert(1)>",
    "CON", "nul.txt", "dots...", "space ", "?", "a*b", "C:\\x", "~", "-rf", "n" * 255, "é" * 127, b"bad\xff\xfe.txt", b"\xed\xa0\x80",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names(session: Session, name: str | bytes) -> None:
    raw = os.fsencode(name)
    with open(os.fsencode(session.folder) + b"/" + raw, "wb") as file:
        file.write(b"hostile")
    answer = session.get(name)
    assert (answer.status, answer.body) == (200, b"hostile")
    said = answer.headers["Content-Disposition"]
    assert said.isascii() and said.isprintable() and "x=1" not in answer.headers.get("Set-Cookie", "")
    message = Message()
    message["Content-Disposition"] = said
    saved = message.get_filename()
    assert saved and saved.isprintable() and not set(saved) & set('"/\\:*?<>|\n\r')
    assert saved[-1] not in ". " and saved.partition(".")[0].upper() not in ("CON", "NUL")
    plain = said.partition('filename="')[2].partition('"')[0]
    assert plain and not set(plain) & set("\\%/")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("..", 400), ("../secret", 400), ("%2e%2e/secret", 400), ("%2e%2e%2fsecret", 400), ("data/../../secret", 400),
        ("data%2f..%2f..%2fsecret", 400), ("/etc/passwd", 400), ("%2fetc%2fpasswd", 400), ("a.txt%00", 400), ("%00", 400),
        (".metadata.json", 400), ("%2emetadata.json", 400), (".METADATA.JSON", 400), (".metadata.json.upload-00", 400),
        ("data/.metadata.json", 400), (".", 400), ("%2e", 400), ("x" * 5000, 400), ("n" * 256, 400), ("nothing", 404),
        ("nothing/at/all", 404), ("a.txt/b", 404), ("data", 403), ("%252e%252e%252fsecret", 404),
    ],
)  # fmt: skip
def test_what_is_not_there_for_anybody(session: Session, path: str, status: int) -> None:
    for method in ("GET", "DELETE"):
        if (method, path) == ("DELETE", "data"):
            continue
        answer = session.server.request(method, session.url(f"files/{path}"))
        assert answer.status == status, answer.body
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = answer.json
        assert problem["status"] == status and problem["title"] and problem["detail"]
        assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert (session.folder / ".metadata.json").exists()
    assert (session.server.root.parent / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", ".wasm-kernel", "no-such-session", "a%2fb", "%00", "a%0ab", "x" * 200]
)
def test_no_such_session(server: Server, name: str) -> None:
    (server.root / ".wasm-kernel").mkdir(exist_ok=True)
    for what in ("files/x", "list", "archive"):
        answer = server.get(f"wasm-kernel/sessions/{name}/{what}")
        assert answer.status in (404, 400), answer.body
    assert server.request("PUT", f"wasm-kernel/sessions/{name}/files/x", body=b"x").status == 404
    assert not (server.root / name).is_dir() or name.startswith(".")


def test_a_session_that_is_a_link_is_none(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"secret")
    (server.root / "linked").symlink_to(tmp_path)
    try:
        assert server.get("wasm-kernel/sessions/linked/files/x").status == 404
    finally:
        (server.root / "linked").unlink()


# ---- links


def test_links_are_followed_only_inside(session: Session) -> None:
    (session.folder / "in").symlink_to("data/b.csv")
    (session.folder / "folder").symlink_to("data")
    assert session.get("in").body == session.get("folder/b.csv").body == b"x,y\n1,2\n"
    outside = session.server.root.parent
    for name, target in {
        "up": "../../secret",
        "abs": str(outside / "secret"),
        "meta": ".metadata.json",
        "me": "me",
    }.items():
        (session.folder / name).symlink_to(target)
        assert session.get(name).status in (403, 404), name
    (session.folder / "away").symlink_to(outside)
    assert session.get("away/secret").status == 403
    assert session.put("away/new", b"x").status == 403
    assert session.delete("away/secret").status == 403
    assert session.post("away/new", "?mkdir=1").status == 403
    assert session.post("a.txt", "?move_to=away/a.txt").status == 403
    assert session.server.get(session.url("list?path=away")).status == 403
    assert session.server.get(session.url("archive?path=away")).status == 403
    assert not (outside / "new").exists() and (outside / "secret").read_bytes() == b"secret"


def test_other_things_are_no_files(session: Session) -> None:
    os.mkfifo(session.folder / "pipe")
    with contextlib.chdir(session.folder), socket.socket(socket.AF_UNIX) as made:  # its address must be short
        made.bind("socket")
    assert session.get("pipe").status == 403
    assert session.get("socket").status >= 400


def test_a_guest_that_swaps_a_folder_for_a_link(session: Session) -> None:
    """Whatever it does, what comes back is a file of its own, or nothing."""
    outside = session.server.root.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "b.csv").write_bytes(b"secret")
    (session.folder / "real").mkdir()
    (session.folder / "real" / "b.csv").write_bytes(b"own")
    ending = threading.Event()

    def swap() -> None:
        link, real, x = session.folder / "link", session.folder / "real", session.folder / "x"
        while not ending.is_set():
            link.symlink_to(outside)
            for old, new in [(link, x), (x, link), (real, x), (x, real)]:
                while True:
                    try:
                        os.rename(old, new)
                        break
                    except OSError:  # an upload made a folder there
                        os.rename(x, session.folder / f"made{time.monotonic_ns()}")
            link.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        answers = [session.get("x/b.csv") for _ in range(150)]
        written = [session.put("x/w", b"w", "?overwrite=1") for _ in range(50)]
        listed = [session.server.get(session.url("list?path=x")) for _ in range(50)]
        zipped = [session.server.get(session.url("archive?path=x")) for _ in range(30)]
    finally:
        ending.set()
        thread.join()
    assert {a.body for a in answers if a.status == 200} <= {b"own"}
    assert all(a.status in (200, 403, 404) for a in answers + listed + zipped), {
        a.status for a in answers + listed + zipped
    }
    assert not any(b"secret" in a.body for a in answers + listed + zipped)
    assert {a.status for a in written} <= {200, 201, 403, 404, 409, 500}
    assert sorted(p.name for p in outside.iterdir()) == ["b.csv"]


# ---- large files


def test_a_large_file_takes_no_memory(server: Server) -> None:
    session = Session(server, make_session(server.root, files={"small": "x"}))
    size, tail = 300 * MiB, os.urandom(MiB)
    with open(session.folder / "large.bin", "wb") as file:
        file.truncate(size)
        file.seek(size - len(tail))
        file.write(tail)
    session.get("small")
    before = server.forget_peak()
    connection = server.connect()
    connection.request("GET", f"{BASE}/{session.file('large.bin')}", headers=server.authorized)
    answer = connection.getresponse()
    assert answer.headers["Content-Length"] == str(size)
    time.sleep(0.3)  # a client that does not read yet
    began, other, got, end = time.monotonic(), 0.0, 0, b""
    while block := answer.read(MiB):
        got += len(block)
        end = (end + block)[-len(tail) :]
        if got == 100 * MiB:  # others are served meanwhile
            asked = time.monotonic()
            assert session.get("small").body == b"x"
            other = time.monotonic() - asked
    connection.close()
    assert got == size and hashlib.sha256(end).digest() == hashlib.sha256(tail).digest()
    assert server.peak() - before < 30 * MiB
    assert other < 20, f"{other:.2f} of {time.monotonic() - began:.2f} s"
    last = session.get("large.bin", Range=f"bytes={size - 5}-")
    assert last.body == tail[-5:]
    (session.folder / "large.bin").unlink()


def open_files(server: Server, name: str) -> int:
    found = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            found += name in os.readlink(link)
        except OSError:
            continue
    return found


def test_a_client_that_goes_away_ends_the_reading(session: Session) -> None:
    with open(session.folder / "gone.bin", "wb") as file:
        file.truncate(500 * MiB)
    for what in (session.file("gone.bin"), session.url("archive?path=gone.bin")):
        with socket.create_connection(("127.0.0.1", session.server.port)) as client:
            head = (
                f"GET {BASE}/{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: token {session.server.token}\r\n\r\n"
            )
            client.sendall(head.encode())
            assert client.recv(10_000).startswith(b"HTTP/1.1 200")
            assert open_files(session.server, "gone.bin") == 1
        end = time.monotonic() + 60
        while open_files(session.server, "gone.bin"):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_file_cut_short_meanwhile_is_not_taken_for_whole(session: Session) -> None:
    path = session.folder / "cut.bin"
    with open(path, "wb") as file:
        file.truncate(200 * MiB)
    connection = session.server.connect()
    connection.request("GET", f"{BASE}/{session.file('cut.bin')}", headers=session.server.authorized)
    answer = connection.getresponse()
    answer.read(MiB)
    os.truncate(path, MiB)
    with pytest.raises((OSError, __import__("http.client").client.IncompleteRead)):
        while answer.read(MiB):
            pass
        raise OSError("ended early") if answer.length else AssertionError("taken for whole")
    connection.close()


def test_the_extension_loads_nothing_that_runs_guests(server: Server) -> None:
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "wasmtime" not in maps
    assert "wasm_kernel | extension was successfully loaded" in server.log.read_text()


def test_quoted_slashes_are_slashes(session: Session) -> None:
    assert session.server.get(session.url(f"files/{quote('data/b.csv', safe='')}")).body == b"x,y\n1,2\n"
