"""Going on after the cell has ended: printing, showing and computing from tasks, as if each turn were a cell of its own.

The scene gives the guest turns between cells as the kernel does, only without a pause, for a moment that is much
shorter than the window of any budget. So all of it together may use what one cell may.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene
from wasm_kernel import ExecutionPolicy, InputRequest, SandboxResult, Stream
from wasm_kernel.host.runtime.instance import Instance
from wasm_kernel.kernel import open_comms
from wasm_kernel.kernel.outputs import Outputs
from wasm_kernel.model.budget import BackgroundBudget, Budget
from wasm_kernel.sessions.sandboxes import ready_image

_SECONDS, _GRACE = 0.2, 0.2  # what the background may use, as a cell might
_USED = 1.0  # seconds in the guest: the last turn begins while something is left, and a busy machine ends it late
_STREAM, _DISPLAY = 20_000, 50_000
_NOTICES = 1500  # a sentence for each thing that was too much
_MOMENT = 1.2
_PATIENCE = 60.0  # until a breach is seen
_FUEL = 50_000_000


class _BackgroundScene(Scene):
    """Turns for tasks when the cell is over, with tight limits; the cell itself may take long on a busy machine."""

    limits = {
        "interrupt_grace_seconds": _GRACE,
        "stdout_max_bytes": _STREAM,
        "stderr_max_bytes": _STREAM,
        "display_max_bytes": _DISPLAY,
    }

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._used, turn = 0.0, Instance.turn

        def timed(instance: Instance, *args: Any) -> None:
            began = time.monotonic()
            try:
                turn(instance, *args)
            finally:
                self._used += time.monotonic() - began

        self.stack.enter_context(guards.patched((Instance, "turn", timed)))

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        sandbox = self.sandbox._sandbox
        of_cells = sandbox.policy
        sandbox.change_policy(replace(of_cells, timeout_seconds=_SECONDS))
        found = self._give_turns(_time_for(self, attack))
        sandbox.change_policy(of_cells)
        return found

    def _give_turns(self, seconds: float) -> list[str]:
        """Turns for so long, or until there is a breach."""
        self._used = 0.0
        sizes, notices, found = {"stdout": 0, "stderr": 0, "shown": 0}, 0, list[str]()
        most = {"stdout": _STREAM + _NOTICES, "stderr": _STREAM + _NOTICES, "shown": _DISPLAY + 5000}
        end = time.monotonic() + seconds
        while not found and time.monotonic() < end:
            self.events.clear()
            self.sandbox._sandbox.ask({"op": "pump"}, on_event=self.events.append)
            for event in self.events:
                if isinstance(event, Stream):
                    sizes[event.name] += len(event.text.encode())
                    notices += event.text.count("[wasm-kernel: ")
                else:
                    sizes["shown"] += _weight(event.prompt if isinstance(event, InputRequest) else event.__dict__)
            found += [f"{size} bytes of {what}" for what, size in sizes.items() if size > most[what]]
            found += [f"{self._used:.1f} s in the guest"] * (self._used > _USED)
            found += [f"{notices} notices"] * (notices > 3)
            time.sleep(0.003)
        return found


def _time_for(scene: Scene, attack: Attack) -> float:
    """How long turns are given, in seconds. Without the guard it ends with the breach, which is late on a busy machine."""
    return _MOMENT if scene.guarded or attack.name == "harmless" else _PATIENCE


def _weight(value: Any) -> int:
    return len(json.dumps(value, default=lambda other: "x" * len(other) if isinstance(other, bytes) else str(other)))


def _unlimited(policy: ExecutionPolicy) -> BackgroundBudget:
    """No budget, as it was when each turn had a new one."""
    output = {name: Budget(1 << 60, 60) for name in ("stdout", "stderr", "display")}
    return BackgroundBudget(output, Budget(math.inf, 60), Budget(math.inf, 60))


def _no_budget() -> Any:
    return guards.patched((BackgroundBudget, "of", _unlimited))


_WORDS = """
import asyncio, os, sys, _host, wasm_guest.wire as wire
from IPython.display import display
def send(event):
    try: _host.call(wire.encode_event(event))
    except OSError: pass
"""


def _task(name: str, body: str) -> Attack:
    """A task that does something in every step; the cell itself leaves it at rest."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    code = f"{_WORDS}\nasync def go():\n    await asyncio.sleep(0.1)\n    while True:\n{lines}\n"
    return Attack(name, code + "        await asyncio.sleep(0)\ntask = asyncio.create_task(go())")


