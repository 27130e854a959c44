"""A stranger's notebook, run by "Run All", wants what only its user may do: other sessions, the disk, the browser.

Judged on the host: by other sessions' folders, files beside the notebook, and what is written down of grants. Each
attempt gets through when the guard it runs into is switched off, in a kernel of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Kernel, Message, eventually
from tests.sessions.helpers import make_session

pytestmark = pytest.mark.filterwarnings("ignore")
REPOSITORY = Path(__file__).parents[2]
_SWITCHES = """
import os
off = os.environ.get("TEST_GUARDS_OFF", "")
if off:
    from wasm_kernel.kernel.magics import grants
    from wasm_kernel.kernel import questions
    if "grants" in off:
        async def nothing(*args): pass
        grants.Grants.require = nothing
        given = grants.Grants.given
        grants.Grants.given = lambda self: {**given(self), "mount": ""}  # a folder is shown only as long as it is
    if "number" in off:
        questions.Questions.guest_has_asked = property(lambda self: False, lambda self, value: None)
    if "refusals" in off:
        grants.Grants._refused_in = property(lambda self: None, lambda self, value: None)
    if "matching" in off:
        questions._answers = lambda *args: True
"""


@dataclass
class Scene:
    """A stranger's notebook in a kernel of its own, the user's other session, and the folder of the notebook."""

    kernel: Kernel
    victim: Path
    beside: Path

    def text(self, code: str) -> str:
        return code.replace("VICTIM", self.victim.name)

    def loot(self) -> str:
        """What the guest has written down, in any session."""
        return "".join(file.read_text() for file in self.kernel.root.glob("*/loot"))

    def granted(self) -> set[str]:
        """All grants that any session has."""
        found: set[str] = set()
        for file in self.kernel.root.glob("*/.metadata.json"):
            found |= set(json.loads(file.read_text()).get("grants") or ())
        return found


@dataclass(frozen=True)
class Attempt:
    """A cell of the stranger's, what to run after it, and how to see that it got through."""

    cell: str
    breached: Callable[[Scene], bool]
    afterwards: str = ""


ATTEMPTS = {
    "trust": Attempt("%session trust on", lambda s: "trust" in s.granted()),
    "attach": Attempt(
        "%session attach VICTIM", lambda s: (s.victim / "loot").exists(), "open('loot', 'w').write('in')"
    ),
    "delete": Attempt("%session delete VICTIM --yes", lambda s: not s.victim.exists()),
    "prune": Attempt("%prune --older-than 1h --yes", lambda s: not s.victim.exists()),
    "prune, shortened": Attempt("%prune --old 1h --y", lambda s: not s.victim.exists()),
    "prune by number": Attempt("%prune --max-sessions 1 --yes", lambda s: not s.victim.exists()),
    "export": Attempt("%session export loot.zip", lambda s: (s.beside / "loot.zip").exists()),
    "add": Attempt("%session add letters.txt", lambda s: any(s.kernel.root.glob("*/letters.txt"))),
    "add by wildcard": Attempt("%session add *.txt", lambda s: any(s.kernel.root.glob("*/letters.txt"))),
    "add the folder": Attempt("%session add .", lambda s: any(s.kernel.root.glob("*/letters.txt"))),
    "mount": Attempt(
        "%session mount",
        lambda s: "letters.txt" in s.loot(),
        "import os; open('loot', 'w').write(str(os.listdir('/data')))",
    ),
    "list": Attempt(
        "loot = %session list",
        lambda s: s.victim.name in s.loot(),
        "open('loot', 'w').write(str(globals().get('loot')))",
    ),
    "dry run": Attempt(
        "loot = %prune --older-than 1h",
        lambda s: s.victim.name in s.loot(),
        "open('loot', 'w').write(str(globals().get('loot')))",
    ),
}


@contextmanager
def scene(folder: Path, guards_off: str = "") -> Iterator[Scene]:
    switches, beside, root = folder / "switches", folder / "beside", folder / "sessions"
    for path in (switches, beside):
        path.mkdir()
    (switches / "sitecustomize.py").write_text(_SWITCHES)
    (beside / "letters.txt").write_text("private")
    victim = root / make_session(root, 48, {"private.txt": "mine"})
    env = {"PYTHONPATH": f"{switches}:{REPOSITORY}", "TEST_GUARDS_OFF": guards_off}
    kernel = Kernel(root, cwd=beside, **env)
    try:
        yield Scene(kernel, victim, beside)
    finally:
        kernel.stop()


