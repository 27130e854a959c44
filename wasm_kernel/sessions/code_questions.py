"""Answers what running code asks the program that embeds it: a line of input, or a call of one of its tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.job_thread import line_of
from wasm_kernel.sessions.host_tools import HostTools
from wasm_kernel.sessions.runtime import SessionRuntime


class CodeQuestions:
    """Answers the questions of one execution, on an event loop that goes on meanwhile."""

    def __init__(
        self,
        runtime: SessionRuntime,
        on_input: Callable[[wire.InputRequest], str] | None,
        tools: HostTools | None,
        instead_of: Callable[[str], str] | None = None,
    ) -> None:
        """``on_input`` and ``tools``: who answers; None: what they would answer is refused.

        ``instead_of``: what to do instead of a magic of the host's, by its name, as the code reads it.
        """
        self._runtime, self._on_input, self._tools, self._instead_of = runtime, on_input, tools, instead_of
        self._answering: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly

    def asked(self, kind: str, request: Any) -> None:
        """The code asks something; it waits for the answer. Called on the loop."""
        sandbox = self._runtime.sandbox
        if kind == "waiting":
            if sandbox.claim(request):
                sandbox.answer(wire.ANSWER_REFUSED)
            return
        task = asyncio.get_running_loop().create_task(self._answer(kind, request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, kind: str, request: Any) -> None:
        answer = wire.ANSWER_REFUSED
        try:
            if kind == "magic" and self._tools is not None:
                answer = await _on_its_own_thread(partial(self._tools.answer, request))
            elif kind == "magic" and self._instead_of is not None:
                answer = wire.ANSWER_ERROR + self._instead_of(request.name).encode()
            elif kind == "input" and self._on_input is not None:
                answer = await _on_its_own_thread(partial(line_of, self._on_input, request))
        finally:  # the guest waits, also for a function that raises
            self._runtime.sandbox.answer(answer, request)


async def _on_its_own_thread(ask: Callable[[], bytes]) -> bytes:
    """Ask what may take as long as a person does. The loop's own threads are few, and all sessions need them."""
    answer: Future[bytes] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as e:  # noqa: BLE001 - raised where it is awaited
            answer.set_exception(e)

    threading.Thread(target=run, name="wasm-kernel-question", daemon=True).start()
    return await asyncio.wrap_future(answer)
