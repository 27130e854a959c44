"""What an execution costs that does nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

from bench.native import Worker
from bench.report import Aim, Section, milliseconds, number, seconds
from bench.rounds import interleave, percentile
from bench.setting import Setting, succeed

_PAUSE = 0.02
_TIMER = """
import time
def timed(call, count, pause):
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
        if pause:
            time.sleep(pause)
    return taken
"""
_SHELL = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
"""


def run(setting: Setting) -> Section:
    """Measure no-op executions back to back and with pauses."""
    count = setting.rounds.noop_cells
    with setting.sandbox() as sandbox, Worker(setting.native, setting.workspace()) as worker:
        worker.run(_TIMER + _SHELL)

        def guest(pause: float) -> list[float]:
            taken = []
            for _ in range(count):
                started = time.perf_counter()
                result = sandbox.execute("pass")
                taken.append(time.perf_counter() - started)
                succeed(result)
                if pause:
                    time.sleep(pause)
            return taken

        def native(pause: float) -> list[float]:
            cell = "lambda: shell.run_cell('pass', store_history=True)"
            return list(worker.run(f"result = timed({cell}, {count}, {pause})"))

        for warm_up in (guest, native):
            warm_up(0)
        found = interleave(
            [
                _measure("guest", guest, 0),
                _measure("native", native, 0),
                _measure("guest, pauses", guest, _PAUSE),
                _measure("native, pauses", native, _PAUSE),
            ],
            setting.rounds.noop,
            setting.tick,
            warm_up=False,
        )
    modes = {"back to back": "", "20 ms apart": ", pauses"}
    rows = [
        [
            mode,
            milliseconds(found, f"guest{key}"),
            milliseconds(found, f"guest{key} p99"),
            milliseconds(found, f"native{key}"),
            milliseconds(found, f"native{key} p99"),
            f"{number(found.ratio(f'guest{key}', f'native{key}'))}x",
        ]
        for mode, key in modes.items()
    ]
    medians = {mode: found.median(f"guest{key}") for mode, key in modes.items()}
    return Section(
        "No-op execute",
        f"`execute('pass')` beside native IPython's `InteractiveShell.run_cell('pass', store_history=True)` within its "
        f"own process; {count} per round, in ms: median over the rounds [best round].",
        ["", "sandbox, median", "p99", "native IPython, median", "p99", "ratio"],
        rows,
        [
            Aim(
                "a no-op under 1.5 ms",
                "median " + ", ".join(f"{seconds(value)} {mode}" for mode, value in medians.items()),
                max(medians.values()) < 0.0015,
            )
        ],
    )


def _measure(label: str, timed: Callable[[float], list[float]], pause: float) -> Callable[[], Mapping[str, float]]:
    def measure() -> Mapping[str, float]:
        taken = timed(pause)
        return {label: statistics.median(taken), f"{label} p99": percentile(taken, 0.99)}

    return measure
