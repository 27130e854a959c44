"""Widgets' messages that reach a cell while it awaits something, as in ipykernel; otherwise they wait for its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.kernel.attribution import Attribution, Request
from wasm_kernel.kernel.comm_messages import CommMessages

Message = dict[str, Any]
ACTIONS = ("comm_open", "comm_msg", "comm_close")


class CommsInCell:
    """Hands messages to the running cell, one each time it awaits. On the kernel's loop."""

    def __init__(
        self,
        waiting: deque[tuple[Any, Message]],
        comms: CommMessages,
        attribution: Attribution,
        status: Callable[[str, Message], None],
    ) -> None:
        """``waiting``: requests that have arrived. ``status``: tells front ends that a request is being answered."""
        self._waiting, self._comms, self._attribution, self._status = waiting, comms, attribution, status
        self._awaits: tuple[Sandbox, int] | None = None
        self._handed: list[Message] = []

    def awaits(self, sandbox: Sandbox, wait: int) -> None:
        """The cell awaits something: it has dealt with what it was handed before, and can get the next message."""
        self._tell_idle()
        self._awaits = sandbox, wait
        self.look()

    def look(self) -> None:
        """Hand the first message over, if there is one and the cell still awaits."""
        entry = next((entry for entry in self._waiting if entry[1]["header"]["msg_type"] in ACTIONS), None)
        if self._awaits is None or entry is None:
            return
        (sandbox, wait), self._awaits = self._awaits, None
        if not sandbox.claim(wait):
            return
        self._waiting.remove(entry)
        message = entry[1]
        self._handed.append(message)
        self._status("busy", message)
        self._attribution.of(Request(message))
        prepared = self._comms.for_guest(message["header"]["msg_type"], message)
        sandbox.answer(b"" if prepared is None else wire.ANSWER_TEXT + wire.encode(*prepared))

    def end(self) -> None:
        """The cell has ended."""
        self._awaits = None
        self._tell_idle()

    def _tell_idle(self) -> None:
        for message in self._handed:
            self._status("idle", message)
        self._handed.clear()
