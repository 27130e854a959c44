"""Why a cell waits is said in that cell, once it takes longer than nobody would notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from wasm_kernel.kernel import host_remarks
from wasm_kernel.kernel.cell_run import CellRun
from wasm_kernel.kernel.host_remarks import HostRemarks

_NEXT = {"header": {"msg_id": "next", "msg_type": "execute_request"}}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What was published: in which cell, how, and its text."""
    monkeypatch.setattr(host_remarks, "_UNNOTICED", 0.05)
    return []


def remarks(said: list[tuple[str, str, str]]) -> HostRemarks:
    def publish(parent: Any, kind: str, content: Any) -> None:
        said.append((parent["header"]["msg_id"], kind, content["data"]["text/plain"]))

    return HostRemarks(publish, SimpleNamespace(place=None))  # type: ignore[arg-type]


def wait(said: list[tuple[str, str, str]], seconds: float, next_cell: Callable[[], Any]) -> None:
    async def run() -> None:
        with remarks(said).while_storing(next_cell):
            await asyncio.sleep(seconds)
        await asyncio.sleep(0.1)

    asyncio.run(run())


def test_a_cell_that_waits_long_says_why_and_then_no_longer(said: list[tuple[str, str, str]]) -> None:
    wait(said, 0.3, lambda: _NEXT)
    (first, second) = said
    assert first[:2] == ("next", "display_data") and "storing what the last cell changed" in first[2]
    assert second == ("next", "update_display_data", "")


def test_a_cell_that_comes_meanwhile_says_it_too(said: list[tuple[str, str, str]]) -> None:
    waiting = iter([None, None])
    wait(said, 1.0, lambda: next(waiting, _NEXT))
    assert [kind for _, kind, _ in said] == ["display_data", "update_display_data"]


def test_nothing_is_said_of_what_is_done_at_once_or_nobody_waits_for(said: list[tuple[str, str, str]]) -> None:
    wait(said, 0.0, lambda: _NEXT)
    wait(said, 0.3, lambda: None)
    assert said == []


def test_a_cell_that_waits_before_it_changes_a_file_says_why(said: list[tuple[str, str, str]]) -> None:
    told, run = remarks(said), CellRun(_NEXT, b"", "", silent=False, allow_stdin=False)
    told.waits_for_files(run, True)
    told.waits_for_files(run, False)
    told.waits_for_files(None, True)
    told.waits_for_files(None, False)
    assert [kind for _, kind, _ in said] == ["display_data", "update_display_data"]
    assert "waits until they are stored" in said[0][2] and said[1][2] == ""
