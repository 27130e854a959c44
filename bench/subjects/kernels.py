"""The kernel beside other Python kernels, through a Jupyter client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.native import Worker, beside, environment
from bench.report import Aim, Section, megabytes, milliseconds, number
from bench.rounds import Samples, interleave
from bench.setting import Setting

_OURS = "wasm-kernel"
_NATIVE = "ipykernel"
_PEERS = {"xeus-python": "xpython", "akernel[subprocess]": "akernel", "async-kernel": "async"}  # and their kernelspecs
_CHILDREN = Path(__file__).parents[1] / "children"
_KERNELSPEC = Path(__file__).parents[2] / "kernelspec"
_MORE = 4
_INTERRUPTS = 5


@dataclass(frozen=True)
class _Kernel:
    """A kernel to be measured."""

    name: str
    version: str
    argv: list[str]
    interrupt_mode: str

    @staticmethod
    def of(name: str, environment_folder: Path, kernelspec: Path) -> _Kernel:
        """As Jupyter would start it."""
        spec = json.loads((kernelspec / "kernel.json").read_text())
        program, *arguments = spec["argv"]
        programs = environment_folder / "bin"
        source = f"from importlib.metadata import version; print(version({name!r}))"
        version = subprocess.run(
            [programs / "python", "-c", source], env=environment(), capture_output=True, text=True, check=True
        )
        mode = spec.get("interrupt_mode", "signal")
        return _Kernel(name, version.stdout.strip(), [str(programs / program), *arguments], mode)


def run(setting: Setting) -> Section:
    """Measure all kernels that can be installed. Call it before this process has a sandbox."""
    contenders, missing = _contenders(setting)
    with Worker(setting.native, setting.workspace()) as worker:
        worker.run(f"import sys; sys.path.insert(0, {str(_CHILDREN)!r})\nimport kernel_client")

        def measure(what: str, kernel: _Kernel, *extra: int) -> Mapping[str, float]:
            arguments = (kernel.argv, kernel.interrupt_mode, str(setting.workspace()), *extra)
            try:
                found = worker.run(f"result = kernel_client.{what}(*{arguments!r})")
            except RuntimeError as e:
                raise RuntimeError(f"{kernel.name}: {e}") from e
            return {f"{kernel.name} {key}": value for key, value in found.items()}

        def all_in(what: str, rounds: int, *extra: int, warm_up: bool = False) -> Samples:
            measures = [partial(measure, what, kernel, *extra) for kernel in contenders]
            return interleave(measures, rounds, setting.tick, warm_up)

        rounds = setting.rounds
        lives = all_in("life", rounds.kernel_lives, warm_up=True)
        memory = all_in("memory", rounds.kernel_memory, _MORE)
        cells = all_in("cells", rounds.kernel_cells, rounds.noop_cells, _INTERRUPTS)
    return _section(contenders, missing, rounds.noop_cells, lives, memory, cells)


def _contenders(setting: Setting) -> tuple[list[_Kernel], list[str]]:
    """The kernels, and the names of those that cannot be installed here."""
    native = setting.native.parents[1]
    found = [
        _Kernel.of(_OURS, Path(sys.prefix), _KERNELSPEC),
        _Kernel.of(_NATIVE, native, native / "share/jupyter/kernels/python3"),
    ]
    missing = []
    for requirement, kernelspec in _PEERS.items():
        name = requirement.partition("[")[0]
        try:
            folder = beside(setting.native, requirement)
        except RuntimeError:
            missing.append(name)
        else:
            found.append(_Kernel.of(name, folder, folder / "share/jupyter/kernels" / kernelspec))
    return found, missing


def _section(
    kernels: Sequence[_Kernel], missing: Sequence[str], count: int, lives: Samples, memory: Samples, cells: Samples
) -> Section:
    def row(label: str, key: str, samples: Samples, show: Callable[[Samples, str], str] = milliseconds) -> list[str]:
        return [label, *(cell(kernel.name, key, samples, show) for kernel in kernels)]

    def cell(name: str, key: str, samples: Samples, show: Callable[[Samples, str], str]) -> str:
        if len(samples.get(f"{name} {key}")) < len(samples.get(f"{_NATIVE} {key}")):
            return "ends the kernel"
        text = show(samples, f"{name} {key}")
        if key == "lines" and (lost := 100 - 100 * samples.best(f"{name} delivered")):
            return f"{text}, {f'up to {lost:.0f}% lost' if lost > 0.5 else 'text differs'}"
        return text if name == _NATIVE else f"{text}, {number(samples.ratio(f'{name} {key}', f'{_NATIVE} {key}'))}x"

    def ratio(samples: Samples, key: str) -> float:
        return samples.ratio(f"{_OURS} {key}", f"{_NATIVE} {key}")

    def median_megabytes(samples: Samples, name: str) -> str:
        return megabytes(samples.median(name))

    def aim(what: str, most: float, samples: Samples, key: str) -> Aim:
        found = ratio(samples, key)
        return Aim(f"{what}: at most {most}x of ipykernel's", f"{number(found)}x", found <= most)

    five, lines = ratio(memory, "five"), ratio(cells, "lines")
    complete = cells.best(f"{_OURS} delivered") == 1
    left_out = f" Not measured, because it does not install here: {', '.join(missing)}." if missing else ""
    return Section(
        "Kernels",
        "Each in its own process, driven over its sockets by a client that tries to connect every 3 ms; times in ms, "
        "PSS in MB (10^6 bytes) after a second of rest, with the ratio to ipykernel. `start`: of the process, until "
        "kernel_info_reply. DataFrame: `import pandas as pd; pd.DataFrame({'a': [1, 2]})` sent once the kernel "
        f"answers. No-op: `pass`, execute_request to idle, {count} in a row, and {count // 3} with pauses of 50 ms, "
        "like `1/0`. Lines: `print(i)`, until idle, the text "
        "compared. Interrupt of `while True: pass`: until the cell's reply, in a kernel that goes on with its "
        f"variables.{left_out}",
        ["", *(f"{kernel.name} {kernel.version}" for kernel in kernels)],
        [
            row("start", "start", lives),
            row("start to first DataFrame", "frame", lives),
            row("no-op, median", "trip", cells),
            row("no-op, p99", "trip p99", cells),
            row("no-op, 50 ms apart", "apart", cells),
            row("`1/0`", "error", cells),
            row("100,000 lines", "lines", cells),
            row("interrupt", "interrupt", cells),
            row("shutdown", "shutdown", lives),
            row("PSS, idle", "idle", memory, median_megabytes),
            row("PSS with pandas", "pandas", memory, median_megabytes),
            row(f"PSS of {_MORE + 1} with pandas", "five", memory, median_megabytes),
        ],
        [
            aim("first DataFrame, without a kernel host", 0.5, lives, "frame"),
            aim("no-op, median", 0.7, cells, "trip"),
            aim("no-op, p99", 1.0, cells, "trip p99"),
            aim("no-op 50 ms apart", 0.9, cells, "apart"),
            aim("an error", 1.0, cells, "error"),
            aim("interrupt", 1.0, cells, "interrupt"),
            Aim(f"{_MORE + 1} kernels with pandas in less memory than ipykernel's", f"{number(five)}x", five < 1),
            Aim(
                "100,000 lines, all delivered: at most 0.4x of ipykernel's",
                f"{number(lines)}x" + ("" if complete else ", not the text that was printed"),
                lines <= 0.4 and complete,
            ),
        ],
    )
