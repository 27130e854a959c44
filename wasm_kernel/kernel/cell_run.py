"""One cell on its way through the kernel, and the reply that its front end gets."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wasm_kernel.kernel import cells
from wasm_kernel.kernel.messages import error_content
from wasm_kernel.kernel.outputs import Outputs
from wasm_kernel.kernel.seal import terminal
from wasm_kernel.model import limits
from wasm_kernel.model.outcome import Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.units import format_size

if TYPE_CHECKING:
    from wasm_kernel.kernel.magics.answers import Answer

Message = dict[str, Any]
_ASK_EXIT = {"source": "ask_exit", "keepkernel": False}
_MEMORY_HINT = "The memory limit is"  # what `guest/next_steps.py` adds to a MemoryError
_LEAVING = ("exit", "quit", "exit()", "quit()")  # consoles end with these


@dataclass
class CellRun:
    """One execute_request.

    Attributes:
        parent: The request.
        ident: The front end's address.
        code: The text of the cell.
        silent: Whether nothing of it is shown or recorded.
        allow_stdin: Whether its front end can ask the person.
        claims: Which of the host's magics its text contains, and how often each may still run.
        counts: Whether it has a number of its own.
        number: Its number, or that of the last cell that counted.
        afterwards: What its magics do once the guest is idle.
        cancelled: Set when it is interrupted.
    """

    parent: Message
    ident: Any
    code: str
    silent: bool
    allow_stdin: bool
    claims: cells.Claims = field(default_factory=cells.Claims)
    counts: bool = False
    number: int = 0
    afterwards: list[Callable[[], Awaitable[Answer]]] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cell(self) -> cells.Cell:
        """The cell's text, as the host parsed it."""
        return self.claims.cell

    def known_to_guest(self, control: Message, control_ident: Any) -> Message:
        """What the guest may know about the request, and about the last one on the control channel."""
        return {**known_to_guest(self.parent, self.ident), "control": known_to_guest(control, control_ident)}


def known_to_guest(parent: Message, ident: Any = ()) -> Message:
    """What the guest may know about a request, as ``get_ipython().get_parent()``: not who the user is."""
    header = parent.get("header", {})
    told = {name: str(header.get(name, "")) for name in ("msg_id", "msg_type", "session", "version")}
    date = header.get("date")
    told["date"] = date.isoformat() if isinstance(date, datetime) else str(date or "")
    parts = [part.decode("latin-1") for part in ident if isinstance(part, bytes)] if isinstance(ident, list) else []
    return {"header": {**told, "username": ""}, "metadata": parent.get("metadata") or {}, "ident": parts}


def asks_to_exit(reply: Message) -> bool:
    """Whether a cell called ``exit()`` or ``quit()``: the kernel ends after its reply, as ipykernel does."""
    payload = reply.get("payload")
    found = [item for item in payload if isinstance(item, dict)] if isinstance(payload, list) else []
    return any(item.get("source") == "ask_exit" and item.get("keepkernel") is False for item in found)


class Replies:
    """Makes the replies to cells, and the errors shown in them."""

    def __init__(self, outputs: Outputs, publish: Callable[..., None]) -> None:
        self._outputs, self._publish = outputs, publish

    def reply(self, run: CellRun, result: SandboxResult, policy: ExecutionPolicy, maxima: Message) -> Message:
        """The reply to a cell that ran in the guest."""
        if result.success:
            return self._success(run, result.reply)
        how, error = result.outcome, result.error
        rest: Message = {"user_expressions": {}, "payload": []}
        if result.reply.get("ename") == "UsageError" and not result.reply.get("traceback"):  # its text is on stderr
            return {**error_content("UsageError", str(result.reply.get("evalue", ""))), **rest}
        name, value = (error.name, error.value) if error else (how.cause, how.message)
        traceback = error.traceback if error else []
        step = next_step(how, policy, maxima)
        if not traceback:  # nothing was shown yet: the guest could not report it
            value = "\n→ ".join(part for part in (how.message, step) if part)
            return {**self.failed(run, name, value), **rest}
        if how.cause == "MemoryError" and any(_MEMORY_HINT in line for line in traceback[-1:]):
            step = ""  # the guest has said it, below its error
        said = ([how.message] if how.state_lost else []) + ([f"→ {step}"] if step else [])
        if said and not run.silent:
            self._publish(run.parent, "stream", {"name": "stderr", "text": "\n".join(said) + "\n"})
        content = error_content(name, value, traceback)
        return {**content, **({} if self._outputs.trusted else terminal.defused_error(content)), **rest}

    def _success(self, run: CellRun, given: Message) -> Message:
        reply: Message = {"status": "ok", "user_expressions": {}, "payload": []}
        expressions, payload, trusted = given.get("user_expressions"), given.get("payload"), self._outputs.trusted
        if isinstance(expressions, dict) and expressions:
            reply["user_expressions"] = expressions if trusted else self._outputs.seal.expressions(expressions)
        if isinstance(payload, list) and payload:
            reply["payload"] = payload if trusted else self._outputs.seal.payload(payload)
            if not trusted and run.code.strip() in _LEAVING:  # the person typed it, so it is not the guest's idea
                reply["payload"] += [item for item in payload if item == _ASK_EXIT]
        return reply

    def failed(self, run: CellRun, name: str, value: str) -> Message:
        """Show an error of the kernel's in the cell; the reply that goes with it."""
        content = error_content(name, value, [f"\x1b[0;31m{name}\x1b[0m: {value}"])
        if not run.silent:
            self._publish(run.parent, "error", {key: content[key] for key in ("ename", "evalue", "traceback")})
        return content

    def show(self, run: CellRun, answer: Answer) -> None:
        """Show a magic's answer."""
        if not run.silent and (answer.text or answer.html):
            data = {"text/plain": answer.text, **({"text/html": answer.html} if answer.html else {})}
            data |= answer.view() if answer.view is not None else {}
            self._publish(run.parent, "display_data", {"data": data, "metadata": answer.metadata, "transient": {}})


def next_step(how: Outcome, policy: ExecutionPolicy, maxima: Message) -> str:
    """What a person can do about how a cell ended, in a notebook, where a magic changes limits."""
    if how.cause == "MemoryError":
        limit = format_size(policy.memory_bytes)
        return f"the limit is {limit}: free what is no longer needed{_or_raise('memory', policy, maxima)}"
    if how.kind is OutcomeKind.TIME_LIMIT:
        return f"do less in one cell{_or_raise('timeout', policy, maxima)}"
    return how.next_step


def _or_raise(limit: str, policy: ExecutionPolicy, maxima: Message) -> str:
    if limits.current(policy, limit) == maxima.get(limit, -1):
        return "; the administrator allows no more"
    return f", or raise the limit with %session limits {limit}=…"
