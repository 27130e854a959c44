"""The power fails: a real ext4 loses what was not synced (`disks.Disk.cut`). What was answered is there, and whole."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conformance.client import Kernel, eventually
from tests.disks import Disk, ext4
from tests.sessions.helpers import make_session, plant_snapshot
from wasm_kernel import SandboxLogger, create_session_sandbox, get_session_sandbox, write_session_file
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.durable import write_file
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions.archive import export_session, import_session
from wasm_kernel.sessions.housekeeping import prune_sessions
from wasm_kernel.sessions.snapshots import (
    collect_snapshots,
    create_snapshot,
    delete_snapshot,
    list_snapshots,
    verify_snapshots,
)

QUIET = SandboxLogger(level="error")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with ext4(tmp_path, 96) as disk:
        (disk.at / "root").mkdir()
        os.sync()
        yield disk


def test_the_disk_loses_what_was_not_synced(disk: Disk) -> None:
    """Or the other tests would prove nothing."""
    write_file(disk.at / "lost", b"data", sync=False)
    with disk.after_power_cut() as at:
        assert not (at / "lost").exists()
    write_file(disk.at / "kept", b"data")
    with disk.after_power_cut() as at:
        assert (at / "kept").read_bytes() == b"data"


def test_a_name_without_bytes(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens to a file whose folder alone was synced: hence the order of `durable.writing`."""
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: real(handle) if os.path.isdir(f"/proc/self/fd/{handle}") else None)
    write_file(disk.at / "f", b"data")
    with disk.after_power_cut() as at:
        assert (at / "f").read_bytes() == b""


def test_sessions_files_and_archives(disk: Disk) -> None:
    root = disk.at / "root"
    session_id, sandbox = create_session_sandbox(workspace_root=root, logger=QUIET, notebook="a.ipynb")
    with disk.after_power_cut() as at:
        record = read_record(at / "root" / session_id)
        assert record is not None
        assert record.extra["notebook"] == "a.ipynb"
    write_session_file(session_id, "new/folder/f", b"data" * 1000, root)
    with disk.after_power_cut() as at:
        assert (at / "root" / session_id / "new" / "folder" / "f").read_bytes() == b"data" * 1000
    assert sandbox.execute("x = 1").success
    sandbox.close()
    count = read_record(root / session_id)
    with disk.after_power_cut() as at:
        assert read_record(at / "root" / session_id) == count, "closing makes the last record durable"
    export_session(session_id, disk.at / "out.tar.zst", root)
    with disk.after_power_cut() as at:
        imported = import_session(at / "out.tar.zst", at / "root", logger=QUIET)
        assert (at / "root" / imported / "new" / "folder" / "f").read_bytes() == b"data" * 1000
    imported = import_session(disk.at / "out.tar.zst", root, logger=QUIET)
    with disk.after_power_cut() as at:
        assert (at / "root" / imported / "new" / "folder" / "f").read_bytes() == b"data" * 1000


def test_a_snapshot_that_was_answered(disk: Disk) -> None:
    root = disk.at / "root"
    with get_session_sandbox("one", workspace_root=root, logger=QUIET) as sandbox:
        for n in range(3):
            assert sandbox.execute(f"x = {n}; y = list(range(1000 * x)); open('/app/f', 'w').write(str(x))").success
            create_snapshot("one", root, logger=QUIET)
            with disk.after_power_cut() as at:
                assert not verify_snapshots(at / "root").damaged
                with get_session_sandbox("one", workspace_root=at / "root", logger=QUIET, resume=True) as again:
                    assert again.execute("print(x, len(y), open('/app/f').read())").stdout == f"{n} {1000 * n} {n}\n"


def test_cells_of_a_kernel(disk: Disk) -> None:
    """All that were answered, within a second or two: appended to the log, which is synced about every second."""
    kernel = Kernel(disk.at / "root", WASM_KERNEL_SESSION="one")
    try:
        for n in range(12):
            kernel.ok(f"x = {n}")
            time.sleep(0.05)

        def is_kept() -> bool:
            with _stopped(kernel.pid):
                cut = disk.cut()
            with (
                disk.after_power_cut(cut) as at,
                get_session_sandbox("one", workspace_root=at / "root", logger=QUIET, resume=True) as again,
            ):
                return again.execute("print(x)").stdout == "11\n"

        assert eventually(is_kept, 30)
    finally:
        kernel.stop()


@contextlib.contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """A process that does nothing meanwhile: its disk can be copied."""
    os.kill(pid, signal.SIGSTOP)
    try:
        while any(_state(pid, thread.id) != "T" for thread in psutil.Process(pid).threads()):
            time.sleep(0.01)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _state(pid: int, thread: int) -> str:
    return Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def cut_at_every_call(disk: Disk) -> Iterator[list[Path]]:
    """The disk as it would be found after a cut before and after each call that changes what lasts."""
    cuts: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "rename", "link", "unlink"):
            patch.setattr(os, name, _with_cuts(getattr(os, name), disk, cuts))
        yield cuts


def _with_cuts(real: Any, disk: Disk, cuts: list[Path]) -> Any:
    def call(*args: Any, **more: Any) -> Any:
        cuts.append(disk.cut())
        try:
            return real(*args, **more)
        finally:
            cuts.append(disk.cut())

    return call


def test_at_every_moment(disk: Disk) -> None:
    """Snapshots taken, deleted, collected, sessions begun and deleted: each is whole or absent, and what was there stays."""
    root = disk.at / "root"
    stays = make_session(root)
    kept = plant_snapshot(root, stays, data=os.urandom(50_000))
    goes = [plant_snapshot(root, stays, data=os.urandom(50_000)) for _ in range(3)]
    old = make_session(root, hours=100, files={"a": b"data"})
    os.sync()
    with cut_at_every_call(disk) as cuts:
        plant_snapshot(root, stays, data=os.urandom(50_000))
        for snapshot in goes:
            delete_snapshot(snapshot.snapshot_id, root, logger=QUIET)
        collect_snapshots(root)
        create_session_sandbox(workspace_root=root, logger=QUIET)[1].close()
        assert prune_sessions(24, root).deleted_sessions == [old]
    assert len(cuts) > 40
    for cut in cuts:
        with disk.after_power_cut(cut) as at:
            check_whole(at / "root", stays, kept.snapshot_id)


def check_whole(root: Path, stays: str, kept: str) -> None:
    found = verify_snapshots(root)
    assert not found.damaged
    assert not any(found.manifests.values())
    assert kept in [s.snapshot_id for s in list_snapshots(root, stays)]
    for folder in root.iterdir():
        if folder.name != STATE_FOLDER:
            assert read_record(folder) is not None, f"{folder.name} has no metadata"
            assert folder.name == stays or not (folder / "a").exists() or (folder / "a").read_bytes() == b"data"
