"""Requests to a guest from an event loop, which keeps running while the guest works."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.output_buffer import OnEvent
from wasm_kernel.host.runtime.sandbox import Deliver, Sandbox

# "input" or "magic" and the request, which `Sandbox.answer` answers; "waiting" and a number for `Sandbox.claim`.
OnQuestion = Callable[[str, Any], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Execution:
    """One cell: its code, and where its output goes.

    Attributes:
        code: Python source.
        number: Its number.
        on_event: Called with its output, on the sandbox's thread.
        options: The guest's fields of an execute request.
        on_question: Called on the loop when the guest wants a line of input, or one of the host's magics.
        silent: No checkpoint is taken, and the output of background tasks is not attributed to it.
        on_begin: Called on the sandbox's thread when the guest has its code, and the host has time.
        serial: A number that grows from cell to cell, for `SessionRuntime.on_saved`; 0: nobody wants to know.
    """

    code: str
    number: int
    on_event: OnEvent
    options: dict[str, Any] = field(default_factory=dict)
    on_question: OnQuestion | None = None
    silent: bool = False
    serial: int = 0
    on_begin: Callable[[], None] | None = None


async def when_written(future: Future[T]) -> T:
    """What a thread makes of a future; it does so, too, if who waits for it is cancelled."""
    return await asyncio.shield(asyncio.wrap_future(future))


async def to_its_end(turn: asyncio.Lock, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do something with a lock held, which is held until it is done.

    Who is cancelled while it waits for the lock does nothing; later, nobody waits any more, and it goes on: half a
    restore would be neither moment.
    """
    await turn.acquire()
    task = asyncio.get_running_loop().create_task(work())
    task.add_done_callback(lambda task: turn.release())
    return await asyncio.shield(task)


class GuestAccess:
    """Sends requests to a guest. Every caller must hold `guest`.

    Attributes:
        guest: The lock to hold for any request to the guest.
        on_question: Called on the loop when something other than a cell asks the host a question.
        on_turn_end: Called on the loop when the guest has become idle, before its result is delivered.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.guest = asyncio.Lock()
        self.on_turn_end: Callable[[], None] = lambda: None
        self.on_question: OnQuestion = self._refuse

    def _refuse(self, kind: str, request: Any) -> None:
        if kind != "waiting":
            self.sandbox.answer(wire.ANSWER_REFUSED, request)
        elif self.sandbox.claim(request):
            self.sandbox.answer(wire.ANSWER_REFUSED)

    @property
    def sandbox(self) -> Sandbox:
        """The live guest."""
        raise NotImplementedError

    async def _before_turn(self) -> None:
        """The guest is about to get a request."""

    async def in_guest(self, begin: Callable[[Sandbox, Deliver], None], on_question: OnQuestion | None = None) -> Any:
        """Give the guest something to do, and wait for it without blocking the loop. With `guest` held.

        ``on_question``: called on the loop when the guest asks the host a question in the meantime.
        """
        on_question = on_question or self.on_question
        await self._before_turn()
        sandbox = self.sandbox
        future: asyncio.Future[Any] = self._loop.create_future()

        def arrived(kind: str, value: Any) -> None:
            self.on_turn_end()
            if kind in ("input", "magic", "waiting"):
                on_question(kind, value)
            elif future.done():
                return
            elif kind == "error":
                future.set_exception(value)
            else:
                future.set_result(value)

        def deliver(kind: str, value: Any) -> None:  # on the sandbox's thread
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                self._loop.call_soon_threadsafe(arrived, kind, value)

        begin(sandbox, deliver)
        return await future

    async def ask(
        self, request: dict[str, Any], buffers: tuple[bytes, ...] = (), on_event: OnEvent | None = None
    ) -> dict[str, Any]:
        """A request that is not the code of a cell: complete, inspect, comm, … With `guest` held."""
        reply: dict[str, Any] = await self.in_guest(
            lambda sandbox, deliver: sandbox.begin_ask(request, buffers, deliver, on_event=on_event)
        )
        return reply
