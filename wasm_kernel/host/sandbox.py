"""One sealed guest for many executions: runs code, streams its events, interrupts, recovers.

Everything that enters wasm happens on the sandbox's own thread. Callers hand it work and wait. After each turn
the memory is kept (`GuestMemory.keep`), so that a later trap costs only the execution that trapped.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import SandboxBusy, SandboxClosed, SandboxError
from wasm_kernel.guest import wire
from wasm_kernel.host import engine, image, ledger, packages, scratch, workspace
from wasm_kernel.host.capture import Capture, OnEvent
from wasm_kernel.host.engine import Stop, Trapped
from wasm_kernel.host.instance import MOST_UNUSED, AtRest, Handlers, Instance, Limits, Run
from wasm_kernel.host.memory import CHUNK, CapturedMemory, GuestMemory, give_back
from wasm_kernel.host.pulse import pulse
from wasm_kernel.host.verdict import integer, judge, judge_background
from wasm_kernel.model.budget import BackgroundBudget
from wasm_kernel.model.names import is_hidden, is_session_folder
from wasm_kernel.model.outcome import SandboxResult, TrapCause
from wasm_kernel.model.policy import ExecutionPolicy

OnInput = Callable[[wire.InputRequest], str]

# What is no cell: complete, inspect and is_complete, which somebody asks for; messages to widgets, and background tasks
# that go on. Each gets the time of a cell at most, and this; those of the last two kinds share a `BackgroundBudget`.
_SMALL_SECONDS = 10.0
_SMALL_REPLY = 4 << 20
_IN_BACKGROUND = ("pump", "comm")
_WORTH_SCRUBBING = 32 << 20  # bytes that changed: some of them may be free by now
_CALLER_FIRST = 0.002
_REPLY_ROOM = 16 << 20  # a reply may be this much larger than display_max_bytes


Deliver = Callable[[str, Any], None]
"""Takes what an execution comes to, on the sandbox's thread: "input" or "magic" with the request, which wants
`Sandbox.answer`, and at the end "done" with the result or "error" with an exception."""


# Reads all of a snapshot's memory, and gives what then makes it, without fail: out of the memory of now, if that is
# known page by page, or anew.
Prepare = Callable[[GuestMemory, bool], Callable[[], GuestMemory]]


@dataclass(frozen=True)
class Captured:
    """A guest at rest: what changed of its memory, its open files and clock, and when that was.

    ``fresh``: it has not run anything since the base memory. ``changed_files``: whether files changed since the capture
    before, or may have.
    """

    memory: CapturedMemory
    rest: AtRest
    fresh: bool
    changed_files: bool = True
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class _Job:
    """Work for the sandbox's thread, and where its result goes."""

    work: Callable[[], Any]
    deliver: Deliver


