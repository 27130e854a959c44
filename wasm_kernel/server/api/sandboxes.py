"""What the API does with sandboxes: create, run code in, mark, save and delete them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

from wasm_kernel.errors import SessionLocked, WasmKernelError
from wasm_kernel.host.disk import locks, tombstones
from wasm_kernel.model.outcome import Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.records import is_session_id
from wasm_kernel.model.session_info import SandboxInfo
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.server.api import sandbox_slot, views
from wasm_kernel.server.api.openapi import DELETED
from wasm_kernel.server.api.pool import Pool
from wasm_kernel.server.api.sandbox_slot import SandboxSlot, no_sandbox
from wasm_kernel.server.api.stored_tasks import summary_of, task_of
from wasm_kernel.server.api.task_store import TaskStore
from wasm_kernel.server.api.tasks import Task
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.catalog import discard_session
from wasm_kernel.sessions.guest_access import Execution
from wasm_kernel.sessions.runtime import SessionRuntime

_MOST_TASKS = 100  # remembered per sandbox
_MOST_TASKS_IN_ALL, _MOST_TASK_BYTES = 2000, 128 << 20


class Sandboxes:
    """The API's verbs. Used on the event loop; blocking work goes to the pool's threads."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._store = TaskStore(pool.root)
        self._background: set[asyncio.Task[None]] = set()

    # ---- looking

    async def describe(self, session_id: str) -> SandboxInfo:
        """Describe a sandbox, even a deleted one."""
        pool = self.pool
        held = pool.held.get(session_id)
        living = held.living() if held is not None else None
        if held is not None and held.runtime is not None:
            await pool.in_thread(held.runtime.metadata.write)
        found = await pool.in_thread(views.sandbox, pool.root, session_id, pool.terms, living)
        if found is None:
            raise no_sandbox(session_id)
        return found

    async def check(self, session_id: str, *, change: bool) -> None:
        """Refuse a sandbox that does not exist, and to change a deleted one."""
        held = self.pool.held.get(session_id)
        if held is None or held.runtime is None:
            there, buried = await self.pool.in_thread(self._look_for, session_id)
            if not there and not buried:
                raise no_sandbox(session_id)
            if not there and change:
                raise Problem(410, DELETED)

    def _look_for(self, session_id: str) -> tuple[bool, bool]:
        if not is_session_id(session_id):
            return False, False
        return (self.pool.root / session_id).is_dir(), tombstones.read(self.pool.root, session_id) is not None

    async def tasks(self, session_id: str) -> list[dict[str, Any]]:
        """The remembered tasks of a sandbox in short, newest first: of this server, and of those before it."""
        held = self.pool.held.get(session_id)
        here = dict(reversed(held.tasks.items())) if held is not None else {}
        stored = await self.pool.in_thread(self._store.records, session_id)
        earlier = [summary_of(session_id, found.task_id, found) for found in stored if found.task_id not in here]
        return [*(task.summary() for task in here.values()), *earlier]

    async def task(self, session_id: str, task_id: str) -> Task:
        """One of them."""
        held = self.pool.held.get(session_id)
        here = held.tasks.get(task_id) if held is not None else None
        if here is not None:
            return here
        found = await self.pool.in_thread(self._store.task, session_id, task_id)
        if found is None:
            raise Problem(404, f"sandbox {session_id} has no task {task_id[:40]!r}, or it is no longer remembered")
        if summary_of(session_id, task_id, found)["state"] == "running":
            raise Problem(409, f"task {task_id} runs in another server; ask that one, or wait for its end")
        return task_of(session_id, task_id, found)

    # ---- creating

    async def create(self, wanted: Mapping[str, Any]) -> str:
        """Create a sandbox by the fields of a request; return its id."""
        pool, asked = self.pool, wanted.get("limits", {})
        policy = pool.terms.policy(asked)
        notes = {
            "sandbox": {"idle_timeout_seconds": wanted["idle_timeout_seconds"], "limits": asked},
            **({"title": wanted["title"]} if wanted.get("title") else {}),
        }
        async with pool.room():
            session_id = await pool.in_thread(sandbox_slot.make, pool.root, wanted.get("snapshot_id"), policy, notes)
            async with pool.using(session_id) as held:
                try:
                    await pool.open_in_room(held)
                except BaseException:
                    await pool.in_thread(discard_session, pool.root, session_id)
                    raise
        return session_id

    # ---- running

    @contextlib.asynccontextmanager
    async def _at_rest(self, session_id: str) -> AsyncIterator[SandboxSlot]:
        """A sandbox that nobody else changes meanwhile; refused while a task runs."""
        await self.check(session_id, change=True)
        async with self.pool.using(session_id) as held:
            _refuse_leaving(held)
            if held.task is not None:
                running = held.task.task_id
                text = f"sandbox {session_id} is running task {running}; wait for it, interrupt it, or use another"
                raise Problem(409, text, task_id=running)
            yield held

    async def run(self, session_id: str, code: str, *, fresh: bool) -> Task:
        """Begin a task."""
        pool = self.pool
        async with self._at_rest(session_id) as held:
            was_open = held.runtime is not None
            await pool.open(held, fresh=fresh)
            runtime = held.runtime
            assert runtime is not None
            if fresh and was_open:
                await runtime.reset()
            task = Task(session_id, code)
            task.log = await pool.in_thread(self._store.begin, session_id, task.task_id, task.summary())
            held.task = held.tasks[task.task_id] = task
            held.rests = True
            self._in_background(self._run(held, runtime, task, code))
            return task

    async def _run(self, held: SandboxSlot, runtime: SessionRuntime, task: Task, code: str) -> None:
        """Run a task to its end: a result, or the failure or closing of its sandbox."""
        try:
            async with runtime.guest:
                number = runtime.count
                result = await runtime.execute(Execution(code, number, task.take, {"allow_stdin": False}))
                runtime.count_cell(number)
            ended: tuple[Outcome, SandboxResult | None] = result.outcome, result
        except Exception as e:
            text = str(e)
            if not isinstance(e, WasmKernelError):
                self.pool.log.error("wasm_kernel: a task failed", exc_info=e)
                text = "something went wrong; see the server's log"
            ended = Outcome(OutcomeKind.CRASHED, type(e).__name__, text, state_lost=True), None
        with contextlib.suppress(RuntimeError):  # the server has stopped
            await self.pool.in_thread(task.conclude, *ended)
        held.task, held.used = None, time.monotonic()
        task.end()
        self._forget_old_tasks(held)
        async with self.pool.using(held.session_id):
            if held.runtime is runtime and held.task is None:  # else the next one's end saves both
                await runtime.save_cell()
                await runtime.settled()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.pool.loop.create_task(work)
        self._background.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._background.discard)

    def _forget_old_tasks(self, held: SandboxSlot) -> None:
        """Bound what is remembered, per sandbox and in total."""
        for task in list(held.tasks.values())[:-_MOST_TASKS]:
            if task.done:
                del held.tasks[task.task_id]
        ended = [(task, of.tasks) for of in self.pool.held.values() for task in of.tasks.values() if task.done]
        count, space = len(ended), sum(task.size for task, _ in ended)
        for task, among in sorted(ended, key=lambda pair: pair[0].created_at):
            if count <= _MOST_TASKS_IN_ALL and space <= _MOST_TASK_BYTES:
                return
            del among[task.task_id]
            count, space = count - 1, space - task.size

    async def interrupt(self, session_id: str, task_id: str) -> Task:
        """Raise KeyboardInterrupt in a task, if it runs."""
        await self.check(session_id, change=True)
        task = await self.task(session_id, task_id)
        held = self.pool.held.get(session_id)
        if held is not None and held.task is task and held.runtime is not None:
            held.runtime.sandbox.interrupt()
        return task

    # ---- idle and busy

    async def mark(self, session_id: str, *, busy: bool) -> None:
        """Keep a sandbox in memory, or let it be released."""
        pool = self.pool
        await self.check(session_id, change=True)
        async with pool.using(session_id) as held:
            _refuse_leaving(held)
            if busy:
                await pool.open(held)
            elif held.runtime is None and await pool.in_thread(locks.is_live, pool.root, session_id):
                raise SessionLocked(f"session {session_id} is in use")
            held.marked_busy, held.used = busy, time.monotonic()
            held.rests = held.rests or not busy

    # ---- saving and deleting

    async def snapshot(self, session_id: str, label: str, given: Mapping[str, Any]) -> Snapshot:
        """Take a snapshot that a client asked for."""
        async with self._at_rest(session_id) as held:
            await self.pool.open(held)
            held.used = time.monotonic()
            assert held.runtime is not None
            return await held.runtime.take(label, metadata=views.snapshot_metadata(given))

    async def delete(self, session_id: str, *, snapshot: bool) -> SandboxInfo:
        """Stop a sandbox, save it, and delete it for good; return what is shown of it from now on."""
        pool = self.pool
        await self.check(session_id, change=True)
        held = pool.held.setdefault(session_id, SandboxSlot(session_id))
        _refuse_leaving(held)
        held.leaving, held.users = True, held.users + 1
        try:
            await pool.stop_task(held)
            async with held.lock:
                whole, last = False, None
                if snapshot:
                    whole = await self._open_to_save(held)
                    assert held.runtime is not None
                    last = await held.runtime.take(trigger="session_close")
                if held.runtime is not None:
                    held.runtime.background.stop()
                await pool.in_thread(sandbox_slot.remove, pool.root, held, last, thin=whole)
                held.runtime = None
        finally:
            held.leaving, held.users = False, held.users - 1
        return await self.describe(session_id)

    async def _open_to_save(self, held: SandboxSlot) -> bool:
        """Open a sandbox for its last snapshot, no matter how many are open; return whether its memory came back."""
        if held.runtime is not None:
            return True
        try:
            await self.pool.open_in_room(held)
        except SessionLocked:
            raise
        except (WasmKernelError, Problem) as e:
            if isinstance(e, Problem) and e.status_code != 409:
                raise
            self.pool.log.warning("wasm_kernel: only the files of sandbox %s are saved: %s", held.session_id, e)
            await self.pool.open_in_room(held, fresh=True)
            return False
        return True


def _refuse_leaving(held: SandboxSlot) -> None:
    if held.leaving:
        raise Problem(409, f"sandbox {held.session_id} is being deleted, or the server is stopping")
