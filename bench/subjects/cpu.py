"""A spread of CPU work, guest against native."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

from bench.native import ONE_THREAD, Worker
from bench.numeric_programs import LEARNING, LINEAR, LOOPS, NUMERIC_PROGRAMS, PANDAS, SORTING
from bench.programs import NUMERIC, Program
from bench.programs import PROGRAMS as SPREAD
from bench.report import Aim, Section, milliseconds, number
from bench.rounds import Samples, rotated
from bench.setting import Setting, succeed

PROGRAMS = (*SPREAD, *NUMERIC_PROGRAMS)
_AIMS = {LINEAR: 3.0, SORTING: 2.5, LOOPS: 2.0, PANDAS: 2.0, LEARNING: 2.5, NUMERIC: 1.8}

# Runs on both sides. The result is printed for the guest and left in `result` for the native worker.
_TIMER = """
def timed(source, repeats):
    import gc, time
    space = {}
    exec(compile(source, "<program>", "exec"), space)
    work, best = space["work"], float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    space.clear()
    del work
    gc.collect()
    return best
"""


def run(setting: Setting) -> Section:
    """Measure every program in each round: in a new sandbox, and in new native processes."""
    found = Samples()
    for turn in range(setting.rounds.cpu):
        _round(setting, found, turn)
    rows = [_row(found, program) for program in PROGRAMS]
    means = {}
    for group in dict.fromkeys(program.group for program in PROGRAMS):
        ratios = [found.ratio(f"{p.name} guest", _honest(p)) for p in PROGRAMS if p.group == group]
        means[group] = statistics.geometric_mean(ratios)
        rows.append([f"geometric mean, {group}", "", "", f"{number(means[group])}x", "", ""])
    return Section(
        "CPU work",
        f"The same text on both sides, timed inside by `perf_counter`, best of {setting.rounds.cpu_repeats} per round, "
        "in ms: median over the rounds [best]. Native with one thread has OMP_NUM_THREADS=1 and "
        "OPENBLAS_NUM_THREADS=1; the guest always has one. The means take one thread where both are given.",
        ["", "guest", "native", "guest/native", "native, one thread", "guest/one thread"],
        rows,
        [
            Aim(
                f"{group} at most {most}x of native's time with one thread",
                f"{number(means[group])}x",
                means[group] <= most,
            )
            for group, most in _AIMS.items()
        ],
    )


def _honest(program: Program) -> str:
    return f"{program.name} {'one thread' if program.threaded else 'native'}"


def _row(found: Samples, program: Program) -> list[str]:
    name = program.name
    row = [name, milliseconds(found, f"{name} guest"), milliseconds(found, f"{name} native")]
    row.append(f"{number(found.ratio(f'{name} guest', f'{name} native'))}x")
    if not program.threaded:
        return [*row, "", ""]
    ratio = found.ratio(f"{name} guest", f"{name} one thread")
    return [*row, milliseconds(found, f"{name} one thread"), f"{number(ratio)}x"]


def _round(setting: Setting, found: Samples, turn: int) -> None:
    with (
        setting.sandbox() as sandbox,
        Worker(setting.native, setting.workspace()) as worker,
        Worker(setting.native, setting.workspace(), ONE_THREAD) as single,
    ):
        succeed(sandbox.execute(_TIMER))
        worker.run(_TIMER)
        single.run(_TIMER)

        def guest(call: str) -> float:
            return float(succeed(sandbox.execute(f"print({call})")).stdout)

        def native(call: str) -> float:
            return float(worker.run(f"result = {call}"))

        def one_thread(call: str) -> float:
            return float(single.run(f"result = {call}"))

        for place, program in enumerate(PROGRAMS, 1):
            call = f"timed({program.source!r}, {setting.rounds.cpu_repeats})"
            contenders = [
                _measure(f"{program.name} guest", guest, call),
                _measure(f"{program.name} native", native, call),
            ]
            if program.threaded:
                contenders.append(_measure(f"{program.name} one thread", one_thread, call))
            for measure in rotated(contenders, turn + place):
                found.add(measure())
            setting.tick(turn * len(PROGRAMS) + place, setting.rounds.cpu * len(PROGRAMS))


def _measure(name: str, timed: Callable[[str], float], call: str) -> Callable[[], Mapping[str, float]]:
    return lambda: {name: timed(call)}
