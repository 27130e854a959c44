"""ProcessPoolExecutor and multiprocessing.Pool in a guest: the standard library's promises, kept by forks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, ExecutionPolicy, SandboxResult, create_sandbox
from wasm_kernel.host.runtime import workers

WORDS = """
import asyncio, multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor, as_completed, wait, FIRST_COMPLETED
from concurrent.futures.process import BrokenProcessPool
def caught(function, *args):
    try: return function(*args)
    except BaseException as error: return f'{type(error).__name__}: {error}', str(error.__cause__)
def square(x): return x * x
def fail(x): raise ValueError(f'no {x}')
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSandbox]:
    """A guest with up to four workers, on any machine."""
    patch = pytest.MonkeyPatch()
    patch.setattr(workers, "processors", lambda: 4)
    with create_sandbox(policy=ExecutionPolicy(workers=4), workspace=tmp_path_factory.mktemp("app")) as sandbox:
        ok(sandbox, WORDS)
        yield sandbox
    patch.undo()


def ok(sandbox: BaseSandbox, code: str) -> SandboxResult:
    result = sandbox.execute(code)
    assert result.success, result.error
    return result


def said(sandbox: BaseSandbox, code: str) -> list[str]:
    return ok(sandbox, code).stdout.splitlines()


def test_calls_run_in_copies_of_the_notebook(guest: BaseSandbox) -> None:
    ok(
        guest,
        "data = {'n': 40}\nclass Point:\n    def __init__(self, x): self.x = x\n    def up(self, n): return self.x + n",
    )
    assert said(guest, """
k = 2
with ProcessPoolExecutor(2) as pool:
    print(list(pool.map(square, range(5))), pool.submit(lambda: data['n'] + k).result())
    print(list(pool.map(Point(3).up, range(3), chunksize=2)), pool.submit(Point, 7).result().x)
    print(pool.submit(data.update, n=0).result(), data)
    print(len({os.getpid(), *pool.map(lambda _: (time.sleep(0.05), os.getpid())[1], range(2))}) > 1)
    print(pool.submit(os.getpid).result() != os.getpid())
""") == ["[0, 1, 4, 9, 16] 42", "[3, 4, 5] 7", "None {'n': 40}", "True", "True"]  # fmt: skip


def test_workers_know_what_was_defined_after_they_were_forked(guest: BaseSandbox) -> None:
    assert said(guest, """
step = 1
def add(x): return x + step
with ProcessPoolExecutor(2) as pool:
    print(list(pool.map(add, range(3))))
    step = 10
    print(list(pool.map(add, range(3))))
    def add(x): return -x
    print(list(pool.map(add, range(3))), pool.submit(lambda: add(5)).result())
""") == ["[1, 2, 3]", "[10, 11, 12]", "[0, -1, -2] -5"]  # fmt: skip


def test_what_a_decorator_wraps_counts_and_names_of_attributes_do_not(guest: BaseSandbox) -> None:
    """Each new era costs a fork, and a missed one gives an old answer."""
    assert said(guest, """
import functools
def logged(f):
    @functools.wraps(f)
    def wrapper(x): return f(x)
    return wrapper
class Model: step = 7
model, step = Model(), 1
@logged
def add(x): return x + step
def inner(x): return [y + step for y in [x]]
with ProcessPoolExecutor(2) as pool:
    print(pool.submit(add, 1).result(), pool.submit(inner, 1).result())
    step = 10
    print(pool.submit(add, 1).result(), pool.submit(inner, 1).result())
with ProcessPoolExecutor(2) as pool:
    for step in range(5): print(pool.submit(lambda: model.step).result(), pool._team._era)
""") == ["2 [2]", "11 [11]", *["7 0"] * 5]  # fmt: skip


def test_large_arguments_are_there_and_each_call_has_its_own(guest: BaseSandbox) -> None:
    assert said(guest, """
import numpy as np, pandas as pd
big = np.ones(1_000_000); frame = pd.DataFrame({'a': big})
def spoil(a):
    a[:] = a + 1
    return float(a.sum())
def spoil_frame(f):
    f.loc[0, 'a'] = 5.0
    return float(f.a[0] + f.a[1])
with ProcessPoolExecutor(1) as pool:
    print(list(pool.map(spoil, [big, big])), float(big[0]))
    print(list(pool.map(spoil_frame, [frame, frame])), float(frame.a[0]))
    later = np.full(3_000_000, 2.0)
    print(pool.submit(spoil, later).result())
""") == ["[2000000.0, 2000000.0] 1.0", "[6.0, 6.0] 1.0", "9000000.0"]  # fmt: skip


