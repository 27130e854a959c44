"""IPython as people know it. What can be compared with ipykernel word by word is in test_same_as_ipykernel.py."""

from __future__ import annotations

import base64
import time

import pytest

from tests.conformance.client import Kernel, eventually, plain

pytestmark = pytest.mark.filterwarnings("ignore")
SEALED = False  # what sealing changes is tested in kernel/seal


# ---- magics


def test_timeit_and_time_report(kernel: Kernel) -> None:
    assert "per loop" in kernel.ok("%timeit -n 10 -r 2 sum(range(10))").stdout
    assert "Wall time" in kernel.ok("%%time\nx = 1\nx + 1").stdout
    assert "per loop" in kernel.ok("%%timeit -n 1 -r 1\npass").stdout
    assert "function calls" in str(kernel.ok("%prun sum(range(10))").reply["payload"])


def test_writefile_run_cat_load_and_save(kernel: Kernel) -> None:
    assert "Writing" in kernel.ok("%%writefile prog.py\nimport sys\nvalue = sys.argv[1:]").stdout
    kernel.ok("%run prog.py one two")
    assert kernel.run("value").result == "['one', 'two']"
    assert "value = sys.argv" in kernel.ok("%cat prog.py").stdout
    assert "value = sys.argv" in kernel.ok("%pycat prog.py").said + str(kernel.ok("%pycat prog.py").reply)
    (payload,) = kernel.ok("%load prog.py").reply["payload"]
    assert payload["source"] == "set_next_input"
    assert "# %load prog.py" in payload["text"]
    assert payload["replace"]
    kernel.ok("saved_here = 7")
    kernel.ok("%save -f again.py saved_here")
    assert "Appending" in kernel.ok("%%writefile -a prog.py\n# more").stdout


def test_a_failing_program_of_run_shows_its_own_line(kernel: Kernel) -> None:
    kernel.ok("%%writefile bad.py\ndef inner():\n    return 1 / 0\ninner()")
    cell = kernel.run("%run bad.py")
    assert "return 1 / 0" in cell.traceback
    assert "bad.py" in cell.traceback


def test_autoreload_takes_up_an_edited_module(kernel: Kernel) -> None:
    kernel.ok("%load_ext autoreload\n%autoreload 2")
    kernel.ok("%%writefile edited.py\ndef f(): return 'before'\nclass C:\n    def m(self): return 'before'")
    assert kernel.run("import edited\nfrom edited import f\nc = edited.C()\nf()").result == "'before'"
    time.sleep(1.1)  # the time stamps of files in modules' caches count seconds
    kernel.ok("%%writefile edited.py\ndef f(): return 'after'\nclass C:\n    def m(self): return 'after'")
    assert kernel.run("f(), c.m()").result == "('after', 'after')"


def test_figures_inline_as_png_svg_and_retina(kernel: Kernel) -> None:
    def figure() -> dict:
        (shown,) = kernel.ok("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()").of("display_data")
        return shown

    kernel.ok("%matplotlib inline")
    png = figure()
    assert base64.b64decode(png["data"]["image/png"]).startswith(b"\x89PNG")
    kernel.ok("%config InlineBackend.figure_format = 'svg'")
    assert "<svg" in figure()["data"]["image/svg+xml"]
    kernel.ok("%config InlineBackend.figure_format = 'retina'")
    retina = figure()
    size = retina["metadata"]["image/png"]
    width = int.from_bytes(base64.b64decode(retina["data"]["image/png"])[16:20], "big")
    assert width == pytest.approx(2 * size["width"], abs=2)
    kernel.ok("%config InlineBackend.figure_format = 'png'")


def test_a_figure_is_shown_at_the_end_of_its_cell_once(kernel: Kernel) -> None:
    cell = kernel.ok("plt.plot([1, 2])\nprint('before the figure')")
    assert cell.kinds == ["stream", "display_data"]
    assert kernel.ok("1").kinds == ["execute_result"]
    assert kernel.ok("fig, ax = plt.subplots(); plt.close(fig)\nfig").kinds == ["execute_result"]


