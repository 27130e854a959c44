"""The sandboxes that this server has in memory: opened when needed, released when idle, closed with the server.

Everything runs on the server's event loop but for what blocks (disk, guests), which runs on threads. Rules:

* Whatever changes a sandbox (open, run, save, release, delete) holds its `Held.lock`; a task that was begun runs on
  without it. So two tasks cannot begin at once, and a task cannot begin while its sandbox is being saved.
* After every task a checkpoint is written, which replaces the one before: a server that is killed loses the task that
  ran, and nothing else. A release therefore only has to close. What replaced ones stored is given back when that may
  be much, by number or by bytes. Whoever saved then waits for it: so it gets its turn, however many are busy.
* A session that this server has open holds the session's lock, as a kernel's does: prunes leave it alone.
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
from typing import Any, ParamSpec, TypeVar

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.server import api_held
from wasm_kernel.server.api_held import OURS, Held
from wasm_kernel.server.api_views import Living, Terms
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.catalog import prepared_root
from wasm_kernel.sessions.snapshots import collect_snapshots

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 8
_TICK = 0.5  # seconds between looks at who is idle
_GRACE = 5.0  # seconds that a task has to end when its sandbox is deleted
_LAST_GRACE = 1.0  # the same when the server stops: whoever stops it does not wait long
_COLLECT_EVERY = 50  # snapshots that went
_COLLECT_BYTES = 64 << 20  # that were stored, or went with a snapshot that was deleted
_COLLECT_PATIENCE = 2.0  # seconds; kernels of the same workspace take snapshots, too


class Pool:
    """All of them. Made on the event loop, with the first request that needs it."""

    def __init__(self, root: Path, terms: Terms, max_live: int, log: logging.Logger, refused: str = "") -> None:
        self.root, self.terms, self.max_live, self.log = prepared_root(root), terms, max_live, log
        self.loop = asyncio.get_running_loop()
        self.held: dict[str, Held] = {}
        self.on_activity: Callable[[], None] = lambda: None  # a task runs: whoever looks for idle servers should know
        self._refused = refused
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wasm-kernel-api")
        self._opening = 0
        self._making_room = asyncio.Lock()
        self._gone = self._gone_bytes = 0  # snapshots, since space was given back; and at most so much is to be had
        self._giving_back = asyncio.Lock()
        self._closing = False
        self._housekeeper = self.loop.create_task(self._keep_house())

    async def in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do what blocks."""
        return await self.loop.run_in_executor(self._threads, functools.partial(work, *args, **kwargs))

    @property
    def live_count(self) -> int:
        """How many are in memory."""
        return sum(held.live is not None for held in self.held.values())

    def living(self) -> dict[str, Living]:
        """What is shown of those in memory."""
        return {name: living for name, held in self.held.items() if (living := held.living()) is not None}

    @contextlib.asynccontextmanager
    async def using(self, session_id: str) -> AsyncIterator[Held]:
        """A sandbox that nobody else changes meanwhile."""
        held = self.held.setdefault(session_id, Held(session_id))
        held.users += 1
        try:
            async with held.lock:
                yield held
        finally:
            held.users -= 1

    # ---- opening

    async def open(self, held: Held, *, fresh: bool = False) -> None:
        """Bring a sandbox to memory, with what it was left with. Called with its lock held."""
        if held.live is None:
            async with self.room():
                await self.open_in_room(held, fresh=fresh)

    async def open_in_room(self, held: Held, *, fresh: bool = False) -> None:
        """The same where there is room, or where it does not matter."""
        held.now_has(await self.in_thread(api_held.open_session, self.root, held.session_id, self.terms, fresh=fresh))

    @contextlib.asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Room for one more; the one that has been idle longest goes for it."""
        if self._refused or self._closing:
            raise Problem(503, self._refused or "the server stops")
        async with self._making_room:
            while self.live_count + self._opening >= self.max_live:
                idle = [held for held in self.held.values() if self._may_go(held)]
                if not idle or not await self._release(min(idle, key=lambda held: held.used)):
                    raise Problem(
                        429,
                        f"this server holds {self.max_live} sandboxes at most, and as many are busy or never to be "
                        "released; wait for a task, mark one idle, or delete one",
                        headers={"Retry-After": "5"},
                    )
            self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    # ---- saving

    async def save(self, held: Held, trigger: str, label: str = "", metadata: dict[str, Any] | None = None) -> Snapshot:
        """Take a snapshot. Called with the sandbox's lock held, while no task runs."""
        snapshot, replaced = await self.in_thread(api_held.save, held, trigger, label, metadata or {})
        held.unsaved = False
        # What a snapshot adds is what is left behind when another replaces it.
        await self.snapshots_went(int(replaced), snapshot.stored_bytes)
        return snapshot

    async def checkpoint(self, held: Held) -> bool:
        """Write what the next opening goes on from; whether that worked."""
        try:
            await self.save(held, "checkpoint", metadata=OURS)
        except (WasmKernelError, OSError) as e:
            self.log.warning("wasm_kernel: sandbox %s could not be saved: %s", held.session_id, e)
            return False
        return True

    async def snapshots_went(self, count: int, size: int) -> None:
        """Give space back if it may be much by now: looking for it takes a while."""
        self._gone, self._gone_bytes = self._gone + count, self._gone_bytes + size
        if not self._has_much_to_give_back:
            return
        async with self._giving_back:
            if self._has_much_to_give_back:  # nobody did it meanwhile
                await self.in_thread(self._give_back)

    @property
    def _has_much_to_give_back(self) -> bool:
        return self._gone >= _COLLECT_EVERY or self._gone_bytes >= _COLLECT_BYTES

    def _give_back(self) -> None:
        """Collect what no snapshot refers to. If that is not possible, it is tried again with the next."""
        try:
            collect_snapshots(self.root, wait=_COLLECT_PATIENCE)
            self._gone = self._gone_bytes = 0
        except (WasmKernelError, OSError) as e:
            self.log.info("wasm_kernel: the space of snapshots that went is not given back yet: %s", e)

    # ---- letting go

    def _may_go(self, held: Held) -> bool:
        rests = held.live is not None and held.state != "busy"
        return rests and held.idle_timeout > 0 and not held.users and not held.leaving

    async def _release(self, held: Held) -> bool:
        """Give a sandbox's memory back; whether that was possible."""
        async with self.using(held.session_id):
            if held.live is None or held.state == "busy" or held.leaving:
                return False
            if held.unsaved and not await self.checkpoint(held):
                held.used = time.monotonic()  # no room on the disk: its memory stays, until the next time
                return False
            await self._close(held)
            return True

    async def _close(self, held: Held) -> None:
        live, held.live = held.live, None
        if live is not None:
            await self.in_thread(live.close)

    async def _keep_house(self) -> None:
        """Release who is idle, forget who is not needed, and say that the server is in use while tasks run."""
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for held in list(self.held.values()):
                if self._may_go(held) and now - held.used >= held.idle_timeout:
                    try:
                        await self._release(held)
                    except Exception:
                        self.log.exception("wasm_kernel: sandbox %s could not be released", held.session_id)
                if held.live is None and not held.tasks and not held.users:
                    del self.held[held.session_id]
            if any(held.task is not None for held in self.held.values()):
                self.on_activity()

    async def stop_task(self, held: Held, grace: float = _GRACE) -> None:
        """End what runs: by an interrupt, or by force; then the sandbox is closed, and as it was before the task."""
        task, live = held.task, held.live
        if task is None or live is None:
            return
        live.sandbox.interrupt()
        if not await task.wait(grace):
            await self._close(held)
            await task.wait(_GRACE)

    async def close(self) -> None:
        """The server stops: save and close them all."""
        self._closing = True
        self._housekeeper.cancel()
        await asyncio.gather(*(self._leave(held) for held in list(self.held.values())))
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _leave(self, held: Held) -> None:
        held.leaving = True
        await self.stop_task(held, _LAST_GRACE)
        async with held.lock:
            if held.live is not None and held.ran:
                try:
                    await self.save(held, "session_close")
                except (WasmKernelError, OSError) as e:
                    self.log.warning("wasm_kernel: sandbox %s could not be saved: %s", held.session_id, e)
            await self._close(held)
