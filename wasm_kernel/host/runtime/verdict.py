"""How an execution ended: by wasmtime's trap code and by what the host asked for, never by what the guest says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wasm_kernel.errors import SandboxClosed
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.model import outcome as outcomes
from wasm_kernel.model.budget import BackgroundBudget, Budget
from wasm_kernel.model.outcome import GuestError, Outcome, OutcomeKind, TrapCause
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.units import format_duration

_ERROR_NAMES = {
    OutcomeKind.CRASHED: "SandboxCrash",
    OutcomeKind.TIME_LIMIT: "TimeoutError",
    OutcomeKind.FUEL_LIMIT: "FuelExhausted",
    OutcomeKind.INTERRUPTED: "KeyboardInterrupt",
}


def _error_of(reply: dict[str, Any]) -> GuestError | None:
    if "ename" not in reply:
        return None
    traceback = reply.get("traceback")
    lines = [str(line) for line in traceback] if isinstance(traceback, list) else []
    return GuestError(str(reply["ename"]), str(reply.get("evalue", "")), lines)


def integer(value: Any) -> int:
    """A number the guest sent, if it is one; else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else 0


def judge(
    policy: ExecutionPolicy,
    run: Run,
    trap: Trapped | None,
    reply: dict[str, Any],
    shown: GuestError | None,
    *,
    closed: bool,
) -> tuple[Outcome, int, GuestError | None]:
    """The outcome, the exit code, and the error to report. ``shown`` is the exception the guest has shown, if any."""
    forced = trap is not None
    how: Outcome
    exit_code = 1
    if trap is not None and trap.cause is TrapCause.EXIT:
        how, exit_code = outcomes.exited(trap.exit_code, state_lost=True), trap.exit_code
    elif trap is not None and trap.cause is TrapCause.OUT_OF_FUEL:
        how = outcomes.fuel_limit(policy.fuel_budget or 0)
    elif trap is not None and trap.cause is not TrapCause.STOPPED:
        how = outcomes.crashed(trap.cause)
    elif trap is not None and closed and not run.timed_out:
        raise SandboxClosed("the sandbox was closed while the code ran")
    elif run.timed_out and (forced or reply.get("status") != "ok"):
        how = outcomes.time_limit(policy.timeout_seconds or 0, forced=forced)
    elif run.interrupted and (forced or reply.get("ename") == "KeyboardInterrupt"):
        how = outcomes.interrupted(forced=forced, grace=policy.interrupt_grace_seconds)
    elif not reply:
        how = outcomes.crashed(TrapCause.DAMAGE, "it gave no reply")
    elif reply.get("status") == "ok":
        return outcomes.OK, 0, None
    elif reply.get("ename") == "SystemExit":
        exit_code = integer(reply.get("exit_code")) & 0xFF
        how = outcomes.exited(exit_code, state_lost=False)
    else:
        how = outcomes.raised(str(reply.get("ename"))[:200])
    error = shown or _error_of(reply)
    if error is None and how.kind is not OutcomeKind.EXIT:
        error = GuestError(_ERROR_NAMES.get(how.kind, "SandboxError"), how.message, [])
    return how, exit_code, error


def judge_background(budget: BackgroundBudget, run: Run, trap: Trapped | None, now: float) -> Iterator[tuple[str, str]]:
    """What there is to say after a turn between cells: a tag and a sentence for each thing that was too much."""
    if trap is not None:
        how = _BACKGROUND_ENDS.get(trap.cause, f"ended the guest ({trap.cause.value})")
        yield (
            "stopped",
            f"a background task or a widget {how}. Variables are as they were before, files are kept; background tasks "
            "go on when the next cell runs",
        )
    elif run.timed_out:
        yield (
            "turn",
            f"a background task or a widget ran for {now - run.started:.1f} s without a pause and got a TimeoutError; "
            "let it await asyncio.sleep(0) now and then, or do the work in a cell",
        )
    if budget.seconds.wait(now):
        yield "time", _used_up(f"their {budget.seconds.limit:g} s", budget.seconds, now, "timeout")
    if budget.fuel.wait(now):
        yield "fuel", _used_up(f"their {budget.fuel.limit:,.0f} instructions", budget.fuel, now, "fuel")


_BACKGROUND_ENDS = {
    TrapCause.STOPPED: "did not react to its time limit and was stopped by force",
    TrapCause.OUT_OF_FUEL: "used up its fuel",
    TrapCause.EXIT: "ended the interpreter",
}


def _used_up(what: str, budget: Budget, now: float, limit: str) -> str:
    window, wait = format_duration(budget.window), format_duration(budget.wait(now))
    return (
        f"background tasks and widgets have used {what} of every {window} between cells and wait for {wait}. Cancel "
        f"what is no longer needed, do the work in a cell, or raise the limit: %session limits {limit}=…"
    )