def test_figures_of_pandas_and_seaborn(kernel: Kernel) -> None:
    assert "image/png" in kernel.ok("import pandas as pd; pd.Series([1, 2]).plot();").data
    assert "image/png" in kernel.ok("import seaborn as sns; sns.lineplot(x=[1, 2], y=[2, 1]);").data


def test_who_lists_the_users_names_only(kernel: Kernel) -> None:
    kernel.ok("%reset -f")
    assert "empty" in kernel.ok("%who").stdout
    kernel.ok("number = 4; text = 'x'")
    assert kernel.ok("%who").stdout.split() == ["number", "text"]
    whos = kernel.ok("%whos").stdout
    assert "number" in whos
    assert "int" in whos
    kernel.ok("%reset -f")
    assert kernel.run("number").reply["ename"] == "NameError"


def test_debug_after_an_error_takes_commands(kernel: Kernel) -> None:
    kernel.run("def f(secret):\n    return 1 / 0\nf(42)")
    cell = kernel.run("%debug", answers=("p secret + 1", "up", "down", "q"))
    assert "43" in cell.stdout
    assert "ipdb>" not in cell.traceback
    assert kernel.run("1+1").result == "2"


def test_breakpoint_takes_commands(kernel: Kernel) -> None:
    cell = kernel.run("def g():\n    local = 'seen'\n    breakpoint()\n    return local\ng()", answers=("p local", "c"))
    assert "'seen'" in cell.stdout
    assert cell.result == "'seen'"


def test_history_in_and_out(kernel: Kernel) -> None:
    kernel.ok("%reset -f")
    first = kernel.ok("11").reply["execution_count"]
    kernel.ok("%session watch off")  # done by the host: a number that the guest never saw
    kernel.ok("'two'")
    assert kernel.run(f"_, __, Out[{first}], In[{first}], _{first}").result == "('two', 11, 11, '11', 11)"
    assert "'two'" in kernel.ok(f"%history {first}-{first + 2}").stdout
    assert kernel.ok(f"%rerun {first}").result == "11"
    assert kernel.ok(f"%recall {first}").reply["payload"][0]["text"] == "11"


def test_capture_keeps_what_would_be_shown(kernel: Kernel) -> None:
    cell = kernel.ok("%%capture out\nimport sys\nprint('o'); print('e', file=sys.stderr); display('d'); 'r'")
    assert cell.kinds == []
    assert kernel.run("out.stdout, out.stderr, len(out.outputs)").result == "('o\\n', 'e\\n', 2)"
    assert kernel.ok("out.show()").stdout == "o\n"
    assert "'d'" in str(kernel.ok("out()").of("display_data"))


def test_small_magics(kernel: Kernel) -> None:
    assert "off" in kernel.ok("%pdb off").stdout.lower()
    assert kernel.ok("%pwd").result == "'/app'"
    kernel.ok("%mkdir -p folder")
    assert kernel.ok("%cd folder\n%pwd").result == "'/app/folder'"
    assert kernel.ok("%cd ..\n%pwd").result == "'/app'"
    assert "folder/" in kernel.ok("%ls").stdout
    kernel.ok("%env COLOUR=red")
    assert kernel.ok("import os; os.environ['COLOUR']").result == "'red'"
    assert kernel.ok("%precision 2\n3.14159").of("execute_result")[-1]["data"]["text/plain"] == "3.14"
    kernel.ok("%precision")
    assert "%session" in str(kernel.ok("%lsmagic").data)
    assert "Minimal" in kernel.ok("%xmode Minimal").stdout
    assert kernel.run("1/0").traceback.strip() == "ZeroDivisionError: division by zero"
    kernel.ok("%xmode Context")
    kernel.ok("kept = [1, 2]\n%store kept\ndel kept\n%store -r kept")
    assert kernel.run("kept").result == "[1, 2]"
    assert kernel.ok("%alias_magic t timeit").ok
    assert "sys" in kernel.ok("import sys\n%psearch sy*").said + str(kernel.ok("%psearch sy*").reply)
    assert kernel.ok("%pinfo len").reply["payload"]


