"""Crashing the guest half-way through a change. Its memory goes back to what it was before, and the host goes on."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene
from wasm_kernel import SandboxResult
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.live_guest import LiveGuest

_BEFORE = "x = 'before'"
_real_recover = LiveGuest.recover


class _CrashScene(Scene):
    """A variable set before each attempt must be as it was."""

    limits: ClassVar[dict[str, Any]] = {"timeout_seconds": 120.0}  # what ends in time is no crash

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        after = self.sandbox.execute("print(x)")
        found = (
            [] if after.stdout == "before\n" else [f"x is {after.stdout!r} {after.outcome.kind} {after.outcome.cause}"]
        )
        if result.success:
            found.append("the attempt did not crash")
        return found

    def attempt(self, attack: Attack) -> Any:
        if attack.name == "harmless":  # it does not crash
            attack = Attack(attack.name, "raise SystemExit", _BEFORE)
        return super().attempt(attack)


class _EndlessScene(_CrashScene):
    """The same, for what only ends by force."""

    limits: ClassVar[dict[str, Any]] = {"timeout_seconds": 1.0, "interrupt_grace_seconds": 0.2}


def _keeping(self: LiveGuest, trap: Trapped) -> None:
    if self.instance is not None:
        self.state.kept(self.instance.keep())
    _real_recover(self, trap)


def _attack(name: str, code: str) -> Attack:
    return Attack(name, f"x = 'after'\n{code}", _BEFORE)


class TestCrashTheGuest(AttackTests):
    family = Family(
        _CrashScene,
        [
            _attack("abort", "import os; os.abort()"),
            _attack("exit", "import os; os._exit(0)"),
            _attack("exit with a status", "import os; os._exit(7)"),
            _attack("nested in C", "from itertools import chain\nfor i in range(300_000): x = chain(x)\nlist(x)"),
            _attack("filters nested in C", "for i in range(300_000): x = filter(None, x)\nlist(x)"),
            _attack("maps nested in C", "for i in range(300_000): x = map(None.__eq__, x)\nnext(x, 0)"),
        ],
        lambda: guards.patched((LiveGuest, "recover", _keeping)),
        in_depth=[
            # From far below the interpreter's own data, wherever an image has put the array. A guest that went on with that would never end.
            _attack("memory overwritten", """
import numpy
here = numpy.zeros(8, 'u1')
below = numpy.lib.stride_tricks.as_strided(here, (here.__array_interface__['data'][0],), (-1,), writeable=True)
below[::-1][1 << 20:] = 255
raise MemoryError
"""),
            _attack("memory overwritten backwards", """
import numpy
here = numpy.zeros(8, 'u1')
below = numpy.lib.stride_tricks.as_strided(here, (here.__array_interface__['data'][0],), (-1,), writeable=True)
below[16:-(1 << 20)] = 255
raise MemoryError
"""),
            Attack("recursion", "def f(): f()\nf()", _BEFORE),
            Attack("recursion without a limit", "import json; json.loads('[' * 10**6)", _BEFORE),
            Attack("deep pickle", "import pickle\ny = []\nfor i in range(10**5): y = [y]\npickle.dumps(y)", _BEFORE),
            Attack("deep source", "compile('(' * 10**5 + ')' * 10**5, 'x', 'eval')", _BEFORE),
            Attack("a fault on purpose", "import faulthandler; faulthandler._sigsegv()", _BEFORE),
        ],
    )  # fmt: skip


class TestRunForEver(AttackTests):
    family = Family(
        _EndlessScene,
        [
            _attack("a loop in C that does not end", "sum(range(10**13))"),
            _attack("the signal that is ignored", """
import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True: pass
"""),
        ],
        lambda: guards.patched((LiveGuest, "recover", _keeping)),
    )  # fmt: skip
