"""Which session a notebook gets: always its own, wherever it goes. With files of a server made by hand, and a real port."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Kernel, eventually
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.files import birth
from wasm_kernel.kernel import notebook as notebooks
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notebooks import (
    Opened,
    follow_notebook,
    forget_notebook,
    note_identity,
    open_notebook_session,
)

pytestmark = pytest.mark.filterwarnings("ignore")
TOKEN = "only for tests"


def write_notebook(path: Path, *ids: str) -> Path:
    """A notebook whose cells have these ids."""
    cells = [
        {"cell_type": "code", "id": i, "source": "", "metadata": {}, "outputs": []} for i in ids or (uuid.uuid4().hex,)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


# ---- the library


@pytest.fixture
def visit(tmp_path: Path) -> Callable[[Path], str]:
    """Open a notebook's session as a kernel does, and leave it again; which one it was."""
    (tmp_path / "root").mkdir()

    def visit(notebook: Path) -> str:
        opened = hold(tmp_path / "root", notebook)
        opened.lock.release()
        return opened.session_id

    return visit


def hold(root: Path, notebook: Path) -> Opened:
    return open_notebook_session(root, notebook, SandboxLogger(level="error"))


def test_the_same_notebook_has_the_same_session(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a b ü.ipynb")
    first = visit(notebook)
    assert visit(notebook) == first
    assert read_record(tmp_path / "root" / first).extra["notebook"] == str(notebook)


def test_an_edited_notebook_keeps_its_session(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one")
    first = visit(notebook)
    write_notebook(notebook, "two", "three")
    assert visit(notebook) == first


def replace_notebook(path: Path, *ids: str) -> Path:
    """What editors that save by renaming do, and git: another file takes its place."""
    new = write_notebook(path.with_name("new"), *ids)
    time.sleep(0.02)  # files are told apart by when they were made, which systems note in steps of a few ms
    return new.replace(path)


def test_a_notebook_saved_by_replacing_its_file_keeps_its_session(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one", "two")
    first = visit(notebook)
    assert visit(replace_notebook(notebook, "new", "two", "three")) == first
    assert visit(replace_notebook(notebook, "three")) == first, "each opening notes the cells"
    assert visit(replace_notebook(notebook, "one", "old")) == first, "an older version, as out of git"
    inodes = (tmp_path / "root/.wasm-kernel/notebooks").glob("inode-*")
    assert len(list(inodes)) == 1, "the index does not grow with each save"


@pytest.fixture(params=["births known", "births unknown"])
def births(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every file system says when a file was made."""
    if request.param == "births unknown":
        monkeypatch.setattr(birth, "born", lambda handle: 0)


def delete_and_write(path: Path, *ids: str) -> Path:
    """Another notebook under the same name; on most file systems it even gets the same inode."""
    path.unlink()
    time.sleep(0.02)
    return write_notebook(path, *ids)


@pytest.mark.usefixtures("births")
@pytest.mark.parametrize("comes", [delete_and_write, replace_notebook])
def test_another_notebook_under_an_old_name_gets_a_session_of_its_own(tmp_path: Path, comes: Any) -> None:
    root, notebook = tmp_path / "root", write_notebook(tmp_path / "Untitled.ipynb", "one", "two")
    root.mkdir()
    first = hold(root, notebook)
    first.lock.release()
    (first.folder / "private.txt").write_text("of the first notebook")
    second = hold(root, comes(notebook, "three"))
    second.lock.release()
    assert second.session_id != first.session_id
    assert not (second.folder / "private.txt").exists()
    assert f"%session attach {first.session_id}" in second.note
    third = hold(root, notebook)
    third.lock.release()
    assert (third.session_id, third.note) == (second.session_id, ""), "it is told once"


@pytest.mark.usefixtures("births")
def test_a_new_empty_notebook_under_an_old_name_does_not_inherit(visit: Any, tmp_path: Path) -> None:
    """As JupyterLab makes it: the kernel starts before there is a cell."""
    first = visit(write_notebook(tmp_path / "Untitled.ipynb", "one"))
    (tmp_path / "Untitled.ipynb").unlink()
    time.sleep(0.02)
    (tmp_path / "Untitled.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    second = visit(tmp_path / "Untitled.ipynb")
    assert second != first
    assert visit(write_notebook(tmp_path / "Untitled.ipynb", "first cell")) == second
    assert visit(replace_notebook(tmp_path / "Untitled.ipynb", "first cell", "more")) == second


@pytest.mark.usefixtures("births")
def test_a_notebook_without_ids_is_known_by_its_file(visit: Any, tmp_path: Path) -> None:
    """Before nbformat 4.5 cells had none."""
    notebook = tmp_path / "old.ipynb"
    for source in ("1", "2"):
        cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}]
        notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
        assert visit(notebook) == visit(notebook)
    first = visit(notebook)
    shutil.copy(notebook, tmp_path / "new")
    time.sleep(0.02)
    assert visit((tmp_path / "new").replace(notebook)) != first


def test_a_notebook_that_was_emptied_is_known_by_its_file(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one", "two")
    first = visit(notebook)
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert visit(notebook) == first
    write_notebook(notebook, "three")
    assert visit(notebook) == first


def test_cells_are_noted_while_a_session_is_used(visit: Any, tmp_path: Path) -> None:
    root, notebook = tmp_path / "root", write_notebook(tmp_path / "a.ipynb", "one")
    opened = hold(root, notebook)
    write_notebook(notebook, "two")
    note_identity(root, opened.session_id, notebook)
    opened.lock.release()
    assert visit(replace_notebook(notebook, "two")) == opened.session_id


def test_a_running_kernel_does_not_make_another_notebook_its_own(visit: Any, tmp_path: Path) -> None:
    root, notebook = tmp_path / "root", write_notebook(tmp_path / "a.ipynb", "one")
    running = hold(root, notebook)
    moved = notebook.rename(tmp_path / "b.ipynb")
    write_notebook(notebook, "another")
    note_identity(root, running.session_id, notebook)
    other = hold(root, notebook)
    assert other.session_id != running.session_id
    note_identity(root, running.session_id, notebook)
    running.lock.release()
    other.lock.release()
    assert visit(notebook) == other.session_id
    assert visit(moved) == running.session_id


def test_a_notebook_that_another_one_displaced_is_still_found_where_it_went(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one")
    first = visit(notebook)
    moved = notebook.rename(tmp_path / "b.ipynb")
    second = visit(write_notebook(notebook, "two"))
    assert visit(moved) == first
    notebook.rename(tmp_path / "c.ipynb")
    moved.rename(notebook)
    assert visit(notebook) == first, "back under its old name"
    assert visit(tmp_path / "c.ipynb") == second


def test_what_an_earlier_version_wrote_down_still_leads_there(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one")
    first = visit(notebook)
    for known in (["one"], []):
        for entry in (tmp_path / "root/.wasm-kernel/notebooks").glob("[!.]*"):
            entry.write_text(json.dumps({"session": first, "cells": known}))
        assert visit(notebook) == first
    for entry in (tmp_path / "root/.wasm-kernel/notebooks").glob("[!.]*"):
        entry.write_text(json.dumps({"session": first, "cells": ["one"]}))
    assert visit(write_notebook(notebook, "other")) != first


def test_a_notebook_that_is_a_pipe_is_not_waited_for(visit: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.ipynb")
    assert visit(tmp_path / "a.ipynb") == visit(tmp_path / "a.ipynb")


def test_a_copy_gets_a_session_of_its_own(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one")
    first = visit(notebook)
    copy = Path(shutil.copy(notebook, tmp_path / "copy.ipynb"))
    assert visit(copy) != first
    assert visit(notebook) == first


def test_a_hard_link_gets_a_session_of_its_own(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one")
    first = visit(notebook)
    os.link(notebook, tmp_path / "link.ipynb")
    assert visit(tmp_path / "link.ipynb") != first


def test_a_notebook_moved_while_no_kernel_ran_is_followed(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one", "two")
    first = visit(notebook)
    (tmp_path / "elsewhere").mkdir()
    moved = notebook.rename(tmp_path / "elsewhere" / "b.ipynb")
    assert visit(moved) == first
    assert read_record(tmp_path / "root" / first).extra["notebook"] == str(moved)
    assert visit(write_notebook(notebook, "other")) != first, "the old name is free for another notebook"


def test_another_notebook_with_the_inode_of_a_deleted_one_does_not_take_over(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb", "one", "two")
    first = visit(notebook)
    other = notebook.rename(tmp_path / "b.ipynb")  # the same inode, as if it had been given out again
    write_notebook(other, "three", "four")
    assert visit(other) != first


def test_swapped_notebooks_keep_their_sessions(visit: Any, tmp_path: Path) -> None:
    one, two = write_notebook(tmp_path / "1.ipynb", "a"), write_notebook(tmp_path / "2.ipynb", "b")
    first, second = visit(one), visit(two)
    one.rename(tmp_path / "t")
    two.rename(one)
    (tmp_path / "t").rename(two)
    assert visit(one) == second
    assert visit(two) == first


def test_a_rename_while_the_kernel_runs_is_written_down(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb")
    opened = hold(tmp_path / "root", notebook)
    renamed = notebook.rename(tmp_path / "b.ipynb")
    follow_notebook(tmp_path / "root", opened.session_id, renamed)
    opened.lock.release()
    assert visit(renamed) == opened.session_id


def test_a_second_kernel_gets_its_own_and_a_note(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb")
    one, two = hold(tmp_path / "root", notebook), hold(tmp_path / "root", notebook)
    assert one.session_id != two.session_id
    assert not one.note
    assert f"%session attach {one.session_id}" in two.note
    one.lock.release()
    two.lock.release()
    assert visit(notebook) == one.session_id, "the second kernel's session does not become the notebook's"


def test_a_forgotten_or_deleted_session_is_replaced(visit: Any, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb")
    opened = hold(tmp_path / "root", notebook)
    forget_notebook(tmp_path / "root", opened.session_id)
    opened.lock.release()
    second = visit(notebook)
    assert second != opened.session_id
    shutil.rmtree(tmp_path / "root" / second)
    assert visit(notebook) not in (opened.session_id, second)


@pytest.mark.parametrize("damage", [b"", b"not json", b"[]", b'{"session": "../../etc"}', b'{"session": 5}'])
def test_a_damaged_index_does_no_harm(visit: Any, tmp_path: Path, damage: bytes) -> None:
    notebook = write_notebook(tmp_path / "a.ipynb")
    visit(notebook)
    for entry in (tmp_path / "root" / ".wasm-kernel" / "notebooks").iterdir():
        if entry.name != ".lock":
            entry.write_bytes(damage)
    again = visit(notebook)
    assert visit(notebook) == again


@pytest.mark.parametrize(
    "content", ["", "{}", '{"cells": 5}', '{"cells": [5]}', '{"cells": [{"id": []}]}', "[" * 200_000]
)
def test_a_notebook_that_is_none_still_has_its_session(visit: Any, tmp_path: Path, content: str) -> None:
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(content)
    assert visit(notebook) == visit(notebook)
    assert visit(tmp_path / "not-there-yet.ipynb") == visit(tmp_path / "not-there-yet.ipynb")


# ---- which notebook


class Server:
    """What a kernel sees of Jupyter Server: its file in the runtime folder, and its list of sessions."""

    def __init__(self, folder: Path) -> None:
        self.root, self.runtime = folder / "notebooks", folder / "runtime"
        self.root.mkdir()
        self.runtime.mkdir()
        self.sessions: Any = []
        self.asked: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.headers["Authorization"])
                right = self.path == "/base/api/sessions" and server.asked[-1] == f"token {TOKEN}"
                self.send_response(200 if right else 403)
                self.end_headers()
                self.wfile.write(json.dumps(server.sessions).encode() if right else b"no")

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._http.server_port}/base/"
        about = {"url": url, "token": TOKEN, "root_dir": str(self.root)}
        (self.runtime / f"jpserver-{os.getpid()}.json").write_text(json.dumps(about))

    @property
    def environ(self) -> dict[str, str]:
        return {"JUPYTER_RUNTIME_DIR": str(self.runtime), "JPY_PARENT_PID": str(os.getpid())}

    def serves(self, kernel_id: str, path: str) -> None:
        self.sessions = [{"path": "x.ipynb", "kernel": {"id": "other"}}, {"path": path, "kernel": {"id": kernel_id}}]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(tmp_path)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.runtime))
    yield server
    server.close()


def test_the_servers_word_is_taken(server: Server) -> None:
    name = server.root / "a b.ipynb"
    assert notebooks.from_environment({**server.environ, "JPY_SESSION_NAME": str(name)}) == name


@pytest.mark.parametrize(
    "changed", [{"JPY_PARENT_PID": "1"}, {"JPY_PARENT_PID": ""}, {"JPY_SESSION_NAME": "console-1"}]
)
def test_an_inherited_name_is_not_trusted(server: Server, changed: dict[str, str]) -> None:
    environ = {**server.environ, "JPY_SESSION_NAME": "/n/outer.ipynb", **changed}
    assert notebooks.from_environment(environ) is None


def test_the_server_is_asked_where_the_notebook_is_now(server: Server) -> None:
    server.serves("abc-1", "sub/renamed.ipynb")
    found = notebooks.from_server(server.environ, Path("/run/kernel-abc-1.json"))
    assert found == server.root / "sub" / "renamed.ipynb"
    assert server.asked == [f"token {TOKEN}"]
    assert notebooks.from_server(server.environ, Path("/run/kernel-unknown.json")) is None


@pytest.mark.parametrize("sessions", [{}, None, [5], [{"kernel": None}], [{"path": 5, "kernel": {"id": "k"}}], "text"])
def test_an_answer_that_is_none_is_ignored(server: Server, sessions: Any) -> None:
    server.sessions = sessions
    assert notebooks.from_server(server.environ, Path("kernel-k.json")) is None


def test_a_server_that_is_gone_is_no_error(server: Server) -> None:
    server.close()
    assert notebooks.from_server(server.environ, Path("kernel-k.json")) is None


def test_a_proxy_never_sees_the_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.serves("k", "n.ipynb")
    assert notebooks.from_server(server.environ, Path("kernel-k.json")) == server.root / "n.ipynb"


# ---- kernels


@pytest.fixture
def open_in(server: Server, start: Callable[..., Kernel]) -> Callable[[Path], Kernel]:
    def open_in(notebook: Path) -> Kernel:
        return start(JUPYTER_RUNTIME_DIR=str(server.runtime), JPY_SESSION_NAME=str(notebook))

    return open_in


def session_of(kernel: Kernel) -> str:
    return kernel.ok("s = %session info\nprint(s['session_id'])").stdout.strip()


def end(kernel: Kernel) -> None:
    process = kernel.manager.provisioner.process
    kernel.client.shutdown()
    process.wait(timeout=60)


def test_a_notebook_finds_its_files_again(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "a.ipynb")
    kernel = open_in(notebook)
    kernel.ok("open('result.csv', 'w').write('1')")
    first = session_of(kernel)
    assert str(notebook) in kernel.ok("%session").said
    end(kernel)
    again = open_in(notebook)
    assert session_of(again) == first
    assert again.run("open('result.csv').read()").result == "'1'"


def test_another_notebook_under_an_old_name_is_told_so_in_its_first_cell(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "Untitled.ipynb")
    kernel = open_in(notebook)
    kernel.ok("open('private.txt', 'w').write('1'); secret = 1")
    first = session_of(kernel)
    write_notebook(notebook, "the only cell")  # saved while the kernel runs
    end(kernel)
    other = open_in(replace_notebook(notebook, "another"))
    cell = other.run("import os; os.listdir(), 'secret' in globals()")
    assert cell.result == "([], False)"
    assert f"%session attach {first}" in cell.stderr
    end(other)
    again = open_in(replace_notebook(notebook, "the only cell"))
    if session_of(again) != first:  # it is found again by itself where the file system gives it the inode of before
        again.ok(f"%session attach {first}", answers=("yes",))
    assert again.run("open('private.txt').read()").result == "'1'"


def test_a_notebook_saved_by_renaming_while_its_kernel_runs_stays_the_same(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "a.ipynb", "one")
    kernel = open_in(notebook)
    first = session_of(kernel)
    write_notebook(notebook, "two")
    kernel.ok("%session")  # looks at it
    replace_notebook(notebook, "two", "three")
    end(kernel)  # as does its end
    assert session_of(open_in(replace_notebook(notebook, "three"))) == first


def test_a_second_kernel_on_a_notebook_says_what_it_does_in_its_first_cell_once(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "a.ipynb")
    one = open_in(notebook)
    first = session_of(one)
    two = open_in(notebook)
    cell = two.ok("x = 1")
    assert f"%session attach {first}" in cell.stderr
    assert two.ok("x").stderr == ""
    assert session_of(two) != first
    end(one)
    two.ok(f"%session attach {first}", answers=("yes",))
    assert session_of(two) == first


def test_a_fork_writes_a_notebook_only_if_the_person_allows_it(server: Server, open_in: Any) -> None:
    kernel = open_in(write_notebook(server.root / "a.ipynb"))
    kernel.ok("x = 1")
    for line in ("%session fork --notebook copy", "y = 2\n%session fork --note copy"):
        assert "WASM_KERNEL_GRANTS=export" in kernel.run(line).said
        assert not kernel.run(line, answers=("no",)).ok
    assert [p.name for p in server.root.iterdir()] == ["a.ipynb"]
    running = kernel.start("%session fork --notebook copy", allow_stdin=True)
    prompt = kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"]
    assert f"write a copy of the notebook to {server.root / 'copy.ipynb'}." in prompt
    kernel.client.input("yes")
    assert kernel.finish(running).ok
    assert (server.root / "copy.ipynb").exists()
    copy = open_in(server.root / "copy.ipynb")
    assert copy.ok("s = %session info\nprint(x, s['grants'])").stdout == "1 []\n"


def test_a_copied_notebook_is_not_trusted(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "a.ipynb", "one")
    kernel = open_in(notebook)
    kernel.ok("%session trust on", answers=("yes",))
    ask = "s = %session info\nprint(s['trusted'])"
    assert kernel.ok(ask).stdout == "True\n"
    (server.root / "b.ipynb").write_bytes(notebook.read_bytes())
    assert open_in(server.root / "b.ipynb").ok(ask).stdout == "False\n"
    end(kernel)
    assert open_in(notebook).ok(ask).stdout == "True\n", "the notebook itself is"


def test_a_renamed_notebook_is_followed_while_its_kernel_runs(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "before.ipynb")
    kernel = open_in(notebook)
    first = session_of(kernel)
    renamed = notebook.rename(server.root / "after.ipynb")
    server.serves(Path(kernel.manager.connection_file).stem.removeprefix("kernel-"), "after.ipynb")
    assert "after.ipynb" in kernel.ok("%session").said
    assert eventually(lambda: read_record(kernel.root / first).extra["notebook"] == str(renamed))
    end(kernel)
    assert session_of(open_in(renamed)) == first


def test_a_new_session_becomes_the_notebooks(server: Server, open_in: Any) -> None:
    notebook = write_notebook(server.root / "a.ipynb")
    kernel = open_in(notebook)
    first = session_of(kernel)
    kernel.ok("%session new")
    second = session_of(kernel)
    assert second != first
    end(kernel)
    assert session_of(open_in(notebook)) == second


def test_a_session_can_be_named(start: Callable[..., Kernel]) -> None:
    kernel = start(WASM_KERNEL_SESSION="my-analysis")
    assert session_of(kernel) == "my-analysis"
    kernel.ok("open('f', 'w').write('1')")
    other = start(WASM_KERNEL_SESSION="my-analysis")
    assert "in use" in other.run("1").said
    end(kernel)
    assert start(WASM_KERNEL_SESSION="my-analysis").run("open('f').read()").result == "'1'"


def test_a_bad_name_is_an_error_of_the_cell_not_of_the_kernel(start: Callable[..., Kernel]) -> None:
    cell = start(WASM_KERNEL_SESSION="../../etc").run("1")
    assert not cell.ok
    assert "WASM_KERNEL_SESSION" in cell.said


def test_without_a_server_a_kernel_has_a_session_of_its_own(start: Callable[..., Kernel], tmp_path: Path) -> None:
    empty = tmp_path / "no-server"
    empty.mkdir()
    notebook = str(write_notebook(tmp_path / "outer.ipynb"))
    one = start(JUPYTER_RUNTIME_DIR=str(empty), JPY_SESSION_NAME=notebook)
    two = start(JUPYTER_RUNTIME_DIR=str(empty), JPY_SESSION_NAME=notebook)
    assert session_of(one) != session_of(two)
    assert "outer" not in one.ok("%session").said
