"""A notebook's timeline, in real kernels: undo, redo, log, diff, fork; coming back after a close, a kill, a long rest."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clock import FakedClock
from tests.conformance.client import Cell, Kernel, eventually
from wasm_kernel import delete_session_workspace, list_snapshots

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]


def shown(cell: Cell) -> str:
    return "".join(c["data"]["text/plain"] for c in cell.of("display_data"))


def table(kernel: Kernel, magic: str) -> Any:
    kernel.ok(f"timeline_found = %session {magic}")
    return ast.literal_eval(kernel.ok("print(repr(timeline_found)); del timeline_found").stdout)


def close(kernel: Kernel) -> None:
    """As a front end or a culler does it."""
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=False)


def kill(kernel: Kernel) -> None:
    """As the system does it when there is no memory left."""
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


def crowd(kernel: Kernel) -> set[str]:
    """The labels and triggers of a session's snapshots."""
    return {f"{s.trigger} {s.label}".strip() for s in list_snapshots(kernel.root)}


@pytest.fixture
def book(start: Start) -> Iterator[Callable[..., Kernel]]:
    """Opens kernels of one session, as a notebook is opened again and again."""

    def book(name: str = "notebook", **env: str) -> Kernel:
        return start(WASM_KERNEL_SESSION=name, **env)

    return book


def configured(tmp_path: Path, *lines: str) -> dict[str, str]:
    folder = tmp_path / "config"
    folder.mkdir(exist_ok=True)
    text = "\n".join(f"c.WasmKernel.{line}" for line in lines)
    (folder / "jupyter_wasm_kernel_config.py").write_text(f"c = get_config()\n{text}\n")
    return {"JUPYTER_CONFIG_DIR": str(folder)}


# ---- undo and redo


def test_undo_after_a_disaster(start: Start) -> None:
    kernel = start()
    kernel.ok(
        "import os, pandas as pd\nopen('data.csv', 'w').write('a,b\\n1,2\\n')\nos.mkdir('d'); open('d/x', 'w').write('x')"
    )
    kernel.ok("df = pd.read_csv('data.csv'); values = {n: n for n in range(5)}; g = iter('abc'); next(g)")
    for disaster in (
        "df.drop(columns='a', inplace=True)",
        "os.remove('data.csv'); os.remove('d/x'); os.rmdir('d')",
        "for n in values: values[n] = None\nfor name in ('data.csv', 'd/x'): open(name, 'w').write('overwritten')\ndel df; list(g)",
        "import builtins; del builtins.print; open('new', 'w').write('x')",
    ):
        kernel.run(disaster)
        said = shown(kernel.ok("%session undo"))
        assert "Undone" in said
        assert "after cell [2]" in said
        code = "print(list(df.columns), values[3], open('data.csv').read(), open('d/x').read(), sorted(os.listdir()))"
        assert kernel.ok(code).stdout == "['a', 'b'] 3 a,b\n1,2\n x ['d', 'data.csv']\n"
        kernel.ok("%session undo")
    assert kernel.ok("print(next(g))").stdout == "b\n"


def test_undo_many_and_redo(start: Start) -> None:
    kernel = start()
    for n in range(1, 6):
        kernel.ok(f"x = {n}; open('f', 'w').write('{n}')")
    assert "after cell [2]" in shown(kernel.ok("%session undo 3"))
    look = "%session redo"
    for n in (3, 4, 5):
        assert f"after cell [{n}]" in shown(kernel.ok(look))
        assert (kernel.root / next(p.name for p in kernel.root.iterdir() if p.name[0] != ".") / "f").read_text() == str(
            n
        )
    assert "nothing to redo" in kernel.run(look).traceback
    kernel.ok("%session undo 2")
    kernel.ok("%session undo")
    assert kernel.ok("print(x, open('f').read())").stdout == "2 2\n"
    assert "nothing to redo" in kernel.run(look).traceback, "a cell has run since"
    refused = kernel.run("%session undo 50").traceback
    assert "only 3 cells" in refused
    assert kernel.ok("print(x)").stdout == "2\n"
    for wrong in ("0", "-1", "two", "1 2"):
        assert not kernel.run(f"%session undo {wrong}").ok
    assert kernel.run("%session undo 1\ny = 1").ok is False, "nothing may follow it in its cell"


