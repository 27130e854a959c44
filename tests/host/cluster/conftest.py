"""One cluster per module for tests that do not harm it, new ones for those that do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.cluster.clusters import Attached, DaskCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers of `wasm-kernel worker`."""
    made = DaskCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add(wait=False)
        made.add()
        yield made
    finally:
        made.close()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Callable[..., DaskCluster]]:
    """Clusters that a test may kill."""
    made: list[DaskCluster] = []

    def make(**options: Any) -> DaskCluster:
        made.append(DaskCluster(tmp_path / f"cluster{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def attach(tmp_path: Path) -> Iterator[Callable[..., Attached]]:
    """Sandboxes whose workers run on a cluster."""
    made: list[Attached] = []

    def make(to: DaskCluster, **policy: Any) -> Attached:
        made.append(Attached(to.address, tmp_path / f"app{len(made)}", **policy))
        return made[-1]

    yield make
    for each in made:
        each.close()
