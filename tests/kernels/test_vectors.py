"""Vectors, and matrices with vectors: what is not a sum has the bits of the definition, and sums are within their bound."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.floats import EPSILON, SPECIAL, TINIEST, bits, fit
from tests.kernels.standalone import Standalone

_TYPE = {"d": "d", "f": "s"}  # how array and BLAS call it
_steps = st.sampled_from([1, 1, 1, 2, 3, -1, -2])


@pytest.fixture(scope="module")
def kernels() -> Standalone:
    return Standalone()


class _Vector:
    """A vector with a step in the memory of the kernels."""

    def __init__(self, kernels: Standalone, kind: str, values: list[float], step: int, offset: int = 0) -> None:
        self._kernels, self._kind, self.step = kernels, kind, step
        self.count = len(values)
        self._all = array(kind, [math.pi] * (abs(step) * max(self.count, 1) + 4))
        self._first = 2 if step > 0 else 2 + (self.count - 1) * -step
        for i, value in enumerate(values):
            self._all[self._first + i * step] = value
        self._start = kernels.put(self._all, offset=offset)
        self.address = self._start + self._first * self._all.itemsize

    def expect(self, values: list[float]) -> list[bytes]:
        """The bits of its memory if these are its values."""
        whole = array(self._kind, self._all)
        for i, value in enumerate(values):
            whole[self._first + i * self.step] = value
        return bits(self._kind, whole)

    def found(self) -> list[bytes]:
        return bits(self._kind, self._kernels.get(self._kind, self._start, len(self._all)))

    def values(self) -> list[float]:
        whole = self._kernels.get(self._kind, self._start, len(self._all))
        return [whole[self._first + i * self.step] for i in range(self.count)]


def _close(kind: str, found: float, terms: list[float], *, more: int = 0) -> bool:
    """Whether a sum of rounded products is within its bound: n * epsilon * sum of their sizes, and what underflowed."""
    if not all(map(math.isfinite, terms)):
        return True  # the other test is about these
    count = len(terms) + 2 + more
    return abs(found - math.fsum(terms)) <= count * (EPSILON[kind] * math.fsum(map(abs, terms)) + TINIEST[kind])


def _numbers(kind: str, random: Any, count: int, special: bool) -> list[float]:
    draw: Callable[[], float] = (lambda: random.choice(SPECIAL)) if special else (lambda: random.gauss(0, 1))
    return [fit(kind, draw()) for _ in range(count)]


@given(
    kind=st.sampled_from("df"), n=st.integers(0, 90), x_step=_steps, y_step=_steps, special=st.booleans(),
    random=st.randoms(use_true_random=True),
)  # fmt: skip
def test_axpy_copy_and_rot(kernels, kind: str, n: int, x_step: int, y_step: int, special: bool, random) -> None:
    kernels.clear()
    one, two = _numbers(kind, random, n, special), _numbers(kind, random, n, special)
    x, y = _Vector(kernels, kind, one, x_step, offset=4), _Vector(kernels, kind, two, y_step)
    a, s = fit(kind, random.choice([0.5, -3.0, 1e-3])), fit(kind, 0.6)

    def r(value: float) -> float:
        return fit(kind, value)

    want = [r(q + r(a * p)) for p, q in zip(one, two, strict=True)]
    kernels.call(f"{_TYPE[kind]}axpy_k", n, 0, 0, a, x.address, x_step, y.address, y_step, 0, 0)
    assert y.found() == y.expect(want) and x.found() == x.expect(one)
    kernels.call(f"{_TYPE[kind]}rot_k", n, x.address, x_step, y.address, y_step, a, s)
    assert x.found() == x.expect([r(r(a * p) + r(s * q)) for p, q in zip(one, want, strict=True)])
    assert y.found() == y.expect([r(r(a * q) - r(s * p)) for p, q in zip(one, want, strict=True)])
    kernels.call(f"{_TYPE[kind]}copy_k", n, x.address, x_step, y.address, y_step)
    assert bits(kind, array(kind, y.values())) == bits(kind, array(kind, x.values()))


def test_axpy_with_nothing_changes_nothing(kernels) -> None:
    kernels.clear()
    x, y = _Vector(kernels, "d", [math.nan, math.inf, 1.0], 1), _Vector(kernels, "d", [1.0, 2.0, -0.0], 1)
    kernels.call("daxpy_k", 3, 0, 0, 0.0, x.address, 1, y.address, 1, 0, 0)
    assert y.found() == y.expect([1.0, 2.0, -0.0])


@given(
    kind=st.sampled_from("df"), n=st.integers(0, 2500), x_step=_steps, y_step=_steps,
    random=st.randoms(use_true_random=True),
)  # fmt: skip
def test_dot(kernels, kind: str, n: int, x_step: int, y_step: int, random) -> None:
    kernels.clear()
    one, two = _numbers(kind, random, n, False), _numbers(kind, random, n, False)
    x, y = _Vector(kernels, kind, one, x_step, offset=4), _Vector(kernels, kind, two, y_step)
    found = kernels.call(f"{_TYPE[kind]}dot_k", n, x.address, x_step, y.address, y_step)
    assert _close(kind, found, [p * q for p, q in zip(one, two, strict=True)])


@given(
    kind=st.sampled_from("df"), m=st.integers(0, 40), n=st.integers(0, 11), x_step=_steps, y_step=_steps,
    special=st.booleans(), random=st.randoms(use_true_random=True),
)  # fmt: skip
def test_gemv(kernels, kind: str, m: int, n: int, x_step: int, y_step: int, special: bool, random) -> None:
    leading, alpha = m + 3, fit(kind, random.choice([1.0, -1.0, 0.3]))
    a = [_numbers(kind, random, m, special) for _ in range(n)]
    flat = array(kind, [value for column in a for value in [*column, 9.0, 9.0, 9.0]])

    kernels.clear()
    at = kernels.put(flat, offset=4)
    rows, columns = _numbers(kind, random, m, special), _numbers(kind, random, n, special)
    x, y = _Vector(kernels, kind, columns, x_step), _Vector(kernels, kind, rows, y_step)
    arguments = (m, n, 0, alpha, at, leading, x.address, x_step, y.address, y_step, 0)
    kernels.call(f"{_TYPE[kind]}gemv_n", *arguments)
    want = list(rows)
    for column, factor in zip(a, columns, strict=True):
        scaled = fit(kind, alpha * factor)
        want = [fit(kind, w + fit(kind, scaled * c)) for w, c in zip(want, column, strict=True)]
    assert y.found() == y.expect(want)

    kernels.clear()
    at = kernels.put(flat, offset=4)
    x, y = _Vector(kernels, kind, rows, x_step), _Vector(kernels, kind, columns, y_step)
    kernels.call(f"{_TYPE[kind]}gemv_t", m, n, 0, alpha, at, leading, x.address, x_step, y.address, y_step, 0)
    assert y.found()[:2] == y.expect(columns)[:2] and y.found()[-2:] == y.expect(columns)[-2:]
    for found, before, column in zip(y.values(), columns, a, strict=True):
        terms = [before, *(alpha * (c * r) for c, r in zip(column, rows, strict=True))]
        if math.isnan(sum(terms)):
            assert math.isnan(found)
        assert _close(kind, found, terms, more=2)


@pytest.mark.parametrize(
    "values", [[3e200] * 20, [3e-200] * 20, [0.0] * 20, [math.inf] * 20, [math.nan] * 20, [1.0] * 7]
)
def test_a_norm_that_squares_could_spoil_is_the_original_s(kernels, values: list[float]) -> None:
    kernels.clear()
    before = kernels.count("originals")
    x = _Vector(kernels, "d", values, 1)
    kernels.call("dnrm2_k", len(values), x.address, 1)
    assert kernels.count("originals") == before + 1


@given(n=st.integers(8, 200), random=st.randoms(use_true_random=True))
def test_norm(kernels, n: int, random) -> None:
    kernels.clear()
    values = _numbers("d", random, n, False)
    x = _Vector(kernels, "d", values, 1)
    assert math.isclose(kernels.call("dnrm2_k", n, x.address, 1), math.hypot(*values), rel_tol=n * 2.0**-53)
