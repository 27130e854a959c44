"""docs/scale.md shows what `bench.simulation` prints, and the simulation does what it says."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from bench import simulation

REPOSITORY = Path(__file__).parents[1]
DOCUMENT = (REPOSITORY / "docs" / "scale.md").read_text(encoding="utf-8")


def test_the_documents_tables_are_the_programs() -> None:
    for table in simulation.tables():
        assert f"\n{table}\n" in DOCUMENT, "docs/scale.md is not what `python -m bench.simulation` prints"


def test_measured_figures_are_those_of_the_administrators_table() -> None:
    text = (REPOSITORY / "docs" / "administrators.md").read_text(encoding="utf-8")
    shown = [re.search(rf"\| {line}[^|]*\| (\d+) MB", text) for line in ("has run pandas", "has idled")]
    assert [int(found[1]) for found in shown if found] == [simulation.KERNEL_MB, simulation.RELEASED_MB]
    assert f"a JupyterLab server itself needs {simulation.LAB_MB} MB" in text


def test_who_works_more_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean() -> tuple[float, float, float]:
        chance = random.Random(1)
        days = [simulation.simulated_day(chance) for _ in range(100)]
        pushed = sum(day.pushed_mb for day in days)
        return pushed, sum(max(day.memory) for day in days), sum(day.cells for day in days)

    pushed, memory, cells = mean()
    monkeypatch.setattr(simulation, "DATA_MB", 100)
    assert mean()[1] > 1.5 * memory and mean()[2] == cells
    monkeypatch.setattr(simulation, "CELLS_PER_MINUTE", 0.1)
    assert mean()[0] < pushed / 2 and mean()[2] < cells / 5


def test_a_node_that_is_not_filled_says_so() -> None:
    with pytest.raises(ValueError, match="simulate more"):
        simulation.users_of(8, 32, [simulation.simulated_day(random.Random(1))])


def test_a_node_may_lack_either() -> None:
    days = [simulation.simulated_day(random.Random(n)) for n in range(100)]
    assert simulation.users_of(1000, 8, days)[1] == "memory"
    assert simulation.users_of(1, 1000, days)[1] == "cores"
