"""Previews: what they show of each kind of file, and that no file makes them hang, grow or do anything."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import struct
import threading
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from wasm_kernel.errors import PathRefused
from wasm_kernel.kernel.files import contents, preview
from wasm_kernel.kernel.files.listing import Entry
from wasm_kernel.kernel.files.media import SMALL, image_size
from wasm_kernel.kernel.files.preview import Preview
from wasm_kernel.kernel.files.transfer import Links

EVIL = "<img src=x onerror=alert(1)>"


LINKS = Links("/base/wasm-kernel/sessions/s")


def look(path: Path, links: Links | None = None) -> Preview:
    kind = "link" if path.is_symlink() else "file"
    return preview.preview(path.parent, Entry(path.name, kind, 0, 31), links)


def write(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def workbook(xml: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", xml)
    return out.getvalue()


SHEETS = '<workbook><sheets><sheet name="Sales &lt;b&gt;"/><sheet name="Costs" state="hidden"/></sheets></workbook>'


def test_code_is_highlighted(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.py", f"def f():\n    return '{EVIL}'\n"))
    assert '<span class="k">def</span>' in seen.markup
    assert "<img" not in seen.markup


@pytest.mark.parametrize(
    "name", ["a.txt", "a.svg", "a.html", "a.md", "noending", "a.xml", "a.js", "a.csv", "a.json", "a.ipynb"]
)
def test_nothing_in_a_text_is_markup(tmp_path: Path, name: str) -> None:
    seen = look(write(tmp_path, name, f'{EVIL},"<svg onload=alert(1)>"\n\u202e\x1b[2Jhidden\n</pre><script>'))
    for bad in ("<img", "<svg", "<script", "\u202e", "\x1b"):
        assert bad not in seen.markup
    assert "img" in seen.markup


def test_tables(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.csv", "a;b\n1;2\n3;4\n"))
    assert seen.said == "2 rows, 2 columns"
    assert "<th>b</th>" in seen.markup
    seen = look(write(tmp_path, "big.tsv", "x\ty\n" + "1\t2\n" * 50_000))
    assert seen.said == "the first 50 rows, 2 columns"
    assert len(seen.markup) < 20_000
    wide = look(write(tmp_path, "wide.csv", ",".join(["x" * 500] * 1000)))
    assert len(wide.markup) < 20_000


def test_json_is_a_tree(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.json", json.dumps({"a": [1, None, True], EVIL: EVIL})))
    assert seen.markup.count("<details") == 2
    assert "<img" not in seen.markup
    many = look(write(tmp_path, "b.json", json.dumps(list(range(100_000)))))
    assert many.said == "the beginning"
    assert len(many.markup) < 100_000


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 900 + "]" * 900, "9" * 300_000]
)
def test_deep_json(tmp_path: Path, text: str) -> None:
    seen = look(write(tmp_path, "deep.json", text))
    assert len(seen.markup) < 500_000
    assert seen.markup


def test_pictures_go_by_their_bytes(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.png", png(3, 2)))
    assert seen.said == "3 × 2 pixels"
    assert 'src="data:image/png;base64,' in seen.markup
    (tmp_path / "link.png").symlink_to("a.png")
    assert look(tmp_path / "link.png").markup == seen.markup
    for name, data in (("b.png", b"<svg onload=alert(1)>"), ("huge.png", png(50_000, 50_000))):
        assert "<img" not in look(write(tmp_path, name, data), LINKS).markup


def test_large_pictures_come_from_the_server(tmp_path: Path) -> None:
    path = write(tmp_path, "large <b>.png", png(3, 2) + bytes(SMALL))
    assert "too large to preview without" in look(path).said
    assert f'src="{LINKS.base}/files/large%20%3Cb%3E.png?inline=1&amp;v=1f"' in look(path, LINKS).markup
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert "too large to preview" in look(path, LINKS).said


@pytest.mark.parametrize(
    ("name", "head", "tag"),
    [
        ("a.wav", b"RIFF\0\0\0\0WAVEfmt ", "<audio controls"),
        ("a.mp3", b"\xff\xfb\x90\x00", "<audio controls"),
        ("a.flac", b"fLaC", "<audio controls"),
        ("a.mp4", b"\0\0\0\x20ftypisom", "<video controls"),
        ("a.webm", b"\x1aE\xdf\xa3", "<video controls"),
        ("a.pdf", b"%PDF-1.7\n", '<object class="wk-document" type="application/pdf" data="'),
    ],
)
def test_what_the_browser_plays_and_shows(tmp_path: Path, name: str, head: bytes, tag: str) -> None:
    small = look(write(tmp_path, name, head + bytes(100)))
    assert tag in small.markup
    assert "base64," in small.markup
    large = write(tmp_path, name, head + bytes(SMALL))
    assert f"{LINKS.base}/files/{name}?inline=1" in look(large, LINKS).markup
    assert "too large" in look(large).said
    assert "0000  " in look(large).markup
    other = look(write(tmp_path, name, EVIL), LINKS)
    assert "0000  " in other.markup
    assert tag not in other.markup


def test_archives_are_bytes(tmp_path: Path) -> None:
    assert "0000  50 4b" in look(write(tmp_path, "a.zip", b"PK\3\4")).markup


def test_an_svg_is_drawn_only_when_asked(tmp_path: Path) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
    seen = look(write(tmp_path, "a.svg", svg))
    assert "<img" not in seen.markup
    assert seen.drawing == svg
    assert look(write(tmp_path, "large.svg", svg + bytes(2 << 20))).drawing == b""


def test_sizes_of_pictures() -> None:
    assert image_size(b"GIF89a" + struct.pack("<HH", 7, 5)) == ("gif", 7, 5)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 5, 7) + b"rest"
    assert image_size(jpeg) == ("jpeg", 7, 5)
    webp = b"RIFF....WEBPVP8X" + bytes(8) + b"\x06\0\0\x04\0\0"
    assert image_size(webp) == ("webp", 7, 5)
    for cut in range(len(jpeg)):
        assert len(image_size(jpeg[:cut])) == 3
    assert image_size(b"\xff\xd8\xff" + bytes(100)) == ("", 0, 0)


def test_excel_has_sheets(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.xlsx", workbook(SHEETS)))
    assert seen.said == "2 sheets: Sales <b>, Costs"
    assert "Sales &lt;b&gt;" in seen.markup


def test_excel_bombs(tmp_path: Path) -> None:
    bomb = workbook("<workbook>" + " " * (300 << 20) + "</workbook>")
    begun = time.monotonic()
    seen = look(write(tmp_path, "bomb.xlsx", bomb))
    assert "too long" in seen.said
    laughs = '<!DOCTYPE w [<!ENTITY a "ha">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1 if n else str()};" * 10}">' for n in range(1, 12)
    )
    seen = look(write(tmp_path, "laughs.xlsx", workbook(laughs + "]><w>&a11;</w>")))
    assert "declarations" in seen.said
    outside = '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]><workbook><sheet name="&x;"/></workbook>'
    assert "root:" not in look(write(tmp_path, "outside.xlsx", workbook(outside))).markup
    for name, data in (("none.xlsx", b"PK\3\4nothing"), ("cut.xlsx", workbook(SHEETS)[:-30])):
        assert "not an Excel workbook" in look(write(tmp_path, name, data)).said
    assert time.monotonic() - begun < 30


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_sqlite_has_tables(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.db",
        "PRAGMA journal_mode=WAL",
        f'CREATE TABLE "{EVIL}" (x)',
        "CREATE TABLE t (a, b)",
        "CREATE VIEW endless AS WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c) SELECT x FROM c",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN DELETE FROM t; END",
    )
    before = path.read_bytes()
    seen = look(path)
    assert seen.said == "2 tables, 1 view"
    assert "<img" not in seen.markup
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db"]


def test_sqlite_whose_schema_is_a_trap(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.db",
        "CREATE TABLE t (a)",
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql = 'CREATE VIEW t AS SELECT load_extension(''/tmp/x.so''), * FROM sqlite_master'",
    )
    assert look(path).markup
    data = bytearray(path.read_bytes())
    for n in range(100, len(data), 37):
        data[n] = 0xFF
    assert look(write(tmp_path, "broken.db", bytes(data))).markup
    assert "not a SQLite" in look(write(tmp_path, "text.db", "hello")).said


def test_anything_else_is_bytes(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.bin", bytes(range(256)) * 2))
    assert "0000  00 01 02 03" in seen.markup
    assert seen.said == "the first 256 bytes"
    assert look(write(tmp_path, "empty.txt", "")).said == "empty"


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff\n" + b"x" * 240 + b".py")
    seen = look(write(tmp_path, name, "x = 1"))
    assert "<pre" in seen.markup
    seen = look(write(tmp_path, "-c.py", "x = 1"))
    assert "<pre" in seen.markup


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to("../secret")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "out", "up", "loop"):
        with pytest.raises((PathRefused, OSError)):
            look(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        look(tmp_path / "gone")


def test_a_file_of_ten_gigabytes(tmp_path: Path) -> None:
    for name in ("a.bin", "a.csv", "a.json", "a.xlsx", "a.db", "a.png", "a.txt"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(10 << 30)
        begun = time.monotonic()
        assert look(path).markup
        assert time.monotonic() - begun < 60


def test_a_file_that_grows_and_shrinks_meanwhile(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a,b\n")
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            with path.open("ab") as file:
                file.write(b"1,2\n" * 1000)
            os.truncate(path, 4)
            other = tmp_path / "other"
            other.write_bytes(b"\0" * 100)
            other.replace(path)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            seen = look(path)
            assert len(seen.markup) < 100_000
    finally:
        stop.set()
        thread.join()


def test_a_reader_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "_READER", "print('no JSON')")
    path = write(tmp_path, "a.txt", "text")
    assert "cannot be read" in look(path).markup
    monkeypatch.setattr(preview, "_READER", "import time; time.sleep(1000)")
    monkeypatch.setattr(preview, "_PATIENCE", 1.0)
    begun = time.monotonic()
    assert "too long" in look(path).markup
    assert time.monotonic() - begun < 60


def test_the_reader_has_limits() -> None:
    import subprocess
    import sys

    code = f"from {contents.__name__} import restrict; restrict(); x = bytearray(1 << 30)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MemoryError" in done.stderr
    code = f"from {contents.__name__} import restrict; restrict()\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60).returncode < 0


def test_long_lines_are_cut(tmp_path: Path) -> None:
    seen = look(write(tmp_path, "a.js", "(" * 60_000))
    assert len(seen.markup) < 50_000
    seen = look(write(tmp_path, "a.html", "<a " * 20_000))
    assert len(seen.markup) < 200_000
