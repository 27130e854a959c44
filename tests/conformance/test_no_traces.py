"""What is imported and tried out when the base memory is made leaves no trace that a notebook can see.

The expected values are those of a fresh ipykernel with the same releases of pandas, matplotlib and seaborn.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tests.conformance.client import Kernel

_STACK = ("numpy", "pandas", "matplotlib", "scipy", "sklearn", "statsmodels", "seaborn", "sympy", "networkx", "PIL")
_SEABORN = ("rocket", "mako", "icefire", "vlag", "flare", "crest")


def value(kernel: Kernel, code: str) -> object:
    result = kernel.ok(code).result
    assert result is not None
    return ast.literal_eval(result)


@pytest.fixture
def fresh(start: Callable[..., Kernel]) -> Kernel:
    return start()


def test_nothing_of_the_stack_shows_before_it_is_imported(fresh: Kernel) -> None:
    assert value(fresh, f"import sys; [name for name in {_STACK} if name in sys.modules]") == []
    assert value(fresh, "import os; [name for name in os.environ if name.startswith('KMP_')]") == []
    filters = "import warnings; [(f[0], f[2].__name__) for f in warnings.filters]"
    native = [
        ("error", "ProvisionalCompleterWarning"),
        ("default", "DeprecationWarning"),
        *[("ignore", f"{kind}Warning") for kind in ("Deprecation", "PendingDeprecation", "Import", "Resource")],
    ]
    assert value(fresh, filters) == native
    fresh.ok("import numpy")
    numpys = [*[("ignore", "Warning")] * 3, ("always", "RankWarning")]
    assert value(fresh, "[(f[0], f[2].__name__) for f in warnings.filters]") == numpys + native


def test_importing_a_package_brings_what_it_uses(fresh: Kernel) -> None:
    fresh.ok("import sys, pandas as pd")
    assert value(fresh, f"[name for name in {_STACK} if name in sys.modules]") == ["numpy", "pandas"]
    code = "pd is sys.modules['pandas'], pd.__spec__.name, pd.__spec__.loader is pd.__loader__, pd.DataFrame.__module__"
    assert value(fresh, code) == (True, "pandas", True, "pandas")
    assert value(fresh, "import pandas.io.sql as sql; sql.__name__, pd.io.sql is sql") == ("pandas.io.sql", True)
    fresh.ok("import importlib; importlib.reload(sys.modules['pandas.io.clipboards'])")


@pytest.mark.parametrize(
    "code",
    [
        "import sklearn.linear_model as m; m.LinearRegression().fit([[1], [2]], [1, 2]).coef_.shape",
        "from statsmodels.api import OLS; OLS([1, 2, 3], [1, 2, 4]).fit().params.shape",
        "from sympy import symbols, diff; x = symbols('x'); str(diff(x**2, x))",
        "import networkx as nx; nx.path_graph(3).number_of_edges()",
        "import scipy.optimize; scipy.optimize.brentq(lambda x: x - 1, 0, 3) > 0.9",
        "import pickle, sys; pickle.loads(pickle.dumps(__import__('numpy').float64(2))) == 2",
        "import numpy.random; numpy.random.rand(3).shape",
        "from tqdm.auto import tqdm; list(tqdm([1], disable=True))",
        "__import__('importlib').import_module('matplotlib.pyplot').colormaps() != []",
        "import importlib.util; importlib.util.find_spec('pandas').name",
    ],
)
def test_any_way_to_import_works_first(start: Callable[..., Kernel], code: str) -> None:
    assert start().ok(code).result is not None


def test_pandas_knows_that_it_is_in_a_notebook(fresh: Kernel) -> None:
    assert value(fresh, "import pandas as pd; pd.get_option('display.max_columns')") == 20
    shown = fresh.ok("pd.DataFrame([range(30)])").data
    assert "..." in shown["text/html"]
    assert "1 rows × 30 columns" in shown["text/html"]


def test_matplotlib_is_as_before_the_first_figure(fresh: Kernel) -> None:
    fresh.ok("import matplotlib as mpl, matplotlib.pyplot as plt")
    state = "mpl.rcParams._get('backend'), plt.isinteractive()"
    backend = "module://matplotlib_inline.backend_inline"
    assert value(fresh, state) == (backend, False)
    assert "image/png" in fresh.ok("plt.plot([1, 2]);").data
    assert value(fresh, state) == (backend, True)
    assert value(fresh, "any(f.__name__ == 'flush_figures' for f in get_ipython().events.callbacks['post_execute'])")
    defaults = "[k for k, v in mpl.rcParams.items() if k != 'backend' and v != mpl.rcParamsDefault[k]]"
    assert value(fresh, defaults) == ["interactive"]


def test_seaborns_colormaps_come_with_seaborn(fresh: Kernel) -> None:
    there = f"import matplotlib.pyplot as plt; [name for name in {_SEABORN} if name in plt.colormaps()]"
    assert value(fresh, there) == []
    fresh.ok("import seaborn as sns")
    assert value(fresh, there) == list(_SEABORN)
    assert value(fresh, "plt.get_cmap('rocket').N") == 256
    assert "image/png" in fresh.ok("sns.histplot({'a': [1, 2, 2]});").data


def test_a_notebook_has_the_names_that_ipython_gives_it(fresh: Kernel) -> None:
    assert value(fresh, "_, __, ___, __package__, __spec__, __loader__, __doc__[:13]") == (
        *[""] * 3,
        *[None] * 3,
        "Automatically",
    )


def test_the_environment_is_ipykernels(fresh: Kernel) -> None:
    names = ("TERM", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "PAGER", "GIT_PAGER")
    code = f"import os; [os.environ.get(name) for name in {names}]"
    assert value(fresh, code) == ["xterm-color", "1", "1", "1", "cat", "cat"]


def test_random_numbers_are_each_kernels_own(start: Callable[..., Kernel]) -> None:
    numbers = {value(start(), "import numpy as np; float(np.random.rand())") for _ in range(2)}
    assert len(numbers) == 2
