"""Workers seen from the host: what they may do, what ends them, and what is left of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel import BaseSandbox, ExecutionPolicy, OutcomeKind, SandboxResult, Stream
from wasm_kernel.host.runtime import tasks, worker_limits, workers
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.worker import Worker

Make = Callable[..., BaseSandbox]
PATIENCE = 60.0
WORDS = """
import os, sys, time, _host, wasm_guest.wire as wire
from concurrent.futures import ProcessPoolExecutor
def ask(event):
    try: return _host.call(wire.encode_event(event))
    except OSError: return 'refused'
def caught(function, *args):
    try: return function(*args)
    except BaseException as error: return f'{type(error).__name__}: {error}'
"""


@pytest.fixture(autouse=True)
def _processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processors", lambda: 8)


@pytest.fixture
def make(make_sandbox: Make) -> Make:
    def make(**limits: object) -> BaseSandbox:
        sandbox = make_sandbox(**{"workers": 2, **limits})
        assert sandbox.execute(WORDS).success
        return sandbox

    return make


@pytest.fixture(autouse=True)
def _no_worker_left() -> Iterator[None]:
    yield
    assert not living()


def living() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("wasm-kernel-worker")]


def ok(sandbox: BaseSandbox, code: str) -> SandboxResult:
    result = sandbox.execute(code)
    assert result.success, result.error
    return result


def test_output_comes_in_order_from_each_worker(make: Make) -> None:
    sandbox = make()
    events: list[Stream] = []
    code = """
def talk(name):
    for n in range(200): print(f'{name}{n}', 'ä€😀'); print(n, file=sys.stderr)
with ProcessPoolExecutor(2) as pool: list(pool.map(talk, 'ab'))
"""
    assert sandbox.execute(code, on_event=lambda event: events.append(event)).success  # type: ignore[arg-type]
    lines = "".join(event.text for event in events if event.name == "stdout").splitlines()
    for name in "ab":
        assert [line for line in lines if line.startswith(name)] == [f"{name}{n} ä€😀" for n in range(200)]


def test_workers_wait_with_results_until_there_is_room(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_WAITING_BYTES", 1 << 20)
    code = """
pool = ProcessPoolExecutor(2)
futures = [pool.submit(bytes, 700_000) for _ in range(12)]
time.sleep(0.3)
print(sum(len(f.result()) for f in futures))
"""
    assert ok(make(timeout_seconds=PATIENCE), code).stdout == "8400000\n"


def test_files_are_the_guests_and_changes_are_told(make: Make, tmp_path: Path) -> None:
    sandbox = make()
    ok(sandbox, "kept = open('/app/log', 'w+'); kept.write('before'); kept.flush()")
    result = ok(sandbox, """
def write(n):
    with open(f'/app/{n}', 'w') as file: file.write('x' * n)
    return open('/app/log').read(), kept.tell()
with ProcessPoolExecutor(2) as pool: print(list(pool.map(write, [1, 2])), sorted(os.listdir('/app')))
""")  # fmt: skip
    assert result.stdout == "[('before', 6), ('before', 6)] ['1', '2', 'log']\n"
    assert result.files_created == ["1", "2"]
    assert not ok(sandbox, "len(os.listdir('/app'))").files_created


def test_a_worker_shows_nothing_asks_nobody_and_has_no_workers(make: Make) -> None:
    sandbox = make()
    shown: list[object] = []
    result = sandbox.execute(
        """
from IPython.display import display, HTML
def try_all():
    display(HTML('<b>x</b>'))
    return [ask(e)[:1] for e in (
        wire.Comm('comm_open', {}), wire.InputRequest('?'), wire.HostMagic('session', 'undo'), wire.Reply({}),
        wire.NextRequest(), wire.StartWorkers(1, 0, 1, 1), wire.SubmitTask(1, 0, 1, (b'',)), wire.AwaitTasks(0.0),
        wire.TaskDone(77, 1, (b'',)), wire.Unused([[0, 1 << 20]]))]
