"""What the host itself says in a cell, beside what the guest shows there: news, warnings, hints, why a cell waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from wasm_kernel.kernel import render
from wasm_kernel.kernel.cell_run import CellRun
from wasm_kernel.kernel.current_session import CurrentSession
from wasm_kernel.kernel.magics.grants import forbidden
from wasm_kernel.model.outcome import GuestError

Message = dict[str, Any]
_UNNOTICED = 1.0  # seconds that nobody asks about
_STORING = "wasm-kernel: storing what the last cell changed, for undo and recovery; then this cell runs"
_FILES = "wasm-kernel: this cell changes files; it waits until they are stored as the last cell left them, for undo"


class HostRemarks:
    """Remarks in the cells of a kernel."""

    def __init__(self, publish: Callable[..., None], current: CurrentSession) -> None:
        self._publish, self._current = publish, current
        self._waits: Any = None  # the line in a cell that waits for its files

    def tell_notes(self, run: CellRun) -> None:
        """Show what the person should know and no side panel has told: good news quietly, warnings as such."""
        if run.silent:
            return
        told = self._current.place.announcements.take_for_cell()
        for announcement in sorted(told, key=lambda a: not a.good):
            if announcement.good:
                self._publish(run.parent, "display_data", render.aside(announcement.full_text))
            else:
                text = f"[wasm-kernel] {announcement.full_text}\n"
                self._publish(run.parent, "stream", {"name": "stderr", "text": text})

    async def explain(self, run: CellRun, error: GuestError | None) -> None:
        """A cell has failed: add what only the host can know about it."""
        if error is None or error.name != "FileNotFoundError" or run.silent or forbidden("add"):
            return
        from wasm_kernel.kernel import missing_file

        found = await asyncio.to_thread(missing_file.told, self._current.place.folder, error)
        if found is not None:
            self._publish(run.parent, "display_data", found)

    @contextlib.contextmanager
    def while_storing(self, next_cell: Callable[[], Message | None]) -> Iterator[None]:
        """Around what cells have to wait for: the first one that does so says why, if it takes long."""
        from wasm_kernel.kernel.magics.answers import ProgressLine

        loop, shown = asyncio.get_running_loop(), list[ProgressLine]()
        later: asyncio.TimerHandle

        def look() -> None:
            nonlocal later
            parent = next_cell()
            if parent is None:
                later = loop.call_later(_UNNOTICED / 4, look)
                return
            shown.append(ProgressLine(self._publish, parent, silent=False))
            shown[0].tell(_STORING)

        later = loop.call_later(_UNNOTICED, look)
        try:
            yield
        finally:
            later.cancel()
            for line in shown:
                line.clear()

    def waits_for_files(self, run: CellRun | None, waits: bool) -> None:
        """The running cell waits before it changes a file, or does so no longer. On the sandbox's thread."""
        from wasm_kernel.kernel.magics.answers import ProgressLine

        if waits and run is not None:
            self._waits = ProgressLine(self._publish, run.parent, silent=run.silent)
            self._waits.tell(_FILES)
        elif self._waits is not None:
            self._waits.clear()
            self._waits = None
