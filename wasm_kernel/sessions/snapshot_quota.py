"""Keeps snapshots within the administrator's rules while a session runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from wasm_kernel.errors import NotAllowed, WasmKernelError
from wasm_kernel.host import administrator
from wasm_kernel.sessions.session import LiveSession

_SOON = 1.0  # seconds until a checkpoint is usually written


class SnapshotQuota:
    """Makes room for snapshots below a workspace root, on a thread, one run at a time."""

    def __init__(
        self,
        live: Callable[[], LiveSession],
        loop: asyncio.AbstractEventLoop,
        log: logging.Logger,
        on_short: Callable[[], None],
    ) -> None:
        """``live``: the session that runs. ``on_short``: called once, on a thread, when not enough can be deleted."""
        self._live, self._loop, self._log, self._on_short = live, loop, log, on_short
        self._working = threading.Lock()
        self._short = False
        self._later: asyncio.TimerHandle | None = None

    def after_checkpoint(self) -> None:
        """A snapshot was added, or soon will be."""
        self.look()
        if self._later is not None:
            self._later.cancel()
        self._later = self._loop.call_later(_SOON, self.look)

    def look(self) -> None:
        """Start making room, if needed."""
        if self._is_bounded() and not self._working.locked():
            self._loop.run_in_executor(None, self._work)

    def _is_bounded(self) -> bool:
        try:
            return administrator.rules().bounds_snapshots
        except NotAllowed:  # nothing will run
            return False

    def _work(self) -> None:
        from wasm_kernel.sessions.snapshots import make_room

        live = self._live()
        with self._working:
            try:
                enough = make_room(live.root, own=live.session_id)
            except (WasmKernelError, OSError) as e:  # a snapshot is being taken: try again after the next cell
                self._log.info("could not make room for snapshots: %s", e)
                return
        if not enough and not self._short:
            self._on_short()
        self._short = not enough
