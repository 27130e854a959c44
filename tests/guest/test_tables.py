"""Arrays, frames and lists as tables of texts, in a guest; and what is in them that would run if it were asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wasm_kernel import BaseSandbox

_SHOW = """
import json
from types import SimpleNamespace
from wasm_guest import shown_values
def page(value, row=0, column=0, at=(), rows=200, columns=40):
    shell = SimpleNamespace(user_ns={"x": value}, user_ns_hidden={})
    request = {"name": "x", "row": row, "column": column, "at": list(at), "rows": rows, "columns": columns}
    print(json.dumps(shown_values.page(shell, request)))
def first(**values):
    print(json.dumps(shown_values.first_values(SimpleNamespace(user_ns=values, user_ns_hidden={}))))
"""
# While a page is made, every way in which such an object can be asked something raises what nobody catches.
_HOSTILE = """
class Ran(BaseException): pass
def ran(*_, **__): raise Ran
class Hostile: pass
class Same(Hostile):
    __hash__ = lambda self: hash('a')
ASKED = "__repr__ __str__ __len__ __iter__ __eq__ __lt__ __bool__ __format__ __array__ __deepcopy__ __getattribute__"
def armed(shown, *args, **options):
    for name in ASKED.split(): setattr(Hostile, name, ran)
    try: shown(*args, **options)
    finally:
        for name in ASKED.split(): delattr(Hostile, name)
