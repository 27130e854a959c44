"""Values as short texts: the usual ones, and objects that would do something if they were asked."""

from __future__ import annotations

import datetime
import tracemalloc
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import pytest

from wasm_kernel.guest.short_forms import cell, length, short, size, type_name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1 << 5000, "<int of 5001 bits>"),
        (0.1 + 0.2, "0.30000000000000004"),
        (None, "None"),
        ("it's", '"it\'s"'),
        ([1, "a", None], "[1, 'a', None]"),
        ((1,), "(1,)"),
        ((), "()"),
        (set(), "set()"),
        ({"a": [1, {"b": (2, [3])}]}, "{'a': [1, {'b': […]}]}".replace("[…]", "(…)")),
        (range(5), "range(0, 5)"),
        (Counter("aab"), "{'a': 2, 'b': 1}"),
        (defaultdict(list, a=[1]), "{'a': [1]}"),
        (Fraction(1, 3), "1/3"),
        (PurePosixPath("a/b"), "a/b"),
        (datetime.date(2026, 11, 18), "2026-11-18"),
        (object(), "<object>"),
        (lambda a, *b: 0, "<lambda>(a, …)"),
    ],
)
def test_usual_values(value: object, text: str) -> None:
    assert short(value) == text


def test_only_the_beginning_is_looked_at() -> None:
    assert short("x" * 1000, 20) == "'" + "x" * 18 + "…"
    assert short(list(range(1000)), 20) == "[0, 1, 2, 3, 4, …]"
    much = ["x" * 3_000_000] * 300 + [{"k" * 3_000_000: bytes(3_000_000)}] * 300
    tracemalloc.start()
    try:
        short(much)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        (7, "7"),
        (True, "True"),
        (0.1 + 0.2, "0.3"),
        (1 / 3, "0.333333333333"),
        (123456789012345.6, "123456789012345.6"),
        (1e300 / 3, "3.33333333333e+299"),
        (float("nan"), ["NaN"]),
        (None, ["None"]),
        (object(), ["<object>"]),
        ([1, 2], "[1, 2]"),
    ],
)
def test_cells(value: object, shown: object) -> None:
    assert cell(value) == shown


class Ran(BaseException):
    """Code of the user's ran."""


def ran(*_: object, **__: object) -> Any:
    raise Ran


# Everything by which an object can be asked something.
HOSTILE = dict.fromkeys(
    "__repr__ __str__ __len__ __iter__ __getitem__ __format__ __hash__ __eq__ __lt__ __bool__ __getattribute__ "
    "__sizeof__ __int__ __float__ __index__ __array__ __reduce__ __dir__ __call__ items keys values".split(),
    ran,
)


class Meta(type):
    __name__ = property(ran)  # type: ignore[assignment]
    __module__ = property(ran)  # type: ignore[assignment]
    __repr__ = __instancecheck__ = __subclasscheck__ = ran


KINDS = [int, float, str, bytes, list, tuple, dict, set, frozenset, object, datetime.date, Counter]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_code_of_a_subclass_runs(kind: Any) -> None:
    """Neither its own methods nor those of its metaclass; alone, in a list, and as a value in a dict."""
    hostile = Meta(kind.__name__, (kind,), {**HOSTILE, "__module__": "builtins"})
    value = kind.__new__(hostile, *((2026, 1, 1) if kind is datetime.date else ()))
    assert short(value) == f"<{kind.__name__}>"
    assert cell(value) == [f"<{kind.__name__}>"]
    assert (size(value), length(value)) == (0, None)
    assert short([value, {1: value}]) == f"[<{kind.__name__}>, {{1: <{kind.__name__}>}}]"


def test_a_time_zone_of_somebodys_is_not_asked() -> None:
    class Zone(datetime.tzinfo):
        utcoffset = tzname = dst = __repr__ = ran

    moment = datetime.datetime(2026, 1, 1, tzinfo=Zone())
    assert short(moment) == "<datetime>"
    assert short(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)) == "2026-01-01 00:00:00+00:00"


def test_names_of_classes() -> None:
    assert type_name(Meta("Odd" * 100, (), {})) == ("Odd" * 100)[:80]
