"""A disk without a free block, real ext4: it can still be cleaned, and sessions still run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.terminal import Main
from tests.disks import Disk, ext4
from tests.sessions.helpers import leftovers, make_session, plant_snapshot
from wasm_kernel import SandboxLogger, create_session_sandbox, delete_session_workspace, get_session_sandbox
from wasm_kernel.host.disk.locks import told
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.host.files import delete_tree
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions.housekeeping import prune_sessions
from wasm_kernel.sessions.snapshots import list_snapshots

QUIET = SandboxLogger(level="error")
MB = 1 << 20
WRITE = "with open('/app/f', 'w') as file: file.write('x' * 10_000)"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    with ext4(tmp_path, 32) as disk:
        monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(disk.at / "root"))
        yield disk


@pytest.fixture(params=["ours", "of an earlier version"])
def root(request: pytest.FixtureRequest, disk: Disk) -> Path:
    """A root as we make it, and one of an earlier version, which has nothing ready for such a day."""
    root = disk.at / "root"
    root.mkdir()
    if request.param == "ours":
        session_id, sandbox = create_session_sandbox(workspace_root=root, logger=QUIET)
        sandbox.close()
        delete_session_workspace(session_id, root, QUIET)
        assert (root / STATE_FOLDER / "reserve").stat().st_blocks
    else:
        (root / STATE_FOLDER / "locks").mkdir(parents=True)
        (root / STATE_FOLDER / "gate").touch()
    return root


def old_sessions(root: Path) -> list[str]:
    """Three sessions that nobody used for days, with folders in folders."""
    files = {"a": b"x" * MB, "b/c/d": b"y" * 5000, "b/e/f/g": b""}
    return [make_session(root, hours=100, files=files) for _ in range(3)]


def check_gone(disk: Disk, root: Path, stays: str) -> None:
    assert [p.name for p in root.iterdir() if p.name[0] != "."] == [stays]
    assert leftovers(root) == []
    assert disk.free > 3 * MB


def test_prune(disk: Disk, root: Path) -> None:
    doomed, stays = old_sessions(root), make_session(root)
    disk.fill()
    foreseen = prune_sessions(24, root, dry_run=True)
    done = prune_sessions(24, root)
    assert not done.errors
    assert sorted(done.deleted_sessions) == sorted(foreseen.deleted_sessions) == sorted(doomed)
    assert done.reclaimed_bytes == foreseen.reclaimed_bytes
    check_gone(disk, root, stays)


def test_prune_frees_snapshots(disk: Disk, root: Path) -> None:
    doomed, stays = make_session(root, hours=100), make_session(root)
    plant_snapshot(root, doomed, hours=100, data=os.urandom(4 * MB // 64) * 64)
    for _ in range(80):
        plant_snapshot(root, doomed, hours=100, data=os.urandom(60_000))
    kept = plant_snapshot(root, stays, data=os.urandom(60_000))
    disk.fill()
    done = prune_sessions(24, root)
    assert done.deleted_sessions == [doomed]
    assert done.snapshot_bytes_freed > 4 * MB
    assert [s.snapshot_id for s in list_snapshots(root)] == [kept.snapshot_id]
    check_gone(disk, root, stays)


def test_delete(disk: Disk, root: Path) -> None:
    doomed, stays = old_sessions(root), make_session(root)
    disk.fill()
    for session_id in doomed:
        delete_session_workspace(session_id, root, QUIET)
    check_gone(disk, root, stays)


@pytest.mark.parametrize("by", ["prune", "sessions delete"])
def test_command_line(disk: Disk, root: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    doomed, stays = old_sessions(root), make_session(root)
    disk.fill()
    words = ["prune", "--older-than", "1d"] if by == "prune" else ["sessions", "delete", *doomed]
    code, out, err = Main(capsys)(*words, "--yes")
    assert (code, err) == (0, "")
    assert out.startswith("Deleted 3 sessions, 3.")
    check_gone(disk, root, stays)


def test_the_command_line_says_what_to_do(disk: Disk, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = make_session(root, files={"a": b"x"})
    disk.fill()
    code, _, err = Main(capsys)("sessions", "export", session, str(disk.at / "out.zip"))
    assert code == 1
    assert "No space left on device; `wasm-kernel prune` deletes old sessions" in err


def test_many_folders_are_deleted_where_no_more_names_fit(disk: Disk) -> None:
    """Deleting moves folders up to the top, whose own block is full of names: one more name needs another block."""
    top, probe = disk.at / "top", disk.at / "probe"
    probe.mkdir()
    block, count = probe.stat().st_size, 0
    while probe.stat().st_size == block:
        (probe / f"{count:024}").touch()
        count += 1
    shutil.rmtree(probe)
    for n in range(count - 1):
        (top / f"{n:024}" / "inner" / "innermost").mkdir(parents=True)
    disk.fill()
    delete_tree.remove(top)
    assert not top.exists()


def test_sessions_begin_and_run(disk: Disk, root: Path) -> None:
    """An existing one anyway; a new one with what was set aside, again and again, and as before once there is room."""
    known = make_session(root)
    ours = (root / STATE_FOLDER / "reserve").exists()
    with get_session_sandbox(known, workspace_root=root, logger=QUIET) as sandbox:
        assert sandbox.execute("x = 1").success
    disk.fill()
    with get_session_sandbox(known, workspace_root=root, logger=QUIET) as sandbox:
        assert sandbox.execute("print(6 * 7)").stdout == "42\n"
        assert not sandbox.execute(WRITE).success
        assert told(root, known) == {}, "there was no room"
        if ours:
            for _ in range(5):
                session_id, other = create_session_sandbox(workspace_root=root, logger=QUIET)
                assert other.execute("print(1)").success
                other.close()
                assert read_record(root / session_id) is not None
                disk.fill()
        disk.make_room()
        assert sandbox.execute(WRITE).success
        assert told(root, known)["pid"] == os.getpid()
        assert "disk" in told(root, known)["limits"]
    create_session_sandbox(workspace_root=root, logger=QUIET)[1].close()
    assert (root / STATE_FOLDER / "reserve").stat().st_size == MB
