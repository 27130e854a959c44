"""A guest's copy on a worker of a Dask cluster, which runs calls one after the other, those that share its fork, and
all that share its session's limits.

It is the `Worker` of a notebook with workers of its own, with another employer: one that has a call at a time, from
Dask, and waits for what comes of it. A copy is kept for the next call of the same fork, as a process of a pool is; one
that ended, or was stopped, is not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from wasm_kernel.guest import wire
from wasm_kernel.host.cluster.frames import DONE, ENDED, Call, CallOutcome
from wasm_kernel.host.cluster.received_fork import ReceivedFork
from wasm_kernel.host.runtime.instance_parts import Fork, Handlers, Limits
from wasm_kernel.host.runtime.worker import Worker
from wasm_kernel.host.runtime.worker_limits import Clocks, Looks, SharedRoom, divide, open_files, private_bytes
from wasm_kernel.host.runtime.workers import too_long
from wasm_kernel.model.units import format_size

_LOOK = 0.1  # seconds between looks whether a call is still wanted
_MOST_BETWEEN = 1.0  # seconds that a copy may need to ask for its next call
_JOIN = 0.05
CANCELLED = "the call was cancelled"


class RemoteWorker:
    """One copy of the guest. An `Employer` of the `Worker` that it is."""

    def __init__(self, crew: Crew, number: int, fork: Fork, function: int, limits: Limits) -> None:
        description = crew.fork.description
        self._crew = crew
        self._clocks = Clocks()
        self._changed = threading.Event()  # something happened that whoever waits for a call should look at
        self._asks = threading.Event()  # for its next call
        self._next: wire.SubmitTask | None = None
        self._result: wire.TaskDone | None = None
        self._why: str | None = None
        self._most_cpu: float | None = None
        self._output = {"stdout": "", "stderr": ""}
        self._showed = False
        self._worker = Worker(number, number, description.pool, description.era, self)

        def make(output: Callable[[int, bytes], None], frame: Callable[[bytes], bytes]) -> object:
            handlers = Handlers(
                output,
                frame,
                crew.fork.files.first_change,
                lambda kind, wanted: crew.session.room.give(self, kind, wanted),
                max_frame=wire.MAX_FRAME_BYTES,
            )
            return crew.fork.instance(limits, handlers)

        self._worker.start(fork, function, None, make)  # type: ignore[arg-type]

    @property
    def ended_already(self) -> bool:
        """Whether it can run no more calls."""
        return self._why is not None

    def goes_on(self) -> bool:
        """Whether it can run another call. One that does something else by now is ended."""
        if not self.ended_already and not self._asks.wait(_MOST_BETWEEN):
            self.stop("it did not ask for its next call")
        return not self.ended_already

    def run(self, call: Call, wanted: Callable[[], bool]) -> CallOutcome:
        """Run a call to its end, or until nobody wants it any more."""
        self._result, self._output, self._showed = None, {"stdout": "", "stderr": ""}, False
        self._changed.clear()
        before = self._clocks.seconds()
        limit = self._crew.fork.policy.timeout_seconds  # the session's, or this machine's if that is stricter
        allowed = [most for most in (call.cpu_seconds, limit) if most is not None]
        self._most_cpu = before + min(allowed) if allowed else None
        end = None if limit is None else time.monotonic() + limit
        self._next = wire.SubmitTask(0, 0, call.task, (call.data,))
        self._worker.wake()
        while self._result is None and self._why is None:
            self._changed.wait(_LOOK)
            self._changed.clear()
            if not wanted():
                self.stop(CANCELLED)
            elif end is not None and time.monotonic() > end:
                self.stop(too_long(self._crew.fork.policy))
        cpu = max(0.0, self._clocks.seconds() - before)
        changed = self._worker.changed_files or self._crew.changed_files()
        outputs = (self._output["stdout"], self._output["stderr"])
        if self._result is not None:
            status, data = self._result.status, self._result.buffers[0]
            return CallOutcome(DONE, "", status, data, *outputs, cpu, changed, self._showed)
        # One that was gone before it took the call says nothing about it: another copy gets it.
        why = self._why or "" if self._next is None else ""
        return CallOutcome(ENDED, why, 0, b"", *outputs, cpu, changed, self._showed)

    def stop(self, why: str) -> None:
        """End it by force."""
        self._worker.stop(why)
        while self._worker.thread.is_alive():
            self._crew.bump(self._worker)
            self._worker.thread.join(_JOIN)

    def private_bytes(self) -> int:
        """How much of its memory it has written."""
        return private_bytes(self._worker.address, self._crew.fork.policy.memory_bytes) if self._worker.address else 0

    def end(self, why: str) -> None:
        """Have it ended by force, without waiting for it."""
        self._worker.stop(why)

    # ---- as `Employer` says

    def began(self, worker: Worker) -> None:
        """As `Employer` says."""
        self._clocks.start()

    def take(self, worker: Worker) -> wire.SubmitTask | None:
        """As `Employer` says."""
        task, self._next = self._next, None
        if task is None:
            self._asks.set()
        else:
            self._asks.clear()
        return task

    def done(self, worker: Worker, result: wire.TaskDone) -> None:
        """As `Employer` says. What it does between calls counts for no call, so it may not be much."""
        self._most_cpu = self._clocks.seconds() + _MOST_BETWEEN
        self._result = result
        self._changed.set()

    def print(self, stream: str, text: str) -> None:
        """As `Employer` says: kept until the call is done, as much as a cell may print."""
        policy = self._crew.fork.policy
        most = policy.stdout_max_bytes if stream == "stdout" else policy.stderr_max_bytes
        room = most - len(self._output[stream])
        self._output[stream] += text[: max(0, room)]

    def refused(self) -> None:
        """As `Employer` says."""
        self._showed = True

    def ended(self, worker: Worker, why: str) -> None:
        """As `Employer` says."""
        self._clocks.stop()
        self._crew.session.room.take_back(self)
        self._why = why
        self._changed.set()

    def watch(self, now: float) -> None:
        """As `Employer` says."""
        if self._most_cpu is not None and self._clocks.seconds() > self._most_cpu:
            self.end(too_long(self._crew.fork.policy))
        self._crew.session.watch(now)


class SessionLimits:
    """What all copies of one session in this process share, of whichever fork. Thread-safe.

    So many copies are there as calls can run at a time, whatever number of pools they belong to: of those that rest,
    the ones of other forks make way.

    Attributes:
        room: Room on the disk.
    """

    def __init__(self, threads: int) -> None:
        """``threads``: how many calls may run at a time."""
        self.threads = threads
        self._lock = threading.Lock()
        self._crews: list[Crew] = []
        self._looks: Looks | None = None
        self.room = SharedRoom(self._left, lambda: sum(len(crew.copies()) for crew in self.crews()) + 1)

    def crews(self) -> list[Crew]:
        """The copies of each fork; the newest fork is the last."""
        with self._lock:
            return list(self._crews)

    def join(self, crew: Crew) -> None:
        """There is one more fork."""
        with self._lock:
            self._crews.append(crew)
            if self._looks is None:
                self._looks = Looks(crew.most_private_bytes)

    def leave(self, crew: Crew) -> None:
        """A fork is gone, and its files with it."""
        with self._lock:
            self._crews = [other for other in self._crews if other is not crew]

    def make_way(self, crew: Crew) -> None:
        """See that there may be one copy more, of this fork."""
        crews = self.crews()
        for other in crews:
            while other is not crew and sum(len(one.copies()) for one in crews) >= self.threads:
                if not other.let_one_go():
                    break

    def _left(self, kind: int) -> tuple[int, int]:
        """What they may still write, all of them into folders of their own fork's."""
        crews = self.crews()
        written = [crew.written(kind) for crew in crews]
        left = [min(crew.allowed[n] for crew in crews) - sum(one[n] for one in written) for n in range(2)]
        return max(0, left[0]), max(0, left[1])

    def watch(self, now: float) -> None:
        """On the ticker's thread: see that all of them have no more memory than the session may have."""
        with self._lock:
            looks, crews = self._looks, list(self._crews)
            if looks is None or not looks.due(now) or not looks.may_be_too_much():
                return
        workers = [worker for crew in crews for worker in crew.copies()]
        sizes = [(worker.private_bytes(), worker) for worker in workers if not worker.ended_already]
        if sum(size for size, _ in sizes) > looks.private_bytes:
            size, largest = max(sizes, key=lambda one: one[0])
            most = format_size(crews[-1].fork.policy.memory_bytes)
            largest.end(
                f"the notebook and its calls on one machine need more than the memory limit of {most}; this one had "
                f"changed {format_size(size)}. Use `%session limits memory=…`"
            )


