"""Every way in which an execution can end, and what it is then called; no guest is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from wasm_kernel import ExecutionPolicy, OutcomeKind, SandboxClosed
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.host.runtime.verdict import integer, judge, judge_background
from wasm_kernel.model.budget import BackgroundBudget
from wasm_kernel.model.outcome import GuestError, TrapCause

POLICY = ExecutionPolicy(timeout_seconds=5, fuel_budget=1000)
OK_REPLY: dict[str, Any] = {"status": "ok", "execution_count": 1}


def error(name: str, **more: Any) -> dict[str, Any]:
    return {"status": "error", "ename": name, "evalue": "why", "traceback": ["line"], **more}


@dataclass
class Case:
    """What happened, and what it has to come to."""

    kind: OutcomeKind
    cause: str = ""
    trap: TrapCause | None = None
    reply: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    timed_out: bool = False
    exit_status: int = 0
    code: int = 1
    error: str | None = ""
    lost: bool = False


CASES = {
    "to its end": Case(OutcomeKind.OK, reply=OK_REPLY, code=0, error=None),
    "raises": Case(OutcomeKind.ERROR, "ValueError", reply=error("ValueError"), error="ValueError"),
    "sys.exit": Case(OutcomeKind.EXIT, "exit", reply=error("SystemExit", exit_code=3), code=3, error="SystemExit"),
    "sys.exit with what is no status": Case(
        OutcomeKind.EXIT, "exit", reply=error("SystemExit", exit_code="x"), code=0, error="SystemExit"
    ),
    "sys.exit beyond a byte": Case(
        OutcomeKind.EXIT, "exit", reply=error("SystemExit", exit_code=256 + 7), code=7, error="SystemExit"
    ),
    "os._exit": Case(OutcomeKind.EXIT, "exit", TrapCause.EXIT, exit_status=9, code=9, error=None, lost=True),
    "out of fuel": Case(OutcomeKind.FUEL_LIMIT, "out_of_fuel", TrapCause.OUT_OF_FUEL, error="FuelExhausted", lost=True),
    "out of stack": Case(
        OutcomeKind.CRASHED, "stack_overflow", TrapCause.STACK_OVERFLOW, error="SandboxCrash", lost=True
    ),
    "aborts": Case(OutcomeKind.CRASHED, "abort", TrapCause.ABORT, error="SandboxCrash", lost=True),
    "damages itself": Case(OutcomeKind.CRASHED, "damage", TrapCause.DAMAGE, error="SandboxCrash", lost=True),
    "the host fails": Case(OutcomeKind.CRASHED, "host", TrapCause.HOST, error="SandboxCrash", lost=True),
    "no reply": Case(OutcomeKind.CRASHED, "damage", error="SandboxCrash", lost=True),
    "time is up": Case(
        OutcomeKind.TIME_LIMIT, "TimeoutError", reply=error("TimeoutError"), timed_out=True, error="TimeoutError"
    ),
    "time is up and it raises another": Case(
        OutcomeKind.TIME_LIMIT, "TimeoutError", reply=error("ValueError"), timed_out=True, error="ValueError"
    ),
    "time is up and it ends well": Case(OutcomeKind.OK, reply=OK_REPLY, timed_out=True, code=0, error=None),
    "time is up by force": Case(
        OutcomeKind.TIME_LIMIT, "forced", TrapCause.STOPPED, timed_out=True, error="TimeoutError", lost=True
    ),
    "interrupted": Case(
        OutcomeKind.INTERRUPTED,
        "KeyboardInterrupt",
        reply=error("KeyboardInterrupt"),
        interrupted=True,
        error="KeyboardInterrupt",
    ),
    "interrupted and it ends well": Case(OutcomeKind.OK, reply=OK_REPLY, interrupted=True, code=0, error=None),
    "interrupted and it raises another": Case(
        OutcomeKind.ERROR, "ValueError", reply=error("ValueError"), interrupted=True, error="ValueError"
    ),
    "interrupted by force": Case(
        OutcomeKind.INTERRUPTED, "forced", TrapCause.STOPPED, interrupted=True, error="KeyboardInterrupt", lost=True
    ),
    "interrupted, then time is up by force": Case(
        OutcomeKind.TIME_LIMIT,
        "forced",
        TrapCause.STOPPED,
        interrupted=True,
        timed_out=True,
        error="TimeoutError",
        lost=True,
    ),
    "a KeyboardInterrupt of its own": Case(
        OutcomeKind.ERROR, "KeyboardInterrupt", reply=error("KeyboardInterrupt"), error="KeyboardInterrupt"
    ),
    "a TimeoutError of its own": Case(
        OutcomeKind.ERROR, "TimeoutError", reply=error("TimeoutError"), error="TimeoutError"
    ),
    "a crash though it says ok": Case(
        OutcomeKind.CRASHED, "abort", TrapCause.ABORT, reply=OK_REPLY, error="SandboxCrash", lost=True
    ),
}


def _run(*, interrupted: bool = False, timed_out: bool = False) -> Run:
    run = Run(5, 1)
    run.interrupted, run.timed_out = interrupted, timed_out
    return run


@pytest.mark.parametrize("name", list(CASES))
def test_every_ending(name: str) -> None:
    case = CASES[name]
    trap = Trapped(case.trap, exit_code=case.exit_status) if case.trap is not None else None
    run = _run(interrupted=case.interrupted, timed_out=case.timed_out)
    how, code, found = judge(POLICY, run, trap, case.reply, None, closed=False)
    assert (how.kind, how.cause, code, how.state_lost) == (case.kind, case.cause, case.code, case.lost)
    assert (found.name if found is not None else None) == case.error
    assert how.ok == (case.kind is OutcomeKind.OK)
    assert how.ok or how.message


def test_every_trap_is_judged() -> None:
    assert {case.trap for case in CASES.values()} >= set(TrapCause)
    assert {case.kind for case in CASES.values()} == set(OutcomeKind)


def test_closing_while_code_runs_is_no_outcome() -> None:
    with pytest.raises(SandboxClosed):
        judge(POLICY, _run(), Trapped(TrapCause.STOPPED), {}, None, closed=True)
    how, _, _ = judge(POLICY, _run(timed_out=True), Trapped(TrapCause.STOPPED), {}, None, closed=True)
    assert how.kind is OutcomeKind.TIME_LIMIT, "it was over before"
    how, _, _ = judge(POLICY, _run(), None, OK_REPLY, None, closed=True)
    assert how.ok


def test_what_was_shown_is_the_error() -> None:
    shown = GuestError("ValueError", "as shown", [])
    for trap in (None, Trapped(TrapCause.ABORT)):
        assert judge(POLICY, _run(), trap, error("KeyError"), shown, closed=False)[2] is shown


@pytest.mark.parametrize(
    "reply",
    [
        {"status": "error", "ename": 7, "evalue": None, "traceback": "no list"},
        {"status": "error", "ename": "E" * 10_000, "traceback": [1, None]},
        {"status": ["ok"], "ename": {}},
        {"status": "error"},
    ],
)
def test_a_reply_of_the_wrong_types_is_an_error_all_the_same(reply: dict[str, Any]) -> None:
    how, code, found = judge(POLICY, _run(), None, reply, None, closed=False)
    assert how.kind is OutcomeKind.ERROR and code == 1
    assert len(how.cause) <= 200
    assert found is not None and all(isinstance(line, str) for line in found.traceback)


@pytest.mark.parametrize(
    ("sent", "is_worth"), [(3, 3), (-3, -3), (True, 0), (2**53, 0), (1.5, 0), ("3", 0), (None, 0), ([], 0)]
)
def test_a_number_of_the_guests(sent: Any, is_worth: int) -> None:
    assert integer(sent) == is_worth


# ---- between cells


@pytest.mark.parametrize(
    ("trap", "says"),
    [
        (TrapCause.STOPPED, "stopped by force"),
        (TrapCause.OUT_OF_FUEL, "used up its fuel"),
        (TrapCause.EXIT, "ended the interpreter"),
        (TrapCause.ABORT, "ended the guest (abort)"),
    ],
)
def test_a_trap_in_the_background(trap: TrapCause, says: str) -> None:
    budget = BackgroundBudget.of(POLICY)
    ((what, text),) = judge_background(budget, _run(timed_out=True), Trapped(trap), 0.0)
    assert what == "stopped" and says in text


def test_a_turn_that_was_too_long_and_budgets_that_are_used_up() -> None:
    budget = BackgroundBudget.of(POLICY)
    run = _run()
    now = run.started + 2
    assert list(judge_background(budget, run, None, now)) == []
    run.timed_out = True
    ((what, text),) = judge_background(budget, run, None, now)
    assert what == "turn" and "2.0 s" in text
    budget.spend({}, 5.0, 1000, now)
    said = dict(judge_background(budget, _run(), None, now))
    assert set(said) == {"time", "fuel"}
    assert "%session limits timeout=" in said["time"] and "%session limits fuel=" in said["fuel"]
