"""Whether two sandboxes of one process use two cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from bench.report import Section, milliseconds, number
from bench.rounds import interleave
from bench.setting import Setting, succeed
from wasm_kernel import BaseSandbox, SandboxResult

_CELL = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(29)
"""


def run(setting: Setting) -> Section:
    """Measure a CPU-bound cell alone, twice in a row, and in two sandboxes at once."""
    with setting.sandbox() as first, setting.sandbox() as second:

        def timed(*sandboxes: BaseSandbox) -> float:
            """Wall time of the cell in all these sandboxes at once."""
            runs: list[tuple[float, float, SandboxResult]] = []
            gate = threading.Barrier(len(sandboxes))

            def execute(sandbox: BaseSandbox) -> None:
                gate.wait()
                started = time.perf_counter()
                result = sandbox.execute(_CELL)
                runs.append((started, time.perf_counter(), result))

            threads = [threading.Thread(target=execute, args=(sandbox,)) for sandbox in sandboxes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if len(runs) != len(sandboxes):
                raise RuntimeError("a sandbox's thread died")
            for _, _, result in runs:
                succeed(result)
            return max(ended for _, ended, _ in runs) - min(started for started, _, _ in runs)

        def alone() -> Mapping[str, float]:
            return {"alone": timed(first)}

        def in_turn() -> Mapping[str, float]:
            return {"in turn": timed(first) + timed(second)}

        def at_once() -> Mapping[str, float]:
            return {"at once": timed(first, second)}

        found = interleave([alone, in_turn, at_once], setting.rounds.threads, setting.tick)
    return Section(
        "Two sandboxes on two threads",
        "Wall time of a CPU-bound cell (`fib(29)`), in ms. The host's interpreter lock is free while a guest runs.",
        ["", "median [best]", "speed-up"],
        [
            ["one sandbox alone", milliseconds(found, "alone"), ""],
            ["two, one after the other", milliseconds(found, "in turn"), "1"],
            ["two at once", milliseconds(found, "at once"), f"{number(found.ratio('in turn', 'at once'))}x"],
        ],
    )
