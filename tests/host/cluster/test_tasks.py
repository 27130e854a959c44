"""What a worker of Dask's keeps, and for how long."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.host.cluster.clusters import until
from wasm_kernel.host.cluster import tasks
from wasm_kernel.host.cluster.tasks import Station


def test_forks_of_a_notebook_that_is_gone_without_a_word_go_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_UNUSED_SECONDS", 0.05)
    station, closed = Station(tmp_path, 1), []
    busy: Any = SimpleNamespace(calls=1, close=lambda: closed.append("busy"))
    idle: Any = SimpleNamespace(calls=0, close=lambda: closed.append("idle"))
    station._forks.update(busy=busy, idle=idle)
    station._used.update(busy=time.monotonic(), idle=time.monotonic())
    station._tidy()
    assert until(lambda: closed) == ["idle"]
    busy.calls = 0
    until(lambda: len(closed) == 2)
    station.close()
