"""A clock that is wrong, or steps, for the processes that a test starts."""

from __future__ import annotations

import os
from pathlib import Path


class FakedClock:
    """The wall clock of one machine: give `environment` to a process, and `step` its clock before or while it runs."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a Python process go by this clock."""
        return {"FAKED_CLOCK": str(self._file), "PYTHONPATH": str(Path(__file__).parent / "faked_clock")}

    def step(self, seconds: float) -> None:
        """From now on it is wrong by so much."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        os.replace(new, self._file)
