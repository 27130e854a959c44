"""Our message loop beside ipykernel's, with kernels whose cells do nothing. DESIGN.md says why there is one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from bench.native import Worker
from bench.report import Aim, Section, megabytes, milliseconds, number
from bench.rounds import Samples, interleave
from bench.setting import Setting

_CHILDREN = Path(__file__).parents[1] / "children"
_OURS, _THEIRS = "ours", "ipykernel"
_LOOPS = {_OURS: "ours", _THEIRS: "ipykernel's", "no-sleep": "ipykernel's, `_execute_sleep = 0`"}
_OUTPUTS = 500


def run(setting: Setting) -> Section:
    """Measure both loops, and ipykernel's without the wait it has before each reply."""
    count = setting.rounds.noop_cells
    with Worker(setting.native, setting.workspace()) as worker:
        worker.run(f"import sys; sys.path.insert(0, {str(_CHILDREN)!r})\nimport kernel_client")

        def measure(loop: str) -> Mapping[str, float]:
            argv = [sys.executable, str(_CHILDREN / "idle_kernel.py"), loop, "-f", "{connection_file}"]
            arguments = (argv, str(setting.workspace()), count, _OUTPUTS)
            found = worker.run(f"result = kernel_client.messages(*{arguments!r})")
            return {f"{loop} {key}": value for key, value in found.items()}

        found = interleave([partial(measure, loop) for loop in _LOOPS], setting.rounds.messages, setting.tick)
    return _section(found, count)


def _section(found: Samples, count: int) -> Section:
    def row(label: str, key: str, show: Callable[[Samples, str], str] = milliseconds) -> list[str]:
        return [label, *(cell(loop, key, show) for loop in _LOOPS)]

    def cell(loop: str, key: str, show: Callable[[Samples, str], str]) -> str:
        text = show(found, f"{loop} {key}")
        return text if loop == _THEIRS else f"{text}, {number(found.ratio(f'{loop} {key}', f'{_THEIRS} {key}'))}x"

    def plain(label: str, text: Callable[[str], str]) -> list[str]:
        return [label, *(text(loop) for loop in _LOOPS)]

    trip, start = (found.ratio(f"{_OURS} {key}", f"{_THEIRS} {key}") for key in ("trip", "start"))
    return Section(
        "Message loops",
        "A kernel whose cells do nothing, on our message loop and on ipykernel's (`IPKernelApp`), in the same "
        f"environment; times in ms, with the ratio to ipykernel's. No-op: execute_request to idle, {count} in a row. "
        f"Outputs: {_OUTPUTS} `stream` messages sent by a thread that is not the main one, as the sandbox's is, until "
        "idle; in order: the rounds in which all came, as they were sent, before idle. Meanwhile: kernel_info_request "
        "while a cell waits for 300 ms.",
        ["", *_LOOPS.values()],
        [
            row("start to kernel_info_reply", "start"),
            row("no-op, median", "trip"),
            row("no-op, p99", "trip p99"),
            row(f"{_OUTPUTS} outputs", "outputs"),
            plain("– in order", lambda loop: f"{100 * _mean(found.values(f'{loop} ordered')):.0f}%"),
            plain("asked meanwhile", lambda loop: milliseconds(found, f"{loop} meanwhile")),
            row("PSS, MB", "pss", lambda samples, name: megabytes(samples.median(name))),
            plain("threads", lambda loop: f"{found.median(f'{loop} threads'):.0f}"),
        ],
        [
            Aim("a no-op round trip in half of ipykernel's time or less", f"{number(trip)}x", trip <= 0.5),
            Aim("a start in half of ipykernel's time or less", f"{number(start)}x", start <= 0.5),
        ],
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
