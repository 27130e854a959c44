"""What the person should know goes to a side panel that shows it, or else into a cell: never to both, never nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.client import Kernel, eventually
from tests.conformance.panel import Message, Panel, stored
from tests.conformance.test_first_image import built_elsewhere, empty_cache  # noqa: F401 - fixtures
from tests.disks import ext4
from wasm_kernel.kernel.side_panel.panel_protocol import VERSION
from wasm_kernel.model.names import STATE_FOLDER

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]


@pytest.fixture
def book(start: Start) -> Iterator[Start]:
    """Kernels of one notebook, one after the other."""
    return lambda **env: start(WASM_KERNEL_SESSION="notebook", **env)  # type: ignore[return-value]


def kill(kernel: Kernel) -> None:
    kernel.manager.signal_kernel(9)
    kernel.stop()


def close(kernel: Kernel) -> None:
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel()


def notices(panel: Panel) -> list[Message]:
    """All notices so far."""
    return [said["notice"] for said in panel.said if "notice" in said]


def told(panel: Panel, kind: str) -> Message:
    """The notice of a kind, which the panel was told or will be."""
    panel.ask("look")  # opens the session
    while not any(notice["kind"] == kind for notice in notices(panel)):
        panel.until(lambda m: "notice" in m)
    return next(notice for notice in notices(panel) if notice["kind"] == kind)


def test_a_session_that_continues(book: Start) -> None:
    first = book()
    first.ok("x = 41")
    close(first)
    kernel = book()
    panel = Panel(kernel)
    notice = told(panel, "continued")
    assert notice["good"] and notice["values"]["at"]
    assert "result" in panel.ask("seen", notice=notice["id"])
    assert kernel.ok("print(x)").said == "41\n", "the person was told by the panel"
    later = Panel(kernel, "panel-2")  # the page was loaded again
    later.ask("look")
    kernel.ok("1")
    later.ask("look")
    assert notices(later) == []
    assert "result" in panel.ask("reset")
    assert kernel.ok("print('x' in globals())").stdout == "False\n"


def test_what_no_panel_has_shown_a_cell_says(book: Start) -> None:
    """A page that is closed says nothing, not even that."""
    first = book()
    first.ok("x = 41")
    close(first)
    kernel = book()
    panel = Panel(kernel)
    panel.ask("look")
    assert eventually(lambda: "Continued from" in kernel.ok("print(x)").said)
    later = Panel(kernel, "panel-2")
    later.ask("look")
    assert notices(later) == []


def test_a_panel_that_comes_late_is_not_told_what_a_cell_has_said(book: Start) -> None:
    first = book()
    first.ok("x = 41")
    close(first)
    kernel = book()
    assert "Continued from" in kernel.ok("x").said
    panel = Panel(kernel)
    panel.ask("look")
    assert notices(panel) == []


def test_a_cell_whose_work_is_lost(book: Start) -> None:
    first = book()
    first.ok("x = 41")
    first.start("import time\nfor _ in range(600): time.sleep(0.1)")
    first.wait_for("execute_input", "range(600)")
    kill(first)
    kernel = book()
    panel = Panel(kernel)
    notice = told(panel, "lost")
    assert notice["values"]["cells"] == [2] and not notice["good"] and "what it did is lost" in notice["text"]
    panel.ask("seen", notice=notice["id"])
    assert kernel.ok("print(x)").said == "41\n"


def test_a_session_that_will_be_pruned(book: Start, tmp_path: Path) -> None:
    state = tmp_path / "sessions" / STATE_FOLDER
    state.mkdir(parents=True)
    due = "2026-12-01T00:00:00.000000Z"
    one = {"id": "n1", "text": "A session goes on 2026-12-01.", "session_ids": ["notebook"], "due": due}
    first = book()
    first.ok("1")
    close(first)
    (state / "notices.json").write_text(json.dumps({"version": 1, "notices": [one, {**one, "id": "n2", "due": "x"}]}))
    panel = Panel(book())
    notice = told(panel, "prune")
    assert notice["values"] == {"due": due, "sessions": 1}
    assert not (state / "notices-shown.json").exists(), "sent is not seen"
    panel.ask("seen", notice=notice["id"])
    assert json.loads((state / "notices-shown.json").read_text())["shown"] == ["n1"]


def test_checkpoints_that_are_not_kept(tmp_path: Path) -> None:
    with ext4(tmp_path, 64) as disk:
        kernel = Kernel(disk.at / "root", WASM_KERNEL_SESSION="one")
        try:
            panel = Panel(kernel)
            kernel.ok("x = 1")
            panel.state(stored(2))
            disk.fill()
            running = [kernel.ok("import os; a = os.urandom(3_000_000)")]
            notice = told(panel, "unstored")
            panel.ask("seen", notice=notice["id"])
            assert notice["values"] == {"why": "disk"} and "%prune" in notice["text"]
            running += [kernel.ok("2"), kernel.ok("3")]
            assert not any("not being kept" in cell.said for cell in running)
        finally:
            kernel.stop()


def test_checkpoints_that_are_switched_off(start: Start, tmp_path: Path) -> None:
    (tmp_path / "jupyter_wasm_kernel_config.py").write_text("c.WasmKernel.checkpoint = False\n")
    kernel = start(JUPYTER_CONFIG_DIR=str(tmp_path))
    assert told(Panel(kernel), "unstored")["values"] == {"why": "off"}
    assert kernel.ok("1 + 1").said == "", "who wants it so need not read it in every notebook"


def test_the_image_that_is_built(start: Start, built_elsewhere: ExitStack) -> None:  # noqa: F811
    kernel = start()
    panel = Panel(kernel)
    kernel.send("comm_msg", {"comm_id": "panel-1", "data": {"request": 900, "do": "look"}})
    progress = panel.until(lambda m: m.get("progress", {}).get("step") == 3)["progress"]
    assert progress["state"] == "running" and progress["steps"] == 5 and 0.4 < progress["fraction"] < 0.6
    panel.ask("seen", notice=progress["id"])
    late = Panel(kernel, "panel-2")
    assert late.until(lambda m: "progress" in m)["progress"]["id"] == progress["id"]
    cell = kernel.start("1 + 1")
    built_elsewhere.close()
    done = kernel.finish(cell)
    assert done.kinds == ["execute_result"], "the person saw the progress elsewhere"
    end = panel.until(lambda m: m.get("progress", {}).get("state") != "running" and "progress" in m)
    assert end["progress"]["state"] == "ready"
    assert panel.until(lambda m: m.get("answer") == 900)["result"] == {}


# ---- ends of different versions


@pytest.mark.parametrize("theirs", [VERSION + 1, VERSION - 1, None, "new", [1]])
def test_a_panel_of_another_version_is_greeted_and_no_more(kernel: Kernel, theirs: object) -> None:
    """The notebook goes on; what the panel asks is answered with what to do."""
    comm = f"other {theirs}"
    other = Panel(kernel, comm, version=theirs)
    assert other.until(lambda m: "hello" in m)["hello"]["version"] == VERSION
    same = Panel(kernel, f"same {theirs}")
    kernel.ok("x = 1")
    same.state(lambda s: bool(s["rows"]))
    error = other.ask("undo")["error"]
    assert "reload the page" in error and f"version {VERSION} " in error
    assert [list(said) for said in other.said] == [["hello"], ["answer", "error"]]
    assert kernel.ok("print(x)").stdout == "1\n"
