"""Every example runs to its end, as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.run_examples import EXAMPLES, run
from wasm_kernel.kernel.identity import LANGUAGE_INFO

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebook(path: Path, tmp_path: Path) -> None:
    notebook, failed = run(path, tmp_path)
    assert notebook.metadata.kernelspec.name == "wasm"
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            assert cell.execution_count, cell.source
            if not cell.source.startswith("%pip"):  # fails only where there is no network
                assert (index in failed) == ("raises-exception" in cell.metadata.get("tags", ())), cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_saved_notebook(path: Path) -> None:
    """With its outputs, which say nothing about the machine they come from (`make examples` saves them)."""
    text = path.read_text(encoding="utf-8")
    for word in (str(Path.home()) + "/", str(EXAMPLES.parent), "/work/", "/root/", "/home/", "once on this machine"):
        assert word not in text, word
    notebook = nbformat.reads(text, as_version=4)
    assert 10 <= len(notebook.cells) <= 20
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2
    # Else Lab changes it when it is opened, and whoever only looked is asked to save it.
    assert notebook.metadata.language_info == LANGUAGE_INFO


def test_there_are_enough_and_they_are_small() -> None:
    assert len(NOTEBOOKS) >= 5
    assert sum(path.stat().st_size for path in EXAMPLES.iterdir()) < 1_500_000


def test_agent() -> None:
    command = [sys.executable, str(EXAMPLES / "agent.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "Kept: library" in done.stdout and done.stdout.count("fails") == 3


def test_program() -> None:
    command = [sys.executable, str(EXAMPLES / "untrusted.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("honest     ok")
    assert not any(line.split()[1] == "ok" for line in lines[1:] if not line.startswith("talkative"))
