"""Locks between processes, and the gate that removals go through."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.sessions.helpers import HOLD, make_session, other_process, run_python
from wasm_kernel import SessionLocked
from wasm_kernel.host.disk.locks import (
    forget_free_lock,
    gate,
    is_live,
    live_sessions,
    lock_session,
    state_folder,
)


def test_a_lock_names_its_holder(tmp_path: Path) -> None:
    with other_process(HOLD, tmp_path, "abc-123") as holder:
        with pytest.raises(SessionLocked) as caught:
            lock_session(tmp_path, "abc-123")
        said = str(caught.value)
        assert "abc-123" in said
        assert re.search(rf"process {holder.pid}\b", said)
        assert "wait=" in said, "what to do about it"
        assert str(datetime.now().year) in said
        lock_session(tmp_path, "another").release()


def test_a_lock_of_this_process_is_named_so(tmp_path: Path) -> None:
    lock = lock_session(tmp_path, "abc-123")
    with pytest.raises(SessionLocked, match="this process"):
        lock_session(tmp_path, "abc-123")
    lock.release()
    lock.release()
    lock_session(tmp_path, "abc-123").release()


def test_waiting_for_a_lock(tmp_path: Path) -> None:
    with other_process(HOLD, tmp_path, "abc-123") as holder:
        started = time.monotonic()
        with pytest.raises(SessionLocked):
            lock_session(tmp_path, "abc-123", wait=0.3)
        assert time.monotonic() - started > 0.25
        assert holder.stdin is not None

        def release() -> None:
            time.sleep(0.2)
            assert holder.stdin is not None
            holder.stdin.write("\n")
            holder.stdin.flush()

        helper = threading.Thread(target=release)
        helper.start()
        lock = lock_session(tmp_path, "abc-123", wait=200)
        helper.join()
        lock.release()


def test_kill_9_releases_a_lock(tmp_path: Path) -> None:
    with other_process(HOLD, tmp_path, "abc-123") as holder:
        assert is_live(tmp_path, "abc-123")
        assert live_sessions(tmp_path) == {"abc-123"}
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert not is_live(tmp_path, "abc-123")
        lock = lock_session(tmp_path, "abc-123")
        with pytest.raises(SessionLocked, match="this process"):
            lock_session(tmp_path, "abc-123")
        lock.release()


def test_a_child_that_was_forked_does_not_keep_a_lock(tmp_path: Path) -> None:
    """A program may fork (multiprocessing does) while a session is open."""
    code = """
import os, sys, time
from pathlib import Path
from wasm_kernel import SessionLocked
from wasm_kernel.host.disk.locks import lock_session
root = Path(sys.argv[1])
lock = lock_session(root, "abc-123")
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
lock.release()
try:
    lock_session(root, "abc-123").release()
    print("free")
except SessionLocked as e:
    print(e)
os.kill(child, 9)
os.waitpid(child, 0)
"""
    assert run_python(code, tmp_path) == "free\n"


def test_a_lock_excludes_every_other_process(tmp_path: Path) -> None:
    """Processes that add to a number under the lock lose none of it."""
    code = """
import sys
from pathlib import Path
from wasm_kernel.host.disk.locks import forget_free_lock, lock_session
root = Path(sys.argv[1])
print("ready", flush=True)
for _ in range(100):
    lock = lock_session(root, "abc-123", wait=60)
    number = root / "number"
    number.write_text(str(int(number.read_text()) + 1))
    lock.release()
    forget_free_lock(root, "abc-123")  # as deleting a session does
print("done", flush=True)
sys.stdin.readline()
"""
    (tmp_path / "number").write_text("0")
    with other_process(code, tmp_path) as one, other_process(code, tmp_path) as two:
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n"
    assert (tmp_path / "number").read_text() == "200"


def test_looking_whether_a_session_is_live_never_gets_in_the_way(tmp_path: Path) -> None:
    """A prune, or its dry run, looks at every lock; who opens a session then must not be told that it is in use."""
    session_id = make_session(tmp_path)
    code = """
import sys
from pathlib import Path
from wasm_kernel import prune_sessions
print("ready", flush=True)
while True:
    prune_sessions(24, Path(sys.argv[1]), dry_run=True)
"""
    lock_session(tmp_path, session_id).release()
    with other_process(code, tmp_path):
        end = time.monotonic() + 3
        while time.monotonic() < end:
            lock_session(tmp_path, session_id).release()


def test_a_free_lock_is_forgotten_and_a_held_one_is_not(tmp_path: Path) -> None:
    lock = lock_session(tmp_path, "abc-123")
    forget_free_lock(tmp_path, "abc-123")
    assert lock.path.exists()
    lock.release()
    forget_free_lock(tmp_path, "abc-123")
    assert not lock.path.exists()
    forget_free_lock(tmp_path, "abc-123")


def test_no_lock_is_taken_while_sessions_are_removed(tmp_path: Path) -> None:
    taken = threading.Event()

    def take() -> None:
        lock_session(tmp_path, "abc-123").release()
        taken.set()

    with gate(tmp_path, exclusive=True):
        helper = threading.Thread(target=take)
        helper.start()
        assert not taken.wait(0.2)
    assert taken.wait(60)
    helper.join()
    with gate(tmp_path, exclusive=False), gate(tmp_path, exclusive=False):
        take()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    locks = state_folder(tmp_path) / "locks"
    (locks / "abc-123").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError):
        lock_session(tmp_path, "abc-123")
    assert (tmp_path / "precious").read_text() == "precious"


def test_what_a_lock_file_says_is_only_said(tmp_path: Path) -> None:
    """A holder that wrote nonsense, or nothing yet, is another process."""
    for said in (b"", b"nonsense", b"[]", json.dumps({"pid": "x", "since": "y"}).encode(), b"9" * 5000):
        lock = lock_session(tmp_path, "abc-123")
        lock.path.write_bytes(said)
        with pytest.raises(SessionLocked, match="another process"):
            lock_session(tmp_path, "abc-123")
        lock.release()


def test_a_lock_that_cannot_be_looked_at_counts_as_held(tmp_path: Path) -> None:
    """Who asks may be about to delete the session. In a process of its own, which has no descriptor left."""
    code = """
import os, resource, sys
from pathlib import Path
from wasm_kernel.host.disk.locks import is_live, lock_session
root = Path(sys.argv[1])
lock = lock_session(root, "held")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        os.dup(0)
except OSError:
    print(is_live(root, "held"))
"""
    assert run_python(code, tmp_path) == "True\n"
