"""Writing here and there, so that the guest's memory falls into many mappings. The host counts its own: a process that
has no more of them starts neither a thread nor a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.attacks import guards
from wasm_kernel import BaseSandbox, ExecutionPolicy, create_sandbox
from wasm_kernel.host.runtime import mappings

_NO_END = 1 << 40
_SLACK = 600  # libraries, threads, and what a guest has anyway
_WORDS = """
import numpy
def pages(count):
    a = numpy.empty((count + 1) * 4096, dtype='u1')
    return a[-a.__array_interface__['data'][0] % 4096:][:count * 4096].reshape(count, 4096)
"""
_ATTACKS = {
    "16 of every 17 pages": "a = pages(17 * 6000).reshape(-1, 17, 4096); a[:, :16] = 7",
    "in two turns": "a = pages(17 * 6000).reshape(-1, 17, 4096); a[::2, :16] = 7",
    "from the end": "a = pages(17 * 6000).reshape(-1, 17, 4096)[::-1]; a[:, :16] = 7",
    "longer stretches": "a = pages(50 * 5000).reshape(-1, 50, 4096); a[:, :49] = 7",
}


def _mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


@contextmanager
def _guest(folder: Path) -> Iterator[BaseSandbox]:
    with create_sandbox(policy=ExecutionPolicy(interrupt_grace_seconds=1.0), workspace=folder) as sandbox:
        sandbox.execute(_WORDS)
        yield sandbox


def _run(sandbox: BaseSandbox, code: str) -> None:
    result = sandbox.execute(code)
    assert result.success, result.error
    sandbox.execute("a[1::2, :16] = 7" if "[::2" in code else "1")
    sandbox.execute("1")  # the memory of the one before is kept by now


@pytest.mark.parametrize("code", _ATTACKS.values(), ids=_ATTACKS)
def test_a_guest_has_a_share(tmp_path: Path, code: str) -> None:
    with _guest(tmp_path) as sandbox:
        before = _mappings()
        _run(sandbox, code)
        assert _mappings() - before < mappings.MOST_MAPPINGS + _SLACK
        wanted = sandbox.execute("print(a.sum())").stdout
        # Laid over a new instance it is the same, and no more.
        assert sandbox.execute("import os; os.abort()").outcome.state_lost
        assert sandbox.execute("print(a.sum())").stdout == wanted
        assert _mappings() - before < mappings.MOST_MAPPINGS + _SLACK


@pytest.mark.parametrize("code", _ATTACKS.values(), ids=_ATTACKS)
def test_it_is_seen_without_the_guard(tmp_path: Path, code: str) -> None:
    with (
        guards.patched((mappings, "MOST_MAPPINGS", _NO_END), (mappings.Mappings, "most_together", _NO_END)),
        _guest(tmp_path) as sandbox,
    ):
        before = _mappings()
        _run(sandbox, code)
        assert _mappings() - before > 8000


def test_all_guests_together_have_a_share(tmp_path: Path) -> None:
    """Half of what the process may have, whatever each could have alone."""
    code = "a = pages(17 * 1000).reshape(-1, 17, 4096); a[:, :16] = 7"
    share = 3000
    with ExitStack() as stack:
        stack.enter_context(guards.patched((mappings.Mappings, "most_together", share)))
        before = _mappings()
        for number in range(3):
            sandbox = stack.enter_context(_guest(tmp_path / str(number)))
            _run(sandbox, code)
            assert sandbox.execute("print(a[:, :16].sum())").stdout == f"{7 * 4096 * 16 * 1000}\n"
        assert _mappings() - before < share + _SLACK


def test_what_is_whole_again_is_mapped_again(tmp_path: Path) -> None:
    with _guest(tmp_path) as sandbox:
        before = _mappings()
        _run(sandbox, _ATTACKS["16 of every 17 pages"])
        sandbox.execute("a += 1")
        sandbox.execute("1")
        assert _mappings() - before < _SLACK
