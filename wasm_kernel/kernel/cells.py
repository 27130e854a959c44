"""The host's magics in the text of a cell: which there are, in which roles, and how often each may be done.

The guest says when it comes to one; the host does it only if the user's own text holds it, and only as often as the
text says. The text is read as IPython reads it, by IPython's own transformer, and what it makes of a magic is looked
for in the syntax tree. So neither a string nor a comment counts, and neither does code that the guest has put together.

The guest decides what it tells the host, and a cell may run code that its user has not written: a module, an object's
method, a task of an earlier cell. What the text says once is therefore done once, whoever asks for it. Where code can
run repeatedly (in a loop, a function, a comprehension, under %timeit) nobody can tell how often it should, so there is
a bound. After the cell has ended nothing is done in its name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from wasm_kernel.errors import ConfigurationError, WasmKernelError

HOST_MAGICS = ("session", "prune", "pip")
_SPECIAL_LINE = re.compile(r"^[ \t]*(?:[%!?]|[^\n=#'\"()]*=[ \t]*[%!])|\?[ \t]*$", re.MULTILINE)
_HOST_LINE = re.compile(rf"%(?:{'|'.join(HOST_MAGICS)})\b")
_MOST_WORK = 500_000  # special lines times characters: about a second
MOST_REPEATS = 100  # in one cell, of a magic that stands in a loop, a function or a comprehension
_PYTHON_CELLS = ("time", "timeit", "capture", "prun")  # magics whose cell is Python, run in the same guest
_REPEATING = ("timeit",)
_MOST_NESTED = 3  # such magics within each other: each is read anew
# Magics whose line is Python, and the options before it: those without a value, those with one.
_OPTIONS = {
    "time": re.compile(r"\A(?:--no-raise-error\s+)*"),
    "timeit": re.compile(r"\A(?:-(?:[tcqo]+|[nrpv]\s*\S+)\s+)*"),
    "prun": re.compile(r"\A(?:-(?:[rq]+|[DlsT]\s*\S+)\s+)*"),
}
# The parts of a statement or an expression that may run any number of times.
_LOOP, _FUNCTION, _COMPREHENSION = ("target", "test", "body"), ("body",), ("elt", "key", "value", "generators")
_REPEATED_PARTS: dict[type[ast.AST], tuple[str, ...]] = {
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _LOOP),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _FUNCTION),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _COMPREHENSION),
}


@dataclass(frozen=True)
class HostMagic:
    """A magic of ours in a cell.

    Attributes:
        name: Without the percent sign.
        line: What follows it, as IPython hands it on.
        shown: Whether it stands alone somewhere, so that its answer is to be shown.
        used: Whether its value is used somewhere, as in ``s = %session info``.
        last: Whether it stands in one place only, which is the cell's last statement.
        repeats: Whether it stands somewhere that may run more than once: in a loop, say.
    """

    name: str
    line: str
    shown: bool = False
    used: bool = False
    last: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell's text as the host sees it: its magics in order, and whether there is nothing else in it."""

    magics: tuple[HostMagic, ...] = ()
    only_magics: bool = False

    def find(self, name: str, line: str) -> HostMagic | None:
        """The magic, if the text holds it; what several places say of it is put together."""
        found = self._places(name, line)
        if not found:
            return None
        return HostMagic(
            name,
            line,
            shown=any(m.shown for m in found),
            used=any(m.used for m in found),
            last=all(m.last for m in found),
            repeats=any(m.repeats for m in found),
        )

    def times(self, name: str, line: str) -> int:
        """How often the text lets a magic be done: once for each place, and more where code can run repeatedly."""
        found = self._places(name, line)
        once = sum(not m.repeats for m in found)
        return once + (MOST_REPEATS if once < len(found) else 0)

    def _places(self, name: str, line: str) -> list[HostMagic]:
        return [m for m in self.magics if (m.name, m.line) == (name, line)]


