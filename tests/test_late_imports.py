"""Imports inside functions: only where start-up needs it, and only those of this list. Milliseconds, no guest.

A kernel starts in the time its imports take, a command too, and a server should not load what it may never need. Anything
else is imported at the top, where readers look for it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "wasm_kernel"

_START = "a kernel's start, and its first cell"
_MAGIC = "the first magic or completion; most sessions need few of these"
_WIDGETS = "only the file browser needs it"
_COMMAND = "`wasm-kernel --help` and completion in the shell"
_BUILD = "only when the image is built"
_SERVER = "the start of a Jupyter server, which may never be asked"
_CONFINED = "before a worker gives up its rights, so that nothing is read from a user's home"

# module: why, and what it imports late
LATE: dict[str, tuple[str, set[str]]] = {
    "__init__": (_START, {"importlib"}),
    "apps.cli": (
        _COMMAND,
        {
            "wasm_kernel.apps",
            "wasm_kernel.guest",
            "wasm_kernel.host",
            "wasm_kernel.host.runtime.sandbox",
            "wasm_kernel.model",
            "wasm_kernel.model.policy",
            "wasm_kernel.sessions.sandboxes",
        },
    ),
    "apps.cli_config": (_COMMAND, {"wasm_kernel.kernel.kernel"}),
    "apps.cli_output": (_COMMAND, {"rich", "rich.console", "rich.progress", "rich.table", "rich.text"}),
    "apps.cli_parser": (
        _COMMAND,
        {
            "wasm_kernel.apps.configuration",
            "wasm_kernel.host.store",
            "wasm_kernel.model.names",
            "wasm_kernel.sessions.inventory",
            "wasm_kernel.sessions.log",
        },
    ),
    "apps.completion": (_COMMAND, {"wasm_kernel.host.disk.records"}),
    "apps.configuration": (_COMMAND, {"wasm_kernel.apps.kernel_app", "wasm_kernel.host.remote.objects"}),
    "apps.doctor": (_COMMAND, {"jupyter_client.kernelspec", "jupyter_server.extension.config"}),
    "apps.remote_commands": (
        _COMMAND,
        {
            "wasm_kernel.sessions.remote.arriving",
            "wasm_kernel.sessions.remote.deleting",
            "wasm_kernel.sessions.remote.lease",
            "wasm_kernel.sessions.remote.pulling",
            "wasm_kernel.sessions.remote.pushing",
            "wasm_kernel.sessions.remote.stored",
            "wasm_kernel.sessions.snapshots",
        },
    ),
    "apps.worker_command": (_COMMAND, {"distributed.cli.dask_worker", "wasm_kernel.host.image"}),
    "host.cluster.connection": ("an extra, which few have", {"distributed", "wasm_kernel.host.cluster"}),
    "host.cluster.tasks": ("an extra, which few have", {"distributed"}),
    "kernel.magics.cluster_access": (_MAGIC, {"wasm_kernel.host.cluster.session_cluster"}),
    "host.remote.objects": ("an extra, which few have", {"fsspec.core"}),
    "apps.mcp_command": (_COMMAND, {"wasm_kernel.mcp.agent_sessions", "wasm_kernel.mcp.serving"}),
    "apps.kernel_app": (
        "sockets are bound, and the session is being opened, before the rest is imported",
        {
            "wasm_kernel.kernel.counting_session",
            "wasm_kernel.kernel.kernel",
            "wasm_kernel.kernel.notebook_session",
            "wasm_kernel.sessions.log",
        },
    ),
    "apps.kernel_host.__main__": (
        "a host that is not needed ends before it has imported anything",
        {"wasm_kernel.apps.kernel_host.host_process", "wasm_kernel.apps.kernel_host.preload"},
    ),
    "apps.kernel_host.launcher": (
        "with a host, the launcher needs none of it, and has milliseconds",
        {"wasm_kernel.apps", "wasm_kernel.apps.kernel_host.starting"},
    ),
    "apps.kernelspec": (_COMMAND, {"jupyter_client.kernelspec"}),
    "host.disk.packages": ("only sessions with packages of their own", {"filecmp", "importlib.metadata", "shutil"}),
    "host.disk.removal": (_START, {"psutil"}),
    "host.image.cache": (_START, {"filelock", "platformdirs"}),
    "host.image.image": (_START, {"platform"}),
    "host.network.proxies": (_START, {"urllib.request"}),
    "host.network.resolving": (_START, {"psutil"}),
    "host.runtime.engine": (_BUILD, {"importlib"}),
    "host.workspace_root": (_START, {"platformdirs"}),
    "hub.workspaces.confined_worker": (_CONFINED, {"wasm_kernel.hub.workspaces.jobs"}),
    "kernel.cells": (_START, {"IPython.core.inputtransformer2"}),
    "kernel.comm_messages": (_WIDGETS, {"wasm_kernel.kernel.host_comms"}),
    "kernel.current_session": (_START, {"wasm_kernel.kernel.image_progress", "wasm_kernel.sessions.timeline"}),
    "kernel.files.changes": (_WIDGETS, {"wasm_kernel.sessions.recovery"}),
    "kernel.files.contents": (
        "a preview's process has little memory, and shows one kind of file",
        {
            "pygments",
            "pygments.formatters.html",
            "pygments.lexers",
            "pygments.util",
            "resource",
            "sqlite3",
            "wasm_kernel.kernel.files.array_preview",
            "wasm_kernel.kernel.files.workbook_preview",
        },
    ),
    "kernel.files.transfer": (_MAGIC, {"wasm_kernel.sessions.zip_stream"}),
    "kernel.host_comms": (_WIDGETS, {"ipywidgets.widgets.widget"}),
    "kernel.host_remarks": (_START, {"wasm_kernel.kernel", "wasm_kernel.kernel.magics.answers"}),
    "kernel.kept_browsers": (_START, {"wasm_kernel.kernel.files.browser"}),
    "kernel.kernel": (_START, {"wasm_kernel.kernel.magics.magics", "wasm_kernel.kernel.side_panel.panel_comm"}),
    "kernel.magics.history": (_MAGIC, {"wasm_kernel.sessions.snapshots"}),
    "kernel.magics.pip": (_MAGIC, {"wasm_kernel.sessions.packages"}),
    "kernel.magics.prune": (_MAGIC, {"wasm_kernel.sessions.housekeeping"}),
    "kernel.magics.session": (
        _MAGIC,
        {
            "wasm_kernel.kernel.files",
            "wasm_kernel.kernel.files.transfer",
            "wasm_kernel.sessions.archive",
            "wasm_kernel.sessions.deletion",
            "wasm_kernel.sessions.files",
            "wasm_kernel.sessions.session_list",
        },
    ),
    "kernel.notebook_session": (
        "only a session of an older image needs it, or one in an object store",
        {"wasm_kernel.kernel.remote_sessions", "wasm_kernel.sessions.snapshots"},
    ),
    "kernel.notebook": (_START, {"http.client", "jupyter_core.paths", "urllib.parse", "urllib.request"}),
    "kernel.outputs": (_START, {"wasm_kernel.kernel.seal.sealed_messages"}),
    "kernel.side_panel.panel_comm": (_MAGIC, {"wasm_kernel.sessions.snapshots"}),
    "kernel.seal.bundles": ("only Markdown needs it", {"markdown_it"}),
    "kernel.seal.stylesheets": ("only outputs with styles need it", {"tinycss2"}),
    "model.administrator": ("only where there are rules", {"tomllib"}),
    "server.api.api_service": (
        _SERVER,
        {
            "wasm_kernel.server.api.pool",
            "wasm_kernel.server.api.sandboxes",
            "wasm_kernel.server.api.views",
            "wasm_kernel.server.api.workspace_verbs",
        },
    ),
    "sessions.build_progress": (_BUILD, {"rich.console", "rich.progress"}),
    "sessions.log": (_START, {"structlog"}),
    "sessions.opening": (
        _START,
        {
            "wasm_kernel.sessions.cell_recovery",
            "wasm_kernel.sessions.snapshots",
            "wasm_kernel.sessions.unfinished_move",
        },
    ),
    "sessions.runtime": (_START, {"wasm_kernel.sessions.checkpoints", "wasm_kernel.sessions.recorder"}),
    "sessions.sandboxes": (_BUILD, {"wasm_kernel.host.image", "wasm_kernel.sessions"}),
    "sessions.session": (_START, {"wasm_kernel.sessions.recorder"}),
    "sessions.snapshot_quota": (_START, {"wasm_kernel.sessions.snapshots"}),
}


def _late(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found: set[str] = set()
    for function in ast.walk(ast.parse(path.read_text())):
        for node in ast.walk(function) if isinstance(function, functions) else ():
            if isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
            elif isinstance(node, ast.Import):
                found.update(name.name for name in node.names)
    return found


def _modules() -> dict[str, Path]:
    guest = PACKAGE / "guest"  # which has no start-up of its own: its memory is saved with everything imported
    found = (p for p in PACKAGE.rglob("*.py") if guest not in p.parents)
    return {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in found}


@pytest.mark.parametrize("module", sorted(_modules()))
def test_late_imports_are_those_of_the_list(module: str) -> None:
    found = _late(_modules()[module])
    assert found == LATE.get(module, ("", set()))[1], "import it at the top, or add it to the list with its reason"


def test_the_list_names_modules_that_exist() -> None:
    assert LATE.keys() <= _modules().keys()
