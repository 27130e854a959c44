"""Pruning where things are not as they should be: links, mounts, races, what cannot be deleted, what is in use."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import (
    HOLD,
    Log,
    deepen,
    leftovers,
    make_corrupted,
    make_legacy,
    make_session,
    other_process,
    put_files,
    run_python,
    set_age,
    tree,
    tree_bytes,
)
from wasm_kernel import (
    ConfigurationError,
    PruneResult,
    RetentionPolicy,
    SessionLocked,
    archive_sessions,
    delete_session_workspace,
    get_session_sandbox,
    prune_sessions,
    repair_session_metadata,
)
from wasm_kernel.host.disk import deleters
from wasm_kernel.host.disk.deleters import Deleters
from wasm_kernel.host.disk.locks import is_live, lock_session, state_folder
from wasm_kernel.sessions.housekeeping import carrying_out, planning

ROOT_USER = os.geteuid() == 0
NOBODY = 65534


def check_dry_run_equals_real_run(root: Path, **options: Any) -> PruneResult:
    """Prune dry and for real, compare, and give the real result."""
    before = tree_bytes(root)
    dry = prune_sessions(workspace_root=root, dry_run=True, **options)
    assert tree_bytes(root) == before
    real = prune_sessions(workspace_root=root, **options)
    assert dry == replace(real, dry_run=True)
    assert sorted(dry.live_sessions) == sorted(real.live_sessions)
    return real


# ---- the root


@pytest.mark.parametrize("root_is", ["missing", "a file", "a dangling link", "a FIFO"])
def test_a_root_that_is_no_folder_is_a_clear_error(tmp_path: Path, root_is: str) -> None:
    bad = tmp_path / "bad-root"
    if root_is == "a file":
        bad.write_text("x")
    elif root_is == "a dangling link":
        bad.symlink_to("nowhere")
    elif root_is == "a FIFO":
        os.mkfifo(bad)
    for dry_run in (True, False):
        with pytest.raises(FileNotFoundError, match="bad-root") as caught:
            prune_sessions(24, bad, dry_run=dry_run)
        assert isinstance(caught.value, ConfigurationError)
    assert os.listdir(tmp_path) == ([] if root_is == "missing" else ["bad-root"])


def test_an_empty_root(root: Path) -> None:
    result = check_dry_run_equals_real_run(root, older_than_hours=0)
    assert (result.deleted_sessions, result.skipped_sessions, result.errors, result.reclaimed_bytes) == ([], [], {}, 0)


@pytest.mark.parametrize("hours", [-1, float("nan"), "24"])
def test_a_bad_threshold_deletes_nothing(root: Path, hours: Any) -> None:
    session_id = make_session(root, hours=100)
    with pytest.raises(ConfigurationError, match="max_age_hours"):
        prune_sessions(hours, root)
    assert (root / session_id).is_dir()


# ---- links


def test_a_session_that_is_a_link_is_skipped_and_its_target_left_alone(root: Path, tmp_path: Path, log: Log) -> None:
    outside = tmp_path / "outside"
    target = make_session(outside, hours=1000, files={"precious": "x", ".metadata.json.0123456789ab": "x"})
    (root / target).symlink_to(outside / target)
    dangling = str(uuid.uuid4())
    (root / dangling).symlink_to("nowhere")
    before = tree(outside)
    result = prune_sessions(0, root, logger=log.logger)
    assert result.deleted_sessions == []
    assert set(result.skipped_sessions) == {target, dangling}
    assert tree(outside) == before
    assert (root / target).is_symlink()
    assert {event["reason"] for event in log.events("session.prune.skipped")} == {"symlink"}


def test_delete_and_repair_leave_a_linked_session_alone(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make_session(outside, session_id="target", files={"precious": "x"})
    (root / "abc-123").symlink_to(outside / "target")
    before = tree(outside)
    with pytest.raises(OSError, match="link"):
        delete_session_workspace("abc-123", root)
    with pytest.raises(FileNotFoundError):
        repair_session_metadata("abc-123", root)
    assert tree(outside) == before


def test_links_inside_are_deleted_and_not_followed(root: Path, tmp_path: Path) -> None:
    put_files(tmp_path / "outside", {"precious": "x" * 1000, "d/e": "y"})
    session_id = make_session(root, hours=100, files={"sub/f": "1"})
    for place in ("out", "sub/out"):
        (root / session_id / place).symlink_to(tmp_path / "outside")
    (root / session_id / "dangling").symlink_to("nowhere")
    before = tree(tmp_path / "outside")
    assert check_dry_run_equals_real_run(root, older_than_hours=24).reclaimed_bytes < 1000
    assert not (root / session_id).exists()
    assert tree(tmp_path / "outside") == before


def test_metadata_that_is_a_link_or_a_folder_is_corrupted(root: Path, tmp_path: Path, log: Log) -> None:
    old = make_session(tmp_path / "outside", hours=1000)
    ids = [make_session(root, hours=1000) for _ in range(4)]
    paths = [root / session_id / ".metadata.json" for session_id in ids]
    for path in paths:
        path.unlink()
    paths[0].symlink_to(tmp_path / "outside" / old / ".metadata.json")
    paths[1].mkdir()
    os.mkfifo(paths[2])
    paths[3].write_bytes(b" " * (2 << 20) + b"{}")
    result = prune_sessions(0, root, logger=log.logger)
    assert set(result.skipped_sessions) == set(ids)
    assert {event["reason"] for event in log.events("session.prune.skipped")} == {"corrupted_metadata"}


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59Z"])
def test_times_outside_the_calendar_do_not_end_a_prune(root: Path, time: str) -> None:
    strange, old = make_session(root), make_session(root, hours=100)
    path = root / strange / ".metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "updated_at": time}))
    assert prune_sessions(24, root).deleted_sessions == [old]
    assert (root / strange).is_dir()


# ---- openers

OPEN = """
import sys
from pathlib import Path
from wasm_kernel.host.disk.locks import lock_session
print("ready", flush=True)
lock = lock_session(Path(sys.argv[1]), sys.argv[2])
print("open", (Path(sys.argv[1]) / sys.argv[2]).exists(), flush=True)
"""


def test_nobody_opens_a_session_between_the_look_and_its_removal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is held alone: whoever comes then waits, and finds the session gone, not going."""
    session_id = make_session(root, hours=100, files={"f": "data"})
    with contextlib.ExitStack() as stack:
        openers: list[subprocess.Popen[str]] = []
        looked = carrying_out.locks.known_locks

        def look(root: Path) -> set[str] | None:
            found = looked(root)
            if not openers and (root / session_id).exists():
                openers.append(stack.enter_context(other_process(OPEN, root, session_id)))
                assert not select.select([openers[0].stdout], [], [], 1.0)[0], "it was opened in between"
            return found

        monkeypatch.setattr(carrying_out.locks, "known_locks", look)
        assert prune_sessions(24, root).deleted_sessions == [session_id]
        assert openers[0].stdout is not None
        assert openers[0].stdout.readline() == "open False\n"


