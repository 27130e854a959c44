"""Columns and labels as texts, by the exact types of the arrays that hold them."""

from . import shelf
from .short_forms import ZONES, cell, cut, kinds, number, type_name

_pandas = None


class _PandasKinds:
    """The classes that pandas is made of."""

    def __init__(self):
        pandas, arrays = shelf.find("pandas"), shelf.find("pandas.core.arrays")
        managers, dtypes = shelf.find("pandas.core.internals.managers"), shelf.find("pandas.core.dtypes.dtypes")
        self.frame, self.series, self.range = pandas.DataFrame, pandas.Series, pandas.RangeIndex
        self.multi = pandas.MultiIndex
        self.managers = (managers.BlockManager, managers.SingleBlockManager)
        self.indexes = (pandas.Index, pandas.DatetimeIndex, pandas.TimedeltaIndex, pandas.PeriodIndex)
        self.indexes += (pandas.CategoricalIndex, pandas.IntervalIndex)
        self.masked = (arrays.IntegerArray, arrays.FloatingArray, arrays.BooleanArray)
        self.plain = (arrays.NumpyExtensionArray, arrays.StringArray, arrays.TimedeltaArray)
        self.datetimes, self.periods, self.intervals = arrays.DatetimeArray, arrays.PeriodArray, arrays.IntervalArray
        self.categories = arrays.Categorical
        self.zoned, self.category = dtypes.DatetimeTZDtype, dtypes.CategoricalDtype
        self.timedelta = pandas.Timedelta
        self.backed = (*self.plain, self.datetimes, self.periods, self.categories)
        self.arrays = (kinds().ndarray, *self.backed, *self.masked, self.intervals)


def pandas_kinds():
    """The classes that pandas is made of; None without pandas."""
    global _pandas
    if _pandas is None and shelf.find("pandas"):
        _pandas = _PandasKinds()
    return _pandas


def is_index(value):
    """Whether a value is an index of pandas' own, with nothing of somebody else's in it."""
    known, kind = pandas_kinds(), type(value)
    if kind is known.multi:
        return all(is_index(level) for level in value._levels)
    return kind is known.range or (kind in known.indexes and type(value._data) in known.arrays)


def length(index):
    """How many labels an index has."""
    return len(index._codes[0]) if type(index) is pandas_kinds().multi else len(index)


def level_names(index):
    """What an index is called, or each of its levels."""
    names = index._names if type(index) is pandas_kinds().multi else [index._name]
    return ["" if name is None else cut(plain(cell(name))) for name in names]


def labels(index, start, stop):
    """The labels of some rows or columns, a list for each level."""
    known = pandas_kinds()
    if type(index) is known.range:
        inner = index._range[start:stop]
        return [[str(i) for i in inner]]
    if type(index) is known.multi:
        return [_chosen(level, codes[start:stop]) for level, codes in zip(index._levels, index._codes, strict=True)]
    return [texts(index._data, start, stop)]


def _chosen(index, codes):
    """The labels that codes stand for; -1 is none."""
    codes = codes.tolist()
    return [labels(index, code, code + 1)[0][0] if code >= 0 else ["NaN"] for code in codes]


def plain(found):
    """A cell's text, whatever it stands for."""
    return found if type(found) is str else found[0]


def texts(values, start, stop, row=0):
    """A part of a column, as texts. ``row``: which one of a block of several columns."""
    known, kind = pandas_kinds(), type(values)
    if kind is kinds().ndarray:
        return array_texts(_part(values, start, stop, row))
    if known is None:
        return [[f"<{type_name(kind)}>"]] * (stop - start)
    if kind in known.plain:
        return array_texts(_part(values._ndarray, start, stop, row))
    if kind in known.masked:
        found, mask = array_texts(values._data[start:stop]), values._mask[start:stop].tolist()
        return [["<NA>"] if missing else text for text, missing in zip(found, mask, strict=True)]
    if kind is known.datetimes:
        if type(values._dtype) is not known.zoned:
            return array_texts(_part(values._ndarray, start, stop, row))
        if type(values._dtype.tz) in ZONES:  # another would be asked how far it is from UTC
            return [cell(item) for item in _part(values, start, stop, row)]
    if kind is known.categories and type(values._dtype) is known.category and is_index(values._dtype._categories):
        return _chosen(values._dtype._categories, values._ndarray[start:stop])
    if kind is known.intervals:
        return _interval_texts(values, start, stop)
    if kind is known.periods and type(values._dtype._freq) in kinds().offsets:
        part = _part(values, start, stop, row)
        return [["NaT"] if item is kinds().pandas.NaT else str(item) for item in part]
    return [[f"<{type_name(kind)}>"]] * (stop - start)


def _part(values, start, stop, row):
    return values[start:stop] if values.ndim == 1 else values[row, start:stop]


def _interval_texts(values, start, stop):
    left, right = texts(values._left, start, stop), texts(values._right, start, stop)
    closed = values._dtype._closed
    begin, end = "[" if closed in ("left", "both") else "(", "]" if closed in ("right", "both") else ")"
    pairs = zip(left, right, strict=True)
    return [f"{begin}{a}, {b}{end}" if type(a) is type(b) is str else ["NaN"] for a, b in pairs]


def array_texts(part):
    """A part of an array with one dimension."""
    kind = part.dtype.kind
    if kind in "iub":
        return list(map(str, part.tolist()))
    if kind == "f":
        if part.dtype.itemsize == 8:
            return [number(item) if item == item else ["NaN"] for item in part.tolist()]
        return [str(item) if item == item else ["NaN"] for item in part]
    if kind in "cUSOV":
        return [cell(item) for item in part.tolist()]
    if kind == "M":
        found = kinds().numpy.datetime_as_string(part).tolist()
        return [["NaT"] if text == "NaT" else _moment(text) for text in found]
    if kind == "m":
        return _timedelta_texts(part)
    return [[f"<{type_name(type(part.dtype))}>"]] * len(part)  # one that somebody defined


def _moment(text):
    """2020-01-01T12:30:00.000000 with a space, and without a fraction that is none."""
    text = text.replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _timedelta_texts(part):
    known, unit = pandas_kinds(), kinds().numpy.datetime_data(part.dtype)[0]
    exact = known and unit in ("s", "ms", "us", "ns")
    found = [known.timedelta(item) if exact else item for item in part]
    return [["NaT"] if str(item) == "NaT" else str(item) for item in found]


def dtype(values):
    """What a column holds, in a word or two."""
    known, kind = pandas_kinds(), type(values)
    if kind is kinds().ndarray:
        return cut(str(values.dtype), 60)
    if known is not None and kind in known.masked:
        return values.dtype.name
    if known is not None and kind in (*known.plain, known.datetimes):
        told = type(values._dtype) is not known.zoned or type(values._dtype.tz) in ZONES
        return cut(str(values._dtype), 60) if told else "datetime64"
    return _DTYPES.get(type_name(kind), type_name(kind))


_DTYPES = {"Categorical": "category", "PeriodArray": "period", "IntervalArray": "interval"}


def nbytes(values):
    """What an array takes, without the objects that it refers to."""
    found = backing(values)
    return 0 if found is None else found.nbytes


def backing(values):
    """The array of numpy's that holds a column, or most of it; None: it is something else."""
    known, kind = pandas_kinds(), type(values)
    if kind in known.masked:
        values = values._data
    elif kind in known.backed:
        values = values._ndarray
    return values if type(values) is kinds().ndarray else None
