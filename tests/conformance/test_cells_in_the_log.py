"""Quick cells are in the log and not in the store yet: undo, redo and diff of each work all the same, in a real kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.client import Kernel
from tests.conformance.test_timeline import shown, table
from wasm_kernel import list_snapshots
from wasm_kernel.host.store.cell_log import LOGS
from wasm_kernel.model.names import STATE_FOLDER

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]
CELLS = 6


def burst(kernel: Kernel) -> None:
    """Cells that follow each other so quickly that none is stored meanwhile."""
    sent = [kernel.start(f"x = {n}; name{n} = [{n}] * {n}") for n in range(1, CELLS + 1)]
    assert all(kernel.reply_to(cell)["content"]["status"] == "ok" for cell in sent)
    logs = list((kernel.root / STATE_FOLDER / LOGS).rglob("*.log"))
    stored = {s.metadata.get("number") for s in list_snapshots(kernel.root)}
    assert logs and CELLS not in stored, "this is about cells that are only logged"


def test_each_of_them_can_be_undone_and_redone(start: Start) -> None:
    kernel = start()
    kernel.ok("x = 0")
    burst(kernel)
    for n in range(CELLS, 2, -1):
        assert f"after cell [{n}]" in shown(kernel.ok("%session undo")), "the first was x = 0"
    for n in range(4, CELLS + 2):
        assert f"after cell [{n}]" in shown(kernel.ok("%session redo"))
    assert kernel.ok(f"print(x, name{CELLS}, 'name1' in globals())").stdout == f"{CELLS} {[CELLS] * CELLS} True\n"


def test_several_at_once_and_what_differs(start: Start) -> None:
    kernel = start()
    kernel.ok("x = 0")
    kernel.ok("%session snapshot before")
    burst(kernel)
    found = table(kernel, "diff before")["variables"]
    assert found["added"] == [f"name{n}" for n in range(1, CELLS + 1)]
    assert found["changed"] == ["x"]
    kernel.ok("%session undo 2")  # the two cells that asked
    burst_again = [kernel.start(f"x = 'again {n}'") for n in range(3)]
    assert all(kernel.reply_to(cell)["content"]["status"] == "ok" for cell in burst_again)
    kernel.ok("%session undo 5")
    assert kernel.ok("print(x, sorted(n for n in globals() if n.startswith('name')))").stdout == (
        f"{CELLS - 2} {[f'name{n}' for n in range(1, CELLS - 1)]}\n"
    )
