"""How an execution ended, and everything it returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class OutcomeKind(StrEnum):
    """The ways an execution can end."""

    OK = "ok"
    ERROR = "error"  # the code raised; every variable is as the code left it
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time_limit"
    FUEL_LIMIT = "fuel_limit"
    EXIT = "exit"  # sys.exit(), os._exit()
    CRASHED = "crashed"  # the guest trapped: stack overflow, abort, deadlock, damage to itself


@dataclass(frozen=True)
class Outcome:
    """How an execution ended, for programs (`kind`, `cause`) and for people (`message`, `next_step`).

    Attributes:
        kind: The way it ended.
        cause: A short tag under the kind: the exception's name, ``forced``, ``stack_overflow``, ``abort`` ...
        message: One sentence that says what happened.
        next_step: What a person can do about it; empty if there is nothing to do.
        state_lost: Whether the guest's memory was restored to its state before this execution. Files written
            during it are kept.
    """

    kind: OutcomeKind
    cause: str = ""
    message: str = ""
    next_step: str = ""
    state_lost: bool = False

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.kind is OutcomeKind.OK


class TrapCause(StrEnum):
    """Why WebAssembly stopped, by wasmtime's trap code, never by its message."""

    STACK_OVERFLOW = "stack_overflow"
    ABORT = "abort"  # unreachable: os.abort(), a deadlocked lock, a failed assertion in C
    OUT_OF_FUEL = "out_of_fuel"
    EXIT = "exit"
    STOPPED = "stopped"  # by us: time limit, interrupt, close
    DAMAGE = "damage"  # memory or table out of bounds, bad indirect call: the guest corrupted itself
    HOST = "host"  # one of our own callbacks failed


_CRASHES = {
    TrapCause.STACK_OVERFLOW: (
        "the code used up the interpreter's stack (8 MiB) inside C code",
        "avoid deeply nested data or recursion through C (sort keys, repr, pickle)",
    ),
    TrapCause.ABORT: (
        "the interpreter aborted (os.abort(), a fatal error in C code, or a lock that could never be released)",
        "if it wrote to stderr, the last lines there say why",
    ),
    TrapCause.DAMAGE: (
        "the interpreter corrupted its own memory; nothing outside it was touched",
        "if this was plain Python or a built-in package, please report it",
    ),
    TrapCause.HOST: (
        "the host failed while serving the sandbox",
        "please report this with the log",
    ),
}
_RESTORED = "variables are back as they were before this execution; files it wrote are kept"


def crashed(cause: TrapCause, detail: str = "") -> Outcome:
    """The outcome of a trap that was not a limit, an interrupt or an exit."""
    message, step = _CRASHES.get(cause, _CRASHES[TrapCause.DAMAGE])
    if detail:
        message += f" ({detail})"
    return Outcome(OutcomeKind.CRASHED, cause.value, f"{message}; {_RESTORED}", step, state_lost=True)


def time_limit(seconds: float, *, forced: bool) -> Outcome:
    """The outcome of running past `ExecutionPolicy.timeout_seconds`."""
    lost = f" and had to be stopped by force; {_RESTORED}" if forced else ""
    return Outcome(
        OutcomeKind.TIME_LIMIT,
        "forced" if forced else "TimeoutError",
        f"the code ran longer than its limit of {seconds:g} s{lost}",
        "raise the timeout, or do less in one execution",
        state_lost=forced,
    )


def interrupted(*, forced: bool, grace: float = 0) -> Outcome:
    """The outcome of an interrupt: KeyboardInterrupt, or force when C code did not return."""
    if not forced:
        return Outcome(OutcomeKind.INTERRUPTED, "KeyboardInterrupt", "the execution was interrupted")
    return Outcome(
        OutcomeKind.INTERRUPTED,
        "forced",
        f"the code did not react to the interrupt within {grace:g} s and was stopped by force; {_RESTORED}",
        state_lost=True,
    )


def fuel_limit(budget: int) -> Outcome:
    """The outcome of using up `ExecutionPolicy.fuel_budget`."""
    return Outcome(
        OutcomeKind.FUEL_LIMIT,
        TrapCause.OUT_OF_FUEL.value,
        f"the code used up its fuel of {budget} instructions; {_RESTORED}",
        "raise the fuel limit, or do less in one execution",
        state_lost=True,
    )


def exited(code: int, *, state_lost: bool) -> Outcome:
    """The outcome of sys.exit() (memory kept) or os._exit() (memory restored)."""
    lost = f"; {_RESTORED}" if state_lost else ""
    return Outcome(OutcomeKind.EXIT, "exit", f"the code exited with status {code}{lost}", "", state_lost=state_lost)


def raised(ename: str) -> Outcome:
    """The outcome of an exception that reached the top of the code."""
    step = "raise the memory limit, or free what is no longer needed" if ename == "MemoryError" else ""
    return Outcome(OutcomeKind.ERROR, ename, f"the code raised {ename}", step)


OK = Outcome(OutcomeKind.OK)


@dataclass(frozen=True)
class GuestError:
    """An exception as the guest reported it; the traceback's lines carry ANSI colours."""

    name: str
    value: str
    traceback: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SandboxResult:
    """Everything one `execute` returned.

    Attributes:
        success: Whether the code ran to its end.
        outcome: How it ended, with a sentence for people and a tag for programs.
        stdout: Standard output, as far as it was kept.
        stderr: Standard error, as far as it was kept.
        result: The last expression's value as a mime bundle, or None.
        displays: Mime bundles shown with `display()`, in order.
        error: The exception that reached the top, or None.
        exit_code: 0, the status the code exited with, or 1 for any other failure.
        duration_seconds: Wall-clock time in the guest.
        fuel_consumed: Instructions executed, when a fuel budget was set.
        memory_bytes: Size of the guest's linear memory afterwards.
        files_created: New files under the workspace, relative paths, sorted.
        files_modified: Every file written, new ones included.
        files_deleted: Files that existed before and no longer do.
        workspace_path: The host folder the guest sees as `/app`.
        metadata: Anything else, such as the session's id.
        execution_count: The guest's counter, as in `In [n]`.
        reply: The rest of the guest's reply: payload, user_expressions. Not verified.
    """

    success: bool
    outcome: Outcome
    stdout: str = ""
    stderr: str = ""
    result: dict[str, Any] | None = None
    displays: list[dict[str, Any]] = field(default_factory=list)
    error: GuestError | None = None
    exit_code: int = 0
    duration_seconds: float = 0.0
    fuel_consumed: int | None = None
    memory_bytes: int = 0
    files_created: list[str] = field(default_factory=list)
    files_modified: list[str] = field(default_factory=list)
    files_deleted: list[str] = field(default_factory=list)
    workspace_path: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    execution_count: int = 0
    reply: dict[str, Any] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        """`workspace_path` as a path."""
        return Path(self.workspace_path)
