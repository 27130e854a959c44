"""The sandboxes that this server has in memory: opened when needed, released when idle, closed with the server.

Everything runs on the server's event loop but for what blocks (disk, guests), which runs on threads. Rules:

* Whatever changes a sandbox (open, run, save, release, delete) holds its `Held.lock`; a task that was begun runs on
  without it. So two tasks cannot begin at once, and a task cannot begin while its sandbox is being saved.
* After every task a checkpoint is written, which replaces the one before: a server that is killed loses the task that
  ran, and nothing else. A release therefore only has to close.
* A session that this server has open holds the session's lock, as a kernel's does: prunes leave it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from wasm_kernel.errors import ImageError, SessionLocked, WasmKernelError
from wasm_kernel.guest import wire
from wasm_kernel.host import image, ledger, removal, tombstones
from wasm_kernel.model.outcome import Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import BadRecord, is_session_id
from wasm_kernel.model.snapshots import Manifest, Snapshot, checked_variables, chunks_of
from wasm_kernel.server import api_views
from wasm_kernel.server.api_tasks import Task
from wasm_kernel.server.api_views import Living, Terms
from wasm_kernel.server.openapi import DELETED
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.catalog import create_session_folder, delete_session_workspace, prepared_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.snapshots import (
    delete_snapshot,
    fork_snapshot,
    get_snapshot,
    list_snapshots,
    open_from_snapshot,
)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 8
_TICK = 0.5  # seconds between looks at who is idle
_GRACE = 5.0  # seconds that a task has to end when its sandbox is deleted
_LAST_GRACE = 1.0  # the same when the server stops: whoever stops it does not wait long
_MOST_TASKS = 100  # remembered per sandbox
_MOST_TASK_BYTES = 128 << 20  # remembered of all
_MOST_DELETED = 1000  # deleted sandboxes remembered, with their snapshots
_COLLECT_EVERY = 50  # checkpoints that went
_OURS = "api"  # marks a checkpoint that the next one replaces


@dataclass
class Held:
    """A sandbox that this server has in memory, or whose tasks it remembers."""

    session_id: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # requests that have it, or wait for it
    live: LiveSession | None = None
    idle_timeout: int = 0
    used: float = field(default_factory=time.monotonic)
    marked_busy: bool = False
    rests: bool = False  # something ran in it, or it was marked idle
    leaving: bool = False  # it is being deleted, or the server stops
    task: Task | None = None  # that runs
    tasks: dict[str, Task] = field(default_factory=dict)
    ran: bool = False  # since it was opened
    unsaved: bool = False
    begins_afresh: bool = False  # its metadata says so, until there is a snapshot of what began
    execution_count: int = 1
    variables: dict[str, list[Any]] = field(default_factory=dict)
    checkpoint: str = ""  # the one that the next replaces

    @property
    def state(self) -> str:
        """One of the API's states."""
        if self.live is None:
            return "released"
        if self.task is not None or self.marked_busy:
            return "busy"
        return "idle" if self.rests else "ready"

    def living(self) -> Living | None:
        """What is shown of it; None when it is not in memory."""
        if self.live is None:
            return None
        idle = None if self.state == "busy" else round(time.monotonic() - self.used, 3)
        task_id = self.task.task_id if self.task is not None else None
        return Living(self.state, idle, task_id, api_views.numbers(self.live.policy))