# ---- mounts


@contextlib.contextmanager
def mounted(*arguments: object, at: Path) -> Iterator[None]:
    """Something mounted, or the test is skipped."""
    if not ROOT_USER:
        pytest.skip("mounting needs root")
    done = subprocess.run(["mount", *map(str, arguments), str(at)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        # It may have been moved with its session; never leave it for rm -rf to walk into.
        found = Path("/proc/self/mountinfo").read_text().split("\n")
        here = str(at).split("/workspace/")[0]
        for line in found:
            if line and line.split()[4].startswith(here):
                subprocess.run(["umount", "-l", line.split()[4]], check=False)


@pytest.mark.parametrize("kind", ["tmpfs", "bind", "bind of a file"])
@pytest.mark.parametrize("depth", ["inside", "deep inside"])
def test_what_is_mounted_inside_a_session_is_not_deleted(
    root: Path, tmp_path: Path, log: Log, kind: str, depth: str
) -> None:
    outside = tmp_path / "outside"
    put_files(outside, {"precious": "x", "sub/precious": "y"})
    session_id = make_session(root, hours=100, files={"f": "1"})
    other = make_session(root, hours=50)
    at = root / session_id / ("m" if depth == "inside" else "a/b/c/m")
    at.parent.mkdir(parents=True, exist_ok=True)
    if kind == "bind of a file":
        at.write_text("covered")
        arguments: tuple[object, ...] = ("--bind", outside / "precious")
    else:
        at.mkdir()
        arguments = ("-t", "tmpfs", "tmpfs") if kind == "tmpfs" else ("--bind", outside)
    with mounted(*arguments, at=at):
        if kind == "tmpfs":
            (at / "precious").write_text("x")
        result = check_dry_run_equals_real_run(root, older_than_hours=24, logger=log.logger)
        assert result.deleted_sessions == [other]
        assert session_id in (*result.skipped_sessions, *result.errors), "and it is reported"
        assert (at / "precious" if at.is_dir() else at).read_text() == "x"
        assert (root / session_id / "f").read_text() == "1", "the session is whole"
        with pytest.raises(OSError):
            delete_session_workspace(session_id, root)
        assert (at / "precious" if at.is_dir() else at).read_text() == "x"
        assert (root / session_id / "f").read_text() == "1"
    assert tree(outside) == {"precious": b"x", "sub": None, "sub/precious": b"y"}
    assert prune_sessions(24, root).deleted_sessions == [session_id], "once it is unmounted"


def test_a_session_that_is_a_mount_point_is_left_alone(root: Path, tmp_path: Path) -> None:
    source = make_session(tmp_path / "outside", hours=100, files={"precious": "x"})
    (root / source).mkdir()
    with mounted("--bind", tmp_path / "outside" / source, at=root / source):
        result = check_dry_run_equals_real_run(root, older_than_hours=24)
        assert result.deleted_sessions == []
        assert source in (*result.skipped_sessions, *result.errors)
    assert (tmp_path / "outside" / source / "precious").read_text() == "x"


# ---- what is hard to delete


def test_read_only_files_and_folders_are_deleted(root: Path) -> None:
    session_id = make_session(root, hours=100, files={"ro.txt": "x", "ro/f": "x", "ro/deeper/f": "x", "none/f": "x"})
    folder = root / session_id
    if ROOT_USER:
        for path in (root, folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    (folder / "ro.txt").chmod(0o400)
    for name, mode in (("ro/deeper", 0o500), ("ro", 0o500), ("none", 0)):
        (folder / name).chmod(mode)
    if not ROOT_USER:
        assert prune_sessions(24, root).deleted_sessions == [session_id]
        return
    code = """
import os, sys
import psutil  # while this user can still read it
from pathlib import Path
from wasm_kernel import prune_sessions
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
result = prune_sessions(24, Path(sys.argv[1]))
print(result.deleted_sessions, result.errors)
"""
    with reachable(root):
        assert run_python(code, root, NOBODY) == f"['{session_id}'] {{}}\n"
    assert not folder.exists()


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[None]:
    """The folders above a test's root are private; another user may pass through them meanwhile."""
    changed = [(p, p.stat().st_mode) for p in path.parents if not p.stat().st_mode & 0o001]
    for parent, mode in changed:
        parent.chmod(mode | 0o001)
    try:
        yield
    finally:
        for parent, mode in changed:
            parent.chmod(mode)


@contextlib.contextmanager
def immutable(*paths: Path) -> Iterator[None]:
    """Files that not even root can delete."""
    if not ROOT_USER or shutil.which("chattr") is None:
        pytest.skip("chattr +i needs root")
    inodes = [os.open(path, os.O_RDONLY) for path in paths]
    try:
        for path in paths:
            done = subprocess.run(["chattr", "+i", path], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no immutable files here: {done.stderr.strip()}")
        yield
    finally:
        for handle in inodes:  # wherever they are by now
            os.set_inheritable(handle, True)
            subprocess.run(
                ["chattr", "-i", os.readlink(f"/proc/self/fd/{handle}")],
                pass_fds=[handle],
                check=False,
                stderr=subprocess.DEVNULL,
            )
            os.close(handle)


def test_what_cannot_be_deleted_is_reported_and_the_rest_goes_on(root: Path, log: Log) -> None:
    ids = [make_session(root, hours=100 - n, files={"a/f": "x", "g": "y"}) for n in range(6)]
    with immutable(root / ids[1] / "a" / "f", root / ids[4] / "g"):
        result = prune_sessions(24, root, logger=log.logger)
        assert result.deleted_sessions == [ids[0], ids[2], ids[3], ids[5]]
        assert set(result.errors) == {ids[1], ids[4]}
        assert all(isinstance(text, str) and text for text in result.errors.values())
        assert {event["session_id"] for event in log.warnings()} == {ids[1], ids[4]}
        assert log.event("session.prune.completed")["deleted_count"] == 4
        assert (root / ids[1] / "a" / "f").read_text() == "x"


def test_what_could_not_be_deleted_is_tried_again(root: Path) -> None:
    """So its metadata must go last: without, it would pass for a session from before there was metadata, for ever."""
    ids = [make_session(root, hours=100, files={f"{n}-{m}": "x" for m in range(6)}) for n in range(12)]
    with immutable(*(root / session_id / f"{n}-3" for n, session_id in enumerate(ids))):
        assert set(prune_sessions(24, root).errors) == set(ids)
        again = prune_sessions(24, root)
        assert set(again.errors) == set(ids)
        assert again.skipped_sessions == []
    assert set(prune_sessions(24, root).deleted_sessions) == set(ids)
    assert leftovers(root) == []


def test_other_processes_help_with_many_sessions(root: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they cannot delete comes back, whole, and is reported."""
    ids = [make_session(root, hours=1000 - n, files={f"{n}-{m}": "x" for m in range(3)}) for n in range(450)]
    stuck = [ids[n] for n in range(0, 450, 45)]
    before = {session_id: (root / session_id / ".metadata.json").read_bytes() for session_id in stuck}
    asked: list[str] = []
    delete = Deleters.delete

    def watched(self: Deleters, portions: Iterable[list[str]]) -> Iterator[tuple[list[str], list[str]]]:
        for names, left in delete(self, portions):
            asked.extend(set(names).difference(left))
            yield names, left

    monkeypatch.setattr(Deleters, "delete", watched)
    with immutable(*(root / session_id / f"{ids.index(session_id)}-1" for session_id in stuck)):
        result = prune_sessions(24, root, logger=log.logger)
        assert set(result.errors) == set(stuck)
        assert result.deleted_sessions == [session_id for session_id in ids if session_id not in stuck]
        assert {p.name for p in root.iterdir()} == {".wasm-kernel", *stuck}
        assert {session_id: (root / session_id / ".metadata.json").read_bytes() for session_id in stuck} == before
    assert asked
    assert not set(asked) & set(stuck)
    assert set(prune_sessions(24, root).deleted_sessions) == set(stuck)
    assert leftovers(root) == []


@pytest.mark.parametrize("program", ["raise SystemExit", "import time; time.sleep(0.05); raise SystemExit"])
def test_other_processes_that_end_are_not_needed(root: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(deleters, "_PROGRAM", program)
    ids = [make_session(root, hours=1000 - n, files={"a/b": "x"}) for n in range(250)]
    assert prune_sessions(24, root).deleted_sessions == ids
    assert leftovers(root) == []
    assert [p.name for p in root.iterdir()] == [".wasm-kernel"]


def test_a_tree_deeper_than_the_stack_is_deleted(root: Path) -> None:
    """A guest can make one, folder by folder and rename by rename: it must not make itself undeletable."""
    ids = [make_session(root, hours=hours) for hours in (100, 1, 1, 1)]
    try:
        for session_id in ids:
            deepen(root / session_id, 1500)
        assert prune_sessions(24, root).deleted_sessions == ids[:1]
        assert prune_sessions(24, root).errors == {}, "one that stays does not end a prune either"
        delete_session_workspace(ids[1], root)
        assert not (root / ids[1]).exists()
        (root / ids[2] / ".metadata.json").unlink()
        repair_session_metadata(ids[2], root)
    finally:  # pytest could not
        subprocess.run(["rm", "-rf", root], check=True)


def test_a_tree_is_deleted_with_few_open_files(root: Path) -> None:
    """A server may have few descriptors left."""
    session_id = make_session(root, hours=100)
    code = """
import resource, sys
from pathlib import Path
from wasm_kernel import prune_sessions
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(prune_sessions(24, Path(sys.argv[1])).deleted_sessions)
"""
    try:
        deepen(root / session_id, 200)
        assert run_python(code, root) == f"['{session_id}']\n"
    finally:
        subprocess.run(["rm", "-rf", root], check=True)


def test_a_guest_cannot_make_a_session_that_stays(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    result = sandbox.execute(
        "import os\n"
        "os.makedirs('d/' * 1500); os.makedirs('e/' * 1500); os.rename('e', 'd/' * 1500 + 'e')\n"
        "open('back\\\\slash', 'w').close(); open('-rf', 'w').close(); open('new\\nline', 'w').close()\n"
        "os.symlink('d', 'link'); os.symlink('nowhere', 'dangling')\n"
        "os.makedirs('x' * 200); open('a' * 255, 'w').close()"
    )
    assert result.success, result.error
    sandbox.close()
    try:
        assert prune_sessions(0, root).deleted_sessions == [session_id]
        assert leftovers(root) == []
    finally:
        subprocess.run(["rm", "-rf", root], check=True)


def test_a_folder_that_changes_while_it_is_deleted(root: Path) -> None:
    """Somebody without a lock still writes into it: it goes all the same, or it is reported."""
    ids = [make_session(root, hours=100, files={f"f{n}": "x" for n in range(30)}) for _ in range(20)]
    handles = [os.open(root / session_id, os.O_RDONLY) for session_id in ids]
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            for handle in handles:
                with contextlib.suppress(OSError):  # the folder is gone
                    os.close(os.open(f"late{n}", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
                with contextlib.suppress(OSError):
                    os.mkdir(f"late_folder{n}", dir_fd=handle)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        time.sleep(0.02)
        result = prune_sessions(24, root)
    finally:
        stop.set()
        writer.join()
        for handle in handles:
            os.close(handle)
    assert set(result.deleted_sessions) | set(result.errors) == set(ids)
    for session_id in result.deleted_sessions:
        assert not (root / session_id).exists()
    for session_id in result.errors:
        assert (root / session_id).is_dir()
    rest = prune_sessions(24, root)
    assert set(rest.deleted_sessions) == set(result.errors)
    assert leftovers(root) == []


def test_a_folder_swapped_for_a_link_while_it_is_deleted(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put_files(outside, {"precious": "x", "d/precious": "y"})
    before = tree(outside)
    stop = threading.Event()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        session_id = make_session(root, hours=100, files={f"d{n}/d/f": "x" for n in range(20)})
        handle = os.open(root / session_id, os.O_RDONLY)

        def swap(handle: int = handle) -> None:
            for n in range(20):
                with contextlib.suppress(OSError):
                    os.rename(f"d{n}/d", f"aside{n}", src_dir_fd=handle, dst_dir_fd=handle)
                    os.symlink(outside, f"d{n}/d", dir_fd=handle)

        swapper = threading.Thread(target=swap)
        swapper.start()
        prune_sessions(24, root)
        swapper.join()
        os.close(handle)
        assert tree(outside) == before
    stop.set()
    prune_sessions(24, root)
    assert [p.name for p in root.iterdir()] == [".wasm-kernel"]


# ---- in use


def test_a_live_session_of_another_process_is_never_pruned_and_reported(root: Path) -> None:
    live, old = make_session(root, hours=1000), make_session(root, hours=1000)
    with other_process(HOLD, root, live) as holder:
        result = check_dry_run_equals_real_run(root, older_than_hours=24)
        assert result.live_sessions == [live]
        assert result.deleted_sessions == [old]
        assert result.errors == {}
        assert "1 in use" in str(result)
        everything = RetentionPolicy(max_sessions=0, max_total_bytes=0, min_free_bytes=1 << 60)
        assert check_dry_run_equals_real_run(root, policy=everything).live_sessions == [live]
        with pytest.raises(SessionLocked, match=str(holder.pid)):
            delete_session_workspace(live, root)
        with pytest.raises(SessionLocked, match=str(holder.pid)):
            get_session_sandbox(live, workspace_root=root)
        assert (root / live).is_dir()
    assert prune_sessions(24, root).deleted_sessions == [live], "its holder was killed"


def test_a_live_session_that_is_young_is_not_reported(root: Path) -> None:
    live = make_session(root, hours=1)
    with other_process(HOLD, root, live):
        assert prune_sessions(24, root).live_sessions == []


def test_a_session_opened_between_plan_and_deletion_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root, hours=1000)
    locks = []
    real = planning.plan_prune

    def plan_then_open(*args: Any, **options: Any) -> Any:
        decided = real(*args, **options)
        locks.append(lock_session(root, session_id))
        return decided

    monkeypatch.setattr(planning, "plan_prune", plan_then_open)
    result = prune_sessions(24, root)
    assert (result.deleted_sessions, result.live_sessions) == ([], [session_id])
    assert (root / session_id).is_dir()
    locks[0].release()


def test_a_session_used_between_plan_and_deletion_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened, executed in and closed again while thousands of others were being deleted: it is not old any more."""
    session_id = make_session(root, hours=1000, files={"work": "x"})
    real = planning.plan_prune

    def plan_then_use(*args: Any, **options: Any) -> Any:
        decided = real(*args, **options)
        set_age(root, session_id, 0)
        return decided

    monkeypatch.setattr(planning, "plan_prune", plan_then_use)
    result = prune_sessions(24, root)
    assert (result.deleted_sessions, result.changed_sessions) == ([], [session_id])
    assert (root / session_id / "work").read_text() == "x"


def test_a_session_that_vanishes_between_plan_and_deletion(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, old = make_session(root, hours=1000), make_session(root, hours=1000)
    real = planning.plan_prune

    def plan_then_delete(*args: Any, **options: Any) -> Any:
        decided = real(*args, **options)
        shutil.rmtree(root / gone)
        return decided

    monkeypatch.setattr(planning, "plan_prune", plan_then_delete)
    result = prune_sessions(24, root)
    assert result.deleted_sessions == [old]
    assert result.errors == {}


PRUNE_OR_CREATE = """
import sys, time
from pathlib import Path
from wasm_kernel import SandboxLogger, prune_sessions
from wasm_kernel.sessions.catalog import create_session_folder
root, what = Path(sys.argv[1]), sys.argv[2]
quiet = SandboxLogger(level="error")
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + float(sys.argv[3])
failed = []
while time.monotonic() < end:
    try:
        if what == "prune":
            result = prune_sessions(24, root, logger=quiet)
            failed += result.errors.values()
            failed += [f"skipped {s}" for s in result.skipped_sessions]
        else:
            session_id, folder, lock = create_session_folder(root, quiet)
            if not (folder / ".metadata.json").is_file():
                failed.append("no metadata")
            lock.release()
    except Exception as e:
        failed.append(repr(e))
print(len(failed), failed[:3])
"""


def together(root: Path, *what: str, seconds: float) -> list[str]:
    """What processes say that prune or create at the same time."""
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(other_process(PRUNE_OR_CREATE, root, w, seconds)) for w in what]
        for other in others:
            assert other.stdin is not None
            other.stdin.write("\n")
            other.stdin.flush()
        return [other.stdout.readline() for other in others if other.stdout is not None]


def test_a_prune_does_not_disturb_who_creates_sessions(root: Path) -> None:
    """What is being made in .wasm-kernel/new belongs to somebody who holds its lock: it is no leftover."""
    assert together(root, "create", "prune", seconds=2.5) == ["0 []\n", "0 []\n"]


def test_two_prunes_at_once_do_not_disturb_each_other(root: Path) -> None:
    ids = [make_session(root, hours=100, files={f"f{n}": "x" for n in range(5)}) for _ in range(600)]
    assert together(root, "prune", "prune", "prune", seconds=0.3) == ["0 []\n"] * 3
    assert not [session_id for session_id in ids if (root / session_id).exists()]
    assert leftovers(root) == []


# ---- the same dry and real


def test_a_dry_run_says_exactly_what_the_real_one_does(root: Path, tmp_path: Path) -> None:
    for n in range(12):
        make_session(
            root, hours=20 + n, files={"a": "x" * n, "b/c/d": "y" * 100 * n, "e/.metadata.json.000000000000": "z"}
        )
    make_legacy(root, {"a": "x"})
    make_corrupted(root)
    (root / str(uuid.uuid4())).symlink_to(tmp_path)
    make_session(root, hours=100, session_id="not-a-uuid")
    live = make_session(root, hours=100)
    with other_process(HOLD, root, live):
        for options in (
            {"policy": RetentionPolicy(max_age_hours=29)},
            {"older_than_hours": 24, "max_deletions": 2},
            {"policy": RetentionPolicy(max_sessions=5)},
            {"policy": RetentionPolicy(max_total_bytes=1000)},
            {"older_than_hours": 0},
        ):
            result = check_dry_run_equals_real_run(root, **options)
            assert result.deleted_sessions
            assert len(result.skipped_sessions) == 3
            assert result.live_sessions == [live]
    assert leftovers(root) == []


def test_min_free_bytes_looks_at_the_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [make_session(root, hours=100 - n, files={"f": bytes(1000)}) for n in range(4)]
    usage = shutil.disk_usage(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5000))
    result = check_dry_run_equals_real_run(root, policy=RetentionPolicy(min_free_bytes=7000))
    assert result.deleted_sessions == ids[:2]


@pytest.mark.parametrize("workers", [1, 8])
def test_many_sessions_in_parallel(root: Path, log: Log, workers: int) -> None:
    ids = [make_session(root, hours=1000 - n, files={"a/b": "x"}) for n in range(450)]  # more than two batches
    size = sum(tree_bytes(root / session_id) for session_id in ids)
    result = prune_sessions(24, root, workers=workers, logger=log.logger)
    assert result.deleted_sessions == ids, "in order, the longest unused first"
    assert result.reclaimed_bytes == size
    assert len(log.events("session.prune.deleted")) == 450
    assert leftovers(root) == []
    assert [p.name for p in root.iterdir()] == [".wasm-kernel"]


# ---- what others left


def test_leftovers_of_killed_processes_are_swept(root: Path) -> None:
    session_id = make_session(
        root, files={".metadata.json.0123456789ab": "{", "d/.metadata.json.upload-0123456789abcdef": "x"}
    )
    legacy = make_legacy(root, {".metadata.json.0123456789ab": "{", "kept": "x"})
    state = state_folder(root)
    put_files(state, {f"new/{uuid.uuid4()}.0123abcd/.metadata.json.ab": "{", f"trash/{uuid.uuid4()}.0123abcd/f/g": "x"})
    put_files(state, {"trash/a-file": "x", f"locks/{uuid.uuid4()}": '{"pid": 1}', f"locks/{session_id}": ""})
    assert len(leftovers(root)) == 8
    dry = tree(root)
    prune_sessions(24, root, dry_run=True)
    assert tree(root) == dry, "a dry run sweeps nothing"
    prune_sessions(24, root)
    assert leftovers(root) == []
    assert (state / "locks" / session_id).exists()
    assert tree(root / session_id).keys() == {".metadata.json", "d"}
    assert tree(root / legacy) == {"kept": b"x"}


def test_temporary_files_of_a_live_session_are_left(root: Path) -> None:
    session_id = make_session(root, files={".metadata.json.0123456789ab": "being written"})
    lock = lock_session(root, session_id)
    prune_sessions(24, root)
    assert (root / session_id / ".metadata.json.0123456789ab").exists()
    lock.release()
    prune_sessions(24, root)
    assert not (root / session_id / ".metadata.json.0123456789ab").exists()


def test_a_prune_deletes_only_temporary_files_of_its_own_making(root: Path) -> None:
    """An administrator's backup of the metadata is no leftover."""
    mine = {".metadata.json.bak": "backup", "d/.metadata.json.orig": "x", ".metadata.json~": "x"}
    session_id = make_session(root, files=mine)
    prune_sessions(24, root)
    for name, data in mine.items():
        assert (root / session_id / name).read_text() == data


# ---- deleting one


def test_deleting_a_session_that_is_open_here_closes_it(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    sandbox.execute("x = 1")
    delete_session_workspace(session_id, root)
    assert not (root / session_id).exists()
    fresh = sessions.get(session_id)
    assert not fresh.execute("x").success
    assert leftovers(root) == []


def test_deleting_waits_when_asked(root: Path) -> None:
    session_id = make_session(root)
    with other_process(HOLD, root, session_id) as holder:
        started = time.monotonic()
        with pytest.raises(SessionLocked):
            delete_session_workspace(session_id, root, wait=0.2)
        assert time.monotonic() - started > 0.15
        assert holder.stdin is not None
        holder.stdin.write("\n")
        holder.stdin.flush()
        delete_session_workspace(session_id, root, wait=20)
    assert not (root / session_id).exists()
    assert leftovers(root) == []


def test_deleting_while_another_process_prunes(root: Path) -> None:
    """A prune sweeps the trash; what somebody is just deleting there is no fault of theirs."""
    code = """
import sys
from pathlib import Path
from wasm_kernel import prune_sessions
print("ready", flush=True)
while True:
    prune_sessions(24, Path(sys.argv[1]))
"""
    ids = [make_session(root, files={f"f{m}": "x" for m in range(20)}) for _ in range(100)]
    with other_process(code, root):
        for session_id in ids:
            delete_session_workspace(session_id, root)
    assert not [session_id for session_id in ids if (root / session_id).exists()]


def test_handles_in_this_process_share_one_guest(sessions: Opened, root: Path) -> None:
    session_id, one = sessions.create()
    two = sessions.get(session_id)
    one.execute("x = 41")
    assert two.execute("x + 1").result == {"text/plain": "42"}
    one.close()
    assert two.execute("x").success, "the other handle keeps it open"
    assert is_live(root, session_id)
    two.close()
    assert not is_live(root, session_id)


def test_threads_that_open_one_session_share_it(sessions: Opened, root: Path) -> None:
    """Two requests of one user, served by two threads."""
    session_id = make_session(root)
    barrier = threading.Barrier(4)
    failed: list[Exception] = []
    opened = []

    def open_it() -> None:
        barrier.wait()
        try:
            opened.append(sessions.get(session_id))
        except Exception as e:  # noqa: BLE001 - whatever it is, the test shows it
            failed.append(e)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    opened[0].execute("x = 1")
    assert all(sandbox.execute("x").success for sandbox in opened)


@pytest.mark.parametrize("what", [".", ".wasm-kernel/gate", ".wasm-kernel/trash"])
@pytest.mark.parametrize("archive", [False, True])
def test_where_nothing_may_be_written_a_prune_reports_and_does_not_raise(
    root: Path, tmp_path: Path, log: Log, what: str, archive: bool
) -> None:
    ids = {make_session(root, hours=100, files={"f": "x"}) for _ in range(3)}
    make_session(root, hours=1)
    prune_sessions(1000, root)
    before = tree(root)
    (root / ".wasm-kernel" / "trash").mkdir(exist_ok=True)
    with immutable(root / what):
        assert set(prune_sessions(24, root, dry_run=True).deleted_sessions) == ids
        if archive:
            result = archive_sessions(24, tmp_path / "archives", root, logger=log.logger)
        else:
            result = prune_sessions(24, root, logger=log.logger)
    assert result.deleted_sessions == []
    assert set(result.errors) == ids
    assert all("not permitted" in text for text in result.errors.values())
    assert result.reclaimed_bytes == 0
    assert {name: data for name, data in tree(root).items() if name in before} == before
    assert set(prune_sessions(24, root).deleted_sessions) == ids


def test_where_nothing_may_be_read_a_prune_does_not_raise(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root, hours=100)

    stat = os.stat

    def refused(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(path).endswith(".wasm-kernel/snapshots"):  # the suite may run as root, to whom everything is open
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert prune_sessions(24, root).deleted_sessions == [session_id]


def test_where_nothing_may_be_written_and_nothing_is_to_go_a_warning_says_so(root: Path, log: Log) -> None:
    make_session(root)
    prune_sessions(24, root)
    with immutable(root / ".wasm-kernel" / "gate"):
        assert prune_sessions(24, root, logger=log.logger).errors == {}
        assert [event["event"] for event in log.warnings()] == ["session.prune.failed"]


# ---- metadata of others

STRANGE = {
    "another id": {"session_id": str(uuid.uuid4())},
    "a later version": {"version": 2},
    "both": {"session_id": "x", "version": 99},
}


@pytest.mark.parametrize("changes", STRANGE.values(), ids=STRANGE)
def test_metadata_of_another_session_or_of_a_later_version_is_left_alone(
    sessions: Opened, root: Path, log: Log, changes: dict[str, Any]
) -> None:
    """Such as where a folder was copied, or a workspace was used with a newer release."""
    session_id = make_session(root, hours=1000, files={"f": "x"})
    file = root / session_id / ".metadata.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes, "of": "somebody else"}))
    before = file.read_bytes()
    result = prune_sessions(24, root, logger=log.logger)
    assert (result.deleted_sessions, result.skipped_sessions) == ([], [session_id])
    assert log.event("session.prune.skipped")["reason"] == "foreign_metadata"
    with sessions.get(session_id, logger=log.logger) as sandbox:
        assert sandbox.execute("print(open('f').read())").stdout == "x\n"
    assert file.read_bytes() == before
    if "version" in changes:
        with pytest.raises(ConfigurationError, match="update wasm-kernel"):
            repair_session_metadata(session_id, root)
        assert file.read_bytes() == before
    else:
        assert repair_session_metadata(session_id, root).session_id == session_id
        assert [p.read_bytes() for p in (root / session_id).glob(".metadata.json.damaged-*")] == [before]
