"""Who started a kernel, and whether it is still there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wasm_kernel.kernel.starter import Starter


@pytest.mark.parametrize("named", ["", "0", "1", "nonsense", "-1", "9" * 30, "this process", "its parent"])
def test_a_starter_that_is_there(named: str) -> None:
    named = {"this process": str(os.getpid()), "its parent": str(os.getppid())}.get(named, named)
    assert not Starter({"JPY_PARENT_PID": named}).gone()


def test_a_starter_that_ended_before_anybody_looked() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert Starter({"JPY_PARENT_PID": str(gone.pid)}).gone()


def test_a_starter_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    starter = Starter({})
    assert not starter.gone()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert starter.gone()