def test_undo_of_the_very_first_cell(start: Start) -> None:
    kernel = start()
    assert "there is no cell to undo" in kernel.run("%session undo").traceback
    kernel.ok("x = 1; open('f', 'w').write('x')")
    said = shown(kernel.ok("%session undo"))
    assert "before the first cell" in said
    first = kernel.ok("import os; print('x' in globals(), os.listdir())")
    assert first.stdout == "False []\n"
    assert first.reply["execution_count"] == 1
    kernel.ok("%session undo")
    assert "there is no cell to undo" in kernel.run("%session undo").traceback


def test_files_that_were_there_before_the_first_cell_stay(book: Start, tmp_path: Path) -> None:
    kernel = book()
    kernel.ok("open('kept', 'w').write('1')")
    kernel.manager.restart_kernel(now=False)
    kernel.client.stop_channels()
    kernel.connect()
    kernel.ok("import os; os.remove('kept')")
    kernel.ok("%session undo")
    assert kernel.ok("import os; print(os.listdir())").stdout == "['kept']\n"


def test_files_that_were_uploaded_meanwhile_stay(book: Start) -> None:
    """Not by a cell: an undo of a later cell must not take them away."""
    kernel = book()
    kernel.ok("x = 1")
    (kernel.root / "notebook" / "uploaded").write_text("data")
    kernel.ok("y = open('uploaded').read()")
    kernel.ok("z = 1")
    kernel.ok("%session undo")
    assert kernel.ok("print(y, open('uploaded').read())").stdout == "data data\n"


def test_tmp_is_undone_too(start: Start) -> None:
    kernel = start()
    kernel.ok("open('/tmp/t', 'w').write('one')")
    kernel.ok("x = 1")
    kernel.ok("open('/tmp/t', 'w').write('two')")
    kernel.ok("y = 1")
    kernel.ok("%session undo 2")
    assert kernel.ok("print(open('/tmp/t').read())").stdout == "one\n"


def test_cells_that_fail_crash_or_are_interrupted(start: Start) -> None:
    kernel = start()
    kernel.ok("import os; x = 1")
    assert not kernel.run("x = 2; 1 / 0").ok
    assert not kernel.run("x = 3; os.abort()").ok
    running = kernel.start("x = 4\nprint('go', flush=True)\nwhile True: pass")
    kernel.wait_for("stream", "go")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"
    log = table(kernel, "log")
    assert [row["number"] for row in log] == [1, 2, 3, 4]
    assert log[2]["variables"] == {"added": [], "removed": [], "changed": []}, "the crash put back what was before it"
    assert kernel.ok("print(x)").stdout == "4\n"
    kernel.ok("%session undo 4")
    assert kernel.ok("print(x)").stdout == "2\n"
    kernel.ok("%session undo 3")
    assert kernel.ok("print(x)").stdout == "1\n"


def test_the_log_says_what_each_cell_did(start: Start) -> None:
    kernel = start()
    kernel.ok("import numpy as np\na = 1; b = np.zeros(1000)")
    kernel.ok("b[5] = 1; c = 'new'; open('f', 'w').write('x')")
    kernel.ok("del a; open('f', 'w').write('yy')")
    log = table(kernel, "log")
    assert [row["number"] for row in log] == [1, 2, 3]
    assert set(log[0]["variables"]["added"]) >= {"a", "b"}
    assert log[1]["variables"]["added"] == ["c"]
    assert log[1]["variables"]["changed"] == ["b"]
    assert log[1]["files"]["added"] == ["f"]
    assert log[2]["variables"]["removed"] == ["a"]
    assert log[2]["files"]["changed"] == ["f"]
    text = shown(kernel.ok("%session log"))
    assert "del a" in text
    kernel.ok("%session undo 3")
    log = table(kernel, "log")
    assert [row["number"] for row in log if not row["undone"]] == [1, 2]
    assert [row["number"] for row in log if row["undone"]] == [3, 4, 5]
    kernel.ok("%session undo 2")  # the look at the log
    assert "2 cells can be undone" in shown(kernel.ok("%session log"))
    assert "there are only 2 cells to undo" in kernel.run("%session undo 3").traceback
    kernel.ok("%session undo 2")
    assert "there is no cell to undo" in kernel.run("%session undo").traceback


