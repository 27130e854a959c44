"""Complex matrix products, with either factor conjugated: real and imaginary parts are within the bound of their sums."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.floats import EPSILON, fit
from tests.kernels.standalone import Standalone


@pytest.fixture(scope="module")
def kernels() -> Standalone:
    return Standalone()


def _packed(matrix: list[list[complex]]) -> list[float]:
    """As OpenBLAS packs it: panels of two rows, column by column; an odd row at the end alone."""
    panels = [matrix[i : i + 2] for i in range(0, len(matrix), 2)]
    values = [value for panel in panels for column in zip(*panel, strict=True) for value in column]
    return [part for value in values for part in (value.real, value.imag)]


@given(
    kind=st.sampled_from("df"),
    conjugated=st.sampled_from("nlrb"),
    m=st.integers(1, 9),
    n=st.integers(1, 5),
    k=st.integers(0, 35),
    random=st.randoms(use_true_random=True),
)
def test_products(kernels: Standalone, kind: str, conjugated: str, m: int, n: int, k: int, random: Any) -> None:
    def draw() -> complex:
        return complex(fit(kind, random.gauss(0, 1)), fit(kind, random.gauss(0, 1)))

    a, b = [[draw() for _ in range(k)] for _ in range(m)], [[draw() for _ in range(k)] for _ in range(n)]
    alpha, leading = draw(), m + 1
    before = [draw() for _ in range(leading * n + 1)]
    kernels.clear()
    at_a, at_b = kernels.put(array(kind, _packed(a)), offset=4), kernels.put(array(kind, _packed(b)))
    c = array(kind, [part for value in before for part in (value.real, value.imag)])
    at_c = kernels.put(c, offset=8)
    name = f"{'z' if kind == 'd' else 'c'}gemm_kernel_{conjugated}"
    kernels.call(name, m, n, k, alpha.real, alpha.imag, at_a, at_b, at_c, leading)
    parts = kernels.get(kind, at_c, len(c))
    found = [complex(*parts[2 * i : 2 * i + 2]) for i in range(len(before))]
    for i, value in enumerate(found):
        row, column = i % leading, i // leading
        if row >= m or column >= n:
            assert value == before[i], "nothing beside the result is written"
            continue
        x = [v.conjugate() if conjugated in "lb" else v for v in a[row]]
        y = [v.conjugate() if conjugated in "rb" else v for v in b[column]]
        terms = [before[i], *(alpha * p * q for p, q in zip(x, y, strict=True))]
        bound = (2 * k + 8) * EPSILON[kind] * sum(2 * abs(term) for term in terms)
        assert abs(value.real - math.fsum(t.real for t in terms)) <= bound
        assert abs(value.imag - math.fsum(t.imag for t in terms)) <= bound
