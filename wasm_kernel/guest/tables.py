"""Arrays, frames and lists as tables of texts, a part at a time. By exact types, as `short_forms` has it.

A frame is read through its blocks: its own methods would also call what others put there, such as an extension array's
`__getitem__`, or the `__deepcopy__` of something in `attrs`.
"""

from itertools import islice

from . import columns
from .columns import pandas_kinds, plain, texts
from .short_forms import array, cell, cut, joined, kinds, short

_MOST_RECORDS = 100  # records that are looked at for their keys
_MOST_KEYS = 1000


def table(value, at=()):
    """A value as a table, if it is one; else None. ``at``: where to cut an array of more than two dimensions."""
    kind, known, found = type(value), pandas_kinds(), array(value)
    if found is not None:
        return _Array(found, at)
    if kind in kinds().frames:
        manager = _manager(value)
        if manager is not None:
            return _Frame(manager) if kind is known.frame else _Series(manager, value)
    if known and columns.is_index(value):
        return _Labels(value)
    if kind in (list, tuple):
        return _Sequence(value)
    return None


def _manager(value):
    """What holds a frame's blocks; None: it is none that pandas made."""
    manager = object.__getattribute__(value, "_mgr")
    if type(manager) not in pandas_kinds().managers or type(manager.axes) is not list:
        return None
    return manager if all(map(columns.is_index, manager.axes)) else None


def dimensions(value):
    """The shape of an array, a frame or a series."""
    found = array(value)
    if found is not None:
        return found.shape
    manager = _manager(value)
    return () if manager is None else tuple(map(columns.length, reversed(manager.axes)))


class _Table:
    """Rows, each with a label, and columns, each with a name and a type."""

    at = ()  # where an array of more than two dimensions is cut
    levels = ("",)  # names of what labels the rows
    bytes = 0  # what it takes, without objects that it refers to

    def labels(self, start, stop):
        """The labels of some rows, a list for each level."""
        return [[str(i) for i in range(start, stop)]]

    def shape(self):
        """Its dimensions, as people know them."""
        return (self.rows, self.columns)

    def column(self, number, start, stop):
        """The name of a column, its type, and the texts of some rows."""
        raise NotImplementedError

    def first(self, longest):
        """The first values, in one line."""
        if len(self.shape()) == 1:
            some = self.column(0, 0, min(self.rows, 20))[2]
            return f"[{joined(map(plain, some), self.rows, longest - 2)}]"
        parts = []
        for column in range(min(self.columns, 8)):
            name, _, some = self.column(column, 0, min(self.rows, 3))
            parts.append(f"{name}: {joined(map(plain, some), self.rows, 30)}")
        return cut("; ".join(parts) + ("; …" if self.columns > 8 else ""), longest)


class _Array(_Table):
    def __init__(self, whole, at):
        self._array, self.bytes = whole, whole.nbytes
        if whole.ndim > 2:
            at = [*at, *[0] * whole.ndim][: whole.ndim - 2]
            self.at = [min(max(0, i), max(0, most - 1)) for i, most in zip(at, whole.shape, strict=False)]
            part = whole[tuple(self.at)] if 0 not in whole.shape else whole.reshape(0, 0)
        else:
            self.at, part = [], whole.reshape(1) if whole.ndim == 0 else whole
        self._part = part
        self.rows, self.columns = part.shape[0], part.shape[1] if part.ndim == 2 else 1

    def shape(self):
        return self._array.shape

    def column(self, number, start, stop):
        part = self._part if self._part.ndim == 1 else self._part[:, number]
        return "" if self._part.ndim == 1 else str(number), columns.dtype(self._part), texts(part, start, stop)

    def first(self, longest):
        some = columns.array_texts(self._array.flat[:20])
        return f"[{joined(map(plain, some), self._array.size, longest - 2)}]"


class _Series(_Table):
    columns = 1

    def __init__(self, manager, series):
        self._values, self._index = manager.blocks[0].values, manager.axes[0]
        self.rows, self.levels = columns.length(self._index), columns.level_names(self._index)
        self._name = object.__getattribute__(series, "_name")
        self.bytes = columns.nbytes(self._values)

    def shape(self):
        return (self.rows,)

    def labels(self, start, stop):
        return columns.labels(self._index, start, stop)

    def column(self, number, start, stop):
        name = "" if self._name is None else plain(cell(self._name))
        return name, columns.dtype(self._values), texts(self._values, start, stop)


class _Frame(_Table):
    def __init__(self, manager):
        self._manager = manager
        self._names, self._index = manager.axes
        self.rows, self.columns = columns.length(self._index), columns.length(self._names)
        self.levels = columns.level_names(self._index)
        self.bytes = sum(columns.nbytes(block.values) for block in manager.blocks)

    def labels(self, start, stop):
        return columns.labels(self._index, start, stop)

    def column(self, number, start, stop):
        manager = self._manager
        values, row = manager.blocks[manager.blknos[number]].values, int(manager.blklocs[number])
        name = " · ".join(plain(level[0]) for level in columns.labels(self._names, number, number + 1))
        return cut(name), columns.dtype(values), texts(values, start, stop, row)


class _Labels(_Table):
    """An index of its own."""

    def __init__(self, index):
        self._index, self.rows = index, columns.length(index)
        self._several = type(index) is pandas_kinds().multi
        self.columns = len(index._levels) if self._several else 1

    def shape(self):
        return (self.rows,)

    def column(self, number, start, stop):
        found = columns.labels(self._index, start, stop)[number]
        if self._several:
            return columns.level_names(self._index)[number], "", found
        kind = "int64" if type(self._index) is pandas_kinds().range else columns.dtype(self._index._data)
        return columns.level_names(self._index)[0], kind, found


class _Sequence(_Table):
    """A list or a tuple: of records, of rows, or of anything."""

    def __init__(self, items):
        self._items, self.rows, self._keys, self._nested = items, len(items), [], False
        some = items[:_MOST_RECORDS]
        if some and all(type(item) is dict for item in some):
            self._keys = list({key: None for item in some for key in _record(item)})[:_MOST_KEYS]
        elif some and all(type(item) in (list, tuple) for item in some):
            self._nested = True
        self.columns = len(self._keys) or (max(map(len, some)) if self._nested else 1)

    def shape(self):
        return (self.rows,)

    def column(self, number, start, stop):
        items = self._items[start:stop]
        if self._keys:
            key = self._keys[number]
            found = [_record(item) if type(item) is dict else {} for item in items]
            return cut(key), "", [cell(record[key]) if key in record else [""] for record in found]
        if self._nested:
            rows = [item if type(item) in (list, tuple) else () for item in items]
            return str(number), "", [cell(row[number]) if number < len(row) else [""] for row in rows]
        return "", "", [cell(item) for item in items]

    def first(self, longest):
        return short(self._items, longest)


def _record(item):
    """What a dict has under names: looking one up would compare it with whatever else is there."""
    return {key: value for key, value in islice(item.items(), _MOST_KEYS) if type(key) is str}


def samples(value, most):
    """The names of a frame's first columns; then, as arrays, about ``most`` items of each. Also of a series."""
    manager = _manager(value)
    if manager is None:
        return
    if len(manager.axes) == 2:
        yield columns.labels(manager.axes[0], 0, min(50, columns.length(manager.axes[0])))
    for block in manager.blocks[:50]:
        found = columns.backing(block.values)
        if found is not None:
            step = max(1, found.shape[-1] // most)
            yield found[::step] if found.ndim == 1 else found[:50, ::step]
