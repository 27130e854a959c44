"""What a glance at variables costs: memory that it touches is stored again with the checkpoint of every cell."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import pytest

from wasm_kernel.guest import variables


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, lambda n: dict.fromkeys(n)], ids=str)
def test_a_glance_at_much_takes_little_memory(kind: type) -> None:
    shell = SimpleNamespace(user_ns={"much": kind(range(400_000))}, user_ns_hidden={})
    variables.summary(shell)
    tracemalloc.start()
    try:
        found = variables.summary(shell)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["much"][1] == 400_000
    assert peak < 200_000


def test_a_glance_sees_what_changed_near_the_beginning() -> None:
    shell = SimpleNamespace(user_ns={"d": {i: i for i in range(1000)}}, user_ns_hidden={})
    before = variables.summary(shell)
    shell.user_ns["d"][5] = -1
    assert variables.summary(shell) != before
