"""Replies that lie. What `execute` returns has its types and ranges, and a guest that was stopped did not succeed."""

from __future__ import annotations

import math
from typing import Any

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, quietly
from wasm_kernel import ExecutionPolicy, GuestError, SandboxResult
from wasm_kernel.host.runtime import executions, verdict
from wasm_kernel.model import outcome as outcomes

_real_judge = verdict.judge


class _ReplyScene(Scene):
    """Looks at everything a program would read of a result."""

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        if type(result.exit_code) is not int or not 0 <= result.exit_code <= 255:
            found.append(f"exit_code is {result.exit_code!r:.40}")
        if type(result.execution_count) is not int or abs(result.execution_count) >= 2**53:
            found.append(f"execution_count is {result.execution_count!r:.40}")
        after: Any = self.sandbox._sandbox.next_task
        if after is not None and (type(after) is not float or not math.isfinite(after) or after < 0):
            found.append(f"next_task is {after!r:.40}")
        if result.error is not None:
            lines: Any = result.error.traceback
            texts = [result.error.name, result.error.value, *(lines if isinstance(lines, list) else [lines])]
            if any(type(text) is not str for text in texts):
                found.append(f"the error is {result.error!r:.100}")
            elif any(_has_surrogates(text) for text in texts):
                found.append("the error cannot be printed")
        if result.success and (self.workspace / "stopped").exists():
            found.append("a guest that was stopped succeeded")
        return found


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def _believing_judge(
    policy: ExecutionPolicy, run: Any, trap: Any, reply: dict[str, Any], *shown: Any, **more: Any
) -> Any:
    if reply.get("status") == "ok":
        return outcomes.OK, 0, None
    return _real_judge(policy, run, trap, reply, *shown, **more)


def _believed_error(reply: dict[str, Any]) -> GuestError | None:
    return GuestError(reply["ename"], reply.get("evalue", ""), reply.get("traceback", [])) if "ename" in reply else None


def _unchecked() -> Any:
    return guards.patched(
        (executions, "integer", lambda value: value),
        (executions, "_seconds", lambda value: value),
        (executions, "judge", _believing_judge),
        (verdict, "integer", lambda value: value),
        (verdict, "_error_of", _believed_error),
    )


def _forged(name: str, reply: str) -> Attack:
    """The guest's own reply is replaced by this JSON."""
    return Attack(name, quietly(f"forge({reply!r})", _WORDS))


def _stopped(name: str, code: str) -> Attack:
    """The guest says that all went well, and then does what stops it."""
    lie = 'say(\'{"status": "ok", "execution_count": 1}\'); open("/app/stopped", "w").close()\n'
    return Attack(name, quietly(lie + code, _WORDS))


_WORDS = """
import os, sys, _host, wasm_guest.driver as driver
call = _host.call
def frame(reply):
    text = f'{{"type": "Reply", "content": {reply}}}'.encode()
    return len(text).to_bytes(4, 'little') + text
def say(reply): call(frame(reply))
def forge(reply):
    class Host: call = staticmethod(lambda data: call(frame(reply) if b'"Reply"' in data else data))
    driver._host = Host
"""


class TestForgeReplies(AttackTests):
    family = Family(
        _ReplyScene,
        [
            _forged("next task at no number", '{"status": "ok", "next_task": NaN}'),
            _forged("next task in the past", '{"status": "ok", "next_task": -1}'),
            _forged("next task soon", '{"status": "ok", "next_task": "soon"}'),
            _forged("next task true", '{"status": "ok", "next_task": true}'),
            _forged("next task a list", '{"status": "ok", "next_task": [1]}'),
            _forged("next task never", '{"status": "ok", "next_task": Infinity}'),
            _forged(
                "next task after the end of time",
                f'{{"status": "ok", "next_task": 1{"0" * 400}}}',
            ),
            _forged("count of text", '{"status": "ok", "execution_count": "1"}'),
            _forged("count past all counts", '{"status": "ok", "execution_count": 1000000000000000000000000}'),
            _forged("count true", '{"status": "ok", "execution_count": true}'),
            _forged("count a list", '{"status": "ok", "execution_count": [1]}'),
            _forged("exit code of text", '{"status": "error", "ename": "SystemExit", "exit_code": "0"}'),
            _forged("exit code of a fraction", '{"status": "error", "ename": "SystemExit", "exit_code": 1.5}'),
            _forged("exit code a list", '{"status": "error", "ename": "SystemExit", "exit_code": []}'),
            _forged("error of numbers", '{"status": "error", "ename": 1, "evalue": 2, "traceback": [3]}'),
            _forged("error of objects", '{"status": "error", "ename": {}, "evalue": [], "traceback": [{}]}'),
            _forged("traceback of a number", '{"status": "error", "ename": "E", "traceback": 3}'),
            _forged(
                "error of surrogates",
                '{"status": "error", "ename": "E", "evalue": "\\ud800", "traceback": []}',
            ),
            _stopped("success, then abort", "os.abort()"),
            _stopped("success, then exit", "os._exit(0)"),
            _stopped("success, then exit with a status", "os._exit(3)"),
            _stopped(
                "success, then no stack left",
                "import itertools\nx = ()\nfor i in range(300_000): x = itertools.chain(x)\nlist(x)",
            ),
        ],
        _unchecked,
        in_depth=[
            _forged("exit code past a byte", '{"status": "error", "ename": "SystemExit", "exit_code": 1000000007}'),
            _forged("status of a list", '{"status": ["ok"]}'),
            _forged("empty", "{}"),
            _forged("name of a megabyte", '{"status": "error", "ename": "' + "E" * 1_000_000 + '"}'),
            Attack("success, twice", quietly('say(\'{"status": "ok"}\'); say(\'{"status": "ok"}\'); 1 / 0', _WORDS)),
        ],
    )
