"""64-bit integers in scipy, scikit-learn and statsmodels: positions and orders for compiled code, products of counts.

See `integers.py`.
"""

from .integers import ANYTHING, TUPLES, compute_with_positions, fitting, for_people, widen

_ARRAY_OR_SECOND = -(2**31) | 0b10
# Functions and methods that return positions, labels or counts as np.intp, with the bits of `integers.py`. What objects
# keep (labels_, tree_) stays as it is, and so does what is neither an array nor in a tuple.
_RETURNS = {
    "scipy.linalg._decomp_ldl": {"ldl": 0b100},
    "scipy.ndimage._measurements": {"histogram": ANYTHING, "value_indices": ANYTHING},
    "scipy.signal._peak_finding": {
        "argrelextrema": TUPLES,
        "argrelmax": TUPLES,
        "argrelmin": TUPLES,
        "find_peaks": 0b11,
        "peak_prominences": 0b110,
    },
    "scipy.spatial._kdtree": {
        "KDTree.count_neighbors": ANYTHING,
        "KDTree.query": 0b10,
        "KDTree.query_ball_point": ANYTHING,
        "KDTree.query_pairs": ANYTHING,
    },
    "scipy.stats._binned_statistic": {
        "binned_statistic": 0b100,
        "binned_statistic_2d": 0b1000,
        "binned_statistic_dd": 0b100,
    },
    "scipy.stats._mstats_basic": {"describe": 0b1},
    "sklearn.base": {"OutlierMixin.fit_predict": ANYTHING},
    "sklearn.cluster._affinity_propagation": {
        "AffinityPropagation.fit_predict": ANYTHING,
        "AffinityPropagation.predict": ANYTHING,
        "affinity_propagation": 0b11,
    },
    "sklearn.cluster._agglomerative": {"AgglomerativeClustering.fit_predict": ANYTHING, "ward_tree": 0b1},
    "sklearn.cluster._birch": {"Birch.fit_predict": ANYTHING, "Birch.predict": ANYTHING},
    "sklearn.cluster._dbscan": {"DBSCAN.fit_predict": ANYTHING, "dbscan": 0b11},
    "sklearn.cluster._hdbscan.hdbscan": {"HDBSCAN.fit_predict": ANYTHING},
    "sklearn.cluster._mean_shift": {
        "MeanShift.fit_predict": ANYTHING,
        "MeanShift.predict": ANYTHING,
        "mean_shift": 0b10,
    },
    "sklearn.datasets._samples_generator": {"make_circles": 0b10, "make_moons": 0b10},
    "sklearn.ensemble._forest": {"BaseForest.apply": ANYTHING},
    "sklearn.feature_selection._base": {"SelectorMixin.get_support": ANYTHING},
    "sklearn.metrics.pairwise": {"pairwise_distances_argmin": ANYTHING, "pairwise_distances_argmin_min": 0b1},
    "sklearn.mixture._base": {"BaseMixture.fit_predict": ANYTHING, "BaseMixture.predict": ANYTHING},
    "sklearn.neighbors._base": {"KNeighborsMixin.kneighbors": _ARRAY_OR_SECOND},
    "sklearn.preprocessing._label": {"LabelEncoder.fit_transform": ANYTHING, "LabelEncoder.transform": ANYTHING},
    "sklearn.svm._classes": {"OneClassSVM.predict": ANYTHING},
    "sklearn.tree._classes": {"BaseDecisionTree.apply": ANYTHING},
    "sklearn.utils.random": {"sample_without_replacement": ANYTHING},
    "sklearn.utils.sparsefuncs": {"count_nonzero": ANYTHING},
}

# Modules that multiply positions or counts by each other or by the number of points: from 46,341 points on, products do
# not fit in 32 bits.
_STATISTICS = (
    "scipy.stats._morestats",  # anderson_ksamp
    "scipy.stats._mstats_basic",
    "sklearn.metrics._ranking",  # label_ranking_loss
    "statsmodels.graphics.functional",  # banddepth
)


def install(after_import):
    """Mend each module once it has been imported."""
    for name in _STATISTICS:
        after_import(name, compute_with_positions)
    for name in _RETURNS:
        after_import(name, _widen_all)
    for name in ("_decomp_qz", "_decomp_schur", "_matfuncs"):
        after_import(f"scipy.linalg.{name}", _precision)
    after_import("scipy.ndimage._interpolation", _coordinates)
    after_import("scipy.ndimage._measurements", _values)
    after_import("scipy.signal._peak_finding", _peaks)
    after_import("scipy.signal._signaltools", _median)
    after_import("scipy.sparse._lil", _lists_of_lists)
    after_import("scipy.spatial", _trees)
    after_import("scipy.special._ufuncs", _special)
    after_import("sklearn.model_selection._search", _parameters)
    after_import("sklearn.neighbors._kd_tree", _neighbors)
    after_import("sklearn.neighbors._ball_tree", _neighbors)


