"""What saving a notebook's variables, bringing them back and forking them costs."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import contenders
from bench.contenders import Cell, Client, Contender
from bench.report import Aim, Section, megabytes, milliseconds, number, seconds
from bench.rounds import Samples, interleave
from bench.setting import Setting, succeed
from wasm_kernel import SandboxLogger, fork_session, get_session_sandbox, list_snapshots
from wasm_kernel.host.runtime.memory import CHUNK
from wasm_kernel.host.store.memory_files import MEMORY
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.snapshots import BASE
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store

_SMALL = "n += 1"
_SMALLS = 5
_PAUSE = 0.1
_OFF = "– without checkpoints"
_PANDAS = """
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
rows = 1_000_000
sales = pd.DataFrame({
    "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), unit="D"),
    "store": rng.integers(0, 50, rows),
    "item": rng.integers(0, 5000, rows),
    "units": rng.poisson(3, rows),
    "price": rng.gamma(2, 10, rows).round(2),
})
items = pd.DataFrame({"item": range(5000), "cost": rng.gamma(2, 5, 5000).round(2)})
joined = sales.merge(items, on="item")
joined["margin"] = (joined["price"] - joined["cost"]) * joined["units"]
by_store = joined.groupby(["store", "day"])["margin"].agg(["sum", "mean", "count"]).reset_index()
n = 0
"""
_NUMPY = """
import numpy as np
array = np.random.default_rng(0).random({count})
n = 0
"""


@dataclass(frozen=True)
class _Notebook:
    """A session to save: the cell that makes it, what shows that it is back, and that all of it is right."""

    name: str
    make: str
    first: str
    whole: str


class _Run:
    """The measurements of one run: each method is a contender's turn and gives it named numbers."""

    def __init__(self, client: Client, setting: Setting) -> None:
        self._client, self._setting = client, setting
        self._quiet = SandboxLogger(level="error")

    def peer(self, contender: Contender, notebook: _Notebook) -> Mapping[str, float]:
        """dill or kishu: save, save again after small cells, bring back in another kernel."""
        place = self._setting.workspace()
        explicit = [] if contender.name == "kishu" else list(contender.save)
        small = [*explicit, _timed(_SMALL, contender.stored)]
        cells = [*contender.before, _timed(notebook.make, contender.stored), *small * (_SMALLS + 1)]
        done = self._client.notebook(contender, place, [*cells, notebook.whole, *contender.save], at_once=True)
        times = _times(done)
        stored = [size for _, _, size in times]
        waits = _waits(times)
        added = [stored[1], *(stored if explicit else (b - a for a, b in zip(stored[1:], stored[2:], strict=False)))]
        load = "\n".join([*contender.load, notebook.first])
        *_, first, whole = self._client.notebook(contender, place, [*contender.before, load, notebook.whole])
        self._check(contender, done[len(cells)], whole)
        return _named(
            contender.name,
            notebook,
            {
                "first": waits[0],
                "first stored": waits[0],
                "small": statistics.median(waits[1:]),
                "small stored": statistics.median(waits[1:]),
                "first bytes": added[0],
                "small bytes": statistics.median(added[2:]),
                "restore": first.seconds,
                "fresh": first.age,
            },
        )

    def ours(self, notebook: _Notebook) -> Mapping[str, float]:
        """The same with this kernel, and what its library does in a process that is there already."""
        contender, place = contenders.ours(), self._setting.workspace()
        cell = _timed(_SMALL)
        cells = [_timed(notebook.make), cell, "%session snapshot first", *[cell] * _SMALLS]
        last = ["%session snapshot last", cell]
        done = self._client.notebook(contender, place, [*cells, *last, notebook.whole], at_once=True)
        times = _times(done)
        waits = _waits(times)
        root, session_id = place / "workspace", contender.environ["WASM_KERNEL_SESSION"]
        taken = list(reversed(list_snapshots(root, session_id)))
        sizes = {s.snapshot_id: s.stored_bytes + _manifest(root, session_id, s.snapshot_id) for s in taken}
        cells_sizes = [sizes[s.snapshot_id] for s in taken if s.metadata.get("number")]
        kept = next(s for s in taken if s.label == "first")
        back = ["%session restore first", notebook.first, notebook.whole]
        first, restored, again, whole = self._client.notebook(contender, place, [notebook.first, *back])
        self._check(contender, done[-1], whole)
        values = {
            "first": waits[0],
            "first stored": times[2][0] - times[0][1],
            "small": statistics.median(waits[2:-1]),
            "small stored": waits[-1],
            "first bytes": cells_sizes[0],
            "small bytes": statistics.median(cells_sizes[2:]),
            "memory": kept.memory_bytes,
            "own": _own_bytes(root, session_id, kept.snapshot_id),
            "restore": restored.seconds + again.seconds,
            "fresh": first.age,
            **self._library(root, session_id, notebook),
        }
        return _named(contender.name, notebook, values)

    def _library(self, root: Path, session_id: str, notebook: _Notebook) -> dict[str, float]:
        started = time.perf_counter()
        with get_session_sandbox(session_id, workspace_root=root, logger=self._quiet, resume=True) as sandbox:
            succeed(sandbox.execute(notebook.first))
            resumed = time.perf_counter() - started
        shutil.rmtree(root / STATE_FOLDER / "snapshots" / MEMORY, ignore_errors=True)
        started = time.perf_counter()
        with get_session_sandbox(session_id, workspace_root=root, logger=self._quiet, resume=True) as sandbox:
            succeed(sandbox.execute(notebook.first))
            unpacked = time.perf_counter() - started
        snapshot_id = list_snapshots(root, session_id)[0].snapshot_id
        forks = []
        for _ in range(5):
            started = time.perf_counter()
            fork = fork_session(session_id, root, snapshot_id=snapshot_id, logger=self._quiet)
            forks.append(time.perf_counter() - started)
        started = time.perf_counter()
        with get_session_sandbox(fork, workspace_root=root, logger=self._quiet, resume=True) as sandbox:
            succeed(sandbox.execute(notebook.first))
            opened = time.perf_counter() - started
        fork_time = statistics.median(forks)
        return {"resume": resumed, "unpack": unpacked, "fork": fork_time, "fork result": fork_time + opened}

    def without(self, contender: Contender, name: str, notebook: _Notebook) -> Mapping[str, float]:
        """How long the next cell waits in a kernel that saves nothing."""
        cells = [_timed(notebook.make), *[_timed(_SMALL)] * (_SMALLS + 1)]
        waits = _waits(_times(self._client.notebook(contender, self._setting.workspace(), cells, at_once=True)))
        return _named(name, notebook, {"first": waits[0], "small": statistics.median(waits[1:])})

    def trips(self, contender: Contender, name: str, pause: float) -> Mapping[str, float]:
        """A cell that does nothing."""
        count = self._setting.rounds.snapshot_cells
        found = self._client.trips(contender, self._setting.workspace(), count, pause)
        return {f"{name} {pause} {key}": value for key, value in found.items()}

    def _check(self, contender: Contender, before: Cell, after: Cell) -> None:
        if before.error or after.error or before.text != after.text:
            raise RuntimeError(f"{contender.name} brought back something else: {before} {after}")


