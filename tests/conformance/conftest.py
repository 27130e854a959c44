"""One kernel per module where tests do not mind each other, new ones where they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Kernel


@pytest.fixture(scope="module")
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that all tests of a module share; with ``SEALED = False`` in it, one whose outputs pass as they are."""
    running = Kernel(tmp_path_factory.mktemp("sessions"), sealed=getattr(request.module, "SEALED", True))
    yield running
    running.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Start kernels of a test's own, over one workspace root."""
    running: list[Kernel] = []

    def start(**env: str) -> Kernel:
        running.append(Kernel(tmp_path / "sessions", **env))
        return running[-1]

    yield start
    for kernel in running:
        kernel.stop()
