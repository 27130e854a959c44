"""64-bit integers, for what is written in Python: numpy's names, and what libraries pass to compiled code.

The runtime's numpy is changed at build so that its default integer is int64 (`host/image/int64.py`). Positions
(np.intp) keep 32 bits, and compiled code of the libraries takes nothing else. Where a library counts on the two being
the same, it is mended when it is imported: here, and scipy in `scipy_integers.py`. And what a library returns to
people's own code, in a cell or in a module in /app, is int64 as on a 64-bit machine, so that they can compute with it:
np.argsort(x) * 10**6.
"""

import functools
import math
import os
import sys
import types

ANYTHING, TUPLES = -1, 0x7FFFFFFF
# numpy's functions that return positions or counts. Bit k: item k of a tuple is one; ANYTHING: so is what is no tuple.
_RETURNS = {
    "argmax": ANYTHING,
    "argmin": ANYTHING,
    "argpartition": ANYTHING,
    "argsort": ANYTHING,
    "argwhere": ANYTHING,
    "count_nonzero": ANYTHING,
    "digitize": ANYTHING,
    "flatnonzero": ANYTHING,
    "histogram": 0b1,
    "intersect1d": 0b110,
    "lexsort": ANYTHING,
    "linalg.matrix_rank": ANYTHING,
    "nanargmax": ANYTHING,
    "nanargmin": ANYTHING,
    "nonzero": ANYTHING,
    "ravel_multi_index": ANYTHING,
    "searchsorted": ANYTHING,
    "unique": 0b1110,
    "unique_all": 0b1110,
    "unique_counts": 0b10,
    "unique_inverse": 0b10,
    "unravel_index": ANYTHING,
    "where": TUPLES,
}
# Those of np.ma, also as methods, np.matrix and np.char.chararray, which are written in Python.
_MASKED = ("argmax", "argmin", "argsort", "nonzero")
_PLACES_IN_TEXT = ("find", "rfind", "index", "rindex", "count")
# Those of pandas' arrays, indexes and series, as methods.
_PANDAS = {
    "argsort": ANYTHING,
    "factorize": 0b1,
    "get_indexer": ANYTHING,
    "get_indexer_for": ANYTHING,
    "get_indexer_non_unique": ANYTHING,
    "get_locs": ANYTHING,
    "indexer_at_time": ANYTHING,
    "indexer_between_time": ANYTHING,
    "searchsorted": ANYTHING,
    "sortlevel": 0b10,
}
# Those of indexes alone, which series have under the same names for something else.
_INDEXES = {"asof_locs": ANYTHING, "join": 0b110, "reindex": 0b10, "sort_values": 0b10}


def install(after_import):
    """Mend each module once it has been imported."""
    after_import("numpy._core._type_aliases", _names)
    after_import("numpy._array_api_info", _default_types)
    after_import("numpy._core.strings", _strings)
    after_import("numpy", _positions)
    after_import("numpy.ma", _masked)
    after_import("numpy.lib._arraypad_impl", _pad)
    after_import("numpy.random._generator", _choice)
    after_import("pandas.core.algorithms", _differences)
    after_import("pandas.core.array_algos.transforms", _shifts)
    after_import("pandas.core.dtypes.common", _platform_int)
    after_import("pandas.core.indexers.utils", _array_indexer)
    after_import("pandas.core.internals.managers", _block_manager)
    after_import("pandas", _pandas)


def _names(module):
    """np.int_ and np.uint, and the names of types. np.long stays C's: numpy.random writes through a pointer to it."""
    for wide, attribute, names in (("int64", "int_", ("int", "int_", "long")), ("uint64", "uint", ("uint", "ulong"))):
        module.allTypes[attribute] = module.allTypes[wide]
        for name in names:
            module.sctypeDict[name] = module.allTypes[wide]


def _default_types(module):
    """The array API's default integer, which numpy calls np.intp."""
    from numpy import dtype

    kind = module.__array_namespace_info__
    real = kind.default_dtypes

    @functools.wraps(real)
    def default_dtypes(self, *, device=None):
        return real(self, device=device) | {"integral": dtype("int64")}

    kind.default_dtypes = default_dtypes