class Pool:
    """All of them. Made on the event loop, with the first request that needs it."""

    def __init__(self, root: Path, terms: Terms, max_live: int, log: logging.Logger, refused: str = "") -> None:
        self.root, self.terms, self.max_live = prepared_root(root), terms, max_live
        self._log, self._refused = log, refused
        self._logger = SandboxLogger(level="error")
        self._held: dict[str, Held] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wasm-kernel-api")
        self._loop = asyncio.get_running_loop()
        self._opening = 0
        self._making_room = asyncio.Lock()
        self._replaced = 0  # checkpoints, since their space was given back
        self._closing = False
        self._background: set[asyncio.Task[None]] = set()
        self.on_activity: Callable[[], None] = lambda: None  # a task runs: whoever looks for idle servers should know
        self._housekeeper = self._loop.create_task(self._keep_house())

    async def in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do what blocks."""
        return await self._loop.run_in_executor(self._threads, functools.partial(work, *args, **kwargs))

    @property
    def live_count(self) -> int:
        """How many are in memory."""
        return sum(held.live is not None for held in self._held.values())

    def living(self) -> dict[str, Living]:
        """What is shown of those in memory."""
        return {name: living for name, held in self._held.items() if (living := held.living()) is not None}

    # ---- looking

    async def describe(self, session_id: str) -> dict[str, Any]:
        """A sandbox, also a deleted one."""
        held = self._held.get(session_id)
        living = held.living() if held is not None else None
        found = await self.in_thread(api_views.sandbox, self.root, session_id, self.terms, living)
        if found is None:
            raise _no_sandbox(session_id)
        return found

    async def check(self, session_id: str, *, change: bool) -> None:
        """Refuse what is not there, and to change what is deleted."""
        held = self._held.get(session_id)
        if held is None or held.live is None:
            there, buried = await self.in_thread(self._look_for, session_id)
            if not there and not buried:
                raise _no_sandbox(session_id)
            if not there and change:
                raise Problem(410, DELETED)

    def _look_for(self, session_id: str) -> tuple[bool, bool]:
        if not is_session_id(session_id):
            return False, False
        return (self.root / session_id).is_dir(), tombstones.read(self.root, session_id) is not None

    def tasks(self, session_id: str) -> list[Task]:
        """The tasks of a sandbox that are remembered, the newest first."""
        held = self._held.get(session_id)
        return list(reversed(held.tasks.values())) if held is not None else []

    def task(self, session_id: str, task_id: str) -> Task:
        """One of them."""
        held = self._held.get(session_id)
        found = held.tasks.get(task_id) if held is not None else None
        if found is None:
            raise Problem(
                404, f"there is no task {task_id[:40]!r} of sandbox {session_id}, or it is no longer remembered"
            )
        return found

    # ---- creating and opening

    async def create(self, wanted: Mapping[str, Any]) -> str:
        """A new sandbox, by the fields of a request; its id."""
        self._check_may_run()
        asked = wanted.get("limits", {})
        policy = self.terms.policy(asked)
        notes = {
            "sandbox": {"idle_timeout_seconds": wanted["idle_timeout_seconds"], "limits": asked},
            **({"title": wanted["title"]} if wanted.get("title") else {}),
        }
        async with self._room():
            session_id = await self.in_thread(self._make, wanted.get("snapshot_id"), policy, notes)
            async with self._using(session_id) as held:
                try:
                    await self._open_in_room(held)
                except BaseException:
                    await self.in_thread(delete_session_workspace, session_id, self.root, self._logger)
                    raise
        return session_id

    def _make(self, snapshot_id: str | None, policy: ExecutionPolicy, notes: dict[str, Any]) -> str:
        _image_for(policy)
        if snapshot_id is None:
            session_id, _, lock = create_session_folder(self.root, self._logger, **notes)
            lock.release()
            return session_id
        needed = get_snapshot(snapshot_id, self.root).memory_bytes
        if needed > policy.memory_bytes:
            most = f"the sandbox may have {policy.memory_bytes:,}; limits.memory can change that"
            raise Problem(409, f"snapshot {snapshot_id} has {needed:,} bytes of memory; {most}")
        session_id = fork_snapshot(snapshot_id, self.root, logger=self._logger)
        folder = self.root / session_id
        record = ledger.read_record(folder)
        if record is not None:
            ledger.write_record(folder, record.touched(datetime.now(UTC), **notes), sync=True)
        return session_id

    async def _open(self, held: Held, *, fresh: bool = False) -> None:
        """Bring a sandbox to memory, with what it was left with. Called with its lock held."""
        if held.live is None:
            self._check_may_run()
            async with self._room():
                await self._open_in_room(held, fresh=fresh)

    async def _open_in_room(self, held: Held, *, fresh: bool = False) -> None:
        live, manifest, begins_afresh, timeout = await self.in_thread(self._opened, held.session_id, fresh)
        known = manifest.snapshot if manifest is not None else None
        held.live, held.idle_timeout, held.used = live, timeout, time.monotonic()
        held.ran = held.unsaved = held.rests = False
        held.begins_afresh = begins_afresh
        held.execution_count = known.execution_count if known is not None else 1
        held.variables = dict(manifest.variables) if manifest is not None else {}
        ours = known is not None and known.trigger == "checkpoint" and known.metadata.get(_OURS) is True
        held.checkpoint = known.snapshot_id if known is not None and ours else ""

    def _opened(self, session_id: str, fresh: bool) -> tuple[LiveSession, Manifest | None, bool, int]:
        lock = ledger.lock_session(self.root, session_id)
        try:
            folder = self.root / session_id
            if folder.is_symlink():
                raise Problem(409, f"sandbox {session_id} is a link, not a folder; it is left alone")
            if not folder.is_dir():
                raise _no_sandbox(session_id)  # it was just deleted
            wishes = self.terms.wishes(folder)
            begins_afresh = _begins_afresh(folder)
            live = LiveSession(session_id, folder, _image_for(wishes.policy), wishes.policy, lock)
        except BaseException:
            lock.release()
            raise
        try:
            manifest = None if fresh or begins_afresh else open_from_snapshot(live)
        except BaseException:
            live.close()
            raise
        return live, manifest, begins_afresh, wishes.idle_timeout

    def _check_may_run(self) -> None:
        if self._refused:
            raise Problem(503, self._refused)
        if self._closing:
            raise Problem(503, "the server stops")

    @contextlib.asynccontextmanager
    async def _room(self) -> AsyncIterator[None]:
        """Room for one more; the one that has been idle longest goes for it."""
        async with self._making_room:
            while self.live_count + self._opening >= self.max_live:
                idle = [held for held in self._held.values() if self._may_go(held)]
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

    @contextlib.asynccontextmanager
    async def _using(self, session_id: str) -> AsyncIterator[Held]:
        """A sandbox that nobody else changes meanwhile."""
        held = self._held.setdefault(session_id, Held(session_id))
        held.users += 1
        try:
            async with held.lock:
                yield held
        finally:
            held.users -= 1

    @contextlib.asynccontextmanager
    async def _at_rest(self, session_id: str) -> AsyncIterator[Held]:
        """The same, refused while a task runs."""
        await self.check(session_id, change=True)
        async with self._using(session_id) as held:
            if held.leaving:
                raise Problem(409, f"sandbox {session_id} is being deleted, or the server stops")
            if held.task is not None:
                running = held.task.task_id
                text = f"sandbox {session_id} runs task {running}; wait for it, interrupt it, or create another sandbox"
                raise Problem(409, text, task_id=running)
            yield held

    # ---- running

    async def run(self, session_id: str, code: str, *, fresh: bool) -> Task:
        """Begin a task."""
        async with self._at_rest(session_id) as held:
            was_live = held.live is not None
            await self._open(held, fresh=fresh)
            assert held.live is not None
            sandbox = held.live.sandbox
            if fresh and was_live:
                await self.in_thread(sandbox.reset)
                held.execution_count, held.variables = 1, {}
            task = Task(session_id, code)

            def deliver(kind: str, value: Any) -> None:  # on the sandbox's thread
                if kind in ("input", "magic"):
                    sandbox.answer(wire.ANSWER_REFUSED)
                    return
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._ended, held, task, value)

            sandbox.begin_execute(code, deliver, on_event=task.take, options={"allow_stdin": False, "glance": True})
            held.task = held.tasks[task.task_id] = task
            held.rests = True
            return task

    def _ended(self, held: Held, task: Task, value: SandboxResult | BaseException) -> None:
        """A task is over: with a result, or because its sandbox failed or was closed."""
        held.task, held.used = None, time.monotonic()
        if isinstance(value, SandboxResult):
            held.ran = held.unsaved = True
            held.execution_count = max(held.execution_count, value.execution_count + 1)
            if "variables" in value.reply:
                held.variables = checked_variables(value.reply["variables"])
            task.end(value.outcome, value)
            self._in_background(self._after(held, value))
        else:
            if not isinstance(value, WasmKernelError):
                self._log.error("wasm_kernel: a task failed", exc_info=value)
            text = (
                str(value)
                if isinstance(value, WasmKernelError)
                else "something failed here; the server's log says what"
            )
            task.end(Outcome(OutcomeKind.CRASHED, type(value).__name__, text, state_lost=True), None)
        self._forget_old_tasks(held)

    async def _after(self, held: Held, result: SandboxResult) -> None:
        """What is written down after a task, while nobody waits for it."""
        async with self._using(held.session_id):
            if held.live is not None:
                await self.in_thread(held.live.refresh, result, self._logger)
                if held.task is None:  # else the next one's end saves both
                    await self._checkpoint(held)

    async def _checkpoint(self, held: Held) -> bool:
        """Write what the next opening goes on from; whether that worked."""
        try:
            await self._save(held, "checkpoint", metadata={_OURS: True})
        except (WasmKernelError, OSError) as e:
            self._log.warning("wasm_kernel: sandbox %s could not be saved: %s", held.session_id, e)
            return False
        return True

    async def _save(
        self, held: Held, trigger: str, label: str = "", metadata: dict[str, Any] | None = None
    ) -> Snapshot:
        snapshot = await self.in_thread(self._take, held, trigger, label, metadata or {})
        held.unsaved = False
        return snapshot

    def _take(self, held: Held, trigger: str, label: str, metadata: dict[str, Any]) -> Snapshot:
        live = held.live
        assert live is not None
        snapshot = live.recorder.take(
            trigger, label=label, metadata=metadata, execution_count=held.execution_count, variables=held.variables
        )
        if trigger != "user":
            replaced, held.checkpoint = held.checkpoint, snapshot.snapshot_id if trigger == "checkpoint" else ""
            if replaced and live.recorder.store.remove_manifest(held.session_id, replaced):
                self._replaced += 1
        if held.begins_afresh:
            held.begins_afresh = False
            live.note(fresh_start=False)
        if self._replaced >= _COLLECT_EVERY:
            self._replaced = 0
            with contextlib.suppress(WasmKernelError, OSError):  # somebody takes one now: later
                live.recorder.store.collect(chunks_of)
        return snapshot

    def _forget_old_tasks(self, held: Held) -> None:
        """Bound what is remembered: by number per sandbox, by space in all."""
        for task in list(held.tasks.values())[:-_MOST_TASKS]:
            if task.done:
                del held.tasks[task.task_id]
        ended = [(task, of.tasks) for of in self._held.values() for task in of.tasks.values() if task.done]
        space = sum(task.size for task, _ in ended)
        for task, among in sorted(ended, key=lambda pair: pair[0].created_at):
            if space <= _MOST_TASK_BYTES:
                return
            del among[task.task_id]
            space -= task.size

    async def interrupt(self, session_id: str, task_id: str) -> Task:
        """KeyboardInterrupt in a task, if it runs."""
        await self.check(session_id, change=True)
        task = self.task(session_id, task_id)
        held = self._held[session_id]
        if held.task is task and held.live is not None:
            held.live.sandbox.interrupt()
        return task

    # ---- idle and busy

    async def mark(self, session_id: str, *, busy: bool) -> None:
        """Keep a sandbox in memory, or let it be released."""
        await self.check(session_id, change=True)
        async with self._using(session_id) as held:
            if busy:
                if held.leaving:
                    raise Problem(409, f"sandbox {session_id} is being deleted, or the server stops")
                await self._open(held)
            elif held.live is None:
                await self._refuse_others(session_id)
            else:
                held.rests = True
            held.marked_busy, held.used = busy, time.monotonic()

    async def _refuse_others(self, session_id: str) -> None:
        if await self.in_thread(ledger.is_live, self.root, session_id):
            raise SessionLocked(f"session {session_id} is in use")

    def _may_go(self, held: Held) -> bool:
        return (
            held.live is not None
            and held.state != "busy"
            and held.idle_timeout > 0
            and not held.users
            and not held.leaving
        )

    async def _release(self, held: Held) -> bool:
        """Give a sandbox's memory back; whether that was possible."""
        async with self._using(held.session_id):
            if held.live is None or held.state == "busy" or held.leaving:
                return False
            if held.unsaved and not await self._checkpoint(held):
                held.used = time.monotonic()  # no room on the disk: its memory stays, until the next time
                return False
            await self._close(held)
            return True

    async def _close(self, held: Held) -> None:
        live, held.live, held.marked_busy = held.live, None, False
        if live is not None:
            await self.in_thread(live.close)

    async def _keep_house(self) -> None:
        """Release who is idle, forget who is not needed, and say that the server is in use while tasks run."""
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for held in list(self._held.values()):
                if self._may_go(held) and now - held.used >= held.idle_timeout:
                    try:
                        await self._release(held)
                    except Exception:  # noqa: BLE001 - the others must be looked after
                        self._log.exception("wasm_kernel: sandbox %s could not be released", held.session_id)
                if held.live is None and not held.tasks and not held.users:
                    del self._held[held.session_id]
            if any(held.task is not None for held in self._held.values()):
                self.on_activity()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._background.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._background.discard)

    # ---- snapshots, and the end

    async def snapshot(self, session_id: str, label: str, given: Mapping[str, Any]) -> Snapshot:
        """Save a sandbox because a person wants it."""
        async with self._at_rest(session_id) as held:
            await self._open(held)
            held.used = time.monotonic()
            return await self._save(held, "user", label, api_views.snapshot_metadata(given))

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot; its space comes back with the next prune, or after some more."""
        await self.in_thread(delete_snapshot, snapshot_id, self.root, logger=self._logger)
        self._replaced += 1

    async def delete(self, session_id: str, *, snapshot: bool) -> dict[str, Any]:
        """Stop a sandbox, save it, and delete it for good; what is shown of it from now on."""
        await self.check(session_id, change=True)
        held = self._held.setdefault(session_id, Held(session_id))
        if held.leaving:
            raise Problem(409, f"sandbox {session_id} is being deleted, or the server stops")
        held.leaving, held.users = True, held.users + 1
        try:
            await self._stop_task(held, _GRACE)
            async with held.lock:
                whole = await self._open_to_delete(held)
                shown = await self.describe(session_id)
                last = await self._save(held, "session_close") if snapshot else None
                await self.in_thread(self._remove, held, shown, last, whole)
                held.live = None
        finally:
            held.leaving, held.users = False, held.users - 1
        return await self.describe(session_id)

    async def _open_to_delete(self, held: Held) -> bool:
        """Open a sandbox for its last snapshot, no matter how many are open; whether its memory came back, too."""
        if held.live is not None:
            return True
        try:
            await self._open_in_room(held)
        except SessionLocked:
            raise
        except WasmKernelError as e:
            self._log.warning("wasm_kernel: of sandbox %s only the files are saved: %s", held.session_id, e)
            await self._open_in_room(held, fresh=True)
            return False
        return True

    def _remove(self, held: Held, shown: dict[str, Any], last: Snapshot | None, whole: bool) -> None:
        """Delete a sandbox that is open: nobody else can use it before it is gone."""
        live, session_id = held.live, held.session_id
        assert live is not None
        facts = api_views.tombstone(shown, last.snapshot_id if last is not None else None, datetime.now(UTC))
        tombstones.write(self.root, session_id, facts, most=_MOST_DELETED)
        try:
            removal.remove_session(self.root, session_id, keep_snapshots=True)
        except BaseException:
            tombstones.forget(self.root, session_id)
            raise
        if last is not None and whole:  # checkpoints are of use only to whoever goes on
            for checkpoint in list_snapshots(self.root, session_id):
                if checkpoint.trigger == "checkpoint":
                    live.recorder.store.remove_manifest(session_id, checkpoint.snapshot_id)
        live.close()
        ledger.forget_free_lock(self.root, session_id)

    async def _stop_task(self, held: Held, grace: float) -> None:
        """End what runs: by an interrupt, or by force; then the sandbox is closed, and as it was before the task."""
        task, live = held.task, held.live
        if task is None or live is None:
            return
        live.sandbox.interrupt()
        if not await task.wait(grace):
            await self._close(held)
            await task.wait(grace)

    async def close(self) -> None:
        """The server stops: save and close them all."""
        self._closing = True
        self._housekeeper.cancel()
        await asyncio.gather(*(self._leave(held) for held in list(self._held.values())))
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _leave(self, held: Held) -> None:
        held.leaving = True
        await self._stop_task(held, _LAST_GRACE)
        async with held.lock:
            if held.live is not None and held.ran:
                try:
                    await self._save(held, "session_close")
                except (WasmKernelError, OSError) as e:
                    self._log.warning("wasm_kernel: sandbox %s could not be saved: %s", held.session_id, e)
            await self._close(held)


def _no_sandbox(session_id: str) -> Problem:
    return Problem(404, f"there is no sandbox {session_id[:140]!r}")


def _image_for(policy: ExecutionPolicy) -> image.Image:
    """The image; building it here would take minutes."""
    try:
        found = image.load()
    except ImageError as e:
        raise Problem(503, f"nothing can run here yet: {e}; run `wasm-kernel install` where this server runs") from None
    if policy.fuel_budget is not None:
        try:
            found.modules(metered=True)
        except ImageError as e:
            raise Problem(
                409, f"fuel cannot be metered here yet: {e}; run `wasm-kernel image build --metered`"
            ) from None
    return found


def _begins_afresh(folder: Path) -> bool:
    """Whether a restart of its kernel asked for a fresh interpreter, and nothing was saved since."""
    with contextlib.suppress(BadRecord):
        record = ledger.read_record(folder)
        return record is not None and bool(record.extra.get("fresh_start"))
    return False