with ProcessPoolExecutor(1) as pool: print(pool.submit(try_all).result())
print(ask(wire.NextTask()), ask(wire.TaskDone(0, 1, (b'',))))
""",
        on_event=shown.append,
        on_input=lambda request: "typed",
    )
    assert result.success, result.error
    n, r = b"N", "r"
    assert result.stdout == f"{[b'', n, n, r, r, r, r, r, r, r]}\nrefused refused\n"
    assert result.stderr.count("a worker cannot show display data or widgets") == 1
    assert {type(event).__name__ for event in shown} <= {"Stream", "Notice"}


@pytest.mark.parametrize("busy", ["time.sleep(60)", "sum(i for i in range(10**10))"])
@pytest.mark.parametrize("guest", ["future.result()", "time.sleep(60)", "sum(i for i in range(10**10))"])
def test_an_interrupt_stops_all_workers(make: Make, busy: str, guest: str) -> None:
    sandbox = make()
    timer = threading.Thread(target=lambda: (_until(lambda: len(living()) == 2), sandbox.interrupt()))
    timer.start()
    code = (
        f"def work(_=0): {busy}\npool = ProcessPoolExecutor(2)\nfuture = pool.submit(work); pool.submit(work)\n{guest}"
    )
    result = sandbox.execute(code)
    timer.join()
    assert result.outcome.kind is OutcomeKind.INTERRUPTED
    assert not living()
    assert ok(
        sandbox, "print(caught(future.result)); print(ProcessPoolExecutor(2).submit(abs, -1).result())"
    ).stdout in (
        "BrokenProcessPool: the cell was interrupted\n1\n",
        "BrokenProcessPool: the cell ended before the call was done\n1\n",
    )


def _until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_time_limit_holds_for_the_cpu_time_of_all(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = make(timeout_seconds=50.0)
    monkeypatch.setattr(worker_limits.Clocks, "seconds", lambda self: 51.0 if living() else 0.0)
    started = time.monotonic()
    result = ok(sandbox, "print(caught(ProcessPoolExecutor(2).submit(time.sleep, 60).result))")
    assert "the time limit of 50.0 s holds for the CPU time of a cell and its workers together" in result.stdout
    assert time.monotonic() - started < 40


def test_without_memory_there_are_no_workers_and_the_error_says_so(make: Make) -> None:
    sandbox = make(memory_bytes=400 << 20)
    ok(sandbox, "held = []\nwhile True:\n    try: held.append(bytearray(4 << 20))\n    except MemoryError: break")
    said = ok(sandbox, "print(caught(ProcessPoolExecutor(2).submit(abs, 1).result))").stdout
    assert "the memory limit of 400" in said
    assert "leaves no room for workers" in said


def test_pools_wait_for_the_memory_that_others_have_and_each_forks_copy_counts(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sizes = ForkedMemory.__init__, []

    def forked(memory: ForkedMemory, *args: Any) -> None:
        real(memory, *args)
        sizes.append((len(living()), memory.copied_bytes))

    monkeypatch.setattr(ForkedMemory, "__init__", forked)
    sandbox = make(workers=8, memory_bytes=640 << 20)
    said = ok(sandbox, """
new = bytearray(b'n' * (120 << 20))
pools = [ProcessPoolExecutor(1) for _ in range(6)]
print([call.result() for call in [pool.submit(lambda k: (time.sleep(0.1), k)[1], k) for k, pool in enumerate(pools)]])
""").stdout  # fmt: skip
    assert said == "[0, 1, 2, 3, 4, 5]\n"
    assert all(alive == 0 and size > 120 << 20 for alive, size in sizes), sizes


def test_a_guest_that_traps_after_a_fork_goes_back_to_before_its_cell(make: Make) -> None:
    sandbox = make()
    ok(sandbox, "kept = 1")
    crashed = sandbox.execute(
        "pool = ProcessPoolExecutor(2); pool.submit(time.sleep, 60); list(ProcessPoolExecutor(1).map(abs, [1])); kept = 2; os._exit(1)"
    )
    assert crashed.outcome.state_lost
    assert ok(sandbox, "print(kept)").stdout == "1\n"


def test_closing_ends_workers(make: Make) -> None:
    sandbox = make()
    closer = threading.Thread(target=lambda: (_until(lambda: bool(living())), sandbox.close()))
    closer.start()
    with pytest.raises(Exception, match="closed"):
        sandbox.execute("ProcessPoolExecutor(1).submit(time.sleep, 60).result()")
    closer.join()


def test_between_cells_there_are_no_workers(make: Make) -> None:
    sandbox = make()
    ok(
        sandbox,
        "import asyncio\nasync def later():\n    global found\n    found = caught(lambda: ProcessPoolExecutor(1).submit(abs, -1).result())\ntask = asyncio.ensure_future(later())\ntask.get_loop().call_later(0.1, lambda: None)",
    )
    sandbox._sandbox.ask({"op": "pump", "seconds": 0.3})
    assert ok(sandbox, "print(found)").stdout == "1\n", "in line"
    assert not living()


def test_idle_workers_share_their_memory_with_the_guest(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of them add less than 60 MB, of which the guest's own changes of this cell are most."""
    sandbox = make(workers=8)
    ok(sandbox, "import numpy as np, pandas as pd; data = np.ones(8_000_000)")
    found: list[int] = []
    real = Worker._next_task

    def waits(worker: Worker) -> bytes:
        if len(living()) == 8:
            found.append(own_memory())
        return real(worker)

    before = own_memory()
    monkeypatch.setattr(Worker, "_next_task", waits)
    ok(
        sandbox,
        "with ProcessPoolExecutor(8) as pool: print(sum(pool.map(lambda n: (time.sleep(0.2), float(data[n]))[1], range(8))))",
    )
    assert found
    assert max(found) - before < 60 << 20


def own_memory() -> int:
    """Proportional set size: memory of others is not counted, shared memory only in part."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0]) << 10


def test_a_policy_with_more_workers_than_processors_has_as_many_as_these() -> None:
    assert workers.most_workers(ExecutionPolicy(workers=100)) == 8
    assert workers.most_workers(ExecutionPolicy(workers=3)) == 3
