"""What a cell's record in the log holds of the guest's memory: no more than the cell changed."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest

from wasm_kernel import BaseSandbox, SandboxResult
from wasm_kernel.host.runtime.sandbox import TurnDelta

OPTIONS = {"store_history": True, "glance": True, "allow_stdin": False}


def logged(sandbox: BaseSandbox, code: str) -> tuple[SandboxResult, TurnDelta]:
    """Run a cell as a kernel does."""
    ended: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    deltas: list[TurnDelta] = []

    def log(result: SandboxResult, delta: TurnDelta) -> bool:
        deltas.append(delta)
        return True

    sandbox._sandbox.begin_execute(
        code, lambda kind, value: ended.put((kind, value)), on_event=lambda event: None, options=OPTIONS, log=log
    )
    kind, result = ended.get(timeout=60)
    assert kind == "done", result
    return result, deltas[0]


@pytest.mark.parametrize("value", ["bytes([n % 250]) * 1_000_000", "bytearray(5_000_000)"], ids=["bytes", "zeros"])
def test_after_a_memory_error_cells_change_as_little_as_before(
    make_sandbox: Callable[..., BaseSandbox], value: str
) -> None:
    """Whatever still holds all that memory: a look at it after every cell must not write to it."""
    sandbox = make_sandbox(memory_bytes=480 << 20)
    for _ in range(2):
        logged(sandbox, "small = 1")
    failed, _ = logged(sandbox, f"held, n = [], 0\nwhile True:\n    held.append({value})\n    n += 1")
    assert not failed.success and failed.error is not None and failed.error.name == "MemoryError"
    logged(sandbox, "len(held)")  # what the failed cell changed is kept now
    for _ in range(3):
        result, delta = logged(sandbox, "small += 1")
        assert result.success
        assert delta.body is not None and sum(map(len, delta.body)) < 1 << 20
    result, delta = logged(sandbox, "del held; small += 1")
    assert result.success
    result, delta = logged(sandbox, "small += 1")
    assert delta.body is not None and sum(map(len, delta.body)) < 1 << 20