@pytest.mark.parametrize("number", ["0", "-1", "two", "²", "9" * 5000])
def test_undo_takes_a_number_of_cells(kernel: Kernel, number: str) -> None:
    assert "give the number of cells to undo, 1 or more" in kernel.run(f"%session undo {number}").traceback


def test_a_file_that_was_made_and_deleted_stays_deleted(start: Start) -> None:
    kernel = start()
    for code in ("import os; open('f', 'w').write('x')", "os.remove('f')", "x = 1", "%session undo"):
        kernel.ok(code)
    assert kernel.ok("print(os.listdir())").stdout == "[]\n"


def test_snapshots_by_label_and_id_and_what_differs(start: Start) -> None:
    kernel = start()
    kernel.ok("x = 1; open('f', 'w').write('1')")
    assert "%session restore good state" in shown(kernel.ok("%session snapshot good state"))
    kernel.ok("x = 2; y = 3; open('f', 'w').write('2'); open('g', 'w').write('g')")
    difference = table(kernel, "diff 'good state'")
    assert difference["files"] == {"added": ["g"], "removed": [], "changed": ["f"]}
    assert difference["variables"]["added"] == ["y"]
    assert difference["variables"]["changed"] == ["x"]
    kernel.ok("%session restore good state")
    assert kernel.ok("print(x, open('f').read())").stdout == "1 1\n"
    (labelled,) = [s for s in table(kernel, "snapshots") if s["label"] == "good state"]
    kernel.ok("x = 9")
    kernel.ok(f"%session restore {labelled['snapshot_id'][:8]}")
    assert kernel.ok("print(x)").stdout == "1\n"
    for wrong in ("restore nothing", "restore", "diff", "diff nothing", "diff a b c"):
        assert not kernel.run(f"%session {wrong}").ok
    assert kernel.ok("print(x)").stdout == "1\n"


def test_fork_and_attach(start: Start) -> None:
    kernel = start()
    kernel.ok("import random; g = iter(range(9)); next(g); x = 1; open('f', 'w').write('1')")
    forked = re.search(r"attach ([0-9a-f-]{36})", shown(kernel.ok("%session fork")))
    assert forked
    kernel.ok("x = 2; open('f', 'w').write('2'); r = random.random()")
    kernel.ok("here = %session info")
    before = ast.literal_eval(kernel.ok("print(here)").stdout)["session_id"]
    assert "with its variables" in shown(kernel.ok(f"%session attach {forked[1]}", answers=("yes",)))
    assert kernel.ok("print(x, next(g), open('f').read())").stdout == "1 1 1\n"
    kernel.ok("x = 'forked'")
    kernel.ok(f"%session attach {before}", answers=("yes",))
    assert kernel.ok("print(x, open('f').read())").stdout == "2 2\n"
    kernel.ok("%session undo 4")
    assert kernel.ok("print(x)").stdout == "1\n"


def test_reset_is_fresh_and_can_be_undone(book: Start) -> None:
    kernel = book()
    kernel.ok("x = list(range(100_000)); open('f', 'w').write('f')")
    kernel.ok("%session reset")
    assert eventually(lambda: len(list_snapshots(kernel.root)) == 3), "reset leaves no trace"
    kill(kernel)
    kernel = book()
    again = kernel.ok("y = 1; print('x' in globals(), open('f').read())")
    assert again.stdout == "False f\n"
    assert again.stderr == "", "nothing was brought back"
    kernel.ok("%session undo 2")
    assert kernel.ok("print(sum(x))").stdout == "4999950000\n"


# ---- what is listed, and what it costs


