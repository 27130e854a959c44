"""Random numbers of workers: different in each call, the same for the same seed, whoever runs the call."""

from __future__ import annotations

import pytest

from tests.guest.test_process_pools import WORDS, guest, ok, said
from wasm_kernel import BaseSandbox

__all__ = ["guest"]
DRAW = """
import random, numpy as np
def draw(_): return random.random(), float(np.random.rand())
def drawn(workers, count=6):
    with ProcessPoolExecutor(workers) as pool: return list(pool.map(draw, range(count)))
"""


@pytest.fixture(autouse=True)
def _names(guest: BaseSandbox) -> None:
    ok(guest, WORDS + DRAW)


def test_calls_differ_and_a_seed_repeats_them(guest: BaseSandbox) -> None:
    assert said(guest, """
random.seed(1); np.random.seed(2)
one, two = drawn(2), drawn(2)
random.seed(1); np.random.seed(2)
again = drawn(1)
print(len({n for pair in one + two for n in pair}), one == again)
np.random.seed(3)
print(drawn(2) == one)
""") == ["24 True", "False"]  # fmt: skip


def test_a_seed_of_an_earlier_cell_counts_and_cells_differ(guest: BaseSandbox) -> None:
    ok(guest, "random.seed(5)")
    ok(guest, "first = drawn(2)")
    ok(guest, "second = drawn(2)")
    ok(guest, "random.seed(5)")
    assert said(guest, "print(drawn(2) == first, first == second)") == ["True False"]


def test_the_notebooks_own_numbers_are_not_used_up(guest: BaseSandbox) -> None:
    code = "random.seed(1); np.random.seed(1); drawn(2); print(random.random(), np.random.rand())"
    assert said(guest, code) == said(guest, code.replace("drawn(2); ", ""))


def test_an_initializer_may_seed(guest: BaseSandbox) -> None:
    assert said(guest, """
with ProcessPoolExecutor(1, initializer=random.seed, initargs=(4,)) as pool: found = [x for x, _ in pool.map(draw, range(3))]
random.seed(4)
print(found == [random.random() for _ in range(3)])
""") == ["True"]  # fmt: skip


def test_generators_are_copied_as_with_processes(guest: BaseSandbox) -> None:
    assert said(guest, """
rng = np.random.default_rng(5)
with ProcessPoolExecutor(1) as pool: one = pool.submit(lambda: rng.random()).result()
with ProcessPoolExecutor(1) as pool: other = pool.submit(lambda: rng.random()).result()
with ProcessPoolExecutor(2) as pool: spawned = list(pool.map(lambda r: r.random(), rng.spawn(4)))
print(one == other, len(set(spawned)))
""") == ["True 4"]  # fmt: skip