def _timed(code: str, path: str = "") -> str:
    """A cell that prints when its code began and ended, and how large a file was when it began."""
    size = f"os.path.getsize({path!r}) if os.path.exists({path!r}) else 0" if path else "0"
    head = f"import os, time; began = time.time(), {size}\n"
    return f"{head}{code.strip()}\nprint('TIMES', began[0], time.time(), began[1])"


def _times(done: Sequence[Cell]) -> list[tuple[float, float, float]]:
    failed = [cell.error for cell in done if cell.error]
    if failed:
        raise RuntimeError(f"a cell failed: {failed[0]}")
    lines = [line.split() for cell in done for line in cell.text.splitlines() if line.startswith("TIMES ")]
    return [(float(began), float(ended), float(size)) for _, began, ended, size in lines]


def _waits(times: Sequence[tuple[float, float, float]]) -> list[float]:
    """From the end of each cell's code to the beginning of the next one's."""
    return [after[0] - before[1] for before, after in zip(times, times[1:], strict=False)]


def _named(name: str, notebook: _Notebook, values: Mapping[str, float]) -> Mapping[str, float]:
    return {f"{name} {notebook.name} {key}": value for key, value in values.items()}


def _manifest(root: Path, session_id: str, snapshot_id: str) -> int:
    folder = root / STATE_FOLDER / "snapshots" / "manifests" / session_id
    return sum(os.stat(path).st_size for path in folder.glob(f"{snapshot_id}*"))


