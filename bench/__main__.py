"""`python -m bench`: measure everything and write `bench/RESULTS.md`."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import native
from bench.report import Section
from bench.rounds import Tick
from bench.setting import FULL, QUICK, Rounds, Setting, succeed
from bench.subjects import (
    cluster,
    cpu,
    host,
    interrupt,
    kernels,
    lab,
    many_sessions,
    memory,
    messages,
    noop,
    objects,
    prints,
    seal,
    sessions,
    snapshots,
    start,
    store,
    threads,
    workers,
)
from wasm_kernel import create_sandbox
from wasm_kernel.host.image import image

RESULTS = Path(__file__).parent / "RESULTS.md"
_QUIET, _PATIENCE = 1.0, 300.0  # load of the last minute, and seconds to wait for it

# In the order of the report.
SUBJECTS: dict[str, Callable[[Setting], Section]] = {
    "kernels": kernels.run,
    "host": host.run,
    "objects": objects.run,
    "snapshots": snapshots.run,
    "start": start.run,
    "noop": noop.run,
    "prints": prints.run,
    "lab": lab.run,
    "seal": seal.run,
    "interrupt": interrupt.run,
    "memory": memory.run,
    "threads": threads.run,
    "many": many_sessions.run,
    "workers": workers.run,
    "cluster": cluster.run,
    "sessions": sessions.run,
    "cpu": cpu.run,
    "messages": messages.run,
    "store": store.run,
}
_FIRST = ("memory", "kernels", "host")  # while this process has no image mapped, nothing shares its pages with theirs


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write them."""
    options = _parser().parse_args(arguments)
    os.environ["WASM_KERNEL_HOST"] = "0"  # a host started aside would disturb; where one is measured, it is said
    console = Console(stderr=True)
    chosen = [name for name in dict.fromkeys([*_FIRST, *SUBJECTS]) if not options.only or name in options.only]
    rounds = QUICK if options.quick else FULL
    if not image.is_built():  # a build hidden in a measured process would be taken for its start
        console.print("The image is not built; run `wasm-kernel image build` first.")
        return 1
    interpreter = native.python(console.print)
    _wait_until_quiet(console)
    started, load = time.monotonic(), os.getloadavg()
    output = options.output or (None if options.quick or options.only else RESULTS)
    sections: dict[str, Section] = {}
    text = ""
    with tempfile.TemporaryDirectory(prefix="wasm-kernel-bench-") as folder, _bar(console) as bar:
        for name in chosen:
            if not console.is_terminal:
                console.print(f"Measuring: {name} ...")
            setting = Setting(interpreter, Path(folder), rounds, _ticker(bar, name))
            sections[name] = SUBJECTS[name](setting)
            if name in _FIRST and name != chosen[-1]:
                continue  # the head maps an image
            head = _head(interpreter, Path(folder), rounds, load, time.monotonic() - started, quick=options.quick)
            text = "\n".join([head, *(sections[name].markdown() for name in SUBJECTS if name in sections)])
            if output is not None:  # after each subject: a run that is stopped has measured something, too
                output.write_text(text)
    print(text)
    if output is not None:
        console.print(f"Written: {output}")
    return 0


def _wait_until_quiet(console: Console) -> None:
    """Other work on the machine would be measured, too. What cannot be waited for is in the report's head."""
    end = time.monotonic() + _PATIENCE
    while (load := os.getloadavg()[0]) >= _QUIET and time.monotonic() < end:
        console.print(f"Waiting until the machine is quiet: its load is {load:.1f}, and should be below {_QUIET} ...")
        time.sleep(15)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure wasm-kernel beside native CPython.")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works, not to quote")
    parser.add_argument("--only", nargs="+", choices=list(SUBJECTS), help="these subjects only")
    parser.add_argument(
        "--output", type=Path, help="the file to write; without it a whole run writes bench/RESULTS.md, others nothing"
    )
    return parser


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # A thread that draws it would hold the interpreter lock while something is measured.
    return Progress(*columns, console=console, auto_refresh=False)


def _ticker(bar: Progress, name: str) -> Tick:
    task = bar.add_task(name, total=None)

    def tick(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total, refresh=True)

    bar.refresh()
    return tick


_GUEST_VERSIONS = """
import platform
from importlib.metadata import version
import numpy, pandas, matplotlib, sklearn, scipy
print("Python", platform.python_version(), end="")
for module in (numpy, pandas, matplotlib, sklearn, scipy):
    print(f", {module.__name__} {module.__version__}", end="")
print(f", IPython {version('ipython')}", end="")
"""


def _head(
    interpreter: Path, folder: Path, rounds: Rounds, load: tuple[float, float, float], taken: float, *, quick: bool
) -> str:
    with create_sandbox(workspace=folder / "versions") as sandbox:
        guest = succeed(sandbox.execute(_GUEST_VERSIONS)).stdout
    beside = ", ".join(f"{name} {version}" for name, version in native.versions(interpreter).items())
    counts = ", ".join(f"{name} {getattr(rounds, field)}" for name, field in _ROUNDS.items())
    facts = {
        "Date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Machine": f"{_cpu_model()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "Load average at start": ", ".join(f"{value:.1f}" for value in load) + " (1, 5, 15 minutes)",
        "Host": f"Python {platform.python_version()}, wasmtime {metadata.version('wasmtime')}, "
        f"wasm-kernel {metadata.version('wasm-kernel')}",
        "Guest": guest,
        "Native": beside,
        "Rounds": counts,
        "Taken": f"{taken:.0f} s",
    }
    title = "# Measurements" + (" (quick: few rounds, not to be quoted)" if quick else "")
    how = (
        "Made by `python -m bench`. Contenders alternate within each round, in rotating order. A cell is the median "
        "over the rounds with the best in brackets; a ratio is the median of the rounds' own ratios."
    )
    return "\n".join([title, "", how, "", *(f"* {name}: {value}" for name, value in facts.items()), ""])


_ROUNDS = {
    "kernels' starts": "kernel_lives",
    "kernels' cells": "kernel_cells",
    "kernels' memory": "kernel_memory",
    "start": "start",
    "no-op": "noop",
    "prints": "prints",
    "interrupt": "interrupts",
    "memory": "memory",
    "threads": "threads",
    "workers": "workers",
    "sessions": "sessions",
    "snapshots": "snapshots",
    "CPU": "cpu",
    "message loops": "messages",
    "stores": "store",
    "JupyterLab": "lab",
}


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown CPU"


if __name__ == "__main__":
    sys.exit(main())
