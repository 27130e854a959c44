"""Rows of a timeline: which snapshots have one, where the session is, and metadata from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.timeline_rows import Changes, can_undo, row_of, timeline_rows, with_waiting

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def snapshot(name: str, parent: str = "", **metadata: Any) -> Snapshot:
    return Snapshot(name, "session", "checkpoint", NOW, parent=parent, metadata=metadata)


def test_a_state_that_was_stored_again_has_no_row_of_its_own() -> None:
    first = snapshot("1", number=1, cell="x = 1")
    second = snapshot("2", "1", number=2, cell="x = 2")
    back = snapshot("3", "1", restored="1")
    rows = timeline_rows([back, second, first], {"3", "1"}, back)
    assert [(row.snapshot_id, row.state) for row in rows] == [("2", "undone"), ("1", "now")]


def test_a_named_moment_has_a_row() -> None:
    named = Snapshot("1", "session", "user", NOW, label="before the merge")
    (row,) = timeline_rows([named], {"1"}, named)
    assert (row.label, row.number, row.state) == ("before the merge", None, "now")


def test_the_first_cell_of_a_fork_can_be_undone() -> None:
    fork = Snapshot("f", "session", "user", NOW, label="forked from 1")
    cell = snapshot("2", "f", number=2, cell="x = 2")
    assert not can_undo(timeline_rows([fork], {"f"}, fork))
    assert can_undo(timeline_rows([cell, fork], {"2", "f"}, cell))
    assert not can_undo(timeline_rows([cell, fork], {"f"}, fork))


def test_metadata_that_does_not_fit_is_left_out() -> None:
    row = row_of(
        {"number": "7", "cell": 5, "seconds": "long", "variables": {"added": ["a" * 999, 3], "removed": 1}}, NOW
    )
    assert (row.number, row.code, row.seconds, row.ok) == (None, "5", None, True)
    assert row.variables == Changes(added=("a" * 200,))


def test_one_that_is_just_being_stored_has_one_row() -> None:
    start, first, second = (snapshot(f"s{n}", number=n, cell=f"x = {n}", seconds=n + 0.5) for n in range(3))
    waiting = [row_of(s.metadata, s.created_at) for s in (second, first)]

    def shown(known: list[Snapshot], behind: list[Snapshot]) -> list[tuple[int | None, str, str]]:
        rows = timeline_rows(known, (s.snapshot_id for s in behind), behind[0])
        return [(row.number, row.snapshot_id, row.state) for row in with_waiting(rows, waiting)]

    before = [(2, "", "now"), (1, "", "past"), (0, "s0", "past")]
    assert shown([start], [start]) == before
    assert shown([first, start], [start]) == before  # it is on the disk, but the session is not known to be there
    assert shown([first, start], [first, start]) == [(2, "", "now"), (1, "s1", "past"), (0, "s0", "past")]
    assert shown([second, first, start], [second, first, start]) == [
        (2, "s2", "now"),
        (1, "s1", "past"),
        (0, "s0", "past"),
    ]