def _own_bytes(root: Path, session_id: str, snapshot_id: str) -> int:
    """Memory that is not as in the image: what the session itself has written."""
    with contextlib.closing(snapshot_store(root)) as store:
        table = read_snapshot(store, session_id, snapshot_id).table
    parts = [(len(names), name) for names in table.values() for name in names if name != BASE]
    return sum(CHUNK // count for count, _ in parts)


def run(setting: Setting) -> Section:
    """Measure notebooks of two sizes, and cells that do nothing."""
    large = setting.rounds.large
    notebooks = [
        _Notebook("pandas", _PANDAS, "print(len(joined), n)", "print(joined['margin'].sum(), by_store['sum'].sum())"),
        _Notebook(
            "numpy", _NUMPY.format(count=large // 8), "print(array[-1], n)", "print(array.sum(), array[::7].sum())"
        ),
    ]
    peers, missing = [contenders.dill(setting)], ""
    try:
        peers.append(contenders.kishu(setting))
    except RuntimeError as e:
        missing = f" kishu could not be installed: {str(e).strip().splitlines()[-1]}."
    off = contenders.ours("--WasmKernel.checkpoint=False")
    client = Client(setting)
    try:
        runs = _Run(client, setting)

        def whole(notebook: _Notebook) -> list[Callable[[], Mapping[str, float]]]:
            return [
                partial(runs.ours, notebook),
                *(partial(runs.peer, peer, notebook) for peer in peers),
                partial(runs.without, contenders.ours("--WasmKernel.checkpoint=False"), _OFF, notebook),
            ]

        def cells(pause: float) -> list[Callable[[], Mapping[str, float]]]:
            named = [(contenders.ours(), "wasm-kernel"), (off, _OFF), *((peer, peer.name) for peer in peers)]
            return [partial(runs.trips, contender, name, pause) for contender, name in named]

        measures = [*whole(notebooks[0]), *whole(notebooks[1]), *cells(0.0), *cells(_PAUSE)]
        found = interleave(measures, setting.rounds.snapshots, setting.tick, warm_up=False)
    finally:
        client.close()
    return _section(found, peers, large, setting.rounds.snapshot_cells, missing)


def _section(found: Samples, peers: Sequence[Contender], large: int, count: int, missing: str) -> Section:
    names = ["wasm-kernel", _OFF, *(peer.name for peer in peers)]
    sizes = {"pandas": "pandas", "numpy": f"{large / (1 << 30):g} GiB of numpy"}

    def row(label: str, key: str, show: Callable[[Samples, str], str] = milliseconds) -> list[str]:
        return [label, *(show(found, f"{name} {key}") if found.get(f"{name} {key}") else "" for name in names)]

    def size(samples: Samples, name: str) -> str:
        value = samples.median(name)
        return megabytes(value) if value >= 1e6 else f"{value / 1e6:.3f}"

    rows = []
    for key, title in sizes.items():
        rows += [
            row(f"{title}: memory, MB", f"{key} memory", size),
            row(f"{title}: memory that is not as in the image, MB", f"{key} own", size),
            row(f"{title}: first checkpoint, next cell waits", f"{key} first"),
            row(f"{title}: first checkpoint, until it is stored", f"{key} first stored"),
            row(f"{title}: first checkpoint, MB stored", f"{key} first bytes", size),
            row(f"{title}: after `{_SMALL}`, next cell waits", f"{key} small"),
            row(f"{title}: after `{_SMALL}`, until it is stored", f"{key} small stored"),
            row(f"{title}: after `{_SMALL}`, MB stored", f"{key} small bytes", size),
            row(f"{title}: restore in a running kernel, first result", f"{key} restore"),
            row(f"{title}: start of a new kernel, first result", f"{key} fresh"),
            row(f"{title}: library in a warm process, first result", f"{key} resume"),
            row(f"{title}: the same, without the file it was left in", f"{key} unpack"),
            row(f"{title}: fork", f"{key} fork"),
            row(f"{title}: fork, first result", f"{key} fork result"),
        ]
    for pause, title in ((0.0, "back to back"), (_PAUSE, f"{_PAUSE * 1e3:.0f} ms apart")):
        rows += [row(f"`pass` {title}, median", f"{pause} median"), row(f"`pass` {title}, p99", f"{pause} p99")]

    def own(key: str) -> float:
        return found.median(f"wasm-kernel {key}")

    waits = {
        f"after `{_SMALL}` with {title}": own(f"{key} small") - found.median(f"{_OFF} {key} small")
        for key, title in sizes.items()
    }
    trips = {
        f"`pass` {title}": own(f"{pause} median") - found.median(f"{_OFF} {pause} median")
        for pause, title in ((0.0, "back to back"), (_PAUSE, "with pauses"))
    }
    cost = {**waits, **trips}
    of_all, of_own, of_dill = (
        found.ratio("wasm-kernel pandas first bytes", key)
        for key in ("wasm-kernel pandas memory", "wasm-kernel pandas own", "dill pandas first bytes")
    )
    return Section(
        "Snapshots",
        f"Times in ms. Two notebooks: DataFrames of about 100 MB (a million rows and what a merge and a groupby make "
        f"of them), and {sizes['numpy']} random floats, which nothing compresses. All cells are sent at once; the next "
        "cell waits: from the end of a cell's code to the beginning of the next one's, by the kernel's own clock. "
        "wasm-kernel leaves a checkpoint after every cell and writes it in the background; until it is stored: "
        "`%session snapshot` right after the cell. dill saves when asked to: `dump_session` between cells. kishu "
        "commits after every cell. Restore in a running kernel: `%session restore`, `load_session`, `checkout`, from "
        "sending it to the printed result; the next line is from the start of the kernel's process on (wasm-kernel "
        "goes on by itself). Library: `get_session_sandbox(resume=True)` and one `execute`, of a session that a kernel "
        "has just closed: its memory is mapped from a file, without that read from the packs. What is brought back is "
        f"compared. MB are 10^6 bytes. `pass`: execute_request to idle, {count} of them; dill's is a plain "
        "ipykernel." + missing,
        ["", "wasm-kernel", _OFF, *(peer.label for peer in peers)],
        rows,
        [
            Aim(
                "a checkpoint after a small cell costs the next one 1.5 ms or less",
                ", ".join(f"{number(value * 1e3)} ms {name}" for name, value in cost.items()),
                max(cost.values()) <= 0.0015,
            ),
            Aim(
                "a session of 100 MB is back, first result included, in under 50 ms",
                f"{seconds(own('pandas resume'))} in a warm process (from the packs {seconds(own('pandas unpack'))}), "
                f"{seconds(own('pandas fresh'))} from the start of a new kernel on, "
                f"{seconds(own('pandas restore'))} by `%session restore`",
                own("pandas resume") < 0.05,
            ),
            Aim(
                f"one of {sizes['numpy']} in under 1.5 s",
                f"{seconds(own('numpy resume'))} in a warm process, {seconds(own('numpy restore'))} by "
                "`%session restore`",
                own("numpy resume") < 1.5,
            ),
            Aim(
                "a pandas session is stored in less than a quarter of its memory",
                f"{number(of_own)} of what is not as in the image, {number(of_all)} of all of it; {number(of_dill)} of "
                "what dill stores",
                of_own < 0.25,
            ),
            Aim(
                "a fork with pandas in 5 ms or less",
                ", ".join(f"{seconds(own(f'{key} fork'))} with {title}" for key, title in sizes.items()),
                own("pandas fork") <= 0.005,
            ),
        ],
    )
