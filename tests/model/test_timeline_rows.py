"""Rows of a timeline: which snapshots have one, where the session is, and metadata from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.timeline_rows import Changes, row_of, timeline_rows

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


def test_metadata_that_does_not_fit_is_left_out() -> None:
    row = row_of(
        {"number": "7", "cell": 5, "seconds": "long", "variables": {"added": ["a" * 999, 3], "removed": 1}}, NOW
    )
    assert (row.number, row.code, row.seconds, row.ok) == (None, "5", None, True)
    assert row.variables == Changes(added=("a" * 200,))
