"""The administrator's rule about clusters, and every way around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.administrator.conftest import Start
from tests.administrator.environment import Environment
from tests.host.cluster.clusters import DaskCluster, attached
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


def test_a_workers_own_rules_hold_there(fresh: Environment, tmp_path: Path) -> None:
    fresh.rule('timeout = 3\nmemory = "400M"')
    strict = DaskCluster(tmp_path / "strict", python=str(fresh.python))
    try:
        strict.add()
        with attached(strict.address, tmp_path / "app") as guest:
            assert guest.sandbox.policy.timeout_seconds is None
            for call, reason in (("while True: pass", "time limit of 3"), ("time.sleep(300)", "time limit of 3")):
                code = f"import time\nfrom concurrent.futures import ProcessPoolExecutor\ndef f(k):\n    {call}\n"
                result = guest.run(code + "with ProcessPoolExecutor() as pool: list(pool.map(f, [1]))")
                assert result.error is not None and reason in result.error.value
            result = guest.run(
                "def f(k): return len(bytearray(200_000_000))\nwith ProcessPoolExecutor() as pool: list(pool.map(f, [1]))"
            )
            assert result.error is not None and result.error.name == "MemoryError"
            fresh.rule("image = '0123456789'")
            result = guest.run("with ProcessPoolExecutor() as pool: list(pool.map(abs, [1]))")
            assert result.success, "an image that is loaded stays"
            guest.ok("data = bytearray(250_000_000)")
            fresh.rule('memory = "400M"')
            result = guest.run("with ProcessPoolExecutor() as pool: list(pool.map(abs, [1]))")
            assert result.error is not None and "administrator of this worker allows" in result.error.value
    finally:
        strict.close()


def test_files_are_read_and_combined() -> None:
    one = parse('clusters = ["tls://*.a.org", "tcp://b.org:1"]', "one")
    other = parse('clusters = ["tls://x.a.org:8786", "tls://b.org:1"]', "other")
    both = combined([one, other]).clusters
    assert both is not None and listed(both) == "tls://x.a.org:8786"
    assert combined([one, parse("clusters = false", "none")]).clusters == frozenset()
    for wrong in ("clusters = true", 'clusters = "tls://a.org"', 'clusters = ["a.org"]', 'clusters = ["tls://*.org"]'):
        with pytest.raises(NotAllowed, match="clusters"):
            parse(wrong, "file")
