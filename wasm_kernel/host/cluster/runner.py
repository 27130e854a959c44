"""The calls of one turn, run on a Dask cluster: a `TaskRunner` beside `workers.LocalWorkers`.

The guest's thread forks it (`start`), queues calls (`submit`) and fetches results. All else happens on the connection's
thread: handing the fork to workers, submitting calls to Dask, taking what comes back. So nothing here keeps the guest
from being interrupted while it waits.

Dask decides where a call runs, and runs it again elsewhere if a worker dies. A call is handed in once, whatever Dask
did: its number is taken off `_calls` with the first result.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

from wasm_kernel.errors import ClusterError, SandboxError
from wasm_kernel.guest import wire
from wasm_kernel.host.cluster.captured_fork import CapturedFork, SentFiles
from wasm_kernel.host.cluster.connection import Connection
from wasm_kernel.host.cluster.frames import ENDED, MISSING, REFUSED, Call, CallOutcome
from wasm_kernel.host.cluster.handing_over import HandingOver
from wasm_kernel.host.cluster.progress import CallsProgress
from wasm_kernel.host.runtime.tasks import MOST_WAITING_BYTES, MOST_WAITING_TASKS, Results
from wasm_kernel.host.runtime.worker_limits import Clocks
from wasm_kernel.host.runtime.workers import INTERRUPTED, Turn, too_long

_ATTEMPTS = 12  # to run a call where its fork is: workers come and go
_AHEAD = 3  # calls that Dask has for each that can run; the rest can still be cancelled
_LEAST_AHEAD = 8
_LOOK = 0.2  # seconds
_GONE_AFTER = 10.0  # seconds without a scheduler, or without any worker
_ROOM = 0.05
_MOST_FORKS = 4  # at a time: each holds a copy of what the guest has written in its cell

_Key = tuple[int, int]  # a pool and an era


@dataclass
class _Call:
    """A call that is not done. ``fork``: where it runs. ``submitted``: Dask has it."""

    task: wire.SubmitTask
    fork: _Fork | None = None
    submitted: bool = False
    work: asyncio.Task[None] | None = None


@dataclass
class _Fork:
    """A fork, and the calls for it that were not begun.

    Attributes:
        workers: How many the guest believes there are.
        calls: How many calls of it are not done.
    """

    captured: CapturedFork
    handing_over: HandingOver
    workers: int
    waiting: deque[_Call] = field(default_factory=deque)
    calls: int = 0

    def add(self, call: _Call) -> None:
        """One more call."""
        call.fork = self
        self.calls += 1
        self.waiting.append(call)


class ClusterWorkers:
    """The calls of one turn. A `TaskRunner`."""

    def __init__(
        self,
        turn: Turn,
        connection: Connection,
        files: SentFiles,
        image_key: str,
        most: int,
    ) -> None:
        self._turn, self._connection, self._files = turn, connection, files
        self._image_key, self._most = image_key, most
        self.results = Results(turn.run.wake.set, lambda: None)
        self._lock = threading.RLock()  # held while something is given to the guest, and to see that its turn lasts
        self._ended = False
        self._calls: dict[tuple[int, int], _Call] = {}
        self._bytes = 0
        self._early: dict[int, list[_Call]] = {}  # of pools that have no fork yet
        self._forks: dict[_Key, _Fork] = {}
        self._under_way = 0
        self._clocks, self._cpu = Clocks(), 0.0
        self._interrupts = turn.run.interrupts
        self._watching: asyncio.Task[None] | None = None
        self._progress = CallsProgress(turn.capture.emit)

    # ---- for the guest, on its thread

    def start(self, request: wire.StartWorkers) -> tuple[int, str]:
        """As `TaskRunner.start` says. What was forked for an era stays as it was then, however many calls follow."""
        count, policy = min(request.count, self._most), self._turn.policy
        if self._turn.run.seen > self._interrupts:  # as in `LocalWorkers.start`
            self._interrupts = self._turn.run.seen
            for pool in {pool for pool, _ in self._forks}:
                self._break(pool, INTERRUPTED)
        known = self._forks.get((request.pool, request.era))
        if known is not None:
            known.workers += count
            return count, ""
        if policy.fuel_budget is not None:
            return 0, "a session with a limit on fuel cannot use a cluster: `%session limits fuel=none`"
        if not self._connection.alive:
            return 0, _GONE
        if not self._make_way(request.pool):
            return 0, ""
        self._clocks.start()
        fork = self._turn.instance.fork()
        if fork is None:
            return 0, "this session was saved by an earlier version, whose machine code cannot be forked"
        try:
            captured = CapturedFork(
                fork, self._turn.instance.base, request, self._image_key, policy, self._files, self._connection.id
            )
        except (SandboxError, OSError) as e:
            return 0, str(e)
        made = _Fork(captured, HandingOver(self._connection, captured, policy), count)
        with self._lock:
            self._forks[request.pool, request.era] = made
            for call in self._early.pop(request.pool, ()):
                made.add(call)
        self._later(lambda: self._begin(made))
        return count, ""

    def _make_way(self, pool: int) -> bool:
        """Let forks go that have nothing to do: earlier ones of this pool, and those of others if there are many.

        Whether there may be another one. Pools whose fork is gone are told that they have no workers any more.
        """
        with self._lock:
            for key, fork in list(self._forks.items()):
                if not fork.calls and (key[0] == pool or len(self._forks) >= _MOST_FORKS):
                    self._let_go(self._forks.pop(key))
                    for _ in range(fork.workers):
                        self.results.put({"pool": key[0], "era": key[1], "ended": ""})
            return len(self._forks) < _MOST_FORKS

    def submit(self, task: wire.SubmitTask) -> None:
        """As `TaskRunner.submit` says."""
        size = len(task.buffers[0])
        if size > wire.MAX_TASK_BYTES:
            raise wire.TooMuch(f"a task has {size} bytes; {wire.MAX_TASK_BYTES} are allowed")
        with self._lock:
            if self._bytes + size > MOST_WAITING_BYTES or len(self._calls) >= MOST_WAITING_TASKS:
                raise wire.TooMuch("too many tasks wait for a worker")
            if (task.pool, task.task) in self._calls:
                raise wire.BadFrame("this task is waiting already")
            call = self._calls[task.pool, task.task] = _Call(task)
            self._bytes += size
            self._progress.added()
            fork = self._fork_for(task)
            if fork is None:
                self._early.setdefault(task.pool, []).append(call)
                return
            fork.add(call)
        self._later(self._fill)

    def _fork_for(self, task: wire.SubmitTask) -> _Fork | None:
        eras = [era for pool, era in self._forks if pool == task.pool and era >= task.era]
        return self._forks[task.pool, min(eras)] if eras else None

    def cancel(self, pool: int, task: int) -> bool:
        """As `TaskRunner.cancel` says."""
        with self._lock:
            call = self._calls.get((pool, task))
            if call is None or call.submitted:
                return False
            self._forget(call)
            return True

    def stop(self, pool: int, *, at_once: bool) -> None:
        """As `TaskRunner.stop` says."""
        with self._lock:
            calls = [call for (of, _), call in self._calls.items() if of == pool]
            for call in calls:
                if at_once or not call.submitted:
                    self._forget(call)
            self._early.pop(pool, None)
            gone = [key for key in self._forks if key[0] == pool] if at_once or not calls else []
            forks = [self._forks.pop(key) for key in gone]
        for fork in forks:
            self._let_go(fork)

    def room(self, kind: int, wanted: int) -> tuple[int, int]:
        """As `TaskRunner.room` says: what calls write elsewhere does not count here."""
        return self._turn.files.left(self._turn.policy, kind)

    def end(self) -> None:
        """As `TaskRunner.end` says. What runs is cancelled, and not waited for: it cannot reach the guest any more."""
        with self._lock:
            self._progress.end(self._under_way)
            self._ended = True
            for call in list(self._calls.values()):
                self._forget(call)
            forks, self._forks = list(self._forks.values()), {}
            watching, self._watching = self._watching, None
        for fork in forks:
            self._let_go(fork)
        if watching is not None:
            self._later(watching.cancel)

    def _let_go(self, fork: _Fork) -> None:
        fork.captured.close()
        self._later(fork.handing_over.end)

    def _forget(self, call: _Call) -> None:
        """Nobody waits for it any more. Under the lock."""
        self._calls.pop((call.task.pool, call.task.task), None)
        self._bytes -= len(call.task.buffers[0])
        if call.fork is not None:
            call.fork.calls -= 1
        if call.work is not None:
            self._later(call.work.cancel)

    def _later(self, work: Callable[[], object]) -> None:
        """Do something on the connection's thread."""
        if not self._connection.closed:
            self._connection.loop.call_soon_threadsafe(work)

    # ---- on the connection's thread

    def _begin(self, fork: _Fork) -> None:
        """A fork was made: hand it to workers, then run what waits for it."""
        if self._watching is None and not self._ended:
            self._watching = self._connection.loop.create_task(self._watch())
        beginning = fork.handing_over.begin(max(1, len(fork.waiting)))
        beginning.add_done_callback(lambda _: self._fill())

    def _fill(self) -> None:
        """Give Dask as many calls as it should have."""
        most = max(_LEAST_AHEAD, _AHEAD * self._connection.threads)
        with self._lock:
            for fork in self._forks.values():
                while fork.waiting and fork.handing_over.begun and self._under_way < most:
                    call = fork.waiting.popleft()
                    if self._calls.get((call.task.pool, call.task.task)) is call:
                        self._under_way += 1
                        call.submitted = True
                        call.work = self._connection.loop.create_task(self._run(call, fork))

    async def _run(self, call: _Call, fork: _Fork) -> None:
        try:
            outcome = await self._outcome(call, fork)
            while not self.results.has_room(len(outcome.data)):
                await asyncio.sleep(_ROOM)
            self._deliver(call, fork, outcome)
        except asyncio.CancelledError:
            raise
        except ClusterError as e:
            self._break(call.task.pool, str(e))
        except Exception as e:  # noqa: BLE001 - whatever Dask raises, its pool is broken and the session goes on
            gone = isinstance(e, CancelledError) or not self._connection.alive
            self._break(call.task.pool, _GONE if gone else f"the cluster failed: {_in_short(e)}")
        finally:
            self._under_way -= 1
            self._fill()

    async def _outcome(self, call: _Call, fork: _Fork) -> CallOutcome:
        """Have a call run wherever Dask wants to."""
        for _ in range(_ATTEMPTS):
            data = Call(call.task.task, call.task.buffers[0], self._cpu_left()).encode()
            outcome = await fork.handing_over.call(data)
            if outcome.kind != MISSING:
                return outcome
            await fork.handing_over.to(outcome.worker)
        raise ClusterError("workers of the cluster did not keep what was sent to them")

    def _deliver(self, call: _Call, fork: _Fork, outcome: CallOutcome) -> None:
        task, capture = call.task, self._turn.capture
        with self._lock:
            if self._ended or self._calls.get((task.pool, task.task)) is not call:
                return
            call.work = None
            self._cpu += outcome.cpu_seconds
            for stream, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
                if text:
                    capture.print(stream, text)
            if outcome.showed:
                capture.notice("worker", _SHOWED)
            if outcome.changed_files:
                capture.notice("cluster files", _WROTE)
            self._forget(call)
            if outcome.kind in (ENDED, REFUSED):
                self._break(task.pool, outcome.text or "it ended")
                return
            self._progress.done(self._under_way)
            self.results.put({"pool": task.pool, "task": task.task, "status": outcome.status}, outcome.data)
        if self._cpu_left() == 0:
            self._break_all(too_long(self._turn.policy))

    def _cpu_left(self) -> float | None:
        limit = self._turn.policy.timeout_seconds
        return None if limit is None else max(0.0, limit - self._cpu - self._clocks.seconds())

    def _break(self, pool: int, why: str) -> None:
        """No call of a pool will be done any more: the guest is told why, once for its latest era."""
        with self._lock:
            if self._ended:
                return
            eras = [era for of, era in self._forks if of == pool]
            self.stop(pool, at_once=True)
            self.results.put({"pool": pool, "era": max(eras, default=0), "ended": why})

    def _break_all(self, why: str) -> None:
        for pool in {pool for pool, _ in [*self._calls, *self._forks]}:
            self._break(pool, why)

    async def _watch(self) -> None:
        """Look after interrupts, the time limit and the cluster itself, and tell how far it is."""
        run, since = self._turn.run, 0.0
        while True:
            await asyncio.sleep(_LOOK)
            if run.stop or run.timed_out or run.interrupts != self._interrupts:
                self._interrupts = run.interrupts
                self._break_all(INTERRUPTED if not run.timed_out else "the time limit of the cell is over")
            since = 0.0 if await self._is_there() else since + _LOOK
            if since > _GONE_AFTER or not self._connection.alive:
                self._break_all(_GONE)
                since = 0.0
            with self._lock:
                if not self._ended:
                    self._progress.look(self._under_way)

    async def _is_there(self) -> bool:
        """Whether the cluster can be reached, and has workers."""
        if self._connection.client.status != "running":
            return False
        if not self._calls:
            return True
        try:
            async with asyncio.timeout(2):
                return bool(await self._connection.workers())
        except Exception:  # noqa: BLE001 - it cannot be reached, for whatever reason
            return False


_GONE = "the cluster cannot be reached any more, or has no workers. `%session cluster off` goes back to this machine"
_SHOWED = "a worker cannot show display data or widgets: return what is to be shown, and show it in the cell"
_WROTE = (
    "a call changed files in /app or /tmp. It ran on another machine, and they stay there: return what you want to keep"
)


def _in_short(error: BaseException) -> str:
    """What went wrong, for the notebook: without addresses, which Dask's own texts contain."""
    if type(error).__name__ == "KilledWorker":
        return "the workers that ran a call died, one after the other; maybe it needs more memory than they have"
    if isinstance(error, wire.BadFrame):
        return "it returned what is no result"
    return type(error).__name__
