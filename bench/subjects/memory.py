"""What one more sandbox costs in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.native import Worker, environment
from bench.report import Aim, Section, megabytes
from bench.rounds import interleave
from bench.setting import Setting

MORE = 10
_REST = 1.0
_CHILD = Path(__file__).parents[1] / "children" / "memory.py"
_FRAME = "import pandas as pd; frame = pd.DataFrame({'a': [1, 2]}); text = str(frame)"
_NATIVE = f"""
import time
{_FRAME}
time.sleep({_REST})
for line in open("/proc/self/smaps_rollup"):
    if line.startswith("Pss:"):
        result = int(line.split()[1]) << 10
"""


def run(setting: Setting) -> Section:
    """Measure processes with one sandbox and with eleven, and a native one. Call it before this process has any."""

    def native() -> Mapping[str, float]:
        with Worker(setting.native, setting.workspace()) as worker:
            return {"native": float(worker.run(_NATIVE))}

    found = interleave(
        [_measure(setting, "idle", "x=1"), _measure(setting, "frame", _FRAME), native],
        setting.rounds.memory,
        setting.tick,
        warm_up=False,
    )
    rows = [
        [label, megabytes(found.median(f"{key} each")), megabytes(found.median(f"{key} one"))]
        for label, key in (("sandbox that ran `x=1`", "idle"), ("sandbox with pandas and a small DataFrame", "frame"))
    ]
    rows.append(["native Python with pandas and a small DataFrame", megabytes(found.median("native")), ""])
    each = found.median("idle each")
    return Section(
        "Memory per additional sandbox",
        f"PSS in MB (10^6 bytes), looked at after a second of rest: a process with {MORE + 1} sandboxes less the same "
        f"process with one, divided by {MORE}; median over the rounds. Native: each one is a process.",
        ["", "each more", "process with the first"],
        rows,
        [Aim("under 15 MB for each additional idle sandbox", f"{megabytes(each)} MB", each < 15e6)],
    )


def _measure(setting: Setting, name: str, code: str) -> Callable[[], Mapping[str, float]]:
    def measure() -> Mapping[str, float]:
        done = subprocess.run(
            [sys.executable, _CHILD, code, str(MORE), str(_REST)],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the process with sandboxes failed:\n{done.stderr[-2000:]}")
        pss = json.loads(done.stdout)
        return {f"{name} one": pss["one"], f"{name} each": (pss["all"] - pss["one"]) / MORE}

    return measure
