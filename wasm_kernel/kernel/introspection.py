"""Small questions that front ends ask the guest while a person types: completion, inspection, is this complete?

Each has an answer at any moment: nothing while the guest is busy, and how far the image is while that is being built.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.kernel.current_session import CurrentSession
from wasm_kernel.kernel.outputs import Outputs

Message = dict[str, Any]
_SOON = 0.5  # seconds


class Introspection:
    """Asks the guest of a kernel's current session."""

    def __init__(self, current: CurrentSession, outputs: Outputs, busy_with: Callable[[], Message | None]) -> None:
        self._current, self._outputs, self._busy_with = current, outputs, busy_with

    async def complete(self, code: str, position: int) -> Message:
        """Completions."""
        nothing = {"status": "ok", "matches": [], "cursor_start": position, "cursor_end": position, "metadata": {}}
        found = await self._ask({"op": "complete", "code": code, "cursor_pos": position}, nothing)
        return found if self._outputs.trusted else self._outputs.seal.completion(found)

    async def inspect(self, code: str, position: int, detail_level: int, omit_sections: list[Any]) -> Message:
        """Information about the object at a position."""
        request = {"op": "inspect", "code": code, "cursor_pos": position, "detail_level": detail_level}
        nothing = {"status": "ok", "data": {}, "metadata": {}, "found": False}
        found = await self._ask({**request, "omit_sections": omit_sections}, nothing)
        if self._current.build_progress:
            return {**nothing, "found": True, "data": {"text/plain": self._current.build_progress}}
        return found if self._outputs.trusted else self._outputs.seal.inspection(found)

    async def is_complete(self, code: str) -> Message:
        """Whether code is complete."""
        return await self._ask({"op": "is_complete", "code": code}, {"status": "unknown"})

    async def _ask(self, request: Message, otherwise: Message) -> Message:
        """The guest's answer, or ``otherwise`` if it is busy and does not become idle soon."""
        if self._busy_with() is not None:
            return otherwise
        try:
            runtime = await self._current.ready()
            await asyncio.wait_for(runtime.guest.acquire(), _SOON)  # a checkpoint, a task between cells
        except (TimeoutError, WasmKernelError):
            return otherwise
        try:
            reply = await runtime.ask(request)
        except WasmKernelError:
            return otherwise
        finally:
            runtime.guest.release()
        return otherwise if reply.get("status") == "error" else {**otherwise, **reply}
