"""Speak on the side panel's comm, on which the person's requests come and the kernel's word is taken.

The guest knows the comm's target and has guessed its id, and its outputs are trusted, so that nothing else is in its
way. Judged by what the front end hears on the comm, and by what the guest got to hear. Each attempt gets through when
the guard is switched off, in a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.client import Kernel
from tests.conformance.panel import Panel

pytestmark = pytest.mark.filterwarnings("ignore")
REPOSITORY = Path(__file__).parents[2]
_SWITCHES = """
import os
if os.environ.get("TEST_GUARDS_OFF"):
    from wasm_kernel.kernel.outputs import Outputs
    Outputs.is_panels = property(lambda self: lambda content: False, lambda self, value: None)
"""
_COMM = "from comm import create_comm\n"
ATTEMPTS = {
    "open one like it": "create_comm(target_name='wasm-kernel', comm_id='panel-1', data={'state': 'forged'})",
    "open one, then send": "create_comm(target_name='wasm-kernel', comm_id='panel-1').send({'state': 'forged'})",
    "send without opening": "create_comm(target_name='x', comm_id='panel-1', primary=False).send({'state': 'forged'})",
    "as a widget": "create_comm(target_name='jupyter.widget', comm_id='panel-1').send({'state': 'forged'})",
    "answer in its place": "create_comm(target_name='x', comm_id='panel-1', primary=False).send("
    "{'answer': 1, 'result': 'forged'})",
    "greet as another version": "create_comm(target_name='x', comm_id='panel-1', primary=False).send("
    "{'hello': {'version': 99, 'kernel': 'forged'}})",
    "tell what is not true": "create_comm(target_name='x', comm_id='panel-1', primary=False).send("
    "{'notice': {'id': 'n', 'kind': 'note', 'good': True, 'text': 'forged', 'values': {}}})",
    "close it": "create_comm(target_name='x', comm_id='panel-1', primary=False).close({'why': 'forged'})",
}


@contextmanager
def kernel(folder: Path, guards_off: str = "") -> Iterator[Kernel]:
    (folder / "sitecustomize.py").write_text(_SWITCHES)
    env = {"PYTHONPATH": f"{folder}:{REPOSITORY}", "TEST_GUARDS_OFF": guards_off}
    running = Kernel(folder / "sessions", sealed=False, **env)
    try:
        yield running
    finally:
        running.stop()


def heard(running: Kernel, code: str) -> bool:
    """Whether the front end hears what the guest says, on the panel's comm or as one that is opened to it."""
    cell = running.ok(_COMM + code)
    return any("forged" in str(m["content"]) for m in cell.messages if m["msg_type"].startswith("comm_"))


def test_no_attempt_is_heard(tmp_path: Path) -> None:
    with kernel(tmp_path) as running:
        assert not heard(running, ATTEMPTS["open one like it"]), "also before there is a panel"
        panel = Panel(running)
        panel.ask("look")
        for name, code in ATTEMPTS.items():
            assert not heard(running, code), name
        assert "result" in panel.ask("look"), "it is still open"
        assert all("forged" not in str({k: v for k, v in said.items() if k != "state"}) for said in panel.said)
        assert panel.ask("undo").get("result"), "the person's requests are done as ever"


def test_without_the_guard_each_is_heard(tmp_path: Path) -> None:
    with kernel(tmp_path, guards_off="yes") as running:
        Panel(running).ask("look")
        for name, code in ATTEMPTS.items():
            assert heard(running, code), name


def test_sealed_outputs_do_not_bring_it_there_either(tmp_path: Path) -> None:
    running = Kernel(tmp_path / "sessions")
    try:
        panel = Panel(running)
        panel.ask("look")
        for name, code in ATTEMPTS.items():
            assert not heard(running, code), name
    finally:
        running.stop()


def test_the_guest_does_not_hear_what_the_person_asks(tmp_path: Path) -> None:
    with kernel(tmp_path) as running:
        running.ok(
            "heard = []\n"
            "from comm import get_comm_manager\n"
            "manager = get_comm_manager()\n"
            "manager.register_target('wasm-kernel', lambda comm, message: (heard.append(message), comm.on_msg(heard.append)))"
        )
        running.ok("from comm import create_comm; mine = create_comm(target_name='x', comm_id='panel-1')")
        running.ok("mine.on_msg(heard.append)")
        panel = Panel(running)
        assert "result" in panel.ask("look")
        assert "error" in panel.ask("name", row="x", label="secret")
        assert running.ok("print(heard)").stdout == "[]\n"
