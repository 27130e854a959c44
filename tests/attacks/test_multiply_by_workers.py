"""Having more by having workers: limits are divided among them, never multiplied.

The host looks at what all of them have at the same time. Attacks with a marker leave a file when they got their way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, all_entries, quietly
from wasm_kernel import SandboxResult, Stream
from wasm_kernel.host.runtime import tasks, worker_limits, workers
from wasm_kernel.sessions.sandboxes import ready_image

_PROCESSORS, _WORKERS = 8, 3
_LATE = 15.0  # seconds: not stopped in time, on a machine that does other things, too

_WORDS = """
import os, time, _host, wasm_guest.wire as wire, wasm_guest.workers as w
from concurrent.futures import ProcessPoolExecutor
def ask(event):
    try: return _host.call(wire.encode_event(event))
    except OSError as error: return error
def together(name, count, seconds=3):
    '''Leave a file when so many are here at the same time.'''
    open(f'/app/{name}-{os.getpid()}', 'w').close()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if sum(n.startswith(name) for n in os.listdir('/app')) >= count:
            open('/app/escaped', 'w').close()
            time.sleep(0.1)
            return
        time.sleep(0.01)
"""


def _attack(name: str, code: str, first: str = "") -> Attack:
    return Attack(name, quietly(code, _WORDS), first)


class _WorkerScene(Scene):
    """A machine with more processors than the guest may use."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        self._peaks = {"workers": 0, "waiting": 0}
        super().__init__(folder, guarded)
        self.stack.enter_context(guards.patched((workers, "processors", lambda: _PROCESSORS)))
        self._watch()

    def _watch(self) -> None:
        start, put, peaks = workers.LocalWorkers._start_one, tasks.Results.put, self._peaks

        def started(runner: Any, *args: Any) -> None:
            start(runner, *args)
            peaks["workers"] = max(peaks["workers"], len(runner._workers))

        def came(results: Any, *args: Any) -> None:
            put(results, *args)
            peaks["waiting"] = max(peaks["waiting"], results._bytes)

        changes = ((workers.LocalWorkers, "_start_one", started), (tasks.Results, "put", came))
        self.stack.enter_context(guards.patched(*changes))

    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "workers": _WORKERS}

    def set_up(self) -> None:
        super().set_up()
        self._peaks.update(dict.fromkeys(self._peaks, 0))

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = ["all of them had it at once"] if (self.workspace / "escaped").exists() else []
        return found + ([f"it ran for {result.duration_seconds:.1f} s"] if result.duration_seconds > _LATE else [])


class _ForkScene(_WorkerScene):
    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        peak = self._peaks["workers"]
        return [f"{peak} workers at a time"] if peak > _WORKERS else []


class TestForkMany(AttackTests):
    family = Family(
        _ForkScene,
        [
            _attack("a large pool", "with ProcessPoolExecutor(100) as pool: list(pool.map(time.sleep, [0.05] * 30))"),
            _attack("many pools", "pools = [ProcessPoolExecutor(3) for _ in range(10)]\nfor p in pools: p.submit(time.sleep, 0.1)"),
            _attack("asked for directly", "team = w.Team(1); team.limit = 0\nask(wire.StartWorkers(1, 0, id(team._main), 10**6))"),
            _attack("another limit", "w.limit = 1000\nwith ProcessPoolExecutor(50) as pool: list(pool.map(time.sleep, [0.05] * 20))"),
        ],
        lambda: guards.patched((workers, "most_workers", lambda policy: _PROCESSORS)),
        in_depth=[
            _attack("a worker's workers", """
def bomb():
    w.in_worker, w.limit = False, 8
    with ProcessPoolExecutor(8) as pool: return list(pool.map(time.sleep, [0.1] * 8))
with ProcessPoolExecutor(3) as pool: [pool.submit(bomb) for _ in range(6)]
"""),
        ],
    )  # fmt: skip


class _MemoryScene(_WorkerScene):
    """Room for one to have 100 MB more, and not for three."""

    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "memory_bytes": 640 << 20}


_ARRAY = "import numpy; array = numpy.ones(24 << 20)"  # 192 MB


class TestMultiplyMemory(AttackTests):
    family = Family(
        _MemoryScene,
        [
            _attack("each allocates", """
def take(_):
    held = bytearray(180 << 20)
    together('held', 3)
with ProcessPoolExecutor(3) as pool: list(pool.map(take, range(3)))
"""),
            _attack("each writes to what is there", """
def spoil(n):
    array[:] = n
    time.sleep(0.2)
    together('spoilt', 3)
with ProcessPoolExecutor(3) as pool: list(pool.map(spoil, range(3)))
""", _ARRAY),
        ],
        lambda: guards.patched(
            (worker_limits.Looks, "may_be_too_much", lambda self: False),
            (workers, "divide", lambda wanted, size, given, policy, fuel: worker_limits.Share(wanted, 4 << 30, 4 << 30, 0, fuel)),
        ),
    )  # fmt: skip


