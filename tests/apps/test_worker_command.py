"""`wasm-kernel worker` where it cannot do its work: one line that says why. What it does is in `host/cluster`."""

from __future__ import annotations

import socket

import pytest

from tests.apps.terminal import Main, wasm_kernel


def test_only_the_address_is_missing(main: Main) -> None:
    code, _, err = main("worker")
    assert code == 2
    assert "required: ADDRESS;" in err


def test_nobody_listens_there() -> None:
    pytest.importorskip("distributed")
    with socket.socket() as taken:  # bound, so that nobody else takes it, and not listening
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = wasm_kernel("worker", address, "--no-dashboard", DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1s")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("wasm-kernel: the worker did not start: Timed out trying to connect to")
    assert last.endswith(f"check that a scheduler listens at {address}")
