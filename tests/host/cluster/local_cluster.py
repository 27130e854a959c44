"""A LocalCluster of separate processes, until its standard input ends: says its address and its workers' pids."""

from __future__ import annotations

import json
import sys

from distributed import LocalCluster


def main() -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]
        print(json.dumps([cluster.scheduler_address, pids]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
