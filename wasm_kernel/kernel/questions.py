"""Questions to the person, on the stdin channel: the guest's (`input()`), and the host's own.

Only one is open at a time. An answer counts only for its own question: one that arrived before the question was sent is
discarded, and so is one that names another question. JupyterLab names the question; clients built on jupyter_client do
not, but they drop what was typed for a question that has since been replaced. While the host asks, the guest cannot;
nor can it in the rest of a cell that got away from the host's question, because the person may still see that one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zmq

from wasm_kernel.kernel.channels import readable
from wasm_kernel.kernel.seal import terminal
from wasm_kernel.model.grants import marked

if TYPE_CHECKING:
    from jupyter_client.session import Session

Message = dict[str, Any]
_PAUSE = 0.02  # seconds between checks of the channel


@dataclass(frozen=True)
class Person:
    """Who can be asked about a cell: the person at the front end that sent it.

    Attributes:
        request: The execute_request.
        ident: The front end's address.
        waits: Whether we are still waiting for an answer.
    """

    request: Message
    ident: Any
    waits: Callable[[], bool]


class Questions:
    """The stdin channel.

    Attributes:
        guest_has_asked: Whether the guest has asked anything since the kernel started.
    """

    def __init__(self, stdin: zmq.Socket[bytes], session: Session) -> None:
        self._stdin, self._session = stdin, session
        self._open = ""
        self.guest_has_asked = False
        self._asked_by_host: Person | None = None
        self._unanswered_in = ""  # the last cell in which the host asked and nobody answered

    @property
    def host_asks(self) -> bool:
        """Whether a question of the host's is open."""
        return self._asked_by_host is not None and self._asked_by_host.waits()

    def guest_may_ask(self, request: Message) -> bool:
        """Whether the guest may ask something in a cell, by its execute_request."""
        return not self.host_asks and request["header"]["msg_id"] != self._unanswered_in

    async def ask_for_guest(self, person: Person, prompt: str, *, password: bool) -> str | None:
        """What the person typed for the guest; None: the cell has stopped waiting."""
        self.guest_has_asked = True
        return await self._ask(person, marked(terminal.defused(prompt)), password=password)

    async def ask_for_host(self, person: Person, prompt: str, *, password: bool = False) -> str | None:
        """What the person typed for the host; None: the cell has stopped waiting, or another question is open."""
        if self.host_asks:
            return None
        self._asked_by_host, self._unanswered_in = person, person.request["header"]["msg_id"]
        try:
            answer = await self._ask(person, prompt, password=password)
            if answer is not None:
                self._unanswered_in = ""
            return answer
        finally:
            if self._asked_by_host is person:  # otherwise its cell was interrupted, and another one asks already
                self._asked_by_host = None

    async def _ask(self, person: Person, prompt: str, *, password: bool) -> str | None:
        while readable(self._stdin):
            self._stdin.recv_multipart()  # an answer to an earlier question
        content = {"prompt": prompt, "password": password}
        sent = self._session.send(self._stdin, "input_request", content, person.request, ident=person.ident)
        assert sent is not None
        question = self._open = sent["header"]["msg_id"]
        while self._open == question and person.waits():
            if not readable(self._stdin):
                await asyncio.sleep(_PAUSE)
                continue
            with contextlib.suppress(Exception):  # a forged or broken reply
                _, reply = self._session.recv(self._stdin, zmq.NOBLOCK)
                assert reply is not None
                if _answers(reply, question, person.request["header"]["msg_id"]):
                    return str(reply["content"].get("value", ""))
        return None


def _answers(reply: Message, question: str, cell: str) -> bool:
    """Whether this answers the question, as far as the front end says; some name the cell instead."""
    return reply["msg_type"] == "input_reply" and reply["parent_header"].get("msg_id") in (None, "", question, cell)
