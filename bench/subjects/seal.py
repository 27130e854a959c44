"""What sealing adds to outputs on their way to a front end. The tables are pandas' own, made in the sandbox."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from bench.report import Aim, Section, milliseconds, number, seconds
from bench.rounds import Measure, interleave, percentile
from bench.setting import Setting, succeed
from wasm_kernel import DisplayData, ExecuteResult
from wasm_kernel.kernel.seal.sealed_messages import Seal

_PREPARE = """
import numpy as np, pandas as pd
pd.set_option("display.max_rows", None)
frame = lambda rows: pd.DataFrame(np.arange(rows * 10.0).reshape(rows, 10))
"""
_SMALL, _LARGE = "a DataFrame of 60 rows", "10 MB of table"
_OUTPUTS = {
    _SMALL: "frame(60)",
    _LARGE: "frame(33_000)",
    "a Styler of 60 rows": "frame(60).style.background_gradient()",
    "a figure (png)": "import matplotlib.pyplot as plt; display(plt.plot([1, 3, 2])[0].figure); plt.close('all')",
    "an sklearn diagram": "from sklearn.linear_model import LogisticRegression; LogisticRegression()",
}


def run(setting: Setting) -> Section:
    """Seal what real cells gave."""
    with setting.sandbox() as sandbox:
        succeed(sandbox.execute(_PREPARE))
        bundles = {name: _bundle(sandbox, code) for name, code in _OUTPUTS.items()}
    seal = Seal()

    def measure(name: str) -> Measure:
        def once() -> Mapping[str, float]:
            started = time.perf_counter()
            seal.bundle(bundles[name])
            return {name: time.perf_counter() - started}

        return once

    found = interleave([measure(name) for name in bundles], setting.rounds.noop_cells // 10, setting.tick)
    rows = [
        [
            name,
            f"{_size(bundle) / 1e6:.2f}",
            milliseconds(found, name),
            number(percentile(found.values(name), 0.99) * 1e3),
        ]
        for name, bundle in bundles.items()
    ]
    small, large = found.median(_SMALL), found.median(_LARGE)
    aims = (
        Aim("a DataFrame of 60 rows under 2 ms", seconds(small), small < 0.002),
        Aim("10 MB of table under 0.5 s", seconds(large), large < 0.5),
    )
    header = ["output", "MB", "median [best], ms", "p99, ms"]
    return Section("Sealed outputs", "What sealing adds before an output is sent.", header, rows, aims)


def _bundle(sandbox: Any, code: str) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []

    def on_event(event: Any) -> None:
        if isinstance(event, DisplayData | ExecuteResult):
            shown.append(event.data)

    succeed(sandbox.execute(code, on_event=on_event))
    return shown[0]


def _size(bundle: dict[str, Any]) -> int:
    return sum(len(value) for value in bundle.values() if isinstance(value, str))
