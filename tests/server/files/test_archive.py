"""Zips made while they are sent, and pages of folders."""

from __future__ import annotations

import io
import os
import time
import zipfile
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from tests.server.conftest import BASE, QUOTA, Server, Session
from tests.sessions.helpers import make_session
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.model.names import Names, safe_name
from wasm_kernel.sessions.zip_stream import Bounds, ZipTooLarge, check

MiB = 1 << 20


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == len({n.casefold() for n in archive.namelist()})
        return {info.filename: archive.read(info) for info in archive.infolist()}


def test_files_and_folders(session: Session) -> None:
    (session.folder / "data" / "empty").mkdir()
    (session.folder / "data" / "link").symlink_to("b.csv")
    answer = session.server.get(session.url("archive?path=a.txt&path=data/deep/&path=a.txt&path=data"))
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="files.zip"')
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert unzipped(answer.body) == {
        "a.txt": b"0123456789",
        "deep/": b"",
        "deep/c.bin": bytes(range(256)),
        "data/": b"",
        "data/b.csv": b"x,y\n1,2\n",
        "data/deep/": b"",
        "data/deep/c.bin": bytes(range(256)),
        "data/empty/": b"",
    }
    one = session.server.get(session.url("archive?path=data/deep"))
    assert 'filename="deep.zip"' in one.headers["Content-Disposition"]
    named = session.server.get(session.url("archive?path=a.txt&name=%22..%2F%E2%80%AEx%0A"))
    assert 'filename="_..__x_.zip"' in named.headers["Content-Disposition"]
    whole = unzipped(session.server.get(session.url("archive")).body)
    assert set(whole) == {"a.txt", "data/", "data/b.csv", "data/deep/", "data/deep/c.bin", "data/empty/"}
    assert session.server.request("HEAD", session.url("archive")).body == b""


def test_what_cannot_be_zipped_is_said_before_it_begins(session: Session) -> None:
    for path, status in {"nothing": 404, "..": 400, ".metadata.json": 400, "%2fetc": 400, "x%00": 400}.items():
        answer = session.server.get(session.url(f"archive?path=a.txt&path={path}"))
        assert answer.status == status and answer.headers["Content-Type"] == "application/problem+json"


def test_names_in_a_zip_are_safe_everywhere(session: Session) -> None:
    folder = os.fsencode(session.folder)
    names = [
        b"CON", b"con.txt", b"Aux ", b"dots..", b"a:b", b"a?b", b"a*b", b"x\n\x1b.txt", b"bad\xff", b"bad\xfe", b"back\\slash",
        "rtl\u202egpj.exe".encode(), b"case.TXT", b"CASE.txt", b"case (2).txt", "é".encode(), "e\u0301".encode(), b"n" * 255,
        b" ", b"...", b"COM1.tar.gz", "lpt²".encode(), b"C:\\evil", b"~",
    ]  # fmt: skip
    for number, name in enumerate(names):
        with open(folder + b"/" + name, "wb") as file:
            file.write(b"%d" % number)
    os.mkdir(folder + b"/nul")
    os.mkdir(folder + b"/NUL.")
    for inner in (b"/nul/in", b"/NUL./in"):
        with open(folder + inner, "wb") as file:
            file.write(inner)
    found = unzipped(session.server.get(session.url("archive")).body)
    assert {found[n] for n in found} >= {b"%d" % n for n in range(len(names))} | {b"/nul/in", b"/NUL./in"}
    reserved = {"CON", "AUX", "NUL", "COM1", "LPT²"}
    for path in found:
        assert not path.startswith("/") and ".." not in path.split("/")
        for part in path.rstrip("/").split("/"):
            assert part and part[-1] not in ". " and not set(part) & set('<>:"\\|?*')
            assert part.partition(".")[0].rstrip().upper() not in reserved
            assert part.isprintable() and len(part.encode()) <= 255


def test_two_files_of_one_name_are_numbered(session: Session) -> None:
    for folder in ("x", "y", "z"):
        (session.folder / folder).mkdir()
        (session.folder / folder / "same.tar.gz").write_text(folder)
    answer = session.server.get(session.url("archive?path=x/same.tar.gz&path=y/same.tar.gz&path=z/same.tar.gz"))
    assert unzipped(answer.body) == {"same.tar.gz": b"x", "same.tar (2).gz": b"y", "same.tar (3).gz": b"z"}


def test_a_large_zip_takes_no_memory(server: Server) -> None:
    session = Session(server, make_session(server.root))
    with open(session.folder / "zeros.bin", "wb") as file:
        file.truncate(200 * MiB)
    (session.folder / "noise.gz").write_bytes(os.urandom(20 * MiB))
    before, got = server.forget_peak(), bytearray()
    connection = server.connect()
    connection.request("GET", f"{BASE}/{session.url('archive')}", headers=server.authorized)
    answer = connection.getresponse()
    while block := answer.read(MiB):
        got += block
    connection.close()
    assert server.peak() - before < 30 * MiB
    with zipfile.ZipFile(io.BytesIO(got)) as archive:
        assert archive.testzip() is None
        assert archive.getinfo("zeros.bin").file_size == 200 * MiB
        assert archive.read("noise.gz") == (session.folder / "noise.gz").read_bytes()


