"""Sorts and argsorts of numbers: of every length, with every kind of number, with and without memory for it."""

from __future__ import annotations

import math
import struct
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.floats import SPECIAL
from tests.kernels.standalone import Standalone

_KINDS = {
    "f64": "d", "f32": "f", "i64": "q", "u64": "Q", "i32": "i", "u32": "I", "i16": "h", "u16": "H", "i8": "b", "u8": "B",
}  # fmt: skip
_WIDE = ["f64", "f32", "i64", "u64", "i32", "u32"]
_LENGTHS = [0, 1, 2, 3, 15, 16, 17, 18, 40, 127, 128, 129, 300, 1023, 1024, 1025, 3000]
_SHAPES = ["random", "special", "few", "ascending", "descending", "upper bits", "equal", "nearly equal"]


@pytest.fixture(scope="module")
def kernels() -> Standalone:
    return Standalone()


def _numbers(name: str, shape: str, n: int, random: Any) -> array[Any]:
    kind = _KINDS[name]
    size = 8 * array(kind).itemsize
    least = 0 if name[0] == "u" else -(1 << (size - 1))

    def draw() -> float:
        if name[0] == "f":
            return random.gauss(0, 1)
        return random.randrange(least, least + (1 << size))

    if shape == "special" and name[0] == "f":
        sample = [v for v in SPECIAL if name == "f64" or not 4e38 > abs(v) > 3.5e38 and abs(v) < 1e300 or math.isinf(v)]
        return array(kind, [random.choice([*sample, draw()]) for _ in range(n)])
    if shape == "special":
        return array(kind, [random.choice([least, 0, 1, least + (1 << size) - 1]) for _ in range(n)])
    if shape == "few":
        return array(kind, [random.randrange(4) for _ in range(n)])
    if shape == "equal":
        return array(kind, [draw()] * n)
    if shape == "upper bits":  # what differs are a few bits at the top
        if name[0] == "f":
            return array(kind, [float(random.choice([1, -1]) * 2 ** random.randrange(-100, 100)) for _ in range(n)])
        return array(kind, [least + (random.randrange(16) << (size - 4)) for _ in range(n)])
    if shape == "nearly equal":  # what differs are a few bits at the top, and all at the bottom
        if name[0] == "f":
            return array(kind, [random.choice([-1, 1]) * (1 + random.randrange(200) * 2.0**-23) for _ in range(n)])
        return array(kind, [least + (random.randrange(2) << (size - 1)) + random.randrange(100) for _ in range(n)])
    values = [draw() for _ in range(n)]
    if shape != "random":
        values.sort(reverse=shape == "descending")
    return array(kind, values)


def _order(value: float) -> tuple[bool, float]:
    """How numpy orders numbers: NaNs are last, and all the same."""
    return (True, 0.0) if value != value else (False, value)


def _check_sort(kernels: Standalone, name: str, values: array[Any], memory: bool) -> None:
    kernels.clear()
    at = kernels.put(values)
    guard = kernels.put(array("B", [7] * 64))
    kernels.allow_malloc(memory)
    freed = kernels.count("freed")
    kernels.call(f"sort_{name}", at, len(values))
    found = kernels.get(_KINDS[name], at, len(values))
    assert [_order(v) for v in found] == sorted(_order(v) for v in values)
    packed = sorted(struct.pack(_KINDS[name], v) for v in found)
    assert packed == sorted(struct.pack(_KINDS[name], v) for v in values), "the same numbers, -0 and NaNs included"
    assert kernels.get("B", guard, 64) == array("B", [7] * 64)
    assert memory or kernels.count("freed") == freed


@pytest.mark.parametrize("name", _KINDS)
@given(
    shape=st.sampled_from(_SHAPES),
    n=st.sampled_from(_LENGTHS),
    memory=st.booleans(),
    random=st.randoms(use_true_random=True),
)
def test_sort(kernels: Standalone, name: str, shape: str, n: int, memory: bool, random: Any) -> None:
    _check_sort(kernels, name, _numbers(name, shape, n, random), memory)


def test_what_memory_was_taken_is_given_back(kernels: Standalone) -> None:
    kernels.clear()
    at = kernels.put(array("d", [float(-i) for i in range(2000)]))
    kernels.allow_malloc()
    before = kernels.count("freed")
    kernels.call("sort_f64", at, 2000)
    assert kernels.count("freed") == before + 1


def test_an_array_that_defeats_the_pivots_takes_no_more_than_n_log_n(kernels: Standalone) -> None:
    """Organ pipes, and halves that are equal: 300,000 numbers in place would take minutes if it were quadratic."""
    half = list(range(150_000))
    for values in (half + half[::-1], [i % 2 for i in half], [0] * 150_000 + half):
        _check_sort(kernels, "i64", array("q", values), memory=False)


@pytest.mark.parametrize("name", _WIDE)
@pytest.mark.parametrize("stable", [False, True])
@given(shape=st.sampled_from(_SHAPES), n=st.sampled_from(_LENGTHS[-4:]), random=st.randoms(use_true_random=True))
def test_argsort(kernels: Standalone, name: str, stable: bool, shape: str, n: int, random: Any) -> None:
    values = _numbers(name, shape, n, random)
    places = list(range(n))
    if not stable and random.random() < 0.3:
        random.shuffle(places)
    kernels.clear()
    at, order = kernels.put(values), kernels.put(array("i", places))
    kernels.allow_malloc()
    originals = kernels.count("originals")
    kernels.call(f"{'stable_' if stable else ''}argsort_{name}", at, order, n)
    found = list(kernels.get("i", order, n))
    if kernels.count("originals") > originals:
        assert n < 1024 and found == places
    elif places == sorted(places):
        assert found == sorted(places, key=lambda i: _order(values[i]))
    else:
        assert sorted(found) == sorted(places)
        assert [_order(values[i]) for i in found] == sorted(_order(v) for v in values)
    assert kernels.get(_KINDS[name], at, n).tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ["argsort_f64", "stable_argsort_i32"])
def test_argsort_without_memory_or_with_foreign_places_is_the_original_s(kernels: Standalone, name: str) -> None:
    values = array(_KINDS[name[-3:]], range(2000, 0, -1))
    for memory, places in ((False, range(2000)), (True, range(1, 4001, 2))):
        kernels.clear()
        at, order = kernels.put(values), kernels.put(array("i", places))
        kernels.put(values)  # what foreign places mean
        kernels.allow_malloc(memory)
        before = kernels.count("originals")
        kernels.call(name, at, order, 2000)
        assert kernels.count("originals") == before + 1
        assert list(kernels.get("i", order, 2000)) == list(places)


def test_a_stable_argsort_of_places_out_of_order_is_the_original_s(kernels: Standalone) -> None:
    kernels.clear()
    at, order = kernels.put(array("d", [1.0] * 2000)), kernels.put(array("i", range(1999, -1, -1)))
    kernels.allow_malloc()
    before = kernels.count("originals")
    kernels.call("stable_argsort_f64", at, order, 2000)
    assert kernels.count("originals") == before + 1
