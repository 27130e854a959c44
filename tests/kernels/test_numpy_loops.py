"""numpy's loops in the guest: kernels give what the loops they replaced give, to the bit (`numpy_in_guest.py` says how)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wasm_kernel import BaseSandbox, create_sandbox

_LENGTHS = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 127, 128, 129, 200, 517, 1100]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSandbox]:
    with create_sandbox(workspace=tmp_path_factory.mktemp("guest")) as sandbox:
        run(sandbox, Path(__file__).with_name("numpy_in_guest.py").read_text())
        yield sandbox


def run(sandbox: BaseSandbox, source: str) -> str:
    """What the guest printed; an error there is one here."""
    result = sandbox.execute(source)
    assert result.success, (result.stderr, result.error)
    return result.stdout


def test_every_loop_at_lengths_around_its_steps(guest: BaseSandbox) -> None:
    source = f"print(*filter(None, (check(c, n, (c + n) % 4, 100 * n) for c in range(len(CASES)) for n in {_LENGTHS})), sep='\\n')"
    assert run(guest, source).strip() == ""
    assert int(run(guest, "print(len(CASES))")) > 200


@pytest.mark.metered
def test_every_loop_in_the_metered_flavour(make_sandbox: Callable[..., BaseSandbox]) -> None:
    metered = make_sandbox(fuel_budget=1 << 40)
    run(metered, Path(__file__).with_name("numpy_in_guest.py").read_text())
    source = "print(*filter(None, (check(c, n, 1, n) for c in range(len(CASES)) for n in (33, 200))), sep='\\n')"
    assert run(metered, source).strip() == ""


def test_any_length_beginning_and_numbers(guest: BaseSandbox) -> None:
    cases = int(run(guest, "print(len(CASES))"))
    one = st.tuples(st.integers(0, cases - 1), st.integers(0, 300), st.integers(0, 17), st.integers(0, 2**31))

    @settings(max_examples=25, deadline=None)
    @given(st.lists(one, min_size=1, max_size=12))
    def same(chosen: list[tuple[int, int, int, int]]) -> None:
        found = json.loads(run(guest, f"import json; print(json.dumps([check(*c) for c in {chosen}]))"))
        assert not any(found), [text for text in found if text]

    same()


def test_a_check_can_fail(guest: BaseSandbox) -> None:
    source = "kernel = np.square; np.square = lambda a, **more: kernel(a, **more) + (a.strides == (8,))\n"
    assert "instead of" in run(guest, source + "print(check_unary('square', 'i8', 40, 0, 1)); np.square = kernel")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("random(3).tolist()", [0.6369616873214543, 0.2697867137638703, 0.04097352393619469]),
        ("integers(0, 2**63, 2).tolist()", [5874934615388537135, 2488343231644625808]),
        ("integers(0, 100, 6, dtype='i4').tolist()", [85, 63, 51, 26, 30, 4]),
        ("standard_normal(2).tolist()", [0.1257302210933933, -0.1321048632913019]),
    ],
)
def test_random_numbers_are_those_of_every_numpy(guest: BaseSandbox, call: str, expected: list[Any]) -> None:
    found = json.loads(run(guest, f"import json, numpy as np; print(json.dumps(np.random.default_rng(0).{call}))"))
    assert found == expected


def test_floating_point_status_is_as_before(guest: BaseSandbox) -> None:
    source = """
for numbers in (np.arange(40), np.arange(80)[::2]):
    print(told(np.floor_divide, numbers, 0)[1], told(np.floor_divide, np.full(40, -2**63), -1)[1], told(np.divide, numbers * 1.0, 0.0)[1])
"""
    first, second = run(guest, source).splitlines()
    assert first == second
    assert "divide by zero encountered in floor_divide" in first
    assert "overflow encountered in floor_divide" in first
