"""Packages in pure Python that compute with numpy, installed as `%pip` does it, count as on a 64-bit machine, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, create_session_sandbox
from wasm_kernel.sessions.packages import install_packages

PACKAGES = ["autograd", "einops", "emcee", "uncertainties", "xarray"]

# What is printed natively as well.
PROGRAMS = [
    ("import xarray as xr; print(xr.DataArray(np.arange(70000)).sum().item())", "2449965000"),
    ("import xarray as xr; a = xr.DataArray([100000, 3], dims='x'); print((a * a).dtype, (a * a).values.tolist())", "int64 [10000000000, 9]"),
    ("import xarray as xr; print(xr.DataArray([1, 2, 2**40], dims='x').cumsum().values.tolist())", "[1, 3, 1099511627779]"),
    ("import xarray as xr; print(xr.DataArray([5, 6, 7], [('k', ['a', 'b', 'a'])]).groupby('k').sum().values.tolist())", "[12, 6]"),
    (
        "import xarray as xr; t = pd.date_range('2026-01-01', periods=4, freq='12h')\n"
        "print(xr.DataArray(np.arange(4) * 10**10, [('t', t)]).resample(t='D').sum().values.tolist())",
        "[10000000000, 50000000000]",
    ),
    ("import xarray as xr; print(xr.DataArray([1, 2]).to_dataset(name='v').to_dataframe().v.dtype)", "int64"),
    ("import xarray as xr; print(xr.DataArray(np.arange(6).reshape(2, 3), dims=('a', 'b')).isel(b=[2, 0]).values.tolist())", "[[2, 0], [5, 3]]"),
    ("import xarray as xr; print(xr.DataArray([3, 1, 2], dims='x').rolling(x=2).sum().values.tolist())", "[nan, 4.0, 3.0]"),
    ("from einops import reduce; print(reduce(np.full((4, 2), 2**30), 'a b -> b', 'sum').tolist())", "[4294967296, 4294967296]"),
    ("from einops import rearrange; print(rearrange(np.arange(8), '(a b) -> b a', a=2).tolist())", "[[0, 4], [1, 5], [2, 6], [3, 7]]"),
    ("from einops import repeat; r = repeat(np.array([1, 2**40]), 'a -> a b', b=2); print(r.dtype, r.sum())", "int64 2199023255554"),
    ("import autograd; print(autograd.grad(lambda x: x**3)(100000.0))", "30000000000.0"),
    ("import autograd, autograd.numpy as an; print(autograd.grad(lambda x: an.sum(an.arange(3) * 10**10 * x))(1.0))", "30000000000.0"),
    ("from uncertainties import unumpy; print(unumpy.uarray([10**10, 2], [1, 1]).sum().nominal_value)", "10000000002.0"),
    (
        "import emcee; np.random.seed(0)\n"
        "s = emcee.EnsembleSampler(4, 1, lambda v: -0.5 * float((v**2).sum())); s.run_mcmc(np.linspace(-1, 1, 4)[:, None], 20)\n"
        "print(s.get_chain().shape, s.get_chain(flat=True).sum().round(6), s.acceptance_fraction.sum())",
        "(20, 4, 1) -23.85821 3.1500000000000004",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSandbox]:
    """A session with the packages, from the package index."""
    root: Path = tmp_path_factory.mktemp("root")
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    try:
        install_packages(session_id, PACKAGES, root)
        assert sandbox.execute("import numpy as np, pandas as pd").success
        yield sandbox
    finally:
        sandbox.close()


@pytest.mark.parametrize(("code", "printed"), PROGRAMS)
def test_they_count_with_64_bits(code: str, printed: str, equipped: BaseSandbox) -> None:
    result = equipped.execute(code)
    assert result.success, (result.error and result.error.value, result.stderr)
    assert result.stdout.strip() == printed