def test_the_list_of_snapshots_has_one_row_for_each_moment(book: Start) -> None:
    kernel = book()
    for n in range(1, 4):
        kernel.ok(f"x = {n}")
    kernel.ok("%session undo")
    kernel.ok("x = 33")  # the third cell again
    kernel.ok("%session snapshot good")
    close(kernel)
    kernel = book()
    kernel.ok("x")
    rows = shown(kernel.ok("%session snapshots")).splitlines()
    moments = [re.split(r"\s{2,}", row)[1] for row in rows[2:]]
    assert moments == [
        "after cell [5] (now)",
        "good",
        "after cell [3]",
        "after cell [3] (undone)",
        "after cell [2]",
        "after cell [1]",
        "before the first cell",
    ]
    assert rows[0] == "7 snapshots"
    assert rows[-1].endswith("nothing"), "before the first cell nothing is stored"
    assert not any(re.search(r"\b0 (B|files)", row) for row in rows)


def stored_by(kernel: Kernel, code: str) -> int:
    """Bytes that the checkpoint of a cell added."""
    number = kernel.ok(code).reply["execution_count"]
    kernel.ok("%session snapshots")  # waits until it is written
    (found,) = [s for s in list_snapshots(kernel.root) if s.metadata.get("number") == number]
    return found.stored_bytes


def test_what_was_freed_by_a_cell_or_a_look_is_not_stored(start: Start) -> None:
    kernel = start()
    kernel.ok("import random\na = [random.random() for i in range(700_000)]")
    kernel.ok("x = 1")
    look = {"code": "a", "cursor_pos": 1, "detail_level": 0}
    assert kernel.ask("inspect_request", look)["found"]  # Shift-Tab: makes a text of 13 MB
    assert stored_by(kernel, "x = 2") < 6_000_000
    assert stored_by(kernel, "import os; len(os.urandom(20_000_000))") < 6_000_000


# ---- coming back


def test_closed_and_opened_again(book: Start) -> None:
    kernel = book()
    kernel.ok("def numbers():\n    for n in range(9): yield n\ng = numbers(); next(g)")
    kernel.ok("x = 41; f = open('f', 'w'); f.write('begun ')")
    close(kernel)
    assert "session_close" in crowd(kernel)
    kernel = book()
    first = kernel.ok("print(x + 1, next(g)); f.write('ended'); f.close(); print(open('f').read())")
    assert first.stdout == "42 1\nbegun ended\n"
    assert first.reply["execution_count"] == 3
    assert first.stderr == "", "good news is not red"
    line = first.data
    assert line["text/plain"].startswith("[wasm-kernel] Continued from ")
    assert line["text/plain"].endswith("with all variables. To start fresh: %session reset")
    assert "<code>%session reset</code>" in line["text/html"]
    (at_once,) = [m for m in kernel.others if m["msg_type"] == "display_data"]
    assert at_once["parent_header"] == {} and at_once["content"]["data"] == line
    assert not kernel.ok("1").of("display_data"), "said once"
    kernel.ok("x = 0")
    kernel.ok("%session undo 3")
    assert kernel.ok("print(x, next(g))").stdout == "41 1\n", "cells from before the close are undone as any other"
    kernel.ok("%session undo 2")
    assert kernel.ok("print('x' in globals(), next(g))").stdout == "False 1\n"


