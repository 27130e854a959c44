"""Tracebacks through libraries: quick, and the same text as if whole files were parsed."""

from __future__ import annotations

import pytest

from wasm_kernel import BaseSandbox

COMPARE = """
import stack_data.core, wasm_guest.function_sources as mended
def drawn(error):
    for name in ("__executing_cache", "__source_cache_with_lines"):
        getattr(stack_data.core.Source, name, {}).clear()
    lines = get_ipython().InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    known = getattr(stack_data.core.Source, "__source_cache_with_lines")
    return lines, max(sum(bool(line.strip()) for line in text) for name, text in known if name.startswith("/usr"))
def both(run):
    try:
        run()
    except Exception as error:
        quick, few = drawn(error)
        real, mended.in_library = mended.in_library, lambda code: False
        try:
            slow, many = drawn(error)
        finally:
            mended.in_library = real
        assert quick == slow, "\\n".join([*quick, "=" * 80, *slow])
        return few, many
"""


@pytest.mark.parametrize(
    "code",
    [
        "import pandas as pd; run = lambda: pd.Series([1]).loc['b']",
        "import pandas as pd; run = lambda: pd.read_csv('/app/not there')",
        "import pandas as pd; run = lambda: pd.DataFrame({'a': [1]}).merge(pd.DataFrame({'b': [1]}), on='a')",
        "import numpy as np; run = lambda: np.linalg.inv(np.zeros((2, 2)))",
        "import scipy.optimize; run = lambda: scipy.optimize.minimize(lambda x: 1 / 0, 1.0)",
        "from sklearn.linear_model import Ridge; run = lambda: Ridge().fit([[1], [2]], [1])",
        "import matplotlib.pyplot as plt; run = lambda: plt.plot([1, 2], [1, 2, 3])",
        "import sympy; run = lambda: sympy.sympify('1 +')",
        "import statsmodels.formula.api as f; run = lambda: f.ols('a ~ b', {'a': [1]})",
    ],
)
def test_a_traceback_is_the_same_with_less_work(shared_sandbox: BaseSandbox, code: str) -> None:
    result = shared_sandbox.execute(f"{COMPARE}\n{code}\nprint(*both(run))")
    assert result.success, result.error
    few, many = map(int, result.stdout.split())
    assert few <= 700, "the longest function here"
    assert few < many


def test_every_function_is_found_whole(shared_sandbox: BaseSandbox) -> None:
    """The tree of its lines alone is that of the file, to the last column."""
    code = """
import ast, inspect, types
from wasm_guest.function_sources import only_function
import pandas.core.indexes.base, numpy.linalg._linalg, scipy.stats._distn_infrastructure, sklearn.utils._param_validation
import matplotlib.axes._base, sympy.core.expr, IPython.core.interactiveshell
def codes(code):
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from codes(const)
def place(node):
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.name
def functions(tree):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {place(n): ast.dump(n, include_attributes=True) for n in ast.walk(tree) if isinstance(n, kinds)}
count = 0
for module in (pandas.core.indexes.base, numpy.linalg._linalg, scipy.stats._distn_infrastructure,
               sklearn.utils._param_validation, matplotlib.axes._base, IPython.core.interactiveshell):
    text = inspect.getsource(module)
    lines, wanted = text.splitlines(True), functions(ast.parse(text))
    for code in codes(compile(text, module.__file__, "exec")):
        key = code.co_firstlineno, code.co_name
        if key in wanted and code.co_firstlineno != max(end or 0 for _, end, *_ in code.co_positions()):  # not empty
            count += 1
            assert functions(ast.parse("".join(only_function(code, lines))))[key] == wanted[key], key
print(count)
"""
    result = shared_sandbox.execute(code)
    assert result.success, result.error
    assert int(result.stdout) > 900