def _positions(module):
    """Compiled code (`positions.wat`) looks these up whenever somebody calls one of the functions."""
    for path, which in _RETURNS.items():
        place = module
        for name in path.split("."):
            place = getattr(place, name)
        vars(place)["return"] = which
    for name in _PLACES_IN_TEXT:
        wide = for_people(getattr(module.strings, name))
        setattr(module.strings, name, wide)
        setattr(module.char, name, wide)
    widen(module, "mask_indices")
    _ix(module)
    widen(module.char.chararray, *_PLACES_IN_TEXT, "argsort")
    widen(module.matrix, "argmax", "argmin")


def _ix(module):
    """Masks become positions, and other arrays stay what they are."""
    real = module.ix_

    @functools.wraps(real)
    def ix_(*args):
        __tracebackhide__ = True
        found = real(*args)
        if not _is_for_people(sys._getframe(1)):
            return found
        return tuple(
            place if getattr(given, "dtype", None) == place.dtype else _wide(place)
            for place, given in zip(found, args, strict=True)
        )

    module.ix_ = ix_


def _masked(module):
    """np.ma counts in np.intp, and its functions find positions by methods, which are a library's calls."""
    widen(module, *_MASKED, "clump_masked", "clump_unmasked", "flatnotmasked_contiguous", "flatnotmasked_edges")
    widen(module, "notmasked_contiguous", "notmasked_edges")
    widen(module, "where", which=TUPLES)
    widen(module, "unique", which=0b110)
    widen(module.MaskedArray, *_MASKED, "argpartition")
    _masked_counts(module.MaskedArray)


def _masked_counts(kind):
    """For everybody: the libraries compute with them, n * (n + 1), and index nothing."""
    real = kind.count

    @functools.wraps(real)
    def count(*args, **kwargs):
        return _wide(real(*args, **kwargs))

    kind.count = count


def widen(place, *names, which=ANYTHING):
    """Let functions or methods of a place return int64 for np.intp to people's code; bits as above."""
    for name in names:
        setattr(place, name, for_people(getattr(place, name), which))


def _strings(module):
    """Numbers of characters are cast to np.intp, and would wrap. A slice ends where the string does."""
    import numpy as np  # of which there is only the beginning yet

    cut, times, tabs = module.slice, module.multiply, module.expandtabs

    @functools.wraps(cut)
    def slice(a, *places):
        is_number = [np.asarray(place).dtype.kind in "iu" for place in places]
        return cut(a, *(np.clip(p, -(2**31), 2**31 - 1) if is_number[k] else p for k, p in enumerate(places)))

    @functools.wraps(times)
    def multiply(a, i):
        if np.any(np.asarray(i) >= 2**31):
            raise MemoryError
        return times(a, i)

    @functools.wraps(tabs)
    def expandtabs(a, tabsize=8):
        if np.any(np.asarray(tabsize) >= 2**31):
            raise OverflowError("new string is too long")
        return tabs(a, tabsize)

    module.slice, module.multiply, module.expandtabs = slice, multiply, expandtabs


def _pad(module):
    """Widths are cast to np.intp, and would wrap."""
    from numpy import abs, any, asarray

    real = module._as_pairs

    def as_pairs(x, ndim, as_index=False):
        if as_index and x is not None and any(abs(asarray(x)) >= 2**31):
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


def _call(function, arguments, keywords):
    __tracebackhide__ = True
    return function(*arguments, **keywords)


# Calls a function as people's code would, which what has globals without a name is taken for. For executors and pools.
call_for_people = types.FunctionType(_call.__code__, {})


