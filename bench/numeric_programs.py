"""numpy, pandas and scikit-learn, one call each: where kernels in C (`kernels/`) make the difference."""

from __future__ import annotations

from bench.programs import Program

LINEAR, SORTING, LEARNING = "linear algebra", "sorting", "scikit-learn fits"
LOOPS, PANDAS = "numpy loops", "pandas groupby, merge and sort"


def _program(group: str, name: str, setup: str, call: str) -> Program:
    lines = ["import numpy as np", "rng = np.random.default_rng(1)", *setup.split("; "), "def work():", f"    {call}"]
    return Program(name, group, "\n".join(lines) + "\n", threaded=group in (LINEAR, LEARNING))


_SQUARE = "a = rng.standard_normal((512, 512))"
_DATA = "x = rng.standard_normal((5000, 50)); y = x @ rng.standard_normal(50) + rng.standard_normal(5000)"
_SORTED = {
    "f8": "a = rng.standard_normal(1_000_000)",
    "f4": "a = rng.standard_normal(1_000_000).astype('f4')",
    "i8": "a = rng.integers(0, 1 << 40, 1_000_000)",
    "i4": "a = rng.integers(0, 1 << 30, 1_000_000).astype('i4')",
}

# 200,000 elements fit into caches, and what a call costs besides its loop does not count; results go where others were, for
# a new array's pages would be measured otherwise.
_ELEMENTS = (
    "x, y = rng.standard_normal((2, 200_000)); s, t = x.astype('f4'), y.astype('f4'); i, j = rng.integers(1, 1000, (2, 200_000));"
    " u, v = i.astype('u1'), j.astype('u1'); b, c, none = x > 0, y > 0, np.zeros(200_000, bool); places = rng.permutation(200_000);"
    " f8, f4, i8, u1, b1 = (np.empty(200_000, kind) for kind in ('f8', 'f4', 'i8', 'u1', '?')); m = x.reshape(400, 500)"
)
_FRAME = "import pandas as pd; f = pd.DataFrame({'k': rng.integers(0, 1000, 500_000), 'v': rng.random(500_000)})"
_TABLES = (
    "import pandas as pd; f = pd.DataFrame({'k': rng.permutation(100_000), 'a': rng.random(100_000)});"
    " g = pd.DataFrame({'k': rng.permutation(100_000), 'b': rng.random(100_000)})"
)
_LOOPS = (
    "np.add(x, y, out=f8)", "np.add(s, t, out=f4)", "np.add(i, j, out=i8)", "np.add(u, v, out=u1)", "np.multiply(x, 3.0, out=f8)",
    "np.divide(x, y, out=f8)", "np.maximum(x, y, out=f8)", "np.maximum(s, t, out=f4)", "np.greater(x, y, out=b1)",
    "np.equal(i, 5, out=b1)", "np.less(u, v, out=b1)", "np.logical_and(b, c, out=b1)", "none.any()", "b.sum()", "x.sum()", "s.sum()",
    "i.sum()", "x.max()", "i.max()", "x.argmax()", "s.argmin()", "i.argmax()", "np.isnan(x, out=b1)", "np.abs(s, out=f4)",
    "np.clip(x, -1, 1, out=f8)", "np.floor_divide(i, 7, out=i8)", "np.remainder(i, 7, out=i8)", "np.sqrt(x * x, out=f8)", "np.exp(x, out=f8)",
    "np.log(x * x, out=f8)", "np.sin(x, out=f8)", "np.exp(s, out=f4)", "np.copyto(f4, x, casting='unsafe')",
    "np.copyto(i8, x, casting='unsafe')", "np.copyto(f8, i)", "np.copyto(f8, b)", "np.where(b, x, y)", "x[places]", "x.take(places)",
    "x[b]", "x.cumsum(out=f8)", "x.std()", "m.mean(0)", "m.max(1)", "np.diff(x)", "rng.random(out=f8)", "rng.standard_normal(out=f8)",
)  # fmt: skip

