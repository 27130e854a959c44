"""Linear algebra, sorting and scikit-learn, one call each: where kernels in C (`kernels/`) make the difference."""

from __future__ import annotations

from bench.programs import Program

LINEAR, SORTING, LEARNING = "linear algebra", "sorting", "scikit-learn fits"


def _program(group: str, name: str, setup: str, call: str) -> Program:
    lines = ["import numpy as np", "rng = np.random.default_rng(1)", *setup.split("; "), "def work():", f"    {call}"]
    return Program(name, group, "\n".join(lines) + "\n", threaded=group != SORTING)


_SQUARE = "a = rng.standard_normal((512, 512))"
_DATA = "x = rng.standard_normal((5000, 50)); y = x @ rng.standard_normal(50) + rng.standard_normal(5000)"
_SORTED = {
    "f8": "a = rng.standard_normal(1_000_000)",
    "f4": "a = rng.standard_normal(1_000_000).astype('f4')",
    "i8": "a = rng.integers(0, 1 << 40, 1_000_000)",
    "i4": "a = rng.integers(0, 1 << 30, 1_000_000).astype('i4')",
}

NUMERIC_PROGRAMS = (
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
