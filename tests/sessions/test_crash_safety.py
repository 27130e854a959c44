"""Kill -9 at random moments, 200 times, with two processes on one root: sessions are whole or absent afterwards."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import leftovers, make_legacy, make_session, other_process, tree
from tests.sessions.nursery import Nursery, opened
from tests.sessions.workers import OPERATIONS, is_whole, sessions
from wasm_kernel import (
    archive_sessions,
    export_session,
    get_session_sandbox,
    import_session,
    list_session_files,
    prune_sessions,
    read_session_file,
    write_session_file,
)
from wasm_kernel.host.disk.locks import live_sessions
from wasm_kernel.host.disk.records import read_record

KILLS = 200
SHARE = {"create": 40, "execute": 30, "write": 40, "prune": 50, "archive": 40}
LONGEST = {"create": 0.2, "execute": 0.6, "write": 0.15, "prune": 0.2, "archive": 0.2}


class Reader(threading.Thread):
    """Reads every session's metadata all the time; notes what is not whole."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self._root = root
        self.stop = threading.Event()
        self.seen = 0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.stop.is_set():
            for session_id in sessions(self._root):
                with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                    data = (self._root / session_id / ".metadata.json").read_bytes()
                    self.seen += 1
                    try:
                        assert json.loads(data)["session_id"] == session_id
                    except (ValueError, KeyError, AssertionError):
                        self.faults.append(f"{session_id}: {data!r}")
            time.sleep(0.005)


def check_sessions(root: Path) -> None:
    """Every session is whole."""
    for session_id in sessions(root):
        record = read_record(root / session_id)  # raises if it is damaged
        if record is None:  # one of the two that still run may have deleted it since it was listed
            assert not (root / session_id).exists(), f"{session_id} has lost its metadata"
        else:
            assert record.session_id == session_id
    for name in ("files-0", "files-1", "files-2"):
        for path in list_session_files(name, root):
            assert is_whole(read_session_file(name, path, root)), f"{name}/{path} is half a file"


@pytest.fixture
def nursery(root: Path, tmp_path: Path) -> Iterator[Nursery]:
    with opened("tests.sessions.workers", root, tmp_path / "archive") as nursery:
        yield nursery


@pytest.mark.slow
def test_200_kills_at_random_moments(root: Path, tmp_path: Path, nursery: Nursery) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    assert sum(SHARE.values()) == KILLS
    assert set(SHARE) == set(OPERATIONS)
    for name in ("files-0", "files-1", "files-2", "busy-0", "busy-1"):
        make_session(root, session_id=name)
    reader = Reader(root)
    reader.start()
    nursery.run_until("archive", lambda: list((tmp_path / "archive").glob("*.tar.zst")))

    def look(number: int) -> None:
        if number % 50 == 49:
            check_sessions(root)

    killed = nursery.kill_all(SHARE, LONGEST, chance, look)
    assert killed == KILLS
    reader.stop.set()
    reader.join()
    assert reader.seen > 200
    assert reader.faults == []
    assert live_sessions(root) == set(), "the dead hold no lock"
    check_sessions(root)
    failed = {p.name: p.read_text() for p in (tmp_path / "archive").glob("failed-*")}
    assert failed == {}, "one worker disturbed another"

    # What an interrupted archiver left is whole or absent, too.
    archives = list((tmp_path / "archive").glob("*.tar.zst"))
    for archive in archives[:20]:
        import_session(archive, tmp_path / "back")
    assert archives

    # The next prune leaves no trace of the dead, and everything that is left can be used.
    before = {session_id: tree(root / session_id).get(".metadata.json") for session_id in sessions(root)}
    result = prune_sessions(24, root)
    assert result.errors == {}
    assert result.live_sessions == []
    assert result.skipped_sessions == []
    assert leftovers(root) == []
    assert set(sessions(root)) == set(before) - set(result.deleted_sessions)
    for name in ("busy-0", "busy-1"):
        with get_session_sandbox(name, workspace_root=root) as sandbox:
            assert sandbox.execute("print(6 * 7)").stdout == "42\n"
            assert read_record(root / name) is not None
    write_session_file("files-0", "after", b"the end", root)
    archive_sessions(0, tmp_path / "archive", root)
    assert sessions(root) == []
    assert [p.name for p in (tmp_path / "archive").iterdir() if not p.name.endswith(".tar.zst")] == []