def test_restart_means_fresh(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 1; open('f', 'w').write('f')")
    kernel.client.stop_channels()
    kernel.manager.restart_kernel(now=False)
    kernel.connect()
    cell = kernel.ok("print('x' in globals(), open('f').read())")
    assert (cell.stdout, cell.stderr) == ("False f\n", "")
    assert cell.reply["execution_count"] == 1
    kernel.ok("y = 2")
    close(kernel)
    kernel = book()
    assert kernel.ok("print(y, 'x' in globals())").stdout == "2 False\n"


def test_killed_during_a_cell(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 1; open('f', 'w').write('f')")
    kernel.ok("y = 2")
    kernel.start("x = 'lost'; print('go', flush=True)\nwhile True: pass")
    kernel.wait_for("stream", "go")
    kill(kernel)
    kernel = book()
    cell = kernel.ok("print(x, y)")
    assert cell.stdout == "1 2\n"
    assert "[3]" in cell.stderr
    assert "lost" in cell.stderr
    assert "%session reset" in cell.stderr
    assert cell.reply["execution_count"] == 3


def test_killed_at_rest_loses_nothing(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 1")
    kernel.ok("g = iter(range(5)); next(g)")
    kernel.ok("%session log")
    kill(kernel)
    kernel = book()
    cell = kernel.ok("print(x, next(g))")
    assert cell.stdout == "1 1\n"
    assert "lost" not in cell.stderr


def test_killed_after_an_undo_stays_undone(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 'good'; open('f', 'w').write('good')")
    kernel.ok("x = 'bad'; open('f', 'w').write('bad')")
    kernel.ok("%session undo")
    kill(kernel)
    kernel = book()
    cell = kernel.ok("print(x, open('f').read())")
    assert cell.stdout == "good good\n"
    assert "lost" not in cell.stderr
    kernel.ok("x = 'more'")
    kernel.ok("%session undo 2")
    assert kernel.ok("print(x)").stdout == "good\n"


def test_killed_in_the_first_cell(book: Start) -> None:
    kernel = book()
    kernel.start("print('go', flush=True)\nwhile True: pass")
    kernel.wait_for("stream", "go")
    kill(kernel)
    assert book().ok("print(1)").stdout == "1\n"


def test_closed_while_a_cell_runs(book: Start) -> None:
    """It is interrupted; what it changed until then is part of what the next kernel goes on with, or the cell is lost."""
    kernel = book()
    kernel.ok("x = 1")
    kernel.start("x = 2; print('go', flush=True)\nwhile True: pass")
    kernel.wait_for("stream", "go")
    close(kernel)
    assert book().ok("print(x)").stdout in ("1\n", "2\n")


def test_variables_that_need_a_higher_limit_are_kept_for_it(book: Start) -> None:
    kernel = book()
    kernel.ok("big = bytearray(300 << 20); x = 42")
    close(kernel)
    settings = kernel.root.parent / "settings"
    settings.mkdir()
    (settings / "jupyter_wasm_kernel_config.py").write_text('c.WasmKernel.limits = {"memory": "400M"}')
    kernel = book(JUPYTER_CONFIG_DIR=str(settings))
    cell = kernel.ok("print('x' in globals())")
    assert cell.stdout == "False\n"
    told = re.search(
        r"but the limit is 400\.0 MB; raise it with %session limits .*`(%session restore \w+)`", cell.stderr
    )
    assert told, cell.stderr
    kernel.ok("%session limits memory=1G")
    kernel.ok(told[1])
    assert kernel.ok("print(x, len(big))").stdout == f"42 {300 << 20}\n"


def test_a_snapshot_that_cannot_be_used_does_not_keep_the_notebook_from_opening(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 1; open('f', 'w').write('f')")
    close(kernel)
    for pack in (kernel.root / ".wasm-kernel" / "snapshots" / "packs").iterdir():
        pack.write_bytes(b"")
    shutil.rmtree(kernel.root / ".wasm-kernel" / "snapshots" / "memory")
    kernel = book()
    cell = kernel.ok("print('x' in globals(), open('f').read())")
    assert cell.stdout == "False f\n"
    assert "could not be restored" in cell.stderr
    kernel.ok("y = 1")
    kernel.ok("y = 2")
    kernel.ok("%session undo")
    assert kernel.ok("print(y)").stdout == "1\n"


def test_kernels_without_a_notebook_start_fresh(start: Start) -> None:
    kernel = start()
    kernel.ok("x = 1")
    close(kernel)
    assert [p.name for p in kernel.root.iterdir() if p.name[0] != "."] == [], "nobody can come back to it"
    cell = start().ok("print('x' in globals())")
    assert (cell.stdout, cell.stderr) == ("False\n", "")


# ---- settings


def test_checkpoints_can_be_turned_off(book: Start, tmp_path: Path) -> None:
    env = configured(tmp_path, "checkpoint = False")
    kernel = book(**env)
    kernel.ok("x = 1")
    kernel.ok("x = 2")
    assert not kernel.run("%session undo").ok
    assert list_snapshots(kernel.root) == []
    kernel.ok("%session snapshot mine")
    kernel.ok("x = 3")
    kernel.ok("%session restore mine")
    assert kernel.ok("print(x)").stdout == "2\n"


def test_checkpoints_are_bounded(book: Start, tmp_path: Path) -> None:
    kernel = book(**configured(tmp_path, "checkpoint_count = 3"))
    kernel.ok("import os")
    kernel.ok("%session snapshot kept")
    for n in range(8):
        kernel.ok(f"x = {n}; open('f', 'w').write('{n}')")
    assert eventually(lambda: len([s for s in list_snapshots(kernel.root) if s.trigger == "checkpoint"]) == 3)
    kernel.ok("%session undo 2")
    assert kernel.ok("print(x, open('f').read())").stdout == "5 5\n"
    assert not kernel.run("%session undo 5").ok
    kernel.ok("%session restore kept")
    assert kernel.ok("print('x' in globals())").stdout == "False\n"


def test_checkpoints_are_bounded_by_space(book: Start, tmp_path: Path) -> None:
    kernel = book(**configured(tmp_path, "checkpoint_bytes = 3 << 20"))
    for n in range(6):
        kernel.ok(f"import os; x = os.urandom(1 << 20); n = {n}; open('f', 'w').write('{n}')")
    assert eventually(lambda: 2 <= len(list_snapshots(kernel.root)) <= 4)
    kernel.ok("%session undo")
    assert kernel.ok("print(n)").stdout == "4\n"


# ---- rest


def held(kernel: Kernel) -> int:
    """What a process takes of the system's memory: its share of what is mapped, and its unnamed files."""
    rollup = Path(f"/proc/{kernel.pid}/smaps_rollup").read_text()
    pss = dict(re.findall(r"^Pss_(\w+):\s+(\d+) kB", rollup, re.MULTILINE))
    files = 0
    for fd in Path(f"/proc/{kernel.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed just now
            files += fd.stat().st_blocks * 512 if "memfd:" in os.readlink(fd) else 0
    return (int(pss["Anon"]) + int(pss["File"]) << 10) + files


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_memory_goes_back_to_the_system_and_comes_back(book: Start, tmp_path: Path) -> None:
    kernel = book(**configured(tmp_path, "idle_timeout_seconds = 1.0"))
    kernel.ok(
        "import ipywidgets\nseen = []; slider = ipywidgets.IntSlider(); slider.observe(lambda c: seen.append(c['new']), 'value')"
    )
    kernel.ok(
        "data = bytearray(b'x') * (200 << 20); g = iter('abc'); next(g); f = open('/tmp/t', 'w+'); f.write('tmp'); f.flush()"
    )
    busy = held(kernel)
    print(f"memory {busy >> 20} MB")

    def at_rest() -> bool:
        return eventually(lambda: held(kernel) < busy - (150 << 20))

    assert at_rest(), held(kernel)
    print(f"at rest {held(kernel) >> 20} MB")
    began = time.perf_counter()
    assert kernel.ok("print(len(data), data[-1:], next(g))").stdout == f"{200 << 20} bytearray(b'x') b\n"
    print(f"the first cell after it: {1000 * (time.perf_counter() - began):.0f} ms")
    assert kernel.ok("f.seek(0); print(f.read(), open('/tmp/t').read())").stdout == "tmp tmp\n"

    # A completion wakes it, too.
    assert at_rest(), held(kernel)
    matches = kernel.ask("complete_request", {"code": "slider.val", "cursor_pos": 10})["matches"]
    assert any("value" in match for match in matches)

    # So does a widget, and what it changed is not forgotten when memory is given back again.
    comm_id = kernel.ok("print(slider.comm.comm_id)").stdout.strip()
    assert at_rest(), held(kernel)
    kernel.comm(comm_id, {"method": "update", "state": {"value": 42}, "buffer_paths": []})
    assert at_rest(), held(kernel)
    assert kernel.ok("print(seen, slider.value)").stdout == "[42] 42\n"

    # Undo and reset work from there as well.
    kernel.ok("data = None")
    kernel.ok("%session undo")
    assert kernel.ok("print(len(data))").stdout == f"{200 << 20}\n"
    assert at_rest(), held(kernel)
    kernel.ok("%session reset")
    assert kernel.ok("print('data' in globals())").stdout == "False\n"


def test_a_background_task_keeps_it_awake(book: Start, tmp_path: Path) -> None:
    kernel = book(**configured(tmp_path, "idle_timeout_seconds = 0.5"))
    kernel.ok(
        "import asyncio\nasync def work():\n    await asyncio.sleep(1.5)\n    open('done', 'w').close()\nt = asyncio.create_task(work())"
    )
    assert eventually(lambda: list(kernel.root.glob("*/done"))), "nobody else wakes it"


def test_a_task_that_waited_goes_on_after_an_undo(start: Start) -> None:
    kernel = start()
    kernel.ok(
        "import asyncio\nsteps = []\nasync def work():\n    while True:\n        await asyncio.sleep(0.05)\n        steps.append(1)"
    )
    kernel.ok("task = asyncio.create_task(work())")
    kernel.ok("task.cancel(); y = 1")
    kernel.ok("%session undo")
    before = int(kernel.ok("print(len(steps))").stdout)
    assert eventually(lambda: int(kernel.ok("print(len(steps))").stdout) > before + 2)


# ---- much, and many


def test_a_heavy_cell_and_another_at_once(start: Start) -> None:
    """The next cell does not wait for the disk, and changes nothing of what is still being written."""
    kernel = start()
    kernel.ok("import os")
    first = kernel.start(
        "data = bytearray(os.urandom(60 << 20)); mark = bytes(data[:9]); open('f', 'wb').write(data[: 5 << 20])"
    )
    second = kernel.start("data[:9] = b'overwrite'; data[-9:] = bytes(9); open('f', 'wb').write(b'changed')")
    assert kernel.finish(first).ok
    assert kernel.finish(second).ok
    kernel.ok("%session undo")
    code = "print(bytes(data[:9]) == mark, any(data[-9:]), os.path.getsize('f'), open('f', 'rb').read(9) == mark)"
    assert kernel.ok(code).stdout == f"True True {5 << 20} True\n"


def test_many_quick_cells(book: Start, tmp_path: Path) -> None:
    kernel = book(**configured(tmp_path, "checkpoint_count = 60"))
    began = time.monotonic()
    sent = [kernel.start(f"x = {n}" + (f"; open('f{n}', 'w').write('{n}')" if n % 5 == 0 else "")) for n in range(50)]
    assert all(kernel.finish(each).ok for each in sent)
    print(f"50 cells in {time.monotonic() - began:.2f} s")
    kernel.ok("%session undo 20")
    assert kernel.ok("import os; print(x, len(os.listdir()))").stdout == "29 6\n"
    kernel.ok("%session undo 30")
    assert kernel.ok("print(x)").stdout == "0\n"


def test_more_quick_cells_than_are_kept(book: Start, tmp_path: Path) -> None:
    """Some are never written; the others are whole all the same."""
    kernel = book(**configured(tmp_path, "checkpoint_count = 4"))
    kernel.ok("data = [0] * 50_000")
    sent = [kernel.start(f"data[{n} * 1000 : {n} * 1000 + 500] = [{n}] * 500; x = {n}") for n in range(1, 40)]
    assert all(kernel.finish(each).ok for each in sent)
    kernel.ok("%session undo 2")
    code = "print(x, all(data[n * 1000] == n and data[n * 1000 + 600] == 0 for n in range(1, 38)), data[38_000])"
    assert kernel.ok(code).stdout == "37 True 0\n"
    kill(kernel)
    kernel = book(**configured(tmp_path, "checkpoint_count = 4"))
    assert kernel.ok(code).stdout == "37 True 0\n"


def test_widgets_after_an_undo(start: Start) -> None:
    kernel = start()
    kernel.ok("import ipywidgets; seen = []")
    kernel.ok("slider = ipywidgets.IntSlider(); slider.observe(lambda c: seen.append(c['new']), 'value')")
    comm_id = kernel.ok("print(slider.comm.comm_id)").stdout.strip()
    kernel.ok("%session undo 2")
    kernel.comm(comm_id, {"method": "update", "state": {"value": 3}, "buffer_paths": []})
    assert kernel.ok("print(seen, 'slider' in globals())").stdout == "[] False\n"
    kernel.ok("%session undo")
    kernel.ok("%session undo")
    assert kernel.ask("comm_info_request", {})["status"] == "ok"
    kernel.ok("import ipywidgets; again = ipywidgets.IntSlider(value=2)")
    assert kernel.ok("print(again.value)").stdout == "2\n"


def test_magics_in_the_middle_of_a_cell(start: Start) -> None:
    kernel = start()
    kernel.ok("x = 1")
    kernel.ok("x = 2\n%session snapshot inside\nx = 3")
    kernel.ok("x = 4")
    kernel.ok("y = 1\n%session undo")
    assert kernel.ok("print(x, 'y' in globals())").stdout in ("3 False\n", "4 False\n")
    kernel.ok("%session restore inside")
    assert kernel.ok("print(x)").stdout == "3\n", "taken when the cell has ended"


def test_restarted_and_killed_before_the_first_cell(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 1")
    kernel.client.stop_channels()
    kernel.manager.restart_kernel(now=False)
    kernel.connect()
    kernel.ok("%session info")
    kill(kernel)
    assert book().ok("print('x' in globals())").stdout == "False\n"


def test_restarted_before_anything_was_saved(book: Start) -> None:
    """The promise of a fresh start is kept once, and not again for what is saved after it."""
    kernel = book()
    kernel.ok("%session info")
    kernel.client.stop_channels()
    kernel.manager.restart_kernel(now=False)
    kernel.connect()
    kernel.ok("x = 1")
    close(kernel)
    assert book().ok("print(x)").stdout == "1\n"


# ---- clocks


@pytest.mark.parametrize("steps", [(0, -3600, -7200), (0, 3600, 7200), (3600, -3600, 0)])
def test_a_clock_that_steps_between_kernels(book: Start, tmp_path: Path, steps: tuple[int, ...]) -> None:
    """A resume takes what was there last, not what has the latest time; so do two machines with different clocks."""
    clock, before = FakedClock(tmp_path / "clock"), None
    for day, wrong_by in zip(("monday", "tuesday", "wednesday"), steps, strict=True):
        clock.step(wrong_by)
        kernel = book(**clock.environment)
        cell = kernel.ok(f"print(globals().get('day')); day = {day!r}")
        assert cell.stdout == f"{before}\n"
        assert "0 ms ago" not in cell.said
        assert ("Continued from" in cell.said) == (before is not None)
        before = day
        (close if day == "monday" else kill)(kernel)
    clock.step(steps[0])
    kernel = book(**clock.environment)
    cell = kernel.ok("print(day)")
    assert cell.stdout == "wednesday\n"
    assert "Continued from" in cell.said
    assert "[1]" not in cell.said, "no cell was lost"


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_that_steps_under_a_kernel(book: Start, tmp_path: Path, step: int) -> None:
    clock = FakedClock(tmp_path / "clock")
    kernel = book(**clock.environment)
    kernel.ok("x = 1")
    clock.step(step)
    kernel.ok("x = 2")
    assert eventually(lambda: [s.metadata["number"] for s in list_snapshots(kernel.root)] == [2, 1, 0])
    assert "after cell [1]" in shown(kernel.ok("%session undo"))
    assert "after cell [2]" in shown(kernel.ok("%session redo"))
    kernel.start("x = 3\nprint('begun')\nwhile True: pass")
    kernel.wait_for("stream", "begun")
    kill(kernel)
    kernel = book(**clock.environment)
    cell = kernel.ok("print(x)")
    assert cell.stdout == "2\n"
    assert "while cell [3] was running" in cell.stderr


def test_a_deleted_session_made_again_begins_afresh(book: Start) -> None:
    kernel = book()
    kernel.ok("x = 'old'")
    close(kernel)
    delete_session_workspace("notebook", kernel.root, snapshot=True)
    kernel = book()
    assert kernel.ok("print(globals().get('x')); x = 'new'").said == "None\n"
    close(kernel)
    assert "new\n" in book().ok("print(x)").stdout