"""


@pytest.fixture(scope="module")
def shown(shared_sandbox: BaseSandbox) -> Any:
    """What a cell gives that calls `page` or `first`."""
    shared_sandbox.execute(_SHOW + _HOSTILE + "import numpy as np, pandas as pd")

    def shown(code: str) -> Any:
        result = shared_sandbox.execute(code)
        assert result.success, result.error
        return json.loads(result.stdout)

    return shown


def test_a_frame(shown: Any) -> None:
    found = shown(
        "page(pd.DataFrame({'city': ['Bern', None], 'n': [1, 2], 'f': [0.1 + 0.2, float('nan')], 'b': [True, False],\n"
        "  'when': pd.to_datetime(['2026-11-18 12:30', 'NaT'], format='mixed'), 'c': pd.Categorical(['x', None]),\n"
        "  'whole': pd.array([1, None], dtype='Int64'), 'o': [object(), {'a': 1}],\n"
        "  'zone': pd.to_datetime(['2026-01-01'] * 2).tz_localize('UTC'), 'took': pd.to_timedelta(['1D', None]),\n"
        "  'month': pd.period_range('2026', periods=2, freq='M'), 'span': pd.interval_range(0, 2)},\n"
        "  index=pd.Index(['first', 'second'], name='key')))"
    )
    assert (found["kind"], found["shape"], found["rows"], found["columns"]) == ("DataFrame", [2, 12], 2, 12)
    assert (found["levels"], found["labels"]) == (["key"], [["first", "second"]])
    cells = dict(zip(found["names"], found["cells"], strict=True))
    assert cells == {
        "city": ["Bern", ["NaN"]],
        "n": ["1", "2"],
        "f": ["0.3", ["NaN"]],
        "b": ["True", "False"],
        "when": ["2026-11-18 12:30:00", ["NaT"]],
        "c": ["x", ["NaN"]],
        "whole": ["1", ["<NA>"]],
        "o": [["<object>"], "{'a': 1}"],
        "zone": ["2026-01-01 00:00:00+00:00"] * 2,
        "took": ["1 days 00:00:00", ["NaT"]],
        "month": ["2026-01", "2026-02"],
        "span": ["(0, 1]", "(1, 2]"],
    }
    assert found["types"][:4] == ["str", "int64", "float64", "bool"]


def test_the_end_of_a_long_frame(shown: Any) -> None:
    found = shown("page(pd.DataFrame({'n': np.arange(10_000_000, dtype='i4')}), row=9_999_800)")
    assert (found["rows"], found["labels"][0][-1], found["cells"][0][-1]) == (10_000_000, "9999999", "9999999")
    assert len(found["cells"][0]) == 200
    assert shown("page(pd.DataFrame({'n': [1]}), row=500, column=7)")["cells"] == []


def test_arrays_of_any_dimension(shown: Any) -> None:
    assert shown("page(np.arange(6).reshape(2, 3))")["cells"] == [["0", "3"], ["1", "4"], ["2", "5"]]
    assert shown("page(np.arange(3.0))")["cells"] == [["0.0", "1.0", "2.0"]]
    assert shown("page(np.array(7))")["cells"] == [["7"]]
    deep = shown("page(np.arange(120).reshape(2, 3, 4, 5), at=[1, 2])")
    assert (deep["shape"], deep["at"], deep["rows"], deep["columns"]) == ([2, 3, 4, 5], [1, 2], 4, 5)
    assert deep["cells"][0][0] == "100"
    assert shown("page(np.arange(24).reshape(2, 3, 4), at=[99])")["at"] == [1]
    assert shown("page(np.zeros((2, 0, 3)))")["rows"] == 0
    assert shown("page(np.array(['2026-01-01', 'NaT'], dtype='M8[D]'))")["cells"] == [["2026-01-01", ["NaT"]]]
    assert shown("page(np.float32([0.1]))")["cells"] == [["0.1"]]
    assert shown("page(np.arange(12).reshape(3, 4), row=1, column=2, rows=1, columns=1)")["cells"] == [["6"]]


def test_series_labels_and_lists(shown: Any) -> None:
    several = "pd.MultiIndex.from_tuples([('a', 1), ('b', 2)], names=['letter', None])"
    series = shown(f"page(pd.Series([1.5, 2.5], name='v', index={several}))")
    assert (series["names"], series["levels"], series["labels"]) == (["v"], ["letter", ""], [["a", "b"], ["1", "2"]])
    assert shown(f"page(pd.DataFrame([[1, 2]], columns={several}))")["names"] == ["a · 1", "b · 2"]
    assert shown("page(pd.date_range('2026', periods=2))")["cells"] == [["2026-01-01 00:00:00", "2026-01-02 00:00:00"]]
    records = shown("page([{'a': 1, 'b': 'x'}, {'a': 2, 'c': None}])")
    assert (records["names"], records["cells"]) == (["a", "b", "c"], [["1", "2"], ["x", [""]], [[""], ["None"]]])
    assert shown("page([(1, 2), [3]])")["cells"] == [["1", "3"], ["2", [""]]]
    assert shown("page(['x', 2])")["cells"] == [["x", "2"]]
    assert shown("page({'a': 1})") == {"problem": "no table", "kind": "dict"}


def test_first_values(shown: Any) -> None:
    found = shown(
        "first(a=np.arange(1000.0), s=pd.Series(['x', 'y']), d={'k': [1]}, t='text', n=5, none=None, l=[1, 2],\n"
        "  f=pd.DataFrame({'city': ['Bern'] * 9, 'n': range(9)}), o=object(), deep=np.zeros((2, 3, 4)))"
    )
    assert {name: (item[0], item[2], item[3]) for name, item in found.items()} == {
        "a": ([1000], "[" + ", ".join(f"{i}.0" for i in range(20)) + ", …]", True),
        "s": ([2], "[x, y]", True),
        "d": ([1], "{'k': [1]}", False),
        "t": ([4], "'text'", False),
        "n": ([], "5", False),
        "none": ([], "None", False),
        "l": ([2], "[1, 2]", True),
        "f": ([9, 2], "city: Bern, Bern, Bern, …; n: 0, 1, 2, …", True),
        "o": ([], "", False),
        "deep": ([2, 3, 4], "[" + "0.0, " * 20 + "…]", True),
    }
    assert found["a"][1] == 8000


@pytest.mark.parametrize(
    "code",
    [
        "page(np.array([Hostile(), 1], dtype=object))",
        "page(pd.DataFrame({'a': [Hostile()]}))",
        "page(pd.DataFrame([[1]], index=pd.Index([Hostile()]), columns=pd.Index([Hostile()])))",
        "page(pd.Series([1], name=Hostile()))",
        "f = pd.DataFrame({'a': [1]}); f.attrs['x'] = Hostile(); page(f)",
        "page([{'a': 1, Hostile(): 2}, {Hostile(): Hostile()}])",
        "page([{'a': 1}, {Same(): 2}])",
        "page([Hostile(), [Hostile()], {1: Hostile()}])",
        "page(pd.Series([Hostile()], dtype='category'))",
        "page(pd.DataFrame({'a': [1]}, index=pd.MultiIndex.from_arrays([[Hostile()], [1]])))",
    ],
)
def test_nothing_in_a_table_is_asked_anything(shown: Any, code: str) -> None:
    assert shown(code.replace("page(", "armed(page, "))["rows"] >= 1
    assert len(shown(code.replace("page(", "armed(first, x="))) == 1


@pytest.mark.parametrize(
    "made",
    [
        "type('ndarray', (np.ndarray,), {'__getitem__': ran, '__len__': ran, 'shape': property(ran)})((2,))",
        "type('DataFrame', (pd.DataFrame,), {'__module__': 'pandas', 'shape': property(ran), 'iloc': property(ran)})"
        "({'a': [1]})",
        "type('Series', (pd.Series,), {'__module__': 'pandas', '__len__': ran, 'iloc': property(ran)})([1])",
        "type('list', (list,), {'__module__': 'builtins', '__len__': ran, '__iter__': ran, '__getitem__': ran})([1])",
        "type('Odd', (), {'__module__': 'numpy', 'shape': property(ran), '__repr__': ran, '__len__': ran})()",
        "type('Odd', (), {'__module__': 'pandas.core', 'shape': property(ran), '__repr__': ran})()",
        "type('Meta', (type,), {'__name__': property(ran), '__module__': property(ran)})('Odd', (), {})()",
    ],
)
def test_an_object_that_looks_like_a_table_is_none(shown: Any, made: str) -> None:
    """Nor does the report with each cell ask it anything."""
    assert shown(f"odd = {made}\npage(odd)")["problem"] == "no table"
    values = shown("first(odd=odd)")
    assert values["odd"][2:] == ["", False]
    report = shown(
        "from wasm_guest import variables\n"
        "print(json.dumps(variables.summary(SimpleNamespace(user_ns={'odd': odd}, user_ns_hidden={}))))"
    )
    assert report["odd"][1] == 0


def test_an_array_of_somebodys_in_a_frame_is_not_asked(shown: Any) -> None:
    """Its own class of extension arrays: as a column it is named, as an index the frame is no table."""
    made = (
        "from pandas.api.extensions import ExtensionArray, ExtensionDtype\n"
        "class Kind(ExtensionDtype):\n    name, type = 'mine', int\n"
        "class Mine(ExtensionArray):\n"
        "    armed = False\n    dtype = Kind()\n    ndim, size, nbytes, shape = 1, 2, 8, (2,)\n"
        "    def __len__(self): return ran() if Mine.armed else 2\n"
        "    def __getitem__(self, key): return ran() if Mine.armed else self\n"
        "    def copy(self): return self\n    def view(self, dtype=None): return self\n"
        "    def isna(self): return np.zeros(2, bool)\n"
        "Mine.armed = False\n"
        "f = pd.DataFrame({'a': pd.Series(Mine(), copy=False), 'n': [1, 2]}, copy=False)\nMine.armed = True\n"
    )
    found = shown(made + "page(f)\nMine.armed = False")
    assert found["cells"] == [[["<Mine>"], ["<Mine>"]], ["1", "2"]]


def test_a_page_takes_little_time_and_memory_of_much(shown: Any) -> None:
    """What is not shown is not looked at: reference counts alone would make pages dirty."""
    code = (
        "import tracemalloc\nmuch = ['x' * 1_000_000] * 50 + list(range(400_000))\n"
        "f = pd.DataFrame({'a': np.array(much[:1000] + much[:1000], dtype=object)})\n"
        "import io, contextlib\ntracemalloc.start()\nwith contextlib.redirect_stdout(io.StringIO()):\n"
        "    page(much); page(f); first(much=much, f=f)\n"
        "peak = tracemalloc.get_traced_memory()[1]\ntracemalloc.stop()\nprint(json.dumps(peak))"
    )
    assert shown(code) < 600_000
