"""Calls that a guest wants to have run elsewhere, and their results: bytes that the host passes on and never opens.

The guest pickles a call, a copy of the guest runs it and pickles the result, the guest unpickles that. What happens in
between is a `TaskRunner`'s: `workers.LocalWorkers` forks the guest on this machine. Another one could send the forked
guest to other machines; the guest would not notice.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from wasm_kernel.guest import wire

MOST_WAITING_BYTES = 256 << 20  # of calls that no worker has yet; and of results that the guest has not fetched
MOST_WAITING_TASKS = 100_000
MOST_POOLS = 1000
_MOST_AT_ONCE = 256  # results in one answer
_LONGEST_WAIT = 3600.0


class TaskRunner(Protocol):
    """Where the tasks of one turn run. Called on the guest's thread, while the guest stands still."""

    results: Results

    def start(self, request: wire.StartWorkers) -> tuple[int, str]:
        """Fork the guest as it is now; how many workers there are more, and why there are not as many as asked for."""

    def submit(self, task: wire.SubmitTask) -> None:
        """Have a task run. `BadFrame` if there are too many."""

    def cancel(self, pool: int, task: int) -> bool:
        """Take a task back; False if it runs already."""

    def stop(self, pool: int, *, at_once: bool) -> None:
        """End the workers of a pool, and forget its tasks."""

    def room(self, kind: int, wanted: int) -> tuple[int, int]:
        """Bytes and names that the guest itself may still use on the disk."""

    def end(self) -> None:
        """End all workers, and wait until none can touch what is the guest's: the turn is over."""


class Results:
    """What came back for the guest and waits to be fetched: results, and news of workers. Thread-safe."""

    def __init__(self, wake: Callable[[], None], room_made: Callable[[], None]) -> None:
        """``wake``: something is there to fetch. ``room_made``: it was fetched; whoever waited for room looks again."""
        self._wake, self._room_made = wake, room_made
        self._lock = threading.Lock()
        self._waiting: deque[tuple[dict[str, Any], bytes]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def has_room(self, size: int) -> bool:
        """Whether a result of this size may be put now: a worker waits with it until then."""
        return not self._waiting or self._bytes + size <= MOST_WAITING_BYTES

    def put(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Something for the guest."""
        with self._lock:
            self._waiting.append((header, data))
            self._bytes += len(data)
        self._wake()

    def fetch(self) -> bytes:
        """What waits, as one answer that the guest can hold."""
        headers: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        size = 0
        with self._lock:
            while self._waiting and len(headers) < _MOST_AT_ONCE:
                if headers and size + len(self._waiting[0][1]) > wire.MAX_TASK_BYTES:
                    break
                header, data = self._waiting.popleft()
                headers.append(header)
                buffers.append(data)
                size += len(data)
            self._bytes -= size
        self._room_made()
        return wire.ANSWER_TEXT + wire.encode({"events": headers}, tuple(buffers))


def answer(runner: TaskRunner, request: wire.WorkerRequest, wait: Callable[[Callable[[], bool], float], bool]) -> bytes:
    """Do what a guest asks of its workers. ``wait``: until something holds, or for so long; False: interrupted."""
    if isinstance(request, wire.StartWorkers):
        started, why = runner.start(request)
        return json.dumps({"started": started, "why": why}).encode()
    if isinstance(request, wire.SubmitTask):
        runner.submit(request)
    elif isinstance(request, wire.CancelTask):
        return wire.ANSWER_TEXT if runner.cancel(request.pool, request.task) else wire.ANSWER_REFUSED
    elif isinstance(request, wire.StopWorkers):
        runner.stop(request.pool, at_once=request.at_once)
    elif not wait(lambda: bool(runner.results), min(request.seconds, _LONGEST_WAIT)):
        return wire.ANSWER_INTERRUPTED
    elif runner.results:
        return runner.results.fetch()
    return b""


class TaskQueues:
    """Tasks that wait for a worker, by pool. Not thread-safe: its user has a lock."""

    def __init__(self) -> None:
        self._pools: dict[int, deque[wire.SubmitTask]] = {}
        self._bytes = self._count = 0

    def add(self, task: wire.SubmitTask) -> None:
        """One more; `BadFrame` if it is too large, or too much waits already."""
        size = len(task.buffers[0])
        if size > wire.MAX_TASK_BYTES:
            raise wire.TooMuch(f"a task has {size} bytes; {wire.MAX_TASK_BYTES} are allowed")
        if self._bytes + size > MOST_WAITING_BYTES or self._count >= MOST_WAITING_TASKS:
            raise wire.TooMuch("too many tasks wait for a worker")
        if task.pool not in self._pools and len(self._pools) >= MOST_POOLS:
            raise wire.TooMuch(f"a cell has at most {MOST_POOLS} pools with tasks that wait")
        self._pools.setdefault(task.pool, deque()).append(task)
        self._count, self._bytes = self._count + 1, self._bytes + size

    def has(self, pool: int) -> bool:
        """Whether any waits."""
        return pool in self._pools

    def take(self, pool: int, era: int) -> wire.SubmitTask | None:
        """The next one for a worker that was forked in this era."""
        return self._remove(pool, lambda task: task.era <= era)

    def cancel(self, pool: int, number: int) -> bool:
        """Take one back; False if it is not there."""
        return self._remove(pool, lambda task: task.task == number) is not None

    def clear(self, pool: int) -> None:
        """Forget all of a pool."""
        while self.take(pool, 1 << 62) is not None:
            pass

    def _remove(self, pool: int, wanted: Callable[[wire.SubmitTask], bool]) -> wire.SubmitTask | None:
        queue = self._pools.get(pool, deque())
        for at, task in enumerate(queue):
            if wanted(task):
                del queue[at]
                if not queue:
                    del self._pools[pool]
                self._count, self._bytes = self._count - 1, self._bytes - len(task.buffers[0])
                return task
        return None
