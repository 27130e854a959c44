"""Kernels from the host as nbclient, papermill and JupyterLab get them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from tests.apps.kernel_host.clients import ServerKernel, note_parents, parents
from tests.apps.kernel_host.conftest import Place
from tests.apps.kernel_host.test_provisioner import ended
from tests.browser.lab import running_lab
from tests.conformance.client import eventually
from tests.conformance.test_tools import notebook

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def born(host: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels that this process starts come from the host, and write down whose children they are; where."""
    for name, value in host.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WASM_KERNEL_HOST")
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "settings"))
    return note_parents(tmp_path / "settings")


def test_nbclient(born: Path, host: Place) -> None:
    made = notebook("x = 6", "print(x * 7)")
    NotebookClient(made, timeout=60).execute()
    assert made.cells[1].outputs[0].text == "42\n"
    ((_, parent),) = parents(born)
    assert parent == host.pid


def test_nbclient_notices_a_kernel_that_dies(born: Path) -> None:
    client = NotebookClient(notebook("import time; time.sleep(60)"), timeout=120)

    def kill(**_: object) -> None:
        os.kill(parents(born)[-1][0], signal.SIGKILL)

    client.on_cell_execute = kill
    with pytest.raises(DeadKernelError):
        client.execute()


def test_papermill(born: Path, host: Place, tmp_path: Path) -> None:
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    nbformat.write(notebook("print(n + 1)", parameters="n = 1"), source)
    papermill.execute_notebook(source, target, {"n": 41}, progress_bar=False)
    assert "42\n" in target.read_text().replace("\\n", "\n")
    ((_, parent),) = parents(born)
    assert parent == host.pid


def test_jupyterlab(born: Path, host: Place, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    born = note_parents(folder / "config2")
    with running_lab(folder, tmp_path / "lab.log") as lab:
        (folder / "config2" / "jupyter_wasm_kernel_config.py").rename(
            folder / "config" / "jupyter_wasm_kernel_config.py"
        )
        first, second = (ServerKernel(lab, folder / "runtime", f"{name}.ipynb") for name in "ab")
        assert second.run("x = 1")["status"] == "ok"
        interrupted = first.run("print('go')\nwhile True: pass", lambda: first.act("interrupt"))
        assert interrupted["ename"] == "KeyboardInterrupt"
        first.act("restart")
        assert first.run("1")["status"] == "ok"
        os.kill(parents(born)[-1][0], signal.SIGKILL)  # the server restarts it
        assert eventually(lambda: len(parents(born)) == 4)
        assert first.run("1")["status"] == "ok"
        assert second.run("assert x == 1")["status"] == "ok"
        assert {parent for _, parent in parents(born)} == {host.pid}
        first.end()
        assert eventually(lambda: ended(parents(born)[-1][0]))
    assert eventually(lambda: all(ended(pid) for pid, _ in parents(born)))
