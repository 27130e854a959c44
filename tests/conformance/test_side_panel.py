"""The side panel's comm, as a front end speaks on it: requests, answers, states; and a guest that tries to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import PATIENCE, Kernel
from tests.conformance.panel import Panel, numbers, stored
from wasm_kernel.kernel.side_panel.panel_protocol import VERSION
from wasm_kernel.model.records import is_session_id

pytestmark = pytest.mark.filterwarnings("ignore")
Message = dict[str, Any]


@pytest.fixture
def fresh(start: Callable[..., Kernel]) -> Kernel:
    """A kernel in which nothing has run."""
    return start()


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


def test_a_key_that_is_held_down_undoes_a_cell_each_time(fresh: Kernel) -> None:
    panel = Panel(fresh)
    for value in (1, 2, 3, 4):
        fresh.ok(f"x = {value}")
    panel.state(stored(5))
    asked = {panel.send("undo") for _ in range(3)}
    answers = [panel.until(lambda m: m.get("answer") in asked) for _ in asked]
    assert all("result" in answer for answer in answers), answers
    state = panel.state(lambda s: len(numbers(s, "undone")) == 3)
    asked = {panel.send("redo") for _ in range(2)}
    for _ in asked:
        panel.until(lambda m: m.get("answer") in asked)
    state = panel.state(lambda s: len(numbers(s, "undone")) == 1)
    assert (numbers(state, "now"), numbers(state, "undone")) == ([3], [4])


def test_nothing_is_undone_while_a_cell_runs(fresh: Kernel) -> None:
    panel = Panel(fresh)
    fresh.ok("x = 1")
    fresh.ok("x = 2")
    rows = panel.state(stored(3))["rows"]
    running = fresh.start("x = 3; input()", allow_stdin=True)
    fresh.client.get_stdin_msg(timeout=PATIENCE)
    for request in ({"do": "undo"}, {"do": "restore", "row": rows[1]["id"]}):
        assert "a cell is running" in panel.ask(**request)["error"]
    fresh.client.input("")
    fresh.reply_to(running)
    assert "result" in panel.ask("undo")  # at once: the cell that has just ended
    state = panel.state(lambda s: s["canRedo"])
    assert (numbers(state, "now"), numbers(state, "undone")) == ([2], [3])
    assert fresh.ok("print(x)").stdout == "2\n"


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
    assert state["limits"]["timeout"] == {"value": "7.0 s", "most": "no limit"}
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


def test_rows_older_than_the_checkpoints_that_are_kept(start: Callable[..., Kernel], tmp_path: Path) -> None:
    """They stay, with what the cells did and whether they were undone; one cannot go back to them."""
    (tmp_path / "jupyter_wasm_kernel_config.py").write_text("c.WasmKernel.checkpoint_count = 3\n")
    kernel = start(JUPYTER_CONFIG_DIR=str(tmp_path), WASM_KERNEL_SESSION="one")
    panel = Panel(kernel)
    kernel.ok("a = 1")
    kernel.ok("b = 1")
    assert "result" in panel.ask("undo")
    for number in range(2, 8):
        kernel.ok(f"c = {number}")
    state = panel.state(lambda s: stored(3)(s) and s["older"] == 5)
    assert (numbers(state, "now"), numbers(state, "past"), state["kept"]) == ([7], [6, 5], 3)
    rows = panel.ask("older", skip=0, count=4)["result"]["rows"]
    assert [(row["number"], row["code"], row["state"]) for row in rows] == [
        (4, "c = 4", "past"),
        (3, "c = 3", "past"),
        (2, "c = 2", "past"),
        (2, "b = 1", "undone"),
    ]
    assert all(row["gone"] and not row["id"] for row in rows)
    assert rows[3]["variables"]["added"] == ["b"]
    assert [row["code"] for row in panel.ask("older", skip=4)["result"]["rows"]] == ["a = 1"]
    assert "result" in panel.ask("undo", cells=2)
    assert panel.state(lambda s: s["canRedo"])["canUndo"] is False, "there is nothing before the oldest that is kept"
    assert "error" in panel.ask("undo")
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel()
    later = Panel(start(JUPYTER_CONFIG_DIR=str(tmp_path), WASM_KERNEL_SESSION="one"))
    later.ask("look")
    assert later.state(lambda s: bool(s["rows"]))["older"] >= 5, "another kernel knows them, too"
