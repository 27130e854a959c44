"""The sandbox as a program uses it: results, events, interrupts, recovery, limits."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conformance.client import eventually
from wasm_kernel import (
    BaseSandbox,
    ConfigurationError,
    DisplayData,
    Event,
    ExecutionPolicy,
    InputRequest,
    OutcomeKind,
    SandboxBusy,
    SandboxClosed,
    SandboxResult,
    Stream,
    create_sandbox,
)
from wasm_kernel.host.runtime import executions
from wasm_kernel.host.runtime.output_buffer import Notice

Make = Callable[..., BaseSandbox]


def run_and(
    sandbox: BaseSandbox, code: str, act: Callable[[], Any], *, after: str = "go", pause: float = 0.05, **options: Any
) -> SandboxResult:
    """Execute code and act once it has printed ``after``, and gone on for a moment."""
    started = threading.Event()

    def on_event(event: object) -> None:
        if isinstance(event, Stream) and after in event.text:
            started.set()

    def wait_and_act() -> None:
        started.wait(60)
        time.sleep(pause)
        act()

    helper = threading.Thread(target=wait_and_act)
    helper.start()
    try:
        return sandbox.execute(code, on_event=on_event, **options)
    finally:
        helper.join()


# ---- results


def test_variables_functions_and_files_persist_between_executions(shared_sandbox: BaseSandbox) -> None:
    assert shared_sandbox.execute("def double(n): return 2 * n\nx = double(21)").success
    assert shared_sandbox.execute("open('note.txt', 'w').write(str(x))").files_created == ["note.txt"]
    result = shared_sandbox.execute("print(open('/app/note.txt').read(), double(x))")
    assert result.stdout == "42 84\n"
    assert (shared_sandbox.workspace / "note.txt").read_text() == "42"


def test_the_last_expression_and_displays_are_mime_bundles(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute("import pandas as pd\ndisplay(pd.DataFrame({'a': [1]}))\n'done'")
    assert result.result is not None
    assert result.result["text/plain"] == "'done'"
    assert "<table" in result.displays[0]["text/html"]


def test_an_exception_comes_back_as_a_value(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute("kept = 5\n1/0")
    assert not result.success
    assert result.outcome.kind is OutcomeKind.ERROR
    assert result.error is not None
    assert result.error.name == "ZeroDivisionError"
    assert any("1" in line and "0" in line for line in result.error.traceback)
    assert result.exit_code == 1
    assert shared_sandbox.execute("kept").result == {"text/plain": "5"}


def test_exits(shared_sandbox: BaseSandbox) -> None:
    shared_sandbox.execute("kept = 7")
    result = shared_sandbox.execute("import sys; sys.exit(3)")
    assert (result.outcome.kind, result.exit_code, result.outcome.state_lost) == (OutcomeKind.EXIT, 3, False)
    result = shared_sandbox.execute("kept = 8; import os; os._exit(4)")
    assert (result.outcome.kind, result.exit_code, result.outcome.state_lost) == (OutcomeKind.EXIT, 4, True)
    assert shared_sandbox.execute("kept").result == {"text/plain": "7"}


def test_files_created_modified_deleted(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    (sandbox.workspace / "data.csv").write_text("a")
    (sandbox.workspace / "old.txt").write_text("a")
    result = sandbox.execute(
        "import os; open('data.csv', 'a').write('b'); os.makedirs('d'); open('d/output.txt', 'w').close(); os.remove('old.txt')"
    )
    assert result.files_created == ["d/output.txt"]
    assert result.files_modified == ["d/output.txt", "data.csv"]
    assert result.files_deleted == ["old.txt"]
    quiet = sandbox.execute("open('data.csv').read(); os.listdir('.')")
    assert (quiet.files_created, quiet.files_modified, quiet.files_deleted) == ([], [], [])


def test_what_the_host_does_between_executions_is_not_the_guests_change(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    sandbox.execute("open('one', 'w').close()")
    (sandbox.workspace / "uploaded").write_text("by the host")
    assert sandbox.execute("open('two', 'w').close()").files_modified == ["two"]


# ---- events


def test_events_arrive_in_order_while_the_code_runs(shared_sandbox: BaseSandbox) -> None:
    events: list[object] = []
    code = (
        "import sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay('c')\nprint('d', end='')\nclear = 1\nprint('e')"
    )
    shared_sandbox.execute(code, on_event=events.append)
    seen = []
    for event in events:
        if isinstance(event, Stream):
            seen.append((event.name, event.text))
        elif isinstance(event, DisplayData):
            seen.append(("display", event.data["text/plain"]))
    merged: list[tuple[str, str]] = []
    for name, text in seen:
        if merged and merged[-1][0] == name:
            merged[-1] = (name, merged[-1][1] + text)
        else:
            merged.append((name, text))
    assert merged == [("stdout", "a\n"), ("stderr", "b\n"), ("display", "'c'"), ("stdout", "de\n")]


def test_output_is_live_without_a_newline(shared_sandbox: BaseSandbox) -> None:
    arrived: list[float] = []
    started = time.monotonic()
    result = shared_sandbox.execute(
        "import time\nfor i in range(5):\n    print('.', end='')\n    time.sleep(0.2)",
        on_event=lambda e: arrived.append(time.monotonic() - started),
    )
    assert result.stdout == "....."
    assert len(arrived) == 5
    assert arrived[-1] - arrived[0] > 0.6


def test_a_tail_of_output_is_live_while_code_computes(shared_sandbox: BaseSandbox) -> None:
    arrived: dict[str, float] = {}

    def on_event(event: object) -> None:
        if isinstance(event, Stream):
            arrived.setdefault(event.text.strip()[-4:], time.monotonic())

    result = shared_sandbox.execute(
        "import time\nprint('head')\nprint('tail')\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass\nprint('last')",
        on_event=on_event,
    )
    assert result.success
    assert arrived["last"] - arrived["tail"] > 0.3, "the second line waited for the end"


def test_a_callback_that_raises_does_not_hurt_the_sandbox(shared_sandbox: BaseSandbox) -> None:
    def bad(event: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        shared_sandbox.execute("print(1)\nafter = 1", on_event=bad)
    assert shared_sandbox.execute("after").result == {"text/plain": "1"}


def test_split_characters_are_put_together(shared_sandbox: BaseSandbox) -> None:
    code = "import os\nfor byte in 'häß€🙂'.encode(): os.write(1, bytes([byte]))\nos.write(1, b'\\xf0\\x9f')"
    assert shared_sandbox.execute(code).stdout == "häß€🙂�"


# ---- input


def test_input_is_asked_of_the_caller(shared_sandbox: BaseSandbox) -> None:
    asked: list[InputRequest] = []

    def answer(request: InputRequest) -> str:
        asked.append(request)
        return "Grace" if not request.password else "s3cret"

    result = shared_sandbox.execute("import getpass\nprint(input('who? '), getpass.getpass('pw '))", on_input=answer)
    assert result.stdout == "Grace s3cret\n"
    assert [(a.prompt, a.password) for a in asked] == [("who? ", False), ("pw ", True)]


def test_input_without_anybody_and_at_the_end(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute("input()")
    assert result.error is not None
    assert result.error.name == "StdinNotImplementedError"

    def ended(request: InputRequest) -> str:
        raise EOFError

    result = shared_sandbox.execute("input()", on_input=ended)
    assert result.error is not None
    assert result.error.name == "EOFError"


# ---- interrupts


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "import asyncio; await asyncio.sleep(1000)",
        "import threading; threading.Event().wait(1000)",
        "import queue; queue.Queue().get(timeout=1000)",
        "sum(i * i for i in iter(int, 1))",
        "import select; select.poll().poll(1000_000)",
    ],
)
def test_an_interrupt_keeps_every_variable(make_sandbox: Make, body: str) -> None:
    sandbox = make_sandbox(interrupt_grace_seconds=20)
    result = run_and(sandbox, f"mine = 1\nmine = 2\nprint('go')\n{body}\nmine = 3", sandbox.interrupt)
    assert result.outcome.kind is OutcomeKind.INTERRUPTED
    assert not result.outcome.state_lost
    assert result.error is not None
    assert result.error.name == "KeyboardInterrupt"
    assert result.duration_seconds < 10
    assert sandbox.execute("mine").result == {"text/plain": "2"}


def test_an_interrupt_ends_input(make_sandbox: Make) -> None:
    sandbox = make_sandbox(interrupt_grace_seconds=20)

    def slow(request: InputRequest) -> str:
        sandbox.interrupt()
        time.sleep(0.3)
        return "too late"

    result = sandbox.execute("mine = 2\nx = input()", on_input=slow)
    assert result.outcome.kind is OutcomeKind.INTERRUPTED
    assert sandbox.execute("mine, input()", on_input=lambda r: "next").result == {"text/plain": "(2, 'next')"}


def test_an_interrupt_that_is_caught_is_not_followed_by_force(make_sandbox: Make) -> None:
    sandbox = make_sandbox(interrupt_grace_seconds=1.0)
    code = "import time\ntry:\n    print('go')\n    while True: pass\nexcept KeyboardInterrupt:\n    time.sleep(2.0)\n    saved = True"
    result = run_and(sandbox, code, sandbox.interrupt)
    assert result.success, result.outcome
    assert sandbox.execute("saved").result == {"text/plain": "True"}


def test_c_code_that_does_not_return_is_stopped_by_force(make_sandbox: Make) -> None:
    sandbox = make_sandbox(interrupt_grace_seconds=0.5)
    sandbox.execute("import numpy as np; mine = 1")
    result = run_and(sandbox, "mine = 2\na = np.ones((3000, 3000))\nprint('go')\na @ a", sandbox.interrupt, pause=0.5)
    assert result.outcome.kind is OutcomeKind.INTERRUPTED
    assert result.outcome.cause == "forced"
    assert result.outcome.state_lost
    assert sandbox.execute("mine").result == {"text/plain": "1"}


def test_an_interrupt_before_the_code_begins(make_sandbox: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(executions.Run):
        def __init__(self, timeout: float | None, grace: float) -> None:
            super().__init__(timeout, grace)
            self.interrupt()

    sandbox = make_sandbox(interrupt_grace_seconds=20)
    sandbox.execute("kept = 5")
    for _ in range(10):  # at another instruction each time
        with monkeypatch.context() as patch:
            patch.setattr(executions, "Run", Interrupted)
            ended = sandbox.execute("while True: pass").outcome
        # Once in four whole runs it was a RuntimeError, not yet understood; the loop had ended all the same.
        assert not ended.state_lost and ended.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.ERROR)
    assert sandbox.execute("kept").result == {"text/plain": "5"}


def test_an_interrupt_after_the_code_comes_too_late(make_sandbox: Make, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    sandbox = make_sandbox(interrupt_grace_seconds=20, workspace=workspace)
    sandbox.execute("""
