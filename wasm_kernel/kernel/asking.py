"""Asking the person at the running cell: for a permission, or for a secret."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from wasm_kernel.errors import Interrupted, NotGranted
from wasm_kernel.kernel.cell_run import CellRun
from wasm_kernel.kernel.magics.grants import Grants
from wasm_kernel.kernel.questions import Person, Questions
from wasm_kernel.sessions.runtime import SessionRuntime


class Asking:
    """Questions of the host's while a cell runs."""

    def __init__(
        self,
        questions: Questions,
        granted: Grants,
        running: Callable[[], CellRun | None],
        runtime: Callable[[], SessionRuntime | None],
    ) -> None:
        """``running`` and ``runtime``: return the running cell and the open session."""
        self._questions, self._granted, self._running, self._runtime = questions, granted, running, runtime

    async def require(self, grant: str, what: str, details: Sequence[str] = ()) -> None:
        """Return only if the running cell may do something beyond its session; ask the person if needed."""
        async with self._nobody_else():
            await self._granted.require(grant, what, details, self._person())

    async def secret(self, prompt: str) -> str:
        """What the person types into a field that does not show it. Raises if nobody does."""
        person = self._person()
        if person is None:
            raise NotGranted("a secret has to be typed by a person, and nobody can be asked here")
        async with self._nobody_else():
            typed = await self._questions.ask_for_host(person, prompt, password=True)
        if typed is None:
            raise Interrupted("nobody answered; nothing was done")
        if not typed.strip():
            raise NotGranted("refused; nothing was done")
        return typed.strip()

    def _alone(self) -> bool:
        """Whether the cell holds nothing but magics; otherwise the guest is waiting for the answer to its magic."""
        run = self._running()
        return run is not None and run.cell.only_magics

    def _nobody_else(self) -> contextlib.AbstractAsyncContextManager[object]:
        """While the host asks, no guest code runs."""
        runtime = self._runtime()
        return runtime.guest if self._alone() and runtime is not None else contextlib.nullcontext()

    def _person(self) -> Person | None:
        run, runtime, alone = self._running(), self._runtime(), self._alone()
        magic = runtime.sandbox.question if runtime is not None else None

        def waits() -> bool:
            here = self._running() is run and run is not None and not run.cancelled.is_set()
            return here and (alone or (runtime is not None and magic is not None and runtime.sandbox.question is magic))

        if run is None or not run.allow_stdin or run.silent:
            return None
        return Person(run.parent, run.ident, waits)