@pytest.mark.parametrize(
    ("magic", "mime"),
    [
        ("html", "text/html"),
        ("javascript", "application/javascript"),
        ("js", "application/javascript"),
        ("latex", "text/latex"),
        ("markdown", "text/markdown"),
        ("svg", "image/svg+xml"),
    ],
)
def test_cell_magics_that_show(kernel: Kernel, magic: str, mime: str) -> None:
    assert "body" in kernel.ok(f"%%{magic}\n<svg xmlns='http://www.w3.org/2000/svg'>body</svg>").data[mime]


@pytest.mark.parametrize(
    "code",
    [
        "!ls",
        "!!ls",
        "x = !ls",
        "%%bash\nls",
        "%%sh\nls",
        "%sx ls",
        "%system ls",
        "%%script python\n1",
        "%conda install x",
        "for n in range(3):\n    !echo {n}",
    ],
)
def test_shell_commands_say_in_one_line_that_there_are_no_processes(kernel: Kernel, code: str) -> None:
    cell = kernel.run(code)
    assert cell.reply["status"] == "error"
    assert cell.kinds == ["stream"]
    assert "no processes" in cell.stderr
    assert cell.stderr.count("\n") == 1


def test_subprocess_says_so_too(kernel: Kernel) -> None:
    for code in ("import os; os.system('ls')", "import subprocess; subprocess.run(['ls'])"):
        cell = kernel.run(code)
        assert not cell.ok
        assert "process" in cell.reply["evalue"]


# ---- asking about things


@pytest.mark.parametrize(
    ("code", "text"),
    [("documented?", "Adds."), ("documented??", "return a + b"), ("?documented", "Adds."), ("docu*?", "documented")],
)
def test_question_marks_open_the_pager(kernel: Kernel, code: str, text: str) -> None:
    kernel.ok("def documented(a, b=2):\n    '''Adds.'''\n    return a + b")
    (payload,) = kernel.ok(code).reply["payload"]
    assert text in plain(payload["data"]["text/plain"])


def test_inspect_and_complete_know_what_cells_made(kernel: Kernel) -> None:
    kernel.ok("import pandas as pd\nframe = pd.DataFrame({'alpha': [1], 'beta': [2]})")
    found = kernel.ask("inspect_request", {"code": "frame", "cursor_pos": 5, "detail_level": 0})
    assert found["found"]
    assert "DataFrame" in found["data"]["text/plain"]
    call = kernel.ask("inspect_request", {"code": "pd.DataFrame(", "cursor_pos": 13, "detail_level": 0})
    assert "data=None" in plain(call["data"]["text/plain"])
    assert not kernel.ask("inspect_request", {"code": "nothing_here", "cursor_pos": 5, "detail_level": 0})["found"]

    def complete(code: str) -> list[str]:
        return kernel.ask("complete_request", {"code": code, "cursor_pos": len(code)})["matches"]

    assert ".alpha" in complete("frame.al")
    assert "alpha" in str(complete("frame['al"))
    assert "read_csv" in str(complete("pd.read_c"))
    assert complete("import panda") == ["pandas"]
    assert "%%timeit" in complete("%%timei")
    kernel.ok("%%writefile somewhere.txt\nx")
    assert "somewhere.txt" in str(complete("open('somew"))
    types = kernel.ask("complete_request", {"code": "fram", "cursor_pos": 4})["metadata"]
    assert types["_jupyter_types_experimental"][0]["text"] == "frame"
    assert types["_jupyter_types_experimental"][0]["type"]