def for_people(function, which=ANYTHING):
    """The function, with int64 for np.intp in what people's code gets from it; bits as above."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        result = function(*args, **kwargs)
        if not _is_for_people(sys._getframe(1)):
            return result
        if isinstance(result, tuple):
            items = [_wide(item) if which >> k & 1 else item for k, item in enumerate(result)]
            return result._make(items) if hasattr(result, "_make") else tuple(items)
        return _wide(result) if which < 0 else result

    call.__code__ = call.__code__.replace(co_filename=_unseen_file(function))
    return call


def _unseen_file(function):
    """Where a frame is to be, so that warnings name the line of whoever called the function.

    Python does not count frames of a file with this name; pandas looks for the first frame that is not in its folder.
    """
    if str(function.__module__).startswith("pandas."):
        return os.path.dirname(sys.modules["pandas"].__file__) + "/<integers>"
    return "<importlib._bootstrap>"


def _is_for_people(frame):
    while frame.f_globals.get("__name__") == "numpy._core.fromnumeric":  # np.argsort(series) calls series.argsort()
        frame = frame.f_back
    caller = frame.f_globals
    if caller.get("__name__", "__main__") == "__main__":
        return True
    return bool(caller.get("return", str(caller.get("__file__")).startswith(("/app", "/pac"))))


def compute_with_positions(module):
    """What this module gets is int64. None of it may go to compiled code of the library's."""
    vars(module)["return"] = 1  # a word that no name in a module can be


def _wide(value):
    """With int64 for np.intp, also in a dict (of tuples) and in a list of slices."""
    if isinstance(value, dict):
        wide = value.copy()  # which may be a defaultdict
        wide.update((key, tuple(map(_wide, v)) if type(v) is tuple else _wide(v)) for key, v in value.items())
        return wide
    if type(value) is list and value and isinstance(value[0], (list, slice)):
        return [_wide(item) for item in value]
    if isinstance(value, slice):
        return slice(_wide(value.start), _wide(value.stop), value.step)
    return value.astype("int64") if getattr(value, "dtype", None) == "int32" else value


def _pandas(module):
    for kind in (module.Series, *_kinds(module.Index), *_kinds(module.api.extensions.ExtensionArray)):
        for name, which in _PANDAS.items():
            if name in vars(kind) or kind in (module.Series, module.Index) and hasattr(kind, name):
                widen(kind, name, which=which)
    for kind in _kinds(module.Index):
        for name in _INDEXES.keys() & vars(kind).keys():
            widen(kind, name, which=_INDEXES[name])
    widen(module, "factorize", "cut", "qcut", which=-(2**31) | 0b1)
    grouped = module.core.groupby.groupby.BaseGroupBy
    grouped.indices = property(for_people(grouped.indices.fget))
    _take(module.core.generic.NDFrame)


def _kinds(kind):
    """A class and all those that inherit from it."""
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


def _take(kind):
    """Positions are cast to np.intp, and would wrap."""
    real = kind.take

    @functools.wraps(real)
    def take(self, indices, *args, **kwargs):
        __tracebackhide__ = True
        return real(self, indices if isinstance(indices, slice) else fitting(indices), *args, **kwargs)

    kind.take = take


def fitting(indices):
    """The same, as np.intp if they are wider and fit."""
    import numpy as np

    array = np.asarray(indices)
    if array.dtype.kind not in "iu" or np.can_cast(array.dtype, np.intp):
        return indices
    positions = array.astype(np.intp)
    if (positions != array).any():
        raise IndexError("positional indexers are out-of-bounds")
    return positions


def _array_indexer(module):
    """Positions in pandas' own arrays are cast to np.intp, and would wrap."""
    real = module.check_array_indexer

    @functools.wraps(real)
    def check_array_indexer(array, indexer):
        __tracebackhide__ = True
        if isinstance(indexer, list) or hasattr(indexer, "dtype"):
            fitting(indexer)
        return real(array, indexer)

    module.check_array_indexer = check_array_indexer


def _shifts(module):
    """To shift by more than there is, is to shift by all there is."""
    real = module.shift

    def shift(values, periods, axis, fill_value):
        return real(values, max(-values.size, min(periods, values.size)), axis, fill_value)

    module.shift = shift


def _differences(module):
    """Likewise."""
    real = module.diff

    def diff(arr, n, axis=0):
        return real(arr, n if -arr.size <= n <= arr.size else int(math.copysign(arr.size, n)), axis)

    module.diff = diff


def _platform_int(module):
    from numpy import dtype, ndarray

    real, int64 = module.ensure_platform_int, dtype("int64")

    def ensure_platform_int(arr):
        return real(fitting(arr) if type(arr) is ndarray and arr.dtype is int64 else arr)

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