class Sandbox:
    """A guest with its own thread, folder and limits. Thread-safe; one execution at a time."""

    def __init__(
        self,
        img: image.Image,
        folder: Path,
        policy: ExecutionPolicy,
        installed: Path | None = None,
        *,
        in_session: bool = False,
    ) -> None:
        """``in_session``: its folder is a session's own. Otherwise sessions may be below it, which it does not see."""
        self._image, self.policy, self.folder = img, policy, folder
        self._packages = installed  # a folder of `packages`
        self._in_session = in_session
        self._named_sessions: frozenset[str] = frozenset()
        self._memory = GuestMemory(img.memory)
        self._scratch = scratch.make()
        image.furnish_scratch(self._scratch)
        self._rest = img.rest
        self._fresh = True  # the next request starts from the base memory
        self._reseed = False  # the next request gives the guest random numbers of its own
        self._turned = False  # it had a turn since the memory was last kept
        self._kept = True  # the memory's files are up to date with the last turn
        self._instance: Instance | None = None
        self._run: Run | None = None
        self._capture: Capture | None = None
        self._background = BackgroundBudget.of(policy)
        self._charge_keeping = False  # to the background: the turn before was its
        self._told: set[str] = set()  # of its budget, since the last cell
        self._job: _Job | None = None
        self._request = b""
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._waits_for_answer = False
        self._before: workspace.Survey | None = None
        self._changed_files = False  # since the last capture
        self._scrubbing = False
        self._lock = threading.Lock()
        self._busy = False
        self._interrupt_first = False
        self._closed = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.before_change: Callable[[], None] = lambda: None  # on this thread, before a turn's first change of a file
        self.next_task: float | None = None  # when a background task of the guest wants to go on, in seconds
        self._thread = engine.start_thread(self._work, "wasm-kernel-sandbox")
        _open_sandboxes.add(self)

    # ---- the public verbs

    def execute(
        self,
        code: str,
        *,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        options: dict[str, Any] | None = None,
    ) -> SandboxResult:
        """Run a cell to its end and return everything it gave.

        ``on_event`` is called on the sandbox's thread while the cell runs. ``on_input`` is called on this thread
        when the cell wants a line; without it `input()` raises. Ctrl-C here interrupts the cell, then raises.
        """
        capture, work = self._cell(code, on_event, {"allow_stdin": on_input is not None, **(options or {})})
        result: SandboxResult = self._wait(work, on_input)
        if capture.failure is not None:
            raise capture.failure
        return result

    def begin_execute(self, code: str, deliver: Deliver, *, on_event: OnEvent, options: dict[str, Any]) -> None:
        """Run a cell without waiting for it: ``deliver`` is called with everything it comes to."""
        self._submit(_Job(self._cell(code, on_event, options)[1], deliver))

    def _cell(
        self, code: str, on_event: OnEvent | None, options: dict[str, Any]
    ) -> tuple[Capture, Callable[[], SandboxResult]]:
        if not isinstance(code, str):
            raise TypeError(f"code is {type(code).__name__}; it must be str")
        request = {"op": "execute", **options, "code": _encodable(code)}
        capture = Capture(self.policy, on_event)
        return capture, lambda: self._execute(request, capture)

    def ask(
        self, request: dict[str, Any], buffers: tuple[bytes, ...] = (), on_event: OnEvent | None = None
    ) -> dict[str, Any]:
        """A request that is not code of a cell: complete, inspect, is_complete, comm, comm_info, pump."""
        reply: dict[str, Any] = self._wait(lambda: self._ask(request, buffers, on_event), None)
        return reply

    def begin_ask(
        self, request: dict[str, Any], buffers: tuple[bytes, ...], deliver: Deliver, *, on_event: OnEvent | None = None
    ) -> None:
        """`ask` without waiting."""
        self._submit(_Job(lambda: self._ask(request, buffers, on_event), deliver))

    def answer(self, data: bytes) -> None:
        """What the guest waits for after "input" or "magic" was delivered."""
        self._answers.put(data)
        run = self._run
        if run is not None:
            run.wake.set()

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in what runs now; whether anything does. Callable from any thread."""
        with self._lock:
            run = self._run
            if run is None or self._scrubbing:
                self._interrupt_first = self._busy  # the thread is about to start it
                return self._busy
            run.interrupt()
        self._bump()
        return True

    def reset(self) -> None:
        """A fresh interpreter over the same workspace; /tmp is emptied."""
        self._wait(self._start_afresh, None)

    def change_policy(self, policy: ExecutionPolicy) -> None:
        """Other limits from the next execution on; the guest keeps its memory."""

        def change() -> None:
            self._keep()
            self._drop_instance()  # the next one is made with these limits, over the same memory
            self.policy, self._background = policy, BackgroundBudget.of(policy)

        self._wait(change, None)

    # ---- snapshots

    def begin_capture(
        self,
        deliver: Deliver,
        split: Container[int],
        *,
        everything: bool,
        files_differ: Callable[[], bool],
        scrub: bool = False,
    ) -> None:
        """Deliver a `Captured` of the guest at rest: what changed since the capture before, or all of it.

        ``scrub``: without what the guest has freed, also if little changed; for snapshots that stay.
        """
        self._submit(_Job(lambda: self._captured(split, everything, files_differ, scrub), deliver))

    def capture(self, split: Container[int] = (), *, everything: bool = False) -> Captured:
        """The same with ``scrub``, waited for."""
        captured: Captured = self._wait(lambda: self._captured(split, everything, lambda: False, True), None)
        return captured

    def _captured(
        self, split: Container[int], everything: bool, files_differ: Callable[[], bool], scrub: bool
    ) -> Captured:
        self._keep()
        if scrub or self._memory.changed_bytes > _WORTH_SCRUBBING:
            self._scrub()
            self._keep()
        if not self._kept:
            raise SandboxError("the guest's memory could not be kept: there is no room for it")
        changed, self._changed_files = self._changed_files or files_differ(), False
        return Captured(self._memory.capture(split, everything=everything), self._rest, self._fresh, changed)

    def _scrub(self) -> None:
        """Have no old bytes where the guest has freed memory; the memory is kept before, in case that fails."""
        if self._instance is None or self._fresh or not self._kept:
            return
        self._scrubbing = True
        self._instance.let_grow(False)
        try:
            request = {"op": "scrub", "least": 2 * CHUNK, "most": MOST_UNUSED}
            run = Run(_SMALL_SECONDS, self.policy.interrupt_grace_seconds)
            self._small_turn(request, (), Capture(self.policy, None), run)
        finally:
            self._scrubbing = False
            if self._instance is not None:
                self._instance.let_grow(True)

    def restore(self, prepare: Prepare, rest: AtRest, *, files: Callable[[], None], reseed: bool) -> None:
        """Be the guest of a snapshot from now on. If anything fails, the guest is as it was.

        ``files`` puts the workspace in order, while no guest holds a file open. ``reseed``: the guest's random numbers
        are to be others than the snapshot's.
        """

        def work() -> None:
            self._settle()
            finish = prepare(self._memory, self._kept)
            self._drop_instance()
            files()
            image.furnish_scratch(self._scratch)
            self._memory = finish()
            self._rest, self._fresh, self._kept, self._reseed = rest, False, True, reseed
            self.next_task = 0.0  # it may have some that wait

        self._wait(work, None)

    def restart(self, files: Callable[[], None]) -> None:
        """A fresh interpreter, as `reset`, with the workspace put in order in between."""

        def work() -> None:
            self._drop_instance()
            files()
            self._start_afresh(empty_scratch=False)

        self._wait(work, None)

    def release(self) -> None:
        """Give the guest's memory back to the system. It has to be restored, or it starts afresh."""
        self._wait(self._start_afresh, None)
        give_back()

    @property
    def fresh(self) -> bool:
        """Whether nothing ran in it since the base memory."""
        return self._fresh

    @property
    def base_bytes(self) -> int:
        """The size of the base memory."""
        return self._image.memory.size

    @property
    def base_rest(self) -> AtRest:
        """What else a guest is that has not run yet."""
        return self._image.rest

    @property
    def scratch(self) -> Path:
        """The folder that the guest sees as /tmp."""
        return self._scratch

    @property
    def waits_for_answer(self) -> bool:
        """Whether the guest still wants what it asked for."""
        return self._waits_for_answer

    @property
    def background_wait(self) -> float:
        """Seconds until background tasks and widgets have time or fuel again; 0 if they do."""
        return self._background.wait(time.monotonic())

    @property
    def running(self) -> bool:
        """Whether code runs now."""
        return self._run is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self, timeout: float = 10.0) -> None:
        """Stop what runs, and give back memory, files and thread. Safe to call twice and from any thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._halt()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        _open_sandboxes.discard(self)

    def _halt(self) -> None:
        run = self._run
        if run is not None:
            run.halt()
            self._bump()

    def _bump(self) -> None:
        instance = self._instance
        if instance is not None:
            instance.bump()

    # ---- callers' side

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise SandboxClosed("this sandbox is closed; create a new one")
            if self._busy:
                raise SandboxBusy("this sandbox is already running code; wait for it, interrupt it, or create another")
            self._busy = True
            self._jobs.put(job)

    def _wait(self, work: Callable[[], Any], on_input: OnInput | None) -> Any:
        messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._submit(_Job(work, lambda kind, value: messages.put((kind, value))))
        interrupted = None
        while True:
            try:
                kind, value = messages.get()
                if kind == "input":
                    self.answer(self._ask_caller(value, on_input))
                    continue
                if kind == "magic":
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

    def _ask_caller(self, request: wire.InputRequest, on_input: OnInput | None) -> bytes:
        if on_input is None:
            return wire.ANSWER_REFUSED
        try:
            return wire.ANSWER_TEXT + str(on_input(request)).encode("utf-8", "replace")
        except EOFError:
            return wire.ANSWER_EOF

    # ---- the sandbox's thread

    def _work(self) -> None:
        waiting: list[_Job | None] = []
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
            if _exiting:  # who waits is a daemon thread, and would only say so on a stderr that is being closed
                break
            job.deliver(*message)
            # The caller goes on first: keeping the memory costs it nothing unless it comes right back.
            with contextlib.suppress(queue.Empty):
                waiting.append(self._jobs.get(timeout=_CALLER_FIRST))
            self._settle()
        self._drop_instance()
        self._memory.close()
        scratch.remove(self._scratch)

    def _settle(self) -> None:
        """Bring the files of the guest's memory up to date, or replace a guest that trapped."""
        began = time.monotonic()
        try:
            self._keep()
        except Exception:  # noqa: BLE001 - no room for the overlay: this thread must go on
            # The live memory is right and stays in use; only a trap would now cost all of it.
            self._kept = False
        if self._charge_keeping:
            self._charge_keeping, now = False, time.monotonic()
            self._background.seconds.spend(now - began, now)

    def _keep(self) -> None:
        if self._instance is not None and not self._fresh and self._turned:
            self._rest = self._instance.keep()
            self._kept, self._turned = True, False

    def _drop_instance(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _after_trap(self, trap: Trapped) -> None:
        """Throw the instance away; the next turn gets another, over the memory of before."""
        self._drop_instance()
        if not self._kept:
            self._start_afresh()
        if trap.cause is TrapCause.HOST:
            raise SandboxError("the sandbox's host failed while serving the guest") from trap.__cause__

    def _start_afresh(self, *, empty_scratch: bool = True) -> None:
        self._drop_instance()
        self._memory.reset()
        self._rest, self._fresh, self._kept, self._reseed = self._image.rest, True, True, False
        if empty_scratch:
            scratch.empty(self._scratch)
        image.furnish_scratch(self._scratch)

    def _live(self) -> Instance:
        """The instance, made when first needed and after a trap."""
        if self._instance is None:
            eng, modules = self._image.modules(metered=self.policy.fuel_budget is not None)
            policy = self.policy
            self._instance = Instance(
                eng,
                modules["guest"],
                modules,
                self._image.mounts(self.folder, self._scratch, self._packages),
                {},
                Limits(policy.memory_bytes, policy.max_file_bytes, policy.max_open_files),
                Handlers(
                    self._on_output,
                    self._on_frame,
                    self._on_first_change,
                    self._room_left,
                    max_frame=min(policy.display_max_bytes + _REPLY_ROOM, wire.MAX_FRAME_BYTES),
                    frame_refused=self._on_refused_frame,
                ),
                self._memory,
                self._rest,
            )
        return self._instance

    def _turn(self, request: dict[str, Any], buffers: tuple[bytes, ...], capture: Capture, run: Run) -> None:
        """One turn of the guest. Raises `Trapped`; the instance is gone then."""
        instance = self._live()
        if not self._in_session:
            self._named_sessions = ledger.named_sessions(self.folder)
            instance.hide_sessions(self._named_sessions)
        if self._fresh:
            request = {**request, "fresh": {"seed": os.urandom(16).hex(), "env": dict(self.policy.env)}}
        if self._packages is not None:
            request = {**request, "packages": packages.in_use(self._packages)}
        if self._reseed:
            request = {**request, "reseed": os.urandom(16).hex()}
        self._request = wire.encode(request, buffers)
        self._capture = capture
        self._before = None
        with self._lock:
            self._run = run
            if self._interrupt_first:
                run.interrupt()
            if self._closed:
                run.halt()
        pulse.enter(instance)
        self._turned = True
        try:
            instance.turn(run, self.policy.fuel_budget)
            self._fresh = self._fresh and capture.reply is None
            self._reseed = self._reseed and capture.reply is None
        except Trapped:
            self._rest = AtRest(self._rest.files, instance.clock_ns(), self._rest.entry)
            raise
        finally:
            pulse.leave(instance)
            self._run = None
            if self.policy.fuel_budget is not None:
                run.fuel_used = self.policy.fuel_budget - instance.fuel_left()
            capture.finish()

    def _execute(self, request: dict[str, Any], capture: Capture) -> SandboxResult:
        run = Run(self.policy.timeout_seconds, self.policy.interrupt_grace_seconds)
        trap: Trapped | None = None
        self._told = set()
        try:
            self._turn(request, (), capture, run)
        except Trapped as e:
            trap = e
        duration = time.monotonic() - run.started
        instance = self._instance
        assert instance is not None
        size = instance.memory_size
        changed = workspace.Changes()
        if instance.changed_files and self._before is not None:
            changed = workspace.changes(self._before, self._survey())
        if trap is not None:
            self._after_trap(trap)
        elif capture.reply is None:  # its driver is broken: the memory of before is put back, as after a trap
            self._after_trap(Trapped(TrapCause.DAMAGE))
        reply = capture.reply.content if capture.reply is not None else {}
        self._capture = None
        self.next_task = _number(reply.get("next_task"))
        how, exit_code, error = judge(self.policy, run, trap, reply, capture.error, closed=self._closed)
        return SandboxResult(
            success=how.ok,
            outcome=how,
            stdout=capture.text("stdout"),
            stderr=capture.text("stderr"),
            result=capture.result,
            displays=capture.displays,
            error=error,
            exit_code=exit_code,
            duration_seconds=duration,
            fuel_consumed=None if self.policy.fuel_budget is None else run.fuel_used,
            memory_bytes=size,
            files_created=changed.created,
            files_modified=changed.modified,
            files_deleted=changed.deleted,
            workspace_path=str(self.folder),
            execution_count=integer(reply.get("execution_count")),
            reply=reply,
        )

    def _ask(self, request: dict[str, Any], buffers: tuple[bytes, ...], on_event: OnEvent | None) -> dict[str, Any]:
        limit = self.policy.timeout_seconds
        run = Run(_SMALL_SECONDS if limit is None else min(limit, _SMALL_SECONDS), self.policy.interrupt_grace_seconds)
        if request["op"] in _IN_BACKGROUND:
            return self._in_background(request, buffers, on_event, run)
        return self._small_turn(request, buffers, Capture(self.policy, on_event, max_reply=_SMALL_REPLY), run)[0]

    def _in_background(
        self, request: dict[str, Any], buffers: tuple[bytes, ...], on_event: OnEvent | None, run: Run
    ) -> dict[str, Any]:
        """A turn between cells, if they have time left. What is too much is said once, until the next cell."""
        budget, trap = self._background, None
        capture = Capture(self.policy, on_event, budget.room(run.started), self._told, between_cells=True)
        reply: dict[str, Any] = {"status": "error", "ename": "HeldBack", "evalue": "the time between cells is used up"}
        if not budget.wait(run.started):
            try:
                reply, trap = self._small_turn(request, buffers, capture, run)
            finally:
                now = time.monotonic()
                budget.spend(capture.sizes, now - run.started, run.fuel_used, now)
                self._charge_keeping = True
        if trap is not None:
            self.next_task = None  # what led to it would do so again: it waits for the next cell
        for what, text in judge_background(budget, run, trap, time.monotonic()):
            capture.notice(what, text)
        return reply

    def _small_turn(
        self, request: dict[str, Any], buffers: tuple[bytes, ...], capture: Capture, run: Run
    ) -> tuple[dict[str, Any], Trapped | None]:
        try:
            self._turn(request, buffers, capture, run)
        except Trapped as e:
            self._after_trap(e)
            return {"status": "error", "ename": e.cause.value, "evalue": str(e), "traceback": []}, e
        self._capture = None
        reply = capture.reply.content if capture.reply is not None else {"status": "error"}
        if "next_task" in reply:
            self.next_task = _number(reply["next_task"])
        return reply, None

    # ---- what the guest brings up

    def _on_output(self, fd: int, data: bytes) -> None:
        if self._capture is not None:
            self._capture.write(fd, data)

    def _on_refused_frame(self, size: int) -> None:
        if self._capture is not None:
            most = wire.MAX_FRAME_BYTES
            self._capture.refuse(f"it holds more than {most} bytes" if size > most else "")

    def _on_frame(self, frame: bytes) -> bytes:
        capture = self._capture
        if capture is None:
            return b""
        try:
            event = wire.decode_event(frame)
        except wire.TooMuch as e:
            capture.refuse(str(e))
            raise
        if isinstance(event, wire.NextRequest):
            request, self._request = self._request, b""
            return request
        if isinstance(event, wire.Reply):
            capture.take_reply(event, len(frame))
        elif isinstance(event, wire.Unused):
            if self._scrubbing and self._instance is not None:
                self._instance.forget(event.stretches)
        elif isinstance(event, wire.InterruptSeen):
            if self._run is not None:
                self._run.interrupt_seen()
        elif isinstance(event, wire.InputRequest):
            return self._wait_for_answer("input", event) if capture.take(event, len(frame)) else wire.ANSWER_REFUSED
        elif isinstance(event, wire.HostMagic):
            return self._wait_for_answer("magic", event)
        else:
            capture.take(event, len(frame))
        return b""

    def _wait_for_answer(self, kind: str, event: wire.InputRequest | wire.HostMagic) -> bytes:
        job, instance = self._job, self._instance
        if job is None or instance is None:
            return wire.ANSWER_REFUSED
        while True:  # an answer that came too late for an earlier question
            with contextlib.suppress(queue.Empty):
                self._answers.get_nowait()
                continue
            break
        self._waits_for_answer = True
        job.deliver(kind, event)
        try:
            if instance.pump(lambda: not self._answers.empty()):
                return self._answers.get_nowait()
            return wire.ANSWER_INTERRUPTED
        except Stop:
            raise
        finally:
            self._waits_for_answer = False

    def _on_first_change(self) -> None:
        self._changed_files = True
        self.before_change()
        self._before = self._survey()

    def _survey(self) -> workspace.Survey:
        """The workspace as the guest can see it."""
        if self._in_session:
            return workspace.survey(self.folder)
        named = self._named_sessions
        return workspace.survey(self.folder, lambda name: is_hidden(name) or is_session_folder(name, named))

    def _room_left(self, kind: int) -> tuple[int, int]:
        """Bytes and names the guest may still use, counted on disk."""
        here = self._before if kind == 2 and self._before is not None else self._survey()
        there = workspace.survey(self._scratch)
        if not (here.complete and there.complete):
            return 0, 0
        used = here.used_bytes + there.used_bytes + workspace.held_bytes((self.folder, self._scratch))
        return (
            max(0, self.policy.workspace_bytes - used),
            max(0, self.policy.max_files - here.entries - there.entries),
        )


def _number(value: Any) -> float | None:
    """Seconds the guest sent, if they are: from 0 to a year."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 3e7
    return float(value) if good else None


def _encodable(code: str) -> str:
    """Lone surrogates cannot cross; they could not be Python source either."""
    return code.encode("utf-8", "replace").decode()


# At exit: a thread still in wasm would call back into a Python that is gone.
_open_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


_exiting = False


@atexit.register
def _close_all() -> None:
    global _exiting
    _exiting = True
    sandboxes = list(_open_sandboxes)
    for sandbox in sandboxes:
        with contextlib.suppress(Exception):
            sandbox.close(timeout=0)
    for sandbox in sandboxes:
        sandbox._thread.join(5)
