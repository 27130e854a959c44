"""Tools that start kernels by themselves: nbclient, nbconvert, papermill, jupyter run, jupyter console."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pexpect
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

pytestmark = pytest.mark.filterwarnings("ignore")
KERNEL = {"kernelspec": {"name": "wasm", "display_name": "wasm", "language": "python"}}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(tmp_path / "sessions"))
    return tmp_path / "sessions"


def notebook(*sources: str, parameters: str = "") -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell(s) for s in sources]
    if parameters:
        cells.insert(0, nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    return nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)


def test_nbclient_keeps_outputs_and_widgets() -> None:
    made = notebook(
        "print('hi')",
        "import ipywidgets; ipywidgets.IntSlider(5)",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    )
    NotebookClient(made, timeout=60).execute()
    assert made.cells[0].outputs[0].text == "hi\n"
    view = made.cells[1].outputs[0].data["application/vnd.jupyter.widget-view+json"]
    state = made.metadata.widgets["application/vnd.jupyter.widget-state+json"].state
    assert state[view["model_id"]].state["value"] == 5
    assert "image/png" in made.cells[2].outputs[0].data
    assert [c.execution_count for c in made.cells] == [1, 2, 3]


def test_nbclient_captures_output_widgets() -> None:
    made = notebook("import ipywidgets as w\nout = w.Output()\nout", "with out: print('inside')")
    NotebookClient(made, timeout=60).execute()
    (inside,) = [
        model.state.outputs
        for model in made.metadata.widgets["application/vnd.jupyter.widget-state+json"].state.values()
        if model.model_name == "OutputModel"
    ]
    assert inside[0]["text"] == "inside\n"
    assert not made.cells[1].outputs


def test_nbclient_stops_at_an_error_and_at_its_time_limit() -> None:
    made = notebook("x = 1\n1/0", "x = 2")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(made, timeout=60).execute()
    assert made.cells[1].execution_count is None
    with pytest.raises(CellTimeoutError):
        NotebookClient(notebook("while True: pass"), timeout=1).execute()
    made = notebook("while True: pass", "'goes on'")
    NotebookClient(made, timeout=1, interrupt_on_timeout=True, allow_errors=True).execute()
    assert made.cells[0].outputs[0].ename == "KeyboardInterrupt"
    assert made.cells[1].outputs[0].data["text/plain"] == "'goes on'"


def test_papermill_injects_parameters(tmp_path: Path) -> None:
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    nbformat.write(
        notebook("print(sum(values) * factor, name)", parameters="values, factor, name = [0], 1, ''"), source
    )
    papermill.execute_notebook(
        str(source), str(target), {"values": [1, 2, 3], "factor": 0.5, "name": "Zoë"}, progress_bar=False
    )
    done = nbformat.read(target, as_version=4)
    assert done.cells[1].metadata.tags == ["injected-parameters"]
    assert done.cells[-1].outputs[0].text == "3.0 Zoë\n"
    assert not done.metadata.papermill.exception


def test_papermill_reports_a_failing_cell(tmp_path: Path) -> None:
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    nbformat.write(notebook("1/0", "print('not run')"), source)
    with pytest.raises(papermill.PapermillExecutionError, match="ZeroDivisionError"):
        papermill.execute_notebook(str(source), str(target), progress_bar=False)
    assert not nbformat.read(target, as_version=4).cells[-1].outputs


def test_a_kernel_of_a_tool_leaves_nothing_when_it_made_no_files(root: Path) -> None:
    NotebookClient(notebook("1"), timeout=60).execute()
    assert [p.name for p in root.iterdir()] == [".wasm-kernel"]


def test_jupyter_run_pipes_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    command = [sys.executable, "-m", "jupyter_client.runapp", "--kernel=wasm", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert "err\n" in done.stderr


def test_nbconvert_executes(tmp_path: Path) -> None:
    nbformat.write(notebook("6 * 7"), tmp_path / "in.ipynb")
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "markdown",
        "--execute",
        "--stdout",
        str(tmp_path / "in.ipynb"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "    42" in done.stdout, done.stderr


def test_jupyter_console(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "jupyter_console",
        "--kernel=wasm",
        "--simple-prompt",
        "--ZMQTerminalInteractiveShell.kernel_timeout=60",
    ]
    environ = {**os.environ, "TERM": "dumb", "JUPYTER_CONFIG_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    console = pexpect.spawn(command[0], command[1:], env=environ, encoding="utf-8", timeout=30, echo=False)
    try:
        console.expect(r"In \[1\]: ")
        console.sendline("print(6 * 7)")
        console.expect("42")
        console.expect(r"In \[2\]: ")
        console.sendline("name = input('who? ')")
        console.expect(r"who\? ")
        console.sendline("Ann")
        console.expect(r"In \[3\]: ")
        console.sendline("name[::-1]")
        console.expect(r"Out\[3\]: 'nnA'")
        console.expect(r"In \[4\]: ")
        console.sendline("1/0")
        console.expect("ZeroDivisionError")
        console.expect(r"In \[5\]: ")
        console.sendline("exit")
        console.expect(pexpect.EOF)
    finally:
        console.close()
    assert console.exitstatus == 0
