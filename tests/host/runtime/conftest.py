"""Base memories, and the ways to find what was written."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.runtime.live_memory import BASE
from wasm_kernel.host.runtime import mappings, pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory


@pytest.fixture(params=["scan", "pagemap", "compare", "few mappings"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "few mappings":
        monkeypatch.setattr(mappings, "MOST_MAPPINGS", 6)
        return str(request.param)
    if request.param != "scan":
        monkeypatch.setattr(pagescan, "can_scan", False)
    if request.param == "compare":
        monkeypatch.setattr(pagescan, "can_read_pagemap", False)
    elif not getattr(pagescan, f"can_{'scan' if request.param == 'scan' else 'read_pagemap'}"):
        assert sys.platform != "linux", f"{request.param} does not work, or this is a Linux before 6.7"
        pytest.skip(f"only Linux has {request.param}")
    return str(request.param)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[BaseMemory]:
    path = tmp_path / "base.mem"
    path.write_bytes(random.Random(1).randbytes(BASE))
    yield BaseMemory(path)