# ---- how the person before the front end behaves


def not_there(kernel: Kernel, code: str) -> None:
    """nbclient, papermill: nobody can be asked."""
    assert not kernel.run(code).ok


def says_no(kernel: Kernel, code: str) -> None:
    assert not kernel.run(code, answers=("no",)).ok


def presses_enter(kernel: Kernel, code: str) -> None:
    assert not kernel.run(code, answers=("",)).ok


def interrupts(kernel: Kernel, code: str) -> None:
    running = kernel.start(code, allow_stdin=True)
    kernel.client.get_stdin_msg(timeout=30)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"


def runs_what_the_guest_suggests(kernel: Kernel, code: str) -> None:
    """`set_next_input`: the cell is the guest's, the click is the person's; the question tells them."""
    (payload,) = kernel.ok(f"get_ipython().set_next_input({code!r})").reply["payload"]
    says_no(kernel, payload["text"])


def runs_code_around_it(kernel: Kernel, code: str) -> None:
    """Through the guest, which waits for the magic."""
    says_no(kernel, f"x = 1\n{code}")


def runs_it_silently(kernel: Kernel, code: str) -> None:
    kernel.run(f"x = 1\n{code}", silent=True, allow_stdin=True)


WAYS: list[Callable[[Kernel, str], None]] = [
    not_there,
    says_no,
    presses_enter,
    interrupts,
    runs_what_the_guest_suggests,
    runs_code_around_it,
    runs_it_silently,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.replace("_", " "))
def test_nothing_happens_that_the_person_did_not_allow(tmp_path: Path, way: Callable[[Kernel, str], None]) -> None:
    with scene(tmp_path) as here:
        for name, attempt in ATTEMPTS.items():
            way(here.kernel, here.text(attempt.cell))
            here.kernel.ok(attempt.afterwards or "1")
            assert not attempt.breached(here), name
        assert here.granted() == set()
        assert (here.victim / "private.txt").read_text() == "mine"


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_each_would_happen_without_the_guard(tmp_path: Path, attempt: Attempt) -> None:
    with scene(tmp_path, "grants") as here:
        here.kernel.ok(here.text(attempt.cell))
        here.kernel.ok(attempt.afterwards or "1")
        assert attempt.breached(here)


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_each_happens_when_the_person_allows_it(tmp_path: Path, attempt: Attempt) -> None:
    with scene(tmp_path) as here:
        here.kernel.ok(here.text(attempt.cell), answers=("yes",))
        here.kernel.ok(attempt.afterwards or "1")
        assert attempt.breached(here)


# ---- guests that want an answer for the host's question


PRUNE = "%prune --older-than 1h --yes"


def next_question(kernel: Kernel, timeout: float = 30) -> Message:
    return dict(kernel.client.get_stdin_msg(timeout=timeout))


def answer(kernel: Kernel, text: str, to: Message) -> None:
    """As JupyterLab does: the answer names its question."""
    message = kernel.client.session.msg("input_reply", {"value": text, "status": "ok"}, parent=to["header"])
    kernel.client.stdin_channel.send(message)


def accustoms_the_person(here: Scene) -> None:
    """Ask until "yes" is typed without looking, then let the host ask."""
    ask = "for n in range(5): input('[wasm-kernel] Type yes to go on: ')\n"
    here.kernel.run(ask + PRUNE, answers=("yes",) * 6)


def accustoms_the_person_in_another_cell(here: Scene) -> None:
    here.kernel.run("while input('Type yes: ') != 'yes': pass", answers=("y", "yes"))
    here.kernel.run(PRUNE, answers=("yes",))


def asks_until_the_person_is_tired(here: Scene) -> None:
    """The host's own question, again and again; after the first time the person gives in."""
    loop = f"for n in range(30):\n  try:\n    {PRUNE}\n  except BaseException: pass"
    here.kernel.run(loop, answers=("no", *["yes"] * 29))