WRITTEN, LEGACY = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
KILLED_BETWEEN = (
    f"WRITTEN, LEGACY = {WRITTEN!r}, {LEGACY!r}"
    + """
import os, sys
from pathlib import Path
from wasm_kernel import *
from wasm_kernel.sessions.catalog import create_session_folder
from wasm_kernel.sessions.log import SandboxLogger
root, operation, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
calls = 0
def counted(real):
    def call(*args, **options):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), 9)
        return real(*args, **options)
    return call
for name in ("open", "mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "write", "ftruncate", "link"):
    setattr(os, name, counted(getattr(os, name)))
quiet = SandboxLogger(level="error")
if operation == "create": create_session_folder(root, quiet)[2].release()
elif operation == "write": write_session_file(WRITTEN, "d/e/file", b"new" * 1000, root)
elif operation == "prune": prune_sessions(24, root, workers=1)
elif operation == "delete": delete_session_workspace(WRITTEN, root)
elif operation == "archive": archive_sessions(24, root.parent / "archive", root)
elif operation == "repair": repair_session_metadata(LEGACY, root)
elif operation == "import": import_session(root.parent / "given.tar.zst", root)
print("survived")
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["create", "write", "prune", "delete", "archive", "repair", "import"])
def test_killed_before_each_system_call_that_changes_something(tmp_path: Path, operation: str, forked: Any) -> None:
    """Not at random: before the first, the second, the third ... until the operation gets to its end."""
    given = make_session(tmp_path / "elsewhere", files={f"f{n}": "x" * 100 for n in range(3)})
    export_session(given, tmp_path / "given.tar.zst", tmp_path / "elsewhere")
    for last in range(1, 200):
        root = tmp_path / f"root{last}"
        old = make_session(root, hours=100, files={"a": "x", "d/b": "y"})
        young = make_session(root, files={"a": "x"})
        make_session(root, session_id=WRITTEN, files={"d/e/file": "old"})
        make_legacy(root, session_id=LEGACY, files={"f": "x"})
        survived = forked(root, operation, last)
        for session_id in sessions(root):
            found = read_record(root / session_id)
            assert found is not None or session_id == LEGACY, f"{last}: {session_id} has no metadata"
            names = {name for name in tree(root / session_id) if ".metadata.json." not in name}
            if session_id == old:
                assert names == {".metadata.json", "a", "d", "d/b"}, f"{last}: half a session"
            elif session_id not in (young, WRITTEN, LEGACY):  # made by create or import
                assert names in ({".metadata.json"}, {".metadata.json", "f0", "f1", "f2"}), f"{last}: {names}"
                assert operation != "import" or len(names) == 4, f"{last}: {names}"
        if (root / WRITTEN).exists():
            assert read_session_file(WRITTEN, "d/e/file", root) in (b"old", b"new" * 1000)
        assert (root / LEGACY / "f").read_text() == "x"
        prune_sessions(50, root)
        assert leftovers(root) == [], f"{last}"
        assert tree(root / young).keys() == {".metadata.json", "a"}
        if survived:
            assert last > 5
            return
    pytest.fail("it never got to its end")


@pytest.fixture
def forked() -> Iterator[Any]:
    """Runs KILLED_BETWEEN in a process forked from one that has imported everything; says whether it survived."""
    code = """
import os, sys
import wasm_kernel.sessions.archive, wasm_kernel.sessions.files, wasm_kernel.sessions.housekeeping, zstandard, structlog
program = compile(sys.argv[1], "killed", "exec")
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        sys.argv = ["killed", *line.rstrip("\\n").split("\\t")]
        sys.stdout = open(os.devnull, "w")
        try: exec(program, {"__name__": "killed"})
        except BaseException:
            import traceback; traceback.print_exc(); os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    with other_process(code, KILLED_BETWEEN) as process:

        def run(root: Path, operation: str, last: int) -> bool:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{root}\t{operation}\t{last}\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            assert status in (0, -signal.SIGKILL), f"{operation} failed at {last}"
            return status == 0

        yield run


def test_temporary_files_go_from_sessions_with_a_name_of_their_own_too(root: Path) -> None:
    """They are not pruned themselves, but what a killed process left in them goes."""
    make_session(root, session_id="abc-123", files={".metadata.json.0123456789ab": "{", "kept": "x"})
    prune_sessions(24, root)
    with get_session_sandbox("abc-123", workspace_root=root):
        pass
    assert tree(root / "abc-123").keys() == {".metadata.json", "kept"}
