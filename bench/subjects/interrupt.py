"""How soon an interrupt ends the code that runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from bench.report import Section, milliseconds, number
from bench.rounds import interleave
from bench.setting import Setting
from wasm_kernel import BaseSandbox, OutcomeKind, SandboxResult

_CODE = {"`while True: pass`": "while True: pass", "`time.sleep(100)`": "import time; time.sleep(100)"}
_SETTLE = 0.05
_STEP = 0.0013  # another phase of every periodic thing in each round


def run(setting: Setting) -> Section:
    """Measure from the call of `interrupt` to the return of `execute`."""
    with setting.sandbox() as sandbox:
        found = interleave(
            [_measure(sandbox, name, code) for name, code in _CODE.items()], setting.rounds.interrupts, setting.tick
        )
        kept = sandbox.execute("kept").success
    if not kept:
        raise RuntimeError("an interrupt cost the guest its variables")
    rows = [[name, milliseconds(found, name), number(max(found.values(name)) * 1e3)] for name in _CODE]
    return Section(
        "Interrupt",
        "From the call of `interrupt()` to the return of `execute`, in ms. The guest's variables are kept (checked).",
        ["running", "median [best]", "worst"],
        rows,
    )


def _measure(sandbox: BaseSandbox, name: str, code: str) -> Callable[[], Mapping[str, float]]:
    turn = 0

    def measure() -> Mapping[str, float]:
        nonlocal turn
        turn += 1
        begun = threading.Event()
        ended: list[tuple[float, SandboxResult]] = []

        def execute() -> None:
            result = sandbox.execute(
                f"kept = 1; print('begun', flush=True)\n{code}", on_event=lambda event: begun.set()
            )
            ended.append((time.perf_counter(), result))

        thread = threading.Thread(target=execute)
        thread.start()
        begun.wait(10)
        time.sleep(_SETTLE + turn * _STEP)
        called = time.perf_counter()
        sandbox.interrupt()
        thread.join(30)
        if not ended or ended[0][1].outcome.kind is not OutcomeKind.INTERRUPTED:
            raise RuntimeError(f"{code!r} was not interrupted")
        return {name: ended[0][0] - called}

    return measure
