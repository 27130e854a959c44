"""The workspace at one moment, for several browsers at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.host.workspace import Survey, survey
from wasm_kernel.kernel.files.listing import Entry, Marks, scan


@dataclass(frozen=True)
class Seen:
    """A folder of the workspace, and how much is in all of it. ``seconds``: how long looking took."""

    entries: list[Entry]
    survey: Survey
    marks: Marks
    seconds: float


def see(root: Path, folder: str, result: Any) -> Seen:
    """Look; ``result`` is the last cell's. Blocks."""
    begun = time.monotonic()
    marks = Marks()
    if result is not None:
        marks = Marks.of(result.files_created, result.files_modified, result.files_deleted)
    entries = scan(root, folder, marks)
    return Seen(entries, survey(root), marks, time.monotonic() - begun)


class Looks:
    """Looks, on a thread. One that began after several browsers wanted it serves them all."""

    def __init__(self) -> None:
        self._last: dict[tuple[Path, str], tuple[float, asyncio.Task[Seen]]] = {}

    async def at(self, root: Path, folder: str, result: Any, since: float) -> Seen:
        """A folder as it was at ``since``, on the loop's clock, or later."""
        begun, look = self._last.get((root, folder), (-1.0, None))
        if look is None or begun < since:
            loop = asyncio.get_running_loop()
            look = loop.create_task(asyncio.to_thread(see, root, folder, result))
            self._last = {key: known for key, known in self._last.items() if not known[1].done()}
            self._last[root, folder] = (loop.time(), look)
        return await asyncio.shield(look)