class Crew:
    """The copies of one fork in this process: they share its files, and with other forks the session's limits.

    Attributes:
        fork: What they are copies of.
        session: The limits that they share.
        allowed: Bytes and names that could be written when there was none yet.
        most_private_bytes: How much they may change of its memory.
    """

    def __init__(self, fork: ReceivedFork, session: SessionLimits, number: Callable[[], int]) -> None:
        """``number``: of the next copy."""
        self.fork, self.session, self._number = fork, session, number
        self._lock = threading.Lock()
        self._idle: list[RemoteWorker] = []
        self._all: set[RemoteWorker] = set()
        policy, size = fork.policy, fork.fork.memory.size
        self.allowed = fork.files.left(policy, 0)
        self.most_private_bytes = policy.memory_bytes - size
        self._share = divide(session.threads, size, 0, policy, None)
        self._free = threading.Semaphore(self._share.workers)
        self._limits = Limits(self._share.memory_bytes, policy.max_file_bytes, open_files(policy, session.threads))
        self.calls = 0  # that run or wait; under the lock of whoever has it
        session.join(self)

    @property
    def problem(self) -> str:
        """Why no call can run; empty if they can."""
        if self._share.workers:
            return ""
        policy = self.fork.policy
        return (
            f"the memory limit of {format_size(policy.memory_bytes)} leaves no room for workers: the notebook has "
            f"{format_size(self.fork.fork.memory.size)} of it. `%session limits memory=…` raises it"
        )

    def run(self, call: Call, wanted: Callable[[], bool]) -> CallOutcome:
        """Run a call in a copy that is free, or in a new one."""
        while not self._free.acquire(timeout=_LOOK):
            if not wanted():
                return CallOutcome(ENDED, CANCELLED)
        try:
            while True:
                worker = self._take()
                try:
                    outcome = worker.run(call, wanted)
                finally:
                    self._give_back(worker)
                if outcome.kind != ENDED or outcome.text:
                    return outcome  # else it had run as many calls as it should, and left
        finally:
            self._free.release()

    def _take(self) -> RemoteWorker:
        while (worker := self._rested()) is not None:
            if worker.goes_on():
                return worker
            with self._lock:
                self._all.discard(worker)
        self.session.make_way(self)
        description = self.fork.description
        worker = RemoteWorker(self, self._number(), self.fork.fork, description.function, self._limits)
        with self._lock:
            self._all.add(worker)
        return worker

    def _rested(self) -> RemoteWorker | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, worker: RemoteWorker) -> None:
        with self._lock:
            if worker.ended_already:
                self._all.discard(worker)
            else:
                self._idle.append(worker)

    def changed_files(self) -> bool:
        """Whether any of them changed a file."""
        return self.fork.files.changed

    def bump(self, worker: Worker) -> None:
        """Get the attention of a copy that is to end."""
        worker.bump()

    def copies(self) -> list[RemoteWorker]:
        """All of them."""
        with self._lock:
            return list(self._all)

    def let_one_go(self) -> bool:
        """End one that has nothing to do; whether there was one."""
        worker = self._rested()
        if worker is not None:
            worker.stop("")
            with self._lock:
                self._all.discard(worker)
        return worker is not None

    def written(self, kind: int) -> tuple[int, int]:
        """Bytes and names that they have written. ``kind``: as for `GuestFiles.left`."""
        left = self.fork.files.left(self.fork.policy, kind)
        return self.allowed[0] - left[0], self.allowed[1] - left[1]

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            workers, self._all, self._idle = list(self._all), set(), []
        for worker in workers:
            worker.stop("")
        self.session.leave(self)
        self.fork.close()
