"""Sending more output than allowed: on standard streams, as displays, as frames. The host counts what reaches it."""

from __future__ import annotations

import json
from typing import Any

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, quietly
from wasm_kernel import InputRequest, SandboxResult, Stream
from wasm_kernel.host.runtime import live_guest

_STREAM, _DISPLAY, _REPLY = 20_000, 50_000, 1 << 20
_NOTICE = 300  # one sentence each says that something was dropped
_HUGE = 1 << 30


class _OutputScene(Scene):
    """Tight caps, or none."""

    def _limits(self) -> dict[str, Any]:
        streams, displays = (_STREAM, _DISPLAY) if self.guarded else (_HUGE, _HUGE)
        caps = {"stdout_max_bytes": streams, "stderr_max_bytes": streams, "display_max_bytes": displays}
        return {**super()._limits(), **caps}

    def __init__(self, folder: Any, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self.stack.enter_context(guards.patched((live_guest, "_REPLY_ROOM", _REPLY if guarded else 100 * _REPLY)))

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        streamed = {"stdout": 0, "stderr": 0}
        shown = 0
        for event in self.events:
            if isinstance(event, Stream):
                streamed[event.name] += len(event.text.encode())
            else:
                shown += _weight(event.prompt if isinstance(event, InputRequest) else event.__dict__)
        kept = _weight([result.result, result.displays, result.error and result.error.__dict__])
        sizes = {
            "streamed to stdout": (streamed["stdout"], _STREAM + _NOTICE),
            "streamed to stderr": (streamed["stderr"], _STREAM + _NOTICE),
            "kept of stdout": (len(result.stdout.encode()), _STREAM + _NOTICE),
            "kept of stderr": (len(result.stderr.encode()), _STREAM + _NOTICE),
            "shown": (shown, _DISPLAY + 5000),
            "kept of displays": (kept, _DISPLAY + 5000),
            "replied": (_weight(result.reply), _DISPLAY + _REPLY),
        }
        return [f"{size} bytes {what}" for what, (size, limit) in sizes.items() if size > limit]


def _weight(value: Any) -> int:
    return len(json.dumps(value, default=str))


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, _WORDS))


_WORDS = """
import os, sys, _host, wasm_guest.driver, wasm_guest.wire as wire
from IPython.display import display, update_display, clear_output
def send(event, times=1):
    frame = wire.encode_event(event)
    for i in range(times):
        try: _host.call(frame)
        except OSError: pass
"""

_ATTACKS = [
    _attack("print", "for i in range(2000): print('x' * 50)"),
    _attack("one print", "print('x' * 1_000_000)"),
    _attack("raw writes", "for i in range(100): os.write(1, b'x' * 1000)"),
    _attack("stderr", "for i in range(2000): print('x' * 50, file=sys.stderr)"),
    _attack("raw writes to stderr", "for i in range(100): os.write(2, b'x' * 1000)"),
    _attack("both by turns", "for i in range(400): os.write(1, b'x' * 100); os.write(2, b'y' * 100)"),
    _attack("characters of four bytes", "print('\\U0001f600' * 20_000)"),
    _attack("bytes that are no UTF-8", "os.write(1, b'\\xff' * 19_000)"),
    _attack("half a character", "for i in range(20_100): os.write(1, b'\\xf0')"),
    _attack("warnings", "import warnings\nfor i in range(1500): warnings.warn_explicit('x' * 50, UserWarning, 'f', i)"),
    _attack("displays", "for i in range(200): display({'text/plain': 'x' * 1000}, raw=True)"),
    _attack("one display", "display({'text/html': 'x' * 200_000}, raw=True)"),
    _attack("metadata of a display", "send(wire.DisplayData({}, {'m': 'x' * 200_000}, {}))"),
    _attack("small displays", "send(wire.DisplayData({}, {}, {}), 5000)"),
    _attack("updates", "send(wire.UpdateDisplay({'text/plain': 'x' * 1000}, {}, {'display_id': 'd'}), 200)"),
    _attack("results", "send(wire.ExecuteResult({'text/plain': 'x' * 1000}, {}, 1), 200)"),
    _attack("comm messages", "send(wire.Comm('comm_msg', {'comm_id': 'c', 'data': 'x' * 1000}), 200)"),
    _attack("comm buffers", "send(wire.Comm('comm_msg', {'comm_id': 'c'}, {}, (bytes(1000),) * 300))"),
    _attack("clearing", "send(wire.ClearOutput(True), 5000)"),
    _attack("errors", "send(wire.ErrorRaised('E', 'v' * 1000, []), 200)"),
    _attack("one error", "send(wire.ErrorRaised('E' * 300_000, 'v' * 300_000, ['t' * 300_000]))"),
    _attack("questions", "send(wire.InputRequest('q' * 1000), 200)"),
    _attack("a large reply", "get_ipython().set_next_input('x' * 5_000_000)"),
    _attack("a forged reply", "send(wire.Reply({'x': 'y' * 5_000_000})); wasm_guest.driver._host = None"),
]  # fmt: skip


class TestFloodTheOutput(AttackTests):
    family = Family(_OutputScene, _ATTACKS, guards.by_scene)
