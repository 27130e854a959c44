"""Notices from who keeps house: each is shown once, with the first cell of a notebook's kernel, as plain text."""

from __future__ import annotations

import json
import logging
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.administrator.conftest import Start
from tests.sessions.helpers import make_session
from wasm_kernel.kernel.notices import Notice, mark_shown, unshown

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / ".wasm-kernel").mkdir(parents=True)
    return tmp_path / "root"


def write(root: Path, *notices: Any, **document: Any) -> Path:
    file = root / ".wasm-kernel" / "notices.json"
    file.write_text(json.dumps({"version": 1, "notices": list(notices), **document}))
    return file


def notice(name: str = "n1", text: str = "Two sessions go on Friday.", **more: Any) -> dict[str, Any]:
    return {"id": name, "created_at": "2026-11-16T12:00:00Z", "text": text, "session_ids": [], "due": None, **more}


def test_each_is_shown_once(root: Path) -> None:
    assert unshown(root) == []
    write(root, notice("a", "First"), notice("b", "Second"))
    found = unshown(root)
    assert [n.text for n in found] == ["First", "Second"]
    assert unshown(root) == found, "looking is not showing"
    mark_shown(root, found[:1])
    assert [n.id for n in unshown(root)] == ["b"]
    write(root, notice("b", "Second"), notice("c", "Third"))
    mark_shown(root, unshown(root)[:1])
    assert [n.id for n in unshown(root)] == ["c"]
    assert not [p for p in (root / ".wasm-kernel").iterdir() if p.suffix not in (".json", ".lock")]


def test_kernels_that_show_at_once_all_remember(root: Path) -> None:
    notices = [notice(str(n)) for n in range(8)]
    write(root, *notices)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=mark_shown, args=(root, [Notice(str(n), "x")])) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert unshown(root) == []


def test_of_sessions_that_are_gone_nothing_is_said(root: Path) -> None:
    here = make_session(root)
    write(root, notice("a", session_ids=[here, "gone"]), notice("b", session_ids=["gone"]), notice("c", session_ids=[]))
    assert [n.id for n in unshown(root)] == ["a", "c"]


@pytest.mark.parametrize(
    "text",
    ["\x1b[31mred\x1b[0m", "a\nb\r\nc", "right\u202eleft", "a\u2028b", "\x00", "\ud800", "x" * 50_000],
)
def test_what_is_shown_is_one_plain_line(root: Path, text: str) -> None:
    write(root, notice(text=f"begin {text}"))
    (shown,) = unshown(root)
    assert shown.text.isprintable()
    assert len(shown.text) <= 1000
    shown.text.encode()


@pytest.mark.parametrize(
    "item",
    [None, [], "x", {}, {"id": "a"}, {"text": "a"}, {"id": 1, "text": "a"}, {"id": "", "text": "a"},
     {"id": "x" * 200, "text": "a"}, {"id": "a", "text": ["a"]}, {"id": "a", "text": " \n "}],
)  # fmt: skip
def test_one_that_is_none_is_left_out(root: Path, item: Any, caplog: pytest.LogCaptureFixture) -> None:
    write(root, item, notice("good"))
    with caplog.at_level(logging.WARNING, "wasm_kernel"):
        assert [n.id for n in unshown(root)] == ["good"]
    assert "malformed notice" in caplog.text


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"version": 2, "notices": []}', b'{"version": 1, "notices": {}}', b"\xff\xfe",
     b"[" * 100_000, b'{"version": 1, "notices": [' + b" " * (2 << 20) + b"]}"],
)  # fmt: skip
def test_a_damaged_file_is_ignored_and_logged(root: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    file = root / ".wasm-kernel" / "notices.json"
    file.write_bytes(data)
    with caplog.at_level(logging.WARNING, "wasm_kernel"):
        assert unshown(root) == []
    assert str(file) in caplog.text


def test_a_link_a_pipe_and_a_flood(root: Path, tmp_path: Path) -> None:
    file = write(root, notice())
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    assert unshown(root) == []
    file.unlink()
    write(root, *(notice(str(n)) for n in range(1000)))
    assert len(unshown(root)) == 10
    (root / ".wasm-kernel" / "notices-shown.json").write_text("damaged")
    assert len(unshown(root)) == 10


def test_a_kernel_shows_them_with_its_first_cell(start: Start, root: Path) -> None:
    mine = make_session(root)
    markup = "<img src=x onerror=alert(1)>"
    write(root, notice("a", f"Sessions go soon. {markup}"), notice("b", "And more."))
    kernel = start(root, WASM_KERNEL_SESSION=mine)
    kernel.ok("quiet = 1", silent=True)
    first = kernel.ok("1 + 1")
    assert f"[wasm-kernel] Sessions go soon. {markup}\n[wasm-kernel] And more.\n" in first.stderr
    assert "display_data" not in first.kinds, "as text, which no front end takes for markup"
    assert "go soon" not in kernel.ok("2").said
    kernel.stop()
    write(root, notice("a"), notice("b"), notice("c", "Something new."))
    again = start(root, WASM_KERNEL_SESSION=mine).ok("1 + 1").said
    assert "Something new." in again
    assert "And more." not in again


def test_a_kernel_without_a_notebook_shows_none(start: Start, root: Path) -> None:
    """nbclient and papermill: outputs are kept in a file that others read."""
    write(root, notice())
    assert start(root).ok("1 + 1").said == ""
    assert len(unshown(root)) == 1, "it is still to be shown"
