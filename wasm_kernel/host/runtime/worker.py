"""One worker: a copy of a guest, with an instance and a thread of its own, that takes tasks until there are no more.

It can print, use files as the guest does, and hand in results. Everything else it says is refused: it shows nothing,
asks nobody, has no workers of its own. It never returns to the guest's frames; its memory is thrown away with it.
"""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import Callable
from typing import Protocol

from wasm_kernel.guest import wire
from wasm_kernel.host.runtime import engine
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.instance import Instance
from wasm_kernel.host.runtime.instance_parts import Fork
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.host.runtime.ticker import ticker
from wasm_kernel.model.outcome import TrapCause

_STREAMS = {1: "stdout", 2: "stderr"}
_ENDS = {
    TrapCause.STACK_OVERFLOW: "its C stack overflowed, most likely by deep recursion",
    TrapCause.ABORT: "it aborted",
    TrapCause.OUT_OF_FUEL: "its part of the cell's fuel is used up (`%session limits fuel=…`)",
    TrapCause.DAMAGE: "its memory was damaged",
    TrapCause.HOST: "the host failed while serving it",
}

MakeInstance = Callable[
    [Callable[[int, bytes], None], Callable[[bytes], bytes]], Instance
]  # output and frames go there


class Employer(Protocol):
    """What a worker needs of whoever has it. Called on the worker's thread, but for `watch`."""

    def watch(self, now: float) -> None:
        """A few milliseconds have passed. On the ticker's thread."""

    def take(self, worker: Worker) -> wire.SubmitTask | None:
        """The next task, if there is one; whether the worker leaves is said in `Worker.leaving`."""

    def done(self, worker: Worker, result: wire.TaskDone) -> None:
        """A result of the task it had; waits until there is room for it."""

    def print(self, stream: str, text: str) -> None:
        """Something it printed."""

    def refused(self) -> None:
        """It tried to show something."""

    def began(self, worker: Worker) -> None:
        """Its thread runs."""

    def ended(self, worker: Worker, why: str) -> None:
        """It is gone; ``why``: what went wrong, empty if nothing."""


class _WorkerRun(Run):
    """A worker's one turn: its employer looks after limits whenever the ticker looks at it."""

    def __init__(self, employer: Employer) -> None:
        super().__init__(None, 1.0)
        self._employer = employer

    def due(self, now: float) -> bool:
        self._employer.watch(now)
        return super().due(now)


class Worker:
    """A copy of a guest that runs tasks."""

    def __init__(self, number: int, index: int, pool: int, era: int, employer: Employer) -> None:
        """``number``: its own in this turn. ``index``: which one it is of those that were forked together."""
        self.number, self._index, self.pool, self.era, self._employer = number, index, pool, era, employer
        self.run = _WorkerRun(employer)
        self.task = -1  # the one it has
        self.handed_in: float | None = None  # when: it has done that, and not asked for another task yet
        self.idle = False
        self.leaving = False  # it gets no more tasks
        self.why = ""  # it is stopped
        self.fuel_left = 0
        self.changed_files = False
        self.address = 0  # of its memory
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {1: decoder("replace"), 2: decoder("replace")}

    def start(self, fork: Fork, entry: int, fuel: int | None, make: MakeInstance) -> None:
        """Copy the guest, here and now, and let the copy call the function at ``entry`` on a thread of its own."""
        self._instance = make(self._print, self._frame)
        self.address = self._instance.memory_span[0]
        self._stack_pointer, self._entry, self._fuel = fork.stack_pointer, entry, fuel
        self.thread: threading.Thread = engine.start_thread(self._body, f"wasm-kernel-worker-{self.number}")

    def stop(self, why: str) -> None:
        """End it by force; the first reason stays, and none means that nobody need be told. From any thread."""
        if not self.run.stop:
            self.why = why
        self.run.halt()

    def bump(self) -> None:
        """Get its attention now. From any thread."""
        self._instance.bump()

    def wake(self) -> None:
        """Let it look again whether it can go on."""
        self.run.wake.set()

    def wait(self, until: Callable[[], bool]) -> None:
        """On its own thread: wait until something holds. Raises `Stop`."""
        self._instance.pump(until)

    def _body(self) -> None:
        why = ""
        try:
            self._employer.began(self)
            ticker.enter(self._instance)
            try:
                if not self._instance.run_forked(self.run, self._stack_pointer, self._entry, self._fuel):
                    why = "an exception ended it"
            finally:
                ticker.leave(self._instance)
                self.changed_files = self._instance.changed_files
        except Trapped as e:
            why = self._reason(e)
        except BaseException as e:  # noqa: BLE001 - it is one worker that ends
            why = f"the host failed while serving it ({type(e).__name__})"
        finally:
            self.fuel_left = max(0, self._fuel - self.run.fuel_used) if self._fuel is not None else 0
            for fd, decoder in self._decoders.items():
                self._employer.print(_STREAMS[fd], decoder.decode(b"", True))
            self._instance.close()
            self._employer.ended(self, why)

    def _reason(self, trap: Trapped) -> str:
        if trap.cause is TrapCause.STOPPED:
            return self.why
        if trap.cause is TrapCause.EXIT:
            return f"it ended the interpreter with exit code {trap.exit_code}"
        return _ENDS.get(trap.cause, trap.cause.value)

    # ---- what it says

    def _print(self, fd: int, data: bytes) -> None:
        text = self._decoders[fd if fd in _STREAMS else 1].decode(data)
        self._employer.print(_STREAMS.get(fd, "stdout"), text)

    def _frame(self, frame: bytes) -> bytes:
        event = wire.decode_event(frame)
        if isinstance(event, wire.NextTask):
            return self._next_task()
        if isinstance(event, wire.TaskDone):
            if not self._has(event.task):
                raise wire.BadFrame("a result of a task that this worker does not have")
            self._employer.done(self, event)
            self.task, self.handed_in = -1, time.monotonic()
        elif isinstance(event, wire.InputRequest | wire.HostMagic | wire.Waiting | wire.Network):
            return wire.ANSWER_REFUSED
        elif isinstance(event, wire.WorkerRequest | wire.NextRequest | wire.Reply | wire.Unused):
            raise wire.BadFrame("not for a worker")
        elif not isinstance(event, wire.InterruptSeen | wire.Parent):
            self._employer.refused()
        return b""

    def _has(self, task: int) -> bool:
        """Whether this is the task that it was given last, and has not handed in yet."""
        return 0 <= task == self.task

    def _next_task(self) -> bytes:
        found: list[wire.SubmitTask] = []

        def ready() -> bool:
            task = None if found else self._employer.take(self)
            if task is not None:
                found.append(task)
            return bool(found) or self.leaving

        self.task, self.handed_in = -1, None
        self.wait(ready)
        if not found:
            return wire.ANSWER_EOF
        self.task = found[0].task
        header = {"task": self.task, "worker": self.number, "index": self._index}
        return wire.ANSWER_TEXT + wire.encode(header, found[0].buffers)