@dataclass
class Claims:
    """What a cell may still ask of the host while it runs; nothing once it has ended."""

    cell: Cell = field(default_factory=Cell)
    ended: bool = False
    _done: Counter[tuple[str, str]] = field(default_factory=Counter)

    def claim(self, name: str, line: str) -> HostMagic | None:
        """The magic, to be done now; None if the text does not hold it. Raises if it was done often enough."""
        what = f"%{name} {line}".rstrip()[:200]
        if self.ended:
            raise WasmKernelError(
                f"{what} was not done: no cell runs whose text holds it. The host's magics work only while their cell "
                "runs, not from a background task or a widget's callback; write it in a cell and run that"
            )
        magic = self.cell.find(name, line)
        if magic is None:
            return None
        most = self.cell.times(name, line)
        if self._done[name, line] >= most:
            times = "once" if most == 1 else f"{most} times"
            why = f"a loop or a function gets {MOST_REPEATS} at most" if magic.repeats else "as often as its text says"
            raise WasmKernelError(
                f"{what} was done {times} in this cell, {why}; run it again in another cell if you want more"
            )
        self._done[name, line] += 1
        return magic


def read(code: str) -> Cell:
    """Look for the host's magics in a cell."""
    return _read(code, repeats=False, nested=0)


def _read(code: str, *, repeats: bool, nested: int) -> Cell:
    """The same within so many magics such as %time. ``repeats``: all of it may run more than once."""
    if not any(name in code for name in HOST_MAGICS):  # nearly every cell, and the import below costs 20 ms once
        return Cell()
    special = len(_SPECIAL_LINE.findall(code))
    if special * len(code) > _MOST_WORK:  # IPython reads the whole text again for each such line
        if _HOST_LINE.search(code) is None:
            return Cell()
        raise ConfigurationError(
            f"the cell has {special:,} lines with magics in {len(code):,} characters; that is too much to look for "
            "%session, %prune and %pip in. Put those into a cell of their own"
        )
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        tree = ast.parse(TransformerManager().transform_cell(code))
        found = tuple(_magics(tree, repeats=repeats, nested=nested))
    except (SyntaxError, ValueError, RuntimeError, MemoryError):  # RuntimeError: nested too deep, or too many magics
        return Cell()  # the guest says what is wrong with it
    alone = [s for s in tree.body if isinstance(s, ast.Expr) and _host_magic(s.value) is not None]
    return Cell(found, bool(found) and len(alone) == len(tree.body) == len(found))


def _magics(tree: ast.Module, *, repeats: bool, nested: int) -> Iterator[HostMagic]:
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    final = tree.body[-1] if tree.body else None
    for node, again in _in_order(tree, repeats=repeats):
        alone = id(node) in statements
        last = isinstance(final, ast.Expr) and final.value is node and not again
        ours = _host_magic(node)
        if ours is not None:
            yield HostMagic(*ours, shown=alone, used=not alone, last=last, repeats=again)
        for code, repeated in _python_within(node) if nested < _MOST_NESTED else ():
            for magic in _read(code, repeats=again or repeated, nested=nested + 1).magics:
                yield replace(magic, used=magic.used or not alone, last=magic.last and last)


def _in_order(tree: ast.AST, *, repeats: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, in the text's order, and whether it may run more than once. Trees may be deep: no recursion."""
    stack = [(tree, repeats)]
    while stack:
        node, again = stack.pop()
        yield node, again
        repeated = _REPEATED_PARTS.get(type(node), ())
        children = [
            (child, again or part in repeated)
            for part, value in ast.iter_fields(node)
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]
        stack.extend(reversed(children))


def _host_magic(node: ast.AST) -> tuple[str, str] | None:
    """Name and line, if the node is a call of a magic of ours."""
    call = _call(node, "run_line_magic")
    return (call[0], call[1]) if call is not None and call[0] in HOST_MAGICS else None


def _python_within(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The Python that a magic such as %time or %%timeit runs, and whether it does so more than once."""
    line, cell = _call(node, "run_line_magic"), _call(node, "run_cell_magic")
    name, *texts = line or cell or [""]
    if name in _OPTIONS:
        yield _OPTIONS[name].sub("", texts[0], count=1), name in _REPEATING
    if name in _PYTHON_CELLS and cell is not None:
        yield texts[-1], name in _REPEATING


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
