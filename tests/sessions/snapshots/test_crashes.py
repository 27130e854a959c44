"""Kill -9 at 200 random moments, full disks, others who prune meanwhile: every snapshot that is listed is whole."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import leftovers, make_session, run_python
from tests.sessions.nursery import Nursery, opened
from tests.sessions.snapshots.snapshot_workers import CHECK, CODE, OPERATIONS, QUIET, SESSIONS, whole_ones
from wasm_kernel import (
    BaseSandbox,
    SnapshotRetention,
    WasmKernelError,
    collect_snapshots,
    create_snapshot,
    get_session_sandbox,
    import_snapshot,
    list_snapshots,
    prune_sessions,
    prune_snapshots,
    restore_snapshot,
    verify_snapshots,
)
from wasm_kernel.host.disk.locks import live_sessions
from wasm_kernel.model.names import STATE_FOLDER

KILLS = 200
SHARE = {"take": 60, "restore": 40, "fork": 30, "delete": 10, "prune": 40, "export": 20}
LONGEST = {"take": 0.35, "restore": 0.35, "fork": 0.1, "delete": 0.05, "prune": 0.15, "export": 0.2}


@pytest.fixture
def nursery(root: Path, tmp_path: Path) -> Iterator[Nursery]:
    with opened("tests.sessions.snapshots.snapshot_workers", root, tmp_path / "out") as nursery:
        yield nursery


def is_whole(sandbox: BaseSandbox) -> bool:
    result = sandbox.execute(CHECK)
    return result.success and result.stdout.split()[1:] == ["True"] * 3


def check_all(root: Path, *, at_most: int = 1000) -> int:
    """Every listed snapshot restores, in its own session, to a state in which variables and files belong together."""
    listed = whole_ones(root)
    random.Random(len(listed)).shuffle(listed)
    checked = 0
    for session_id in {s.session_id for s in listed}:
        with get_session_sandbox(session_id, workspace_root=root, resume=True, logger=QUIET) as sandbox:
            assert is_whole(sandbox) or session_id in SESSIONS, "what it was left with"
            for snapshot in [s for s in listed if s.session_id == session_id][:at_most]:
                restore_snapshot(snapshot.snapshot_id, root, logger=QUIET)
                assert is_whole(sandbox), snapshot
                checked += 1
    return checked


@pytest.mark.slow
def test_200_kills_at_random_moments(root: Path, tmp_path: Path, nursery: Nursery) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    assert sum(SHARE.values()) == KILLS
    assert set(SHARE) == set(OPERATIONS)
    for name in SESSIONS:
        with get_session_sandbox(name, workspace_root=root) as sandbox:
            for n in range(3):
                assert sandbox.execute(CODE.format(n=n)).success
                create_snapshot(name, root)
    most = 0

    def look(number: int) -> None:
        nonlocal most
        if number % 20 == 19:
            most = max(most, len(list_snapshots(root)))

    assert nursery.kill_all(SHARE, LONGEST, chance, look) == KILLS
    failed = {p.name: p.read_text() for p in (tmp_path / "out").glob("failed-*")}
    assert failed == {}, "one worker disturbed another"
    assert live_sessions(root) == set(), "the dead hold no lock"

    verified = verify_snapshots(root)
    assert not verified.damaged
    # What is left of those who died goes with the next prune and collection.
    prune_sessions(24, root, logger=QUIET)
    collect_snapshots(root, wait=5)
    assert leftovers(root) == []
    state = root / STATE_FOLDER / "snapshots"
    assert list((state / "new").iterdir()) == []
    found = {p.stem for p in (state / "manifests").rglob("*.snap")}
    assert found == {s.snapshot_id for s in list_snapshots(root)}, "no half one"
    assert {s.session_id for s in list_snapshots(root)} <= {p.name for p in root.iterdir()}
    check_all(root, at_most=4)
    for name in SESSIONS:  # who comes next goes on; there may have been nothing but files as they were before a restore
        with get_session_sandbox(name, workspace_root=root, logger=QUIET) as sandbox:
            assert sandbox.execute(CODE.format(n=1)).success
            create_snapshot(name, root, logger=QUIET)
    assert check_all(root, at_most=4) >= 2
    assert most >= 3, "little was taken"
    print(f"{most} snapshots at most, {len(found)} at the end")

    # What was exported is whole, and the next export of that name takes the rest away.
    exported = [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")]
    for path in exported:
        new, _ = import_snapshot(path, tmp_path / "elsewhere", logger=QUIET)
        with get_session_sandbox(new, workspace_root=tmp_path / "elsewhere", resume=True, logger=QUIET) as sandbox:
            assert is_whole(sandbox)
    from wasm_kernel import export_snapshot

    for n in range(3):
        export_snapshot(list_snapshots(root)[0].snapshot_id, tmp_path / "out" / f"exported{n}", root)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [f"exported{n}" for n in range(3)]


KILLED_BETWEEN = """
import os, sys
from pathlib import Path
from wasm_kernel import *
root, operation, last, snapshot = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
quiet = SandboxLogger(level="error")
calls = 0
def counted(real):
    def call(*args, **options):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), 9)
        return real(*args, **options)
    return call
