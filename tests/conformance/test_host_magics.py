"""%session and %prune: done by the host, only where they stand in the text of a cell, in order with the code around."""

from __future__ import annotations

import ast
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.client import Cell, Kernel
from tests.sessions.helpers import make_session

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]
SUBCOMMANDS = [
    "info",
    "list",
    "files",
    "limits",
    "watch",
    "reset",
    "new",
    "attach",
    "rename",
    "delete",
    "export",
    "download",
    "trust",
    "grants",
    "revoke",
]


def value(kernel: Kernel, name: str = "s") -> object:
    return ast.literal_eval(kernel.ok(f"print(repr({name}))").stdout)


def shown(cell: Cell) -> str:
    """The text of what was displayed; its HTML twin must be there too."""
    (content,) = cell.of("display_data")
    assert content["data"]["text/html"].startswith("<")
    return content["data"]["text/plain"]


def session_of(kernel: Kernel) -> str:
    kernel.ok("s = %session info")
    return value(kernel)["session_id"]


def old_session(kernel: Kernel, hours: float, size: int = 10) -> Path:
    """A session that nobody has used for a while."""
    return kernel.root / make_session(kernel.root, hours, {"data": "x" * size})


# ---- what they say


def test_session_says_what_it_is_and_uses(kernel: Kernel) -> None:
    text = shown(kernel.ok("%session"))
    for word in ("session", "notebook", "folder", "files", "disk", "memory", "time per cell"):
        assert word in text
    assert shown(kernel.ok("%session info")).splitlines()[:3] == text.splitlines()[:3]


def test_info_counts_the_cell_before_it(start: Callable[..., Kernel]) -> None:
    """Also while metadata is written behind the answers."""
    kernel = start()
    for number in (1, 2, 3):
        assert f"{number - 1} cell" in shown(kernel.ok("%session")).split("created", 1)[1]
        kernel.ok("pass")


def test_info_is_plain_data_without_paths_of_the_host(kernel: Kernel) -> None:
    kernel.ok("open('one.txt', 'w').write('12345')")
    kernel.ok("s = %session info")
    info = value(kernel)
    assert info["files"] >= 1
    assert info["disk_bytes"] >= 5
    assert info["memory_limit_bytes"] == 2 << 30
    assert (kernel.root / info["session_id"]).is_dir()
    for command in ("info", "list", "files", "limits", "watch"):
        kernel.ok(f"s = %session {command}", answers=("yes",))
        assert str(kernel.root) not in str(value(kernel))
        assert "/home" not in str(value(kernel))


def test_info_counts_what_the_guest_is_held_to(kernel: Kernel) -> None:
    """Its /tmp, too."""
    kernel.ok("s = %session info")
    before = value(kernel)["disk_bytes"]
    kernel.ok("open('/tmp/big', 'wb').write(bytes(3 << 20))")
    kernel.ok("s = %session info")
    assert value(kernel)["disk_bytes"] >= before + (3 << 20)
    kernel.ok("import os; os.remove('/tmp/big')")


def test_an_assigned_answer_is_not_shown(kernel: Kernel) -> None:
    assert kernel.ok("s = %session info").kinds == []
    assert kernel.ok("%session info\nNone").kinds == ["display_data"]


def test_list_and_files(kernel: Kernel) -> None:
    kernel.ok("import os; os.makedirs('sub/deep', exist_ok=True); open('sub/deep/f.csv', 'w').write('a')")
    assert "this one" in shown(kernel.ok("%session list"))
    assert "sub/deep/f.csv" in shown(kernel.ok("%session files"))
    assert "sub/deep/f.csv" in shown(kernel.ok("%session files sub"))
    assert "sub/deep/f.csv" in shown(kernel.ok("%session files /app/sub"))
    kernel.ok("s = %session files sub")
    assert {f["path"] for f in value(kernel)} == {"sub/deep", "sub/deep/f.csv"}
    kernel.ok("os.makedirs('sub/empty', exist_ok=True)")
    assert "0 files" in shown(kernel.ok("%session files ./sub/empty/"))


def test_limits_are_shown_and_changed(start: Start) -> None:
    kernel = start()
    kernel.ok("kept = 1")
    assert "memory" in shown(kernel.ok("%session limits"))
    assert (
        "1.0 s" in shown(kernel.ok("%session limits timeout=1 memory=1G")) or "1 s" in kernel.ok("%session limits").said
    )
    cell = kernel.run("while True: pass")
    assert cell.reply["ename"] == "TimeoutError"
    assert "%session limits timeout=" in cell.said
    assert kernel.run("kept").result == "1", "changing limits keeps variables"
    kernel.ok("s = %session limits")
    assert value(kernel)["memory"] == 1 << 30
    kernel.ok("%session limits timeout=off output=2000")
    assert "was cut" in kernel.ok("print('x' * 5000)").said


