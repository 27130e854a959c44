"""The space that snapshots take, kept in bounds while a kernel runs: by the administrator's rules, and by collecting.

A checkpoint that went leaves its chunks behind until somebody collects them. That is done whenever about as much was
added as a session's checkpoints may take, so that garbage never takes more than they do.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from wasm_kernel.errors import WasmKernelError

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel

_PATIENCE = 2.0  # seconds, for those who take a snapshot
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
        self._counted = ""  # the last snapshot whose bytes are counted
        self._added = 0  # bytes since the last collection
        self._short = False  # the person was told
        self._later: asyncio.TimerHandle | None = None

    def after_cell(self) -> None:
        """A cell left a checkpoint, or will soon."""
        self._count()
        if self._later is not None:
            self._later.cancel()
        self._later = self._kernel.loop.call_later(_SOON, self._count)

    def _count(self) -> None:
        last = self._kernel.live.recorder.last
        if last is not None and last.snapshot_id != self._counted:
            self._counted = last.snapshot_id
            self._added += last.stored_bytes
        self.look()

    def look(self) -> None:
        """Begin what has to be done, if anything."""
        full = self._added > self._kernel.checkpoint_bytes
        if (full or self._kernel.home.rules.bounds_snapshots) and not self._working.locked():
            self._kernel.loop.run_in_executor(None, self._work, full)

    def _work(self, full: bool) -> None:
        from wasm_kernel.sessions.snapshots import collect_snapshots, make_room

        root = self._kernel.home.root
        with self._working:
            try:
                if full:
                    collect_snapshots(root, wait=_PATIENCE)
                    self._added = 0
                enough = make_room(root)
            except (WasmKernelError, OSError) as e:  # somebody takes one: after the next cell
                self._kernel.log.info("no room was made for snapshots: %s", e)
                return
        if not enough and not self._short:
            self._kernel.home.notes.append(_SHORT)
        self._short = not enough
