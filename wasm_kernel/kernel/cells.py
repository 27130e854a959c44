"""The host's magics in the text of a cell: which ones, in which roles, and how often each may run.

The guest says when it reaches one; the host runs it only if the user's own text contains it, and only as often as the
text says. The text is read as IPython reads it, by IPython's own transformer, and magics are then looked up in the
syntax tree. So neither a string nor a comment counts, and neither does code that the guest has put together.

The guest decides what it tells the host, and a cell may run code its user has not written: a module, an object's
method, a task of an earlier cell. What the text says once is therefore done once, whichever code asks for it. Where
code can run repeatedly (in a loop, a function, a comprehension, under %timeit) the right number cannot be known, so
there is a bound. After the cell has ended, nothing runs in its name.
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
MOST_REPEATS = 100  # in one cell, of a magic in a loop, a function or a comprehension
_PYTHON_CELLS = ("time", "timeit", "capture", "prun")  # magics whose cell is Python, run in the same guest
_REPEATING = ("timeit",)
_MOST_NESTED = 3  # such magics inside each other: each is parsed again
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
class MagicInCell:
    """One of the host's magics in a cell.

    Attributes:
        name: Without the percent sign.
        line: What follows it, as IPython passes it on.
        shown: Whether it stands alone somewhere, so that its answer is shown.
        used: Whether its value is used somewhere, as in ``s = %session info``.
        last: Whether it occurs only once, as the cell's last statement.
        repeats: Whether it occurs somewhere that may run more than once, such as a loop.
    """

    name: str
    line: str
    shown: bool = False
    used: bool = False
    last: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell's text as the host sees it: its magics in order, and whether it contains nothing else."""

    magics: tuple[MagicInCell, ...] = ()
    only_magics: bool = False

    def find(self, name: str, line: str) -> MagicInCell | None:
        """The magic, if the text contains it; several occurrences are merged."""
        found = self._places(name, line)
        if not found:
            return None
        return MagicInCell(
            name,
            line,
            shown=any(m.shown for m in found),
            used=any(m.used for m in found),
            last=all(m.last for m in found),
            repeats=any(m.repeats for m in found),
        )

    def times(self, name: str, line: str) -> int:
        """How often the text lets a magic run: once per occurrence, and more where code can run repeatedly."""
        found = self._places(name, line)
        once = sum(not m.repeats for m in found)
        return once + (MOST_REPEATS if once < len(found) else 0)

    def _places(self, name: str, line: str) -> list[MagicInCell]:
        return [m for m in self.magics if (m.name, m.line) == (name, line)]


@dataclass
class Claims:
    """Which magics a cell may still run; none once it has ended."""

    cell: Cell = field(default_factory=Cell)
    ended: bool = False
    _done: Counter[tuple[str, str]] = field(default_factory=Counter)

    def claim(self, name: str, line: str) -> MagicInCell | None:
        """The magic, to be run now; None if the text does not contain it. Raises if it has run often enough."""
        what = f"%{name} {line}".rstrip()[:200]
        if self.ended:
            raise WasmKernelError(
                f"{what} was not run: no running cell contains it. Such commands work only while their cell "
                "runs, not from a background task or a widget's callback; write it in a cell and run that cell"
            )
        magic = self.cell.find(name, line)
        if magic is None:
            return None
        most = self.cell.times(name, line)
        if self._done[name, line] >= most:
            times = "once" if most == 1 else f"{most} times"
            why = "the most for a loop or a function" if magic.repeats else "as often as the cell says"
            raise WasmKernelError(f"{what} has run {times} in this cell, {why}; to run it again, use another cell")
        self._done[name, line] += 1
        return magic


def read(code: str) -> Cell:
    """Find the host's magics in a cell."""
    return _read(code, repeats=False, nested=0)


def _read(code: str, *, repeats: bool, nested: int) -> Cell:
    """The same, nested inside magics such as %time. ``repeats``: all of it may run more than once."""
    if not any(name in code for name in HOST_MAGICS):  # true of nearly every cell, and the import below costs 20 ms
        return Cell()
    special = len(_SPECIAL_LINE.findall(code))
    if special * len(code) > _MOST_WORK:  # IPython reads the whole text again for each such line
        if _HOST_LINE.search(code) is None:
            return Cell()
        raise ConfigurationError(
            f"the cell has {special:,} lines with magics in {len(code):,} characters; too many to look for "
            "%session, %prune and %pip in. Put those in a separate cell"
        )
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        tree = ast.parse(TransformerManager().transform_cell(code))
        found = tuple(_magics(tree, repeats=repeats, nested=nested))
    except (SyntaxError, ValueError, RuntimeError, MemoryError):  # RuntimeError: nested too deep, or too many magics
        return Cell()  # the guest reports what is wrong with it
    alone = [s for s in tree.body if isinstance(s, ast.Expr) and _host_magic(s.value) is not None]
    return Cell(found, bool(found) and len(alone) == len(tree.body) == len(found))


def _magics(tree: ast.Module, *, repeats: bool, nested: int) -> Iterator[MagicInCell]:
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    final = tree.body[-1] if tree.body else None
    for node, again in _in_order(tree, repeats=repeats):
        alone = id(node) in statements
        last = isinstance(final, ast.Expr) and final.value is node and not again
        ours = _host_magic(node)
        if ours is not None:
            yield MagicInCell(*ours, shown=alone, used=not alone, last=last, repeats=again)
        for code, repeated in _python_within(node) if nested < _MOST_NESTED else ():
            for magic in _read(code, repeats=again or repeated, nested=nested + 1).magics:
                yield replace(magic, used=magic.used or not alone, last=magic.last and last)


def _in_order(tree: ast.AST, *, repeats: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node in text order, and whether it may run more than once. Not recursive: trees may be deep."""
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
    """Name and line, if the node calls one of the host's magics."""
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
    """The string arguments of a ``get_ipython().method("…", "…")`` call, if the node is one."""
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