def test_watch_shows_which_files_a_cell_changed(start: Start) -> None:
    kernel = start()
    kernel.ok("open('old', 'w').write('1'); open('gone', 'w').write('1')")
    kernel.ok("%session watch on")
    cell = kernel.ok("import os; open('new', 'w').write('1'); open('old', 'w').write('22'); os.remove('gone')")
    assert [line.split() for line in shown(cell).splitlines()] == [["+", "new"], ["~", "old"], ["−", "gone"]]
    assert kernel.ok("1").kinds == ["execute_result"]
    kernel.ok("%session watch off")
    assert kernel.ok("open('more', 'w').write('1');").kinds == []


def test_rename_gives_a_title(kernel: Kernel) -> None:
    kernel.ok("%session rename My first analysis")
    assert "My first analysis" in shown(kernel.ok("%session"))
    assert "My first analysis" in shown(kernel.ok("%session list"))


def test_reset_forgets_variables_and_keeps_files(start: Start) -> None:
    kernel = start()
    kernel.ok("x = 1; open('kept', 'w').write('1')")
    kernel.ok("%session reset")
    cell = kernel.run("x")
    assert cell.reply["ename"] == "NameError"
    assert cell.reply["execution_count"] == 1
    assert kernel.run("open('kept').read()").result == "'1'"


def test_new_and_attach_move_between_sessions(start: Start) -> None:
    kernel = start()
    first = session_of(kernel)
    kernel.ok("open('mine', 'w').write('first')")
    assert first in shown(kernel.ok("%session new"))
    second = session_of(kernel)
    assert second != first
    assert kernel.run("import os; os.listdir()").result == "[]"
    kernel.ok(f"%session attach {first}", answers=("yes",))
    assert kernel.run("open('mine').read()").result == "'first'"
    assert session_of(kernel) == first


def test_a_session_in_use_elsewhere_cannot_be_attached_or_deleted(start: Start) -> None:
    one, other = start(), start()
    taken = session_of(other)
    for command in (f"attach {taken}", f"delete {taken} --yes"):
        cell = one.run(f"%session {command}", answers=("yes",))
        assert not cell.ok
        assert "in use" in cell.said
    assert one.run("1+1").result == "2"
    assert other.run("1+1").result == "2"
    assert "in use" in shown(one.ok("%session list"))


def test_delete_asks_first(start: Start) -> None:
    kernel = start()
    old = old_session(kernel, 1)
    text = shown(kernel.ok(f"%session delete {old.name}"))
    assert "--yes" in text
    assert old.exists()
    kernel.ok(f"%session delete {old.name} --yes", answers=("yes",))
    assert not old.exists()
    here = session_of(kernel)
    kernel.ok("open('f', 'w').write('1')\nx = 1")
    kernel.ok(f"%session delete {here} --yes")
    assert not (kernel.root / here).exists()
    assert kernel.run("import os; os.listdir()").result == "[]"
    assert kernel.run("x").reply["ename"] == "NameError"