class _ResultScene(_WorkerScene):
    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self.stack.enter_context(guards.patched((tasks, "MOST_WAITING_BYTES", 4 << 20)))

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        waiting = self._peaks["waiting"]
        return [f"{waiting:,} bytes wait"] if waiting > (4 << 20) + _WORKERS * (1 << 20) else []


class TestFloodWithResults(AttackTests):
    family = Family(
        _ResultScene,
        [
            _attack("results that nobody fetches", """
pool = ProcessPoolExecutor(3)
for _ in range(30): pool.submit(bytes, 1 << 20)
time.sleep(1.5)
"""),
        ],
        lambda: guards.patched((tasks.Results, "has_room", lambda self, size: True)),
        in_depth=[
            _attack("one that is too large", "ProcessPoolExecutor(1).submit(lambda: ask(wire.TaskDone(0, 1, (bytes(300 << 20),)))).result()"),
            _attack("tasks that nobody takes", "for n in range(200): ask(wire.SubmitTask(n, 0, n, (bytes(1 << 20),)))"),
        ],
    )  # fmt: skip


class _OutputScene(_WorkerScene):
    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "stdout_max_bytes": 20_000 if self.guarded else 1 << 30}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        size = sum(len(event.text) for event in self.events if isinstance(event, Stream))
        return [f"{size} bytes printed"] if size > 21_000 else []


class TestFloodTheOutputFromWorkers(AttackTests):
    family = Family(
        _OutputScene,
        [
            _attack("each prints", "with ProcessPoolExecutor(3) as pool: list(pool.map(print, ['x' * 10_000] * 9))"),
            _attack("raw writes", "with ProcessPoolExecutor(3) as pool: list(pool.map(os.write, [1] * 9, [b'x' * 10_000] * 9))"),
        ],
        guards.by_scene,
    )  # fmt: skip


class _DiskScene(_WorkerScene):
    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "workspace_bytes": 8 << 20}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        used = sum(path.lstat().st_size for path in all_entries(self.workspace, self.scratch))
        return [f"{used:,} bytes on the disk"] if used > 9 << 20 else []


class TestFillTheDiskTogether(AttackTests):
    family = Family(
        _DiskScene,
        [
            _attack("each fills its part", """
def fill(n):
    with open(f'/app/{n}', 'wb', buffering=0) as file:
        file.write(b'x')
        time.sleep(0.3)  # until all have asked how much they may write
        for _ in range(6):
            try: file.write(bytes(1 << 20))
            except OSError: break
with ProcessPoolExecutor(3) as pool: list(pool.map(fill, range(3)))
"""),
        ],
        lambda: guards.patched((worker_limits.SharedRoom, "give", lambda self, who, kind, wanted: self._measure(kind))),
    )  # fmt: skip


class _TimeScene(_WorkerScene):
    def _limits(self) -> dict[str, Any]:
        limit = {"timeout_seconds": 0.5 if self.guarded else None, "interrupt_grace_seconds": 0.15}
        return {**super()._limits(), **limit}

    def execute(self, code: str) -> SandboxResult:
        return super().execute(code.replace("SECONDS", "3600" if self.guarded else "0.7"))


class TestWorkersOutliveTheTimeLimit(AttackTests):
    family = Family(
        _TimeScene,
        [
            _attack("a worker that never ends", """
def spin():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try: pass
        except BaseException: pass
    open('/app/escaped', 'w').close()
ProcessPoolExecutor(2).submit(spin).result()
"""),
            _attack("one that sleeps while the guest goes on", """
ProcessPoolExecutor(2).submit(lambda: (time.sleep(SECONDS), open('/app/escaped', 'w').close()))
while True:
    try: time.sleep(0.01)
    except BaseException: break
    if os.path.exists('/app/escaped'): break
"""),
        ],
        guards.by_scene,
    )  # fmt: skip


class _FuelScene(_WorkerScene):
    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "fuel_budget": 300_000_000 if self.guarded else 2**62}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        used = result.fuel_consumed or 0
        return super().breaches(attack, result) + ([f"{used:,} instructions"] if used > 301_000_000 else [])


@pytest.mark.metered
class TestBurnFuelTogether(AttackTests):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def loaded(cls) -> None:
        """The metered module is loaded once per process; its descriptors are no leak."""
        ready_image(metered=True).modules(metered=True)

    family = Family(
        _FuelScene,
        [
            _attack("each burns its own", """
def burn(n):
    for i in range(3_000_000): pass
    together('burnt', 3)
with ProcessPoolExecutor(3) as pool: list(pool.map(burn, range(3)))
"""),
        ],
        guards.by_scene,
    )  # fmt: skip