def test_a_zip_has_bounds(session: Session) -> None:
    with Folder(session.folder) as folder:
        check(folder, [], Bounds(1 << 20, 100))
        for bounds in (Bounds(100, 100), Bounds(1 << 20, 3)):
            with pytest.raises(ZipTooLarge):
                check(folder, [], bounds)


def test_many_files_that_want_one_name() -> None:
    names = Names()
    began = time.process_time()
    taken = {names.take(c * 3) for _ in range(5000) for c in ("a", ":", "?")}
    assert len(taken) == 15_000 and time.process_time() - began < 5
    began = time.process_time()  # names too long for a number: cut, they are all the same
    taken = {names.take("b" * 245 + f"{n:08}" + c) for n in range(5000) for c in "Yy"}
    assert len(taken) == 10_000 and time.process_time() - began < 5
    assert safe_name("...") == "_" and safe_name("CON .x") == "_CON .x"


# ---- pages


def test_a_page(session: Session) -> None:
    for name in (b"B.txt", b"odd\xff.txt", "ü<b>.html".encode()):
        with open(os.fsencode(session.folder) + b"/" + name, "wb") as file:
            file.write(b"x" * len(name))
    (session.folder / "link").symlink_to("/etc/passwd")
    os.utime(session.folder / "B.txt", (0, 0))
    found = session.server.get(session.url("list")).json
    assert [e["name"] for e in found["entries"]] == ["data", "a.txt", "B.txt", "link", "odd\ufffd.txt", "ü<b>.html"]
    assert [e["kind"] for e in found["entries"]] == ["folder", "file", "file", "link", "file", "file"]
    assert (found["total"], found["offset"], found["path"]) == (6, 0, "")
    by_name = {e["name"]: e for e in found["entries"]}
    assert by_name["a.txt"]["size"] == 10 and by_name["B.txt"]["modified"] == "1970-01-01T00:00:00.000000Z"
    for entry in found["entries"]:
        if entry["kind"] == "file":
            raw = unquote_to_bytes(entry["key"])
            assert session.get(raw).body == Path(os.fsdecode(os.fsencode(session.folder) + b"/" + raw)).read_bytes()
    assert found["quota"]["limit"] == QUOTA and found["quota"]["entries"] == 9
    assert found["quota"]["used"] >= 256

    def names(query: str) -> list[str]:
        return [e["name"] for e in session.server.get(session.url(f"list?{query}")).json["entries"]]

    assert names("sort=size&order=desc")[1:3] == ["link", "ü<b>.html"]
    assert names("sort=time")[:2] == ["data", "B.txt"]
    assert names("sort=type")[1:] == ["ü<b>.html", "a.txt", "B.txt", "odd\ufffd.txt", "link"]
    assert names("order=desc")[:2] == ["data", "ü<b>.html"]
    assert names("offset=1&limit=2") == ["a.txt", "B.txt"]
    assert names("filter=.TXT") == names("filter=*.txt") == ["a.txt", "B.txt", "odd\ufffd.txt"]
    assert names("path=data/") == ["deep", "b.csv"]
    deep = session.server.get(session.url("list?path=data%2Fdeep")).json
    assert deep["entries"][0]["key"] == "data/deep/c.bin" and deep["key"] == "data/deep"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("path=nothing", 404), ("path=a.txt", 404), ("path=..", 400), ("path=%2fetc", 400), ("path=x%00", 400),
        ("path=.metadata.json", 400), ("offset=-1", 400), ("limit=99999", 400), ("limit=x", 400), ("limit=", 400), ("sort=x", 400),
    ],
)  # fmt: skip
def test_pages_that_do_not_exist(session: Session, query: str, status: int) -> None:
    answer = session.server.get(session.url(f"list?{query}"))
    assert answer.status == status and answer.headers["Content-Type"] == "application/problem+json"


def test_ten_thousand_files(server: Server) -> None:
    session = Session(server, make_session(server.root))
    for number in range(10_000):
        os.close(os.open(session.folder / f"f{number:05}.txt", os.O_CREAT))
    took = []
    for query in ("limit=100", "limit=100&offset=9900&sort=time&order=desc", "filter=999"):
        began = server.cpu_seconds()
        answer = session.server.get(session.url(f"list?{query}"))
        took.append(server.cpu_seconds() - began)
        assert answer.status == 200 and answer.json["quota"]["entries"] == 10_000
    assert min(took) < 1, took
