"""Values as short texts, by their exact types: no code of the user's runs, whatever a class of theirs defines.

A subclass may do anything in `__repr__`, `__len__` or a property, so only what is exactly of a known type is asked;
anything else is shown as `<its type>`. No more than the beginning of a value is looked at.
"""

import datetime
import decimal
import fractions
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import islice

from . import shelf

LONGEST = 200  # characters of one text
_NESTED = 40  # of one in a container
_MOST_ITEMS = 20
_DEEPEST = 3
_LARGE = 2000  # bits of an integer: writing it in digits takes time that grows with their square

_PLAIN = (bool, int, float, complex, type(None), type(...), type(NotImplemented))
_TEXTS = (str, bytes, bytearray)
_SEQUENCES = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", deque: "[]"}
_DICTS = (dict, defaultdict, OrderedDict, Counter)
ZONES = (type(None), datetime.timezone, zoneinfo.ZoneInfo)
_TIMED = (datetime.datetime, datetime.time)
# Their str() is C's or the standard library's, and asks nobody else.
_TOLD = (
    datetime.date,
    datetime.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    range,
    pathlib.PosixPath,
    pathlib.PurePosixPath,
    pathlib.WindowsPath,
    pathlib.PureWindowsPath,
)
_NAMES = type.__dict__["__name__"]  # a metaclass may have a property of that name

_kinds = None


class _Kinds:
    """The types of numpy and pandas. Found once, when the image is built: nothing that is put in their place counts."""

    def __init__(self):
        numpy, pandas = shelf.find("numpy"), shelf.find("pandas")
        self.numpy, self.pandas = numpy, pandas
        self.ndarray = numpy.ndarray if numpy else None
        self.views = (numpy.matrix, numpy.recarray) if numpy else ()  # arrays with other methods
        self.scalars = frozenset(numpy.sctypeDict.values()) - {numpy.void, numpy.object_} if numpy else frozenset()
        self.missing, self.timestamps, self.pandas_scalars, self.frames = (), (), (), ()
        self.offsets = frozenset()
        if pandas:
            self.missing, self.frames = (pandas.NA, pandas.NaT), (pandas.DataFrame, pandas.Series)
            self.timestamps, self.pandas_scalars = (pandas.Timestamp,), (pandas.Timedelta,)
            module = shelf.find("pandas._libs.tslibs.offsets")
            self.offsets = frozenset(kind for kind in vars(module).values() if type(kind) is type)


def kinds():
    """The types of numpy and pandas."""
    global _kinds
    if _kinds is None:
        _kinds = _Kinds()
    return _kinds


def array(value):
    """A value as an array of no other class, if it is one; else None."""
    known = kinds()
    if type(value) is known.ndarray:
        return value
    return known.ndarray.view(value, known.ndarray) if type(value) in known.views else None


def type_name(kind):
    """A class's name, without asking its metaclass."""
    name = _NAMES.__get__(kind)
    return name[:80] if type(name) is str else "?"


def cell(value):
    """A value in a table: a text, or a list with one if it stands for something else, such as no value."""
    kind = type(value)
    if kind is str:
        return value[:LONGEST]
    if kind is float:
        return number(value) if value == value else ["NaN"]
    if kind is int and -(1 << 63) <= value < 1 << 63 or kind is bool:
        return repr(value)
    if value is None or any(value is missing for missing in kinds().missing):
        return [str(value)]
    text = short(value)
    return [text] if text[:1] == "<" and text[-1:] == ">" else text


def number(value):
    """A float without the digits that are only there because it is binary."""
    text = repr(value)
    if len(text) > 14:
        shorter = f"{value:.12g}"
        if "e" in text or "e" not in shorter:
            return shorter
    return text


def short(value, longest=LONGEST, depth=0):
    """A value as Python writes it, or the beginning of that; `<its type>` if nothing may be asked of it."""
    kind = type(value)
    if kind in _PLAIN:
        if kind is int and value.bit_length() > _LARGE:
            return f"<int of {value.bit_length()} bits>"
        return cut(repr(value), longest)
    if kind in _TEXTS:
        text = repr(value[:longest])
        return cut(text, longest) if len(value) <= longest else f"{text[: longest - 1]}…"
    if kind in _SEQUENCES:
        return _sequence(value, _SEQUENCES[kind], longest, depth)
    if kind in _DICTS:
        return _mapping(value, longest, depth)
    text = _scalar(value, kind)
    return cut(text, longest) if text is not None else f"<{type_name(kind)}>"


def cut(text, longest=LONGEST):
    """A text that is not too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _scalar(value, kind):
    """What is one value, of a class that is known; None: it is of another."""
    known = kinds()
    if kind in _TIMED or kind in known.timestamps:
        return str(value) if type(value.tzinfo) in ZONES else None
    if kind in _TOLD or kind in known.scalars or kind in known.pandas_scalars:
        return str(value)
    if any(value is missing for missing in known.missing):
        return str(value)
    if kind is types.FunctionType:
        return _signature(value)
    return None


def _signature(function):
    """A function's name and arguments; what is annotated, or a default, is somebody's object."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    more = ", …" if code.co_flags & 0x0C else ""  # *args, **kwargs
    return f"{code.co_name}({', '.join(code.co_varnames[:count][:10])}{more})"


def _sequence(value, brackets, longest, depth):
    if not len(value):
        return "set()" if brackets == "{}" else brackets
    if depth >= _DEEPEST:
        return f"{brackets[0]}…{brackets[1]}"
    items = (short(item, _NESTED, depth + 1) for item in islice(value, _MOST_ITEMS))
    inner = joined(items, len(value), longest - 2)
    comma = "," if brackets == "()" and len(value) == 1 else ""
    return f"{brackets[0]}{inner}{comma}{brackets[1]}"


def _mapping(value, longest, depth):
    if not dict.__len__(value):
        return "{}"
    if depth >= _DEEPEST:
        return "{…}"
    pairs = islice(dict.items(value), _MOST_ITEMS)
    items = (f"{short(key, _NESTED, depth + 1)}: {short(item, _NESTED, depth + 1)}" for key, item in pairs)
    return f"{{{joined(items, dict.__len__(value), longest - 2)}}}"


def joined(items, count, longest):
    """The first of so many items, as many as there is room for."""
    parts, room = [], longest - 1
    for item in items:
        room -= len(item) + 2
        if parts and room < 0:
            break
        parts.append(item)
    if len(parts) < count:
        parts.append("…")
    return ", ".join(parts)


def size(value):
    """How many bytes a value takes, without what it refers to; 0: that is not known."""
    kind = type(value)
    known = kind in _PLAIN or kind in _TEXTS or kind in _SEQUENCES or kind in _DICTS or kind in _TOLD
    return sys.getsizeof(value) if known else 0


def length(value):
    """How many items a value has; None: it is not one that has items."""
    kind = type(value)
    return len(value) if kind in _TEXTS or kind in _SEQUENCES or kind in _DICTS or kind is range else None