NUMERIC_PROGRAMS = (
    *(_program(LOOPS, loop, _ELEMENTS, f"for _ in range(10): {loop}") for loop in _LOOPS),
    *(
        _program(PANDAS, f"groupby {how}, 500,000", _FRAME, f"f.groupby('k')['v'].{how}()")
        for how in ("sum", "mean", "std", "max", "median", "size")
    ),
    _program(PANDAS, "groupby transform, 500,000", _FRAME, "f.groupby('k')['v'].transform('mean')"),
    _program(PANDAS, "value_counts, 500,000", _FRAME, "f['k'].value_counts()"),
    _program(PANDAS, "merge, 100,000", _TABLES, "f.merge(g, on='k')"),
    _program(PANDAS, "left merge, 100,000", _TABLES, "f.merge(g[:1000], on='k', how='left')"),
    _program(PANDAS, "join, 100,000", f"{_TABLES}; f, g = f.set_index('k'), g.set_index('k')", "f.join(g)"),
    _program(PANDAS, "sort_values, 500,000", _FRAME, "f.sort_values('v')"),
    _program(PANDAS, "sort by two columns, 500,000", _FRAME, "f.sort_values(['k', 'v'])"),
    _program(PANDAS, "sort_index, 100,000", f"{_TABLES}; f = f.set_index('k')", "f.sort_index()"),
    _program(LINEAR, "matmul f8 512", _SQUARE, "a @ a"),
    _program(LINEAR, "matmul f4 512", f"{_SQUARE}.astype('f4')", "a @ a"),
    _program(LINEAR, "matmul complex 256", f"{_SQUARE}[:256, :256] + 1j; a = a.copy()", "a @ a"),
    _program(LINEAR, "a.T @ a 512", _SQUARE, "a.T @ a"),
    _program(LINEAR, "matrix @ vector 2000", "a = rng.standard_normal((2000, 2000)); v = a[0].copy()", "a @ v"),
    _program(LINEAR, "vector @ vector 1 M", "v = rng.standard_normal(1_000_000)", "v @ v"),
    _program(LINEAR, "svd 300, with random numbers", f"{_SQUARE}[:300, :300]", "np.linalg.svd(a)"),
    _program(LINEAR, "eigh 300", f"{_SQUARE}[:300, :300]; a = a + a.T", "np.linalg.eigh(a)"),
    _program(LINEAR, "eig 200", f"{_SQUARE}[:200, :200]", "np.linalg.eig(a)"),
    _program(LINEAR, "qr 512", _SQUARE, "np.linalg.qr(a)"),
    _program(LINEAR, "inv 512", _SQUARE, "np.linalg.inv(a)"),
    _program(LINEAR, "solve 512 for 64", _SQUARE, "np.linalg.solve(a, a[:, :64])"),
    _program(LINEAR, "cholesky 512", f"{_SQUARE}; a = a @ a.T + 600 * np.eye(512)", "np.linalg.cholesky(a)"),
    _program(LINEAR, "lstsq 2000 x 100", "a = rng.standard_normal((2000, 101))", "np.linalg.lstsq(a[:, :100], a[:, 100])"),
    *(_program(SORTING, f"sort {kind}, 1 M", setup, "np.sort(a)") for kind, setup in _SORTED.items()),
    *(_program(SORTING, f"argsort {kind}, 1 M", setup, "np.argsort(a)") for kind, setup in _SORTED.items()),
    _program(SORTING, "stable argsort i8, 1 M", _SORTED["i8"], "np.argsort(a, kind='stable')"),
    _program(SORTING, "partition f8, 1 M", _SORTED["f8"], "np.partition(a, 500_000)"),
    _program(SORTING, "argpartition f8, 1 M", _SORTED["f8"], "np.argpartition(a, 500_000)"),
    _program(SORTING, "median f8, 1 M", _SORTED["f8"], "np.median(a)"),
    _program(SORTING, "pandas sort_values, 1 M", f"import pandas as pd; {_SORTED['f8']}; f = pd.DataFrame({{'a': a}})", "f.sort_values('a')"),
    _program(LEARNING, "LinearRegression, 5,000 x 50", f"from sklearn.linear_model import LinearRegression as M; {_DATA}", "M().fit(x, y)"),
    _program(LEARNING, "Ridge, 5,000 x 50", f"from sklearn.linear_model import Ridge as M; {_DATA}", "M().fit(x, y)"),
    _program(LEARNING, "LogisticRegression, 5,000 x 50", f"from sklearn.linear_model import LogisticRegression as M; {_DATA}", "M(max_iter=200).fit(x, y > 0)"),
    _program(LEARNING, "PCA, 5,000 x 50", f"from sklearn.decomposition import PCA as M; {_DATA}", "M(10, svd_solver='full').fit(x)"),
    _program(LEARNING, "KMeans, 20,000 x 8", "from sklearn.cluster import KMeans as M; x = rng.standard_normal((20_000, 8))", "M(8, n_init=1, max_iter=30, random_state=0).fit(x)"),
    _program(LEARNING, "nearest neighbours, 3,000 x 50", f"from sklearn.neighbors import KNeighborsClassifier as M; {_DATA}", "M(algorithm='brute').fit(x[:3000], y[:3000] > 0).predict(x[:3000])"),
    _program(LEARNING, "random forest, 2,000 x 10", f"from sklearn.ensemble import RandomForestRegressor as M; {_DATA}", "M(10, random_state=0).fit(x[:2000, :10], y[:2000])"),
)  # fmt: skip
