"""Workers: what two cores give, what a fork costs, and what idle workers weigh; the same code natively."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from bench.native import ONE_THREAD, Worker
from bench.report import Aim, Section, megabytes, milliseconds, number, seconds
from bench.rounds import Samples, interleave
from bench.setting import Setting, succeed
from wasm_kernel import BaseSandbox, ExecutionPolicy, create_sandbox
from wasm_kernel.host.runtime import workers

_MOST = 8
_FORKS = 12  # of which the median counts

# Runs on both sides: seconds for a job with one worker's work done in line, or with two workers. Functions have to be
# in __main__ for native processes to find them.
_JOBS = """
import statistics, sys, time
from concurrent.futures import ProcessPoolExecutor
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
def count(n):
    total = 0
    for i in range(n): total += i * i % 7
    return total
def python_map(n, size):
    items = [int(800_000 * size * SCALE)] * 10
    if n == 1: return [count(item) for item in items]
    with ProcessPoolExecutor(n) as pool: return list(pool.map(count, items))
X, y = make_classification(1500, 20, random_state=0)
def grid(n, size):
    model, space = RandomForestClassifier(int(36 * size), random_state=0), {'max_depth': [3, 5], 'max_features': [3, 6]}
    return GridSearchCV(model, space, cv=3, n_jobs=n, refit=False).fit(X, y).cv_results_['mean_test_score'].tolist()
def forest(n, size):
    return RandomForestClassifier(int(270 * size), random_state=0, n_jobs=n).fit(X, y).predict(X).tolist()
sys.modules['__main__'].count = count
count.__module__ = '__main__'
def job(name, n, size):
    started = time.perf_counter()
    found = globals()[name](n, size)
    return time.perf_counter() - started, found
def fork_and_join(n, times):
    found = []
    for _ in range(times):
        started = time.perf_counter()
        with ProcessPoolExecutor(n) as pool: list(pool.map(abs, range(n)))
        found.append(time.perf_counter() - started)
    return statistics.median(found)
"""
_NAMES = {
    "python_map": "`map` in pure Python",
    "grid": "`GridSearchCV(n_jobs=2)`",
    "forest": "`RandomForest(n_jobs=2)`",
}
_SIZES = {1: "1 s", 5: "5 s"}
_LEAST = {1: 1.6, 5: 1.8}  # speed-up


def run(setting: Setting) -> Section:
    """Measure jobs of about one and five seconds with one worker and with two, and what workers cost."""
    costs, aims = _costs(setting)
    with setting.sandbox() as sandbox, Worker(setting.native, setting.workspace(), ONE_THREAD) as native:
        succeed(sandbox.execute(_JOBS.replace("SCALE", "1")))
        native.run(_JOBS.replace("SCALE", "3") + "result = None")

        def guest(call: str) -> tuple[float, object]:
            found: tuple[float, object] = eval(succeed(sandbox.execute(f"print(repr({call}))")).stdout)
            return found

        def measure() -> Mapping[str, float]:
            found: dict[str, float] = {}
            for name in _NAMES:
                for size in _SIZES:
                    sides = {}
                    for n in (1, 2):
                        call = f"job({name!r}, {n}, {size})"
                        found[f"{name} {size} guest {n}"], sides[n] = guest(call)
                        found[f"{name} {size} native {n}"], _ = native.run(f"result = {call}")
                    if sides[1] != sides[2]:
                        raise RuntimeError(f"{name} gives another result with two workers")
            return found

        samples = interleave([measure], setting.rounds.workers, setting.tick, warm_up=False)
    rows = [_row(samples, name, size) for name in _NAMES for size in _SIZES]
    for size, least in _LEAST.items():
        found = {name: samples.ratio(f"{name} {size} guest 1", f"{name} {size} guest 2") for name in _NAMES}
        told = ", ".join(f"{number(ratio)}x {_NAMES[name]}" for name, ratio in found.items())
        aims.append(
            Aim(f"jobs of {_SIZES[size]} {least} times as fast with two workers", told, min(found.values()) >= least)
        )
    return Section(
        "Workers",
        "Jobs timed inside, in ms: median over the rounds [best]. The same code natively: processes forked by "
        "`ProcessPoolExecutor`, loky for scikit-learn (whose start is in it), threads for RandomForest; its `map` "
        f"counts three times as far. Results are compared. {costs}",
        ["", "guest, in line", "two workers", "speed-up", "native, in line", "two workers", "speed-up"],
        rows,
        aims,
    )


def _row(samples: Samples, name: str, size: int) -> list[str]:
    row = [f"{_NAMES[name]}, {_SIZES[size]}"]
    for side in ("guest", "native"):
        one, two = f"{name} {size} {side} 1", f"{name} {size} {side} 2"
        row += [milliseconds(samples, one), milliseconds(samples, two), f"{number(samples.ratio(one, two))}x"]
    return row


def _costs(setting: Setting) -> tuple[str, list[Aim]]:
    """Sentences about forks, and aims, in a sandbox that may have eight workers on whatever machine this is."""
    with _eight_workers(setting) as sandbox, Worker(setting.native, setting.workspace(), ONE_THREAD) as native:
        succeed(sandbox.execute(_JOBS.replace("SCALE", "1")))
        native.run(_JOBS.replace("SCALE", "1") + "result = None")
        forks = {}
        for n in (2, _MOST):
            guest = float(succeed(sandbox.execute(f"print(fork_and_join({n}, {_FORKS}))")).stdout)
            forks[n] = guest, float(native.run(f"result = fork_and_join({n}, {_FORKS})"))
        weight = _weight(sandbox)
    told = ", ".join(
        f"of {n} workers {1000 * guest:.0f} ms (native {1000 * other:.0f} ms)" for n, (guest, other) in forks.items()
    )
    text = f"Fork and join, median of {_FORKS}: {told}. {_MOST} idle workers add {weight / 1e6:.0f} MB."
    two, most = forks[2][0], forks[_MOST][0]
    return text, [
        Aim(
            "fork and join of 2 workers in 30 ms, of 8 in 60 ms",
            f"{seconds(two)}, {seconds(most)}",
            two < 0.03 and most < 0.06,
        ),
        Aim(f"{_MOST} idle workers add less than 60 MB", f"{megabytes(weight)} MB", weight < 60e6),
    ]


@contextmanager
def _eight_workers(setting: Setting) -> Iterator[BaseSandbox]:
    with mock.patch.object(workers, "processors", lambda: _MOST):
        policy = ExecutionPolicy(workers=_MOST)
        with create_sandbox(policy=policy, workspace=setting.workspace()) as sandbox:
            yield sandbox


def _weight(sandbox: BaseSandbox) -> int:
    """How much more memory this process has while eight workers sleep."""
    before, found = _proportional_size(), 0
    cell = f"with ProcessPoolExecutor({_MOST}) as pool: list(pool.map(time.sleep, [1.0] * {_MOST}))"
    thread = threading.Thread(target=lambda: succeed(sandbox.execute(cell)))
    thread.start()
    while thread.is_alive():
        if sum(t.name.startswith("wasm-kernel-worker") for t in threading.enumerate()) == _MOST:
            found = max(found, _proportional_size() - before)
        time.sleep(0.05)
    return found


def _proportional_size() -> int:
    return int(Path("/proc/self/smaps_rollup").read_text().split("Pss:")[1].split()[0]) << 10
