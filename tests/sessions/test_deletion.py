"""Deleting a session with a last snapshot, by library, command line and REST's recipe; what is remembered of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import HOLD, leftovers, make_corrupted, make_session, other_process, set_age
from wasm_kernel import (
    SessionLocked,
    Snapshot,
    create_snapshot,
    delete_session_workspace,
    fork_session,
    list_snapshots,
    prune_sessions,
    verify_snapshots,
)
from wasm_kernel.apps import cli
from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.image import image
from wasm_kernel.sessions import deletion
from wasm_kernel.sessions.snapshots import at_rest

WORK = (
    "x = 41; g = iter(range(9)); next(g); open('f.txt', 'w').write('first'); t = open('/tmp/t', 'w+'); t.write('tmp')"
)


def saved_session(sessions: Opened, root: Path) -> str:
    """A session at rest whose memory is in a checkpoint, as a kernel leaves it, and whose files changed afterwards."""
    session_id, sandbox = sessions.create(notebook="/home/ann/a.ipynb")
    assert sandbox.execute(WORK).success
    create_snapshot(session_id, root)
    sandbox.close()
    (root / session_id / "f.txt").write_text("uploaded later")
    set_age(root, session_id, 100)
    return session_id


def comes_back(sessions: Opened, root: Path, snapshot_id: str) -> None:
    """A new session from the snapshot has the variables and the files as they were at the end."""
    assert not verify_snapshots(root).damaged
    fork = fork_session("gone", root, snapshot_id=snapshot_id)
    result = sessions.get(fork, resume=True).execute("t.seek(0); print(x + next(g), open('f.txt').read(), t.read())")
    assert result.stdout == "42 uploaded later tmp\n"


def test_a_prune_leaves_a_snapshot_when_asked(sessions: Opened, root: Path) -> None:
    session_id = saved_session(sessions, root)
    dry = prune_sessions(24, root, dry_run=True, snapshot=True)
    assert (dry.deleted_sessions, dry.last_snapshots) == ([session_id], {})
    done = prune_sessions(24, root, snapshot=True)
    assert (done.deleted_sessions, done.reclaimed_bytes) == (dry.deleted_sessions, dry.reclaimed_bytes)
    assert not (root / session_id).exists() and leftovers(root) == []
    (last, before) = list_snapshots(root, session_id)
    assert done.last_snapshots == {session_id: last.snapshot_id}
    assert (last.trigger, last.parent, last.file_count) == ("session_close", before.snapshot_id, 1)
    prune_sessions(24, root)  # sweeps what belongs to nobody
    comes_back(sessions, root, last.snapshot_id)
    found = tombstones.read(root, session_id)
    assert found is not None and (found["notebook"], found["snapshot_id"]) == ("/home/ann/a.ipynb", last.snapshot_id)


def test_a_session_that_this_process_has_open_is_saved_with_its_memory(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    sandbox.execute(WORK)
    (root / session_id / "f.txt").write_text("uploaded later")
    last = delete_session_workspace(session_id, root, snapshot=True)
    assert isinstance(last, Snapshot) and last.trigger == "session_close"
    assert list_snapshots(root, session_id) == [last]  # its checkpoints are gone
    comes_back(sessions, root, last.snapshot_id)
    assert delete_session_workspace(session_id, root, snapshot=True) is None


def test_no_image_and_no_guest_are_needed(sessions: Opened, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = saved_session(sessions, root)
    with monkeypatch.context() as without:
        without.setattr(image, "parts", None)
        without.setattr(image, "load", None)
        last = delete_session_workspace(session_id, root, snapshot=True)
    assert last is not None
    comes_back(sessions, root, last.snapshot_id)


def test_files_alone(sessions: Opened, root: Path) -> None:
    """A session that was never saved has no memory to keep: its snapshot needs no image of ours either."""
    session_id = make_session(root, hours=100, files={"a/b": "content"})
    last = delete_session_workspace(session_id, root, snapshot=True)
    assert last is not None and (last.memory_bytes, last.image_key) == (0, "")
    fork = fork_session("gone", root, snapshot_id=last.snapshot_id)
    assert sessions.get(fork, resume=True).execute("print(open('a/b').read())").stdout == "content\n"


def test_a_fresh_start_that_was_promised_is_kept(sessions: Opened, root: Path) -> None:
    session_id = saved_session(sessions, root)
    record = root / session_id / ".metadata.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "fresh_start": True}))
    last = delete_session_workspace(session_id, root, snapshot=True)
    assert last is not None and last.memory_bytes == 0
    fork = fork_session("gone", root, snapshot_id=last.snapshot_id)
    assert (
        sessions.get(fork, resume=True)
        .execute("print('x' in globals(), open('f.txt').read())")
        .stdout.startswith("False")
    )


def test_damaged_memory_does_not_keep_files_from_being_saved(sessions: Opened, root: Path) -> None:
    session_id = saved_session(sessions, root)
    for path in (root / ".wasm-kernel" / "snapshots" / "manifests" / session_id).iterdir():
        data = bytearray(path.read_bytes())
        data[-40] ^= 1
        path.write_bytes(data)
    last = delete_session_workspace(session_id, root, snapshot=True)
    assert last is not None and last.memory_bytes == 0 and last.file_count == 1
    assert len(list(root.glob(f".wasm-kernel/snapshots/manifests/{session_id}/*"))) == 2  # the damaged one stays, too


def test_what_cannot_be_saved_is_not_deleted(sessions: Opened, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = saved_session(sessions, root)

    def full(*args: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(at_rest.SavedTree, "save", full)
    done = prune_sessions(24, root, snapshot=True)
    assert done.deleted_sessions == [] and "No space left" in done.errors[session_id]
    assert (root / session_id / "f.txt").exists() and tombstones.read(root, session_id) is None
    with pytest.raises(OSError, match="No space left"):
        delete_session_workspace(session_id, root, snapshot=True)
    assert (root / session_id / "f.txt").exists()


def test_one_in_use_is_neither_saved_nor_deleted(sessions: Opened, root: Path) -> None:
    session_id = saved_session(sessions, root)
    with other_process(HOLD, root, session_id):
        with pytest.raises(SessionLocked):
            delete_session_workspace(session_id, root, snapshot=True)
        assert prune_sessions(24, root, snapshot=True).live_sessions == [session_id]
    assert len(list_snapshots(root, session_id)) == 1


def test_a_prune_that_archives_and_saves(sessions: Opened, root: Path, tmp_path: Path) -> None:
    session_id = saved_session(sessions, root)
    words = ["prune", "--older-than", "24h", "--workspace-root", str(root), "--yes", "--snapshot"]
    assert cli.main([*words, "--archive", str(tmp_path / "old")]) == 0
    assert (tmp_path / "old" / f"{session_id}.tar.zst").is_file()
    comes_back(sessions, root, list_snapshots(root, session_id)[0].snapshot_id)


@pytest.mark.parametrize("by", ["prune", "delete"])
def test_the_command_line(by: str, sessions: Opened, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session_id = saved_session(sessions, root)
    words = ["prune", "--older-than", "24h"] if by == "prune" else ["sessions", "delete", session_id[:8]]
    assert cli.main([*words, "--workspace-root", str(root), "--snapshot", "--yes", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["sessions"]
    assert told["done"] and told["snapshot_id"] == list_snapshots(root, session_id)[0].snapshot_id
    comes_back(sessions, root, told["snapshot_id"])
    again = make_session(root, hours=100)
    assert cli.main(["sessions", "delete", again, "--workspace-root", str(root), "--snapshot", "--yes"]) == 0
    assert "1 left a snapshot" in capsys.readouterr().out


# ---- what is remembered


def test_what_was_deleted_is_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [make_session(root, hours=100 + n, title=f"t{n}") for n in range(5)]
    prune_sessions(24, root)
    assert set(tombstones.every_one(root)) == set(old) and tombstones.names(root) == set()
    found = tombstones.read(root, old[3])
    assert found is not None and (found["title"], found["snapshot_id"]) == ("t3", None) and found["deleted_at"]
    monkeypatch.setattr("wasm_kernel.sessions.housekeeping.carrying_out.MOST_REMEMBERED", 2)
    monkeypatch.setattr(deletion, "MOST_REMEMBERED", 2)
    more = [make_session(root, hours=100) for _ in range(4)]
    prune_sessions(24, root)
    assert len(tombstones.every_one(root)) == 2 and set(tombstones.every_one(root)) <= set(more)
    single = make_session(root)
    delete_session_workspace(single, root)
    assert single in tombstones.every_one(root) and len(tombstones.every_one(root)) == 2


def test_a_disk_that_takes_nothing_more_does_not_keep_from_deleting(root: Path) -> None:
    session_id = make_session(root, hours=100)
    (root / ".wasm-kernel").mkdir(exist_ok=True)
    (root / ".wasm-kernel" / "pruned").mkdir()  # where a file should be
    assert prune_sessions(24, root).deleted_sessions == [session_id]
    assert tombstones.read(root, session_id) is None


def test_hostile_metadata_is_cut(root: Path) -> None:
    wild = {"title": "t" * 100_000, "notebook": ["x"] * 9, "forked_from": "../" * 9000, "execution_count": -5}
    session_id = make_session(root, hours=100, sandbox={"idle_timeout_seconds": "soon"}, **wild)
    broken = make_corrupted(root)
    delete_session_workspace(session_id, root)
    delete_session_workspace(broken, root)
    found = tombstones.read(root, session_id)
    assert found is not None and len(json.dumps(found)) < 6000
    assert (found["execution_count"], found["idle_timeout_seconds"]) == (0, 0)
    assert tombstones.read(root, broken) == {
        "deleted_at": tombstones.read(root, broken)["deleted_at"],
        "snapshot_id": None,
    }  # type: ignore[index]
