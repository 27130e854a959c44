"""One sealed guest for many executions: runs code, streams its events, interrupts, recovers.

This is the interface that others use. Behind it: the thread that does the work (`job_thread`), what is asked of the
guest (`executions`), and the guest itself, its turns and its recovery (`live_guest`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from wasm_kernel.host.files.quota import Quota
from wasm_kernel.host.network.guest_network import GuestNetwork
from wasm_kernel.host.runtime.captured import Captured, TurnDelta
from wasm_kernel.host.runtime.executions import Executions
from wasm_kernel.host.runtime.guest_image import GuestImage
from wasm_kernel.host.runtime.instance_parts import AtRest
from wasm_kernel.host.runtime.job_thread import Deliver, Job, JobThread, OnInput, OnMagic
from wasm_kernel.host.runtime.live_guest import LiveGuest, Prepare
from wasm_kernel.host.runtime.memory import CapturedMemory, GuestMemory
from wasm_kernel.host.runtime.output_buffer import OnEvent, OutputBuffer
from wasm_kernel.host.runtime.pages import give_back
from wasm_kernel.host.runtime.workers import Elsewhere
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy

__all__ = ["Captured", "Deliver", "OnInput", "OnLog", "Prepare", "Sandbox", "TurnDelta"]

OnLog = Callable[[SandboxResult, TurnDelta], bool]


class Sandbox:
    """A guest with its own thread, folder and limits. Thread-safe; one execution at a time."""

    def __init__(
        self,
        img: GuestImage,
        folder: Path,
        policy: ExecutionPolicy,
        installed: Path | None = None,
        *,
        in_session: bool = False,
    ) -> None:
        """``in_session``: its folder is a session's own. Otherwise sessions may be below it, which it does not see."""
        self.folder = folder
        self._thread = JobThread()
        self._guest = LiveGuest(img, folder, policy, installed, self._thread, in_session=in_session)
        self._executions = Executions(self._guest)
        self._thread.start(self._executions.settle, self._guest.close, self._guest.rest)

    # ---- running code

    def execute(
        self,
        code: str,
        *,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        on_magic: OnMagic | None = None,
        options: dict[str, Any] | None = None,
    ) -> SandboxResult:
        """Run a cell to its end and return everything it gave.

        ``on_event`` is called on the sandbox's thread while the cell runs. ``on_input`` is called on this thread
        when the cell wants a line; without it `input()` raises; ``on_magic`` when it wants something else of the host.
        Ctrl-C here interrupts the cell, then raises.
        """
        capture, work = self._cell(code, on_event, {"allow_stdin": on_input is not None, **(options or {})})
        result: SandboxResult = self._thread.wait(work, on_input, on_magic)
        if capture.failure is not None:
            raise capture.failure
        return result

    def begin_execute(
        self,
        code: str,
        deliver: Deliver,
        *,
        on_event: OnEvent,
        options: dict[str, Any],
        log: OnLog | None = None,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """Run a cell without waiting for it: ``deliver`` is called with everything that happens.

        ``on_event`` also learns which request output belongs to (`wire.Parent`).
        ``log``: called with the result and with what changed of the guest, on the sandbox's thread, before the result
        is delivered; it says whether it has taken the change. ``on_begin``: called there when the guest has the code.
        """
        capture, run = self._cell(code, on_event, options, parents=True)
        capture.on_begin = on_begin

        def work() -> SandboxResult:
            result = run()
            if log is not None:
                self._guest.log_turn(lambda delta: log(result, delta))
            return result

        self._thread.submit(Job(work, deliver))

    def _cell(
        self, code: str, on_event: OnEvent | None, options: dict[str, Any], *, parents: bool = False
    ) -> tuple[OutputBuffer, Callable[[], SandboxResult]]:
        if not isinstance(code, str):
            raise TypeError(f"code is {type(code).__name__}; it must be str")
        request = {"op": "execute", **options, "code": _encodable(code)}
        capture = OutputBuffer(self.policy, on_event, parents=parents)
        return capture, lambda: self._executions.execute(request, capture)

    def ask(
        self, request: dict[str, Any], buffers: tuple[bytes, ...] = (), on_event: OnEvent | None = None
    ) -> dict[str, Any]:
        """A request other than the code of a cell: complete, inspect, is_complete, comm, comm_info, pump."""
        reply: dict[str, Any] = self._thread.wait(lambda: self._executions.ask(request, buffers, on_event))
        return reply

    def begin_ask(
        self, request: dict[str, Any], buffers: tuple[bytes, ...], deliver: Deliver, *, on_event: OnEvent | None = None
    ) -> None:
        """`ask` without waiting for the reply: ``deliver`` is called with it."""
        self._thread.submit(Job(lambda: self._executions.ask(request, buffers, on_event), deliver))

    def answer(self, data: bytes, question: object = None) -> None:
        """What the guest waits for after "input" or "magic" was delivered with that question, or after a `claim`."""
        self._thread.answer(data, question)

    def claim(self, wait: int) -> bool:
        """Promise a cell an `answer` after "waiting" was delivered; False if it no longer awaits anything."""
        return self._thread.claim(wait)

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in what runs now; whether anything does. Callable from any thread."""
        return self._thread.interrupt()

    def reset(self, img: GuestImage | None = None) -> None:
        """A fresh interpreter over the same workspace, of the same image or of another one; /tmp is emptied."""
        self._thread.wait(lambda: self._guest.start_afresh(img))

    def change_policy(self, policy: ExecutionPolicy) -> None:
        """Other limits from the next execution on; the guest keeps its memory."""
        self._thread.wait(lambda: self._executions.change_policy(policy))

    def show_data(self, folder: Path | None) -> None:
        """Show a folder of the host's at /data, read-only; None: an empty one. The guest keeps its memory."""
        self._thread.wait(lambda: self._guest.show_data(folder))

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
        self._thread.submit(Job(lambda: self._guest.captured(split, everything, files_differ, scrub), deliver))

    def capture_at_once(self, split: Container[int], files_differ: Callable[[], bool]) -> Captured | None:
        """The same on the caller's thread, right after a cell: what changed since the capture before.

        None if it would take long, or the guest has to do something for it, or is doing something now.
        """
        return self._thread.unless_busy(lambda: self._guest.captured_if_kept(split, files_differ))

    def capture(self, split: Container[int] = (), *, everything: bool = False) -> Captured:
        """The same with ``scrub``; waits for it."""
        captured: Captured = self._thread.wait(lambda: self._guest.captured(split, everything, lambda: False, True))
        return captured

    def with_captured_memory(self, work: Callable[[GuestMemory], None]) -> None:
        """Let ``work`` read the memory, unless it has changed since it was captured or restored."""

        def when_unchanged() -> None:
            memory = self._guest.captured_whole()
            if memory is not None:
                work(memory)

        self._thread.wait(when_unchanged)

    def restore(
        self, img: GuestImage, prepare: Prepare, rest: AtRest, *, files: Callable[[], None], reseed: bool
    ) -> None:
        """Become the guest of a snapshot. If anything fails, the guest is as it was.

        ``img``: the image that it builds on. ``files`` puts the workspace in order, while no guest holds a file open.
        ``reseed``: the guest's random numbers are to be others than the snapshot's.
        """

        def work() -> None:
            self._guest.restore(img, prepare, rest, files=files, reseed=reseed)
            self.next_task = 0.0  # it may have some that wait

        self._thread.wait(work)

    def replay(self, size: int, delta: bytes, rest: AtRest | None) -> None:
        """Become the guest of the next cell of a log: what `begin_execute` logged. `BadSnapshot` if that is damaged.

        Without ``rest``: a fresh one.
        """
        self._thread.wait(lambda: self._guest.replay(size, delta, rest))

    def restart(self, files: Callable[[], None]) -> None:
        """A fresh interpreter, as `reset`, with the workspace put in order in between."""
        self._thread.wait(lambda: self._guest.restart(files))

    def release(self) -> None:
        """Give the guest's memory back to the system. It has to be restored then, or it starts afresh."""
        self._thread.wait(self._guest.start_afresh)
        give_back()

    # ---- what it is and does now

    @property
    def fresh(self) -> bool:
        """Whether nothing ran in it since the base memory."""
        return self._guest.state.fresh

    @property
    def policy(self) -> ExecutionPolicy:
        """The limits that the next execution is held to."""
        return self._guest.policy

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that are held as they were, for captures that are not written yet."""
        return self._guest.memory.held_bytes

    @property
    def next_task(self) -> float | None:
        """When a background task of the guest wants to go on, in seconds; None: there is none."""
        return self._executions.next_task

    @next_task.setter
    def next_task(self, seconds: float | None) -> None:
        self._executions.next_task = seconds

    @property
    def before_change(self) -> Callable[[], None]:
        """What is called, on the sandbox's thread, before a turn's first change of a file."""
        return self._guest.files.before_change

    @before_change.setter
    def before_change(self, called: Callable[[], None]) -> None:
        self._guest.files.before_change = called

    @property
    def image(self) -> GuestImage:
        """What its memory builds on."""
        return self._guest.image

    @property
    def base_bytes(self) -> int:
        """The size of the base memory."""
        return self._guest.image.memory.size

    @property
    def beginning(self) -> Captured:
        """A guest that has not run yet."""
        image = self._guest.image
        return Captured(CapturedMemory(image.memory.size, everything=True), image.rest, image.key, fresh=True)

    @property
    def network(self) -> GuestNetwork:
        """Where it may connect to, and its connections."""
        return self._guest.network

    @property
    def workers_elsewhere(self) -> Elsewhere | None:
        """Where its workers run; None: on this machine. Set, it holds from the next execution on."""
        return self._guest.elsewhere

    @workers_elsewhere.setter
    def workers_elsewhere(self, place: Elsewhere | None) -> None:
        self._guest.elsewhere = place

    @property
    def scratch(self) -> Path:
        """The folder that the guest sees as /tmp."""
        return self._guest.files.scratch

    def quota(self) -> Quota:
        """How much its files use and may use, counted now. Callable from any thread, also while code runs."""
        return self._guest.files.quota(self.policy)

    @property
    def question(self) -> object:
        """What the guest waits to have answered now, as it was delivered; None: nothing."""
        return self._thread.question

    @property
    def background_wait(self) -> float:
        """Seconds until background tasks and widgets have time or fuel again; 0 if they do."""
        return self._executions.background.wait(time.monotonic())

    @property
    def running(self) -> bool:
        """Whether code runs now."""
        return self._thread.run is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._thread.closed

    def close(self, timeout: float = 10.0) -> None:
        """Stop what runs, and give back memory, files and thread. Safe to call twice and from any thread."""
        self._thread.close(timeout)


def _encodable(code: str) -> str:
    """Lone surrogates cannot cross; they could not be Python source either."""
    return code.encode("utf-8", "replace").decode()