def test_positions_are_in_characters_not_bytes(kernel: Kernel) -> None:
    code = "'☃😀'; zi"
    reply = kernel.ask("complete_request", {"code": code, "cursor_pos": len(code)})
    assert reply["matches"] == ["zip"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (len(code) - 2, len(code))


# ---- await and tasks


def test_top_level_await_in_all_its_forms(kernel: Kernel) -> None:
    kernel.ok("import asyncio\nasync def later(x):\n    await asyncio.sleep(0.01)\n    return x")
    assert kernel.run("await later(1)").result == "1"
    assert kernel.run("await asyncio.gather(*map(later, range(3)))").result == "[0, 1, 2]"
    assert kernel.run("async with asyncio.timeout(5):\n    y = await later(2)\ny").result == "2"
    assert kernel.run("asyncio.run(later(3))").result == "3"
    assert kernel.run("async with asyncio.timeout(0.01):\n    await asyncio.sleep(5)").reply["ename"] == "TimeoutError"
    assert kernel.run("task = asyncio.create_task(later(4))\nawait task").result == "4"


def test_a_background_task_goes_on_between_cells_by_itself(kernel: Kernel) -> None:
    kernel.ok(
        "import asyncio, pathlib\n"
        "async def tick():\n"
        "    for n in range(5):\n"
        "        await asyncio.sleep(0.1)\n"
        "        pathlib.Path('ticks').write_text(str(n))\n"
        "        print('tick', n)\n"
        "background = asyncio.create_task(tick())"
    )
    (folder,) = [p for p in kernel.root.iterdir() if p.name != ".wasm-kernel"]
    assert eventually(lambda: (folder / "ticks").exists() and (folder / "ticks").read_text() == "4")
    kernel.wait_for("stream", "tick 4")
    assert kernel.run("background.done()").result == "True"


def test_a_background_task_goes_on_after_a_cell_of_magics(kernel: Kernel) -> None:
    kernel.ok(
        "import asyncio\nasync def tick():\n    await asyncio.sleep(0.5)\n    print('ticked')\n"
        "background = asyncio.create_task(tick())"
    )
    kernel.ok("%session watch")
    kernel.wait_for("stream", "ticked")


def test_a_background_task_cannot_ask_the_person(kernel: Kernel) -> None:
    kernel.ok(
        "import asyncio\n"
        "async def tick():\n"
        "    await asyncio.sleep(0.2)\n"
        "    try: input('who? ')\n"
        "    except Exception as e: print('refused', type(e).__name__)\n"
        "background = asyncio.create_task(tick())",
        allow_stdin=True,
    )
    kernel.wait_for("stream", "refused")
    assert not kernel.client.stdin_channel.msg_ready()


def test_an_error_in_a_background_task_is_reported(kernel: Kernel) -> None:
    kernel.ok("async def fails():\n    raise ValueError('in the background')\nt = asyncio.create_task(fails())")
    cell = kernel.ok("await asyncio.sleep(0.05); del t; import gc; gc.collect();")
    assert "in the background" in cell.stderr


def test_call_later_works(kernel: Kernel) -> None:
    running = kernel.ok("import asyncio\nasyncio.get_running_loop().call_later(0.2, lambda: print('called later'))")
    printed = running.stdout or kernel.wait_for("stream", "called later")["content"]["text"]
    assert printed == "called later\n"


# ---- rich output


def test_frames_and_styles_are_html(kernel: Kernel) -> None:
    data = kernel.ok("import pandas as pd\nframe = pd.DataFrame({'a': [1, -2]})\nframe").data
    assert "<table" in data["text/html"]
    assert "a" in data["text/plain"]
    styled = kernel.ok("frame.style.map(lambda v: 'color: red' if v < 0 else '')").data
    assert "color: red" in styled["text/html"]
    assert "<table" in kernel.ok("display(frame)").data["text/html"]
    assert "sk-" in kernel.ok("from sklearn.linear_model import Ridge; Ridge()").data["text/html"]
    assert "$" in kernel.ok("import sympy; x = sympy.Symbol('x'); x**2 / 2").data["text/latex"]


def test_displays_by_mime_type(kernel: Kernel) -> None:
    kernel.ok("from IPython.display import *")
    for code, mime in (
        ("Latex('$x$')", "text/latex"),
        ("Markdown('*x*')", "text/markdown"),
        ("HTML('<b>x</b>')", "text/html"),
        ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "image/svg+xml"),
        ("IFrame('https://example.org', 10, 10)", "text/html"),
        ("Audio(data=[0.0, 1.0], rate=8000)", "text/html"),
        ("FileLink('prog.py')", "text/html"),
        ("Code('x = 1', language='python')", "text/html"),
    ):
        assert mime in kernel.ok(code).data, code