def _widen_all(module):
    for path, which in _RETURNS[module.__name__].items():
        kind, _, name = path.rpartition(".")
        widen(getattr(module, kind) if kind else module, name, which=which)


def _precision(module):
    """Integers are worth double precision, but these know C's `long` (l) only."""
    for name in ("_array_kind", "_array_precision"):
        table = getattr(module, name, {})
        if "l" in table:
            table["q"] = table["l"]
    getattr(module, "_double_precision", []).append("q")


def _lists_of_lists(module):
    real = module._prepare_index_for_memoryview

    def prepare_index(i, j, *x):
        fitting(i), fitting(j)
        return real(i, j, *x)

    module._prepare_index_for_memoryview = prepare_index


def _coordinates(module):
    """Coordinates beyond an array are brought back into it by way of np.intp, and would be anywhere in memory."""
    from types import SimpleNamespace

    from numpy import abs, any, asarray

    compiled = module._nd_image
    stay_there = [module._ni_support._extend_mode_to_code(mode) for mode in ("constant", "grid-constant")]

    def check(mode, reach):
        if mode not in stay_there and any(reach >= 2**30):
            raise ValueError("coordinates of 2**30 or more: an array has fewer elements than that here")

    def geometric_transform(image, mapping, coordinates, matrix, offset, output, order, mode, *rest):
        if coordinates is not None:
            check(mode, abs(coordinates))
        if matrix is not None:
            check(mode, abs(matrix) @ asarray(output.shape[: matrix.shape[1]]) + abs(offset))
        return compiled.geometric_transform(image, mapping, coordinates, matrix, offset, output, order, mode, *rest)

    def zoom_shift(image, zoom, shift, output, order, mode, *rest):
        reach = asarray(output.shape) + (0 if shift is None else abs(shift))
        check(mode, reach if zoom is None else reach * abs(zoom))
        return compiled.zoom_shift(image, zoom, shift, output, order, mode, *rest)

    module._nd_image = SimpleNamespace(
        **{**vars(compiled), "geometric_transform": geometric_transform, "zoom_shift": zoom_shift}
    )


def _values(module):
    """A table as long as the values are apart: too long for np.intp is too long for the memory."""
    from types import SimpleNamespace

    compiled = module._nd_image

    def value_indices(array, *rest):
        if array.size and int(array.max()) - int(array.min()) >= 2**31 - 1:
            raise MemoryError
        return compiled.value_indices(array, *rest)

    module._nd_image = SimpleNamespace(**{**vars(compiled), "value_indices": value_indices})


def _peaks(module):
    """Positions of peaks and of their bases may be people's own arrays."""
    import numpy as np

    def positions(value):
        return fitting(value) if isinstance(value, np.ndarray) else value

    expected, widths = module._arg_peaks_as_expected, module._peak_widths

    def peaks_as_expected(value):
        return expected(positions(np.asarray(value)))

    def peak_widths(x, peaks, rel_height, prominences, left_bases, right_bases):
        return widths(x, peaks, rel_height, prominences, positions(left_bases), positions(right_bases))

    module._arg_peaks_as_expected, module._peak_widths = peaks_as_expected, peak_widths


def _median(module):
    """The size of a window is taken as positions are."""
    compiled = module._sigtools
    real = compiled._medfilt2d

    def medfilt2d(image, size):
        return real(image, fitting(size))

    compiled._medfilt2d = medfilt2d


class _IntegerOrders:
    """A ufunc with loops for C's `long`: orders that are int64 are cast to it.

    Without that numpy takes the loop for floats, which is slower and less exact, or finds none.
    """

    def __init__(self, ufunc, module):
        self._ufunc, self.__doc__, self.__name__, self.__module__ = ufunc, ufunc.__doc__, ufunc.__name__, module
        inputs = [types.partition("->")[0] for types in ufunc.types]
        self._places = [place for place in range(ufunc.nin) if any(kinds[place] == "l" for kinds in inputs)]

    def __call__(self, *args, **kwargs):
        return self._ufunc(*self._narrowed(args), **kwargs)

    def _narrowed(self, args):
        from numpy import asarray

        args = list(args)
        for place in self._places:
            if place < len(args) and (isinstance(args[place], (int, list, tuple)) or hasattr(args[place], "dtype")):
                value = asarray(args[place])
                if value.dtype == "int64" and (value == value.astype("int32")).all():
                    args[place] = value.astype("int32")
        return args

    def __getattr__(self, name):
        if name.startswith("__") or name == "_ufunc":  # while it is being copied or unpickled
            raise AttributeError(name)
        return getattr(self._ufunc, name)

    def __reduce__(self):
        return self.__name__

    def __repr__(self):
        return repr(self._ufunc)


