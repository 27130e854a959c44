"""Kernels from the kernel host, beside those that start by themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.contenders import ours
from bench.native import Worker
from bench.report import Aim, Section, megabytes, milliseconds, number
from bench.rounds import Samples, interleave
from bench.setting import Setting

_CHILDREN = Path(__file__).parents[1] / "children"
_NATIVE, _ALONE, _PROVISIONER, _LAUNCHER = "ipykernel", "without a host", "by provisioner", "by launcher"
_MANY = 20
_CELLS = ["x = 1", "import pandas as pd; df = pd.DataFrame({'a': [1, 2]}); df"]


def run(setting: Setting) -> Section:
    """Measure starts through Jupyter's own manager and through an eager client, and the memory of many kernels."""
    with _client(setting) as worker, _host(setting, worker) as ways:

        def life(name: str) -> Mapping[str, float]:
            found = worker.run(f"result = manager_client.life(*{ways[name]!r})")
            return {f"{name} {key}": value for key, value in found.items()}

        def eager(name: str) -> Mapping[str, float]:
            argv, _, folder, extra = ways[name]
            mode = "signal" if name == _NATIVE else "message"
            found = worker.run(f"result = kernel_client.life({argv!r}, {mode!r}, {folder!r}, extra={extra!r})")
            return {f"{name} eager {key}": value for key, value in found.items()}

        def memory(name: str) -> Mapping[str, float]:
            idle, pandas = worker.run(f"result = manager_client.memory(*{(*ways[name], _MANY, _CELLS)!r})")
            return {f"{name} idle": idle, f"{name} pandas": pandas}

        rounds, tick = setting.rounds, setting.tick
        lives = interleave([partial(life, name) for name in ways], rounds.kernel_lives, tick)
        launched = [partial(eager, name) for name in ways if name != _PROVISIONER]
        starts = interleave(launched, rounds.kernel_lives, tick)
        many = (_NATIVE, _ALONE, _PROVISIONER)
        pss = interleave([partial(memory, name) for name in many], rounds.kernel_memory, tick, warm_up=False)
    return _section(lives, starts, pss)


@contextmanager
def _client(setting: Setting) -> Iterator[Worker]:
    """A process of this Python, which has the provisioner."""
    with Worker(Path(sys.executable), setting.workspace()) as worker:
        worker.run(f"import sys; sys.path.insert(0, {str(_CHILDREN)!r})\nimport kernel_client, manager_client")
        yield worker


Way = tuple[list[str], str, str, dict[str, str]]


@contextmanager
def _host(setting: Setting, worker: Worker) -> Iterator[dict[str, Way]]:
    """The ways to start a kernel, with a host that runs."""
    folder, runtime = str(setting.workspace()), setting.workspace()
    argv, there = ours().argv, {"XDG_RUNTIME_DIR": str(runtime), "WASM_KERNEL_HOST": ""}
    native = [str(setting.native), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    worker.run(f"manager_client.host_of({argv!r}, {folder!r}, {there!r})")
    try:
        yield {
            _NATIVE: (native, "", folder, {}),
            _ALONE: (argv, "", folder, {"WASM_KERNEL_HOST": "0"}),
            _PROVISIONER: (argv, "wasm-kernel-host", folder, there),
            _LAUNCHER: (argv, "", folder, there),
        }
    finally:
        worker.run(f"manager_client.stop_hosts({there!r})")


def _section(lives: Samples, starts: Samples, pss: Samples) -> Section:
    ways = (_NATIVE, _ALONE, _PROVISIONER, _LAUNCHER)

    def row(label: str, key: str, samples: Samples, memory: bool = False) -> list[str]:
        return [label, *(cell(f"{name} {key}", f"{_NATIVE} {key}", samples, memory) for name in ways)]

    def cell(name: str, native: str, samples: Samples, memory: bool) -> str:
        if not samples.get(name):
            return ""
        text = megabytes(samples.median(name)) if memory else milliseconds(samples, name)
        return text if name == native else f"{text}, {number(samples.ratio(name, native))}x"

    start, frame = (lives.ratio(f"{_PROVISIONER} {key}", f"{_NATIVE} {key}") for key in ("start", "frame"))
    launcher = starts.ratio(f"{_LAUNCHER} eager start", f"{_NATIVE} eager start")
    idle, pandas = (pss.median(f"{_PROVISIONER} {key}") for key in ("idle", "pandas"))
    return Section(
        "The kernel host",
        "Kernels started through jupyter_client's `KernelManager`, whose sockets try again 100 to 200 ms after a "
        "failed attempt, and by a client that tries every 3 ms, as those do that know no provisioners and wait for the "
        f"ports; times in ms, with the ratio to ipykernel. PSS in MB of each of {_MANY} kernels, the host's share "
        "included; idle: after `x = 1`.",
        ["", *ways],
        [
            row("start to kernel_info_reply", "start", lives),
            row("start to first DataFrame", "frame", lives),
            row("eager client: start to kernel_info_reply", "eager start", starts),
            row("eager client: start to first DataFrame", "eager frame", starts),
            row("PSS, idle", "idle", pss, memory=True),
            row("PSS with pandas", "pandas", pss, memory=True),
        ],
        [
            Aim("start by provisioner in 0.12 of ipykernel's time or less", f"{number(start)}x", start <= 0.12),
            Aim("start by launcher in 0.25 of ipykernel's time or less", f"{number(launcher)}x", launcher <= 0.25),
            Aim("first DataFrame in 0.2 of ipykernel's time or less", f"{number(frame)}x", frame <= 0.2),
            Aim("20 MB or less for each idle kernel", f"{megabytes(idle)} MB", idle <= 20e6),
            Aim("35 MB or less for each kernel with pandas", f"{megabytes(pandas)} MB", pandas <= 35e6),
        ],
    )
