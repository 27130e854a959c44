"""The side panel's comm, as a front end speaks on it: requests, answers, states; and a guest that tries to."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.client import PATIENCE, Kernel
from wasm_kernel.kernel.side_panel.panel_protocol import VERSION
from wasm_kernel.model.records import is_session_id

pytestmark = pytest.mark.filterwarnings("ignore")
Message = dict[str, Any]


@pytest.fixture
def fresh(start: Callable[..., Kernel]) -> Kernel:
    """A kernel in which nothing has run."""
    return start()


class Panel:
    """A front end's end of the comm."""

    def __init__(self, kernel: Kernel, comm_id: str = "panel-1") -> None:
        self.kernel, self._comm_id, self._numbers = kernel, comm_id, itertools.count(1)
        self.said: list[Message] = []
        kernel.send("comm_open", {"comm_id": comm_id, "target_name": "wasm-kernel", "data": {"version": VERSION}})

    def _next(self, end: float) -> Message:
        """The next message on the comm."""
        while time.monotonic() < end:
            for message in self.kernel.others:  # came while a cell was waited for
                if self._is_mine(message):
                    self.kernel.others.remove(message)
                    return self._heard(message)
            try:
                self.kernel.others.append(self.kernel.client.get_iopub_msg(timeout=0.2))
            except queue.Empty:
                continue
        raise AssertionError(f"nothing came; before: {self.said[-3:]}")

    def _is_mine(self, message: Message) -> bool:
        return message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self._comm_id

    def _heard(self, message: Message) -> Message:
        data: Message = message["content"]["data"]
        self.said.append(data)
        return data

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message from now on that is wanted."""
        end = time.monotonic() + PATIENCE
        while True:
            message = self._next(end)
            if wanted(message):
                return message

    def state(self, wanted: Callable[[Message], bool]) -> Message:
        """The first state from now on that is wanted."""
        found: Message = self.until(lambda m: "state" in m and wanted(m["state"]))["state"]
        return found

    def ask(self, do: str, **values: Any) -> Message:
        """The answer to a request."""
        number = next(self._numbers)
        self.kernel.send("comm_msg", {"comm_id": self._comm_id, "data": {"request": number, "do": do, **values}})
        return self.until(lambda m: m.get("answer") == number)


def numbers(state: Message, *states: str) -> list[int]:
    """The numbers of the rows in some states, newest first."""
    return [row["number"] for row in state["rows"] if row["state"] in states]


def stored(count: int) -> Callable[[Message], bool]:
    """A state in which every row can be gone to."""
    return lambda state: len(state["rows"]) == count and all(row["id"] for row in state["rows"])


def test_a_front_end_sees_each_cell_and_goes_back_and_forth(fresh: Kernel) -> None:
    panel = Panel(fresh)
    assert panel.until(lambda m: "hello" in m)["hello"]["version"] == VERSION
    fresh.ok("x = 1")
    fresh.ok("open('a.txt', 'w').write('one'); y = [1, 2]")
    fresh.run("1/0")
    state = panel.state(stored(4))
    newest = state["rows"][0]
    assert (newest["number"], newest["state"], newest["ok"], newest["code"]) == (3, "now", False, "1/0")
    assert state["rows"][1]["variables"]["added"] == ["y"]
    assert state["rows"][1]["files"]["added"] == ["a.txt"]
    assert numbers(state, "now", "past") == [3, 2, 1, 0]
    assert {v["name"]: (v["type"], v["value"]) for v in state["variables"]} == {"x": ("int", "1"), "y": ("list", "")}
    assert state["canUndo"] and not state["canRedo"]
    assert 0 < state["memory"]["used"] <= state["memory"]["limit"] and state["trusted"] is False

    assert "result" in panel.ask("undo", cells=2)
    state = panel.state(lambda s: s["canRedo"])
    assert (numbers(state, "now"), numbers(state, "undone")) == ([1], [3, 2])
    assert fresh.ok("import os; print(os.path.exists('a.txt'), 'y' in globals())").stdout == "False False\n"


def test_redo_restore_compare_and_name(fresh: Kernel) -> None:
    panel = Panel(fresh)
    for value in (1, 2, 3):
        fresh.ok(f"x = {value}")
    rows = {row["number"]: row["id"] for row in panel.state(stored(4))["rows"]}
    assert "result" in panel.ask("undo")
    assert "result" in panel.ask("redo")
    assert "error" in panel.ask("redo")
    assert fresh.ok("print(x)").stdout == "3\n"
    assert "result" in panel.ask("restore", row=rows[1])
    assert fresh.ok("print(x)").stdout == "1\n"
    changed = panel.ask("compare", row=rows[3])["result"]["variables"]["changed"]
    assert changed == [{"name": "x", "then": "3", "now": "1"}]
    assert "result" in panel.ask("name", row=rows[3], label=" the third ")
    state = panel.state(lambda s: any(row["label"] for row in s["rows"]))
    assert [row["label"] for row in state["rows"] if row["number"] == 3] == ["the third"]
    assert "empty" in panel.ask("name", row=rows[3], label=" ")["error"]
    fresh.ok("%session restore the third")
    assert fresh.ok("print(x)").stdout == "3\n"


def test_a_file_that_no_cell_made_is_asked_about(fresh: Kernel) -> None:
    panel = Panel(fresh)
    fresh.ok("x = 1")
    panel.state(stored(2))
    (next(p for p in fresh.root.iterdir() if is_session_id(p.name)) / "upload.csv").write_text("a,b\n")
    fresh.ok("open('made.txt', 'w').write('by a cell')")
    panel.state(stored(3))
    assert panel.ask("undo")["confirm"]["files"] == ["upload.csv"]
    assert fresh.ok("import os; print(sorted(os.listdir()))").stdout == "['made.txt', 'upload.csv']\n"
    fresh.ok("pass")
    assert "result" in panel.ask("undo", cells=3, confirmed=True)
    assert fresh.ok("import os; print(os.listdir())").stdout == "[]\n"


def test_limits_and_trust(fresh: Kernel) -> None:
    panel = Panel(fresh)
    fresh.ok("pass")
    assert "result" in panel.ask("limits", change="memory=1500M timeout=7")
    state = panel.state(lambda s: s["memory"]["limit"] == 1500 << 20)
    assert state["limits"]["timeout"] == "7.0 s"
    assert "lots" in panel.ask("limits", change="memory=lots")["error"]
    assert "result" in panel.ask("trust", on=True)
    assert panel.state(lambda s: s["trusted"])["session"]
    assert "result" in panel.ask("trust", on=False)


@pytest.mark.parametrize(
    "data",
    [
        {"request": 9, "do": "format_disk"},
        {"request": 9, "do": "undo", "cells": "two"},
        {"request": 9, "do": "restore"},
        {"request": 9, "do": "restore", "row": "no-such-row"},
        {"request": 9, "do": "name", "row": "a" * 5000, "label": "b"},
        {"request": 9},
    ],
)
def test_a_request_that_makes_no_sense_gets_an_error(kernel: Kernel, data: Message) -> None:
    panel = Panel(kernel)
    kernel.ok("pass")
    kernel.send("comm_msg", {"comm_id": "panel-1", "data": data})
    assert panel.until(lambda m: m.get("answer") == 9)["error"]
    assert kernel.ok("1 + 1").result == "2"


def test_it_answers_while_a_cell_runs(kernel: Kernel) -> None:
    panel = Panel(kernel)
    kernel.ok("pass")
    running = kernel.start("import time\nfor _ in range(600): time.sleep(0.1)")
    kernel.wait_for("execute_input")
    assert "result" in panel.ask("look")
    kernel.manager.interrupt_kernel()
    kernel.finish(running)


def test_the_guest_cannot_speak_on_it(kernel: Kernel) -> None:
    """Not even when its outputs are trusted, and it has guessed the comm's id."""
    panel = Panel(kernel)
    kernel.ok("pass")
    panel.ask("trust", on=True)
    kernel.ok(
        "from comm import create_comm\n"
        "forged = create_comm(target_name='wasm-kernel', comm_id='panel-1', data={'state': 'forged'})\n"
        "forged.send({'state': 'forged'}); forged.close()\n"
        "create_comm(target_name='wasm-kernel', comm_id='another').send({'state': 'forged'})"
    )
    assert "result" in panel.ask("look")
    assert all(said.get("state") != "forged" for said in panel.said)
