"""A FIFO in the workspace, put there by the user's other programs: whoever opens it waits for its other end, in the host,
where neither interrupt nor time limit reaches. A device is worse. Neither is opened, whoever asks.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import guards
from tests.sessions.helpers import make_session
from wasm_kernel import (
    BaseSandbox,
    PathRefused,
    RetentionPolicy,
    create_snapshot,
    delete_session_workspace,
    export_session,
    fork_session,
    get_session_sandbox,
    list_session_files,
    list_sessions,
    open_session_file,
    prune_sessions,
    restore_snapshot,
    write_session_file,
)
from wasm_kernel.host.runtime import interposer

PATIENCE = 20.0  # seconds; the other end of a FIFO never comes
WAYS = {
    "read": "open('{path}')",
    "write": "open('{path}', 'w')",
    "append": "open('{path}', 'a')",
    "create": "import os; os.open('{path}', os.O_CREAT | os.O_RDWR)",
    "without waiting": "import os; os.open('{path}', os.O_RDONLY | os.O_NONBLOCK)",
    "from a folder": "import os; os.open('{path}', os.O_RDONLY, dir_fd=os.open('/app', os.O_RDONLY))",
    "for the path's sake": "from pathlib import Path; Path('{path}').read_text()",
    "to execute": "exec(open('{path}').read())",
    "to import": "import sys; sys.path.insert(0, '.'); import module",
    "a number used before": "import os; os.close(3); os.open('folder', os.O_RDONLY); os.open('pipe', os.O_RDONLY, dir_fd=3)",
}


def furnish(folder: Path) -> list[str]:
    """Put what is neither a file nor a folder into a workspace; its names."""
    (folder / "folder").mkdir()
    for name in ("pipe", "module.py", "folder/pipe"):
        os.mkfifo(folder / name)
    (folder / "link").symlink_to("pipe")
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as server:  # its address must be short
        server.bind("socket")
    names = ["pipe", "folder/pipe", "link", "socket"]
    with contextlib.suppress(PermissionError):  # only root may
        os.mknod(folder / "zero", 0o020666, os.makedev(1, 5))
        names.append("zero")
    return names


def soon(work: Callable[[], Any]) -> Any:
    """What it comes to, if it comes to anything."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except Exception as e:  # noqa: BLE001 - judged by the caller
            result.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert result, "it waits"
    return result[0]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def victim(make_sandbox: Any, place: Path) -> BaseSandbox:
    sandbox: BaseSandbox = make_sandbox(workspace=place, timeout_seconds=5)
    sandbox.execute("")  # it has started
    return sandbox


@pytest.mark.parametrize("way", WAYS)
def test_a_guest_opens_none(victim: BaseSandbox, place: Path, way: str) -> None:
    for name in furnish(place):
        result = soon(lambda name=name: victim.execute(WAYS[way].format(path=name)))
        assert result.error is not None, f"{name} was opened"
        assert result.error.name in ("PermissionError", "ModuleNotFoundError", "OSError"), result.error
        assert result.duration_seconds < 5
    assert victim.execute("open('file', 'w').write('1'); assert open('file').read() == '1'").success


def test_they_can_be_seen_and_deleted(victim: BaseSandbox, place: Path) -> None:
    furnish(place)
    assert victim.execute("import os; os.stat('pipe'); os.listdir('folder'); os.unlink('pipe')").success
    assert not (place / "pipe").exists()


@contextlib.contextmanager
def opened_from_outside(pipe: Path, after: float) -> Iterator[None]:
    """Somebody opens the other end, later."""

    def come() -> None:
        time.sleep(after)
        with contextlib.suppress(OSError):
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))

    thread = threading.Thread(target=come)
    thread.start()
    yield
    thread.join()


def test_without_the_guard_no_limit_helps(make_sandbox: Any, place: Path) -> None:
    furnish(place)
    text = guards.without(interposer.filter_text(), "(call $is_special)", "(i32.const 0)")
    with guards.filter_replaced(text):
        sandbox = make_sandbox(workspace=place, timeout_seconds=0.5, interrupt_grace_seconds=0.2)
        sandbox.execute("")
        started = time.monotonic()
        with opened_from_outside(place / "pipe", 3):
            soon(lambda: sandbox.execute("open('pipe')"))
        assert time.monotonic() - started > 2.5


def test_a_file_that_became_a_pipe_is_not_opened_again(victim: BaseSandbox, place: Path) -> None:
    """After a crash, what the guest had open is opened again by its name."""
    (place / "data").write_text("text")
    assert victim.execute("f = open('data'); g = open('more', 'w+'); kept = 1").success
    (place / "data").unlink()
    os.mkfifo(place / "data")
    crashed = soon(lambda: victim.execute("import faulthandler; faulthandler._sigsegv()"))
    assert crashed.outcome.kind.value == "crashed"
    assert soon(lambda: victim.execute("assert kept == 1; g.write('x'); g.flush()")).success
    assert soon(lambda: victim.execute("f.read()")).error is not None


def test_the_host_opens_none_either(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    session_id = make_session(root, files={"a": "b"})
    names = furnish(root / session_id)
    assert len(soon(lambda: list_session_files(session_id, root))) >= 1
    for name in names:
        assert isinstance(soon(lambda name=name: open_session_file(session_id, name, root)), PathRefused | OSError)
        if name != "link":
            refused = soon(lambda name=name: write_session_file(session_id, name, b"x", root))
            assert isinstance(refused, PathRefused | OSError), refused
    for target in ("a.zip", "a.tar.zst"):
        assert not isinstance(
            soon(lambda target=target: export_session(session_id, tmp_path / target, root)), TypeError
        )
    snapshot = soon(lambda: create_snapshot(session_id, root))
    assert soon(lambda: restore_snapshot(snapshot.snapshot_id, root)).snapshot_id
    assert isinstance(soon(lambda: fork_session(session_id, root)), str)
    assert soon(lambda: list_sessions(root))
    everything = RetentionPolicy(max_age_hours=0)
    assert soon(lambda: prune_sessions(workspace_root=root, policy=everything, dry_run=True)).dry_run
    with contextlib.closing(soon(lambda: get_session_sandbox(session_id, workspace_root=root))) as sandbox:
        assert soon(lambda: sandbox.execute("open('c', 'w').write('d')")).success
    assert soon(lambda: delete_session_workspace(session_id, root)) in (True, None)
    assert not (root / session_id).exists()
