"""ipykernel's own tests of a kernel, run against ours: ``python -m tests.ipykernel_suite [-v] [TEST ...]``.

The tests come from the source distribution of the ipykernel that is installed, fetched once into the cache. They start
the kernel that Jupyter calls "python3"; here that name leads to our kernel. `EXCLUDED` lists what cannot pass and why.
It fails when something else does not pass, and when something on the list does. Outputs are unsealed: what sealing
changes is tested elsewhere.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.conformance.client import unsealed
from tests.ipython_suite import pip
from wasm_kernel.apps.kernelspec import spec
from wasm_kernel.host.image.cache import Entry, build_lock
from wasm_kernel.sessions.sandboxes import ready_image

FILES = ("test_message_spec.py", "test_async.py", "test_kernel.py")

_PROCESSES = "starts a process, which the sandbox cannot"
_THREADS = "starts a thread, which the sandbox cannot"

EXCLUDED = {
    "test_message_spec.py::test_kernel_info_request": "wants subshells, which are threads",
    "test_message_spec.py::test_subshell": _THREADS,
    **dict.fromkeys(
        [
            f"test_kernel.py::test_print_to_correct_cell_from_thread[{kind}]"
            for kind in ("global", "thread-local", "none")
        ],
        _THREADS,
    ),
    "test_kernel.py::test_print_to_correct_cell_from_child_thread": _THREADS,
    "test_kernel.py::test_sequential_control_messages": "runs cells on the thread of the control channel; ours answers that cells go to shell",
    "test_kernel.py::test_subprocess_print": _PROCESSES,
    "test_kernel.py::test_subprocess_noprint": _PROCESSES,
    "test_kernel.py::test_subprocess_error": _PROCESSES,
    "test_kernel.py::test_save_history": "has the kernel write to a folder of the host, which the sandbox does not see",
}

# These pass or fail by the moment at which messages arrive.
EITHER_WAY = {
    "test_message_spec.py::test_non_execute_stop_on_error": "expects replies in the order of requests; ours answers "
    "kernel_info, comm_info and inspect while a cell runs",
}

_CONFTEST = """\
import pytest
from .test_message_spec import KernelInfoReply
from .utils import new_kernel

KernelInfoReply.implementation_version.min = "0"  # ours counts from there


@pytest.fixture
def kc():
    with new_kernel() as kc:
        yield kc
"""


def tests_folder() -> Path:
    """The folder with ipykernel's tests, fetched if it is not in the cache."""
    version = importlib.metadata.version("ipykernel")
    entry = Entry("ipykernel-suite", version)
    with build_lock(lambda state: None):
        if entry.manifest() is None:
            entry.build(lambda folder: _fetch(folder, version))
    return entry.path


def _fetch(folder: Path, version: str) -> dict[str, Any]:
    print(f"fetching the tests of ipykernel {version} ...", flush=True)
    with tempfile.TemporaryDirectory() as place:
        pip("download", "--no-deps", "--no-binary", "ipykernel", "-d", place, f"ipykernel=={version}")
        (archive,) = Path(place).glob("ipykernel-*.tar.gz")
        with tarfile.open(archive) as source:
            source.extractall(place, filter="data")
        shutil.move(Path(place) / archive.name.removesuffix(".tar.gz") / "tests", folder / "tests")
    return {}


def run(source: Path, chosen: list[str]) -> dict[str, tuple[str, str]]:
    """Run the tests; each one's outcome and what it said, by ``FILE::NAME``."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        shutil.copytree(source / "tests", work / "tests")
        (work / "tests" / "conftest.py").write_text(_CONFTEST)  # theirs is for tests of ipykernel's insides
        (work / "pytest.ini").write_text("[pytest]\n")
        kernel = work / "jupyter" / "kernels" / "python3"
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps(spec(sys.executable)))
        (work / "ipython" / "profile_default").mkdir(parents=True)  # a test names it
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER"))}
        environ |= {
            "JUPYTER_PATH": str(work / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(unsealed(work / "config")),
            "IPYTHONDIR": str(work / "ipython"),
            "WASM_KERNEL_WORKSPACE": str(work / "sessions"),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider"]
        # Apart: their tests share a kernel, and one that fails leaves messages behind for the next.
        excluded = [f"tests/{name}" for name in (*EXCLUDED, *EITHER_WAY)]
        others = [f"tests/{name}" for name in chosen or FILES]
        found = {}
        for what in ([*others, *[f"--deselect={name}" for name in excluded]], excluded if not chosen else []):
            if what:
                subprocess.run([*command, f"--junitxml={work / 'report.xml'}", *what], cwd=work, env=environ)
                found |= _outcomes(work / "report.xml")
        return found


def _outcomes(report: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        outcome, said = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                outcome, said = child.tag, child.get("message", "")
        found[name] = (outcome, said)
    return found


def verdict(outcomes: dict[str, tuple[str, str]], excluded: dict[str, str]) -> list[str]:
    """What is not as it should be, one line each."""
    wrong = []
    for name, (outcome, said) in outcomes.items():
        if outcome in ("failure", "error") and name not in excluded and name not in EITHER_WAY:
            wrong.append(f"{name} fails: {said.partition(chr(10))[0][:200]}")
        if outcome == "passed" and name in excluded:
            wrong.append(f"{name} passes: take it off the list ({excluded[name]})")
    return wrong


def main() -> int:
    """Run the tests, say what is wrong, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.ipykernel_suite", description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", metavar="TEST", help="only these: FILE or FILE::NAME")
    options = parser.parse_args()
    ready_image()
    outcomes = run(tests_folder(), options.tests)
    wrong = verdict(outcomes, EXCLUDED)
    if not options.tests:
        wrong += [f"{name} is on the list, but there is no such test" for name in EXCLUDED if name not in outcomes]
    for line in wrong:
        print(line)
    counts = [sum(outcome == kind for outcome, _ in outcomes.values()) for kind in ("passed", "skipped")]
    print(
        f"{counts[0]} passed, {counts[1]} skipped, {sum(n in EXCLUDED for n in outcomes)} excluded, {len(wrong)} wrong"
    )
    return 1 if wrong or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
