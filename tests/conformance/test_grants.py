"""What reaches beyond a session: asked, kept with it, listed, taken back, and gone with every copy."""

from __future__ import annotations

import ast
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.conformance.client import Cell, Kernel
from tests.sessions.helpers import make_session
from wasm_kernel import fork_session, import_session
from wasm_kernel.host.disk.records import read_record

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]
YES = ("yes",)


def asked(kernel: Kernel, code: str, *answers: str) -> tuple[str, Cell]:
    """What the person was asked, and what came of the cell."""
    running = kernel.start(code, allow_stdin=True)
    prompt = kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"]
    for text in answers:
        kernel.client.input(text)
    return prompt, kernel.finish(running)


def info(kernel: Kernel) -> dict[str, object]:
    return ast.literal_eval(kernel.ok("s = %session info\nprint(s)").stdout)


def grants_of(root: Path, session_id: str) -> set[str]:
    return set(read_record(root / session_id).extra.get("grants") or ())


def test_a_question_names_exactly_what_will_happen(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = start()
    kernel.ok("1")
    old = [make_session(kernel.root, 50 + n, {"data": "x" * 5000}) for n in range(2)]
    prompt, cell = asked(kernel, "%prune --older-than 24h --yes", "no")
    assert re.search(r"wants to delete 2 sessions, 1\d\.\d KB:", prompt)
    for session in old:
        assert re.search(rf"{session}, [\d.]+ KB, last used 2 days ago", prompt)
    assert cell.reply["ename"] == "NotGranted"
    prompt, _ = asked(kernel, f"%session delete {old[0]} --yes", "no")
    assert "delete another session and all its files" in prompt
    assert old[0] in prompt
    prompt, _ = asked(kernel, f"%session attach {old[1]}", "no")
    assert old[1] in prompt
    prompt, _ = asked(kernel, "%session export mine.zip", "no")
    assert str(tmp_path / "mine.zip") in prompt
    prompt, _ = asked(kernel, "%session trust on", "no")
    assert "scripts in them then act in your browser as you" in prompt
    assert info(kernel)["grants"] == []


def test_only_what_was_named_is_pruned(start: Start) -> None:
    kernel = start()
    kernel.ok("1")
    named = make_session(kernel.root, 48)
    running = kernel.start("%prune --older-than 24h --yes", allow_stdin=True)
    kernel.client.get_stdin_msg(timeout=30)
    later = make_session(kernel.root, 48)
    kernel.client.input("yes")
    assert kernel.finish(running).ok
    assert not (kernel.root / named).exists()
    assert (kernel.root / later).exists()


def test_what_is_wrong_is_said_before_anybody_is_asked(start: Start) -> None:
    kernel = start()
    here = str(info(kernel)["session_id"])
    for line in (f"attach {here}", "attach nowhere", "delete nowhere --yes", "export ../x.zip", "trust", "trust maybe"):
        assert not kernel.run(f"%session {line}", allow_stdin=True).ok
    assert not kernel.client.stdin_channel.msg_ready()


def test_what_stays_within_the_session_needs_nothing(start: Start) -> None:
    kernel = start()
    here = str(info(kernel)["session_id"])
    kernel.ok("open('f', 'w').write('1')")
    for line in ("session list", "prune", "session files", "session download f", "session snapshot a", "session undo"):
        kernel.ok(f"%{line}")
    for line in (
        "session trust off",
        "session grants",
        "session revoke prune",
        "session fork",
        "session limits files=99",
    ):
        kernel.ok(f"%{line}")
    kernel.ok("%session new")
    kernel.ok(f"%session delete {info(kernel)['session_id']} --yes")
    assert (kernel.root / here).exists()
    assert info(kernel)["grants"] == []


def test_a_grant_is_asked_for_once_listed_and_kept_with_the_session(start: Start) -> None:
    kernel = start(WASM_KERNEL_SESSION="mine")
    kernel.ok("%prune --older-than 24h --yes")  # there is nothing to delete, so nobody is asked
    make_session(kernel.root, 48)
    kernel.ok("%prune --older-than 24h --yes", answers=YES)
    gone = make_session(kernel.root, 48)
    kernel.ok("%prune --older-than 24h --yes")
    assert not (kernel.root / gone).exists()
    assert info(kernel)["grants"] == ["prune"]
    assert "prune" in kernel.ok("%session").said
    assert re.search(r"prune +allowed +20\d\d-", kernel.ok("%session grants").said)
    assert "asks first" in kernel.ok("%session grants").said
    assert ".metadata" not in kernel.ok("import os; print(os.listdir())").stdout
    kernel.stop()
    again = start(WASM_KERNEL_SESSION="mine")
    make_session(again.root, 48)
    again.ok("%prune --older-than 24h --yes")
    again.ok("%session revoke prune")
    make_session(again.root, 48)
    assert "WASM_KERNEL_GRANTS=prune" in again.run("%prune --older-than 24h --yes").said


def test_trust_is_kept_and_ends(start: Start) -> None:
    kernel = start(WASM_KERNEL_SESSION="mine")
    assert info(kernel)["trusted"] is False
    assert "Run earlier cells again" in kernel.ok("%session trust on", answers=YES).said
    assert info(kernel)["trusted"] is True
    kernel.ok("x = 1\n%session trust on")
    kernel.stop()
    again = start(WASM_KERNEL_SESSION="mine")
    assert info(again)["trusted"] is True
    assert "unsealed" in again.ok("%session").said
    again.ok("%session undo")
    assert info(again)["trusted"] is True
    assert "Outputs are sealed from now on" in again.ok("%session trust off").said
    assert info(again)["trusted"] is False
    assert not again.run("%session trust on").ok, "it is asked for anew"
    again.ok("%session trust on", answers=YES)
    again.ok("%session revoke trust")
    assert info(again)["trusted"] is False


def test_copies_start_without_grants(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = start()
    kernel.ok("x = 1")
    here = str(info(kernel)["session_id"])
    kernel.ok("%session trust on", answers=YES)
    kernel.ok("%session export out.zip", answers=YES)
    kernel.ok("%session snapshot now")
    assert grants_of(kernel.root, here) == {"trust", "export"}
    imported = import_session(tmp_path / "out.zip", kernel.root)
    assert grants_of(kernel.root, imported) == set()
    forged = tmp_path / "forged.zip"
    with zipfile.ZipFile(tmp_path / "out.zip") as old, zipfile.ZipFile(forged, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("session.json"):
                data = json.dumps({**json.loads(data), "grants": {"trust": "2026-01-01T00:00:00Z"}}).encode()
            new.writestr(name, data)
    assert grants_of(kernel.root, import_session(forged, kernel.root)) == set()
    forked = re.search(r"attach ([0-9a-f-]{36})", kernel.ok("%session fork").said)
    assert forked
    assert grants_of(kernel.root, forked[1]) == set()
    kernel.ok("%session new")
    assert grants_of(kernel.root, fork_session(here, kernel.root)) == set()
    assert (info(kernel)["trusted"], info(kernel)["grants"]) == (False, [])
    kernel.ok(f"%session attach {here}", answers=YES)
    assert (info(kernel)["trusted"], info(kernel)["grants"]) == (False, []), "given to a notebook that had left it"


def test_an_interrupt_while_the_question_is_open_ends_the_cell(start: Start) -> None:
    kernel = start()
    for code in ("%session trust on", "x = 1\n%session trust on", "try:\n  %session trust on\nexcept Exception: pass"):
        running = kernel.start(code, allow_stdin=True)
        kernel.client.get_stdin_msg(timeout=30)
        kernel.manager.interrupt_kernel()
        assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"
        kernel.client.input("yes")  # too late
        assert info(kernel)["trusted"] is False
    assert kernel.run("input('? ')", answers=("works",)).result == "'works'"


def test_a_time_limit_ends_the_question(start: Start) -> None:
    kernel = start()
    kernel.ok("%session limits timeout=1")
    cell = asked(kernel, "x = 1\n%session trust on")[1]
    assert not cell.ok
    kernel.client.input("yes")
    assert info(kernel)["trusted"] is False


def test_after_an_input_of_the_notebooks_own_a_number_is_typed(start: Start) -> None:
    kernel = start()
    kernel.ok("input('Name? ')", answers=("Zoë",))
    running = kernel.start("%session trust on", allow_stdin=True)
    prompt = kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"]
    kernel.client.input(re.search(r"Type (\d{4}) to allow it \(a number, because", prompt)[1])
    assert kernel.finish(running).ok
    assert info(kernel)["trusted"] is True


def test_an_input_that_imitates_ours_is_marked(start: Start) -> None:
    kernel = start()
    prompt, _ = asked(kernel, "input('[wasm-kernel] Type your password: ')", "x")
    assert prompt == "[asked by the notebook's code, not by the kernel] [wasm-kernel] Type your password: "


def test_the_environment_grants_and_its_mistakes_are_told(start: Start) -> None:
    kernel = start(WASM_KERNEL_GRANTS="prune,trust,evrything")
    make_session(kernel.root, 48)
    assert (
        "WASM_KERNEL_GRANTS: there is no grant 'evrything'; the grants are trust, attach"
        in kernel.ok("%prune --older-than 24h --yes").said
    )
    assert info(kernel)["trusted"] is False
    kernel.ok("%session trust on")
    assert info(kernel)["trusted"] is True
    assert "by the configuration" in kernel.ok("%session grants").said
    assert "remove it from" in kernel.run("%session revoke prune").said
    assert info(kernel)["trusted"] is True
    assert not kernel.run("%session export out.zip").ok


# ---- tools that ask nobody


@pytest.fixture
def tool_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(tmp_path / "sessions"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sessions"


def notebook(*sources: str) -> nbformat.NotebookNode:
    kernelspec = {"name": "wasm", "display_name": "wasm", "language": "python"}
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(s) for s in sources], metadata={"kernelspec": kernelspec}
    )


VERBS = {
    "prune": "%prune --older-than 1h --yes",
    "delete": "%session delete VICTIM --yes",
    "attach": "x = 1\n%session attach VICTIM",
    "export": "%session export out.zip",
    "trust": "%session trust on",
    "list": "s = %session list",
}


def test_nbclient_is_refused_and_told_the_setting(tool_root: Path) -> None:
    victim = make_session(tool_root, 48)
    made = notebook(*(text.replace("VICTIM", victim) for text in VERBS.values()))
    NotebookClient(made, timeout=60, allow_errors=True).execute()
    for name, cell in zip(VERBS, made.cells, strict=True):
        said = str(cell.outputs)
        assert f'WasmKernel.grants = ["{name}"]' in said
        assert f"WASM_KERNEL_GRANTS={name}" in said
    assert (tool_root / victim).is_dir()
    assert not (tool_root.parent / "out.zip").exists()


def test_papermill_stops_there_and_goes_on_where_it_is_granted(
    tool_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = make_session(tool_root, 48)
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    nbformat.write(notebook(VERBS["prune"], "print('went on')"), source)
    with pytest.raises(papermill.PapermillExecutionError, match="WASM_KERNEL_GRANTS=prune"):
        papermill.execute_notebook(str(source), str(target), progress_bar=False)
    assert (tool_root / victim).is_dir()
    monkeypatch.setenv("WASM_KERNEL_GRANTS", "attach,prune")
    papermill.execute_notebook(str(source), str(target), progress_bar=False)
    assert not (tool_root / victim).exists()
    with pytest.raises(CellExecutionError, match="WASM_KERNEL_GRANTS=trust"):
        NotebookClient(notebook(VERBS["trust"]), timeout=60).execute()


def test_the_configuration_file_grants(tool_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "jupyter_wasm_kernel_config.py").write_text('c.WasmKernel.grants = ["export"]')
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    NotebookClient(notebook(VERBS["export"]), timeout=60).execute()
    assert (tmp_path / "out.zip").exists()
