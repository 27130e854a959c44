"""Fixtures shared by the whole suite. The image must be built (`make image`); building it here would hide the wait."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel import BaseSandbox, ExecutionPolicy, create_sandbox
from wasm_kernel.host import trees


@pytest.fixture(scope="session", autouse=True)
def _no_deep_trees_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Attacks make trees deeper than pytest's own clean-up can delete."""
    yield
    with contextlib.suppress(Exception):
        trees.empty(tmp_path_factory.getbasetemp())


@pytest.fixture
def make_sandbox(tmp_path: Path) -> Iterator[Callable[..., BaseSandbox]]:
    """Create sandboxes over folders of their own; all are closed at the end."""
    made: list[BaseSandbox] = []

    def make(**limits: Any) -> BaseSandbox:
        folder = limits.pop("workspace", tmp_path / f"workspace{len(made)}")
        sandbox = create_sandbox(policy=ExecutionPolicy(**limits), workspace=folder)
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        sandbox.close()


@pytest.fixture
def sandbox(make_sandbox: Callable[..., BaseSandbox]) -> BaseSandbox:
    """A sandbox with the default policy."""
    return make_sandbox()


@pytest.fixture(scope="module")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSandbox]:
    """One sandbox for a module's tests that do not mind each other."""
    with create_sandbox(workspace=tmp_path_factory.mktemp("shared")) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures and servers' logs go: $WASM_KERNEL_SHOTS, for people who want to look at them."""
    given = os.environ.get("WASM_KERNEL_SHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
