"""Triangular systems and products for packed blocks, against their definitions; sums are within their bound."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.standalone import Standalone

_EPSILON = 2.0**-53
_sizes = {"m": st.integers(1, 11), "n": st.integers(1, 9), "before": st.integers(0, 5), "after": st.integers(0, 3)}


@pytest.fixture(scope="module")
def kernels() -> Standalone:
    return Standalone()


def _matrix(random: Any, rows: int, columns: int) -> list[list[float]]:
    return [[random.gauss(0, 0.5) for _ in range(columns)] for _ in range(rows)]


def _packed(matrix: list[list[float]]) -> array[float]:
    """As OpenBLAS packs it: panels of two rows, column by column; an odd row at the end alone."""
    panels = [matrix[i : i + 2] for i in range(0, len(matrix), 2)]
    return array("d", [value for panel in panels for column in zip(*panel, strict=True) for value in column])


def _unpacked(values: array[float], rows: int, columns: int) -> list[list[float]]:
    found = [[0.0] * columns for _ in range(rows)]
    places = [(i + r, c) for i in range(0, rows, 2) for c in range(columns) for r in range(min(2, rows - i))]
    for (r, c), value in zip(places, values, strict=True):
        found[r][c] = value
    return found


class _Block:
    """C in memory, with a row more than it needs."""

    def __init__(self, kernels: Standalone, c: list[list[float]]) -> None:
        self._kernels, self._rows, self._columns = kernels, len(c), len(c[0])
        self.leading = self._rows + 1
        self._flat = array("d", [x for column in zip(*c, strict=True) for x in (*column, 7.0)])
        self.address = kernels.put(self._flat)

    def rows(self) -> list[list[float]]:
        flat = self._kernels.get("d", self.address, len(self._flat))
        assert list(flat[self._rows :: self.leading]) == [7.0] * self._columns
        return [[flat[i + j * self.leading] for j in range(self._columns)] for i in range(self._rows)]


def _near(found: float, terms: list[float], factor: float) -> bool:
    bound = (len(terms) + 3) * _EPSILON * math.fsum(map(abs, terms)) * abs(factor)
    return abs(found - math.fsum(terms) * factor) <= bound + 1e-300


@pytest.mark.parametrize("kernel", ["LT", "LN"])
@given(**_sizes, random=st.randoms(use_true_random=True))
def test_solve_from_the_left(kernels, kernel: str, m: int, n: int, before: int, after: int, random: Any) -> None:
    """Row r of A has the inverse of its diagonal at step before + r. Steps on the far side of it are known from before."""
    k = before + m + after
    a, b, c = _matrix(random, m, k), _matrix(random, n, k), _matrix(random, m, n)  # b is transposed, as it is packed
    kernels.clear()
    at_a, at_b, block = kernels.put(_packed(a)), kernels.put(_packed(b), offset=8), _Block(kernels, c)
    kernels.call(f"dtrsm_kernel_{kernel}", m, n, k, -1.0, at_a, at_b, block.address, block.leading, before)
    found, solved = block.rows(), _unpacked(kernels.get("d", at_b, n * k), n, k)
    for r in range(m):
        steps = range(before + r) if kernel == "LT" else range(before + r + 1, k)
        for j in range(n):
            assert solved[j][before + r] == found[r][j]
            terms = [c[r][j], *(-a[r][t] * solved[j][t] for t in steps)]
            assert _near(found[r][j], terms, a[r][before + r]), (r, j)
    for j in range(n):
        assert solved[j][:before] + solved[j][before + m :] == b[j][:before] + b[j][before + m :]


@given(**_sizes, random=st.randoms(use_true_random=True))
def test_solve_from_the_right(kernels, m: int, n: int, before: int, after: int, random: Any) -> None:
    k = before + n + after
    a, b, c = _matrix(random, m, k), _matrix(random, n, k), _matrix(random, m, n)
    kernels.clear()
    at_a, at_b, block = kernels.put(_packed(a)), kernels.put(_packed(b), offset=8), _Block(kernels, c)
    kernels.call("dtrsm_kernel_RN", m, n, k, -1.0, at_a, at_b, block.address, block.leading, -before)
    found, solved = block.rows(), _unpacked(kernels.get("d", at_a, m * k), m, k)
    for r in range(m):
        for j in range(n):
            assert solved[r][before + j] == found[r][j]
            terms = [c[r][j], *(-solved[r][t] * b[j][t] for t in range(before + j))]
            assert _near(found[r][j], terms, b[j][before + j]), (r, j)
        assert solved[r][:before] + solved[r][before + n :] == a[r][:before] + a[r][before + n :]


@pytest.mark.parametrize("kernel", ["LN", "LT", "RN", "RT"])
@given(**_sizes, random=st.randoms(use_true_random=True))
def test_multiply(kernels, kernel: str, m: int, n: int, before: int, after: int, random: Any) -> None:
    """The triangle begins `before` steps in; a panel has all steps up to its own (LT, RN), or from there on (LN, RT)."""
    left = kernel[0] == "L"
    k, alpha = before + (m if left else n) + after, 0.75
    a, b, c = _matrix(random, m, k), _matrix(random, n, k), _matrix(random, m, n)
    kernels.clear()
    at_a, at_b, block = kernels.put(_packed(a)), kernels.put(_packed(b), offset=8), _Block(kernels, c)
    offset = before if left else -before
    kernels.call(f"dtrmm_kernel_{kernel}", m, n, k, alpha, at_a, at_b, block.address, block.leading, offset)
    found = block.rows()
    for r in range(m):
        for j in range(n):
            place, size = (r, m) if left else (j, n)
            panel = place // 2 * 2
            to_diagonal = range(before + panel + min(2, size - panel))
            steps = to_diagonal if kernel in ("LT", "RN") else range(before + panel, k)
            assert _near(found[r][j], [a[r][t] * b[j][t] for t in steps], alpha), (r, j)