def test_a_display_can_be_updated_from_a_later_cell(kernel: Kernel) -> None:
    shown = kernel.ok("handle = display('first', display_id=True)").of("display_data")[0]
    (update,) = kernel.ok("handle.update('second')").of("update_display_data")
    assert update["transient"]["display_id"] == shown["transient"]["display_id"]
    assert update["data"]["text/plain"] == "'second'"


def test_objects_that_print_themselves_prettily(kernel: Kernel) -> None:
    code = "class P:\n    def _repr_pretty_(self, p, cycle): p.text('pretty!')\n[P()]"
    assert kernel.run(code).result == "[pretty!]"
    assert "\n" in str(kernel.run("[{'key': 'x' * 30}] * 5").result)
    assert kernel.run("print([P()] and 1)").stdout == "1\n"


def test_logging_and_warnings_go_to_stderr_once(kernel: Kernel) -> None:
    assert kernel.ok("import logging; logging.warning('careful')").stderr == "WARNING:root:careful\n"
    code = "import warnings\ndef w(): warnings.warn('only once')\nfor _ in range(3): w()"
    assert kernel.ok(code).stderr.count("only once") <= 2  # the message and the line it stands in


def test_set_next_input_is_a_payload(kernel: Kernel) -> None:
    (payload,) = kernel.ok("get_ipython().set_next_input('x = 1', replace=True)").reply["payload"]
    assert payload == {"source": "set_next_input", "text": "x = 1", "replace": True}


def test_an_exception_group_is_shown_whole_and_as_an_error(kernel: Kernel) -> None:
    cell = kernel.run("raise ExceptionGroup('several', [ValueError('one'), TypeError('two')])")
    assert cell.kinds == ["error"]
    assert "ValueError: one" in cell.traceback
    assert "TypeError: two" in cell.traceback
    assert "IPython" not in cell.traceback


def test_tracebacks_are_coloured_and_name_the_cell(kernel: Kernel) -> None:
    cell = kernel.run("def broken():\n    return missing\nbroken()")
    assert f"In[{cell.reply['execution_count']}]" in cell.traceback
    assert "\x1b[" in cell.of("error")[0]["traceback"][0]
    assert "----> 2     return missing" in cell.traceback


def test_the_shell_is_what_libraries_look_for(kernel: Kernel) -> None:
    assert kernel.run("type(get_ipython()).__name__").result == "'ZMQInteractiveShell'"
    assert kernel.run("'IPKernelApp' in get_ipython().config").result == "True"
    assert (
        kernel.run("import sys; 'ipykernel' in sys.modules, hasattr(get_ipython(), 'kernel')").result == "(True, True)"
    )
    assert kernel.run("__name__, __file__ if '__file__' in globals() else None").result == "('__main__', None)"


def test_pickles_of_classes_made_in_cells(kernel: Kernel) -> None:
    code = "import pickle\nclass Mine: pass\ntype(pickle.loads(pickle.dumps(Mine()))) is Mine"
    assert kernel.run(code).result == "True"


def test_dataclasses_source_and_inspect_know_cells(kernel: Kernel) -> None:
    assert "return 5" in str(kernel.run("import inspect\ndef five():\n    return 5\ninspect.getsource(five)").result)


def test_unicode_names_and_output(kernel: Kernel) -> None:
    assert kernel.ok("größe = '☃😀'\nprint(größe)").stdout == "☃😀\n"


def test_carriage_returns_and_backspaces_are_passed_on(kernel: Kernel) -> None:
    assert kernel.ok("print('50%\\r100%', end='')").stdout == "50%\r100%"
