"""What a guest is asked to do: cells, small questions, work between cells. Each has a time limit, and a result.

All of this is for the sandbox's own thread.
"""

from __future__ import annotations

import time
from typing import Any

from wasm_kernel.host.files.workspace_survey import Changes
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.live_guest import LiveGuest
from wasm_kernel.host.runtime.output_buffer import OnEvent, OutputBuffer
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.host.runtime.verdict import integer, judge, judge_background
from wasm_kernel.model.budget import BackgroundBudget
from wasm_kernel.model.outcome import SandboxResult, TrapCause
from wasm_kernel.model.policy import ExecutionPolicy

# What is not a cell: complete, inspect and is_complete, which somebody asks for; messages to widgets, and background
# tasks that go on. Each gets the time of a cell at most, and no more than this; the last two kinds share a
# `BackgroundBudget`.
_SMALL_SECONDS = 10.0
_SMALL_REPLY = 4 << 20
_IN_BACKGROUND = ("pump", "comm")


class Executions:
    """Runs requests in a guest. What happens between cells is held to a budget of its own."""

    def __init__(self, guest: LiveGuest) -> None:
        self._guest = guest
        self.background = BackgroundBudget.of(guest.policy)
        self._charge_keeping = False  # to the background: the turn before was its
        self._told: set[str] = set()  # what was said of its budget since the last cell
        self.next_task: float | None = None  # when a background task of the guest wants to go on, in seconds

    def execute(self, request: dict[str, Any], capture: OutputBuffer) -> SandboxResult:
        """Run a cell to its end, put the guest back if it trapped, and say how it ended and what it gave."""
        guest, policy = self._guest, self._guest.policy
        run = Run(policy.timeout_seconds, policy.interrupt_grace_seconds)
        trap: Trapped | None = None
        self._told = set()
        guest.network.begin_cell()
        try:
            guest.turn(request, (), capture, run)
        except Trapped as e:
            trap = e
        duration = time.monotonic() - run.started
        instance = guest.instance
        assert instance is not None
        size = instance.memory_size
        changed = guest.files.changes() if instance.changed_files else Changes()
        if trap is not None:
            guest.recover(trap)
        elif capture.reply is None:  # its driver is broken: the memory of before is put back, as after a trap
            guest.recover(Trapped(TrapCause.DAMAGE))
        reply = capture.reply.content if capture.reply is not None else {}
        self.next_task = _seconds(reply.get("next_task"))
        how, exit_code, error = judge(policy, run, trap, reply, capture.error, closed=guest.closed)
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
            fuel_consumed=None if policy.fuel_budget is None else run.fuel_used,
            memory_bytes=size,
            files_created=changed.created,
            files_modified=changed.modified,
            files_deleted=changed.deleted,
            workspace_path=str(guest.files.folder),
            execution_count=integer(reply.get("execution_count")),
            reply=reply,
        )

    def ask(self, request: dict[str, Any], buffers: tuple[bytes, ...], on_event: OnEvent | None) -> dict[str, Any]:
        """A request other than the code of a cell; its reply."""
        policy = self._guest.policy
        limit = policy.timeout_seconds
        run = Run(_SMALL_SECONDS if limit is None else min(limit, _SMALL_SECONDS), policy.interrupt_grace_seconds)
        if request["op"] in _IN_BACKGROUND:
            return self._in_background(request, buffers, on_event, run)
        return self._small_turn(request, buffers, OutputBuffer(policy, on_event, max_reply=_SMALL_REPLY), run)[0]

    def _in_background(
        self, request: dict[str, Any], buffers: tuple[bytes, ...], on_event: OnEvent | None, run: Run
    ) -> dict[str, Any]:
        """A turn between cells, if they have time left. What is too much is said once, until the next cell."""
        budget, trap = self.background, None
        room = budget.room(run.started)
        capture = OutputBuffer(self._guest.policy, on_event, room, self._told, between_cells=True, parents=True)
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
        self, request: dict[str, Any], buffers: tuple[bytes, ...], capture: OutputBuffer, run: Run
    ) -> tuple[dict[str, Any], Trapped | None]:
        try:
            self._guest.turn(request, buffers, capture, run)
        except Trapped as e:
            self._guest.recover(e)
            return {"status": "error", "ename": e.cause.value, "evalue": str(e), "traceback": []}, e
        reply = capture.reply.content if capture.reply is not None else {"status": "error"}
        if "next_task" in reply:
            self.next_task = _seconds(reply["next_task"])
        return reply, None

    def change_policy(self, policy: ExecutionPolicy) -> None:
        """Other limits from the next request on, and a full budget."""
        self._guest.change_policy(policy)
        self.background = BackgroundBudget.of(policy)

    def settle(self) -> None:
        """Between two jobs: keep the guest's memory. What that takes after work in the background is charged to it."""
        began = time.monotonic()
        self._guest.settle()
        if self._charge_keeping:
            self._charge_keeping, now = False, time.monotonic()
            self.background.seconds.spend(now - began, now)


def _seconds(value: Any) -> float | None:
    """A number of seconds that the guest sent, if it is one from 0 to a year."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 3e7
    return float(value) if good else None
