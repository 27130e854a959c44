"""Workers of a real kernel: stopped by its buttons, gone with it, and no part of what is kept."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from tests.conformance.client import Kernel

Start = Callable[..., Kernel]
POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
def work(n):
    open(f'begun{n}', 'w').close()
    time.sleep(60)
"""


def begun(kernel: Kernel) -> None:
    end = time.monotonic() + 60
    while not list(kernel.root.rglob("begun*")):
        assert time.monotonic() < end, "no worker began"
        time.sleep(0.02)


def test_interrupting_a_map_stops_it(start: Start) -> None:
    kernel = start()
    kernel.ok(POOL)
    cell = kernel.start("with ProcessPoolExecutor(2) as pool: list(pool.map(work, range(4)))")
    begun(kernel)
    kernel.manager.interrupt_kernel()
    stopped = kernel.finish(cell)
    assert stopped.reply["ename"] == "KeyboardInterrupt"
    assert kernel.ok("with ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, -2])))").stdout == "[1, 2]\n"


def test_a_kill_during_a_map_loses_only_that_cell(start: Start) -> None:
    kernel = start(WASM_KERNEL_SESSION="notebook")
    kernel.ok(POOL + "kept = 1")
    kernel.ok("with ProcessPoolExecutor(1) as pool: kept += pool.submit(abs, -1).result()")
    kernel.start("kept = 99\nwith ProcessPoolExecutor(2) as pool: list(pool.map(work, range(4)))")
    begun(kernel)
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.stop()
    kernel = start(WASM_KERNEL_SESSION="notebook")
    cell = kernel.ok("print(kept, pool.submit(abs, -1) if not pool._is_shut_down else 'shut down')")
    assert cell.stdout == "2 shut down\n"
    kernel.ok("%session undo 2")
    assert kernel.ok("print(kept)").stdout == "1\n"


def test_what_a_worker_changed_in_memory_is_no_ones(start: Start) -> None:
    kernel = start()
    kernel.ok(POOL + "values = [1]\npool = ProcessPoolExecutor(2)")
    cell = kernel.ok("print(pool.submit(lambda: (values.append(2), len(values))[1]).result(), values); display(values)")
    assert cell.stdout == "2 [1]\n"
    kernel.ok("%session snapshot")
    assert kernel.ok("print(values, pool.submit(len, values).result())").stdout == "[1] 1\n"


def test_what_multiprocessing_cannot_do_names_what_can(start: Start) -> None:
    kernel = start()
    kernel.ok("import multiprocessing")
    for code in (
        "multiprocessing.Process(target=abs).start()", "multiprocessing.Queue()", "multiprocessing.Lock()",
        "multiprocessing.Manager()", "multiprocessing.Pipe()", "from concurrent.futures import InterpreterPoolExecutor",
        "from multiprocessing.managers import SharedMemoryManager",
    ):  # fmt: skip
        assert "ProcessPoolExecutor, multiprocessing.Pool and joblib have workers" in kernel.run(code).traceback, code
    assert "workers of pools have the notebook's variables" in kernel.run("multiprocessing.Value('i', 0)").traceback
    for method in ("fork", "spawn", "forkserver"):
        code = f"with multiprocessing.get_context({method!r}).Pool(2) as pool: print(pool.map(abs, [-1, -2]))"
        assert kernel.ok(code).stdout == "[1, 2]\n"


def test_a_worker_that_ends_is_told_of_with_the_reason(start: Start) -> None:
    kernel = start()
    kernel.ok(POOL + "kept = 1")
    broken = kernel.run("with ProcessPoolExecutor(2) as pool: pool.submit(os._exit, 7).result()")
    assert "BrokenProcessPool: a worker ended before its call was done" in broken.traceback
    assert "exit code 7" in broken.traceback
    assert kernel.ok("print(kept)").stdout == "1\n"
