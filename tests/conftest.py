"""Fixtures shared by the whole suite. The image must be built (`make image`); building it here would hide the wait."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _pytest.pathlib
import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests import ports, processes
from wasm_kernel import BaseSandbox, ExecutionPolicy, create_sandbox
from wasm_kernel.host.files import delete_tree

processes.listen_to_interrupts()
processes.adopt_orphans()
ports.let_kernels_have_them()
os.environ["WASM_KERNEL_HOST"] = "0"  # a host would outlive the test that started it; tests of hosts have their own
# Thousands of processes import the same modules, which need not be compiled in each, as images of containers ask for.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Attacks make trees deeper than pytest can delete. It deletes those of runs before this one, which may have been killed.
_pytest.pathlib.rm_rf = delete_tree.remove
settings.register_profile("busy", deadline=None)  # an example takes as long as the machine needs
settings.load_profile("busy")


# Files that share a server and a browser go to one worker, together.
SHARING = {
    "JupyterLab": ("tests/browser/",),
    "JupyterHub": tuple(
        f"tests/hub/{name}.py" for name in ("page/test_page", "test_kernel_host", "test_real_hub", "test_users")
    ),
}
# What takes longest begins first, in this order: at the end, everybody would wait for it.
LONGEST = (
    "tests/attacks/test_reach_the_browser.py",
    *SHARING,
    "tests/sessions/test_packages.py",
    "tests/conformance/test_remote_sessions.py",
    "tests/attacks/test_reach_the_page_again.py",
    "tests/apps/kernel_host/test_provisioner.py",
    "tests/sessions/test_crash_safety.py",
    "tests/sessions/snapshots/test_crashes.py",
    "tests/test_descriptors.py",
    "tests/test_examples.py",
    "tests/conformance/test_older_image.py",
    "tests/server/api/test_space.py",
)


def _unit(nodeid: str) -> str:
    """What goes to one worker as a whole: a file, or files that share."""
    file = nodeid.partition("::")[0]
    return next((name for name, places in SHARING.items() if file.startswith(places)), file)


class _LongestFirst(LoadFileScheduling):
    """After the longest, what has most tests."""

    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = next((unit for unit in LONGEST if unit in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Who gets which tests under ``--dist loadfile``."""
    return _LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With ``--durations``: what kept a worker longest, and when it was over. What ends last should begin earlier."""
    units: dict[str, list[pytest.TestReport]] = {}
    for report in itertools.chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            units.setdefault(_unit(report.nodeid), []).append(report)
    took = sorted(((sum(r.duration for r in reports), unit) for unit, reports in units.items()), reverse=True)
    shown = took[: config.getoption("durations") or 0]
    if shown:
        began = min(r.start for reports in units.values() for r in reports)
        terminalreporter.section(f"slowest {len(shown)} files")
    for seconds, unit in shown:
        over = max(r.stop for r in units[unit]) - began
        terminalreporter.write_line(f"{seconds:7.2f}s, over after {over:7.2f}s: {unit}")


@pytest.fixture(scope="session", autouse=True)
def _no_process_left_by_the_run() -> Iterator[None]:
    """What fixtures of modules, folders and the run itself start they end."""
    with processes.none_left():
        yield


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    """What a test starts it ends. Fixtures of a wider scope are there before."""
    with processes.none_left():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_files_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a run wrote goes with it; pytest would keep it for three more runs."""
    yield
    with contextlib.suppress(Exception):
        delete_tree.empty(tmp_path_factory.getbasetemp())


@pytest.fixture
def make_sandbox(tmp_path: Path) -> Iterator[Callable[..., BaseSandbox]]:
    """Create sandboxes over folders of their own; all are closed at the end."""
    made: list[BaseSandbox] = []

    def make(**limits: Any) -> BaseSandbox:
        folder = limits.pop("workspace", tmp_path / f"workspace{len(made)}")
        sandbox = create_sandbox(policy=ExecutionPolicy(**limits), workspace=folder)
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        sandbox.close()


@pytest.fixture
def sandbox(make_sandbox: Callable[..., BaseSandbox]) -> BaseSandbox:
    """A sandbox with the default policy."""
    return make_sandbox()


@pytest.fixture(scope="module")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSandbox]:
    """One sandbox for a module's tests that do not mind each other."""
    with create_sandbox(workspace=tmp_path_factory.mktemp("shared")) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures and servers' logs go: $WASM_KERNEL_SHOTS, for people who want to look at them."""
    given = os.environ.get("WASM_KERNEL_SHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
