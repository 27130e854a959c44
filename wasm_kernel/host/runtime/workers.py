"""The workers of a cell: forks of its guest on this machine, which run its tasks side by side.

The guest stands still in a call to the host while it is forked: linear memory, open files, clock and stack pointer are
its whole state. Then it goes on, and its workers run on threads of their own, each in an instance of its own. wasm runs
without the interpreter's lock, so they really run at the same time.

All workers end before the turn does: their memories are mapped from the overlay, which is about to change, and nothing
of them belongs to the guest that is kept. What is theirs besides results (variables they changed) is gone with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.guest_files import GuestFiles
from wasm_kernel.host.runtime.guest_image import GuestImage
from wasm_kernel.host.runtime.instance import Instance
from wasm_kernel.host.runtime.instance_parts import Fork, Handlers, Limits
from wasm_kernel.host.runtime.output_buffer import OutputBuffer
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.host.runtime.tasks import Results, TaskQueues, TaskRunner
from wasm_kernel.host.runtime.worker import Worker
from wasm_kernel.host.runtime.worker_limits import Clocks, Looks, Share, SharedRoom, divide, open_files, private_bytes
from wasm_kernel.model.policy import ExecutionPolicy, processors
from wasm_kernel.model.units import format_duration, format_size

INTERRUPTED = "the cell was interrupted"
CELL_ENDED = "the cell ended"
_GUEST = "guest"  # among those who share room on the disk
_JOIN = 0.05  # seconds between looks at a worker that does not end
MOST_BETWEEN = 2.0  # seconds that a worker may take from a result to its next task


def most_workers(policy: ExecutionPolicy) -> int:
    """How many workers there may be at a time: what the policy says, and not more than there are processors."""
    return min(policy.workers, processors())


class Elsewhere(Protocol):
    """Another place than this machine where workers can run."""

    def most_workers(self, policy: ExecutionPolicy) -> int:
        """How many there may be at a time."""

    def runner(self, turn: Turn, image: GuestImage, packages: Path | None) -> TaskRunner:
        """What runs the tasks of a turn there. ``packages``: the folder that the guest sees as /packages."""


@dataclass(frozen=True)
class Turn:
    """What workers need of the guest whose turn it is.

    Attributes:
        instance: The guest.
        run: Its turn: an interrupt or a time limit of it ends its workers.
        capture: Where their output goes.
        files: The files they share.
        policy: The limits they share.
        make: Makes an instance over a forked memory.
    """

    instance: Instance
    run: Run
    capture: OutputBuffer
    files: GuestFiles
    policy: ExecutionPolicy
    make: Callable[[Limits, Handlers, Fork], Instance]


class LocalWorkers:
    """All workers of one turn, of all its pools. A `TaskRunner`."""

    def __init__(self, turn: Turn) -> None:
        self._turn, policy = turn, turn.policy
        self._most = most_workers(policy)
        self.results = Results(turn.run.wake.set, self._room_made)
        self._lock = threading.Lock()  # for the queues, and for which worker has what
        self._queues = TaskQueues()
        self._workers: dict[int, Worker] = {}
        self._grows: dict[int, int] = {}
        self._copies: dict[int, tuple[int, int]] = {}  # by worker: which fork it is of, and what that had to copy
        self._started = 0
        self._interrupts = turn.run.interrupts
        self._room = SharedRoom(lambda kind: turn.files.left(policy, kind), lambda: len(self._workers) + 1)
        self._clocks = Clocks()
        self._looks: Looks | None = None
        self._fuel_back = 0
        self._changed_files = False

    # ---- for the guest, on its thread

    def start(self, request: wire.StartWorkers) -> tuple[int, str]:
        """As `TaskRunner.start` says."""
        guest, policy, run = self._turn.instance, self._turn.policy, self._turn.run
        if run.seen > self._interrupts:  # it ends what was forked before, and not what the guest forks after it
            self._interrupts = run.seen
            self._stop_all(INTERRUPTED)
        self._collect()
        wanted = min(request.count, self._most)
        self._make_way(request, wanted)
        wanted = min(wanted, self._most - len(self._workers))
        if wanted <= 0:
            return 0, ""
        if policy.timeout_seconds is not None and self._clocks.seconds() >= policy.timeout_seconds:
            return 0, too_long(self._turn.policy)
        share = self._share(wanted)
        if not share.workers and self._workers:
            self._make_way(request, self._most)  # for their memory
            share = self._share(wanted)
        if not share.workers:
            if self._workers:
                return 0, ""  # until these have done their work
            return 0, (
                f"the memory limit of {format_size(policy.memory_bytes)} leaves no room for workers: the notebook has "
                f"{format_size(guest.memory_size)} of it. `%session limits memory=…` raises it"
            )
        fork = guest.fork()
        if fork is None:
            return 0, "this session was saved by an earlier version, whose machine code cannot be forked"
        if self._looks is None:
            self._looks = Looks(policy.memory_bytes - guest.memory_size)
            self._clocks.start()
        guest.limit_growth(share.guest_bytes)
        guest.files_changed_elsewhere(False)  # from now on it asks for room as they do,
        self._room.take_back(_GUEST)  # and what it was given while it was alone is not its own any more
        started = 0
        try:
            limits = Limits(share.memory_bytes, policy.max_file_bytes, open_files(policy, self._most))
            fork = replace(fork, rest=replace(fork.rest, files=fork.rest.files[: limits.max_open_files]))
            for index in range(share.workers):
                self._start_one(request, fork, index, limits, share)
                started += 1
        except OSError as e:
            if not started:
                return 0, f"the system has no room for another worker: {e.strerror}"
        finally:
            fork.memory.close()
            if share.fuel is not None:
                guest.spend_fuel(share.fuel * started)
        return started, ""

    def _share(self, wanted: int) -> Share:
        """What each of so many new workers may have. A copy that is no other worker's comes with every fork but one."""
        guest = self._turn.instance
        with self._lock:
            given = sum(self._grows.values()) + sum(dict(self._copies.values()).values())
        return divide(wanted, guest.memory_size, given, self._turn.policy, guest.fuel_left())

    def _start_one(self, request: wire.StartWorkers, fork: Fork, index: int, limits: Limits, share: Share) -> None:
        self._started += 1
        worker = Worker(self._started, index, request.pool, request.era, self)
        assert isinstance(fork.memory, ForkedMemory)
        with self._lock:
            self._workers[worker.number], self._grows[worker.number] = worker, share.grows
            self._copies[worker.number] = self._started - index, fork.memory.copied_bytes

        def make(output: Callable[[int, bytes], None], frame: Callable[[bytes], bytes]) -> Instance:
            handlers = Handlers(
                output,
                frame,
                self._turn.files.first_change,
                lambda kind, wanted: self._room.give(worker.number, kind, wanted),
                max_frame=wire.MAX_FRAME_BYTES,
            )
            return self._turn.make(limits, handlers, fork)

        try:
            worker.start(fork, request.entry, share.fuel, make)
        except BaseException:
            with self._lock:
                del self._workers[worker.number], self._grows[worker.number], self._copies[worker.number]
            raise

    def _make_way(self, request: wire.StartWorkers, wanted: int) -> None:
        """Let workers go that have nothing to do, if their places are needed: of other pools, and of earlier eras."""
        with self._lock:
            workers = list(self._workers.values())
            needed = wanted - (self._most - len(workers))
            for worker in workers:
                older = worker.pool == request.pool and worker.era < request.era
                other = worker.pool != request.pool and not self._queues.has(worker.pool)
                if needed > 0 and worker.idle and (older or other):
                    worker.leaving = True
                    needed -= 1
            leaving = [worker for worker in workers if worker.leaving and worker.task < 0]
        for worker in leaving:
            worker.wake()
            self._join(worker)

    def submit(self, task: wire.SubmitTask) -> None:
        """As `TaskRunner.submit` says."""
        with self._lock:
            self._queues.add(task)
            idle = [worker for worker in self._workers.values() if worker.idle and worker.pool == task.pool]
        for worker in idle[:1]:
            worker.wake()

    def cancel(self, pool: int, task: int) -> bool:
        """As `TaskRunner.cancel` says."""
        with self._lock:
            return self._queues.cancel(pool, task)

    def stop(self, pool: int, *, at_once: bool) -> None:
        """As `TaskRunner.stop` says."""
        with self._lock:
            self._queues.clear(pool)
            workers = [worker for worker in self._workers.values() if worker.pool == pool]
            for worker in workers:
                worker.leaving = True
        for worker in workers:
            if at_once:
                worker.stop("")
            worker.wake()
        if workers and at_once:
            self._turn.instance.bump()
        for worker in workers:
            if at_once or worker.task < 0:
                self._join(worker)

    def room(self, kind: int, wanted: int) -> tuple[int, int]:
        """Bytes and names that the guest itself may still use."""
        return self._room.give(_GUEST, kind, wanted)

    def end(self) -> None:
        """As `TaskRunner.end` says."""
        for worker in list(self._workers.values()):
            worker.stop(CELL_ENDED)
        for worker in list(self._workers.values()):
            self._join(worker)
        if self._started:
            guest = self._turn.instance
            guest.files_changed_elsewhere(self._changed_files)
            guest.let_grow(True)
            self._turn.run.fuel_used -= self._fuel_back

    def _join(self, worker: Worker) -> None:
        while worker.thread.is_alive():
            if worker.run.stop:
                self._turn.instance.bump()
            worker.thread.join(_JOIN)

    def _collect(self) -> None:
        """What workers that are gone did not need."""
        back, self._fuel_back = self._fuel_back, 0
        self._turn.instance.spend_fuel(-back)

    # ---- for workers, on their threads

    def began(self, worker: Worker) -> None:
        """As `Employer` says."""
        self._clocks.start()

    def take(self, worker: Worker) -> wire.SubmitTask | None:
        """As `Employer` says."""
        with self._lock:
            task = None if worker.leaving else self._queues.take(worker.pool, worker.era)
            worker.idle = task is None
            if task is None and self._queues.has(worker.pool):
                worker.leaving = True  # what waits is for workers that know what the guest knows now
            return task

    def done(self, worker: Worker, result: wire.TaskDone) -> None:
        """As `Employer` says."""
        data = result.buffers[0]
        worker.wait(lambda: self.results.has_room(len(data)))
        self.results.put({"pool": worker.pool, "task": result.task, "status": result.status}, data)

    def _room_made(self) -> None:
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.wake()

    def print(self, stream: str, text: str) -> None:
        """As `Employer` says."""
        if text:
            self._turn.capture.print(stream, text)

    def refused(self) -> None:
        """As `Employer` says."""
        text = "a worker cannot show display data or widgets: return what is to be shown, and show it in the cell"
        self._turn.capture.notice("worker", text)

    def ended(self, worker: Worker, why: str) -> None:
        """As `Employer` says."""
        self._clocks.stop()
        self._room.take_back(worker.number)
        with self._lock:
            del self._workers[worker.number]
            del self._grows[worker.number]
            del self._copies[worker.number]
            self._changed_files |= worker.changed_files
            self._fuel_back += worker.fuel_left
        self.results.put({"pool": worker.pool, "era": worker.era, "ended": why})

    def watch(self, now: float) -> None:
        """As `Employer` says: end workers with the turn, and those of a cell whose workers have had too much."""
        run = self._turn.run
        if run.stop or run.timed_out or run.interrupts != self._interrupts:
            self._interrupts = run.interrupts
            self._stop_all(INTERRUPTED if not run.timed_out else "the time limit of the cell is over")
        for worker in list(self._workers.values()):
            if worker.handed_in is not None and now - worker.handed_in > MOST_BETWEEN:
                worker.stop("")  # it does something else by now; another one takes its place
        if self._looks is None or not self._looks.due(now):
            return
        limit = self._turn.policy.timeout_seconds
        if limit is not None and self._clocks.seconds() > limit:
            self._stop_all(too_long(self._turn.policy))
        if self._looks.may_be_too_much():
            self._look_at_memory(self._looks.private_bytes)

    def _look_at_memory(self, most: int) -> None:
        memory_bytes = self._turn.policy.memory_bytes
        sizes = [(private_bytes(w.address, memory_bytes), w) for w in list(self._workers.values()) if w.address]
        if sum(size for size, _ in sizes) > most:
            size, largest = max(sizes, key=lambda one: one[0])
            largest.stop(
                f"the notebook and its workers need more than the memory limit of {format_size(memory_bytes)}; this "
                f"one had changed {format_size(size)}. Use fewer workers, or `%session limits memory=…`"
            )

    def _stop_all(self, why: str) -> None:
        for worker in list(self._workers.values()):
            worker.stop(why)


def too_long(policy: ExecutionPolicy) -> str:
    """What is said when a cell and its workers have used up their time."""
    limit = format_duration(policy.timeout_seconds or 0)
    return (
        f"the time limit of {limit} holds for the CPU time of a cell and its workers together, and is used up. "
        "`%session limits timeout=…` raises it"
    )