def test_export_writes_one_file(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a kernel without a notebook was started
    kernel = start()
    kernel.ok("open('result.csv', 'w').write('a,b')")
    kernel.ok("%session export out.zip", answers=("yes",))
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert any(name.endswith("result.csv") for name in archive.namelist())
    assert "already exists" in kernel.run("%session export out.zip").said
    for bad in ("../x.zip", "/tmp/x.zip", ".hidden.zip", "a/b.zip"):
        assert "plain file name" in kernel.run(f"%session export {bad}").said


# ---- %prune


def test_prune_shows_and_deletes_only_with_yes(start: Start) -> None:
    kernel, live = start(), start()
    old, young = old_session(kernel, 48, 5000), old_session(kernel, 1)
    here, there = session_of(kernel), session_of(live)
    for command in ("%prune", "%prune --dry-run"):
        text = shown(kernel.ok(command))
        assert "No session would be deleted" in text
        assert "--older-than" in text, "without a bound none goes"
    kernel.ok("%prune --yes")
    assert old.exists()
    for command in ("%prune --older-than 24h", "%prune --older-than 24h --dry-run --yes"):
        text = shown(kernel.ok(command))
        assert old.name in text
        assert young.name not in text
        assert old.exists()
    assert "--yes" in shown(kernel.ok("%prune --older-than 24h"))
    kernel.ok("s = %prune --older-than 24h", answers=("yes",))
    assert value(kernel)["would_delete"] == [old.name]
    assert value(kernel)["would_reclaim_bytes"] > 4000
    kernel.ok("%prune --older-than 24h --yes", answers=("yes",))
    assert not old.exists()
    assert young.exists()
    kernel.ok("%prune --older-than 0s --yes")
    assert not young.exists()
    assert (kernel.root / here).is_dir()
    assert (kernel.root / there).is_dir()
    assert live.run("1+1").result == "2"


def test_prune_by_number_keeps_the_newest(start: Start) -> None:
    kernel = start()
    session_of(kernel)
    sessions = [old_session(kernel, hours) for hours in (1, 2, 3, 4)]
    kernel.ok("%prune --max-sessions 3 --yes", answers=("yes",))
    assert [s.exists() for s in sessions] == [True, True, False, False]


# ---- only where they stand in the text


@pytest.mark.parametrize(
    "code",
    [
        "get_ipython().run_line_magic('ses' + 'sion', 'rename stolen')",
        "m = 'session'; get_ipython().run_line_magic(m, 'rename stolen')",
        "exec(\"get_ipython().run_line_magic('session', 'rename stolen')\")",
        "eval(\"get_ipython().run_line_magic('session', 'rename stolen')\")",
        "get_ipython().run_cell('%session rename stolen').raise_error()",
        "text = '%session rename stolen'\nget_ipython().ex(get_ipython().transform_cell(text))",
        "# %session rename stolen\nget_ipython().find_line_magic('session')('rename stolen')",
        "'''\n%session rename stolen\n'''\nget_ipython().find_line_magic('session')('rename stolen')",
        "line = 'rename stolen'\n%session $line",
        "line = 'rename stolen'\n%session {line}",
    ],
)
def test_what_the_text_does_not_say_is_not_done(kernel: Kernel, code: str) -> None:
    kernel.ok("%session rename untouched")
    cell = kernel.run(code)
    assert "stolen" not in cell.stdout
    kernel.ok("s = %session info")
    assert value(kernel)["title"] in ("untouched", "$line", "{line}")


def test_a_module_in_app_cannot_start_one(kernel: Kernel) -> None:
    kernel.ok("%session rename untouched")
    kernel.ok(
        "%%writefile evil.py\n"
        "from IPython import get_ipython\n"
        "def go(): return get_ipython().run_line_magic('session', 'rename stolen')"
    )
    cell = kernel.run("import evil; evil.go()")
    assert "only when it is written in a notebook cell" in cell.said
    kernel.ok("s = %session info")
    assert value(kernel)["title"] == "untouched"


def test_a_string_or_a_comment_does_nothing(kernel: Kernel) -> None:
    kernel.ok("%session rename untouched")
    kernel.ok("'%session rename stolen'\n# %session rename stolen\ntext = '''\n%session rename stolen\n'''")
    kernel.ok("s = %session info")
    assert value(kernel)["title"] == "untouched"


def test_in_loops_functions_and_timed_cells(kernel: Kernel) -> None:
    cell = kernel.ok("for n in range(3):\n    print(n)\n    %session watch off")
    assert cell.kinds == ["stream", "display_data"] * 3
    kernel.ok("def f():\n    i = %session info\n    return i['session_id']\nprint(f())")
    assert len(kernel.ok("%%time\ni = %session info\nprint(i['session_id'])").stdout) > 36
    assert kernel.ok("if True:\n    %session watch\n").kinds == ["display_data"]
    assert kernel.ok("with open('t', 'w'):\n    s = %session files").ok


def test_a_function_made_in_one_cell_cannot_use_the_magic_in_another(kernel: Kernel) -> None:
    kernel.ok("def later():\n    %session rename stolen")
    assert not kernel.run("later()").ok


def test_in_order_with_the_code_around(kernel: Kernel) -> None:
    cell = kernel.ok(
        "open('first.txt', 'w').write('1')\n"
        "before = %session files\n"
        "open('second.txt', 'w').write('2')\n"
        "after = %session files\n"
        "names = [{f['path'] for f in x} for x in (before, after)]\n"
        "print('first.txt' in names[0], 'second.txt' in names[0], 'second.txt' in names[1])"
    )
    assert cell.stdout == "True False True\n"
    cell = kernel.ok("print('a')\n%session watch\nprint('b')")
    assert cell.kinds == ["stream", "display_data", "stream"]


def test_code_after_an_error_of_a_magic_does_not_run(kernel: Kernel) -> None:
    cell = kernel.run("ran = 'no'\n%session nonsense\nran = 'yes'")
    assert not cell.ok
    assert kernel.run("ran").result == "'no'"
    assert kernel.run("try:\n    %session nonsense\nexcept Exception as e:\n    print('caught', e)").stdout.startswith(
        "caught"
    )


def test_a_magic_that_replaces_the_guest_must_come_last(kernel: Kernel) -> None:
    cell = kernel.run("%session reset\nprint('still here')")
    assert "must be the last line" in cell.said
    assert "still here" not in cell.stdout
    cell = kernel.ok("x = 1\nprint('done')\n%session reset")
    assert cell.stdout == "done\n"
    assert kernel.run("x").reply["ename"] == "NameError"


# ---- help and errors


def test_tab_completes(kernel: Kernel) -> None:
    def complete(code: str) -> list[str]:
        return kernel.ask("complete_request", {"code": code, "cursor_pos": len(code)})["matches"]

    assert "%session" in complete("%sess")
    assert {"rename", "reset"} <= set(complete("%session re"))
    assert set(SUBCOMMANDS) <= set(complete("%session "))
    assert complete("s = %session inf") == ["info"]
    assert complete("x = 1\n%session watch o") == ["off", "on"]
    assert "memory=" in complete("%session limits ")
    assert "--older-than" in complete("%prune --o")
    here = session_of(kernel)
    assert complete(f"%session attach {here[:8]}") == [here]


def test_question_mark_documents_every_subcommand(kernel: Kernel) -> None:
    (payload,) = kernel.ok("%session?").reply["payload"]
    text = payload["data"]["text/plain"]
    for name in SUBCOMMANDS:
        assert f"%session {name}" in text
    (payload,) = kernel.ok("%prune?").reply["payload"]
    for option in ("--older-than", "--max-sessions", "--dry-run", "--yes"):
        assert option in payload["data"]["text/plain"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("%session nonsense", "limits"),
        ("%session attach", "%session attach ID"),
        ("%session attach no-such-session", "%session list"),
        ("%session attach ../../etc", "letters, digits"),
        ("%session delete no-such-session --yes", "%session list"),
        ("%session limits speed=9", "memory"),
        ("%session limits memory", "NAME=VALUE"),
        ("%session limits memory=lots", "memory"),
        ("%session limits memory=1T", "memory"),
        ("%session watch perhaps", "on or off"),
        ("%session rename", "name is missing"),
        ("%session files nowhere", "no folder"),
        ("%session files /etc", "relative to the workspace"),
        ("%session info more", "does not take"),
        ("%session rename 'unclosed", "cannot be read"),
        ("%prune --older-than soon", "soon"),
        ("%prune --nonsense", "%prune?"),
        ("%prune --max-sessions many", "%prune?"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "x = 1\n{}"], ids=["alone", "with code"])
def test_errors_name_the_next_step(kernel: Kernel, line: str, named: str, around: str) -> None:
    cell = kernel.run(around.format(line))
    assert cell.reply["status"] == "error"
    assert named in cell.said
    assert len(cell.said.splitlines()) <= 3


def test_a_cell_of_magics_works_while_the_guest_is_broken(start: Start) -> None:
    kernel = start()
    kernel.run("import builtins\nfor name in ('print', 'len', 'isinstance', 'str'): delattr(builtins, name)")
    assert "session" in shown(kernel.ok("%session"))
    kernel.ok("%session reset")
    assert kernel.run("len('abc')").result == "3"


def test_a_loop_has_a_magic_done_a_hundred_times_at_most(kernel: Kernel) -> None:
    cell = kernel.run("for n in range(1200):\n    s = %session watch")
    assert "run 100 times in this cell" in cell.said
    assert kernel.run("n").result == "100"
    assert kernel.ok("for n in range(100):\n    s = %session watch").ok, "each cell begins anew"


def test_a_magic_is_done_as_often_as_it_stands_there(kernel: Kernel) -> None:
    again = "get_ipython().run_line_magic('ses' + 'sion', 'watch')"
    cell = kernel.run(f"%session watch\n{again}\nprint('on')")
    assert "%session watch has run once in this cell" in cell.said
    assert "on\n" not in cell.stdout
    assert kernel.ok("%session watch\nNone\n%session watch").kinds == ["display_data"] * 2


def test_magics_that_time_a_magic(kernel: Kernel) -> None:
    cell = kernel.ok("%time %session watch")
    assert "display_data" in cell.kinds
    assert "CPU times" in cell.stdout
    assert "Wall time" in cell.stdout
    assert "loop" in kernel.ok("%timeit -n 3 -r 2 %session watch").stdout
    assert "run 100 times" in kernel.run("%timeit -n 60 -r 2 %session watch").said
    kernel.ok("%%timeit -n 3 -r 2\ns = %session info")


def test_what_replaces_the_guest_is_done_once(start: Start) -> None:
    kernel = start()
    for n in range(4):
        kernel.ok(f"x = {n}")
    for text in ("%session undo\nx = 9\n%session undo", "%%timeit -n 1 -r 1\n%session undo", "%timeit %session undo"):
        assert "must be the last line of its cell, and occur only once" in kernel.run(text).said
    cell = kernel.run("y = 1\nm = get_ipython().run_line_magic\nm('ses' + 'sion', 'undo')\n%session undo")
    assert "has run once in this cell" in cell.said
    kernel.ok("x = 10\ny = 1\n%session undo")
    assert kernel.run("x").result == "3"


def test_titles_cannot_inject_html(kernel: Kernel) -> None:
    kernel.ok("%session rename <script>alert(1)</script>")
    (content,) = kernel.ok("%session").of("display_data")
    assert "<script>" not in content["data"]["text/html"]
    kernel.ok("import os; os.makedirs('<img src=x>', exist_ok=True)")
    (content,) = kernel.ok("%session files").of("display_data")
    assert "<img" not in content["data"]["text/html"]


def test_the_guests_environment_holds_nothing_of_the_hosts(kernel: Kernel) -> None:
    seen = kernel.ok("import os; print(dict(os.environ))").stdout
    assert str(kernel.root) not in seen
    assert os.environ["PATH"] not in seen


def test_attach_from_a_kernel_without_a_notebook_leaves_no_empty_session_behind(start: Start) -> None:
    kernel = start(WASM_KERNEL_SESSION="thesis")
    kernel.ok("x = 1")
    kernel.manager.shutdown_kernel(now=False)
    kernel = start(WASM_KERNEL_GRANTS="attach")
    kernel.client.complete("%session att", 12, reply=True)
    kernel.ok("%session attach thesis")
    assert kernel.ok("x").result == "1"
    assert sessions(kernel) == {"thesis"}
    kernel = start(WASM_KERNEL_GRANTS="attach")
    kernel.ok("y = 2")
    (used,) = sessions(kernel) - {"thesis"}
    kernel.ok("%session new")
    assert used in sessions(kernel), "its variables can be returned to"
    kernel.ok(f"%session attach {used}")
    assert kernel.ok("y").result == "2"


def sessions(kernel: Kernel) -> set[str]:
    return {folder.name for folder in kernel.root.iterdir() if folder.name[0] != "."}


def test_a_file_browser_left_in_a_notebook_is_alive_in_the_next_kernel(start: Start) -> None:
    kernel = start(WASM_KERNEL_SESSION="notebook")
    kernel.ok("import os; os.mkdir('d'); open('d/inside', 'w').write('x')")
    view = "application/vnd.jupyter.widget-view+json"
    left = [kernel.ok(f"%session files {folder}").data[view]["model_id"] for folder in ("", "d")]
    kernel.manager.shutdown_kernel(now=False)
    kernel = start(WASM_KERNEL_SESSION="notebook")
    known = kernel.ask("comm_info_request", {"target_name": "jupyter.widget"})["comms"]
    assert set(left) <= set(known)
    answer = kernel.comm(left[1], {"method": "request_state"})
    (state,) = [c["data"]["state"] for c in answer.of("comm_msg") if c["comm_id"] == left[1]]
    assert state["children"]
    assert "wk-files" in state["_dom_classes"]
    (more,) = [c["data"][view] for c in kernel.ok("%session files").of("display_data") if view in c["data"]]
    assert more["model_id"] not in left
    other = start(WASM_KERNEL_SESSION="other")
    assert other.ask("comm_info_request", {"target_name": "jupyter.widget"})["comms"] == {}


BUSY_TASK = """
import asyncio, time
async def busy():
    while True:
        time.sleep(0.1)
        await asyncio.sleep(0)
going_on = asyncio.get_running_loop().create_task(busy())
await asyncio.sleep(0)
"""


def test_limits_change_while_a_task_goes_on(start: Start) -> None:
    kernel = start()
    kernel.ok(BUSY_TASK)
    for number in range(90, 98):
        kernel.ok(f"%session limits files={number}")