_ATTACKS = [
    _task("printing", "print('x' * 1000)"),
    _task("printing to stderr", "print('x' * 1000, file=sys.stderr)"),
    _task("printing much at once", "print('x' * 15_000)"),
    _task("raw writes", "os.write(1, b'x' * 1000)"),
    _task("bytes that are no UTF-8", "os.write(1, b'\\xff' * 1000)"),
    _task("displays", "display({'text/plain': 'x' * 1000}, raw=True)"),
    _task("updates", "send(wire.UpdateDisplay({'text/plain': 'x' * 1000}, {}, {'display_id': 'd'}))"),
    _task("errors", "send(wire.ErrorRaised('E', 'v' * 1000, []))"),
    _task("comm messages", "send(wire.Comm('comm_msg', {'comm_id': 'c', 'data': 'x' * 1000}))"),
    _task("comm buffers", "send(wire.Comm('comm_msg', {'comm_id': 'c'}, {}, (bytes(1000),) * 20))"),
    _task("questions", "send(wire.InputRequest('q' * 1000))"),
    _task("small steps", "pass"),
    _task("long steps", "for i in range(200_000): pass"),
    _task("steps in C", "sum(range(100_000))"),
    _task("sleeping without await", "import time; time.sleep(0.1)"),
    _task("steps that do not end", "async def hang():\n    while True: pass\nasyncio.create_task(hang())"),
    _task("catching the time limit", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
    Attack(
        "callbacks",
        f"{_WORDS}\nloop = asyncio.get_event_loop()\n"
        "def go():\n    for i in range(500_000): pass\n    loop.call_later(0.001, go)\nloop.call_later(0.1, go)",
    ),
]


class TestWorkBetweenCells(AttackTests):
    family = Family(_BackgroundScene, _ATTACKS, _no_budget)


# ---- fuel


class _FuelScene(Scene):
    """Little fuel; a task writes down each piece of work it has done."""

    limits = {"fuel_budget": _FUEL, "timeout_seconds": None}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        end, pieces, done = time.monotonic() + _time_for(self, attack), 0, self.workspace / "done"
        while pieces <= _PIECES and time.monotonic() < end:
            self.sandbox._sandbox.ask({"op": "pump"})
            pieces = done.stat().st_size if done.exists() else 0
        return [f"{pieces} pieces of work were done"] if pieces > _PIECES else []


_PIECES = 60  # of about three million instructions each
_WORK = "for i in range(3_000): pass\nwith open('/app/done', 'ab') as f: f.write(b'.')"


@pytest.mark.metered
class TestBurnFuelBetweenCells(AttackTests):
    family = Family(
        _FuelScene,
        [
            _task("small steps", _WORK),
            _task("steps in C", _WORK.replace("for i in range(3_000): pass", "sum(range(3_000))")),
        ],
        _no_budget,
    )

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def loaded(cls) -> None:
        """The metered module is loaded once per process; its descriptors are no leak."""
        ready_image(metered=True).modules(metered=True)


# ---- open comms: what the host remembers of them


class _CommScene(Scene):
    """Few comms with short names, or any. The kernel's own outputs keep what the guest opens."""

    limits = {"display_max_bytes": 1 << 28}

    def __init__(self, folder: Any, guarded: bool) -> None:
        super().__init__(folder, guarded)
        if guarded:
            self.stack.enter_context(guards.patched((open_comms, "MOST", 100)))

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        end, found = time.monotonic() + _time_for(self, attack), list[str]()
        while not found and time.monotonic() < end:
            self.sandbox._sandbox.ask({"op": "pump"}, on_event=self.events.append)
            time.sleep(0.05)
            found = self._found()
        return found

    def _found(self) -> list[str]:
        sent: list[str] = []
        outputs = Outputs(lambda parent, kind, content, *rest: sent.append(kind), lambda seconds, work: None)
        outputs.trusted = True  # else only widgets of ipywidgets' own are opened at all
        for event in self.events:
            outputs.show(event, {}, number=1)
        kept = sum(len(comm_id) + len(target) for comm_id, target in outputs.comms.known().items())
        found = [f"{kept} characters are kept"] if kept > 100 * 2 * 200 else []
        if len(outputs.comms.known()) > 100:
            found.append(f"{len(outputs.comms.known())} comms are kept")
        if sent.count("comm_open") > 200:
            found.append(f"{sent.count('comm_open')} were sent on")
        return found


def _opening(name: str, comm_id: str, target: str = "'t'", times: int = 500) -> Attack:
    frame = f"wire.Comm('comm_open', {{'comm_id': {comm_id}, 'target_name': {target}}})"
    return Attack(name, f"{_WORDS}\nfor n in range({times}): send({frame})")


_OPENINGS = [
    _opening("many", "str(n)"),
    _opening("long ids", "str(n) + 'x' * 100_000", times=20),
    _opening("long targets", "str(n)", "'x' * 100_000", times=20),
    Attack(
        "ipywidgets",
        "from ipywidgets import IntSlider\nkept = [IntSlider() for n in range(100)]",
    ),
    _task(
        "from a task",
        "for n in range(300): send(wire.Comm('comm_open', {'comm_id': os.urandom(8).hex(), 'target_name': 't'}))",
    ),
]


class TestOpenManyComms(AttackTests):
    family = Family(
        _CommScene,
        _OPENINGS,
        lambda: guards.patched((open_comms, "MOST", 1 << 60), (open_comms, "LONGEST", 1 << 60)),
        in_depth=[_opening("a target that is no text", "str(n)", "['x' * 100_000]", times=20)],
    )
