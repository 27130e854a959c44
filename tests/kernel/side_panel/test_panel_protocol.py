"""The side panel's messages: what is refused, and that both ends have the same ones."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import pytest

from wasm_kernel.kernel.announcements import Announcement, Kind
from wasm_kernel.kernel.comm_messages import PANEL
from wasm_kernel.kernel.side_panel import guest_tables, panel_notices, view
from wasm_kernel.kernel.side_panel import panel_protocol as protocol
from wasm_kernel.model import differences
from wasm_kernel.model.limits import LIMITS
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.timeline_rows import TimelineRow

THEIRS = (Path(__file__).parents[3] / "labextension" / "src" / "protocol.ts").read_text()
_TYPES = {"int": "number", "bool": "boolean", "str": "string"}


def theirs(interface: str) -> set[str]:
    """The names of an interface's fields, in TypeScript."""
    body = re.search(rf"export interface {interface} {{(.*?)\n}}", THEIRS, re.S)
    assert body is not None
    return set(re.findall(r"^  (\w+)\??:", body[1], re.M))


def test_both_ends_have_the_same_requests() -> None:
    union = THEIRS[THEIRS.index("export type Request") :].partition(";\n\n")[0]
    found = {name: set(re.findall(r"(\w+\??): (\w+)", rest)) for name, rest in re.findall(r"do: '(\w+)'(.*?) }", union)}
    ours = {
        name: {(f.name + "?" * (f.default is not MISSING), _TYPES[str(f.type)]) for f in fields(kind)}
        for name, kind in protocol.REQUESTS.items()
    }
    assert found == ours


def test_both_ends_have_the_same_version_and_rows() -> None:
    assert f"export const VERSION = {protocol.VERSION};" in THEIRS
    assert f"export const PAGE_ROWS = {protocol.PAGE_ROWS};" in THEIRS
    assert f"export const PAGE_COLUMNS = {protocol.PAGE_COLUMNS};" in THEIRS
    assert f"export const MOST_VARIABLES = {guest_tables._MOST_VARIABLES};" in THEIRS
    assert f"export const MOST_NAMES = {differences.MOST_NAMES};" in THEIRS
    assert f"export const MOST_COMPARED = {view._MOST_COMPARED};" in THEIRS
    assert f"export const TARGET = '{PANEL}';" in THEIRS
    from datetime import UTC, datetime

    assert set(view._row(TimelineRow("", 1, "", datetime.now(UTC)))) == theirs("Row")
    assert set(view._variable("x", ["int", 0, "1"])) == theirs("Variable")
    assert set(view._limit("memory", ExecutionPolicy(), {})) == theirs("Limit")


def test_both_ends_have_the_same_notices() -> None:
    assert set(panel_notices._notice(Announcement("note", "text"))) == theirs("Notice")
    kinds = re.search(r"interface Notice {.*?kind: ([^;]*);", THEIRS, re.S)
    assert kinds is not None
    assert set(re.findall(r"'(\w+)'", kinds[1])) == set(get_args(Kind))


def test_the_form_explains_each_limit() -> None:
    form = (Path(__file__).parents[3] / "labextension" / "src" / "limits_form.tsx").read_text()
    meanings = re.search(r"const meanings: .*? = {\n(.*?)\n    };", form, re.S)
    assert meanings is not None
    assert re.findall(r"^ *(\w+): trans", meanings[1], re.M) == list(LIMITS)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"do": "look"}, "no number"),
        ({"request": True, "do": "look"}, "no number"),
        ({"request": 1, "do": ["look"]}, "does not know"),
        ({"request": 1, "do": "undo", "cells": True}, "cells is 'True'"),
        ({"request": 1, "do": "restore"}, "incomplete"),
        ({"request": 1, "do": "name", "row": "x" * 1001, "label": ""}, "row is"),
    ],
)
def test_what_is_no_request_is_refused(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(protocol.BadRequest, match=re.escape(problem)):
        protocol.parse(data)


def test_what_a_limit_can_be_raised_to() -> None:
    assert view._limit("memory", ExecutionPolicy(), {"memory": 3 << 30})["most"] == "3.0 GB"
    assert view._limit("memory", ExecutionPolicy(), {"memory": 9 << 30})["most"] == "4.0 GB"
    assert view._limit("fuel", ExecutionPolicy(), {}) == {"value": "no limit", "most": "no limit"}


def test_a_request() -> None:
    assert protocol.parse({"request": 3, "do": "undo", "cells": 2, "more": 1}) == (3, protocol.Undo(2))


@pytest.mark.parametrize(
    ("described", "shown"),
    [
        (["int", 0, "-12"], "-12"),
        (["int", 0, "6c8dba9a"], "int"),  # of a very large one there is a hash
        (["int", 0, "1" * 40], "1" * 40 + "…"),
        (["DataFrame", 300_000, "1 (5000, 60) 2"], "DataFrame, 5,000 × 60"),
        (["ndarray", 1, "1 (1,) 2"], "ndarray, 1"),
        (["ndarray", 2, "1 ((2)) 2"], "ndarray, 2"),
        (["ndarray", 300_000, "a guest's own words"], "ndarray of 300,000 values"),
        (["list", 3000, "1 3000 2"], "list of 3,000"),
        (["Model", 0, "1"], "Model"),
    ],
)
def test_a_variable_in_a_few_words(described: list[Any], shown: str) -> None:
    assert view._short({"x": described}, "x") == shown
