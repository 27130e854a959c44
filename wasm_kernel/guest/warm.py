"""What the base memory has done before any notebook starts: imports, and everything that is slow the first time."""

import gc
import importlib
import os
import sys

from . import aio, holes, shown_values
from .traces import Traces

_traces = None

# Modules that a notebook may want at once, by part; in words, as they are many.
IMPORTS = {
    "numpy": "numpy numpy.linalg numpy.random numpy.fft numpy.polynomial",
    "pandas": "pandas pandas.io.formats.style pandas.io.excel pandas.io.parsers pandas.plotting openpyxl",
    "matplotlib": """
        matplotlib matplotlib.pyplot matplotlib.backends.backend_agg matplotlib.backends.backend_svg matplotlib.dates
        matplotlib.animation PIL.PngImagePlugin""",
    "scipy": """
        scipy scipy.stats scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg scipy.linalg scipy.interpolate
        scipy.integrate scipy.spatial scipy.special scipy.ndimage scipy.cluster.hierarchy""",
    "sklearn": """
        sklearn sklearn.linear_model sklearn.ensemble sklearn.cluster sklearn.model_selection sklearn.preprocessing
        sklearn.pipeline sklearn.metrics sklearn.datasets sklearn.decomposition sklearn.svm sklearn.neighbors
        sklearn.tree sklearn.compose sklearn.impute sklearn.naive_bayes sklearn.neural_network
        sklearn.feature_extraction.text sklearn.manifold""",
    "statsmodels": "statsmodels.api statsmodels.formula.api",
    "seaborn": "seaborn",
    "more": """
        ipywidgets tqdm.auto sqlite3 json csv zipfile tarfile decimal fractions statistics dataclasses itertools
        functools collections pathlib tempfile shutil glob logging argparse unittest doctest pdb timeit cProfile pstats
        uuid hashlib secrets urllib.request http.client xml.etree.ElementTree html email typing concurrent.futures
        IPython.display IPython.core.magics IPython.core.completerlib IPython.extensions.autoreload""",
    "sympy": "sympy",
    "networkx": "networkx",
}

# Cells that make everything slow-the-first-time happen now.
_CELLS = {
    "shell": [
        "1/0",
        "def f(): return undefined_name\nf()",
        "x = (",
        "print('x')",
        "len?",
        "import asyncio; await asyncio.sleep(0)",
        "display(1)",
        "%timeit -n1 -r1 pass",
    ],
    "pandas": [
        "import pandas as pd, numpy as np",
        "df = pd.DataFrame({'a': np.arange(3), 'b': list('xyz')}); df.describe()",
        "df.groupby('b').a.sum(); df.merge(df, on='b'); df.to_csv(); repr(df); df.style.to_html(); df",
        "import io; pd.read_csv(io.StringIO('a,b\\n1,2'))",
        "pd.Series(pd.date_range('2026-01-01', periods=3))",
    ],
    "matplotlib": [
        "import matplotlib.pyplot as plt",
        "%matplotlib inline",
        "plt.plot([1, 2]); plt.title('t'); plt.legend(['a']); plt.show()",
        "fig, ax = plt.subplots(2, 2); ax[0, 0].hist([1, 2]); ax[0, 1].scatter([1], [2])\n"
        "ax[1, 0].bar([1], [2]); ax[1, 1].imshow([[1]]); plt.show()",
    ],
    "sklearn": [
        "from sklearn.linear_model import LinearRegression; LinearRegression().fit([[1], [2]], [1, 2])",
        "from sklearn.cluster import KMeans; KMeans(2, n_init=1).fit([[1.0], [2.0], [3.0]])",
    ],
    "seaborn": [
        "import seaborn as sns, pandas as pd, matplotlib.pyplot as plt",
        "sns.histplot(pd.DataFrame({'a': [1, 2]}), x='a'); plt.close('all')",
    ],
    "more": [
        "import ipywidgets; w = ipywidgets.IntSlider(); display(w); w.close()",
        "from tqdm.auto import tqdm; list(tqdm([1]))",
        "import sqlite3; sqlite3.connect(':memory:').execute('select 1').fetchall()",
    ],
}


def up(shell, part):
    """Import and try out one part; what is not there is reported, not raised."""
    global _traces
    _traces = _traces or Traces()
    missing = []
    with shell.builtin_trap, _traces.imports(part):  # as from a cell: pandas looks for get_ipython, too
        for name in IMPORTS.get(part, "").split():
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
    failed = []
    for cell in _CELLS.get(part, ()):
        result = aio.run_cell(shell, cell, {"store_history": False, "silent": False})
        if part != "shell" and not result.success:
            failed.append(cell)
    if part == "habits":  # code that ran often has settled: its counters no longer dirty a page per cell
        for i in range(150):
            cell = ("pass", "x = 1", "x + 1", "print(end='')")[i % 4]
            aio.run_cell(shell, cell, {"store_history": True, "silent": False})
        for cell in _CELLS["shell"] * 3:
            aio.run_cell(shell, cell, {"store_history": False, "silent": False})
        for _ in range(5):  # what the side panel asks; it also finds the types of numpy and pandas once and for all
            shown_values.first_values(shell)
            shown_values.page(shell, {"name": "df", "row": 0, "rows": 9, "column": 0, "columns": 9, "at": []})
    if part == "completion":
        from . import driver

        for code in ("import pand", "import os; os.pa", "pri", "%tim", "open('/app/"):
            driver.do_complete({"code": code, "cursor_pos": len(code)}, ())
        driver.do_inspect({"code": "print", "cursor_pos": 5}, ())
        driver.do_is_complete({"code": "for i in range(3):"}, ())
    if part == "settle":
        _settle(shell)
    return {"status": "ok", "missing": missing, "failed": failed}


# What a notebook's namespace has from the start, and a reset takes away.
_NAMES = {
    **{"_": "", "__": "", "___": "", "__loader__": None, "__package__": None, "__spec__": None},
    "__doc__": "Automatically created module for IPython interactive environment",
}


def _forget(history):
    history.reset(new_session=False)
    history.input_hist_parsed[:] = history.input_hist_raw[:] = [""]
    history.db_input_cache.clear()
    history.db_output_cache.clear()
    history._i00 = history._i = history._ii = history._iii = ""
    with history.db:
        history.db.execute("DELETE FROM history")
        history.db.execute("DELETE FROM output_history")


def _settle(shell):
    """Leave no trace of the trying out, and nothing that makes later pages dirty."""
    font_manager = sys.modules.get("matplotlib.font_manager")
    if font_manager is not None:
        font_manager._get_font.cache_clear()  # it holds font files open
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
        pyplot.draw_if_interactive.called = False  # else the first %run draws a figure
    # inspect looks at every module's file the first time a traceback is made: 3,000 of them
    import inspect

    inspect.getmodule(sys._getframe(), "/nowhere")
    shell.reset(new_session=False)
    shell.user_ns.update(_NAMES)
    _forget(shell.history_manager)
    shell.execution_count = 1
    shell.payload_manager.clear_payload()
    shell.last_traceback = None
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    _traces.hide(shell)
    # Not earlier: argparse colours the help of magics with it, which then becomes their docstrings.
    os.environ.update({"FORCE_COLOR": "1", "CLICOLOR": "1", "CLICOLOR_FORCE": "1"})
    importlib.invalidate_caches()
    gc.collect()
    holes.fill()
    gc.freeze()
