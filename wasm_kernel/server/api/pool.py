"""The sandboxes that this server has in memory: opened when needed, released when idle, closed with the server.

Everything runs on the server's event loop but for what blocks (disk, guests), which runs on threads. Rules:

* Whatever changes a sandbox (open, run, save, release, delete) holds its `SandboxSlot.lock`; once begun, a task runs
  without it. So two tasks cannot begin at once, and a task cannot begin while its sandbox is being saved.
* After every task a checkpoint is written, which replaces the one before: a server that is killed loses the running
  task and nothing else. The space of replaced checkpoints is freed once they are many or large.
* Between tasks the guest's own asyncio tasks keep running while its sandbox is in memory.
* An open session holds its lock, as a kernel's does, so prunes leave it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.server.api import sandbox_slot
from wasm_kernel.server.api.sandbox_slot import SandboxSlot
from wasm_kernel.server.api.views import Living, Terms
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.catalog import prepared_root
from wasm_kernel.sessions.checkpoints import Collector
from wasm_kernel.sessions.runtime import SessionRuntime

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 8
_TICK = 0.5  # seconds between checks for idle sandboxes
_GRACE = 5.0  # seconds that a task has to end when its sandbox is deleted
_LAST_GRACE = 1.0  # the same when the server stops, which must not take long
# The next checkpoint replaces the one before; those of a notebook's own kernel stay.
_CHECKPOINTS = CheckpointRules(count=1, marks={"api": True})
_COLLECT_EVERY = 50  # snapshots deleted
_COLLECT_BYTES = 64 << 20  # stored since, or held by deleted snapshots
_COLLECT_PATIENCE = 2.0  # seconds; kernels of the same workspace take snapshots too


class Pool:
    """All sandboxes in memory. Created on the event loop, by the first request that needs it."""

    def __init__(
        self,
        root: Path,
        terms: Terms,
        max_live: int,
        log: logging.Logger,
        *,
        startup_code: str = "",
        refused: str = "",
    ) -> None:
        """``refused``: why nothing may run here."""
        self.root, self.terms, self.max_live, self.log = prepared_root(root), terms, max_live, log
        self.collector = Collector(self.root, _COLLECT_EVERY, _COLLECT_BYTES, log, patience=_COLLECT_PATIENCE)
        self._startup_code = startup_code
        self.loop = asyncio.get_running_loop()
        self.held: dict[str, SandboxSlot] = {}
        self.on_activity: Callable[[], None] = lambda: None  # called while a task runs: the server is not idle
        self._refused = refused
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wasm-kernel-api")
        self._opening = 0
        self._making_room = asyncio.Lock()
        self._closing = False
        self._housekeeper = self.loop.create_task(self._keep_house())

    async def in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run blocking work on a thread."""
        return await self.loop.run_in_executor(self._threads, functools.partial(work, *args, **kwargs))

    @property
    def live_count(self) -> int:
        """How many are in memory."""
        return sum(held.runtime is not None for held in self.held.values())

    def living(self) -> dict[str, Living]:
        """What is shown of those in memory."""
        return {name: living for name, held in self.held.items() if (living := held.living()) is not None}

    @contextlib.asynccontextmanager
    async def using(self, session_id: str) -> AsyncIterator[SandboxSlot]:
        """A sandbox that nobody else changes meanwhile."""
        held = self.held.setdefault(session_id, SandboxSlot(session_id))
        held.users += 1
        try:
            async with held.lock:
                yield held
        finally:
            held.users -= 1

    # ---- opening

    async def open(self, held: SandboxSlot, *, fresh: bool = False) -> None:
        """Load a sandbox into memory as it was left. Called with its lock held."""
        if held.runtime is None:
            async with self.room():
                await self.open_in_room(held, fresh=fresh)

    async def open_in_room(self, held: SandboxSlot, *, fresh: bool = False) -> None:
        """The same, where there is room or the limit does not matter."""
        opened, idle_timeout = await self.in_thread(
            sandbox_slot.open_session, self.root, held.session_id, self.terms, fresh=fresh
        )
        runtime = SessionRuntime(
            opened,
            _CHECKPOINTS,
            startup_code=self._startup_code,
            logger=sandbox_slot.LOGGER,
            log=self.log,
            collector=self.collector,
        )
        held.now_has(runtime, idle_timeout)

    @contextlib.asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Make room for one more; the one that has been idle longest is released for it."""
        if self._refused or self._closing:
            raise Problem(503, self._refused or "the server is stopping")
        async with self._making_room:
            while self.live_count + self._opening >= self.max_live:
                idle = [held for held in self.held.values() if self._may_go(held)]
                if not idle or not await self._release(min(idle, key=lambda held: held.used)):
                    raise Problem(
                        429,
                        f"this server holds at most {self.max_live} sandboxes, and all are busy or never released; "
                        "wait for a task, mark one idle, or delete one",
                        headers={"Retry-After": "5"},
                    )
            self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    # ---- letting go

    def _may_go(self, held: SandboxSlot) -> bool:
        rests = held.runtime is not None and held.state != "busy"
        return rests and held.idle_timeout > 0 and not held.users and not held.leaving

    async def _release(self, held: SandboxSlot) -> bool:
        """Release a sandbox's memory; return whether that was possible."""
        async with self.using(held.session_id):
            runtime = held.runtime
            if runtime is None or held.state == "busy" or held.leaving:
                return False
            async with runtime.guest:
                saved = await runtime.save()
            if not saved:
                held.used = time.monotonic()  # the disk is full: it stays in memory until the next try
                return False
            await self._close(held)
            return True

    async def _close(self, held: SandboxSlot, *, take: bool = False) -> None:
        """Close a sandbox; ``take``: with a last snapshot, if anything happened in it."""
        runtime, held.runtime = held.runtime, None
        if runtime is not None:
            runtime.background.stop()
            await self.in_thread(_close, runtime, take)

    async def _keep_house(self) -> None:
        """Release idle sandboxes, forget unneeded ones, and say that the server is in use while tasks run."""
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for held in list(self.held.values()):
                if self._may_go(held) and now - held.used >= held.idle_timeout:
                    try:
                        await self._release(held)
                    except Exception:
                        self.log.exception("wasm_kernel: sandbox %s could not be released", held.session_id)
                if held.runtime is None and not held.tasks and not held.users:
                    del self.held[held.session_id]
            if any(held.task is not None for held in self.held.values()):
                self.on_activity()

    async def stop_task(self, held: SandboxSlot, grace: float = _GRACE) -> None:
        """Stop the running task by an interrupt, or by force: then the sandbox is closed, as it was before the task."""
        task, runtime = held.task, held.runtime
        if task is None or runtime is None:
            return
        runtime.sandbox.interrupt()
        if not await task.wait(grace):
            await self._close(held)
            await task.wait(_GRACE)

    async def close(self) -> None:
        """The server stops: save and close them all."""
        self._closing = True
        self._housekeeper.cancel()
        await asyncio.gather(*(self._leave(held) for held in list(self.held.values())))
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _leave(self, held: SandboxSlot) -> None:
        held.leaving = True
        await self.stop_task(held, _LAST_GRACE)
        async with held.lock:
            await self._close(held, take=True)


def _close(runtime: SessionRuntime, take: bool) -> None:
    runtime.close(take=take)
    runtime.live.close()
