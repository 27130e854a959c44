"""Every limit is checked when the policy is made, with a message that says what is allowed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from wasm_kernel import ConfigurationError, ExecutionPolicy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_seconds", 0),
        ("timeout_seconds", -1.5),
        ("timeout_seconds", float("nan")),
        ("timeout_seconds", "60"),
        ("timeout_seconds", True),
        ("fuel_budget", 0),
        ("fuel_budget", 1.5),
        ("memory_bytes", 1024),
        ("memory_bytes", 5 << 30),
        ("stdout_max_bytes", -1),
        ("display_max_bytes", None),
        ("workspace_bytes", -1),
        ("max_files", 0),
        ("max_open_files", 4),
        ("max_open_files", 5000),
        ("interrupt_grace_seconds", 0),
        ("env", {"a b": "c"}),
        ("env", {"A": 1}),
        ("env", {"A": "x\0y"}),
        ("env", ["A=1"]),
    ],
)
def test_a_bad_limit_is_refused_by_name_and_value(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ExecutionPolicy(**{name: value})
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_policy_is_frozen_and_owns_its_environment() -> None:
    given = {"A": "1"}
    policy = ExecutionPolicy(env=given)
    given["A"] = "2"
    assert policy.env == {"A": "1"}
    with pytest.raises(AttributeError):
        policy.memory_bytes = 1  # type: ignore[misc]


def test_every_field_is_documented() -> None:
    documentation = inspect.getdoc(ExecutionPolicy) or ""  # Python 3.13 and later take the indentation away themselves
    for name in ExecutionPolicy.__dataclass_fields__:
        assert f"    {name}: " in documentation, f"{name} has no sentence in the class's documentation"
