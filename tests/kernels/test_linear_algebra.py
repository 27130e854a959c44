"""Products, LAPACK and sorts as numpy gives them in the guest: `linear_algebra_in_guest.py` has the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, create_sandbox


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSandbox]:
    with create_sandbox(workspace=tmp_path_factory.mktemp("guest")) as sandbox:
        assert sandbox.execute(Path(__file__).with_name("linear_algebra_in_guest.py").read_text()).success
        yield sandbox


@pytest.mark.parametrize(("group", "least"), [("check_products", 250), ("check_lapack", 60), ("check_sorts", 4000)])
def test_every_check_of_a_group(guest: BaseSandbox, group: str, least: int) -> None:
    result = guest.execute(f"checks = 0; problems.clear(); {group}(); print(checks, *problems[:20], sep='\\n')")
    assert result.success, result.error
    checks, *problems = result.stdout.splitlines()
    assert not problems
    assert int(checks) >= least


def test_a_check_can_fail(guest: BaseSandbox) -> None:
    source = "problems.clear(); real = np.sort; np.sort = lambda v: real(v)[::-1]\ncheck_partition('f8', v := rng.random(50), v)"
    result = guest.execute(f"{source}\nnp.sort = real; print(len(problems)); problems.clear()")
    assert result.success and int(result.stdout) > 10, result.error


_SAMPLE = """
import hashlib
import numpy as np
rng = np.random.default_rng(3)
a, c = rng.standard_normal((90, 90)), rng.standard_normal((60, 60)) * 1j + 1
found = [a @ a, a.astype("f4") @ a.astype("f4"), c @ c, a @ a[0], *np.linalg.svd(a), np.linalg.inv(a), np.linalg.eigvalsh(a + a.T)]
found += [np.sort(a.ravel()), np.argsort(a.ravel()), np.argsort(a.ravel(), kind="stable"), np.partition(a.ravel(), 4000)]
print(hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in found)).hexdigest())
"""


@pytest.mark.metered
def test_the_metered_flavour_computes_the_same_bits(
    guest: BaseSandbox, make_sandbox: Callable[..., BaseSandbox]
) -> None:
    metered = make_sandbox(fuel_budget=1 << 40)
    plain, counted = guest.execute(_SAMPLE), metered.execute(_SAMPLE)
    assert plain.success and counted.success, (plain.error, counted.error)
    assert plain.stdout == counted.stdout
