"""A session's runtime without a guest: counting, moments, questions, who waits for whom. Milliseconds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.guest import wire
from wasm_kernel.model.outcome import Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.sessions.guest_access import Execution
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.opening import OpenedSession, resume
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.timeline import Timeline


class Guest:
    """Instead of a `Sandbox`: does at once what a script says."""

    def __init__(self) -> None:
        self.closed, self.fresh, self.next_task, self.background_wait = False, True, None, 0.0
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.answers: list[bytes] = []
        self.wants: tuple[str, Any] | None = None
        self.fails: Exception | None = None

    def begin_execute(
        self,
        code: str,
        deliver: Any,
        *,
        on_event: Any,
        options: dict[str, Any],
        log: Any = None,
        on_begin: Any = None,
    ) -> None:
        assert log is None, "without checkpoints nothing is logged"
        self.ran.append((code, options))
        self.fresh = False
        on_event(wire.Stream("stdout", code))
        if self.wants is not None:
            deliver(*self.wants)
        if self.fails is not None:
            deliver("error", self.fails)
        else:
            deliver("done", SandboxResult(success=True, outcome=Outcome(OutcomeKind.OK), exit_code=0))

    def begin_ask(self, request: dict[str, Any], buffers: Any, deliver: Any, *, on_event: Any = None) -> None:
        self.asked.append(request)
        if self.wants is not None:
            deliver(*self.wants)
        deliver("done", {"status": "ok"})

    def answer(self, data: bytes, question: object = None) -> None:
        self.answers.append(data)


class Live:
    """As much of a `LiveSession` as a runtime needs."""

    def __init__(self, root: Path) -> None:
        self.root, self.session_id, self.sandbox = root, "s", Guest()
        self.has_files = self.has_snapshots = False
        self.refreshed = 0
        self.notes: dict[str, Any] = {}
        self.recorder = SimpleNamespace(last=None)

    def begins_afresh(self) -> bool:
        return bool(self.notes.get("fresh_start"))

    def refresh(self, ran: list[Any], logger: SandboxLogger) -> None:
        self.refreshed += len(ran)

    def note(self, **extra: Any) -> None:
        self.notes.update(extra)


def play(
    tmp_path: Path,
    scene: Callable[[SessionRuntime, Any], Awaitable[None]],
    startup: str = "",
    *,
    begins_afresh: bool = False,
) -> Live:
    live: Any = Live(tmp_path)

    async def run() -> None:
        opened = OpenedSession(live, begins_afresh=begins_afresh)
        log = logging.getLogger("test")
        runtime = SessionRuntime(
            opened, CheckpointRules(on=False), startup_code=startup, logger=SandboxLogger(level="error"), log=log
        )
        await scene(runtime, live)

    asyncio.run(run())
    return live


async def cell(runtime: SessionRuntime, code: str, **how: Any) -> SandboxResult:
    number = runtime.count
    async with runtime.guest:
        result = await runtime.execute(Execution(code, number, how.pop("on_event", lambda event: None), **how))
    runtime.count_cell(number)
    return result


def test_cells_count_from_one_and_startup_code_does_not(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        await cell(runtime, "a")
        await cell(runtime, "b")
        assert runtime.count == 3
        runtime.is_at(None)
        assert runtime.count == 1
        await cell(runtime, "c")
        assert live.refreshed == 0, "the metadata is refreshed behind the answers"
        await runtime.settled()

    live = play(tmp_path, scene, "import this")
    assert [code for code, _ in live.sandbox.ran] == ["import this", "a", "b", "import this", "c"]
    assert [options["execution_count"] for code, options in live.sandbox.ran if code != "import this"] == [1, 2, 1]
    assert live.refreshed == 3


def test_the_metadata_is_refreshed_soon_and_at_the_end(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        await cell(runtime, "a")
        await cell(runtime, "b")
        end = time.monotonic() + 60
        while live.refreshed < 2 and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert live.refreshed == 2
        await cell(runtime, "c")
        runtime.close(take=False)
        assert live.refreshed == 3

    play(tmp_path, scene)


def test_a_cell_that_went_elsewhere_in_time_does_not_count(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        await cell(runtime, "a")
        number = runtime.count
        runtime.is_at(None)
        runtime.count_cell(number)
        assert runtime.count == 1

    play(tmp_path, scene)


def test_questions_of_anything_but_a_cell_are_refused(tmp_path: Path) -> None:
    heard: list[str] = []

    async def scene(runtime: SessionRuntime, live: Any) -> None:
        live.sandbox.wants = ("magic", wire.HostMagic("session", "new"))
        async with runtime.guest:
            await runtime.ask({"op": "complete"})
        assert live.sandbox.answers == [wire.ANSWER_REFUSED]
        await cell(runtime, "x", on_question=lambda kind, request: heard.append(f"{kind} {request.line}"))

    live = play(tmp_path, scene)
    assert heard == ["magic new"] and len(live.sandbox.answers) == 1


def test_what_fails_in_the_guest_is_raised_and_the_next_cell_runs(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        live.sandbox.fails = RuntimeError("of the guest")
        with pytest.raises(RuntimeError, match="of the guest"):
            await cell(runtime, "x")
        assert not runtime.running and runtime.at_rest
        live.sandbox.fails = None
        assert (await cell(runtime, "y")).success

    play(tmp_path, scene)


def test_background_tasks_speak_for_the_last_cell_that_was_not_silent(tmp_path: Path) -> None:
    shown: list[str] = []

    async def scene(runtime: SessionRuntime, live: Any) -> None:
        await cell(runtime, "loud", on_event=lambda event: shown.append("loud"))
        await cell(runtime, "silent", on_event=lambda event: shown.append("silent"), silent=True)
        shown.clear()
        runtime.on_background_event(wire.Stream("stdout", "later"))

    play(tmp_path, scene)
    assert shown == ["loud"]


def test_background_turns_wait_while_somebody_asks_the_guest(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        live.sandbox.next_task = 0.0
        async with runtime.guest:
            runtime.background.schedule()
            await asyncio.sleep(0.03)
            assert not live.sandbox.asked
        live.sandbox.begin_ask, ask = (
            lambda *a, **k: (setattr(live.sandbox, "next_task", None), ask(*a, **k)),
            live.sandbox.begin_ask,
        )
        while not live.sandbox.asked:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.03)
        assert live.sandbox.asked == [{"op": "pump"}], "none wants to go on: there is no further turn"

    play(tmp_path, scene)


def test_a_closed_guest_gets_no_background_turn(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        live.sandbox.next_task, live.sandbox.closed = 0.0, True
        runtime.background.schedule()
        await asyncio.sleep(0.03)
        assert not live.sandbox.asked

    play(tmp_path, scene)


def test_what_was_undone_can_be_redone_until_a_cell_has_run(tmp_path: Path) -> None:
    async def scene(runtime: SessionRuntime, live: Any) -> None:
        timeline = Timeline(runtime, logging.getLogger("test"))
        timeline._undone, timeline._undone_at = ["a snapshot"], runtime.moment
        assert timeline._redoable == ["a snapshot"]
        await cell(runtime, "x")
        with pytest.raises(ConfigurationError, match="nothing to redo"):
            await timeline.redo()

    play(tmp_path, scene)


def test_a_restart_is_asked_for_and_kept_until_something_began(tmp_path: Path) -> None:
    async def restarts(runtime: SessionRuntime, live: Any) -> None:
        runtime.close(take=True, restarting=True)

    live: Any = play(tmp_path, restarts)
    assert live.notes == {"fresh_start": True}
    assert resume(live).begins_afresh, "also where no snapshot was ever taken"

    async def begins(runtime: SessionRuntime, live: Any) -> None:
        await cell(runtime, "x")
        runtime.close(take=True)

    assert play(tmp_path, begins, begins_afresh=True).notes == {"fresh_start": False}
