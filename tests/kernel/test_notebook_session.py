"""What a person is told when a notebook is opened again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from wasm_kernel.kernel.input_history import History
from wasm_kernel.kernel.notebook_session import NotebookSession
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions.log import SandboxLogger


def told(folder: Path, *, ran: Iterable[int], restored: int) -> str:
    """After these cells ran unsaved and their kernel was killed, with a snapshot that has those up to a number."""
    history = History(folder / "history.sqlite")
    for number in ran:
        history.add(number, f"x = {number}", runs=True)
    session = NotebookSession(folder, ExecutionPolicy(), SandboxLogger(), folder / "connection.json")
    snapshot = Snapshot("s", "n", "checkpoint", datetime.now(UTC), metadata={"number": restored})
    session.tell_of_return(snapshot, history, older_image=False)
    history.close()
    (announcement,) = session.announcements.take_for_cell()
    assert announcement.values["cells"] == [n for n in ran if n > restored]
    return announcement.full_text


@pytest.mark.parametrize(
    ("ran", "restored", "says"),
    [
        (range(3, 6), 5, "Continued from"),  # in the log, and noted nowhere else
        (range(3, 6), 4, "Everything before that cell is restored; what it did is lost"),
        (range(3, 6), 3, "Everything before cell [4] is restored; what cells [4] to [5] did"),
        (range(3, 6), 2, "Everything before cell [3] is restored; what cells [3] to [5] did"),
        (range(3, 3), 2, "Continued from"),
        (
            (4, 5, 4),
            3,
            "Everything before cell [4] is restored; what cells [4] to [5] did",
        ),  # two kernels, on a full disk
    ],
)
def test_cells_that_are_lost_are_named(tmp_path: Path, ran: Iterable[int], restored: int, says: str) -> None:
    assert says in told(tmp_path, ran=ran, restored=restored)


def test_a_number_that_was_given_twice(tmp_path: Path) -> None:
    """After a cell was lost, the next kernel goes on with its number."""
    told(tmp_path, ran=range(3, 6), restored=4)
    assert "before that cell" in told(tmp_path, ran=range(5, 7), restored=5)
