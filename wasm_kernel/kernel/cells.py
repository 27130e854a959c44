"""The host's magics in the text of a cell: which there are, and in which roles.

The guest says when it comes to one; the host does it only if the user's own text holds it. The text is read as IPython
reads it, by IPython's own transformer, and what it makes of a magic is looked for in the syntax tree. So neither a
string nor a comment counts, and neither does code that the guest has put together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

HOST_MAGICS = ("session", "prune", "pip")
_PYTHON_BODY = ("time", "timeit", "capture", "prun")  # cell magics whose body is Python, run in the same guest


@dataclass(frozen=True)
class HostMagic:
    """A magic of ours in a cell.

    Attributes:
        name: Without the percent sign.
        line: What follows it, as IPython hands it on.
        shown: Whether it stands alone somewhere, so that its answer is to be shown.
        used: Whether its value is used somewhere, as in ``s = %session info``.
        last: Whether it is the cell's last statement.
    """

    name: str
    line: str
    shown: bool = False
    used: bool = False
    last: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell's text as the host sees it: its magics in order, and whether there is nothing else in it."""

    magics: tuple[HostMagic, ...] = ()
    only_magics: bool = False

    def find(self, name: str, line: str) -> HostMagic | None:
        """The magic, if the text holds it."""
        found = [m for m in self.magics if (m.name, m.line) == (name, line)]
        if not found:
            return None
        return HostMagic(
            name, line, any(m.shown for m in found), any(m.used for m in found), any(m.last for m in found)
        )


def read(code: str) -> Cell:
    """Look for the host's magics in a cell."""
    if not any(name in code for name in HOST_MAGICS):  # nearly every cell, and the import below costs 20 ms once
        return Cell()
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        tree = ast.parse(TransformerManager().transform_cell(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Cell()  # the guest says what is wrong with it
    found = tuple(_magics(tree))
    alone = [s for s in tree.body if isinstance(s, ast.Expr) and _call(s.value, "run_line_magic") is not None]
    return Cell(found, bool(found) and len(alone) == len(tree.body) == len(found))


def _magics(tree: ast.Module) -> Iterator[HostMagic]:
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    final = tree.body[-1] if tree.body else None
    for node in _in_order(tree):
        line = _call(node, "run_line_magic")
        if line is not None and line[0] in HOST_MAGICS:
            alone = id(node) in statements
            last = isinstance(final, ast.Expr) and final.value is node
            yield HostMagic(line[0], line[1], shown=alone, used=not alone, last=last)
        body = _call(node, "run_cell_magic")
        if body is not None and body[0] in _PYTHON_BODY:
            yield from read(body[-1]).magics


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        yield child
        yield from _in_order(child)


def _call(node: ast.AST, method: str) -> list[str] | None:
    """The texts a ``get_ipython().method("…", "…")`` is called with, if the node is that."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and isinstance(node.func.value, ast.Call)
        and isinstance(node.func.value.func, ast.Name)
        and node.func.value.func.id == "get_ipython"
    ):
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if len(texts) == len(node.args) >= 2:
            return texts
    return None
