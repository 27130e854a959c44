"""Workers on a Dask cluster of two processes on this machine: what a call costs, and what is sent."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from bench.report import Section
from bench.setting import Setting, succeed
from wasm_kernel.host.cluster.session_cluster import SessionCluster
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.model.policy import ExecutionPolicy

_CALLS, _TIMES = 200, 5
_CLUSTER = """
import json, sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        print(json.dumps(cluster.scheduler_address), flush=True)
        sys.stdin.read()
"""
_MAP = "with ProcessPoolExecutor() as pool: assert len(list(pool.map(abs, range({})))) == {}"


def run(setting: Setting) -> Section:
    """Measure calls that do nothing, and the bytes of a session with 100 MB of random numbers."""
    folder = setting.workspace()
    program = folder.with_name(f"{folder.name}-cluster.py")
    program.write_text(_CLUSTER)
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as local:
        assert local.stdout is not None
        address = json.loads(local.stdout.readline())
        sandbox = Sandbox(image.load(), folder, ExecutionPolicy(), in_session=True)
        cluster = SessionCluster(address, image.load())
        sandbox.workers_elsewhere = cluster

        def seconds(code: str) -> float:
            began = time.perf_counter()
            succeed(sandbox.execute(code))
            return time.perf_counter() - began

        def sent(code: str) -> int:
            before = cluster.connection.sent_bytes
            succeed(sandbox.execute(code))
            return cluster.connection.sent_bytes - before

        try:
            seconds("from concurrent.futures import ProcessPoolExecutor\nimport numpy as np")
            first = seconds(_MAP.format(2, 2))
            few = statistics.median(seconds(_MAP.format(2, 2)) for _ in range(_TIMES))
            many = statistics.median(seconds(_MAP.format(_CALLS, _CALLS)) for _ in range(_TIMES))
            small = sent(_MAP.format(2, 2))
            seconds("data = np.random.default_rng(1).integers(0, 1 << 62, 12_500_000)")
            once = sent(_MAP.format(2, 2))
            seconds("data[7] = 1")
            again = sent(_MAP.format(2, 2))
        finally:
            cluster.close()
            sandbox.close()
    return Section(
        "A Dask cluster",
        "Two workers of one thread each, processes on this machine. Bytes leave the machine once, compressed.",
        ["", "measured"],
        [
            ["first two calls, each on its worker", f"{1000 * first:.0f} ms"],
            ["a cell with two calls, later ones, median", f"{1000 * few:.0f} ms"],
            [f"each further call of {_CALLS}, median", f"{1000 * (many - few) / (_CALLS - 2):.1f} ms"],
            ["sent for a cell of a small session", f"{small / 1e6:.1f} MB"],
            ["sent for a session with 100 MB of random numbers, once", f"{once / 1e6:.1f} MB"],
            ["and after one of them was changed", f"{again / 1e6:.1f} MB"],
        ],
    )