import os, time, types, wasm_guest.driver as driver
wire, replies = driver.wire, []
def slowly(*parts):
    replies.append(parts)
    if len(replies) == 2:  # the first one is this cell's
        open("/app/over", "w").close()
        while not os.path.exists("/app/interrupted"): time.sleep(0.01)
    return wire.Reply(*parts)
driver.wire = types.SimpleNamespace(**{**vars(wire), "Reply": slowly})
""")

    def interrupt() -> None:
        if eventually((workspace / "over").exists):
            sandbox.interrupt()
        (workspace / "interrupted").touch()

    late = threading.Thread(target=interrupt)
    late.start()
    result = sandbox.execute("6 * 7")
    late.join()
    assert (result.outcome.kind, result.result) == (OutcomeKind.OK, {"text/plain": "42"})
    assert sandbox.execute("6 * 7").result == {"text/plain": "42"}


def test_an_interrupt_with_nothing_running_does_nothing(shared_sandbox: BaseSandbox) -> None:
    assert shared_sandbox.interrupt() is False
    assert shared_sandbox.execute("1").success


# ---- recovery


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os; os.abort()", "abort"),
        ("x = ()\nfor i in range(1_000_000): x = (x,)\ndel x", "stack_overflow"),
        ("import _thread; a = _thread.allocate_lock().__class__; import signal; signal.raise_signal(15)", "abort"),
    ],
)
def test_after_a_crash_the_sandbox_has_what_it_had(make_sandbox: Make, code: str, cause: str) -> None:
    sandbox = make_sandbox()
    sandbox.execute("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ngen = (i for i in range(9)); next(gen)")
    result = sandbox.execute("df = None\nopen('written', 'w').write('x')\n" + code)
    assert result.outcome.kind is OutcomeKind.CRASHED
    assert result.outcome.cause == cause
    assert result.outcome.state_lost
    assert result.outcome.next_step
    assert result.files_created == ["written"]
    assert sandbox.execute("int(df.a.sum()), next(gen)").result == {"text/plain": "(3, 1)"}


def test_a_guest_that_breaks_its_driver_loses_only_that_execution(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    sandbox.execute("mine = 1")
    result = sandbox.execute("mine = 2\nimport wasm_guest.wire as w\nw.Reply = None")
    assert result.outcome.kind is OutcomeKind.CRASHED
    assert sandbox.execute("mine").result == {"text/plain": "1"}


def test_open_files_and_clocks_survive_a_crash(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    (sandbox.workspace / "lines").write_text("one\ntwo\nthree\n")
    sandbox.execute(
        "import os, time, sqlite3\nf = open('lines'); f.readline()\nout = open('out', 'w'); out.write('a'); out.flush()\n"
        "db = sqlite3.connect('db'); db.execute('create table t (x)'); db.execute('insert into t values (5)'); db.commit()\n"
        "null = open(os.devnull, 'w')\nthen = time.monotonic()"
    )
    assert sandbox.execute("os.abort()").outcome.kind is OutcomeKind.CRASHED
    result = sandbox.execute(
        "line = f.readline(); out.write('b'); out.close(); null.write('gone' * 9999)\n"
        "print(line.strip(), open('out').read(), db.execute('select x from t').fetchall(), time.monotonic() > then)"
    )
    assert result.stdout == "two ab [(5,)] True\n"
    assert not (sandbox.workspace / "null").exists()


def test_the_path_of_a_descriptor_has_an_end(make_sandbox: Make) -> None:
    """Each folder is opened in the one before, and the host remembers how: not without end."""
    sandbox = make_sandbox()
    result = sandbox.execute(
        "import os\n"
        "d = os.open('/app', os.O_RDONLY)\n"
        "for i in range(500):\n"
        "    deeper = os.open('./' * 2000, os.O_RDONLY, dir_fd=d); os.close(d); d = deeper\n"
        "mine = os.open('/app/.', os.O_RDONLY)"
    )
    assert result.success, result.error
    instance = sandbox._sandbox._guest.instance
    assert instance is not None
    paths = [item.path for item in instance.rest().files]
    assert b"." in paths
    assert max(map(len, paths)) <= 4096


def test_reset_gives_a_fresh_interpreter_over_the_same_files(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    sandbox.execute("mine = 1\nopen('kept', 'w').close()\nopen('/tmp/scratch', 'w').close()")
    sandbox.reset()
    result = sandbox.execute("import os; 'mine' in globals(), os.path.exists('kept'), os.path.exists('/tmp/scratch')")
    assert result.result == {"text/plain": "(False, True, False)"}
    assert result.execution_count == 1


# ---- limits


def test_a_time_limit_raises_in_the_guest_first(make_sandbox: Make) -> None:
    sandbox = make_sandbox(timeout_seconds=1.5)
    result = sandbox.execute("mine = 1\nwhile True: pass")
    assert result.outcome.kind is OutcomeKind.TIME_LIMIT
    assert not result.outcome.state_lost
    assert result.error is not None
    assert result.error.name == "TimeoutError"
    assert sandbox.execute("mine").success


def test_a_time_limit_ends_by_force_what_catches_everything(make_sandbox: Make) -> None:
    sandbox = make_sandbox(timeout_seconds=1.5, interrupt_grace_seconds=0.3)
    sandbox.execute("mine = 1")
    result = sandbox.execute(
        "mine = 2\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    )
    assert result.outcome.kind is OutcomeKind.TIME_LIMIT
    assert result.outcome.cause == "forced"
    assert sandbox.execute("mine").result == {"text/plain": "1"}


def test_a_time_limit_counts_sleep_and_input(make_sandbox: Make) -> None:
    sandbox = make_sandbox(timeout_seconds=1.5)
    assert sandbox.execute("import time; time.sleep(60)").outcome.kind is OutcomeKind.TIME_LIMIT
    result = sandbox.execute("input()", on_input=lambda request: time.sleep(2.5) or "x")  # type: ignore[func-returns-value]
    assert result.outcome.kind is OutcomeKind.TIME_LIMIT


def test_a_memory_limit_is_a_memory_error(make_sandbox: Make) -> None:
    sandbox = make_sandbox(memory_bytes=400 << 20)
    result = sandbox.execute("mine = 1\nblocks = [bytearray(10 << 20) for i in range(100)]")
    assert result.error is not None
    assert result.error.name == "MemoryError"
    assert result.memory_bytes <= 400 << 20
    assert "raise the memory limit" in result.outcome.next_step
    assert sandbox.execute("mine").success


def test_output_past_its_cap_is_cut_with_one_notice(make_sandbox: Make) -> None:
    sandbox = make_sandbox(stdout_max_bytes=1000, stderr_max_bytes=500, display_max_bytes=2000)
    result = sandbox.execute(
        "import sys\nfor i in range(5000): print('x' * 50); print('y' * 50, file=sys.stderr)\ndone = 1"
    )
    assert result.success
    assert 1000 <= len(result.stdout) < 1200
    assert result.stdout.count("stdout_max_bytes") == 1
    assert result.stderr.count("stderr_max_bytes") == 1
    result = sandbox.execute("for i in range(500): display('z' * 100)")
    assert result.success
    assert 1 <= len(result.displays) <= 20
    assert result.stderr.count("display_max_bytes") == 1


def pump(sandbox: BaseSandbox, times: int = 1) -> list[str]:
    """Turns for background tasks, as the kernel gives them between cells; the notices that came of them."""
    events: list[Event] = []
    for _ in range(times):
        sandbox._sandbox.ask({"op": "pump"}, on_event=events.append)
    return [event.text for event in events if isinstance(event, Notice)]


TASK = "import asyncio\nasync def go():\n    await asyncio.sleep(0.05)\n{}\ntask = asyncio.create_task(go())"
SPIN = TASK.format("    while True: await asyncio.sleep(0)")


def test_background_tasks_wait_when_their_time_is_used_up(make_sandbox: Make) -> None:
    sandbox = make_sandbox(timeout_seconds=1.5)  # the cell itself needs a little of it, on a busy machine more
    assert sandbox.execute(SPIN).success
    time.sleep(0.1)
    notices = pump(sandbox, 100)
    assert len(notices) == 1
    assert "1.5 s of every 60.0 s" in notices[0]
    assert "timeout=" in notices[0]
    assert 30 < sandbox._sandbox.background_wait < 240
    assert sandbox.execute("1").success, "a cell does not wait"
    assert len(pump(sandbox, 5)) == 1, "it is said again after another cell"


def test_a_task_that_is_stopped_by_force_waits_for_the_next_cell(make_sandbox: Make) -> None:
    sandbox = make_sandbox(timeout_seconds=1.5, interrupt_grace_seconds=0.2)
    hang = "    while True:\n        try:\n            while True: pass\n        except TimeoutError: pass"
    sandbox.execute(TASK.format(hang))
    assert sandbox._sandbox.next_task is not None
    time.sleep(0.1)
    assert "stopped by force" in pump(sandbox)[0]
    assert sandbox._sandbox.next_task is None


def test_a_task_that_takes_too_long_for_one_turn_is_told_so(
    make_sandbox: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "_SMALL_SECONDS", 0.3)
    sandbox = make_sandbox()
    sandbox.execute(TASK.format("    while True: pass"))
    time.sleep(0.1)
    (notice,) = pump(sandbox)
    assert "without a pause and got a TimeoutError" in notice
    result = sandbox.execute("task.exception()").result
    assert result is not None
    assert "TimeoutError" in result["text/plain"]


def test_what_the_host_does_after_a_background_turn_is_charged_to_it(
    make_sandbox: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make_sandbox(timeout_seconds=1)
    sandbox.execute(TASK.format("    await asyncio.sleep(100)"))
    keep = sandbox._sandbox._guest.keep

    def slowly() -> None:
        time.sleep(1.1)
        keep()

    monkeypatch.setattr(sandbox._sandbox._guest, "keep", slowly)
    pump(sandbox)
    time.sleep(0.1)  # longer than the sandbox lets its caller go first
    assert pump(sandbox), "the second one is held back"


def test_new_limits_are_new_budgets(make_sandbox: Make) -> None:
    sandbox = make_sandbox(timeout_seconds=1.5)
    assert sandbox.execute(SPIN).success
    time.sleep(0.1)
    pump(sandbox, 100)
    assert sandbox._sandbox.background_wait > 0
    sandbox._sandbox.change_policy(ExecutionPolicy(timeout_seconds=20))
    assert sandbox._sandbox.background_wait == 0


def test_disk_quotas(make_sandbox: Make) -> None:
    sandbox = make_sandbox(workspace_bytes=4 << 20, max_file_bytes=2 << 20, max_files=60, max_open_files=20)
    cases = {
        "open('big', 'wb').write(bytes(3 << 20))": ("big", 2 << 20),
        "for i in range(9): open(f'part{i}', 'wb').write(bytes(1 << 20))": ("part", 4 << 20),
    }
    for code in cases:
        result = sandbox.execute(code)
        assert result.error is not None, code
        assert result.error.name == "OSError"
        used = sum(p.stat().st_size for p in sandbox.workspace.rglob("*"))
        assert used <= 4 << 20
        sandbox.execute("import os, glob\nfor n in glob.glob('*'): os.remove(n)")
    result = sandbox.execute("for i in range(100): open(f'n{i}', 'w').close()")
    assert result.error is not None
    assert "[Errno 51]" in result.error.value
    assert len(list(sandbox.workspace.iterdir())) <= 60
    result = sandbox.execute("held = []\nfor i in range(40): held.append(open('n0'))")
    assert result.error is not None
    assert "[Errno 33]" in result.error.value


def test_writing_again_what_was_deleted_is_not_charged(make_sandbox: Make) -> None:
    sandbox = make_sandbox(workspace_bytes=3 << 20)
    result = sandbox.execute(
        "import os\nfor i in range(30):\n    open('f', 'wb').write(bytes(1 << 20)); os.remove('f')"
    )
    assert result.success, result.error


@pytest.mark.metered
def test_a_fuel_budget_is_a_deterministic_limit(make_sandbox: Make) -> None:
    sandbox = make_sandbox(fuel_budget=500_000_000)
    first = sandbox.execute("mine = 1")
    assert first.success
    assert first.fuel_consumed is not None
    assert 0 < first.fuel_consumed < 500_000_000
    result = sandbox.execute("mine = 2\nwhile True: pass")
    assert result.outcome.kind is OutcomeKind.FUEL_LIMIT
    assert result.outcome.state_lost
    assert sandbox.execute("mine").result == {"text/plain": "1"}


@pytest.mark.metered
def test_the_clock_does_not_go_back_when_fuel_is_used_up(make_sandbox: Make) -> None:
    """Reading it costs fuel, too: there has to be some again."""
    sandbox = make_sandbox(fuel_budget=500_000_000)
    sandbox.execute("import time; before = time.monotonic()")
    assert not sandbox.execute("time.sleep(0.5)\nwhile True: pass").success
    assert sandbox.execute("print(time.monotonic() - before > 0.5)").stdout == "True\n"


def test_the_environment_is_the_policys_and_nothing_else(make_sandbox: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "sesame")
    sandbox = make_sandbox(env={"GREETING": "hello"})
    result = sandbox.execute("import os; print(os.environ['GREETING'], 'JUPYTERHUB_API_TOKEN' in os.environ)")
    assert result.stdout == "hello False\n"


def test_every_sandbox_has_its_own_randomness(make_sandbox: Make) -> None:
    code = "import random, numpy as np, uuid\nprint(random.random(), np.random.rand(), np.random.default_rng().random(), uuid.uuid4())"
    code += "\nimport sympy.core.random, multiprocessing.process as mp\nprint(sympy.core.random.random(), bytes(mp.current_process().authkey).hex())"
    code += "\nprint(sympy.Dummy('x').dummy_index, next(__import__('tempfile')._get_candidate_names()))"
    outputs = {make_sandbox().execute(code).stdout for _ in range(3)}
    assert len(outputs) == 3
    words = [set(o.split()) for o in outputs]
    assert not (words[0] & words[1]), "one of the generators repeats"


# ---- help


def test_completion_inspection_and_completeness(shared_sandbox: BaseSandbox) -> None:
    shared_sandbox.execute("import pandas as pd")
    assert shared_sandbox.complete("pd.DataFr")["matches"] == [".DataFrame"]  # as IPython without jedi gives it
    assert "pandas" in shared_sandbox.complete("import pand")["matches"]
    assert "DataFrame" in shared_sandbox.inspect("pd.DataFrame")["data"]["text/plain"]
    assert shared_sandbox.inspect("nothing_like_this")["found"] is False
    assert shared_sandbox.is_complete("for i in x:")["status"] == "incomplete"
    assert shared_sandbox.is_complete("1 +* 2")["status"] == "invalid"
    with pytest.raises(ConfigurationError, match="cursor"):
        shared_sandbox.complete("x", 7)


# ---- life


def test_one_execution_at_a_time_and_none_after_close(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    problems: list[BaseException] = []

    def second() -> None:
        try:
            sandbox.execute("2")
        except SandboxBusy as e:
            problems.append(e)
        sandbox.interrupt()

    run_and(sandbox, "print('go')\nwhile True: pass", second)
    assert len(problems) == 1
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxClosed):
        sandbox.execute("1")


def test_close_stops_what_runs(make_sandbox: Make) -> None:
    sandbox = make_sandbox()
    for body in ("while True: pass", "import time; time.sleep(1000)"):
        sandbox = make_sandbox()
        with pytest.raises(SandboxClosed):
            run_and(sandbox, f"print('go')\n{body}", sandbox.close)


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ruby"):
        create_sandbox("ruby", workspace=tmp_path)
    with pytest.raises(ConfigurationError, match="policy"):
        create_sandbox(policy={"memory_bytes": 1}, workspace=tmp_path)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="not a folder"):
        create_sandbox(workspace=tmp_path / "file")
    with create_sandbox(workspace=tmp_path / "deep" / "er") as sandbox, pytest.raises(TypeError):
        sandbox.execute(b"1")  # type: ignore[arg-type]


def _own_memory() -> int:
    """Without what is mapped from files, which is this process's own only as long as no other has it, too."""
    rollup = Path("/proc/self/smaps_rollup")
    if not rollup.exists():
        return int(psutil.Process().memory_full_info().uss)
    found = re.search(r"^Anonymous:\s+(\d+) kB", rollup.read_text(), re.MULTILINE)
    assert found
    return int(found[1]) << 10


