"""A Dask cluster from a notebook: allowed by the person, kept with the session, left with the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.client import Cell, Kernel
from tests.host.cluster.clusters import DaskCluster
from wasm_kernel import fork_session
from wasm_kernel.host.disk.records import read_record

Start = Callable[..., Kernel]
POOL = "import os\nfrom concurrent.futures import ProcessPoolExecutor\ndef who(k): return k, os.getpid() != pid\npid = os.getpid()"
MAP = "with ProcessPoolExecutor() as pool: print(list(pool.map(who, range(2))), os.cpu_count())"
ELSEWHERE = "[(0, True), (1, True)] 2\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    made = DaskCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add("--nthreads", "2")
        yield made
    finally:
        made.close()


def asked(kernel: Kernel, code: str, answer: str) -> tuple[str, Cell]:
    """What the person was asked, and what came of the cell."""
    running = kernel.start(code, allow_stdin=True)
    question = kernel.client.get_stdin_msg(timeout=60)["content"]
    kernel.client.input(answer)
    return str(question["prompt"]), kernel.finish(running)


def test_allowed_by_the_person_and_kept_with_the_session(start: Start, cluster: DaskCluster) -> None:
    kernel = start(WASM_KERNEL_SESSION="mine")
    attach = f"%session cluster {cluster.address}"
    prompt, cell = asked(kernel, attach, "no")
    assert cell.reply["ename"] == "NotGranted"
    assert "wants to run its workers on a Dask cluster" in prompt and f"{cluster.address} (not encrypted" in prompt
    assert "can run code in this kernel's process" in prompt
    _, cell = asked(kernel, attach, "yes")
    assert f"Process pools and joblib run on 1 worker of {cluster.address}" in cell.said
    kernel.ok(POOL)
    assert kernel.ok(MAP).stdout == ELSEWHERE
    assert "ready" in kernel.ok("%session cluster").said
    assert "127.0.0.1" not in kernel.ok("found = %session cluster\nprint(found)").stdout
    assert "on this machine again" in kernel.ok("%session cluster off").said
    assert kernel.ok("print(os.cpu_count())").stdout == f"{len(os.sched_getaffinity(0))}\n"
    assert kernel.ok(attach).ok, "nobody is asked for what is allowed already"
    kernel.ok("kept = 1")
    kernel.ok("%session undo")
    assert kernel.ok(MAP).stdout == ELSEWHERE, "undo goes back in the session, not out of the cluster"
    other, cell = asked(kernel, "%session cluster tcp://other.example:8786", "no")
    assert cell.reply["ename"] == "NotGranted" and "other.example" in other
    kernel.ok("%session revoke cluster")
    assert "Workers run on this machine" in kernel.ok("%session cluster").said
    asked(kernel, attach, "yes")
    kernel.stop()
    assert read_record(kernel.root / "mine").extra["clusters"] == [cluster.address]
    assert not read_record(kernel.root / fork_session("mine", kernel.root)).extra.get("clusters")
    kernel = start(WASM_KERNEL_SESSION="mine")
    assert "Workers run on this machine" in kernel.ok("%session cluster").said
    assert kernel.ok(attach).ok


def test_an_interrupt_stops_a_map(start: Start, cluster: DaskCluster) -> None:
    kernel = start(WASM_KERNEL_GRANTS="cluster")
    kernel.ok(f"%session cluster {cluster.address}\n{POOL}\nimport time\ndef f(k): time.sleep(300)")
    cell = kernel.start("with ProcessPoolExecutor() as pool: list(pool.map(f, range(8)))")
    kernel.wait_for("display_data", "of 8 calls done")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(cell).reply["ename"] == "KeyboardInterrupt"
    assert kernel.ok(MAP).stdout == ELSEWHERE


@pytest.mark.parametrize("address", ["scheduler", "http://scheduler:8786", "tcp://", "tcp://a:99999", "tcp://u@a:1"])
def test_what_is_no_address_is_quoted(kernel: Kernel, address: str) -> None:
    assert repr(address) in kernel.run(f"%session cluster {address}").said


def test_nothing_is_imported_of_it_until_it_is_used() -> None:
    code = "import sys, wasm_kernel.kernel.kernel; print([n for n in sys.modules if 'distributed' in n or 'cluster.' in n])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
