"""What headers say about a file, whatever it is called and whatever is asked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.server.files.headers import (
    RangeNotSatisfiable,
    byte_range,
    content_disposition,
    etag,
    http_date,
    inline_type,
)

# ---- names

_HEADER = re.compile(
    r"(attachment|inline); filename=\"([A-Za-z0-9 !#$&+.^_`{}~()\[\]@=,-]+)\"; filename\*=UTF-8''([A-Za-z0-9%._~-]+)\Z"
)


def _names_in(header: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(header)
    assert match, header
    return match[2], unquote(match[3], errors="strict")


def test_a_plain_name_is_told_twice() -> None:
    assert content_disposition("a b.txt") == "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt"
    assert content_disposition("a.png", inline=True).startswith("inline; ")
    assert _names_in(content_disposition("ä.txt")) == ("_.txt", "ä.txt")


@pytest.mark.parametrize(
    "name",
    [
        "a\r\nSet-Cookie: x=1",
        'a"; filename="b.exe',
        "a\\b\\c",
        "../../etc/passwd",
        "\u202egnp.exe",
        os.fsdecode(b"\xff\xfe"),
        "\x00\x01",
        "%0d%0a",
        "CON",
        ".",
        "",
        " ",
        "x" * 5000,
    ],
)
def test_a_hostile_name_stays_one_harmless_name(name: str) -> None:
    for said in _names_in(content_disposition(name)):
        assert said.strip(" .")
        assert not set(said) & set('/\\\r\n\x00"\u202e')
        assert len(said) <= 255


@given(st.text())
def test_any_name_gives_a_header(name: str) -> None:
    header = content_disposition(name)
    header.encode("ascii")
    _names_in(header)


# ---- types


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("A.PNG", "image/png"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.py", "text/plain; charset=utf-8"),
        ("page.html.txt", "text/plain; charset=utf-8"),
        ("a.pdf", "application/pdf"),
    ],
)
def test_what_may_be_shown(name: str, kind: str) -> None:
    assert inline_type(name) == kind


@pytest.mark.parametrize(
    "name",
    ["a.html", "a.HTM", "a.svg", "a.xml", "a.xhtml", "a.js", "a.txt.html", "png", "a.", ".", "", "a.png ", "a.ipynb"],
)
def test_what_could_hold_a_script_is_only_saved(name: str) -> None:
    assert inline_type(name) is None


# ---- versions and times


def test_an_etag_changes_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one")
    before = file.stat()
    assert re.fullmatch(r'"[0-9a-f]+-3-[0-9a-f]+-[0-9a-f]+"', etag(before))
    assert etag(before) == etag(file.stat())
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a guest may: same size, same time
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert etag(file.stat()) != etag(before)


def test_times() -> None:
    assert http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert http_date(1.9) == "Thu, 01 Jan 1970 00:00:01 GMT"
    for absurd in (1e18, float("inf"), float("nan")):
        assert http_date(absurd) is None


# ---- ranges


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, None),
        ("", None),
        ("bytes=0-4", (0, 5)),
        ("bytes=5-", (5, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=9-99", (9, 10)),
        (" bytes= 1 - 2 ", (1, 3)),
        ("bytes=0-1,3-4", None),
        ("bytes=-", None),
        ("bytes=4-2", None),
        ("bytes=a-b", None),
        ("bytes=--1", None),
        ("items=0-1", None),
        ("bytes=0-1\r\nX: y", None),
        ("bytes=" + "9" * 20 + "-", None),
        ("bytes=٣-٤", None),
    ],
)
def test_ranges_of_ten_bytes(header: str | None, span: tuple[int, int] | None) -> None:
    assert byte_range(header, 10) == span


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=10-20", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_ranges_behind_the_end(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable, match=f"the file has {size} bytes"):
        byte_range(header, size)


@given(st.integers(0, 10**19), st.integers(0, 10**19) | st.none(), st.integers(0, 10**18))
def test_a_range_is_within_the_file(first: int, last: int | None, size: int) -> None:
    header = f"bytes={first}-{'' if last is None else last}"
    try:
        span = byte_range(header, size)
    except RangeNotSatisfiable:
        assert first >= size
        return
    if span is not None:
        assert 0 <= span[0] < span[1] <= size