def test_two_hundred_sandboxes_leave_nothing_behind(tmp_path: Path) -> None:
    def one() -> None:
        with create_sandbox(workspace=tmp_path) as sandbox:
            assert sandbox.execute("x = 1").success

    for _ in range(10):
        one()
    gc.collect()
    process = psutil.Process()
    before = (process.num_fds(), threading.active_count(), _own_memory(), len(process.memory_maps()))
    for _ in range(200):
        one()
    gc.collect()
    after = (process.num_fds(), threading.active_count(), _own_memory(), len(process.memory_maps()))
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1]
    assert after[2] <= before[2] + (40 << 20)
    assert after[3] <= before[3] + 20


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two processors")
def test_sandboxes_run_in_parallel(make_sandbox: Make) -> None:
    sandboxes = [make_sandbox() for _ in range(2)]
    for sandbox in sandboxes:
        sandbox.execute("pass")
    inside = [0, 0]
    together = [False]
    lock = threading.Lock()

    def work(i: int) -> None:
        def on_event(event: object) -> None:
            with lock:
                inside[i] = 1
                together[0] = together[0] or sum(inside) == 2

        sandboxes[i].execute(
            "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: print('.', end='')",
            on_event=on_event,
        )
        inside[i] = 0

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together[0]


def test_large_displays_with_many_commas_are_shown(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute("display({'text/plain': '1,2,3,' * 1_000_000}, raw=True)")
    assert len(result.displays[0]["text/plain"]) == 6_000_000


def test_the_error_after_a_flood_of_displays_is_shown(make_sandbox: Make) -> None:
    events: list[object] = []
    sandbox = make_sandbox(display_max_bytes=20_000)
    sandbox.execute("for i in range(30): display('x' * 1000)\n1/0", on_event=events.append)
    errors = [e for e in events if type(e).__name__ == "ErrorRaised"]
    assert len(errors) == 1


def test_a_flood_of_text_arrives_as_it_was_printed(sandbox: BaseSandbox) -> None:
    """The host looks at the buffer while the guest fills it: nothing of it may be lost, doubled or taken for another."""
    wanted = "".join(f"{i}\n" for i in range(100_000))
    for _ in range(6):  # a race that was there hit every other time
        assert sandbox.execute("for i in range(100_000): print(i)").stdout == wanted
