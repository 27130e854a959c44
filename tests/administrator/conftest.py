"""Environments of a test's own, their kernels, and rules for this very process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.administrator.environment import Environment, RuledKernel

Start = Callable[..., RuledKernel]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One for all tests of a module; each begins without rules and settings of the one before."""
    return Environment(tmp_path_factory.mktemp("administrator") / "env")


@pytest.fixture
def fresh(environment: Environment) -> Iterator[Environment]:
    """The environment with neither rules nor settings."""
    yield environment
    environment.file.unlink(missing_ok=True)
    for file in (environment.home / ".jupyter").iterdir():
        file.unlink()


@pytest.fixture
def start(fresh: Environment, tmp_path: Path) -> Iterator[Start]:
    """Start kernels; all are stopped at the end."""
    running: list[RuledKernel] = []

    def start(root: Path | None = None, **env: str) -> RuledKernel:
        running.append(fresh.kernel(root or tmp_path / "sessions", **env))
        return running[-1]

    yield start
    for kernel in running:
        kernel.stop()


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write an administrator's file for this process; which one."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    file = tmp_path / "prefix" / "etc" / "wasm-kernel" / "administrator.toml"

    def rule(text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)
        return file

    return rule
