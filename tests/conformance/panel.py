"""A front end's end of the side panel's comm, for tests."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable
from typing import Any

from tests.conformance.client import PATIENCE, Kernel
from wasm_kernel.kernel.side_panel.panel_protocol import VERSION

Message = dict[str, Any]


class Panel:
    """A front end's end of the comm."""

    def __init__(self, kernel: Kernel, comm_id: str = "panel-1", version: Any = VERSION) -> None:
        self.kernel, self._comm_id, self._numbers = kernel, comm_id, itertools.count(1)
        self.said: list[Message] = []
        kernel.send("comm_open", {"comm_id": comm_id, "target_name": "wasm-kernel", "data": {"version": version}})

    def _next(self, end: float) -> Message:
        """The next message on the comm."""
        while time.monotonic() < end:
            for message in self.kernel.others:  # came while a cell was waited for
                if self._is_mine(message):
                    self.kernel.others.remove(message)
                    return self._heard(message)
            try:
                self.kernel.others.append(self.kernel.client.get_iopub_msg(timeout=0.2))
            except queue.Empty:
                continue
        raise AssertionError(f"nothing came; before: {self.said[-3:]}")

    def _is_mine(self, message: Message) -> bool:
        return message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self._comm_id

    def _heard(self, message: Message) -> Message:
        data: Message = message["content"]["data"]
        self.said.append(data)
        return data

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message from now on that is wanted."""
        end = time.monotonic() + PATIENCE
        while True:
            message = self._next(end)
            if wanted(message):
                return message

    def state(self, wanted: Callable[[Message], bool]) -> Message:
        """The first state from now on that is wanted."""
        found: Message = self.until(lambda m: "state" in m and wanted(m["state"]))["state"]
        return found

    def ask(self, do: str, **values: Any) -> Message:
        """The answer to a request."""
        number = self.send(do, **values)
        return self.until(lambda m: m.get("answer") == number)

    def send(self, do: str, **values: Any) -> int:
        """Send a request, and do not wait; its number."""
        number = next(self._numbers)
        self.kernel.send("comm_msg", {"comm_id": self._comm_id, "data": {"request": number, "do": do, **values}})
        return number


def numbers(state: Message, *states: str) -> list[int]:
    """The numbers of the rows in some states, newest first."""
    return [row["number"] for row in state["rows"] if row["state"] in states]


def stored(count: int) -> Callable[[Message], bool]:
    """A state in which every row can be gone to."""
    return lambda state: len(state["rows"]) == count and all(row["id"] for row in state["rows"])
