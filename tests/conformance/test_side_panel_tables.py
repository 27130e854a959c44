"""First values and pages of tables over the side panel's comm: at rest, while a cell runs, and from a hostile guest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.client import Kernel
from tests.conformance.panel import Panel
from wasm_kernel.kernel.side_panel.panel_protocol import PAGE_ROWS

pytestmark = pytest.mark.filterwarnings("ignore")
Message = dict[str, Any]


@pytest.fixture
def fresh(start: Callable[..., Kernel]) -> Kernel:
    """A kernel in which nothing has run."""
    return start()


def test_first_values_and_pages(fresh: Kernel) -> None:
    panel = Panel(fresh)
    fresh.ok("import pandas as pd\nf = pd.DataFrame({'n': range(1000)})\nx = [1, 2]")
    values = panel.ask("values")["result"]["values"]
    assert values["x"]["first"] == "[1, 2]"
    assert values["f"] | {"bytes": 0} == {"shape": [1000, 1], "bytes": 0, "first": "n: 0, 1, 2, …", "opens": True}

    page = panel.ask("page", name="f", row=PAGE_ROWS)["result"]
    assert (page["rows"], page["row"], len(page["cells"][0])) == (1000, PAGE_ROWS, PAGE_ROWS)
    assert page["cells"][0][0] == str(PAGE_ROWS)
    assert panel.ask("page", name="nothing")["result"] == {"problem": "gone"}
    assert panel.ask("page", name="pd")["result"] == {"problem": "no table"}
    assert "-1" in panel.ask("page", name="f", row=-1)["error"]


def test_the_state_says_when_to_look_again(fresh: Kernel) -> None:
    panel = Panel(fresh)
    fresh.ok("x = [0] * 100_000")
    before = panel.state(lambda s: bool(s["variables"]))["moment"]
    fresh.ok("x[5] = 1")  # between what the report of a cell looks at
    after = panel.state(lambda s: s["moment"] != before)["moment"]
    assert panel.ask("page", name="x")["result"]["cells"][0][5] == "1"
    panel.ask("undo")
    panel.state(lambda s: s["moment"] not in (before, after))
    assert panel.ask("page", name="x")["result"]["cells"][0][5] == "0"


def test_while_a_cell_runs_it_is_busy(fresh: Kernel) -> None:
    panel = Panel(fresh)
    fresh.ok("x = [1]")
    running = fresh.start("import time\nfor _ in range(600): time.sleep(0.1)")
    fresh.wait_for("execute_input")
    assert panel.ask("page", name="x")["busy"] is True
    assert panel.ask("values")["busy"] is True
    fresh.manager.interrupt_kernel()
    fresh.finish(running)
    assert panel.ask("page", name="x")["result"]["cells"] == [["1"]]


def test_a_look_leaves_nothing_behind(fresh: Kernel) -> None:
    """No output, no variable, no cell in the timeline; and the next cell has its number."""
    panel = Panel(fresh)
    fresh.ok("import pandas as pd\nf = pd.DataFrame({'n': [1]})")
    names = fresh.ok("print(sorted(globals()))").stdout
    panel.ask("values")
    panel.ask("page", name="f")
    cell = fresh.ok("print(sorted(globals()))")
    assert cell.stdout.replace("'_i3', ", "") == names
    assert cell.reply["execution_count"] == 3


HOSTILE = (
    "from wasm_guest import driver\n"
    "def evil(request, buffers): {does}\n"
    "driver._REQUESTS['page'] = driver._REQUESTS['first_values'] = evil"
)


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("return {'status': 'ok', 'values': 'x' * 3_000_000, 'rows': 10**30, 'columns': -1}", "without a size"),
        ("return {'status': 'ok', 'rows': 10**9, 'columns': 10**9, 'cells': [[1]]}", "does not fit together"),
        ("return {'status': 'ok', 'rows': 1, 'columns': 1, 'labels': [['x' * 10**7]]}", "without a size"),
        ("raise KeyboardInterrupt", "in the way"),
        ("import os; os._exit(3)", "in the way"),
    ],
)
def test_a_hostile_guest_gets_an_error_shown_and_no_more(fresh: Kernel, does: str, said: str) -> None:
    panel = Panel(fresh)
    fresh.ok(HOSTILE.format(does=does))
    assert said in panel.ask("page", name="x")["error"]
    values = panel.ask("values")
    assert values.get("result", {"values": {}}) == {"values": {}}
    assert "result" in panel.ask("look")
    assert fresh.ok("1 + 1").result == "2"


def test_a_guest_that_does_not_answer_is_stopped(fresh: Kernel) -> None:
    """After the ten seconds that a small question has; others are answered meanwhile, and cells run afterwards."""
    panel = Panel(fresh)
    fresh.ok("%session limits timeout=1")
    fresh.ok(HOSTILE.format(does="\n    while True: pass"))
    assert "in the way" in panel.ask("page", name="x")["error"]
    assert fresh.ok("1 + 1").result == "2"
