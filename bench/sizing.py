"""What kernels and sessions cost a server: `python -m bench.sizing`. The table of docs/administrators.md.

Kernels are real ones, each in a session of its own, over one workspace root. Memory is looked at after two seconds of
rest: what each kernel has for itself, and what it shares with the others and what needs to be there only once. Disk is
what the files below the root take, in blocks.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

_COUNT = 5
_IDLE = 40.0  # seconds
_PANDAS = "import pandas as pd; df = pd.DataFrame({'a': range(1000)}); df.describe()"
_LARGE = "import numpy as np; df = pd.DataFrame(np.random.rand(1_250_000, 10)); df.mean()"  # 100 MB
_PATIENCE = 120


class _Kernel:
    def __init__(self, root: Path, name: str, idle: float) -> None:
        self.manager = KernelManager(kernel_name="wasm")
        config = root.parent / f"config-{name}"
        config.mkdir()
        (config / "jupyter_wasm_kernel_config.py").write_text(f"c.WasmKernel.idle_timeout_seconds = {idle}\n")
        env = {"WASM_KERNEL_WORKSPACE": str(root), "WASM_KERNEL_SESSION": name, "JUPYTER_CONFIG_DIR": str(config)}
        self.manager.start_kernel(env={**os.environ, **env})
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=_PATIENCE)

    def run(self, code: str) -> None:
        reply = self.client.execute_interactive(code, timeout=_PATIENCE, output_hook=lambda message: None)
        assert reply["content"]["status"] == "ok", reply["content"]

    def memory(self, kind: str) -> float:
        """Private or Shared, in MB."""
        pid = self.manager.provisioner.process.pid  # type: ignore[union-attr]
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{kind}_")) * 1024 / 1e6

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()


def _memory(root: Path) -> dict[str, str]:
    """MB per kernel in each state."""
    kernels = [_Kernel(root, f"memory-{n}", _IDLE) for n in range(_COUNT)]
    found = {}

    def look(state: str, rest: float = 2) -> None:
        time.sleep(rest)
        own = sorted(k.memory("Private") for k in kernels)[_COUNT // 2]
        found[state] = f"{own:.0f} each, {max(k.memory('Shared') for k in kernels):.0f} shared by all"

    look("started, nothing run")
    for state, code in (("pandas and a small table", _PANDAS), ("pandas and a table of 100 MB", _LARGE)):
        for kernel in kernels:
            kernel.run(code)
        look(state)
    look("released after idling", 1.5 * _IDLE)
    for kernel in kernels:
        kernel.stop()
    return found


def _disk(folder: Path) -> float:
    """MB below a folder."""
    return sum(p.lstat().st_blocks * 512 for p in folder.rglob("*")) / 1e6


def _sessions(root: Path) -> dict[str, float]:
    """MB on the disk after each step."""
    found = {}
    kernel = _Kernel(root, "disk", idle=0)
    for step, cells in (
        ("first cell", ["x = 1"]),
        ("30 small cells more", ["x += 1"] * 30),
        ("pandas and a small table", [_PANDAS]),
        ("a table of 100 MB of random numbers", [_LARGE]),
    ):
        before = _disk(root)
        for cell in cells:
            kernel.run(cell)
        kernel.run("%session snapshots")  # waits until all is written
        found[step] = round(_disk(root) - before, 1)
    kernel.stop()
    return found


def main() -> int:
    """Print what was measured."""
    with tempfile.TemporaryDirectory() as place:
        memory, disk = _memory(Path(place) / "memory"), _sessions(Path(place) / "disk")
        results = {f"memory of {_COUNT} kernels, MB": memory, "disk added by, MB": disk}
    print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
