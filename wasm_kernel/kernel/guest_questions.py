"""What the guest asks of the host while it runs: a line typed by the person, or one of the host's magics.

The guest is hostile: a magic runs only if the running cell's text contains it, and only as often as it says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import Interrupted, WasmKernelError
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.kernel import cells
from wasm_kernel.kernel.cell_run import CellRun, Replies
from wasm_kernel.kernel.comms_in_cell import CommsInCell
from wasm_kernel.kernel.questions import Person, Questions

if TYPE_CHECKING:
    from wasm_kernel.kernel.magics.magics import Magics


class GuestQuestions:
    """Answers the guest's requests. On the kernel's loop, which does not wait for the answers."""

    def __init__(
        self,
        questions: Questions,
        replies: Replies,
        running: Callable[[], CellRun | None],
        magics: Callable[[], Magics],
        comms: CommsInCell,
        log: logging.Logger,
    ) -> None:
        """``running``: returns the running cell. ``magics``: returns the host's magics, made when first needed."""
        self._questions, self._replies, self._running, self._magics = questions, replies, running, magics
        self._comms = comms
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly

    def arrived(self, run: CellRun | None, sandbox: Sandbox, kind: str, request: Any) -> None:
        """The guest waits for an answer, or for a widget's message. ``run``: the cell it is running, if any."""
        if kind == "waiting":
            if run is not None and run is self._running():
                self._comms.awaits(sandbox, request)
            elif sandbox.claim(request):
                sandbox.answer(wire.ANSWER_REFUSED)
            return
        answer = self._ask_person(run, sandbox, request) if kind == "input" else self._do_magic(run, sandbox, request)
        task = asyncio.get_running_loop().create_task(answer)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_person(self, run: CellRun | None, sandbox: Sandbox, request: wire.InputRequest) -> None:
        here = run is not None and run is self._running() and run.allow_stdin
        if run is None or not here or not self._questions.guest_may_ask(run.parent):
            sandbox.answer(wire.ANSWER_REFUSED, request)
            return
        person = Person(run.parent, run.ident, lambda: sandbox.question is request and self._running() is run)
        value = await self._questions.ask_for_guest(person, request.prompt, password=request.password)
        if value is not None:
            text = wire.ANSWER_EOF if value == "\x04" else wire.ANSWER_TEXT + value.encode("utf-8", "replace")
            sandbox.answer(text, request)

    async def _do_magic(self, run: CellRun | None, sandbox: Sandbox, request: wire.HostMagic) -> None:
        claims = run.claims if run is not None and run is self._running() else cells.Claims(ended=True)
        try:
            magic = claims.claim(request.name, request.line)
            if run is None or magic is None:
                sandbox.answer(wire.ANSWER_REFUSED, request)
                return
            answer = await self._magics().do(magic, run.parent, run.cancelled)
            if answer.afterwards is not None:
                if answer.last and not magic.last:
                    raise WasmKernelError(
                        f"%{magic.name} {magic.line} must be the last line of its cell, and occur only once"
                    )
                run.afterwards.append(answer.afterwards)
            elif magic.shown:
                self._replies.show(run, answer)
            text = wire.ANSWER_TEXT + answer.json(used=magic.used)
        except Interrupted:
            text = wire.ANSWER_INTERRUPTED
        except Exception as e:  # noqa: BLE001 - shown in the cell, and logged
            known = isinstance(e, WasmKernelError | ValueError | OSError)
            if not known:
                self._log.exception("%%%s failed", request.name)
            text = wire.ANSWER_ERROR + (str(e) if known else f"the kernel itself failed: {e}").encode()
        sandbox.answer(text, request)