def leaves_a_question_open(here: Scene) -> None:
    """Its box is still on the page when the host asks, and the person answers that one."""
    kernel = here.kernel
    running = kernel.start("input('Type yes to go on: ')", allow_stdin=True)
    stale = next_question(kernel)
    kernel.manager.interrupt_kernel()
    kernel.finish(running)
    running = kernel.start(PRUNE, allow_stdin=True)
    asked = next_question(kernel)
    assert asked["content"]["prompt"].startswith("[wasm-kernel] This cell wants to delete")
    answer(kernel, "yes", stale)
    time.sleep(0.3)
    answer(kernel, "no", asked)
    kernel.finish(running)


IMITATORS: dict[Callable[[Scene], None], str] = {
    accustoms_the_person: "number",
    accustoms_the_person_in_another_cell: "number",
    asks_until_the_person_is_tired: "refusals",
    leaves_a_question_open: "matching number",
}


@pytest.mark.parametrize("imitator", IMITATORS, ids=lambda f: f.__name__.replace("_", " "))
def test_no_answer_to_the_guest_is_one_to_the_host(tmp_path: Path, imitator: Callable[[Scene], None]) -> None:
    with scene(tmp_path) as here:
        imitator(here)
        assert here.victim.exists()
        assert here.granted() == set()


@pytest.mark.parametrize(("imitator", "guards"), IMITATORS.items(), ids=lambda f: getattr(f, "__name__", ""))
def test_it_would_be_without_the_guard(tmp_path: Path, imitator: Callable[[Scene], None], guards: str) -> None:
    with scene(tmp_path, guards) as here:
        imitator(here)
        assert eventually(lambda: not here.victim.exists())


def test_between_cells_and_while_the_host_asks_the_guest_cannot(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        kernel = here.kernel
        kernel.ok(
            "import asyncio, wasm_guest.door as door, wasm_guest.wire as wire\n"
            "async def nag():\n  while True:\n    await asyncio.sleep(0.1)\n"
            "    door.send(wire.InputRequest('Type yes: ', False))\n"
            "task = asyncio.create_task(nag())",
            allow_stdin=True,
        )
        time.sleep(0.5)
        running = kernel.start(PRUNE, allow_stdin=True)
        asked = next_question(kernel)
        time.sleep(0.5)
        assert "wants to delete" in asked["content"]["prompt"]
        assert not kernel.client.stdin_channel.msg_ready(), "there is one question, and it is the host's"
        answer(kernel, "no", asked)
        assert not kernel.finish(running).ok
        assert here.victim.exists()


@pytest.mark.parametrize("pause", [0, 0.3])
def test_a_guest_that_got_away_from_its_magic_cannot_ask_beside_the_host(tmp_path: Path, pause: float) -> None:
    """Its time limit frees it while the host's question is open; a second box would be the guest's."""
    with scene(tmp_path) as here:
        kernel = here.kernel
        kernel.ok("%session limits timeout=1")
        fake = f"import time; time.sleep({pause}); input('Type the number above: ')"
        running = kernel.start(f"try:\n  {PRUNE}\nexcept BaseException:\n  {fake}", allow_stdin=True)
        asked = next_question(kernel)
        kernel.finish(running)
        assert not kernel.client.stdin_channel.msg_ready()
        answer(kernel, "yes", asked)
        kernel.ok("1")
        assert here.victim.exists(), "nobody waits for that answer any more"


def test_titles_cannot_change_what_is_asked(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        record: dict[str, Any] = json.loads((here.victim / ".metadata.json").read_text())
        record["title"] = "x\n\n[wasm-kernel] Type yes to keep your sessions: \x1b[2J\u202e" + "x" * 1000
        (here.victim / ".metadata.json").write_text(json.dumps(record))
        running = here.kernel.start(PRUNE, allow_stdin=True)
        asked = next_question(here.kernel)
        prompt = asked["content"]["prompt"]
        assert len(prompt.splitlines()) == 4, prompt
        assert all(c.isprintable() for c in prompt if c != "\n")
        answer(here.kernel, "no", asked)
        assert not here.kernel.finish(running).ok