def arm():
    for name in ("open", "mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "write", "ftruncate", "link", "symlink"):
        setattr(os, name, counted(getattr(os, name)))
if operation == "fork": arm(); fork_session("s", root, snapshot_id=snapshot, logger=quiet)
elif operation == "delete": arm(); delete_snapshot(snapshot, root, logger=quiet)
elif operation == "collect":
    delete_snapshot(snapshot, root, logger=quiet); arm(); collect_snapshots(root)
elif operation == "take": arm(); create_snapshot("s", root, logger=quiet)
elif operation == "restore": arm(); restore_snapshot(snapshot, root, logger=quiet)
print("survived")
"""


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["fork", "delete", "collect", "take", "restore"])
def test_killed_before_system_calls_that_change_something(tmp_path: Path, operation: str) -> None:
    """Not at random: before the 1st, and some calls later, ... until the operation gets to its end. Without a guest."""
    template = tmp_path / "template"
    template.mkdir()
    make_session(template, session_id="s", files={"f": "one", "d/g": "two"})
    first = create_snapshot("s", template)
    (template / "s" / "f").write_text("changed")
    (template / "s" / "d" / "g").unlink()
    second = create_snapshot("s", template)
    states = ({"f": "one", "g": "two"}, {"f": "changed", "g": None})
    step = {"delete": 1, "collect": 2, "fork": 7}.get(operation, 13)
    for last in range(1, 400, step):
        root = tmp_path / f"root{last}"
        shutil.copytree(template, root, symlinks=True)
        done = subprocess.run(
            [sys.executable, "-c", KILLED_BETWEEN, root, operation, str(last), first.snapshot_id],
            capture_output=True,
            text=True,
            timeout=60,
        )
        survived = "survived" in done.stdout
        assert survived or done.returncode == -9, done.stderr
        listed = {s.snapshot_id for s in list_snapshots(root)}
        assert second.snapshot_id in listed, last
        assert not verify_snapshots(root).damaged, last
        prune_sessions(24, root, logger=QUIET)
        collect_snapshots(root, wait=5)
        assert leftovers(root) == [], last
        assert list((root / STATE_FOLDER / "snapshots" / "new").iterdir()) == []
        for snapshot in list_snapshots(root):
            restore_snapshot(snapshot.snapshot_id, root, logger=QUIET)
            folder = root / snapshot.session_id
            found = {
                "f": (folder / "f").read_text(),
                "g": (folder / "d" / "g").read_text() if (folder / "d" / "g").exists() else None,
            }
            if operation != "restore":  # a restore that was cut short leaves files of both; what is listed says so
                assert found in states, (last, snapshot)
        shutil.rmtree(root)
        if survived:
            assert last >= 1
            return
    pytest.fail("it never got to its end")


# ---- at once


def test_two_takes_at_once(sessions: Opened, root: Path) -> None:
    opened = [sessions.create() for _ in range(2)]
    failed: list[BaseException] = []

    def work(session_id: str, sandbox: BaseSandbox, start: int) -> None:
        try:
            for n in range(start, start + 8):
                assert sandbox.execute(CODE.format(n=n)).success
                create_snapshot(session_id, root, logger=QUIET)
        except BaseException as e:  # noqa: BLE001 - shown below
            failed.append(e)

    threads = [threading.Thread(target=work, args=(*each, 100 * n)) for n, each in enumerate(opened)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(list_snapshots(root)) == 16
    assert check_all(root) == 16


def test_two_takes_of_one_session_at_once(sessions: Opened, root: Path) -> None:
    """One after the other, or one is told that the other is at it."""
    session_id, sandbox = sessions.create()
    assert sandbox.execute(CODE.format(n=5)).success
    outcomes: list[str] = []

    def work() -> None:
        for _ in range(5):
            try:
                create_snapshot(session_id, root, logger=QUIET)
                outcomes.append("taken")
            except WasmKernelError as e:
                outcomes.append(type(e).__name__)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"taken", "SandboxBusy"}
    assert len(list_snapshots(root)) == outcomes.count("taken") > 0
    assert check_all(root) == outcomes.count("taken")


PRUNE = """
import sys
from pathlib import Path
from wasm_kernel import *
from wasm_kernel.sessions.recorder import snapshot_store
print("ready", flush=True)
root = Path(sys.argv[1])
while True:
    try:
        # Those of a live session are spared by every prune: as if the session's own kernel thinned them out.
        for old in list_snapshots(root)[3:]:
            snapshot_store(root).remove_manifest(old.session_id, old.snapshot_id)
        prune_snapshots(SnapshotRetention(max_per_session=3), root)
        collect_snapshots(root)
    except WasmKernelError:
        pass
    prune_sessions(24, root)
"""


def test_takes_while_others_prune_and_collect(sessions: Opened, root: Path) -> None:
    from tests.sessions.helpers import other_process

    session_id, sandbox = sessions.create(logger=QUIET)
    with other_process(PRUNE, root, stderr=subprocess.DEVNULL):
        for n in range(25):
            assert sandbox.execute(CODE.format(n=n)).success
            taken = create_snapshot(session_id, root, logger=QUIET)
            if n % 5 == 4:
                sandbox.execute("n = 'lost'; open('f', 'w').close()")
                with contextlib.suppress(FileNotFoundError):  # the other was faster
                    restore_snapshot(taken.snapshot_id, root, logger=QUIET)
                    assert is_whole(sandbox)
                assert sandbox.execute(CODE.format(n=n)).success
    sandbox.close()
    prune_snapshots(SnapshotRetention(max_per_session=3), root)
    assert not verify_snapshots(root).damaged
    assert 1 <= check_all(root) <= 3


# ---- full disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    if os.getuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("needs root on Linux to mount a tmpfs")
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    root = small_disk / "root"
    root.mkdir()
    with get_session_sandbox("one", workspace_root=root, logger=QUIET) as sandbox:
        assert sandbox.execute(CODE.format(n=1)).success
        good = create_snapshot("one", root, logger=QUIET)
        assert sandbox.execute("import os; big = os.urandom(24 << 20)").success
        with pytest.raises(OSError, match="No space"):
            create_snapshot("one", root, logger=QUIET)
        assert [s.snapshot_id for s in list_snapshots(root)] == [good.snapshot_id]
        assert is_whole(sandbox)
        collect_snapshots(root)
        assert list((root / STATE_FOLDER / "snapshots" / "new").iterdir()) == []
        assert sandbox.execute("del big; y = list(range(50_000))").success
        assert sandbox.execute("big = bytes(30 << 20); del big").success
        again = create_snapshot("one", root, logger=QUIET)
        assert sandbox.execute(CODE.format(n=2) + "; del y").success
        restore_snapshot(again.snapshot_id, root, logger=QUIET)
        assert is_whole(sandbox)
        assert sandbox.execute("print(sum(y))").stdout == "1249975000\n"
        restore_snapshot(good.snapshot_id, root, logger=QUIET)
        assert is_whole(sandbox)


def test_a_full_disk_at_random_moments(small_disk: Path) -> None:
    """Filled more and more: each take succeeds whole, or fails and leaves nothing."""
    root = small_disk / "root"
    root.mkdir()
    chance = random.Random(5)
    with get_session_sandbox("one", workspace_root=root, logger=QUIET) as sandbox:
        assert sandbox.execute(CODE.format(n=0)).success
        taken = {create_snapshot("one", root, logger=QUIET).snapshot_id}
        assert sandbox.execute("import os").success
        for n in range(1, 25):
            left = shutil.disk_usage(small_disk).free
            filler = small_disk / "filler"
            filler.write_bytes(bytes(max(0, left - chance.choice([0, 10_000, 100_000, 300_000, 1_000_000]))))
            sandbox.execute(f"n = {n}; data = bytearray(b'%d' % n) * 5000; noise = os.urandom(200_000)")
            try:
                create_snapshot("one", root, logger=QUIET)
                outcome = "taken"
            except OSError:
                outcome = "full"
            listed = {s.snapshot_id for s in list_snapshots(root)}
            assert len(listed) == len(taken) + (outcome == "taken"), outcome
            taken = listed
            filler.unlink()
            collect_snapshots(root)
        assert not verify_snapshots(root).damaged
        for snapshot in list_snapshots(root)[:8]:
            restore_snapshot(snapshot.snapshot_id, root, logger=QUIET)
            assert sandbox.execute("print(bytes(data) == b'%d' % n * 5000)").stdout == "True\n"


def test_a_process_that_dies_in_a_take_leaves_the_session_to_others(root: Path) -> None:
    code = (
        "import os, sys\nfrom wasm_kernel import *\nfrom wasm_kernel.host.store.chunks import Transaction\n"
        "Transaction.commit = lambda *a: os.kill(os.getpid(), 9)\n"
        "sandbox = get_session_sandbox('one', workspace_root=sys.argv[1])\nsandbox.execute('x = 1')\n"
        "create_snapshot('one', sys.argv[1])"
    )
    with pytest.raises(AssertionError):
        run_python(code, root)
    assert list_snapshots(root) == []
    with get_session_sandbox("one", workspace_root=root, resume=True, logger=QUIET) as sandbox:
        assert sandbox.execute(CODE.format(n=3)).success
        create_snapshot("one", root, logger=QUIET)
    collect_snapshots(root)
    assert list((root / STATE_FOLDER / "snapshots" / "new").iterdir()) == []
    assert check_all(root) == 1
