"""The same cells in ipykernel and here: the same messages, in the same order, with the same text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Cell, Kernel, Message

pytestmark = pytest.mark.filterwarnings("ignore")
SEALED = False  # what sealing changes is tested in kernel/seal

CELLS = {
    "print": "print('a'); print('b', end='')",
    "result": "1 + 1",
    "semicolon": "1 + 1;",
    "none": "None",
    "last results": "_, __, Out[max(Out)]",
    "error": "1/0",
    "name error": "undefined_name",
    "syntax error": "1 +",
    "system exit": "raise SystemExit(3)",
    "display and result": "display(1)\n2",
    "html": "from IPython.display import *\nHTML('<b>x</b>')",
    "display id": "h = display('x', display_id='d'); h.update('y'); clear_output(wait=True)",
    "latex": "Latex('$x$')",
    "inspect": "len?",
    "inspect source": "def f():\n    '''doc'''\n    return 1\nf??",
    "nothing to inspect": "no_such_thing?",
    "magics": "%precision 3\n3.14159",
    "unknown magic": "%no_such_magic",
    "unknown cell magic": "%%no_such_magic\nx",
    "env": "%env WASM_TEST=1\nimport os; os.environ['WASM_TEST']",
    "capture": "%%capture c\nprint('x'); display(1)",
    "captured": "c.stdout, len(c.outputs)",
    "html magic": "%%html\n<b>x</b>",
    "javascript magic": "%%javascript\nalert(1)",
    "latex magic": "%%latex\n$x$",
    "markdown magic": "%%markdown\n*x*",
    "svg magic": "%%svg\n<svg xmlns='http://www.w3.org/2000/svg'></svg>",
    "await": "import asyncio\nawait asyncio.sleep(0, 'awaited')",
    "async comprehension": "async def g():\n    yield 1\n[x async for x in g()]",
    "next input": "get_ipython().set_next_input('x = 1')",
    "mimebundle": "class M:\n    def _repr_mimebundle_(self, **k): return {'text/plain': 'm', 'x/y': 1}, {'x/y': {'a': 1}}\nM()",
    "display_ipython": "class D:\n    def _ipython_display_(self): print('own way')\nD()",
    "warning": "import warnings; warnings.simplefilter('default'); warnings.warn('careful', stacklevel=1)",
    "logging": "import logging; logging.warning('logged')",
    "logging again": "logging.getLogger('x').error('again'); logging.info('not shown')",
    "stderr": "import sys; print('e', file=sys.stderr)",
    "write returns": "sys.stdout.write('abc')",
    "isatty": "sys.stdout.isatty(), sys.stdout.encoding",
    "traceback print": "import traceback\ntry: 1/0\nexcept Exception: print(len(traceback.format_exc()) > 10)",
    "xmode": "%xmode Minimal\n1/0",
    "xmode back": "%xmode Context",
    "who": "%reset -f\nalpha = 1\n%who",
    "whos": "%whos",
    "who_ls": "%who_ls",
    "pdb": "%pdb off",
    "doctest mode": "%doctest_mode\n'x'",
    "doctest mode off": "%doctest_mode",
    "autocall-free call": "get_ipython().run_line_magic('who_ls', '')",
    "pprint": "{'k' * 30: list(range(30)), 'l': {'nested': [1, 2, {3: 4}]}}",
    "class": "class K: pass\nK",
    "long list": "list(range(2000))",
    "unicode": "'ä ☃ \\U0001f600', b'\\xff'",
    "time": "%time sum(range(10))",
    "raw cell": "# nothing",
    "history": "%history -n 1-2",
    "store": "zz = 5\n%store zz",
    "macro": "%macro m 2\nm",
    "alias free": "%lsmagic\nNone",
    "pinfo of magic": "%timeit?",
    "load": "from pathlib import Path; Path('snippet.py').write_text('loaded = 1\\n')\n%load snippet.py",
    "writefile": "%%writefile t.txt\nabc",
    "pwd type": "type(%pwd).__name__",
    "run": "Path('prog.py').write_text('import sys; print(sys.argv); ran = __name__')\n%run prog.py a b",
    "run defines": "ran",
    "save": "%save -f saved.py 2",
    "bad config": "%config NoSuchClass",
    "input without stdin": "input('x')",
    "exit payload": "get_ipython().payload_manager.read_payload()",
    "tb": "%tb",
    "assert": "assert 1 == 2, 'unequal'",
    "bookmark of names": "In[-1]",
    "clear": "%clear",
    "autosave": "%autosave 60",
    "less": "%less t.txt",
    "pdef": "%pdef len",
    "colors": "%colors",
    "automagic": "%automagic\n%automagic",
}


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    running = Kernel(tmp_path_factory.mktemp("native"), name="python3", cwd=tmp_path_factory.mktemp("cwd"))
    yield running
    running.stop()


def skeleton(cell: Cell) -> list[Any]:
    """What has to be the same: kinds, texts, mime types; not addresses, times, paths, versions."""
    found: list[Any] = [_reply(cell.reply)]
    remarks: set[Any] = set()
    for message in cell.outputs:
        content = message["content"]
        remark = content.get("transient", {}).get("display_id")
        if content.get("data", {}).get("text/plain", "").startswith("wasm-kernel: ") or remark in remarks:
            remarks.add(remark)  # of the host's: that a busy disk makes the cell wait
            continue
        if message["msg_type"] == "stream":
            entry: Any = ("stream", content["name"], _text(content["text"]))
            if len(found) > 1 and found[-1][:2] == entry[:2]:  # pieces of a stream may be cut differently
                found[-1] = (*entry[:2], found[-1][2] + entry[2])
                continue
        elif message["msg_type"] == "error":
            entry = ("error", content["ename"], content["evalue"].partition(" (")[0])
        elif "data" in content:
            plain = _text(content["data"].get("text/plain", ""))
            entry = (message["msg_type"], sorted(content["data"]), plain, sorted(content["metadata"]))
        else:
            entry = (message["msg_type"], content)
        found.append(entry)
    return found


def _reply(reply: Message) -> dict[str, Any]:
    payload = [(p["source"], p.get("text"), p.get("replace")) for p in reply.get("payload", ())]
    return {"status": reply["status"], "ename": reply.get("ename"), "payload": payload}


def _text(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m|0x[0-9a-f]+", "", text)
    text = re.sub(r"\d+(\.\d+)? ?[µμnm]?s\b", "TIME", text)
    text = re.sub(r"(/\S*/)?(ipykernel_\d+/\d+\.py|<ipython-input[^>]*>|interactiveshell\.py)(:\d+)?", "FILE", text)
    return re.sub(r"__main__\.|line \d+|Writing \S*/", "", text)


@pytest.fixture(scope="module")
def both(kernel: Kernel, native: Kernel) -> tuple[Kernel, Kernel]:
    return kernel, native


@pytest.mark.parametrize("name", CELLS)
def test_the_same_messages(both: tuple[Kernel, Kernel], name: str, tmp_path: Path) -> None:
    ours, theirs = (skeleton(k.run(CELLS[name])) for k in both)
    assert ours == theirs


@pytest.mark.parametrize(
    "options", [{}, {"silent": True}, {"store_history": False}, {"store_history": False, "silent": True}]
)
@pytest.mark.parametrize("code", ["1", "1/0", "", "1 +"])
def test_the_same_count(both: tuple[Kernel, Kernel], code: str, options: dict[str, Any]) -> None:
    steps = []
    for k in both:
        first = k.run("0").reply["execution_count"]
        cell = k.run(code, **options)
        after = k.run("0").reply["execution_count"]
        shown = [c["execution_count"] - first for c in cell.of("execute_input") + cell.of("execute_result")]
        steps.append((cell.reply["execution_count"] - first, shown, after - first))
    assert steps[0] == steps[1]


@pytest.mark.parametrize(
    "code",
    ["1", "def f():", "def f():\n  pass", "def f():\n  pass\n", "for i in x:\n    ", "(", "x = '''", "!ls", "%%time"]
    + ["%%time\nx\n", "a = \\", "await x", "@dec", "import", "1 1", "", "x?", "try:\n  x", "if 1: pass", "x = {"],
)
def test_the_same_answer_whether_code_is_complete(both: tuple[Kernel, Kernel], code: str) -> None:
    ours, theirs = (k.ask("is_complete_request", {"code": code}) for k in both)
    assert ours == theirs


@pytest.mark.parametrize(
    ("code", "position"), [("len", 0), ("len", 3), ("len(x", 5), ("str.join(", 9), ("nope", 4), ("%timeit", 5)]
)
def test_the_same_things_can_be_inspected(both: tuple[Kernel, Kernel], code: str, position: int) -> None:
    request = {"code": code, "cursor_pos": position, "detail_level": 0}
    ours, theirs = (k.ask("inspect_request", request) for k in both)
    assert (ours["found"], sorted(ours["data"]), sorted(ours)) == (
        theirs["found"],
        sorted(theirs["data"]),
        sorted(theirs),
    )


@pytest.mark.parametrize(
    ("kind", "content", "channel"),
    [
        ("kernel_info_request", {}, "shell"),
        ("kernel_info_request", {}, "control"),
        ("comm_info_request", {}, "shell"),
        ("history_request", {"hist_access_type": "tail", "n": 1, "raw": True, "output": False}, "shell"),
        ("connect_request", {}, "shell"),
        ("complete_request", {"code": "le", "cursor_pos": 2}, "shell"),
        ("interrupt_request", {}, "control"),
        ("execute_request", {"code": "1"}, "shell"),
    ],
)
def test_replies_have_the_same_fields(both: tuple[Kernel, Kernel], kind: str, content: Message, channel: str) -> None:
    ours, theirs = (k.ask(kind, content, channel) for k in both)
    assert sorted(ours) == sorted(theirs)
