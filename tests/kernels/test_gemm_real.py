"""Matrix products: every element is the sum of its products in the order of k, to the last bit."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.floats import SPECIAL, bits, fit
from tests.kernels.standalone import Standalone

_BEYOND = 3  # numbers after the result, which must stay


def _packed(matrix: list[list[float]]) -> list[float]:
    """As OpenBLAS packs it: panels of two rows, column by column; an odd row at the end alone."""
    panels = [matrix[i : i + 2] for i in range(0, len(matrix), 2)]
    return [value for panel in panels for column in zip(*panel, strict=True) for value in column]


def _check(kernels: Standalone, kind: str, m: int, n: int, k: int, alpha: float, numbers: Callable[[], float]) -> None:
    alpha = fit(kind, alpha)
    a = [[fit(kind, numbers()) for _ in range(k)] for _ in range(m)]
    b = [[fit(kind, numbers()) for _ in range(k)] for _ in range(n)]  # transposed
    leading = m + 2
    c = array(kind, [fit(kind, numbers()) for _ in range(leading * n + _BEYOND)])
    want = array(kind, c)
    for i in range(m):
        for j in range(n):
            total = 0.0
            for x, y in zip(a[i], b[j], strict=True):
                total = fit(kind, total + fit(kind, x * y))
            want[i + j * leading] = fit(kind, want[i + j * leading] + fit(kind, alpha * total))
    kernels.clear()
    at_a, at_b = kernels.put(array(kind, _packed(a))), kernels.put(array(kind, _packed(b)), offset=8)
    at_c = kernels.put(c, offset=c.itemsize)
    kernels.call({"d": "dgemm_kernel", "f": "sgemm_kernel"}[kind], m, n, k, alpha, at_a, at_b, at_c, leading)
    assert bits(kind, kernels.get(kind, at_c, len(c))) == bits(kind, want)


@pytest.fixture(scope="module")
def kernels() -> Standalone:
    return Standalone()


@given(
    kind=st.sampled_from("df"),
    m=st.integers(1, 21),
    n=st.integers(1, 9),
    k=st.integers(0, 37),
    alpha=st.sampled_from([1.0, -1.0, 0.5, 3.0]),
    random=st.randoms(use_true_random=True),
)
def test_products_are_summed_in_order(
    kernels: Standalone, kind: str, m: int, n: int, k: int, alpha: float, random
) -> None:
    _check(kernels, kind, m, n, k, alpha, lambda: random.gauss(0, 1))


@given(
    kind=st.sampled_from("df"),
    m=st.integers(1, 9),
    n=st.integers(1, 5),
    k=st.integers(1, 9),
    random=st.randoms(use_true_random=True),
)
def test_infinities_nan_zeros_and_subnormals(kernels: Standalone, kind: str, m: int, n: int, k: int, random) -> None:
    _check(kernels, kind, m, n, k, 1.0, lambda: random.choice(SPECIAL))
