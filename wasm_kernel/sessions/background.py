"""A guest's asyncio tasks, which continue between cells while they have time left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from wasm_kernel.host.runtime.sandbox import Sandbox

_PAUSE = 0.005  # seconds between two turns, at least


class BackgroundTasks:
    """Decides when a session's guest gets its next turn between cells. On an event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sandbox: Callable[[], Sandbox], turn: Callable[[], Awaitable[None]]
    ) -> None:
        """``sandbox``: returns the current guest. ``turn``: lets it continue, unless it has a request."""
        self._loop, self._sandbox, self._turn = loop, sandbox, turn
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Let tasks continue when they are due and have time left."""
        self.stop()
        sandbox = self._sandbox()
        if sandbox.next_task is not None and not sandbox.closed:
            after = max(sandbox.next_task, sandbox.background_wait, _PAUSE)
            self._timer = self._loop.call_later(after, self._begin)

    def stop(self) -> None:
        """Stop tasks until they are scheduled again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._go_on())  # the loop itself holds tasks only weakly

    async def _go_on(self) -> None:
        await self._turn()
        self.schedule()
