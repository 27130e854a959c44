"""Reads the workspace once for several browsers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.host.files.quota import Quota
from wasm_kernel.kernel.files.listing import Entry, Marks, scan


@dataclass(frozen=True)
class Seen:
    """A folder of the workspace, and the total usage. ``seconds``: how long reading took."""

    entries: list[Entry]
    quota: Quota
    marks: Marks
    seconds: float


def see(root: Path, folder: str, result: Any, measure: Callable[[], Quota]) -> Seen:
    """Read a folder; ``result`` is the last cell's. Blocks."""
    begun = time.monotonic()
    marks = Marks()
    if result is not None:
        marks = Marks.of(result.files_created, result.files_modified, result.files_deleted)
    entries = scan(root, folder, marks)
    return Seen(entries, measure(), marks, time.monotonic() - begun)


class Looks:
    """Reads folders on a thread. One read serves all browsers that asked before it began."""

    def __init__(self) -> None:
        self._last: dict[tuple[Path, str], tuple[float, asyncio.Task[Seen]]] = {}

    async def at(self, root: Path, folder: str, result: Any, since: float, measure: Callable[[], Quota]) -> Seen:
        """A folder as it was at ``since``, on the loop's clock, or later."""
        begun, look = self._last.get((root, folder), (-1.0, None))
        if look is None or begun < since:
            loop = asyncio.get_running_loop()
            look = loop.create_task(asyncio.to_thread(see, root, folder, result, measure))
            self._last = {key: known for key, known in self._last.items() if not known[1].done()}
            self._last[root, folder] = (loop.time(), look)
        return await asyncio.shield(look)
