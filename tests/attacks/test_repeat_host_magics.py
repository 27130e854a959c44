"""Having a host magic done more often than the user's text says, or when its cell is over. With a real kernel.

In the cell: each `%session fork` that is done leaves a folder. After the cell: `%session rename` changes the metadata.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Kernel, eventually

pytestmark = pytest.mark.filterwarnings("ignore")

# What the rule comes to when it is off: any magic that any text has held is done, whoever asks for it and when.
_SWITCH = """
import os
if os.environ.get("TEST_WITHOUT_CLAIMS"):
    from wasm_kernel.kernel import cell_run, cells, guest_questions
    questions = guest_questions.GuestQuestions
    do = questions._do_magic
    async def do_always(self, run, sandbox, request):
        self.last = run or self.last
        await do(self, self.last, sandbox, request)
    questions._do_magic, questions.last = do_always, cell_run.CellRun({}, None, "", False, False)
    cells.Claims.claim = lambda self, name, line: cells.MagicInCell(name, line, shown=True)
"""

_WORDS = """
import _host, wasm_guest.wire as wire, asyncio
def ask(line='fork'):
    try: get_ipython().run_line_magic('session', line)
    except BaseException as e: print(e)
def forge(line='fork'):
    print(_host.call(wire.encode_event(wire.HostMagic('session', line)))[:300])
"""
_ONCE = "\n%session fork"

# name: the cell, and how many forks its text allows
_IN_THE_CELL = {
    "calls before it": ("for n in range(3): ask()" + _ONCE, 1),
    "calls after it": ("%session fork\nfor n in range(3): ask()", 1),
    "forged frames": ("for n in range(3): forge()" + _ONCE, 1),
    "a magic within a magic": ("get_ipython().run_cell('ask()\\n%session fork\\nask()')" + _ONCE, 1),
    "a text that is not there": ("for n in range(3): ask(); forge()", 0),
    "a branch that is not taken, twice": ("ask(); ask()\nif False:\n    %session fork", 1),
    "a destructor": ("class D:\n    def __del__(self): ask()\nfor n in range(3): D()" + _ONCE, 1),
    "under %%time": ("%%time\nask(); ask()\n%session fork", 1),
    "under %%capture": ("%%capture\nask(); ask()\n%session fork", 1),
    "with %time": ("ask(); ask()\n%time %session fork", 1),
}
_TASK = "async def late():\n    await asyncio.sleep(0.3)\n    {}\ntask = asyncio.create_task(late())"
_HELD = "\nif False:\n    %session rename stolen"
_AFTERWARDS = {
    "a task": _TASK.format("ask('rename stolen')") + _HELD,
    "a task that forges": _TASK.format("forge('rename stolen')") + _HELD,
    "a task of the user's own text": _TASK.format("%session rename stolen"),
    "a callback of a timer": "asyncio.get_event_loop().call_later(0.3, ask, 'rename stolen')" + _HELD,
}


@pytest.fixture(scope="module", params=[True, False], ids=["guarded", "unguarded"])
def victim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kernel, bool]]:
    folder = tmp_path_factory.mktemp("magics")
    (folder / "sitecustomize.py").write_text(_SWITCH)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    env = {} if request.param else {"TEST_WITHOUT_CLAIMS": "1"}
    kernel = Kernel(folder / "sessions", PYTHONPATH=paths, **env)
    kernel.ok(_WORDS)
    yield kernel, request.param
    kernel.stop()


def forks(root: Path) -> int:
    return sum(1 for entry in root.iterdir() if entry.name[0] != ".")


def judge(kernel: Kernel, guarded: bool, before: int, allowed: int) -> None:
    made = forks(kernel.root) - before
    if guarded:
        assert made <= allowed
    else:
        assert made > allowed, "the test would not notice"


@pytest.mark.parametrize("name", _IN_THE_CELL)
def test_in_the_cell(victim: tuple[Kernel, bool], name: str) -> None:
    kernel, guarded = victim
    code, allowed = _IN_THE_CELL[name]
    before = forks(kernel.root)
    kernel.run(code)
    judge(kernel, guarded, before, allowed)


def title(kernel: Kernel) -> str:
    """What the host finds in the metadata of the kernel's session: the one that has a title."""
    records = [json.loads(path.read_bytes()) for path in kernel.root.glob("*/.metadata.json")]
    (found,) = {record["title"] for record in records if record.get("title")}
    return str(found)


@pytest.fixture
def named(victim: tuple[Kernel, bool]) -> tuple[Kernel, bool]:
    victim[0].ok("%session rename mine")
    assert title(victim[0]) == "mine"
    return victim


@pytest.mark.parametrize("name", _AFTERWARDS)
def test_after_the_cell(named: tuple[Kernel, bool], name: str) -> None:
    kernel, guarded = named
    assert kernel.run(_AFTERWARDS[name]).ok
    assert title(kernel) == "mine"
    if guarded:
        time.sleep(1)
        assert title(kernel) == "mine"
    else:
        assert eventually(lambda: title(kernel) == "stolen"), "the test would not notice"


def test_from_a_widgets_callback(named: tuple[Kernel, bool]) -> None:
    kernel, guarded = named
    kernel.ok(
        "import comm\n"
        "def opened(channel, message):\n"
        "    def on_message(message):\n"
        "        try:\n"
        "            %session rename stolen\n"
        "        except BaseException as e: print(e)\n"
        "    channel.on_msg(on_message)\n"
        "comm.get_comm_manager().register_target('attack', opened)"
    )
    kernel.open_comm("c1", "attack")
    cell = kernel.comm("c1", {})
    assert title(kernel) == ("mine" if guarded else "stolen")
    if guarded:
        assert "not from a background task or a widget's callback" in cell.said


@pytest.mark.parametrize("kind", ["complete_request", "inspect_request"])
def test_from_a_completion_or_an_inspection(named: tuple[Kernel, bool], kind: str) -> None:
    kernel, guarded = named
    kernel.ok(
        "class Trap:\n"
        "    def __getattr__(self, name):\n"
        "        ask('rename stolen')\n"
        "        raise AttributeError(name)\n"
        "    __dir__ = lambda self: ask('rename stolen') or ['x']\n"
        "trap = Trap()" + _HELD
    )
    code = "trap." if kind == "complete_request" else "trap"
    kernel.ask(kind, {"code": code, "cursor_pos": len(code), "detail_level": 0}, timeout=30)
    assert title(kernel) == ("mine" if guarded else "stolen")


def test_from_the_next_cell(named: tuple[Kernel, bool]) -> None:
    kernel, guarded = named
    kernel.ok("def own():\n    %session rename stolen")
    assert kernel.run("own()").ok is not guarded
    assert title(kernel) == ("mine" if guarded else "stolen")


def test_harmless_code_forks_as_often_as_it_says(victim: tuple[Kernel, bool]) -> None:
    kernel, _ = victim
    before = forks(kernel.root)
    kernel.ok("x = 1\n%session fork\nx = 2\n%session fork")
    assert forks(kernel.root) == before + 2
