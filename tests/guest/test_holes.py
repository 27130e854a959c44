"""Cells that do little write to few pages of the base memory, however many there were before."""

from __future__ import annotations

from typing import Any

from wasm_kernel import BaseSandbox
from wasm_kernel.host.runtime import pagescan


def internals(sandbox: BaseSandbox) -> Any:
    """The guest behind a sandbox."""
    return sandbox._sandbox._guest  # type: ignore[attr-defined]


def written_pages(sandbox: BaseSandbox) -> int:
    address, size = internals(sandbox).instance.memory_span
    found = pagescan.written(address, size)
    assert found is not None
    return sum(end - start for start, end in found) // 4096


def test_small_cells_write_to_few_pages(sandbox: BaseSandbox) -> None:
    options = {"store_history": True, "glance": True}
    for number in range(1, 31):
        sandbox._sandbox.execute("pass", options={**options, "execution_count": number})  # type: ignore[attr-defined]
    few = written_pages(sandbox)
    assert few < 700, "1,000 and more where free memory is scattered"
    for number in range(31, 151):
        sandbox._sandbox.execute("pass", options={**options, "execution_count": number})  # type: ignore[attr-defined]
    assert written_pages(sandbox) < few + 300, "what cells left behind is not written to again"
