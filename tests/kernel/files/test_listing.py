"""What a file browser shows, without widgets."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from wasm_kernel.kernel.files.listing import (
    PAGE,
    SORTS,
    Entry,
    Marks,
    View,
    arrange,
    columns,
    crumbs,
    header,
    labels,
    matches,
    scan,
    shorten,
    when,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def names(entries: list[Entry], **view: str) -> list[str]:
    return [e.name for e in arrange(entries, View(**view)).entries]  # type: ignore[arg-type]


def test_scan_lists_one_folder_and_hides_metadata(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.csv").write_text("a")
    (tmp_path / "b.txt").write_text("text")
    (tmp_path / ".metadata.json").write_text("{}")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    found = {e.name: e for e in scan(tmp_path, "")}
    assert {n: e.kind for n, e in found.items()} == {"sub": "folder", "b.txt": "file", "out": "link", "pipe": "other"}
    assert found["b.txt"].size == 4
    assert [e.path for e in scan(tmp_path, "sub")] == ["sub/inner.csv"]
    with pytest.raises(ValueError, match="leave the workspace"):
        scan(tmp_path, "out")
    with pytest.raises(FileNotFoundError):
        scan(tmp_path, "gone")


def test_sorts() -> None:
    entries = [
        Entry("b.csv", "file", 10, 3),
        Entry("A.txt", "file", 30, 1),
        Entry("c.csv", "file", 20, 2),
        Entry("z", "folder", 0, 9),
    ]
    assert names(entries) == ["z", "A.txt", "b.csv", "c.csv"]
    assert names(entries, sort="name-") == ["z", "c.csv", "b.csv", "A.txt"]
    assert names(entries, sort="size-") == ["z", "A.txt", "c.csv", "b.csv"]
    assert names(entries, sort="size") == ["z", "b.csv", "c.csv", "A.txt"]
    assert names(entries, sort="time-") == ["z", "b.csv", "c.csv", "A.txt"]
    assert names(entries, sort="time") == ["z", "A.txt", "c.csv", "b.csv"]
    assert names(entries, sort="type") == ["z", "b.csv", "c.csv", "A.txt"]
    assert all(len(names(entries, sort=sort)) == 4 for sort in SORTS)


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("Report.CSV", "port", True),
        ("Report.CSV", "*.csv", True),
        ("Report.CSV", "r?port*", True),
        ("Report.CSV", "csv*", False),
        ("a[1].txt", "[1]", True),
        ("anything", " ", True),
    ],
)
def test_filter(name: str, wanted: str, found: bool) -> None:
    assert matches(name, wanted) is found


def test_pages() -> None:
    entries = [Entry(f"{n:05}", "file", 0, 0) for n in range(2 * PAGE + 1)]
    first = arrange(entries, View())
    assert (len(first.entries), first.pages) == (PAGE, 3)
    assert first.describe() == f"1–{PAGE} of {2 * PAGE + 1} items"
    last = arrange(entries, View(page=99))
    assert (last.number, [e.name for e in last.entries]) == (2, [f"{2 * PAGE:05}"])
    assert arrange(entries, View(wanted="*7")).describe() == "40 of 401 items match"
    assert arrange([], View()).pages == 1


def test_marks_of_the_last_cell() -> None:
    marks = Marks.of(["new.txt", "a/b/c.txt"], ["new.txt", "old.txt", "a/b/c.txt"], ["gone.txt", "d/x", "bad\ufffd"])
    assert marks.of_path("new.txt") == "new"
    assert marks.of_path("old.txt") == "changed"
    assert marks.of_path("a") == marks.of_path("a/b") == marks.of_path("d") == "changed"
    assert marks.of_path("a/b/c.txt") == "new"
    assert marks.of_path("other") == ""
    assert marks.deleted_in("") == ["gone.txt", "d/x", "bad\ufffd"]
    assert marks.deleted_in("d") == ["x"]


def test_way_to_a_folder() -> None:
    assert crumbs("") == [("/app", "")]
    assert crumbs("a/b") == [("/app", ""), ("a", "a"), ("b", "a/b")]
    way = crumbs("a/b/c/d/e/f/g")
    assert [label for label, _ in way] == ["/app", "…", "e", "f", "g"]
    assert way[1][1] == "a/b/c/d"
    assert View("a/b").up() == View("a")
    assert View("a").up() == View("")


def test_lines_are_aligned_and_different() -> None:
    entries = [
        Entry("日本語のファイル名.csv", "file", 123456, 0),
        Entry("x" * 255, "file", 1, 0),
        Entry("x" * 100 + "y" * 155, "file", 1, 0),
        Entry("x" * 110 + "y" * 145, "file", 1, 0),
        Entry("folder", "folder", 0, 0, "changed"),
        Entry("a\u202etxt.exe", "file", 0, 0, "new"),
        Entry("bad\udcff\x1b[31m\n.txt", "file", 0, 0),
    ]
    lines = labels(entries, NOW)
    assert len(set(lines)) == len(lines)
    assert all(" " not in line and line.replace("\xa0", "").isprintable() for line in lines)
    ends = {columns(line[: line.index("1970-01-01")]) for line in lines}
    assert len(ends) == 1
    assert lines[4].startswith("~\xa0folder/")
    assert lines[5].startswith("+\xa0a\ufffdtxt.exe")
    head = "".join(text for text, _ in header(30, "time-"))
    assert head.index("Type") == columns(lines[1][: lines[1].rindex("file")])
    assert head.index("Changed ↓") + len("Changed ↓") == columns(lines[1][: lines[1].rindex("file")]) - 2


@pytest.mark.parametrize(
    ("sort", "clicks"),
    [
        ("name", {"Name ↑": "name-", "Size": "size-", "Changed": "time-", "Type": "type"}),
        ("name-", {"Name ↓": "name", "Size": "size-", "Changed": "time-", "Type": "type"}),
        ("size-", {"Name": "name", "Size ↓": "size", "Changed": "time-", "Type": "type"}),
        ("time", {"Name": "name", "Size": "size-", "Changed ↑": "time-", "Type": "type"}),
        ("type", {"Name": "name", "Size": "size-", "Changed": "time-", "Type ↑": "type"}),
    ],
)
def test_headings_sort(sort: str, clicks: dict[str, str]) -> None:
    assert {text: order for text, order in header(20, sort) if order} == clicks


def test_shortened_names_keep_their_ending() -> None:
    assert shorten("short.csv", 30) == "short.csv"
    short = shorten("a" * 100 + ".parquet", 30)
    assert short.endswith(".parquet")
    assert columns(short) == 30
    assert columns(shorten("漢" * 100, 31)) <= 31


def test_times_the_guest_made_up() -> None:
    assert when(2**80, NOW) == "?"
    assert when(-(2**70), NOW) == "?"
    assert when(int(NOW.timestamp() * 1e9), NOW) == "12:00:00"
    assert when(0, NOW) == "1970-01-01"


def test_ten_thousand_files_are_quick() -> None:
    entries = [Entry(f"file {n}.csv", "file", n, n) for n in range(10_000)]
    begun = time.process_time()
    page = arrange(entries, View(sort="size-", wanted="csv"))
    labels(page.entries, NOW)
    assert time.process_time() - begun < 1
