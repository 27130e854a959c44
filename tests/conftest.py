"""Fixtures shared by the whole suite. The image must be built (`make image`); building it here would hide the wait."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _pytest.pathlib
import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests import ports, processes
from wasm_kernel import BaseSandbox, ExecutionPolicy, create_sandbox
from wasm_kernel.host.files import delete_tree

processes.listen_to_interrupts()
processes.adopt_orphans()
ports.let_kernels_have_them()
os.environ["WASM_KERNEL_HOST"] = "0"  # a host would outlive the test that started it; tests of hosts have their own
# Attacks make trees deeper than pytest can delete. It deletes those of runs before this one, which may have been killed.
_pytest.pathlib.rm_rf = delete_tree.remove
settings.register_profile("busy", deadline=None)  # an example takes as long as the machine needs
settings.load_profile("busy")


_SHARING = ("tests/browser/", "tests/hub/")  # folders whose files share a server and a browser


class _ByFileOrFolder(LoadFileScheduling):
    """Files go to workers as a whole; so do folders whose fixtures take long to start."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in _SHARING if nodeid.startswith(folder)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Who gets which tests under ``--dist loadfile``."""
    return _ByFileOrFolder(config, log) if config.getvalue("dist") == "loadfile" else None


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
