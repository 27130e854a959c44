"""64-bit integers, for what is written in Python: numpy's names, and what libraries pass to compiled code.

The runtime's numpy is changed at build so that its default integer is int64 (`host/image/int64.py`). Positions
(np.intp) keep 32 bits, and compiled code of the libraries takes nothing else. Where a library counts on the two being
the same, it is mended here, when it is imported.
"""


def install(after_import):
    """Mend each module once it has been imported."""
    after_import("numpy._core._type_aliases", _names)
    after_import("pandas.core.internals.managers", _block_manager)
    after_import("scipy.signal._peak_finding", _peaks)
    after_import("scipy.special._ufuncs", _special)


def _names(module):
    """np.int_ and np.uint, and the names of types. np.long stays C's: numpy.random writes through a pointer to it."""
    for wide, attribute, names in (("int64", "int_", ("int", "int_", "long")), ("uint64", "uint", ("uint", "ulong"))):
        module.allTypes[attribute] = module.allTypes[wide]
        for name in names:
            module.sctypeDict[name] = module.allTypes[wide]


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
        value = np.asarray(value)
        return value.astype(np.intp, casting="same_value") if value.dtype.kind in "iu" else value

    expected, widths = module._arg_peaks_as_expected, module._peak_widths

    def peaks_as_expected(value):
        return expected(positions(value))

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
