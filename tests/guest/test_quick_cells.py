"""Cells that IPython's transformers leave alone are not taken apart, and all others come out as they always do."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from wasm_kernel.guest.quick_cells import Transformer, may_await

_PLAIN = [
    "pass",
    "x = 1\ny = x % 3 != 2",
    "for i in range(3):\n    print(i)\n",
    "print('100 %'); x = 7 / 2",
    "def f(a,\n      b=2):\n    return a, b\n",
    '"""text\n  more"""',
]
_SPECIAL = [
    "%time x = 1",
    "  %time x",
    "a = %pwd",
    "a=!ls",
    "a = \\\n  %pwd",
    "!ls",
    "x?",
    "?x",
    "??x",
    ",f a b",
    ";f a b",
    "/f a b",
    "if True:\n    %pwd",
    "x = 1\r%pwd",
    "%%timeit\nx = 1",
    "await x\nb = !ls",
    "if x:\n    a = 1\n  b = 2\n",  # wrong indentation: taking it apart raises
]


@pytest.mark.parametrize("cell", [*_PLAIN, *_SPECIAL, "'''\n%no magic\n'''", ">>> x = 1\n... y = 2", "if x:\n  '\\d'"])
def test_the_same_comes_out(cell: str) -> None:
    def outcome(transformer: TransformerManager) -> str:
        try:
            return transformer.transform_cell(cell)
        except SyntaxError as e:
            return f"{type(e).__name__}: {e}"

    assert outcome(Transformer()) == outcome(TransformerManager())
    assert Transformer().check_complete(cell) == TransformerManager().check_complete(cell)


def test_only_plain_cells_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(TransformerManager, "do_token_transforms", lambda self, lines: seen.append(lines) or lines)
    for cell in _PLAIN:
        Transformer().transform_cell(cell)
    assert not seen
    for cell in _SPECIAL:
        Transformer().transform_cell(cell)
    assert len(seen) == len(_SPECIAL) - 1, "%%timeit makes a plain line of its cell"


def test_a_transformer_of_the_users_own_sees_every_cell() -> None:
    class Shout:
        @classmethod
        def find(cls, tokens_by_line: object) -> None:
            calls.append(tokens_by_line)

    calls: list[object] = []
    transformer = Transformer()
    transformer.token_transformers = [*transformer.token_transformers, Shout]
    transformer.transform_cell("pass")
    assert calls


def test_what_may_await() -> None:
    assert may_await("await x") and may_await("[y async for y in z]") and not may_await("x = 1")