def test_exceptions_come_back_with_where_they_were_raised(guest: BaseSandbox) -> None:
    error, cause = eval(
        said(guest, "with ProcessPoolExecutor(1) as pool: print(caught(pool.submit(fail, 3).result))")[0]
    )
    assert error == "ValueError: no 3"
    assert "in fail" in cause
    assert cause.count("Traceback") == 1
    result = guest.execute("with ProcessPoolExecutor(1) as pool: list(pool.map(fail, [1]))")
    assert result.error is not None
    assert any("in fail" in line for line in result.error.traceback), "a person sees it, too"


def test_what_cannot_be_pickled_fails_alone(guest: BaseSandbox) -> None:
    argument, result, fine = said(guest, """
with ProcessPoolExecutor(1) as pool:
    print(caught(pool.submit(abs, (i for i in [1])).result)[0])
    print(caught(pool.submit(lambda: (lambda: 1)).result)[0])
    print(pool.submit(abs, -1).result())
""")  # fmt: skip
    assert "cannot pickle 'generator'" in argument
    assert "pickle" in result
    assert fine == "1"


def test_futures_are_waited_for_polled_and_cancelled(guest: BaseSandbox) -> None:
    assert said(guest, """
with ProcessPoolExecutor(1) as pool:
    first, second, third = [pool.submit(time.sleep, t) for t in (0.3, 0.01, 0.01)]
    print(type(caught(first.result, 0.01)[0]) is str, first.running(), third.cancel(), third.cancelled())
    done, not_done = wait([first, second], return_when=FIRST_COMPLETED)
    print(first in done, first.done(), second.result())
    print(sorted(f.result() for f in as_completed([pool.submit(square, n) for n in range(4)])))
    called = []
    pool.submit(square, 3).add_done_callback(lambda f: called.append(f.result()))
print(called, caught(pool.submit, abs, 1)[0])
""") == [
        "True True True True",
        "True True None",
        "[0, 1, 4, 9]",
        "[9] RuntimeError: cannot schedule new futures after shutdown",
    ]  # fmt: skip


def test_who_waits_for_a_cancelled_call_is_told(guest: BaseSandbox) -> None:
    assert said(guest, """
with ProcessPoolExecutor(1) as pool:
    calls = [pool.submit(time.sleep, 0.05) for _ in range(4)]
    print(calls[3].cancel(), calls[3].cancel(), [f.running() for f in calls])
    print(len(wait(calls).done), len(list(as_completed(calls))), caught(calls[3].result)[0].split(':')[0])
pool = ProcessPoolExecutor(1)
calls = [pool.submit(time.sleep, 0.05) for _ in range(4)]
pool.shutdown(cancel_futures=True)
print(len(wait(calls).done), len(list(as_completed(calls))))
""") == ["True True [True, False, False, False]", "4 4 CancelledError", "4 4"]  # fmt: skip


def test_calls_that_were_not_sent_yet_do_not_run(guest: BaseSandbox) -> None:
    (said_so,) = said(guest, """
pool = ProcessPoolExecutor(1)
calls = [pool.submit(time.sleep, 60) for _ in range(2100)]
print(calls[0].running(), calls[-1].running(), calls[-1].cancel(), calls[-1].running())
pool.kill_workers()
""")  # fmt: skip
    assert said_so == "True False True False"


def test_results_arrive_while_the_notebook_sleeps(guest: BaseSandbox) -> None:
    assert said(guest, """
found = []
with multiprocessing.Pool(2) as pool:
    for n in range(4): pool.apply_async(square, (n,), callback=found.append)
    while len(found) < 4: time.sleep(0.01)
print(sorted(found))
with ProcessPoolExecutor(1) as pool:
    again = lambda f: len(found) < 7 and (found.append(f.result()), pool.submit(square, 2).add_done_callback(again))
    pool.submit(square, 3).add_done_callback(again)
    while len(found) < 7: time.sleep(0.01)
    _, began = pool.submit(time.sleep, 0.01), time.monotonic()
    time.sleep(0.3)
print(found[4:], time.monotonic() - began >= 0.3, caught(time.sleep, -1)[0])
""") == ["[0, 1, 4, 9]", "[9, 4, 4] True ValueError: sleep length must be non-negative"]  # fmt: skip


