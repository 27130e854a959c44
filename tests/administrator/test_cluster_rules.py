"""The administrator's rule about clusters, and every way around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.administrator.conftest import Start
from tests.administrator.environment import Environment
from tests.host.cluster.clusters import DaskCluster
from wasm_kernel.errors import NotAllowed
from wasm_kernel.model.administrator import combined, parse
from wasm_kernel.model.cluster_addresses import listed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    made = DaskCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("rule", ["clusters = false", 'clusters = ["tls://other.example:8786"]', "grants = []"])
def test_nobody_attaches_beyond_it(fresh: Environment, start: Start, rule: str, cluster: DaskCluster) -> None:
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="cluster")
    kernel.ok(f"%session cluster {cluster.address}")
    assert kernel.ok("import os; print(os.cpu_count())").stdout == "1\n"
    fresh.rule(rule)
    assert "Workers run on this machine" in kernel.ok("%session cluster").said, "a rule that comes later counts"
    said = kernel.run(f"%session cluster {cluster.address}", answers=()).said
    assert "administrator" in said and str(fresh.file) in said
    kernel.stop()
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="cluster")
    assert "administrator" in kernel.run(f"%session cluster {cluster.address}").said


def test_within_it_a_person_may(fresh: Environment, start: Start, cluster: DaskCluster) -> None:
    fresh.rule(f'clusters = ["{cluster.address}"]\ncluster = 1')
    kernel = start(WASM_KERNEL_GRANTS="cluster")
    assert kernel.ok(f"%session cluster {cluster.address}").ok
    assert "the administrator allows" in kernel.run("%session limits cluster=2").said


def test_files_are_read_and_combined() -> None:
    one = parse('clusters = ["tls://*.a.org", "tcp://b.org:1"]', "one")
    other = parse('clusters = ["tls://x.a.org:8786", "tls://b.org:1"]', "other")
    both = combined([one, other]).clusters
    assert both is not None and listed(both) == "tls://x.a.org:8786"
    assert combined([one, parse("clusters = false", "none")]).clusters == frozenset()
    for wrong in ("clusters = true", 'clusters = "tls://a.org"', 'clusters = ["a.org"]', 'clusters = ["tls://*.org"]'):
        with pytest.raises(NotAllowed, match="clusters"):
            parse(wrong, "file")
