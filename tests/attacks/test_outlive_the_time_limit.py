"""Going on after the time limit. An attack that gets its way leaves a file behind.

With the guard the code wants an hour; without it a moment, so that the breach comes soon.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene
from wasm_kernel import SandboxClosed, SandboxResult, create_sandbox

_LATE = 15.0  # seconds after which an execution was not stopped in time, on a machine that does other things, too


class _TimeScene(Scene):
    """Little time, or all of it."""

    def _limits(self) -> dict[str, Any]:
        limit = {"timeout_seconds": 0.15 if self.guarded else None, "interrupt_grace_seconds": 0.15}
        return {**super()._limits(), **limit}

    def execute(self, code: str) -> SandboxResult:
        return super().execute(_WORDS.format(seconds=3600 if self.guarded else 0.2) + code)

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        if (self.workspace / "escaped").exists():
            found.append("the code ran to its end")
        if result.duration_seconds > _LATE:
            found.append(f"it ran for {result.duration_seconds:.1f} s")
        return found


_WORDS = """
import time, signal, sys, os
_end = time.monotonic() + {seconds}
def going(): return time.monotonic() < _end
def done(): open('/app/escaped', 'w').close()
"""

_ATTACKS = [
    Attack("loop", "while going(): pass\ndone()"),
    Attack("sleep", "time.sleep(max(0, _end - time.monotonic())); done()"),
    Attack("sleep in slices", "while going(): time.sleep(0.001)\ndone()"),
    Attack("catch everything", """
while going():
    try:
        while going(): pass
    except BaseException: pass
done()
"""),
    Attack("catch everything while asleep", """
while going():
    try: time.sleep(max(0, _end - time.monotonic()))
    except BaseException: pass
done()
"""),
    Attack("go on in finally", "try:\n    while going(): pass\nfinally:\n    while going(): pass\n    done()"),
    Attack("ignore the signal", "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile going(): pass\ndone()"),
    Attack("handle the signal", "signal.signal(signal.SIGXCPU, lambda *a: None)\nwhile going(): pass\ndone()"),
    Attack("default action", "signal.signal(signal.SIGXCPU, signal.SIG_DFL)\nwhile going(): pass\ndone()"),
    Attack("say that the interrupt was seen", """
import _host, wasm_guest.wire as wire
seen = wire.encode_event(wire.InterruptSeen())
while going():
    try: _host.call(seen)
    except BaseException: pass
done()
"""),
    Attack("handle the signal and say so", """
import _host, wasm_guest.wire as wire
signal.signal(signal.SIGXCPU, lambda *a: _host.call(wire.encode_event(wire.InterruptSeen())))
while going(): pass
done()
"""),
    Attack("reply early and go on", """
import _host, wasm_guest.wire as wire
reply = wire.encode_event(wire.Reply({'status': 'ok', 'execution_count': 1, 'next_task': None}))
while going():
    try: _host.call(reply); time.sleep(0.001)
    except BaseException: pass
done()
"""),
    Attack("ask for the next request for ever", """
import _host, wasm_guest.wire as wire
ask = wire.encode_event(wire.NextRequest())
while going():
    try: _host.call(ask)
    except BaseException: pass
done()
"""),
    Attack("ask for input for ever", """
while going():
    try: input()
    except BaseException: pass
done()
"""),
    Attack("a loop in C", "deque = __import__('collections').deque\ndeque(iter(going, False), maxlen=0); done()"),
    Attack("a loop in C without Python", "sum(range(10**12 if _end - time.monotonic() > 60 else 10**6)); done()"),
    Attack("a large power", "len(str(7 ** (10**9 if _end - time.monotonic() > 60 else 10**3))); done()"),
    Attack("a regular expression", """
import re
re.match('(a|a)*b', 'a' * (60 if _end - time.monotonic() > 60 else 10)); done()
"""),
    Attack("a destructor", """
class D:
    def __del__(self):
        while going(): pass
        done()
d = D(); del d
"""),
    Attack("a representation", """
class R:
    def __repr__(self):
        while going(): pass
        done(); return ''
R()
"""),
    Attack("after the cell", """
def after(result):
    while going():
        try:
            while going(): pass
        except BaseException: pass
    done()
get_ipython().events.register('post_run_cell', after)
"""),
    Attack("tasks", """
import asyncio
async def busy():
    while going(): await asyncio.sleep(0)
tasks = [asyncio.create_task(busy()) for i in range(100)]
await asyncio.gather(*tasks); done()
"""),
    Attack("tasks that make tasks", """
import asyncio
async def busy():
    if going(): asyncio.create_task(busy()); await asyncio.sleep(0)
for i in range(50): asyncio.create_task(busy())
while going(): await asyncio.sleep(0.001)
done()
"""),
    Attack("a task left behind that blocks", """
import asyncio
async def busy():
    while going():
        try:
            while going(): pass
        except BaseException: pass
    done()
task = asyncio.create_task(busy())
"""),
    Attack("sending signals to itself", """
while going():
    try: signal.raise_signal(signal.SIGINT)
    except BaseException: pass
done()
"""),
    Attack("a trace function", """
def trace(*a): return trace
sys.settrace(trace)
while going(): pass
done()
"""),
    Attack("a standard stream of its own", """
class Stream:
    def write(self, text): return len(text)
    def flush(self):
        while going(): pass
        done()
sys.stdout = Stream()
"""),
    Attack("output for ever", "while going(): os.write(1, b'x')\ndone()"),
    Attack("listing for ever", "while going(): os.listdir('/app')\ndone()"),
]  # fmt: skip


class TestOutliveTheTimeLimit(AttackTests):
    family = Family(_TimeScene, _ATTACKS, guards.by_scene)


@pytest.mark.parametrize("code", ["while True: pass", "while True: time.sleep(0.01)", "while True: _host.call(b'')"])
def test_close_ends_a_guest_that_catches_everything(code: str, tmp_path: Path) -> None:
    """Without a time limit, interrupts can be caught for ever; closing cannot."""
    sandbox = create_sandbox(workspace=tmp_path / "workspace")
    started = threading.Event()
    ended: list[BaseException] = []

    def run() -> None:
        stubborn = "\n".join(["while True:", "    try:", *[f"        {line}" for line in code.split("\n")]])
        try:
            sandbox.execute(
                f"import time, _host\nprint('started')\n{stubborn}\n    except BaseException: pass",
                on_event=lambda event: started.set(),
            )
        except BaseException as e:  # noqa: BLE001 - looked at below
            ended.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    for _ in range(3):
        sandbox.interrupt()
    begun = time.monotonic()
    sandbox.close()
    thread.join(60)
    assert time.monotonic() - begun < _LATE
    assert [type(e) for e in ended] == [SandboxClosed]