def test_thousands_of_calls_are_cancelled_at_once(guest: BaseSandbox) -> None:
    (asked,) = said(guest, """
from wasm_guest import workers
pool = ProcessPoolExecutor(1)
later = [pool.submit(time.sleep, 0.2 if n else 60) for n in range(1500)]
real, polled = workers.poll, []
workers.poll = lambda: polled.append(1)
later[0].cancel(); pool.shutdown(wait=False, cancel_futures=True)
workers.poll = real
pool.kill_workers()
print(sum(future.cancelled() for future in later) >= 1499, len(polled) < 10)
""")  # fmt: skip
    assert asked == "True True"


def test_map_has_a_time_limit(guest: BaseSandbox) -> None:
    code = "pool = ProcessPoolExecutor(1)\nprint(caught(list, pool.map(time.sleep, [5], timeout=0.1))[0])\npool.kill_workers()"
    assert said(guest, code) == ["TimeoutError: "]


def test_the_initializer_runs_once_in_each_worker(guest: BaseSandbox) -> None:
    assert said(guest, """
def begin(n):
    global begun
    begun = n
begun = 0
with ProcessPoolExecutor(2, initializer=begin, initargs=(7,)) as pool: print(set(pool.map(lambda _: begun, range(4))), begun)
with ProcessPoolExecutor(2, initializer=fail, initargs=(1,)) as pool:
    print(caught(pool.submit(abs, 1).result)[0].splitlines()[0])
with ProcessPoolExecutor(1, max_tasks_per_child=2) as pool:
    print(len(set(pool.map(lambda _: os.getpid(), range(4)))))
""") == ["{7} 0", "BrokenProcessPool: the initializer raised ValueError: no 1", "2"]  # fmt: skip


def test_the_initializer_runs_once_where_calls_run_in_line(guest: BaseSandbox, tmp_path: Path) -> None:
    code = """
begun = []
def begin(n): begun.append(n)
def look(x): return begun + [x]
def pools():
    found = []
    with ProcessPoolExecutor(2, initializer=begin, initargs=(7,)) as pool: found += pool.map(look, range(2))
    begun.clear()
    with multiprocessing.Pool(2, initializer=begin, initargs=(8,)) as pool: found += pool.map(look, range(2))
    with ProcessPoolExecutor(2, initializer=fail, initargs=(1,)) as pool: found.append(caught(pool.submit(abs, 1).result)[0].splitlines()[0])
    return found
"""
    found = "[[7, 0], [7, 1], [8, 0], [8, 1], 'BrokenProcessPool: the initializer raised ValueError: no 1']"
    assert said(guest, code + "with ProcessPoolExecutor(1) as pool: print(pool.submit(pools).result())") == [found]
    with create_sandbox(policy=ExecutionPolicy(workers=0), workspace=tmp_path / "app") as sandbox:
        ok(sandbox, WORDS)
        assert said(sandbox, code + "print(pools())") == [found]


def test_a_worker_knows_its_parent(guest: BaseSandbox) -> None:
    assert said(guest, """
def who(): return multiprocessing.parent_process().pid, multiprocessing.current_process().name[:15]
with ProcessPoolExecutor(1) as pool: print(pool.submit(who).result() == (os.getpid(), 'ForkPoolWorker-'))
print(multiprocessing.parent_process(), caught(ProcessPoolExecutor(1).submit)[0][:40])
""") == ["True", "None TypeError: ProcessPoolExecutor.submit() "]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("os._exit, 3", "it ended the interpreter with exit code 3"),
        ("os.abort", "it aborted"),
        ("deep", "its C stack overflowed, most likely by deep recursion"),
    ],
)
def test_a_worker_that_crashes_breaks_its_pool_and_nothing_else(guest: BaseSandbox, call: str, reason: str) -> None:
    lines = said(guest, f"""
kept = [1]
def down(n): return max([down(n + 1)], key=abs)
def deep():
    sys.setrecursionlimit(10**9)
    return down(0)
pool = ProcessPoolExecutor(2)
one, other = pool.submit({call}), pool.submit(time.sleep, 60)
print(caught(one.result)[0]); print(caught(other.result)[0] == caught(one.result)[0], caught(pool.submit, abs, 1)[0][:17])
print(ProcessPoolExecutor(2).submit(square, 3).result(), kept)
""")  # fmt: skip
    assert lines == [
        f"BrokenProcessPool: a worker ended before its call was done: {reason}",
        "True BrokenProcessPool",
        "9 [1]",
    ]


