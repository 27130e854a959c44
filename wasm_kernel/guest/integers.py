"""64-bit integers, for what is written in Python: numpy's names, and what libraries pass to compiled code.

The runtime's numpy is changed at build so that its default integer is int64 (`host/image/int64.py`). Positions
(np.intp) keep 32 bits, and compiled code of the libraries takes nothing else. Where a library counts on the two being
the same, it is mended here, when it is imported. And what a library returns to people's own code, in a cell or in a
module in /app, is int64 as on a 64-bit machine, so that they can compute with it: np.argsort(x) * 10**6.
"""

import functools
import math
import sys

_ANYTHING, _TUPLES = -1, 0x7FFFFFFF
# numpy's functions that return positions or counts. Bit k: item k of a tuple is one; _ANYTHING: so is what is no tuple.
_RETURNS = {
    "argmax": _ANYTHING,
    "argmin": _ANYTHING,
    "argpartition": _ANYTHING,
    "argsort": _ANYTHING,
    "argwhere": _ANYTHING,
    "count_nonzero": _ANYTHING,
    "digitize": _ANYTHING,
    "flatnonzero": _ANYTHING,
    "histogram": 0b1,
    "intersect1d": 0b110,
    "lexsort": _ANYTHING,
    "linalg.matrix_rank": _ANYTHING,
    "nanargmax": _ANYTHING,
    "nanargmin": _ANYTHING,
    "nonzero": _ANYTHING,
    "ravel_multi_index": _ANYTHING,
    "searchsorted": _ANYTHING,
    "unique": 0b1110,
    "unique_all": 0b1110,
    "unique_counts": 0b10,
    "unique_inverse": 0b10,
    "unravel_index": _ANYTHING,
    "where": _TUPLES,
}


def install(after_import):
    """Mend each module once it has been imported."""
    after_import("numpy._core._type_aliases", _names)
    after_import("numpy", _positions)
    after_import("numpy.lib._arraypad_impl", _pad)
    after_import("numpy.random._generator", _choice)
    after_import("pandas.core.dtypes.common", _platform_int)
    after_import("pandas.core.internals.managers", _block_manager)
    after_import("pandas", _pandas)
    after_import("scipy.signal._peak_finding", _peaks)
    after_import("scipy.special._ufuncs", _special)


def _names(module):
    """np.int_ and np.uint, and the names of types. np.long stays C's: numpy.random writes through a pointer to it."""
    for wide, attribute, names in (("int64", "int_", ("int", "int_", "long")), ("uint64", "uint", ("uint", "ulong"))):
        module.allTypes[attribute] = module.allTypes[wide]
        for name in names:
            module.sctypeDict[name] = module.allTypes[wide]


def _positions(module):
    """Compiled code (`positions.wat`) looks these up whenever somebody calls one of the functions."""
    for path, which in _RETURNS.items():
        place = module
        for name in path.split("."):
            place = getattr(place, name)
        vars(place)["return"] = which
    for name in ("find", "rfind", "index", "rindex", "count"):
        wide = _for_people(getattr(module.strings, name))
        setattr(module.strings, name, wide)
        setattr(module.char, name, wide)
    module.mask_indices = _for_people(module.mask_indices)


def _pad(module):
    """Widths are cast to np.intp, and would wrap."""
    from numpy import abs, any, asarray

    real = module._as_pairs

    def as_pairs(x, ndim, as_index=False):
        if as_index and any(abs(asarray(x)) >= 2**31):
            raise ValueError("Maximum allowed dimension exceeded")
        return real(x, ndim, as_index)

    module._as_pairs = as_pairs


def _choice(module):
    """Generator.choice without replacement counts up to the population's size in an np.intp, and would never end."""
    import gc

    methods = gc.get_referents(vars(module.Generator))[0]  # a compiled class takes no attributes
    real = methods["choice"]

    @functools.wraps(real)
    def choice(self, a, size=None, replace=True, p=None, axis=0, shuffle=True):
        if replace or p is not None or not hasattr(a, "__index__") or getattr(a, "ndim", 0) or a < 2**31:
            return real(self, a, size, replace, p, axis, shuffle)
        return _sample(self, int(a), size, shuffle)

    methods["choice"] = choice