def _special(module):
    import numpy as np

    for name, value in list(vars(module).items()):
        if isinstance(value, np.ufunc) and any("l" in types.partition("->")[0] for types in value.types):
            setattr(module, name, _IntegerOrders(value, module.__name__))


def _parameters(module):
    """There may be more combinations of parameters than len() can say."""
    sample = module.sample_without_replacement

    def length(value):
        return value.__len__() if isinstance(value, (module.ParameterGrid, module.ParameterSampler)) else len(value)

    def sample_without_replacement(population, count, *, random_state):
        if population <= _MOST:
            return sample(population, count, random_state=random_state)
        drawn = {}  # in the order of drawing, and with the same draws as scikit-learn's tracking_selection
        while len(drawn) < count:
            drawn[random_state.randint(population)] = None
        return list(drawn)

    module.len, module.sample_without_replacement = length, sample_without_replacement


_MOST = 2**31 - 1  # what np.intp holds


def _trees(module):
    _pairs_of_trees(module)
    returns = _RETURNS["scipy.spatial._kdtree"]
    _widen_methods(module.cKDTree, {path.rpartition(".")[2]: which for path, which in returns.items()})
    _pickled_trees(module)


def _neighbors(module):
    _pairs_of_points(module)
    _pickled_neighbors(module)
    for kind in _trees_in(module):
        _widen_methods(kind, {"query": _ARRAY_OR_SECOND, "query_radius": ANYTHING, "two_point_correlation": ANYTHING})


def _trees_in(module):
    return [kind for kind in vars(module).values() if isinstance(kind, type) and "query_radius" in vars(kind)]


def _pairs_of_trees(module):
    """Pairs are counted in np.intp, and would wrap: where that could be, a part of the points is counted at a time."""
    import functools

    real = module.cKDTree.count_neighbors

    @functools.wraps(real)
    def count_neighbors(self, other, r, p=2.0, weights=None, cumulative=True):
        if weights is not None or self.n * other.n <= _MOST:
            return real(self, other, r, p, weights, cumulative)
        parts = (module.cKDTree(self.data[places], boxsize=self.boxsize) for places in _parts(self.n, other.n))
        return _total(real(part, other, r, p, weights, cumulative) for part in parts)

    _set_methods(module.cKDTree, count_neighbors=count_neighbors)


def _pairs_of_points(module):
    """Likewise."""
    import functools

    import numpy as np

    def mended(real):
        @functools.wraps(real)
        def two_point_correlation(self, X, r, dualtree=False):
            own, points = len(self.data), np.asarray(X)
            if not own or points.ndim != 2 or own * len(points) <= _MOST:
                return real(self, X, r, dualtree)
            return _total(real(self, points[places], r, dualtree) for places in _parts(len(points), own))

        return two_point_correlation

    for kind in _trees_in(module):
        _set_methods(kind, two_point_correlation=mended(kind.two_point_correlation))


def _pickled_trees(module):
    """A tree from a 64-bit machine holds its memory there, with 64 bits to a position: its data is sorted in anew."""
    real = module.cKDTree.__setstate__

    def set_state(self, state):
        data, leafsize, positions, boxsize = state[1], state[4], state[7], state[8]
        if positions.dtype == "int64":
            state = module.cKDTree(data, leafsize, boxsize=boxsize).__getstate__()
        real(self, state)

    _set_methods(module.cKDTree, __setstate__=set_state)


def _pickled_neighbors(module):
    """Likewise, but here the nodes are an array, whose positions are cast."""
    import numpy as np

    def mended(real):
        def set_state(self, state):
            data, positions, nodes, *rest = state
            if positions.dtype == "int64":
                fields = [(name, np.intp if nodes.dtype[name] == "int64" else "f8") for name in nodes.dtype.names]
                nodes = nodes.astype(np.dtype(fields, align=True))
            real(self, (data, fitting(positions), nodes, *rest))

        return set_state

    for kind in _trees_in(module):
        _set_methods(kind, __setstate__=mended(kind.__setstate__))


def _parts(count, others):
    """Slices of which each makes no more pairs than are counted."""
    step = _MOST // others
    return (slice(start, start + step) for start in range(0, count, step))


def _total(counts):
    from numpy import asarray

    total = sum(asarray(count, "int64") for count in counts)
    return total if total.ndim else int(total)


def _widen_methods(kind, returns):
    for name, which in returns.items():
        method = for_people(getattr(kind, name), which)
        method.__annotate__ = None  # joblib pickles it with the method; the compiled one's cannot be found by its name
        _set_methods(kind, **{name: method})


def _set_methods(kind, **methods):
    """A compiled class takes no attributes."""
    import gc

    gc.get_referents(vars(kind))[0].update(methods)