def test_what_a_worker_forges_is_an_error_of_its_own(guest: BaseSandbox) -> None:
    """The cell gets an answer, whatever a worker hands in instead of a result."""
    lines = said(guest, """
import pickle, _host, wasm_guest.wire as wire
def forge(status, data): _host.call(wire.encode_event(wire.TaskDone(0, status, (data,))))
class Leaves:
    def __reduce__(self): return sys.exit, (3,)
for status, data in ((2, b'no text \\xff'), (2, b''), (0, b'x'), (0, pickle.dumps(5)), (0, pickle.dumps((5, ''))), (9, b''), (1, pickle.dumps(Leaves()))):
    print(caught(ProcessPoolExecutor(1).submit(forge, status, data).result)[0])
""")  # fmt: skip
    assert lines[:2] == ["BrokenProcessPool: no text \ufffd", "BrokenProcessPool: a worker could not begin"]
    kinds = [line.split(":")[0] for line in lines[2:]]
    assert kinds == ["UnpicklingError", "TypeError", "AttributeError", "EOFError", "SystemExit"]


def test_a_worker_that_hands_in_a_result_and_goes_on_is_replaced(
    guest: BaseSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the next call nor the end of the pool waits for it."""
    monkeypatch.setattr(workers, "MOST_BETWEEN", 0.3)
    assert said(guest, """
import pickle, _host, wasm_guest.wire as wire
def forge(how):
    _host.call(wire.encode_event(wire.TaskDone(0, 1, (pickle.dumps('early'),))))
    while True: how(0)
for how in (abs, lambda _: time.sleep(60)):
    with ProcessPoolExecutor(2) as pool: print(pool.submit(forge, how).result(), pool.submit(abs, -1).result())
with ProcessPoolExecutor(2) as pool: print(pool.submit(forge, abs).result())
""") == ["early 1", "early 1", "early"]  # fmt: skip


def test_an_interrupt_loses_nothing_of_what_has_come(guest: BaseSandbox) -> None:
    """One that comes with the answer of the host: nobody may wait for what was in it."""
    assert said(guest, """
from wasm_guest import door, driver, wire
real = door.send
def send(event):
    answer = real(event)
    if isinstance(event, wire.AwaitTasks) and answer[:1] == wire.ANSWER_TEXT and not interrupted:
        interrupted.append(1)
        driver._on_interrupt(2, None)
    return answer
door.send = send
for call in (square, os._exit):
    interrupted = []
    with ProcessPoolExecutor(1) as pool:
        future = pool.submit(call, 3)
        print(caught(future.result)[0], caught(future.result, 50) if call is square else caught(future.result, 50)[0][:17])
door.send = real
""") == ["KeyboardInterrupt:  9", "KeyboardInterrupt:  BrokenProcessPool"]  # fmt: skip


def test_a_pool_that_begins_after_an_interrupt_is_not_stopped_by_it(
    guest: BaseSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host looks now and then; the guest may have gone on by then."""
    watch, since = workers.LocalWorkers.watch, list[float]()

    def late(runner: workers.LocalWorkers, now: float) -> None:
        if runner._turn.run.interrupts:
            since.append(now)
        if not since or now - since[0] > 0.5:
            watch(runner, now)

    monkeypatch.setattr(workers.LocalWorkers, "watch", late)
    timer = threading.Timer(1.0, guest.interrupt)
    timer.start()
    assert said(guest, """
pool = ProcessPoolExecutor(2)
try: list(pool.map(time.sleep, [60, 60]))
except KeyboardInterrupt: print('stopped')
with ProcessPoolExecutor(2) as other: print(list(other.map(time.sleep, [1, 1])))
""") == ["stopped", "[None, None]"]  # fmt: skip
    timer.join()


def test_exceptions_that_cannot_be_handed_back_say_what_they_can(guest: BaseSandbox) -> None:
    assert said(guest, """
class Two(Exception):
    def __init__(self, a, b): super().__init__(a)
class Mute(Exception):
    def __str__(self): raise TypeError
    __reduce__ = __str__
def throw(error): raise error
with ProcessPoolExecutor(1) as pool:
    for make in (lambda: Two(1, 2), Mute): print(caught(pool.submit(lambda make=make: throw(make())).result)[0])
    print(pool.submit(square, 2).result())
""") == ["RuntimeError: Two: 1", "RuntimeError: Mute: <exception str() failed>", "4"]  # fmt: skip


def test_files_are_written_by_the_notebook_its_workers_and_the_notebook_again(guest: BaseSandbox) -> None:
    assert said(guest, """
open('first', 'w').write('x')
def note(n):
    with open('notes', 'a') as file: file.write(f'{n} ')
    return open(f'of {n}', 'w').write('x')
for _ in range(2):
    with ProcessPoolExecutor(2) as pool: list(pool.map(note, range(10)))
    open('last', 'a').write('x')
print(sum(map(int, open('notes').read().split())), len([n for n in os.listdir() if n.startswith('of')]), open('last').read())
""") == ["90 10 xx"]  # fmt: skip


def test_sys_exit_and_memory_errors_are_exceptions_of_the_call(guest: BaseSandbox) -> None:
    assert said(guest, """
with ProcessPoolExecutor(2) as pool:
    print(caught(pool.submit(sys.exit, 4).result)[0], caught(pool.submit(bytearray, 2_000_000_000).result)[0])
    print(pool.submit(square, 2).result())
""") == ["SystemExit: 4 MemoryError: ", "4"]  # fmt: skip


def test_multiprocessing_pool(guest: BaseSandbox) -> None:
    assert said(guest, """
with multiprocessing.Pool(2) as pool:
    print(pool.map(square, range(5)), pool.starmap(pow, [(2, 3), (3, 2)]), pool.apply(pow, (2, 5)))
    print(list(pool.imap(square, range(4))), sorted(pool.imap_unordered(square, range(4), chunksize=2)))
    result = pool.apply_async(square, (3,), callback=lambda value: print('called with', value))
    print(result.get(timeout=60), result.ready(), result.successful())
    print(caught(pool.map, fail, [1])[0], caught(pool.apply_async(time.sleep, (9,)).get, 0.05)[0])
pool = multiprocessing.get_context('spawn').Pool(2, initializer=square, initargs=(1,))
results = pool.map_async(square, range(3))
pool.close(); pool.join()
print(results.get(), caught(pool.map, square, [1])[0])
print(multiprocessing.get_context('forkserver').Pool(1).map(square, [3]))
print(multiprocessing.cpu_count(), os.cpu_count(), len(os.sched_getaffinity(0)))
with multiprocessing.pool.ThreadPool(2) as pool: print(pool.map(lambda x: x + 1, [1]))
""") == [
        "[0, 1, 4, 9, 16] [8, 9] 32",
        "[0, 1, 4, 9] [0, 1, 4, 9]",
        "called with 9",
        "9 True True",
        "ValueError: no 1 TimeoutError: ",
        "[0, 1, 4] ValueError: Pool not running",
        "[9]",
        "4 4 4",
        "[2]",
    ]  # fmt: skip


def test_terminating_a_pool_leaves_nothing_to_wait_for(guest: BaseSandbox) -> None:
    code = "pool = multiprocessing.Pool(2); pool.map_async(time.sleep, [60] * 4); pool.terminate(); pool.join()"
    assert ok(guest, code).duration_seconds < 30


def test_asyncio_and_pools(guest: BaseSandbox) -> None:
    assert said(guest, """
async def both():
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2) as pool:
        return await asyncio.gather(*(loop.run_in_executor(pool, square, n) for n in range(4)), asyncio.sleep(0.01))
def inside(): return asyncio.run(asyncio.sleep(0.01, 'slept'))
print(await both(), asyncio.run(both()))
with ProcessPoolExecutor(1) as pool: print(pool.submit(inside).result())
""") == ["[0, 1, 4, 9, None] [0, 1, 4, 9, None]", "slept"]  # fmt: skip


def test_a_pool_in_a_worker_runs_in_line(guest: BaseSandbox) -> None:
    code = "with ProcessPoolExecutor(1) as pool: print(pool.submit(lambda: list(ProcessPoolExecutor(2).map(square, [1, 2]))).result())"
    assert said(guest, code) == ["[1, 4]"]


def test_a_cell_ends_when_what_it_submitted_is_done(guest: BaseSandbox) -> None:
    """Workers do not outlive their cell, but what was asked for happens."""
    ok(
        guest,
        "pool = ProcessPoolExecutor(2); later = [pool.submit(lambda n=n: (time.sleep(0.1), n)[1]) for n in range(5)]",
    )
    assert said(guest, "print([f._state for f in later], [f.result() for f in later])") == [
        f"{['FINISHED'] * 5} [0, 1, 2, 3, 4]"
    ]
    assert said(guest, "print(pool.submit(square, 4).result())") == ["16"], "the pool goes on, with new workers"


def test_a_cell_that_fails_does_not_wait(guest: BaseSandbox) -> None:
    failed = guest.execute("pool = ProcessPoolExecutor(1); lost = pool.submit(time.sleep, 60); 1/0")
    assert failed.duration_seconds < 30
    (text,) = said(guest, "print(caught(lost.result)[0])")
    assert text == "BrokenProcessPool: the cell ended before the call was done"


def test_many_calls_and_more_pools_than_workers(guest: BaseSandbox) -> None:
    assert said(guest, """
pools = [ProcessPoolExecutor(3) for _ in range(3)]
futures = [pool.submit(square, n) for n in range(20) for pool in pools]
print(sum(f.result() for f in futures))
with ProcessPoolExecutor(4) as pool: print(sum(pool.map(square, range(3000))))
""") == ["7410", "8995500500"]  # fmt: skip


def test_no_workers_run_in_line(tmp_path: Path) -> None:
    with create_sandbox(policy=ExecutionPolicy(workers=0), workspace=tmp_path / "app") as sandbox:
        ok(sandbox, WORDS)
        code = "with ProcessPoolExecutor(2) as pool: print(list(pool.map(square, range(3))), os.cpu_count(), os.getpid() == pool.submit(os.getpid).result())"
        assert said(sandbox, code) == ["[0, 1, 4] 1 True"]


def test_numbers_are_those_that_a_cell_would_get(guest: BaseSandbox) -> None:
    """numpy looks who calls it, and pools call for people: positions have 64 bits."""
    assert said(guest, """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
rows, found = [np.array([2, 1]), np.array([1, 2])], []
for pool in (ProcessPoolExecutor(2), ThreadPoolExecutor(2)):
    with pool:
        found += [*pool.map(np.argsort, rows), pool.submit(np.argsort, rows[0]).result()]
for pool in (multiprocessing.Pool(2), multiprocessing.pool.ThreadPool(2)):
    with pool:
        found += [*pool.map(np.argsort, rows), *pool.imap(np.argsort, rows), pool.apply(np.argsort, rows[:1])]
        found += pool.starmap(np.searchsorted, [(rows[1], [2])])
print({str(each.dtype) for each in found}, len(found))
""") == ["{'int64'} 18"]  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "pool = ProcessPoolExecutor(1)\ncall = pool.submit(time.sleep, 60)\ntime.sleep(60)",
        "pool = ProcessPoolExecutor(1)\ncall = pool.submit(time.sleep, 60)\nwait([call])\ntime.sleep(60)",
        "list(ThreadPoolExecutor().map(time.sleep, [0.1] * 600))",
    ],
)
def test_the_time_limit_is_nothing_that_a_pool_or_a_wait_catches(tmp_path: Path, code: str) -> None:
    with create_sandbox(policy=ExecutionPolicy(timeout_seconds=1.0, workers=1), workspace=tmp_path) as sandbox:
        result = sandbox.execute(
            "kept = 1\nimport time\nfrom concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait\n"
            + code
        )
        assert result.error is not None and result.error.name == "TimeoutError"
        assert not result.outcome.state_lost and said(sandbox, "print(kept)") == ["1"]
