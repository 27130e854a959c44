"""What the guest answers about its variables is data: anything that does not fit together is no answer."""

from __future__ import annotations

import asyncio
import re
import time
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wasm_kernel.errors import SandboxError
from wasm_kernel.kernel.side_panel import guest_tables
from wasm_kernel.kernel.side_panel.panel_protocol import PAGE_COLUMNS, PAGE_ROWS, BadRequest, Page
from wasm_kernel.sessions.runtime import SessionRuntime

THEIRS = (Path(__file__).parents[3] / "labextension" / "src" / "protocol.ts").read_text()
PAGE: dict[str, Any] = {
    "status": "ok",
    "kind": "DataFrame",
    "shape": [2, 3],
    "at": [],
    "rows": 2,
    "columns": 3,
    "row": 0,
    "column": 0,
    "levels": [""],
    "labels": [["0", "1"]],
    "names": ["a", "b", "c"],
    "types": ["int64", "float64", "object"],
    "cells": [["1", "2"], ["0.5", ["NaN"]], ["x", ["<object>"]]],
}


def runtime_that_answers(reply: dict[str, Any], running: bool = False) -> tuple[SessionRuntime, list[Any]]:
    """A session whose guest says this."""
    asked: list[Any] = []

    async def ask(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return reply

    return cast("SessionRuntime", SimpleNamespace(running=running, guest=asyncio.Lock(), ask=ask)), asked


def page(reply: dict[str, Any], wanted: Page | None = None, running: bool = False) -> dict[str, Any]:
    async def asked() -> dict[str, Any]:
        runtime, _ = runtime_that_answers(reply, running)
        return await guest_tables.page(runtime, wanted or Page("x"))

    return asyncio.run(asked())


def test_a_page() -> None:
    found = page(PAGE)["result"]
    assert found == {name: value for name, value in PAGE.items() if name != "status"}
    body = re.search(r"export interface Page {(.*?)\n}", THEIRS, re.S)
    assert body is not None
    assert set(re.findall(r"^  (\w+):", body[1], re.M)) == set(found)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": -1},
        {"rows": 1 << 60},
        {"rows": True},
        {"rows": "2"},
        {"columns": None},
        {"shape": [2] * 1000},
        {"shape": ["2"]},
        {"shape": 2},
        {"at": [-1]},
        {"levels": []},
        {"levels": ["", ""]},
        {"labels": []},
        {"labels": [["0"]]},
        {"labels": [["0", "1"]] * 100},
        {"labels": [["0", 1]]},
        {"names": ["a"]},
        {"names": ["a", "b", 3]},
        {"types": ["int64"] * 4},
        {"cells": [["1", "2"]]},
        {"cells": [["1", "2"], ["1", "2"], ["1"]]},
        {"cells": [["1", "2"], ["1", "2"], ["1", []]]},
        {"cells": [["1", "2"], ["1", "2"], ["1", ["a", "b"]]]},
        {"cells": [["1", "2"], ["1", "2"], ["1", {"html": "<script>"}]]},
        {"cells": "123"},
        {"cells": None},
    ],
    ids=str,
)
def test_a_page_that_does_not_fit_together_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SandboxError, match="the sandbox described a table"):
        page({**deepcopy(PAGE), **changes})


def test_a_page_has_no_more_than_was_asked_for() -> None:
    rows, columns = PAGE_ROWS * 3, PAGE_COLUMNS * 3
    whole = {
        **PAGE,
        "rows": rows,
        "columns": columns,
        "labels": [["0"] * rows],
        "names": ["a"] * columns,
        "types": ["int64"] * columns,
        "cells": [["1"] * rows] * columns,
    }
    with pytest.raises(SandboxError):
        page(whole)


def test_texts_are_short_and_hold_nothing_that_moves_other_text() -> None:
    hostile = "a\nb\x1b[31m\u202egpj.exe\u2028" + "x" * 100_000
    found = page({**PAGE, "names": [hostile, "b", "c"], "cells": [[hostile, [hostile]], ["1", "2"], ["1", "2"]]})
    cells = found["result"]["cells"]
    for text in (found["result"]["names"][0], cells[0][0], cells[0][1][0]):
        assert len(text) == 200
        assert text.isprintable()
        assert text.startswith("a↵b�[31m�gpj.exe ")
    joined = "\N{WOMAN}\u200d\N{PERSONAL COMPUTER} \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert page({**PAGE, "names": [joined, "b", "c"]})["result"]["names"][0] == joined


@pytest.mark.parametrize(
    "wanted", [Page("x", row=-1), Page("x", column=-5), Page("x", row=1 << 40), Page("x", at="-1"), Page("x", at="1,x")]
)
def test_a_page_that_cannot_be(wanted: Page) -> None:
    with pytest.raises(BadRequest):
        page(PAGE, wanted)


def test_there_is_no_page() -> None:
    assert page({"status": "ok", "problem": "gone"}) == {"result": {"problem": "gone"}}
    assert page({"status": "ok", "problem": ["<script>"]}) == {"result": {"problem": "no table"}}
    assert page(PAGE, running=True) == {"busy": True}
    with pytest.raises(SandboxError, match="earlier version"):
        page({"status": "error", "ename": "KeyError"})
    with pytest.raises(SandboxError, match="in the way"):
        page({"status": "error", "ename": "RuntimeError", "evalue": "<b>me</b>"})


def test_a_guest_that_is_asked_something_else_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_tables, "_SOON", 0.01)

    async def asked() -> tuple[Any, list[Any]]:
        runtime, requests = runtime_that_answers(PAGE)
        async with runtime.guest:
            return await guest_tables.page(runtime, Page("x")), requests

    assert asyncio.run(asked()) == ({"busy": True}, [])


def test_first_values() -> None:
    good = [[3, 2], 48, "[1, 2, …]", True]
    bad = (
        [],
        "x",
        [1, 2, 3, 4],
        [[-1], 0, "", True],
        [[1] * 100, 0, "", True],
        [[], 1 << 60, "", True],
        [[], 0, 5, True],
    )
    found = guest_tables.checked_values({"a": good, **{f"bad{i}": item for i, item in enumerate(bad)}})
    assert found == {"a": {"shape": [3, 2], "bytes": 48, "first": "[1, 2, …]", "opens": True}}
    assert guest_tables.checked_values(["a"]) == {}
    assert len(guest_tables.checked_values({str(i): good for i in range(10_000)})) == 500
    body = re.search(r"export interface FirstValues {(.*?)\n}", THEIRS, re.S)
    assert body is not None
    assert set(re.findall(r"^  (\w+):", body[1], re.M)) == set(found["a"])


def test_a_large_answer_is_checked_in_little_time() -> None:
    """As large as the wire lets through: 4 MiB in one text, or 500,000 values."""
    began = time.process_time()
    guest_tables.checked_values({"x" * (4 << 20): [[], 0, "\x1b" * (4 << 20), True]})
    guest_tables.checked_values({str(i): [[], 0, "\x1b", True] for i in range(100_000)})
    with pytest.raises(SandboxError):
        page({**PAGE, "cells": [["1"] * 400_000]})
    assert time.process_time() - began < 2
