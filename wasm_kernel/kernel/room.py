"""The space that snapshots take, kept within the administrator's rules while a kernel runs."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from wasm_kernel.errors import WasmKernelError

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel

_SOON = 1.0  # seconds until a checkpoint is written, most often
_SHORT = (
    "Snapshots you took, and the last one of each session, use most of what the administrator allows; soon cells "
    "cannot be undone, nor gone on with later. Delete some: old sessions with %prune, or, in a terminal, "
    "`wasm-kernel snapshots prune --max-per-session 1`"
)


class SnapshotRoom:
    """Looks after the snapshots of a kernel's workspace root. Its work is done on a thread, a piece at a time."""

    def __init__(self, kernel: WasmKernel) -> None:
        self._kernel = kernel
        self._working = threading.Lock()
        self._short = False  # the person was told
        self._later: asyncio.TimerHandle | None = None

    def after_cell(self) -> None:
        """A cell left a checkpoint, or will soon."""
        self.look()
        if self._later is not None:
            self._later.cancel()
        self._later = self._kernel.loop.call_later(_SOON, self.look)

    def look(self) -> None:
        """Begin what has to be done, if anything."""
        if self._kernel.home.rules.bounds_snapshots and not self._working.locked():
            self._kernel.loop.run_in_executor(None, self._work)

    def _work(self) -> None:
        from wasm_kernel.sessions.snapshots import make_room

        with self._working:
            try:
                enough = make_room(self._kernel.home.root)
            except (WasmKernelError, OSError) as e:  # somebody takes one: after the next cell
                self._kernel.log.info("no room was made for snapshots: %s", e)
                return
        if not enough and not self._short:
            self._kernel.home.notes.append(_SHORT)
        self._short = not enough
