"""The one thread that a sandbox works on. Callers hand it a job at a time, and wait for it or are called back.

Everything that enters wasm happens there. What comes from other threads meanwhile (an interrupt, an answer to the
guest's question, the end) reaches the turn in progress through its `Run`.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from wasm_kernel.errors import SandboxBusy, SandboxClosed
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime import engine
from wasm_kernel.host.runtime.instance import Instance
from wasm_kernel.host.runtime.run import Run

Deliver = Callable[[str, Any], None]
"""Called with what happens in an execution, on the sandbox's thread: "input" or "magic" with the request, which wants
`Sandbox.answer`; "waiting" with a number, when the cell awaits something and `Sandbox.claim`, then `answer`, may give
it a message; and at the end "done" with the result or "error" with an exception."""

T = TypeVar("T")
OnInput = Callable[[wire.InputRequest], str]
OnMagic = Callable[[wire.HostMagic], bytes]

_CALLER_FIRST = 0.002  # seconds
_LONGEST_WAIT = 3600.0
_IDLE = 1.0  # seconds without a job, after which there is time for what nobody waits for


@dataclass(frozen=True)
class Job:
    """Work for the sandbox's thread, and where its result goes."""

    work: Callable[[], Any]
    deliver: Deliver


class JobThread:
    """Runs one job at a time; a second one is refused. Thread-safe, except for the methods for its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._job: Job | None = None
        self._busy = False
        self._between = threading.Lock()  # held by whoever does something to the guest that is no job
        self._interrupt_first = False
        self._instance: Instance | None = None  # the one that has a turn now
        self._interruptible = False
        self.run: Run | None = None  # that turn
        self.closed = False
        self.question: wire.InputRequest | wire.HostMagic | None = None  # what the guest waits to have answered
        self._awaiting = 0  # the number of the present wait for a message; 0: none
        self._waits = 0  # how many there were

    def start(
        self, settle: Callable[[], None], finish: Callable[[], None], rest: Callable[[], None] = lambda: None
    ) -> None:
        """Start the thread.

        ``settle`` is called after the result of every job is delivered, ``rest`` when no other one came for a while,
        ``finish`` at the end.
        """
        self._settle, self._finish, self._rest = settle, finish, rest
        self._thread = engine.start_thread(self._work, "wasm-kernel-sandbox")
        _open_threads.add(self)

    # ---- for callers

    def submit(self, job: Job) -> None:
        """Have a job done. `SandboxBusy` while another one is."""
        with self._lock:
            if self.closed:
                raise SandboxClosed("this sandbox is closed; create a new one")
            if self._busy:
                raise SandboxBusy("this sandbox is already running code; wait for it, interrupt it, or create another")
            self._busy = True
            self._jobs.put(job)

    def unless_busy(self, work: Callable[[], T | None]) -> T | None:
        """Do something quick on the caller's thread, while this one does nothing; None if it has a job."""
        with self._lock:
            if self.closed or self._busy:
                return None
            self._busy = True
        try:
            with self._between:
                return work()
        finally:
            with self._lock:
                self._busy = self._interrupt_first = False

    def wait(self, work: Callable[[], Any], on_input: OnInput | None = None, on_magic: OnMagic | None = None) -> Any:
        """Have work done and wait for its result. Ctrl-C here interrupts the guest, then raises."""
        messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.submit(Job(work, lambda kind, value: messages.put((kind, value))))
        interrupted = None
        while True:
            try:
                kind, value = messages.get()
                if kind == "input":
                    self.answer(wire.ANSWER_REFUSED if on_input is None else line_of(on_input, value), value)
                    continue
                if kind == "magic":
                    self._answer_magic(on_magic, value)
                    continue
                if kind == "waiting":
                    if self.claim(value):
                        self.answer(wire.ANSWER_REFUSED)
                    continue
            except KeyboardInterrupt as e:
                interrupted = e
                self.interrupt()
                continue
            break
        if interrupted is not None:
            raise interrupted
        if kind == "error":
            raise value
        return value

    def _answer_magic(self, on_magic: OnMagic | None, magic: wire.HostMagic) -> None:
        """Have it answered on a thread of its own: an interrupt or a time limit may end the job before that."""
        if on_magic is None:
            self.answer(wire.ANSWER_REFUSED, magic)
        else:
            carry_out = on_magic
            threading.Thread(target=lambda: self.answer(carry_out(magic), magic), daemon=True).start()

    def answer(self, data: bytes, question: object = None) -> None:
        """What the guest waits for after "input" or "magic" was delivered: dropped if it no longer asks that.

        Without a ``question`` it is for who has a `claim`.
        """
        with self._lock:
            if question is not None and question is not self.question:
                return
            self._answers.put(data)
        run = self.run
        if run is not None:
            run.wake.set()

    def claim(self, wait: int) -> bool:
        """Promise a cell that awaits something an `answer`; False if it no longer does."""
        with self._lock:
            claimed = wait == self._awaiting
            self._awaiting = 0 if claimed else self._awaiting
        return claimed

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in what runs now; whether anything does."""
        with self._lock:
            run, instance = self.run, self._instance
            if run is None or not self._interruptible:
                self._interrupt_first = self._busy  # the thread is about to start it
                return self._busy
            run.interrupt()
        if instance is not None:
            instance.bump()
        return True

    def close(self, timeout: float) -> None:
        """Stop what runs, and end the thread. Safe to call twice."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._jobs.put(None)
            run, instance = self.run, self._instance
        if run is not None:
            run.halt()
            if instance is not None:
                instance.bump()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        _open_threads.discard(self)

    # ---- for its own thread

    def begin_turn(self, run: Run, instance: Instance, *, interruptible: bool) -> None:
        """A turn begins: interrupts reach it, if they may, and those that came before it do, too."""
        with self._lock:
            self.run, self._instance, self._interruptible = run, instance, interruptible
            if self._interrupt_first and interruptible:
                run.interrupt()
            if self.closed:
                run.halt()

    def end_turn(self) -> None:
        """The turn is over: interrupts wait for the next one."""
        self.run = self._instance = None

    def ask(self, kind: str, event: wire.InputRequest | wire.HostMagic) -> bytes:
        """Deliver a question of the guest's to whoever wanted the job done, and wait for the answer. Raises `Stop`."""
        job, instance = self._job, self._instance
        if job is None or instance is None:
            return wire.ANSWER_REFUSED
        with self._lock:
            while not self._answers.empty():  # one that came when it was no longer waited for
                self._answers.get_nowait()
            self.question = event
        job.deliver(kind, event)
        try:
            answered = instance.pump(lambda: not self._answers.empty())
            return self._answers.get_nowait() if answered else wire.ANSWER_INTERRUPTED
        finally:
            with self._lock:
                self.question = None

    def await_message(self, seconds: float) -> bytes:
        """Wait for a message that somebody may have for the running cell; empty if none came. Raises `Stop`."""
        job, instance = self._job, self._instance
        if job is None or instance is None:
            return wire.ANSWER_REFUSED
        while not self._answers.empty():
            self._answers.get_nowait()
        with self._lock:
            self._waits += 1
            self._awaiting = self._waits
        job.deliver("waiting", self._waits)
        seconds = min(seconds, _LONGEST_WAIT) if seconds > 0 else 0.0  # a NaN is no time at all
        going_on = instance.pump(lambda: not self._answers.empty(), seconds)
        with self._lock:
            claimed, self._awaiting = not self._awaiting, 0
        if not claimed:
            return b"" if going_on else wire.ANSWER_INTERRUPTED
        message = self._answers.get()  # it is about to be there
        if not going_on and self.run is not None:
            self.run.interrupt()  # again, for after the message
        return message

    def _work(self) -> None:
        waiting: list[Job | None] = []
        while (job := waiting.pop() if waiting else self._jobs.get()) is not None:
            self._job = job
            message: tuple[str, Any]
            try:
                message = ("done", job.work())
            except BaseException as e:  # noqa: BLE001 - handed to the caller
                message = ("error", e)
            self._job = None
            with self._lock:
                self._busy = self._interrupt_first = False
            if _exiting:  # whoever waits is a daemon thread, and would only say so on a stderr that is being closed
                break
            job.deliver(*message)
            # The caller goes on first: keeping the memory costs it nothing unless it comes right back.
            with contextlib.suppress(queue.Empty):
                waiting.append(self._jobs.get(timeout=_CALLER_FIRST))
            with self._between:
                self._settle()
            if not waiting:
                try:
                    waiting.append(self._jobs.get(timeout=_IDLE))
                except queue.Empty:
                    with self._between:
                        self._rest()
        self._finish()


def line_of(on_input: OnInput, request: wire.InputRequest) -> bytes:
    """The answer to a guest that wants a line of input."""
    try:
        return wire.ANSWER_TEXT + str(on_input(request)).encode("utf-8", "replace")
    except EOFError:
        return wire.ANSWER_EOF


# At exit: a thread still in wasm would call back into a Python that is gone.
_open_threads: weakref.WeakSet[JobThread] = weakref.WeakSet()
_exiting = False


@atexit.register
def _close_all() -> None:
    global _exiting
    _exiting = True
    threads = list(_open_threads)
    for thread in threads:
        with contextlib.suppress(Exception):
            thread.close(timeout=0)
    for thread in threads:
        thread._thread.join(5)
