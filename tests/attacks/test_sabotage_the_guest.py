"""Breaking the guest's own machinery. It may harm the guest; `reset` must give a whole one, whatever was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, Verdict, quietly
from wasm_kernel import BaseSandbox, SandboxResult
from wasm_kernel.host.runtime.live_guest import LiveGuest
from wasm_kernel.host.runtime.sandbox import Sandbox


class _SabotageScene(Scene):
    """After each attempt: reset, and see whether the sandbox works."""

    limits: ClassVar[dict[str, Any]] = {"interrupt_grace_seconds": 0.3, "memory_bytes": 400 << 20}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        self.sandbox.reset()
        if problem := self.works():
            return [problem]
        matches = self.sandbox.complete("prin").get("matches")
        return [] if matches == ["print"] else [f"it completes {matches!r:.100}"]

    def attempt(self, attack: Attack) -> Verdict:
        verdict = super().attempt(attack)
        if not self.guarded:  # `reset` does nothing: the next attempt needs a sandbox of its own
            self.sandbox.close()
            self.sandbox = self._create()
        return verdict


_real_drop_instance = LiveGuest.drop_instance


def _keeping(self: LiveGuest) -> None:
    """A guest that gave no reply, or trapped, is not put back."""
    if self.instance is not None and not self.closed:
        self.state.kept(self.instance.keep())
    _real_drop_instance(self)


_WORDS = """
import os, builtins, wasm_guest.driver as driver, wasm_guest.wire as wire, wasm_guest.door as door
shell = get_ipython()
def fail(*arguments, **more): raise RuntimeError('sabotage')
"""

_EACH = """
for i in range(60):
    try: {}
    except OSError: pass
"""

_ATTACKS = {
    "no door": "driver._host = None",
    "a deaf door": "driver._host = type('Deaf', (), {'call': staticmethod(lambda data: b'')})",
    "no turn": "def nothing(): pass\ndriver.turn.__code__ = nothing.__code__",
    "a turn that exits": "def leave(): raise SystemExit\ndriver.turn.__code__ = leave.__code__",
    "no requests": "driver._REQUESTS.clear()",
    "other requests": "driver._REQUESTS.update({name: fail for name in driver._REQUESTS})",
    "no encoding": "wire.encode = wire.encode_event = fail",
    "no decoding": "wire.decode = fail",
    "no shell": "driver._shell = None",
    "a shell that runs something else": "shell.run_cell = lambda *a, **k: type(shell).run_cell(shell, 'pass')",
    "source rewritten": "shell.input_transformers_post.append(lambda lines: ['print(0)\\n'])",
    "syntax trees rewritten": """
import ast
class Empty(ast.NodeTransformer):
    def visit_Module(self, node): return ast.Module([], [])
shell.ast_transformers.append(Empty())
""",
    "before every cell": "def leave(*a): os._exit(1)\nshell.events.register('pre_run_cell', leave)",
    "no imports": "builtins.__import__ = fail",
    "no length": "builtins.len = fail",
    "no print": "builtins.print = lambda *a, **k: None",
    "no builtins": "builtins.__dict__.clear()",
    "no modules": "sys.modules.clear()",
    "no stdout": "sys.stdout = None",
    "stdout that raises": """
class Out:
    def write(self, text): raise KeyboardInterrupt
    flush = write
sys.stdout = sys.stderr = Out()
""",
    "stdout of another encoding": "sys.stdout.reconfigure(encoding='utf-16')",
    "a turn that fails": "driver.turn.__code__ = fail.__code__",
    "json broken": "driver.wire._dumps = driver.wire._loads = fail",
    "clocks broken": "import time; time.monotonic = time.time = fail; driver.aio.pump = fail",
    "a closed loop": "import asyncio; driver.aio.loop = driver.aio.run_cell = fail",
    "descriptors closed": "os.closerange(0, 60)",
    "mounts closed": "for i in range(3, 11): os.close(i)",
    "the workspace closed and its number taken": "os.close(10); os.open('/tmp', os.O_RDONLY)",
    "memory exhausted": """
builtins.keep = []
try:
    while True: keep.append(bytearray(16 << 20))
except MemoryError: driver._shell = None
""",
}


class TestSabotageTheGuest(AttackTests):
    family = Family(
        _SabotageScene,
        [Attack(name, quietly(code, _WORDS)) for name, code in _ATTACKS.items()],
        lambda: guards.patched((Sandbox, "reset", lambda self: None), (LiveGuest, "drop_instance", _keeping)),
        in_depth=[
            Attack("only stdout closed", quietly("os.close(1)", _WORDS)),
            Attack("descriptors written", quietly(_EACH.format("os.write(i, b'x')"), _WORDS)),
            Attack("descriptors read", quietly(_EACH.format("os.read(i, 9)"), _WORDS)),
        ],
    )  # fmt: skip


def test_a_guest_that_gives_no_reply_is_put_back(sandbox: BaseSandbox) -> None:
    """The outcome says that variables are back as they were before; so must be what was broken."""
    assert sandbox.execute("x = 'before'").success
    lost = sandbox.execute("x = 'after'; import wasm_guest.driver as driver; driver._host = None")
    assert lost.outcome.state_lost
    assert sandbox.execute("print(x)").stdout == "before\n"


def test_a_guest_that_never_replied_is_made_ready_again(make_sandbox: Callable[..., BaseSandbox]) -> None:
    sandbox = make_sandbox(env={"GREETING": "hello"})
    assert sandbox.execute("import wasm_guest.driver as driver; driver._host = None").outcome.state_lost
    assert sandbox.execute("import os; print(os.environ['GREETING'])").stdout == "hello\n"
