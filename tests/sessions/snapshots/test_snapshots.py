"""Snapshots through the library: what comes back, what is refused, what a damaged or hostile one can do."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import shutil
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import HOLD, Log, leftovers, make_session, other_process, run_python, set_age, tree
from wasm_kernel import (
    BaseSandbox,
    ConfigurationError,
    SandboxBusy,
    SessionLocked,
    Snapshot,
    SnapshotRetention,
    WasmKernelError,
    collect_snapshots,
    create_session_sandbox,
    create_snapshot,
    delete_session_workspace,
    delete_snapshot,
    export_snapshot,
    fork_session,
    get_session_sandbox,
    get_snapshot,
    import_snapshot,
    list_session_files,
    list_snapshots,
    prune_sessions,
    prune_snapshots,
    restore_snapshot,
    verify_snapshots,
)
from wasm_kernel.errors import DamagedChunk
from wasm_kernel.host.runtime.memory import GuestMemory
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions import open_sessions, recorder
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store

Make = Callable[..., tuple[str, BaseSandbox]]


def say(sandbox: BaseSandbox, code: str) -> str:
    """What a cell prints."""
    result = sandbox.execute(code)
    assert result.success, result.error or result.outcome
    return result.stdout.strip()


def forget(root: Path, snapshot: Snapshot) -> None:
    """Delete a snapshot though its session is live, as its own kernel does with checkpoints: the library refuses."""
    with contextlib.closing(snapshot_store(root)) as found:
        assert found.remove_manifest(snapshot.session_id, snapshot.snapshot_id)


def store(root: Path) -> Path:
    return root / STATE_FOLDER / "snapshots"


# ---- what comes back


def test_variables_generators_and_closures_come_back(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(
        sandbox,
        "def count():\n    n = 0\n    def more():\n        nonlocal n\n        n += 1\n        return n\n    return more",
    )
    say(sandbox, "g = (i * i for i in range(10)); next(g); next(g)\nmore = count(); more()\nx = [1, 2]; y = x")
    before = create_snapshot(session_id, root, label="before")
    say(sandbox, "list(g); more(); x.append(3); del y; z = 1")
    after = create_snapshot(session_id, root, label="after")
    restore_snapshot(before.snapshot_id, root)
    assert say(sandbox, "print(next(g), more(), x, y is x, 'z' in globals())") == "4 2 [1, 2] True False"
    restore_snapshot(after.snapshot_id, root)
    assert say(sandbox, "print(next(g, 'end'), more(), x, 'y' in globals(), z)") == "end 3 [1, 2, 3] False 1"
    restore_snapshot(before.snapshot_id, root)
    assert say(sandbox, "print(next(g), more())") == "4 2"


def test_open_files_come_back_with_their_offsets(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(
        sandbox,
        "import os\nos.mkdir('d')\nopen('read', 'w').write('abcdefgh')\n"
        "r = open('read'); r.read(3)\n"
        "w = open('written', 'wb', buffering=0); w.write(b'12345')\n"
        "a = open('appended', 'ab', buffering=0); a.write(b'one')\n"
        "u = open('updated', 'w+b', buffering=0); u.write(b'0123456789'); u.seek(4)\n"
        "o = open('d/../read', 'rb'); o.read(1)\n"
        "t = open('/tmp/scratch', 'w+', buffering=1); t.write('line\\n')\n"
        "fd = os.open('read', os.O_RDONLY); os.lseek(fd, 5, 0)\n"
        "folder = os.open('d', os.O_RDONLY)\n"
        "buffered = open('buffered', 'w'); buffered.write('not flushed yet')\n",
    )
    taken = create_snapshot(session_id, root)
    say(
        sandbox,
        "r.read(); w.write(b'lost'); a.write(b'lost'); u.write(b'lost'); t.write('lost\\n'); os.close(fd)\n"
        "buffered.close(); r.close()\nos.remove('read')\nopen('other', 'w').write('x')",
    )
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(r.read(), o.read(2), os.read(fd, 9), r.fileno() != fd)") == "defgh b'bc' b'fgh' True"
    say(sandbox, "w.write(b'6'); a.write(b'two'); u.write(b'!'); t.write('second\\n'); buffered.close()")
    say(sandbox, "os.close(fd); os.close(folder)")
    got = {name: data for name, data in tree(root / session_id).items() if name != ".metadata.json"}
    assert got == {
        "read": b"abcdefgh",
        "written": b"123456",
        "appended": b"onetwo",
        "updated": b"0123!56789",
        "buffered": b"not flushed yet",
        "d": None,
    }
    assert say(sandbox, "print(open('/tmp/scratch').read().split())") == "['line', 'second']"


def test_what_happened_to_an_open_file_while_the_session_was_away(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "for n in 'abc': open(n, 'w').write('12345678')\na, b, c = open('a'), open('b'), open('c')")
    say(sandbox, "a.read(2); b.read(2); c.buffer.raw.seek(4)")
    create_snapshot(session_id, root)
    sandbox.close()
    (root / session_id / "a").unlink()
    (root / session_id / "c").unlink()
    (root / session_id / "c").write_text("replaced")
    again = sessions.get(session_id, resume=True)
    assert say(again, "print(a.fileno() > 2, b.read())") == "True 345678"
    gone = again.execute("a.seek(0); a.read()")
    assert gone.error is not None, "its descriptor is closed, which Python says"
    assert gone.error.name == "OSError"
    assert say(again, "print(c.read())") == "aced", "the file of that name now, at the same place"


def test_a_transaction_goes_on(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(
        sandbox,
        "import sqlite3\ndb = sqlite3.connect('data.db'); db.execute('create table t (n)'); db.commit()\n"
        "memory = sqlite3.connect(':memory:'); memory.execute('create table m (n)'); memory.execute('insert into m values (7)')\n"
        "db.executemany('insert into t values (?)', [(i,) for i in range(5)])\n"
        "cursor = db.execute('select n from t order by n'); cursor.fetchone(); cursor.fetchone()",
    )
    taken = create_snapshot(session_id, root)
    say(sandbox, "db.rollback(); db.execute('insert into t values (99)'); db.commit()")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(cursor.fetchall(), db.in_transaction)") == "[(2,), (3,), (4,)] True"
    assert say(sandbox, "print(memory.execute('select n from m').fetchone())") == "(7,)"
    say(sandbox, "db.commit()")
    assert (
        say(sandbox, "print(sqlite3.connect('data.db').execute('select count(*), max(n) from t').fetchone())")
        == "(5, 4)"
    )


def test_the_monotonic_clock_goes_on(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    began = time.monotonic()
    before = float(say(sandbox, "import time; t = time.monotonic(); print(t)"))
    taken = create_snapshot(session_id, root)
    left = time.monotonic()
    time.sleep(0.3)
    sandbox.close()
    came = time.monotonic()
    again = sessions.get(session_id, resume=True)
    passed = float(say(again, "print(time.monotonic() - t)"))
    here = time.monotonic() - began - (came - left)
    assert 0 <= passed <= here, "the guest does not notice that it was away, nor does time run back"
    restore_snapshot(taken.snapshot_id, root)
    assert float(say(again, "print(time.monotonic())")) >= before


def test_an_asyncio_task_goes_on(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(
        sandbox,
        "import asyncio\nsteps = []\nasync def work():\n    for n in range(3):\n        steps.append(n)\n        await gate.wait()\n"
        "        gate.clear()\n    return 'done'\ngate = asyncio.Event()\ntask = asyncio.create_task(work())\nawait asyncio.sleep(0)",
    )
    create_snapshot(session_id, root)
    sandbox.close()
    again = sessions.get(session_id, resume=True)
    code = (
        "for _ in range(3):\n    gate.set()\n    await asyncio.sleep(0.01)\nprint(steps, task.done() and task.result())"
    )
    assert say(again, code) == "[0, 1, 2] done"


FILES = """
import os
os.makedirs('deep/er/est'); os.makedirs('empty/folder')
open('empty-file', 'w').close()
open('deep/er/est/file', 'w').write('x' * 10)
open('large', 'wb').write(os.urandom(3 << 20) + b'end')
for name in ('with space', 'ünïcode-名前', 'line\\nbreak', 'back\\\\slash', '-dash', '~', '.hidden', 'x' * 200, "quote'\\""):
    open(name, 'w').write(name)
with open('sparse', 'wb') as f:
    f.seek(5 << 20); f.write(b'end')
os.symlink('deep/er', 'link'); os.symlink('nowhere', 'dangling')
os.utime('deep/er/est/file', ns=(1_000_000_000_123_456_789, 1_000_000_000_123_456_789))
open('/tmp/in-tmp', 'w').write('tmp')
"""


def times(folder: Path) -> dict[str, int]:
    return {
        str(p.relative_to(folder)): p.lstat().st_mtime_ns
        for p in folder.rglob("*")
        if p.is_file() and not p.is_symlink()
    }


def test_files_come_back_exactly(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, FILES)
    folder = root / session_id
    first = create_snapshot(session_id, root)
    was, when = tree(folder), times(folder)
    del was[".metadata.json"], when[".metadata.json"]
    assert first.file_count == 13
    assert first.file_bytes > 8 << 20
    say(
        sandbox,
        "import shutil\nshutil.rmtree('deep'); os.remove('empty-file'); os.rename('large', 'renamed')\n"
        "open('sparse', 'r+b').write(b'changed'); os.remove('link'); os.mkdir('link'); os.remove('~'); os.mkdir('~')\n"
        "os.rename('empty/folder', 'empty/other'); shutil.rmtree('empty'); open('empty', 'w').write('a file now')\n"
        "open('new', 'w').write('new'); os.remove('/tmp/in-tmp'); open('/tmp/new', 'w').close()",
    )
    second = create_snapshot(session_id, root)
    later = tree(folder)
    del later[".metadata.json"]
    for snapshot, files in ((first, was), (second, later), (first, was)):
        restore_snapshot(snapshot.snapshot_id, root)
        found = tree(folder)
        assert found.pop(".metadata.json")
        assert found == files
    found_times = times(folder)
    del found_times[".metadata.json"]
    assert found_times == when
    assert say(sandbox, "print(sorted(n for n in os.listdir('/tmp') if 'new' in n or 'in-' in n))") == "['in-tmp']"
    assert (folder / "sparse").stat().st_size == (5 << 20) + 3


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ("os.rename('a', 'b')", "['a', 'f', 'l']"),
        ("os.remove('l'); os.symlink('g', 'l')", "['a', 'f', 'l']"),
        ("os.rmdir('a'); open('a', 'w').close()", "['a', 'f', 'l']"),
        ("t = os.stat('f').st_mtime_ns; open('f', 'w').write('two'); os.utime('f', ns=(t, t))", "['a', 'f', 'l']"),
        ("open('f', 'w').write('two')", "['a', 'f', 'l']"),
    ],
)
def test_small_changes_are_not_overlooked(sessions: Opened, root: Path, change: str, shown: str) -> None:
    """An empty folder renamed, a link turned, a file of the same size written at once: each is a change."""
    session_id, sandbox = sessions.create()
    say(sandbox, "import os\nos.mkdir('a'); os.symlink('f', 'l'); open('f', 'w').write('one')")
    first = create_snapshot(session_id, root)
    say(sandbox, change)
    second = create_snapshot(session_id, root)
    changed = tree(root / session_id)
    restore_snapshot(first.snapshot_id, root)
    code = "print(sorted(os.listdir('.')), os.path.isdir('a'), os.readlink('l'), open('f').read())"
    assert say(sandbox, code) == f"{shown} True f one"
    restore_snapshot(second.snapshot_id, root)
    again = tree(root / session_id)
    assert {k: v for k, v in again.items() if k != ".metadata.json"} == {
        k: v for k, v in changed.items() if k != ".metadata.json"
    }


def test_tmp_and_open_files_in_it_come_back_when_a_session_is_opened_again(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "import tempfile\nf = tempfile.NamedTemporaryFile('w+'); f.write('kept'); f.flush(); name = f.name")
    create_snapshot(session_id, root)
    sandbox.close()
    again = sessions.get(session_id, resume=True)
    assert say(again, "f.seek(0); print(f.read(), open(name).read())") == "kept kept"


def test_a_reset_between_two_snapshots(sessions: Opened, root: Path) -> None:
    """What was in memory before the reset is not laid over the memory after it."""
    session_id, sandbox = sessions.create()
    say(sandbox, "data = [bytes([n % 256]) * 70_000 for n in range(1000)]; x = 1")
    first = create_snapshot(session_id, root)
    live = open_sessions.live_session(session_id, root)
    assert live is not None
    live.sandbox.reset()
    say(sandbox, "y = 2; more = [str(n) * 10 for n in range(1000)]")
    second = create_snapshot(session_id, root)
    assert second.memory_bytes < first.memory_bytes
    say(sandbox, "y = 3")
    restore_snapshot(second.snapshot_id, root)
    assert say(sandbox, "print(y, more[999], 'x' in globals())") == "2 " + "999" * 10 + " False"
    restore_snapshot(first.snapshot_id, root)
    assert say(sandbox, "print(x, data[199][:3], 'y' in globals())") == "1 b'\\xc7\\xc7\\xc7' False"


def test_a_crash_between_two_snapshots(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; x = [0] * 100_000; f = open('f', 'w+'); f.write('abc'); f.flush()")
    first = create_snapshot(session_id, root)
    assert not sandbox.execute("x[0] = 1; f.write('def'); f.flush(); os.abort()").success
    second = create_snapshot(session_id, root)
    say(sandbox, "x[1] = 5")
    restore_snapshot(second.snapshot_id, root)
    assert say(sandbox, "print(x[:2], len(x), f.tell())") == "[0, 0] 100000 3"
    restore_snapshot(first.snapshot_id, root)
    assert say(sandbox, "print(x[:2], open('f').read())") == "[0, 0] abc"


def test_much_memory_that_was_freed_does_not_stay(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; big = os.urandom(30 << 20); x = 1")
    full = create_snapshot(session_id, root)
    assert full.stored_bytes > 30 << 20
    say(sandbox, "del big")
    create_snapshot(session_id, root)
    forget(root, full)
    say(sandbox, "y = bytes(60 << 20)")
    third = create_snapshot(session_id, root)
    assert third.stored_bytes < 1 << 20, "zeros take no room"
    sandbox.close()
    again = sessions.get(session_id, resume=True)
    assert say(again, "print(x, len(y), any(y))") == f"1 {60 << 20} False"


# ---- random numbers

DRAW = "import random, numpy\nprint(random.random(), numpy.random.rand(), flush=True)"


def test_a_resumed_session_continues_its_stream(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, DRAW)
    taken = create_snapshot(session_id, root)
    expected = say(sandbox, DRAW)
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, DRAW) == expected
    restore_snapshot(taken.snapshot_id, root)
    sandbox.close()
    assert say(sessions.get(session_id, resume=True), DRAW) == expected


def test_a_fork_and_every_start_have_streams_of_their_own(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, DRAW)
    taken = create_snapshot(session_id, root)
    drawn = [say(sandbox, DRAW)]
    for _ in range(2):
        fork = fork_session(session_id, root, snapshot_id=taken.snapshot_id)
        drawn.append(say(sessions.get(fork, resume=True), DRAW))
    drawn += [say(sessions.create()[1], DRAW) for _ in range(2)]
    drawn.append(say(sessions.create(snapshot_id=taken.snapshot_id)[1], DRAW))
    numbers = [number for line in drawn for number in line.split()]
    assert len(set(numbers)) == len(numbers) == 12


# ---- what is listed


def test_what_is_said_of_a_snapshot(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    started = datetime.now(UTC)
    say(sandbox, "open('f', 'w').write('12345'); x = list(range(100_000))")
    first = create_snapshot(session_id, root, label="one", metadata={"note": ["anything", 1]})
    second = create_snapshot(session_id, root)
    assert (first.session_id, first.trigger, first.label, first.parent) == (session_id, "user", "one", "")
    assert (second.label, second.parent) == ("", first.snapshot_id)
    assert started <= first.created_at < second.created_at <= datetime.now(UTC)
    assert first.metadata == {"note": ["anything", 1]}
    assert (first.file_count, first.file_bytes) == (1, 5)
    assert first.memory_bytes > 100 << 20
    assert 0 < first.stored_bytes < first.memory_bytes // 4
    assert second.stored_bytes < first.stored_bytes // 4, "what did not change is not stored again"
    assert len(first.image_key) > 8
    assert list_snapshots(root) == [second, first] == list_snapshots(root, session_id)
    assert list_snapshots(root, "nobody") == []
    assert get_snapshot(first.snapshot_id, root) == first
    restored = restore_snapshot(first.snapshot_id, root)
    assert restored.execution_count == first.execution_count
    assert [s.label for s in list_snapshots(root, session_id)] == ["restored one", "before restore", "", "one"]
    other, _ = sessions.create()
    create_snapshot(other, root, label="x" * 1000)
    assert len(list_snapshots(root, other)[0].label) == 200
    assert len(list_snapshots(root)) == 5


@pytest.mark.parametrize("wrong", ["", "nonsense", "../../etc", "11111111-1111-4111-8111-111111111111"])
def test_ids_of_no_snapshot(root: Path, wrong: str) -> None:
    for do in (get_snapshot, restore_snapshot, delete_snapshot):
        with pytest.raises((ConfigurationError, FileNotFoundError), match="snapshot"):
            do(wrong, root)
    with pytest.raises((ConfigurationError, FileNotFoundError), match="snapshot"):
        export_snapshot(wrong, root / "out", root)
    assert list_snapshots(root) == []


def test_a_session_that_is_not_open(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "x = 1")
    first = create_snapshot(session_id, root)
    say(sandbox, "x = 2")
    second = create_snapshot(session_id, root)
    sandbox.close()
    (root / session_id / "uploaded").write_text("meanwhile")
    third = create_snapshot(session_id, root, label="closed")
    assert (third.parent, third.file_count) == (second.snapshot_id, 1)
    restore_snapshot(first.snapshot_id, root)
    assert tree(root / session_id).keys() == {".metadata.json"}
    again = sessions.get(session_id, resume=True)
    assert say(again, "print(x)") == "1"
    again.close()
    restore_snapshot(third.snapshot_id, root)
    again = sessions.get(session_id, resume=True)
    assert say(again, "print(x, open('uploaded').read())") == "2 meanwhile"
    again.close()
    assert sessions.get(session_id).execute("x").error is not None, "without resume only files are kept"


def test_a_session_that_never_ran(sessions: Opened, root: Path) -> None:
    session_id = make_session(root, files={"data": "x"})
    taken = create_snapshot(session_id, root)
    assert taken.file_count == 1
    (root / session_id / "data").unlink()
    restore_snapshot(taken.snapshot_id, root)
    again = sessions.get(session_id, resume=True)
    assert say(again, "print(open('data').read())") == "x"
    with pytest.raises(FileNotFoundError, match="no session"):
        create_snapshot("nobody", root)


def test_a_session_that_is_open_elsewhere(root: Path) -> None:
    session_id = make_session(root)
    taken = create_snapshot(session_id, root)
    with other_process(HOLD, root, session_id):
        with pytest.raises(SessionLocked):
            create_snapshot(session_id, root)
        with pytest.raises(SessionLocked):
            restore_snapshot(taken.snapshot_id, root)
        fork_session(session_id, root, snapshot_id=taken.snapshot_id)
    assert len(list_snapshots(root, session_id)) == 1


def test_a_session_that_is_busy(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    refused: list[Exception] = []

    def during(_: Any) -> None:
        try:
            create_snapshot(session_id, root)
        except SandboxBusy as e:
            refused.append(e)

    sandbox.execute("print('hi', flush=True)", on_event=during)
    assert refused
    assert list_snapshots(root) == []
    assert say(sandbox, "print(1)") == "1"


def test_more_memory_than_the_policy_allows(sessions: Opened, root: Path) -> None:
    from wasm_kernel import ExecutionPolicy

    session_id, sandbox = sessions.create()
    say(sandbox, "x = bytes(300 << 20)")
    create_snapshot(session_id, root)
    sandbox.close()
    with pytest.raises(WasmKernelError, match="memory"):
        sessions.get(session_id, resume=True, policy=ExecutionPolicy(memory_bytes=320 << 20))
    assert say(sessions.get(session_id, resume=True), "print(len(x))") == str(300 << 20)


# ---- forks


def test_a_fork_goes_its_own_way(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "g = iter(range(5)); next(g); open('f', 'w').write('shared'); h = open('f'); h.read(2)")
    began = time.perf_counter()
    fork = fork_session(session_id, root)
    print(f"fork {1000 * (time.perf_counter() - began):.1f} ms")
    say(sandbox, "next(g); open('f', 'w').write('changed')")
    other = sessions.get(fork, resume=True)
    assert say(other, "print(next(g), open('f').read(), h.read())") == "1 shared ared"
    say(other, "open('f', 'w').write('forked')")
    assert say(sandbox, "print(next(g), open('f').read())") == "2 changed"
    (first,) = list_snapshots(root, fork)
    assert first.parent == ""
    assert first.metadata["forked_from"] == list_snapshots(root, session_id)[0].snapshot_id
    assert first.stored_bytes == 0
    delete_session_workspace(session_id, root)
    collect_snapshots(root)
    other.close()
    assert say(sessions.get(fork, resume=True), "print(next(g))") == "1"


def test_a_new_session_from_a_snapshot(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "x = 5; open('f', 'w').write('y')")
    taken = create_snapshot(session_id, root)
    new, other = sessions.create(snapshot_id=taken.snapshot_id)
    assert new != session_id
    assert say(other, "x += 1; print(x, open('f').read())") == "6 y"
    assert say(sandbox, "print(x)") == "5"
    with pytest.raises(FileNotFoundError):
        create_session_sandbox(workspace_root=root, snapshot_id="11111111-1111-4111-8111-111111111111")


# ---- retention


def test_prune_by_age_number_and_space(sessions: Opened, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id, sandbox = sessions.create()
    taken = []
    for n in range(6):
        say(sandbox, f"import os; x{n} = os.urandom(300_000)")
        taken.append(create_snapshot(session_id, root, label=str(n)))
    sandbox.close()

    def labels() -> list[str]:
        return sorted(s.label for s in list_snapshots(root))

    policy = SnapshotRetention(max_per_session=4)
    plan = prune_snapshots(policy, root, dry_run=True)
    assert plan.deleted == [taken[0].snapshot_id, taken[1].snapshot_id]
    assert len(labels()) == 6
    assert prune_snapshots(policy, root).deleted == plan.deleted
    assert labels() == ["2", "3", "4", "5"]
    size = sum(f.stat().st_size for f in store(root).rglob("*") if f.is_file())
    assert prune_snapshots(SnapshotRetention(max_age_hours=1), root).deleted == []
    done = prune_snapshots(SnapshotRetention(max_total_bytes=1), root)
    assert labels() == ["5"], "the newest of a session stays"
    assert len(done.deleted) == 3
    assert sum(f.stat().st_size for f in store(root).rglob("*") if f.is_file()) <= size
    again = sessions.get(session_id, resume=True)
    assert say(again, "print(len(x5))") == "300000"
    again.close()
    prune_snapshots(SnapshotRetention(max_age_hours=0), root)
    assert len(labels()) == 1


def test_deleting_gives_space_back(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "y = 5")
    first = create_snapshot(session_id, root)
    say(sandbox, "import os; x = os.urandom(8 << 20)")
    create_snapshot(session_id, root, label="big")
    restore_snapshot(first.snapshot_id, root)
    for snapshot in list_snapshots(root):
        if snapshot.label in ("big", "before restore"):
            forget(root, snapshot)
    assert collect_snapshots(root).freed > 7 << 20
    assert collect_snapshots(root).freed == 0
    assert not verify_snapshots(root).damaged
    say(sandbox, "y = 6")
    restore_snapshot(first.snapshot_id, root)
    assert say(sandbox, "print(y)") == "5"


def test_the_snapshot_that_the_next_one_builds_upon_is_deleted(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; x = os.urandom(1 << 20); first = x[:3]; open('f', 'w').write('f')")
    time.sleep(0.1)  # so that the file counts as known
    create_snapshot(session_id, root)
    forget(root, create_snapshot(session_id, root))
    forget(root, list_snapshots(root)[0])
    assert collect_snapshots(root).freed > 1 << 20
    say(sandbox, "y = 2")
    taken = create_snapshot(session_id, root)
    say(sandbox, "x = y = None; os.remove('f')")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(len(x), x[:3] == first, y, open('f').read())") == f"{1 << 20} True 2 f"


def test_snapshots_go_with_their_session(sessions: Opened, root: Path) -> None:
    ids = [make_session(root, files={"f": str(n)}) for n in range(3)]
    for session_id in ids:
        create_snapshot(session_id, root)
    delete_session_workspace(ids[0], root)
    assert {s.session_id for s in list_snapshots(root)} == set(ids[1:])
    set_age(root, ids[1], 1000)
    assert prune_sessions(24, root).deleted_sessions == [ids[1]]
    assert {s.session_id for s in list_snapshots(root)} == {ids[2]}
    collect_snapshots(root)
    assert leftovers(root) == []
    assert [p.name for p in (store(root) / "manifests").iterdir()] == [ids[2]]


def test_verify_tells_progress_and_damage(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "x = 1")
    create_snapshot(session_id, root)
    told: list[tuple[int, int]] = []
    good = verify_snapshots(root, on_progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == told[-1][1]
    assert not good.damaged


# ---- who may see it


def test_nobody_else_may_read_them_and_no_guest_sees_them(sessions: Opened, root: Path, tmp_path: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "secret = 1")
    taken = create_snapshot(session_id, root)
    exported = export_snapshot(taken.snapshot_id, tmp_path / "out.snapshot", root)
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    for path in [store(root), *store(root).rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.parent != store(root), path
    assert stat.S_IMODE(store(root).stat().st_mode) == 0o700
    code = "import os\nprint([os.path.join(a, n) for a, d, f in os.walk('/') for n in d + f if 'snap' in n and '/lib' not in a])"
    assert taken.snapshot_id not in say(sandbox, code)
    assert ".wasm-kernel" not in say(sandbox, code)
    assert list_session_files(session_id, root) == []


# ---- damage


def damage(root: Path) -> None:
    """Turn bits in the middle of every pack but leave their indexes alone."""
    for pack in (store(root) / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        middle = len(data) // 3
        data[middle : middle + 2000] = bytes(b ^ 0xFF for b in data[middle : middle + 2000])
        pack.write_bytes(data)


def test_damage_makes_one_snapshot_unusable_and_nothing_else(sessions: Opened, root: Path) -> None:
    other, second = sessions.create()
    say(second, "kept = 2")
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; x = 1; open('f', 'w').write('now')")
    good = create_snapshot(session_id, root, label="good")
    say(sandbox, "x = os.urandom(2 << 20); open('g', 'wb').write(os.urandom(1 << 20))")
    packs = set((store(root) / "packs").iterdir())
    bad = create_snapshot(session_id, root, label="bad")
    for pack in set((store(root) / "packs").iterdir()) - packs:
        data = bytearray(pack.read_bytes())
        data[100_000:200_000] = bytes(100_000)
        pack.write_bytes(data)
    say(sandbox, "x = 3; open('f', 'w').write('later'); open('g', 'w').write('other')")
    was = tree(root / session_id)
    with pytest.raises(DamagedChunk, match="damaged"):
        restore_snapshot(bad.snapshot_id, root)
    assert say(sandbox, "print(x, open('f').read())") == "3 later"
    assert {k: v for k, v in tree(root / session_id).items() if k != ".metadata.json"} == {
        k: v for k, v in was.items() if k != ".metadata.json"
    }
    assert verify_snapshots(root).damaged
    with pytest.raises(DamagedChunk):
        export_snapshot(bad.snapshot_id, root / "out", root)
    assert not (root / "out").exists()
    restore_snapshot(good.snapshot_id, root)
    assert say(sandbox, "print(x, open('f').read())") == "1 now"
    assert say(second, "print(kept)") == "2"


def test_the_newest_is_damaged_and_an_older_one_is_restored(sessions: Opened, root: Path) -> None:
    """The session is not open, and cannot be opened as it was left."""
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; x = 1")
    good = create_snapshot(session_id, root)
    say(sandbox, "x = os.urandom(2 << 20)")
    packs = set((store(root) / "packs").iterdir())
    create_snapshot(session_id, root)
    sandbox.close()
    for pack in set((store(root) / "packs").iterdir()) - packs:
        pack.unlink()
    shutil.rmtree(store(root) / "memory")
    with pytest.raises(WasmKernelError):
        get_session_sandbox(session_id, workspace_root=root, resume=True)
    with pytest.raises(WasmKernelError):
        create_snapshot(session_id, root)
    restore_snapshot(good.snapshot_id, root)
    assert say(sessions.get(session_id, resume=True), "print(x)") == "1"


def test_a_damaged_manifest_is_not_listed(sessions: Opened, root: Path) -> None:
    session_id = make_session(root)
    good, bad = create_snapshot(session_id, root), create_snapshot(session_id, root)
    path = store(root) / "manifests" / session_id / f"{bad.snapshot_id}.snap"
    whole = path.read_bytes()
    for damaged in (b"", b"x", whole[:40], whole[:60] + b"?" + whole[61:], b"x" * 5000):
        path.write_bytes(damaged)
        assert list_snapshots(root) == [good]
        with pytest.raises(WasmKernelError):
            restore_snapshot(bad.snapshot_id, root)
    delete_snapshot(bad.snapshot_id, root)
    restore_snapshot(good.snapshot_id, root)


def test_a_take_that_failed_is_not_listed_and_the_next_one_is_whole(
    sessions: Opened, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wasm_kernel.host.store.chunks import Transaction

    session_id, sandbox = sessions.create()
    say(sandbox, "x = 1")
    create_snapshot(session_id, root)
    say(sandbox, "y = list(range(200_000)); open('f', 'w').write('z')")
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            create_snapshot(session_id, root)
    say(sandbox, "z = 3; open('g', 'w').write('goes on')")
    taken = create_snapshot(session_id, root)
    assert len(list_snapshots(root)) == 2
    say(sandbox, "del x, y, z")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(x, sum(y), z)") == "1 19999900000 3"


def test_captures_that_build_upon_a_lost_one_are_lost_too(sessions: Opened, root: Path) -> None:
    """Two captures wait to be written, and the first cannot be: the second would be half a memory."""
    from wasm_kernel.host.store.chunks import Transaction

    session_id, sandbox = sessions.create()
    live = open_sessions.live_session(session_id, root)
    assert live is not None
    recorder = live.recorder
    say(sandbox, "x = 1")
    recorder.take("user")
    captures = []
    for code in ("y = list(range(200_000))", "z = 3"):
        say(sandbox, code)
        captures.append(recorder.capture())
    commit, Transaction.commit = Transaction.commit, lambda *a: (_ for _ in ()).throw(OSError(28, "full"))  # type: ignore[assignment,method-assign]
    try:
        with pytest.raises(OSError, match="full"):
            recorder.write(captures[0], "checkpoint")
    finally:
        Transaction.commit = commit  # type: ignore[method-assign]
    with pytest.raises(WasmKernelError, match="builds on"):
        recorder.write(captures[1], "checkpoint")
    assert len(list_snapshots(root)) == 1
    taken = recorder.take("user")
    say(sandbox, "del x, y, z")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(x, sum(y), z)") == "1 19999900000 3"


def test_a_restore_gives_the_same_memory_whichever_way_it_goes(sessions: Opened, root: Path) -> None:
    """What differs is replaced in the memory of now; that has to be, byte for byte, what is read from nothing."""
    session_id, sandbox = sessions.create()
    live = open_sessions.live_session(session_id, root)
    assert live is not None
    recorder, guest = live.recorder, live.sandbox
    taken = []
    for code in (
        "x = [0]; blob = bytearray(b'a') * 3_000_000",
        "x += range(50_000); blob[::4096] = bytes(733)",
        "import pandas as pd; df = pd.DataFrame({'a': range(100_000)})",
        "del blob, df; import gc; gc.collect(); more = bytearray(20 << 20)",
    ):
        say(sandbox, code)
        taken.append(recorder.take("user"))
    patched = 0
    choose = random.Random(5)
    for n in [0, 3, 1, 2, 2, 0, 3]:
        if choose.random() < 0.5:
            say(sandbox, f"x = list(range({choose.randrange(90_000)})); junk = bytes({choose.randrange(9_000_000)})")
        manifest = read_snapshot(recorder.store, session_id, taken[n].snapshot_id)
        before = guest._guest.memory
        recorder.restore(manifest)
        patched += guest._guest.memory is before
        anew = recorder._prepare(guest._guest.memory, False, manifest, guest.image)()
        assert anew is not guest._guest.memory
        assert _laid_out(anew) == _laid_out(guest._guest.memory)
        assert say(sandbox, "print(len(x))") == ["1", "50001", "50001", "50001"][n]
    assert patched == 7


def test_what_the_guest_freed_is_not_stored(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; x = 1; data = os.urandom(40 << 20); many = [os.urandom(5000) for _ in range(4000)]")
    full = create_snapshot(session_id, root)
    assert full.stored_bytes > (40 << 20) + 4000 * 5000
    say(sandbox, "del data, many")
    create_snapshot(session_id, root)
    forget(root, full)
    collect_snapshots(root)
    assert sum(f.stat().st_size for f in (store(root) / "packs").iterdir()) < 10 << 20
    assert say(sandbox, "print(x, len(bytearray(100 << 20)))") == f"1 {100 << 20}"


def test_memory_becomes_zeros_only_when_the_host_asked(sessions: Opened, root: Path) -> None:
    _, sandbox = sessions.create()
    say(
        sandbox,
        "import _host, numpy as np, wasm_guest.wire as wire\na = np.ones(1 << 20)\n"
        "_host.call(wire.encode_event(wire.Unused([[a.__array_interface__['data'][0], a.nbytes]])))",
    )
    assert say(sandbox, "print(int(a.sum()))") == str(1 << 20)


@pytest.mark.parametrize(
    "lie",
    ["[[0, 1 << 40]]", "[[(1 << 32) - 70000, 70000]]", "[[-5, 1 << 20]]", "[[2, 3], 'x']", "[[0, 100 << 20]]"],
    ids=["too long", "beyond", "negative", "malformed", "in use"],
)
def test_a_guest_that_lies_about_its_memory_harms_itself(sessions: Opened, root: Path, lie: str) -> None:
    session_id, sandbox = sessions.create()
    say(
        sandbox,
        "import wasm_guest.driver as driver, wasm_guest.wire as wire\n"
        f"driver._tell = lambda event, tell=driver._tell: tell(wire.Unused({lie}) if type(event) is wire.Unused else event)",
    )
    try:
        create_snapshot(session_id, root)
    except WasmKernelError:
        assert "100 << 20" in lie
    sandbox.execute("x = 1")  # whatever comes of it
    sandbox.reset()
    assert say(sandbox, "print(6 * 7)") == "42"


def _laid_out(memory: GuestMemory) -> bytes:
    """What an instance would see."""
    with mmap.mmap(-1, memory.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as there:
        anchor = ctypes.c_char.from_buffer(there)
        memory.attach(ctypes.addressof(anchor))
        del anchor
        return there[:]


def test_what_was_there_before_a_restore_is_never_lost(sessions: Opened, root: Path) -> None:
    """Also when the snapshot that is restored is the newest one."""
    session_id, sandbox = sessions.create()
    say(sandbox, "x = 1; open('f', 'w').write('old')")
    taken = create_snapshot(session_id, root)
    say(sandbox, "x = 2; open('f', 'w').write('new')")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(x, open('f').read())") == "1 old"
    (before,) = [s for s in list_snapshots(root, session_id) if s.label == "before restore"]
    restore_snapshot(before.snapshot_id, root)
    assert say(sandbox, "print(x, open('f').read())") == "2 new"


# ---- other machines


def test_another_machine_goes_on(sessions: Opened, root: Path, tmp_path: Path) -> None:
    session_id, sandbox = sessions.create()
    say(sandbox, FILES + "\ng = iter(range(9)); next(g); f = open('deep/er/est/file'); f.read(4)")
    taken = create_snapshot(session_id, root, label="to go")
    exported = export_snapshot(taken.snapshot_id, tmp_path / "out.snapshot", root)
    code = (
        "import sys\nfrom wasm_kernel import *\n"
        "new, snapshot = import_snapshot(sys.argv[1], sys.argv[2])\n"
        "with get_session_sandbox(new, workspace_root=sys.argv[2], resume=True) as sandbox:\n"
        "    print(sandbox.execute('print(next(g), f.read(), open(\"/tmp/in-tmp\").read())').stdout, end='')\n"
        "print(new, snapshot.metadata['forked_from'])"
    )
    said = run_python(code, exported, tmp_path / "elsewhere").splitlines()
    assert said[0] == "1 xxxxxx tmp"
    new, origin = said[1].split()
    assert origin == taken.snapshot_id
    there, here = tree(tmp_path / "elsewhere" / new), tree(root / session_id)
    del there[".metadata.json"], here[".metadata.json"]
    assert there == here
    assert new != session_id
    again, _ = import_snapshot(exported, root)
    assert again not in (new, session_id)
    assert say(sessions.get(again, resume=True), "print(next(g))") == "1"


def test_a_snapshot_of_nothing_but_files_travels_too(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root, files={"a/b": "c"})
    exported = export_snapshot(create_snapshot(session_id, root).snapshot_id, tmp_path / "x", root)
    new, _ = import_snapshot(exported, tmp_path / "elsewhere")
    assert tree(tmp_path / "elsewhere" / new)["a/b"] == b"c"


def test_times_of_take_restore_and_fork(sessions: Opened, root: Path) -> None:
    """Not a benchmark: numbers to look at, and a bound on the work that only a mistake passes."""
    session_id, sandbox = sessions.create()
    say(sandbox, "import pandas as pd, numpy as np; df = pd.DataFrame(np.random.rand(100_000, 10))")
    took: dict[str, float] = {}

    def timed(name: str, do: Callable[[], Any]) -> Any:
        began = time.process_time()
        value = do()
        took[name] = 1000 * (time.process_time() - began)
        return value

    taken: Snapshot = timed("first take", lambda: create_snapshot(session_id, root))
    say(sandbox, "x = 1")
    timed("small take", lambda: create_snapshot(session_id, root))
    timed("fork", lambda: fork_session(session_id, root, snapshot_id=taken.snapshot_id))
    timed("restore", lambda: restore_snapshot(taken.snapshot_id, root))
    timed("first result", lambda: say(sandbox, "print(len(df))"))
    print(
        {name: f"{ms:.1f} ms" for name, ms in took.items()}, f"{taken.stored_bytes:,} of {taken.memory_bytes:,} bytes"
    )
    assert took["fork"] < 1000
    assert took["small take"] < 2000


def test_logged(sessions: Opened, root: Path, log: Log) -> None:
    session_id = make_session(root)
    taken = create_snapshot(session_id, root, logger=log.logger)
    restore_snapshot(taken.snapshot_id, root, logger=log.logger)
    fork = fork_session(session_id, root, snapshot_id=taken.snapshot_id, logger=log.logger)
    delete_snapshot(taken.snapshot_id, root, logger=log.logger)
    assert log.event("session.snapshot.created")["snapshot_id"] == taken.snapshot_id
    assert log.event("session.snapshot.restored")["snapshot_id"] == taken.snapshot_id
    assert log.event("session.forked")["session_id"] == fork
    assert log.event("session.snapshot.deleted")["session_id"] == session_id
    assert log.warnings() == []


def test_old_ones_by_age(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wasm_kernel.sessions.housekeeping import planning

    session_id = make_session(root)
    first = create_snapshot(session_id, root)
    second = create_snapshot(session_id, root)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(hours=5)

    monkeypatch.setattr(planning, "datetime", Later)
    assert prune_snapshots(SnapshotRetention(max_age_hours=6), root).deleted == []
    assert prune_snapshots(SnapshotRetention(max_age_hours=4), root).deleted == [first.snapshot_id]
    assert [s.snapshot_id for s in list_snapshots(root)] == [second.snapshot_id]


def test_paths_deeper_than_any_path_reaches(sessions: Opened, root: Path) -> None:
    """A guest can make them; they are left out, and nothing fails."""
    session_id, sandbox = sessions.create()
    say(sandbox, "import os; x = 1; open('f', 'w').write('f')")
    here = os.open(root / session_id, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        here, above = os.open("d" * 200, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(os.open("bottom", os.O_CREAT, dir_fd=here))
    os.close(here)
    taken = create_snapshot(session_id, root)
    say(sandbox, "x = 2; os.remove('f')")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(x, open('f').read())") == "1 f"


def test_a_cell_waits_before_it_changes_files_that_are_not_saved_yet(sessions: Opened, root: Path) -> None:
    """Captured, but not written yet: the next cell may run, and change variables, but not these files."""
    session_id, sandbox = sessions.create()
    live = open_sessions.live_session(session_id, root)
    assert live is not None
    say(sandbox, "import os; x = 1; open('f', 'w').write('one'); open('/tmp/t', 'w').write('one')")
    guest = live.recorder.capture()
    say(sandbox, "x = 2")  # needs no file
    written = threading.Event()

    def write_later() -> None:
        time.sleep(0.5)
        written.set()
        live.recorder.write(guest, "checkpoint")

    writer = threading.Thread(target=write_later)
    writer.start()
    say(sandbox, "open('f', 'w').write('two'); os.remove('/tmp/t')")
    assert written.is_set(), "the cell did not wait"
    writer.join()
    (taken,) = list_snapshots(root)
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(x, open('f').read(), open('/tmp/t').read())") == "1 one one"


def test_a_capture_that_nobody_wrote_is_made_up_for(sessions: Opened, root: Path) -> None:
    """A kernel that ends may drop one: the next has to give everything that it gave."""
    session_id, sandbox = sessions.create()
    live = open_sessions.live_session(session_id, root)
    assert live is not None
    say(sandbox, "x = 1")
    live.recorder.take("user")
    say(sandbox, "y = list(range(200_000))")
    live.sandbox.capture(live.recorder.split, everything=live.recorder.begin_capture())
    say(sandbox, "z = 3")
    taken = live.recorder.take("user")
    say(sandbox, "del x, y, z")
    restore_snapshot(taken.snapshot_id, root)
    assert say(sandbox, "print(x, sum(y), z)") == "1 19999900000 3"


def test_a_snapshot_that_fails_lets_nobody_wait_for_its_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until files are saved, a cell that wants to change one waits; those of a snapshot that failed are never saved."""
    monkeypatch.setattr(recorder, "_FILE_PATIENCE", 3600.0)
    with get_session_sandbox("one", workspace_root=root) as sandbox:
        say(sandbox, "open('f', 'w').write('1')")
        (root / STATE_FOLDER / "snapshots").write_text("this is no folder")
        for _ in range(2):
            with pytest.raises(OSError):
                create_snapshot("one", root)
        writing = threading.Thread(target=sandbox.execute, args=("open('f', 'w').write('2')",), daemon=True)
        writing.start()
        writing.join(60)
        assert not writing.is_alive()
        (root / STATE_FOLDER / "snapshots").unlink()
        taken = create_snapshot("one", root)
        say(sandbox, "open('f', 'w').write('3')")
        restore_snapshot(taken.snapshot_id, root)
        assert (root / "one" / "f").read_text() == "2"
