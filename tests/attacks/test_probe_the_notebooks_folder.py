"""A guest that wants to know which files lie beside the notebook, by what a missing file leads to.

The person is told that a file which a cell missed is there. The front end hands outputs to the guest if an Output
widget captures them; here the test is that front end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Cell, Kernel

pytestmark = pytest.mark.filterwarnings("ignore")
REPOSITORY = Path(__file__).parents[2]
THERE, ABSENT = "salaries.csv", "holidays.csv"
_SWITCHES = """
import os
if os.environ.get("TEST_GUARDS_OFF"):
    from wasm_kernel.kernel import captured_outputs
    captured_outputs.CapturedOutputs.for_guest = lambda self, action, content: content
"""
_WIDGET = (
    "import ipywidgets as w\nout, told = w.Output(), []\n"
    "out.comm.on_msg(lambda message: told.append(message['content']['data']))\nprint(out.model_id)"
)


@contextmanager
def kernel(folder: Path, guards_off: str = "") -> Iterator[Kernel]:
    beside, switches = folder / "beside", folder / "switches"
    for path in (beside, switches):
        path.mkdir()
    (switches / "sitecustomize.py").write_text(_SWITCHES)
    (beside / THERE).write_text("secret")
    env = {"PYTHONPATH": f"{switches}:{REPOSITORY}", "TEST_GUARDS_OFF": guards_off}
    running = Kernel(folder / "sessions", cwd=beside, **env)
    try:
        yield running
    finally:
        running.stop()


def outputs_of(cell: Cell) -> list[dict[str, Any]]:
    """What the cell shows, as a notebook stores it."""
    return [{"output_type": m["msg_type"], **m["content"]} for m in cell.outputs if m["msg_type"] != "stream"]


def one_by_one(shown: list[Any]) -> list[list[Any]]:
    """A front end that tells of each output as it comes."""
    return [shown[: n + 1] for n in range(len(shown))]


def all_at_once(shown: list[Any]) -> list[list[Any]]:
    """One that was busy, and tells of the last state only."""
    return [shown]


def learned(kernel: Kernel, name: str, tells: Callable[[list[Any]], list[list[Any]]]) -> str:
    """What the guest knows after it has missed a file and an Output widget of its has captured the outcome."""
    comm = kernel.ok(_WIDGET).stdout.strip()
    cell = kernel.run(f"open({name!r})")
    for outputs in tells(outputs_of(cell)):
        kernel.comm(comm, {"method": "update", "state": {"outputs": outputs}, "buffer_paths": []})
    seen = kernel.ok("print(len(told), told, len(out.outputs))\nimport sys; print(sys.last_value.args)").stdout
    return seen.replace(name, "NAME").replace(comm, "COMM")


def by_line(text: str) -> str:
    """Without line numbers and the cell's number, which differ anyway."""
    return "".join(c for c in text if not c.isdigit())


@pytest.mark.parametrize("tells", [one_by_one, all_at_once])
def test_it_learns_nothing(tmp_path: Path, tells: Callable[[list[Any]], list[list[Any]]]) -> None:
    with kernel(tmp_path) as running:
        there, absent = learned(running, THERE, tells), learned(running, ABSENT, tells)
        assert there[:1] == absent[:1] == "1"
        assert by_line(there) == by_line(absent)
        assert "beside" not in there


@pytest.mark.parametrize("tells", [one_by_one, all_at_once])
def test_it_would_without_the_guard(tmp_path: Path, tells: Callable[[list[Any]], list[list[Any]]]) -> None:
    with kernel(tmp_path, "all") as running:
        assert "beside" in learned(running, THERE, tells)
        assert "beside" not in learned(running, ABSENT, tells)
