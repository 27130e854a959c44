"""Settings become limits in one place."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from wasm_kernel import ExecutionPolicy
from wasm_kernel.model import limits
from wasm_kernel.model.settings import session_limits

GiB = 1 << 30
RULED = {"memory": GiB, "timeout": 3600.0}


def test_nothing_is_set() -> None:
    found = session_limits({}, {})
    assert (found.policy, found.maxima, found.problem, found.notes) == (ExecutionPolicy(), {}, "", ())
    assert session_limits({}, {"maxima": None, "limits": {}, "workspace_root": "x"}) == found
    with pytest.raises(FrozenInstanceError):
        found.problem = "x"  # type: ignore[misc]


def test_each_party_can_only_take_away() -> None:
    configured = {"maxima": {"memory": "2G", "disk": "1G"}, "limits": {"timeout": "10m", "disk": "500M"}}
    found = session_limits(RULED, configured)
    assert found.maxima == {"memory": GiB, "timeout": 3600, "disk": GiB}
    assert found.policy == ExecutionPolicy(memory_bytes=GiB, timeout_seconds=600, workspace_bytes=500 << 20)
    assert not found.problem
    assert not found.notes


def test_a_limit_above_its_maximum_is_lowered_and_that_is_said() -> None:
    found = session_limits(RULED, {"limits": {"memory": "4G", "timeout": "off", "files": 7}})
    assert found.policy == ExecutionPolicy(memory_bytes=GiB, timeout_seconds=3600, max_files=7)
    assert not found.problem
    assert found.notes == (
        "WasmKernel.limits: memory is '4G'; the administrator allows 1.0 GB at most, so 1.0 GB applies",
        "WasmKernel.limits: timeout is 'off'; the administrator allows 60 min at most, so 60 min applies",
    )


@pytest.mark.parametrize("setting", ["maxima", "limits"])
@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"memory": "much"}, "limit memory: 'much' is not a size; write bytes, or a number with k, M, G or T"),
        ({"memory": "1k"}, "memory is '1k'; it must be from 320.0 MB to 4.0 GB"),
        ({"memroy": "1G"}, "there is no limit 'memroy'; the limits are memory, timeout,"),
        ({"disk": "1G", "open": 2.5}, "limit open: 2.5 is not a whole number"),
        ({"memory": "9" * 400}, "limit memory: '99999"),
        ({3: 4}, "there is no limit 3; the limits are memory,"),
        ("memory=1G", "it is 'memory=1G'; write a dictionary, such as {'memory': '2G', 'timeout': '10m'}"),
        (["memory"], "it is ['memory']; write a dictionary"),
        (0, "it is 0; write a dictionary"),
    ],
)
def test_a_setting_that_cannot_be_understood_lets_nothing_run(setting: str, value: Any, wrong: str) -> None:
    found = session_limits(RULED, {"maxima": {"disk": "2G"}, "limits": {"files": 5}, setting: value})
    assert found.problem.startswith(f"WasmKernel.{setting} cannot be used: {wrong}")
    assert found.problem.endswith(". Nothing runs here until it is fixed in jupyter_wasm_kernel_config.py")
    assert found.maxima == RULED
    assert found.policy == limits.bounded(ExecutionPolicy(), RULED), "no wider than the rules, whoever uses it"


def test_a_place_may_have_ceilings_of_its_own() -> None:
    found = session_limits(RULED, {"limits": {"output": "9M"}}).lowered({"output": 8 << 20, "memory": 2 * GiB})
    assert found.maxima == {**RULED, "output": 8 << 20}
    assert found.policy.stdout_max_bytes == found.policy.stderr_max_bytes == 8 << 20
    assert found.policy.memory_bytes == GiB
    bad = session_limits({}, {"maxima": "x"})
    assert bad.lowered({"output": 8 << 20}).problem == bad.problem
