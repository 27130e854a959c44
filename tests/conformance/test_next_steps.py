"""Errors that would not have happened natively name the next step: one line below what is usually said."""

from __future__ import annotations

import pytest

from tests.conformance.client import Kernel
from wasm_kernel import BaseSandbox

pytestmark = pytest.mark.filterwarnings("ignore")
ONE_PROCESS = "ProcessPoolExecutor, multiprocessing.Pool and joblib have workers, ThreadPoolExecutor runs in line"
PARQUET = "pyarrow is compiled code, which cannot run in the sandbox; in the sandbox pandas reads and writes CSV, JSON"
JPEG = "The sandbox's Pillow has no JPEG; convert pictures to PNG before you bring them in."


@pytest.mark.parametrize(
    ("code", "error", "step"),
    [
        ("import torch", "ModuleNotFoundError: No module named 'torch'", "torch is compiled code, which cannot run"),
        ("import polars as pl", "ModuleNotFoundError: No module named 'polars'", "pandas is there."),
        ("import cv2", "ModuleNotFoundError: No module named 'cv2'", "pillow and scipy.ndimage are there."),
        (
            "import requests",
            "No module named 'requests'",
            "`%pip install requests` installs it, but it connects only to hosts",
        ),
        (
            "import plotly.express",
            "No module named 'plotly'",
            "`%pip install plotly` installs it.",
        ),
        ("import docx", "'docx'", "`%pip install python-docx` installs it."),
        (
            "import helpers.io",
            "'helpers'",
            "`%session add helpers.py` copies a file of yours from beside the notebook.",
        ),
        ("import fcntl", "ModuleNotFoundError", "There is no operating system around the sandbox."),
        ("import pandas as pd; pd.read_parquet('x.parquet')", "ImportError: Unable to find", PARQUET),
        ("pd.DataFrame({'a': [1]}).to_parquet('x')", "fastparquet", PARQUET),
        ("pd.DataFrame({'a': [1]}).to_hdf('x', key='a')", "ImportError: `Import pytables` failed", "numpy.savez"),
        ("import numpy as np; np.ones(10**9)", "ValueError: array is too big", "`%session limits memory=4G` raises it"),
        ("bytes(5 << 30)", "OverflowError", "One object has at most 2 GiB here"),
        ("'a' * (3 << 30)", "OverflowError", "One object has at most 2 GiB here"),
        (
            "[np.ones(10**8) for _ in range(9)]",
            "MemoryError: Unable to allocate",
            "The memory limit is 2 GiB; `%session",
        ),
        (
            "import multiprocessing as mp; mp.Process(target=print).start()",
            "AttributeError: module 'os' has no attribute 'WNOHANG'",
            ONE_PROCESS,
        ),
        ("import os; os.pipe()", "AttributeError: module 'os' has no attribute 'pipe'", ONE_PROCESS),
        ("os.kill(1, 9)", "OSError: [Errno 58] no processes", ONE_PROCESS),
        ("mp.Queue()", "_multiprocessing", ONE_PROCESS),
        ("mp.Lock()", "_multiprocessing", ONE_PROCESS),
        ("import subprocess; subprocess.run(['ls'])", "OSError: [Errno 58]", ONE_PROCESS),
        ("from PIL import Image; Image.new('L', (1, 1)).save('a.jpg')", "OSError: encoder jpeg not available", JPEG),
        ("from sklearn.datasets import load_sample_image as l; l('china.jpg')", "decoder jpeg not available", JPEG),
        (
            "pd.read_csv('https://example.com/x.csv')",
            "no permission to connect to example.com:443",
            "%session allow example.com",
        ),
    ],
)
def test_the_next_step_is_the_last_line(kernel: Kernel, code: str, error: str, step: str) -> None:
    shown = kernel.run(code).traceback
    assert error in shown
    last = shown.splitlines()[-1]
    assert step in last, shown
    assert len(last) < 200


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("!pip install cowsay", "write `%pip install cowsay`: it installs pure-Python packages"),
        ("!python -m pip install cowsay", "write `%pip install cowsay`"),
        ("!ls -l data", "write `%ls -l data`"),
        ("x = !cat a.txt", "write `%cat a.txt`"),
        (
            "!wget https://example.com/a.csv",
            "write urllib.request.urlretrieve(URL, FILE) after `%session allow HOST`, or upload it: `%session files`",
        ),
        ("!python train.py {x}", "write `%run train.py"),
        ("%%bash\npip install cowsay", "write `%pip install cowsay`"),
        ("%conda install cowsay", "write `%pip install NAME`"),
    ],
)
def test_a_shell_command_names_its_magic(kernel: Kernel, command: str, step: str) -> None:
    said = kernel.run(command).stderr.strip()
    assert said.startswith("UsageError: no processes in the WebAssembly sandbox")
    assert step in said
    assert "\n" not in said


def test_the_disk_limit_is_named(kernel: Kernel) -> None:
    kernel.ok("%session limits disk=2M")
    shown = kernel.run("open('large', 'wb').write(bytes(4 << 20))").traceback
    kernel.ok("%session limits disk=1G")
    assert "OSError: [Errno 51] No space left on device" in shown
    assert shown.splitlines()[-1].startswith(
        "`%session limits` shows the limits on disk and files, `%session limits disk=5G` raises"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import numpy.nothing",
        "{}['a']",
        "int('x')",
        "open('not there')",
        "raise ValueError('too big')",
        "object().pipe",
        "import torch_\n",
        "raise ImportError('mine')",
    ],
)
def test_other_errors_say_what_they_always_say(kernel: Kernel, code: str) -> None:
    last = kernel.run(code).traceback.splitlines()[-1]
    assert "sandbox" not in last
    assert "%session limits" not in last


def test_an_error_shown_twice_has_one_step_and_keeps_its_own_text(kernel: Kernel) -> None:
    cell = kernel.run(
        "try:\n    import torch\nexcept ImportError as e:\n    error = e\nassert not hasattr(error, '__notes__')\nraise error"
    )
    assert cell.reply["evalue"] == "No module named 'torch'"
    assert kernel.run("raise error").traceback.count("compiled code") == 1


def test_no_magic_is_named_where_there_is_none(shared_sandbox: BaseSandbox) -> None:
    error = shared_sandbox.execute("import requests").error
    assert error is not None
    assert "%pip" not in "".join(error.traceback)
    error = shared_sandbox.execute("import torch").error
    assert error is not None
    assert "scikit-learn is there" in error.traceback[-1]
    assert "%pip" not in shared_sandbox.execute("!pip install x").stderr


def test_session_help_lists_what_its_question_mark_does(kernel: Kernel) -> None:
    shown = kernel.ok("%session help").data["text/plain"]
    assert "%session undo [N]" in shown
    assert "undo the last cell, or the last N: variables and files" in shown
    assert "must be the cell's last line" in shown
    assert "did you mean undo?" in kernel.run("%session undoo").said
