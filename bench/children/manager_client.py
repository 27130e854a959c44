"""Starts kernels through jupyter_client's own `KernelManager`, as JupyterLab, nbclient and papermill do, and measures.

Its clients connect as Jupyter's do: a socket whose first attempt fails tries again after 100 to 200 ms.
"""

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

FRAME = "import pandas as pd; pd.DataFrame({'a': [1, 2]})"
_PATIENCE = 60.0
_REST = 5.0  # a checkpoint is written when a kernel rests, and memory given back after that


def manager(argv: list[str], provisioner: str) -> KernelManager:
    """A manager of a kernel that is started so."""
    made = KernelManager(cache_ports=True)
    metadata: dict[str, Any] = {"kernel_provisioner": {"provisioner_name": provisioner}} if provisioner else {}
    made._kernel_spec = KernelSpec(argv=argv, display_name="measured", language="python", metadata=metadata)
    return made


def started(argv: list[str], provisioner: str, folder: str, extra: dict[str, str]) -> tuple[KernelManager, Any, float]:
    """A kernel, its client, and how long kernel_info_reply took from before the start."""
    place = tempfile.mkdtemp(dir=folder)
    made = manager(argv, provisioner)
    environ = {**os.environ, "WASM_KERNEL_WORKSPACE": os.path.join(folder, "workspace"), **extra}
    with open(os.path.join(place, "log"), "wb") as log:
        began = time.perf_counter()
        made.start_kernel(env=environ, cwd=place, stdout=log, stderr=log)
    client = made.blocking_client()
    client.start_channels(hb=False)
    client.kernel_info(reply=True, timeout=_PATIENCE)
    return made, client, time.perf_counter() - began


def life(argv: list[str], provisioner: str, folder: str, extra: dict[str, str]) -> dict[str, float]:
    """Seconds from before the start until kernel_info_reply, and until the reply to a cell that makes a DataFrame."""
    began = time.perf_counter()
    made, client, info = started(argv, provisioner, folder, extra)
    try:
        reply = client.execute(FRAME, reply=True, timeout=_PATIENCE)
        frame = time.perf_counter() - began
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"the cell failed: {reply['content']}")
    finally:
        client.stop_channels()
        made.shutdown_kernel(now=True)
    return {"start": info, "frame": frame}


def host_of(argv: list[str], folder: str, extra: dict[str, str]) -> None:
    """Wait until kernels come from a host; the first kernel starts it."""
    end = time.monotonic() + _PATIENCE
    first, client, _ = started(argv, "wasm-kernel-host", folder, extra)
    client.stop_channels()
    try:  # a kernel starts a host once it has settled, so it stays until there is one
        while True:
            made, client, _ = started(argv, "wasm-kernel-host", folder, extra)
            client.stop_channels()
            hosted = type(made.provisioner.process).__name__ == "HostedProcess"
            made.shutdown_kernel(now=True)
            if hosted:
                return
            if time.monotonic() > end:
                raise RuntimeError("no kernel host came up")
            time.sleep(0.5)
    finally:
        first.shutdown_kernel(now=True)


def memory(
    argv: list[str], provisioner: str, folder: str, extra: dict[str, str], count: int, cells: list[str]
) -> list[float]:
    """PSS of each of ``count`` kernels, after each of the cells and a rest. Those of a host count it as one more."""
    made = [started(argv, provisioner, folder, extra) for _ in range(count)]
    processes = [psutil.Process(m.provisioner.process.pid) for m, _, _ in made]
    if provisioner:
        processes += [process.parent() for process in processes[:1]]
    found = []
    try:
        for code in cells:
            for _, client, _ in made:
                client.execute(code, reply=True, timeout=_PATIENCE)
            time.sleep(_REST)
            found.append(sum(process.memory_full_info().pss for process in processes) / count)
    finally:
        for m, client, _ in made:
            client.stop_channels()
            m.shutdown_kernel(now=True)
    return found


def stop_hosts(extra: dict[str, str]) -> None:
    """End the hosts that were started for this."""
    subprocess.run(
        [sys.executable, "-m", "wasm_kernel.apps.cli", "host", "stop"], env={**os.environ, **extra}, check=False
    )