def _sample(generator, population, size, shuffle):
    """Floyd's algorithm as numpy has it: the same numbers."""
    from numpy import array

    shape = () if size is None else size if isinstance(size, tuple) else (size,)
    count = math.prod(shape)
    drawn, seen = [], set()
    for last in range(population - count, population):
        number = int(generator.integers(0, last, endpoint=True))
        drawn.append(last if number in seen else number)
        seen.add(drawn[-1])
    for i in reversed(range(1, count if shuffle else 0)):
        k = int(generator.integers(0, i, endpoint=True))
        drawn[i], drawn[k] = drawn[k], drawn[i]
    return drawn[0] if size is None else array(drawn, dtype="int64").reshape(shape)


def _for_people(function, which=_ANYTHING):
    """The function, with int64 for np.intp in what people's code gets from it; bits as above."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        result = function(*args, **kwargs)
        if not _is_for_people(sys._getframe(1).f_globals):
            return result
        if isinstance(result, tuple):
            return tuple(_wide(item) if which >> k & 1 else item for k, item in enumerate(result))
        return _wide(result) if which < 0 else result

    return call


def _is_for_people(caller):
    return caller.get("__name__", "__main__") == "__main__" or str(caller.get("__file__")).startswith("/app")


def _wide(value):
    return value.astype("int64") if getattr(value, "dtype", None) == "int32" else value


def _pandas(module):
    for kind in (module.Series, module.Index, module.RangeIndex, module.MultiIndex, module.IntervalIndex):
        for name in (
            "argsort",
            "searchsorted",
            "get_indexer",
            "get_indexer_for",
            "get_indexer_non_unique",
            "factorize",
        ):
            if name in vars(kind) or kind in (module.Series, module.Index) and hasattr(kind, name):
                setattr(kind, name, _for_people(getattr(kind, name), 0b1 if name == "factorize" else _ANYTHING))
    for name in ("factorize", "cut", "qcut"):
        setattr(module, name, _for_people(getattr(module, name), -(2**31) | 0b1))
    _take(module.core.generic.NDFrame)


def _take(kind):
    """Positions are cast to np.intp, and would wrap."""
    real = kind.take

    @functools.wraps(real)
    def take(self, indices, *args, **kwargs):
        __tracebackhide__ = True
        return real(self, indices if isinstance(indices, slice) else _fitting(indices), *args, **kwargs)

    kind.take = take


def _fitting(indices):
    """The same, as np.intp if they are int64 and fit."""
    import numpy as np

    array = np.asarray(indices)
    if array.dtype != np.int64:
        return indices
    positions = array.astype(np.intp)
    if (positions != array).any():
        raise IndexError("positional indexers are out-of-bounds")
    return positions


def _platform_int(module):
    from numpy import dtype, ndarray

    real, int64 = module.ensure_platform_int, dtype("int64")

    def ensure_platform_int(arr):
        return real(_fitting(arr) if type(arr) is ndarray and arr.dtype is int64 else arr)

    module.ensure_platform_int = ensure_platform_int


def _block_manager(module):
    """np.append(positions, 0) is int64 now."""
    import numpy as np

    real = module.BlockManager._insert_update_blklocs_and_blknos

    def insert(self, loc):
        real(self, loc)
        self._blklocs = self._blklocs.astype(np.intp, copy=False)
        self._blknos = self._blknos.astype(np.intp, copy=False)

    module.BlockManager._insert_update_blklocs_and_blknos = insert


def _peaks(module):
    """Positions of peaks and of their bases may be people's own arrays."""
    import numpy as np

    def positions(value):
        return _fitting(value) if isinstance(value, np.ndarray) else value

    expected, widths = module._arg_peaks_as_expected, module._peak_widths

    def peaks_as_expected(value):
        return expected(positions(np.asarray(value)))

    def peak_widths(x, peaks, rel_height, prominences, left_bases, right_bases):
        return widths(x, peaks, rel_height, prominences, positions(left_bases), positions(right_bases))

    module._arg_peaks_as_expected, module._peak_widths = peaks_as_expected, peak_widths


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
