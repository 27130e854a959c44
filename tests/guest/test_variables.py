"""What a glance at variables costs: memory that it touches is stored again with the checkpoint of every cell."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import pytest

from wasm_kernel import BaseSandbox
from wasm_kernel.guest import variables
from wasm_kernel.model.differences import compare_variables


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, dict.fromkeys])
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


def test_what_there_is_no_time_for_does_not_seem_to_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(user_ns={"n": 41, "text": "ab", "many": [1, 2], "other": [3]}, user_ns_hidden={})
    before = variables.summary(shell)
    monkeypatch.setattr(variables, "_SECONDS", -1)
    assert variables.summary(shell) == before
    shell.user_ns |= {"n": 42, "other": [4], "new": [5]}
    late = variables.summary(shell)
    assert (late["n"], late["many"]) == (["int", 0, "42"], before["many"])
    assert compare_variables(before, late) == {"added": ["new"], "changed": ["n", "other"], "removed": []}
    monkeypatch.setattr(variables, "_SECONDS", 60)
    assert compare_variables(late, variables.summary(shell)) == {"added": [], "changed": [], "removed": []}


def test_a_glance_sees_what_changed_near_the_beginning() -> None:
    shell = SimpleNamespace(user_ns={"d": {i: i for i in range(1000)}}, user_ns_hidden={})
    before = variables.summary(shell)
    shell.user_ns["d"][5] = -1
    assert variables.summary(shell) != before


@pytest.mark.parametrize(
    "value",
    [
        [bytes(3_000_000) for _ in range(20)],
        ("x" * 3_000_000,) * 300,
        {"k" * 3_000_000: "v" * 3_000_000},
        1 << 20_000_000,
        [1 << 20_000_000],
    ],
    ids=["bytes", "str", "dict", "int", "ints"],
)
def test_a_glance_at_large_values_makes_no_copy_of_them(value: object) -> None:
    """After a MemoryError there may be many of them, and every cell would wait for it."""
    shell = SimpleNamespace(user_ns={"large": value}, user_ns_hidden={})
    tracemalloc.start()
    try:
        variables.summary(shell)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_a_glance_tells_frames_apart_by_what_is_in_them(sandbox: BaseSandbox) -> None:
    result = sandbox.execute(
        "import pandas as pd\nfrom types import SimpleNamespace\nfrom wasm_guest import variables\n"
        "variables._SECONDS = 60\n"
        "frame = pd.DataFrame({'when': pd.date_range('2020', periods=3), 'text': ['x' * 5_000_000] * 3, 'n': [1, 2, 3]})\n"
        "shell = SimpleNamespace(user_ns={'f': frame, 's': frame.text}, user_ns_hidden={})\n"
        "before, again = variables.summary(shell), variables.summary(shell)\n"
        "frame.loc[1, 'n'] = 5\nafter = variables.summary(shell)\n"
        "print(before == again, after['f'] != before['f'], after['s'] == before['s'])"
    )
    assert result.stdout == "True True True\n", result.error
