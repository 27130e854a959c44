"""What is remembered of a session's cells when their checkpoints are gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel.kernel.input_history import History


def metadata(number: int, **more: Any) -> dict[str, Any]:
    changes = {"added": [f"v{number}"], "changed": [], "removed": []}
    return {"seconds": number / 8, "ok": number != 3, "variables": changes, "files": {}, **more}


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Of six cells that ran; the fifth is a magic of the host's, and the sixth was killed."""
    found = History(tmp_path / "history.sqlite")
    for number in range(1, 7):
        row = found.add(number, f"x = {number}", runs=number != 5)
        if number < 5:
            found.finished(row, metadata(number))
    return found


def test_cells_that_are_not_kept_newest_first(history: History) -> None:
    kept = [(4, 0.5), (0, None)]
    assert history.count_older(kept) == 3
    rows = history.older(kept, 0, 10)
    assert [(row.number, row.code, row.ok, row.seconds) for row in rows] == [
        (3, "x = 3", False, 0.375),
        (2, "x = 2", True, 0.25),
        (1, "x = 1", True, 0.125),
    ]
    assert rows[0].variables.added == ("v3",)
    assert all(row.snapshot_id == "" and row.state == "past" for row in rows)
    assert [row.number for row in history.older(kept, 1, 1)] == [2]
    assert history.older(kept, 3, 10) == []


def test_that_one_was_undone_stays_known(history: History) -> None:
    history.mark_undone([(2, 0.25), (3, 0.375)], [(1, 0.125)])
    history.mark_undone([(2, 0.25)], [(3, 0.375)])  # redone
    assert [row.state for row in history.older([], 0, 10)] == ["past", "past", "undone", "past"]


def test_a_number_that_two_cells_have(history: History) -> None:
    """After an undo the next cell has the number of the one that was undone."""
    history.finished(history.add(4, "x = 44", runs=True), metadata(4, seconds=0.75))
    assert [row.code for row in history.older([(4, 0.75)], 0, 1)] == ["x = 4"]


def test_a_database_of_an_earlier_version(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "history.sqlite") as old:
        old.execute(
            "CREATE TABLE history (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, line INTEGER NOT NULL,"
            " source TEXT NOT NULL)"
        )
        old.execute("INSERT INTO history (run, line, source) VALUES (1, 1, 'a')")
    old.close()
    history = History(tmp_path / "history.sqlite")
    history.finished(history.add(2, "b", runs=True), metadata(2))
    assert [row.code for row in history.older([], 0, 10)] == ["b"]
    assert [source for _, _, source in history.answer({"hist_access_type": "tail", "n": 5})] == ["a", "b"]


def test_a_row_that_is_damaged_is_left_out(history: History) -> None:
    database = history._open()
    database.execute("UPDATE history SET details = '[1' WHERE line = 3")
    database.execute("UPDATE history SET ended = 'never' WHERE line = 2")
    assert [row.number for row in history.older([], 0, 10)] == [4, 1]


def test_without_a_disk_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = History(tmp_path / "file" / "history.sqlite")
    history.finished(1, metadata(1))
    assert history.count_older([]) == 0 and history.older([], 0, 5) == []
