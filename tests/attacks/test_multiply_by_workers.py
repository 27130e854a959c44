"""Having more by having workers: limits are divided among them, never multiplied.

The host looks at what all of them have at the same time. Attacks with a marker leave a file when they got their way.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, all_entries, quietly
from wasm_kernel import SandboxResult, Stream
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime import executions, tasks, worker_limits, workers
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.host.runtime.worker import Worker
from wasm_kernel.sessions.sandboxes import ready_image

_PROCESSORS, _WORKERS = 8, 3
_LATE = 15.0  # seconds: not stopped in time, on a machine that does other things, too

_WORDS = """
import os, time, _host, wasm_guest.wire as wire, wasm_guest.workers as w
from concurrent.futures import ProcessPoolExecutor
def ask(event):
    try: return _host.call(wire.encode_event(event))
    except OSError as error: return error
def together(name, count, seconds=6):
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
time.sleep(3)
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
        together('asked', 3)  # how much they may write
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


_CPU_LIMIT, _CPU_LATE = 0.6, 1.1  # seconds


class _CpuScene(_WorkerScene):
    """The cell's own time does not end it, so that on a machine with one processor, too, it is the CPU time that does."""

    limits = {"timeout_seconds": _CPU_LIMIT}

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._used: list[float] = []
        ended, used = workers.LocalWorkers.ended, self._used

        def counted(runner: Any, *args: Any) -> None:
            used.append(time.thread_time())  # the system's own count, on the thread that ends
            ended(runner, *args)

        self.stack.enter_context(
            guards.patched(
                (workers.LocalWorkers, "ended", counted),
                (executions, "Run", lambda timeout, grace: Run(60.0, grace)),
            )
        )

    def set_up(self) -> None:
        super().set_up()
        self._used.clear()

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        used = sum(self._used)
        return [f"workers had {used:.1f} s of CPU time"] if used > _CPU_LATE else []


_SPIN = """
def spin(n):
    for i in range(n): pass
"""


class TestMultiplyCpuTime(AttackTests):
    family = Family(
        _CpuScene,
        [
            _attack("each spins", _SPIN + "with ProcessPoolExecutor(3) as pool: list(pool.map(spin, [40_000_000] * 3))"),
            _attack("by turns", _SPIN + "with ProcessPoolExecutor(1, max_tasks_per_child=1) as pool: list(pool.map(spin, [4_000_000] * 30))"),
            _attack("a new pool each time", _SPIN + """
for _ in range(30):
    try: ProcessPoolExecutor(1).submit(spin, 4_000_000).result()
    except Exception: pass
"""),
        ],
        lambda: guards.patched((worker_limits.Clocks, "seconds", lambda self: 0.0)),
    )  # fmt: skip


class _ForgeryScene(_WorkerScene):
    """Notices results of tasks that the worker which brings them does not have."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._forged: list[int] = []
        done, forged = workers.LocalWorkers.done, self._forged

        def compared(runner: Any, worker: Worker, result: wire.TaskDone) -> None:
            if result.task != worker.task:
                forged.append(result.task)
            done(runner, worker, result)

        self.stack.enter_context(guards.patched((workers.LocalWorkers, "done", compared)))

    def set_up(self) -> None:
        super().set_up()
        self._forged.clear()

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        return [f"results of tasks {self._forged[:5]} were forged"] if self._forged else []


_FORGE = """
import pickle
def forge(*tasks):
    for task in tasks: ask(wire.TaskDone(task, 1, (pickle.dumps('forged'),)))
pool = ProcessPoolExecutor(2)
"""


class TestForgeResults(AttackTests):
    family = Family(
        _ForgeryScene,
        [
            _attack("of another worker", _FORGE + "one, two = pool.submit(time.sleep, 0.5), pool.submit(forge, 0); one.result()"),
            _attack("of one that waits", _FORGE + "first = pool.submit(forge, 2, 3, 4); rest = [pool.submit(time.sleep, 0.05) for _ in range(4)]; first.result()"),
            _attack("of none", _FORGE + "pool.submit(forge, 77, -1, 10**12).result()"),
            _attack("its own twice", _FORGE + "pool.submit(forge, 0, 0); pool.submit(time.sleep, 1).result()"),
        ],
        lambda: guards.patched((Worker, "_has", lambda self, task: True)),
    )  # fmt: skip


_served = Worker._frame


def _serving(worker: Worker, frame: bytes) -> bytes:
    """A worker that may ask for all that a guest may ask for."""
    event = wire.decode_event(frame)
    if isinstance(event, wire.WorkerRequest):
        return tasks.answer(worker._employer, event, lambda ready, seconds: True)  # type: ignore[arg-type]
    return _served(worker, frame)


class _RequestScene(_WorkerScene):
    """Notices what is asked of the cell's workers on the thread of one of them."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._asked: list[str] = []
        for name, answer in (("start", (1, "")), ("submit", None), ("cancel", True), ("stop", None)):
            self._notice(name, answer)

    def _notice(self, name: str, answer: object) -> None:
        real, asked = getattr(workers.LocalWorkers, name), self._asked

        def noticed(runner: Any, *args: Any, **named: Any) -> Any:
            if not threading.current_thread().name.startswith("wasm-kernel-worker"):
                return real(runner, *args, **named)
            asked.append(name)
            return answer

        self.stack.enter_context(guards.patched((workers.LocalWorkers, name, noticed)))

    def set_up(self) -> None:
        super().set_up()
        self._asked.clear()

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        return [f"workers had served: {self._asked[:5]}"] if self._asked else []


class TestWorkersOfWorkers(AttackTests):
    family = Family(
        _RequestScene,
        [
            _attack("a fork of its own", "team = w.Team(1)\nProcessPoolExecutor(1).submit(lambda: ask(wire.StartWorkers(1, 0, id(team._main), 3))).result()"),
            _attack("a pool of its own", """
def bomb():
    w.in_worker, w.limit = False, 8
    with ProcessPoolExecutor(8) as pool: return list(pool.map(abs, range(8), timeout=1))
ProcessPoolExecutor(1).submit(bomb).result()
"""),
            _attack("tasks for the others", "ProcessPoolExecutor(1).submit(lambda: ask(wire.SubmitTask(1, 0, 5, (b'x',)))).result()"),
            _attack("others' tasks taken back", "ProcessPoolExecutor(1).submit(lambda: [ask(wire.CancelTask(p, 0)) for p in range(5)]).result()"),
            _attack("others stopped", "ProcessPoolExecutor(1).submit(lambda: [ask(wire.StopWorkers(p, True)) for p in range(5)]).result()"),
        ],
        lambda: guards.patched((Worker, "_frame", _serving)),
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
