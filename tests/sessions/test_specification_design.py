"""The specification's document 000, the design of metadata and pruning: its testing strategy, edge cases, extensions."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import (
    HOLD,
    Log,
    make_corrupted,
    make_legacy,
    make_session,
    metadata,
    other_process,
    set_age,
    tree,
)
from wasm_kernel import (
    ConfigurationError,
    RetentionPolicy,
    archive_sessions,
    import_session,
    prune_sessions,
    repair_session_metadata,
)
from wasm_kernel.sessions import session as session_module

# ---- unit tests


def test_metadata_creation(sessions: Opened, root: Path, log: Log) -> None:
    """Unit test: test_metadata_creation()"""
    session_id, _ = sessions.create(logger=log.logger)
    found = metadata(root, session_id)
    assert list(found) == ["session_id", "created_at", "updated_at", "version"]
    assert found["created_at"].endswith("Z")
    assert (root / session_id / ".metadata.json").read_text() == json.dumps(found, indent=2)
    assert log.event("session.metadata.created")["session_id"] == session_id


def test_metadata_update(sessions: Opened, root: Path, log: Log) -> None:
    """Unit test: test_metadata_update()"""
    session_id, sandbox = sessions.create(logger=log.logger)
    before = metadata(root, session_id)
    sandbox.execute("1")
    after = metadata(root, session_id)
    assert after["updated_at"] > before["updated_at"]
    assert after["created_at"] == before["created_at"]
    assert log.event("session.metadata.updated")["session_id"] == session_id


def test_prune_old_sessions(root: Path) -> None:
    """Unit test: test_prune_old_sessions()"""
    old, new = make_session(root, hours=25), make_session(root, hours=1)
    assert prune_sessions(workspace_root=root).deleted_sessions == [old]  # 24 hours are the default
    assert not (root / old).exists()
    assert (root / new).is_dir()


def test_prune_dry_run(root: Path) -> None:
    """Unit test: test_prune_dry_run()"""
    old = make_session(root, hours=25)
    assert prune_sessions(workspace_root=root, dry_run=True).deleted_sessions == [old]
    assert (root / old).is_dir()


def test_prune_skips_missing_metadata(root: Path) -> None:
    """Unit test: test_prune_skips_missing_metadata()"""
    legacy = make_legacy(root, {"a": "x"})
    result = prune_sessions(0, root)
    assert (result.deleted_sessions, result.skipped_sessions) == ([], [legacy])
    assert tree(root / legacy) == {"a": b"x"}


def test_prune_handles_corrupted_metadata(root: Path) -> None:
    """Unit test: test_prune_handles_corrupted_metadata()"""
    corrupted = [make_corrupted(root, damage) for damage in (b"", b"{", b"[1]", b'{"updated_at": 5}', b"\0" * 5000)]
    old = make_session(root, hours=25)
    before = {i: tree(root / i) for i in corrupted}
    result = prune_sessions(0, root)
    assert result.deleted_sessions == [old]
    assert set(result.skipped_sessions) == set(corrupted)
    assert {i: tree(root / i) for i in corrupted} == before


def test_backwards_compat_no_metadata(sessions: Opened, root: Path) -> None:
    """Unit test: test_backwards_compat_no_metadata()"""
    legacy = make_legacy(root)
    sandbox = sessions.get(legacy)
    assert sandbox.execute("print('runs')").stdout == "runs\n"
    assert not (root / legacy / ".metadata.json").exists()


# ---- integration tests


def test_multi_turn_workflow(sessions: Opened, root: Path) -> None:
    """Integration test: Multi-turn workflow"""
    session_id, sandbox = sessions.create()
    seen = [metadata(root, session_id)["updated_at"]]
    for turn in range(4):
        if turn == 2:  # a later turn of the conversation opens the session anew
            sandbox.close()
            sandbox = sessions.get(session_id)
        assert sandbox.execute(f"open('turn{turn}', 'w').write('x')").success
        seen.append(metadata(root, session_id)["updated_at"])
    assert seen == sorted(set(seen))
    assert metadata(root, session_id)["execution_count"] == 4
    assert "last_error_at" not in metadata(root, session_id)
    sandbox.execute("1/0")
    assert metadata(root, session_id)["last_error_at"] > seen[-1]


def test_prune_workflow(sessions: Opened, root: Path) -> None:
    """Integration test: Prune workflow"""
    made = [sessions.create() for _ in range(3)]
    for _, sandbox in made:
        sandbox.execute("open('data', 'w').write('x')")
        sandbox.close()
    ids = [session_id for session_id, _ in made]
    for session_id in ids[:2]:
        set_age(root, session_id, 48)
    assert set(prune_sessions(24, root).deleted_sessions) == set(ids[:2])
    assert [p.name for p in root.iterdir() if not p.name.startswith(".")] == ids[2:]
    assert sessions.get(ids[2]).execute("print(open('data').read())").stdout == "x\n"


# ---- security tests


def test_guest_code_cannot_read_or_write_metadata(sessions: Opened, root: Path) -> None:
    """Security test: Verify guest code cannot read/write .metadata.json"""
    session_id, sandbox = sessions.create()
    before = metadata(root, session_id)["session_id"]
    for mode in ("r", "w", "a", "r+", "x"):
        result = sandbox.execute(f"open('.metadata.json', {mode!r})")
        assert result.error is not None, mode
        assert "OSError" in result.error.name or result.error.name == "FileNotFoundError"
    assert metadata(root, session_id)["session_id"] == before
    assert session_id not in sandbox.execute("import os; print(os.environ, os.listdir('/'))").stdout


def test_pruning_respects_workspace_root_boundaries(root: Path, tmp_path: Path) -> None:
    """Security test: Verify pruning respects workspace_root boundaries"""
    beside = make_session(tmp_path, hours=1000, files={"a": "x"})
    below = make_session(root / "folder", hours=1000, files={"a": "x"})
    outside = tmp_path / "outside"
    make_session(outside, hours=1000, session_id="precious", files={"a": "x"})
    old = make_session(root, hours=1000)
    (root / old / "way_out").symlink_to(outside)
    (root / old / "file_out").symlink_to(outside / "precious" / "a")
    before = tree(outside)
    assert prune_sessions(24, root).deleted_sessions == [old]
    assert tree(outside) == before
    assert (tmp_path / beside / "a").exists()
    assert (root / "folder" / below / "a").exists()


# ---- edge cases


def test_missing_metadata_is_backfilled_only_when_asked(root: Path) -> None:
    """Edge case: Missing Metadata"""
    legacy = make_legacy(root, {"first": "x", "last": "y"})
    os.utime(root / legacy / "first", (1_700_000_000, 1_700_000_000))
    os.utime(root / legacy / "last", (1_700_003_600, 1_700_003_600))
    assert prune_sessions(0, root).skipped_sessions == [legacy]
    record = repair_session_metadata(legacy, root)
    assert (record.created_at.timestamp(), record.updated_at.timestamp()) == (1_700_000_000, 1_700_003_600)
    assert metadata(root, legacy)["updated_at"] == "2023-11-14T23:13:20.000000Z"
    assert repair_session_metadata(legacy, root) == record, "repairing what is whole changes nothing"
    assert prune_sessions(24, root).deleted_sessions == [legacy]


def test_corrupted_metadata_is_kept_when_repaired(root: Path) -> None:
    """Edge case: Corrupted Metadata"""
    corrupted = make_corrupted(root, b"{ damaged")
    assert prune_sessions(0, root).skipped_sessions == [corrupted]
    record = repair_session_metadata(corrupted, root)
    assert metadata(root, corrupted)["session_id"] == record.session_id == corrupted
    [kept] = [p for p in (root / corrupted).iterdir() if "damaged" in p.name]
    assert kept.read_bytes() == b"{ damaged"
    prune_sessions(1000, root)
    assert kept.exists(), "a prune does not sweep what a repair kept"
    with pytest.raises(FileNotFoundError):
        repair_session_metadata("no-such-session", root)


def test_permission_errors_do_not_end_a_prune(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edge case: Permission Errors"""
    ids = [make_session(root, hours=48 + i) for i in range(6)]
    real = os.rename

    def rename(source: object, target: object, **options: int) -> None:
        if str(source) == ids[3]:  # by its name in the root
            raise PermissionError(13, "Permission denied", str(source))
        real(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename)
    result = prune_sessions(24, root)
    assert set(result.deleted_sessions) == set(ids) - {ids[3]}
    assert "Permission denied" in result.errors[ids[3]]
    assert result.reclaimed_bytes > 0
    assert (root / ids[3] / ".metadata.json").exists()


def test_concurrent_execution_is_never_pruned(sessions: Opened, root: Path) -> None:
    """Edge case: Concurrent Execution"""
    mine, sandbox = sessions.create()
    set_age(root, mine, 1000)
    other = make_session(root, hours=1000)
    with other_process(HOLD, root, other):
        for dry_run in (True, False):
            result = prune_sessions(0, root, dry_run=dry_run)
            assert result.deleted_sessions == []
            assert set(result.live_sessions) == {mine, other}
    assert sandbox.execute("print('still here')").stdout == "still here\n"
    sandbox.close()
    assert set(prune_sessions(0, root).deleted_sessions) == {mine, other}


def test_clock_skew_never_turns_updated_at_back(sessions: Opened, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edge case: Clock Skew"""
    session_id, sandbox = sessions.create()
    began = datetime.now(UTC)
    now = began

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return now

    monkeypatch.setattr(session_module, "datetime", Clock)
    seen = [metadata(root, session_id)["updated_at"]]
    for hours in (3, 2, -5, -5, 4):
        now = began + timedelta(hours=hours)
        sandbox.execute("1")
        seen.append(metadata(root, session_id)["updated_at"])
    assert seen == sorted(set(seen)), "strictly increasing"
    ahead = make_session(root, hours=-50)  # from a machine whose clock is ahead
    sandbox.close()
    assert ahead not in prune_sessions(0, root).deleted_sessions


# ---- future extensions


def test_configurable_retention_policies(root: Path) -> None:
    """Extension: Configurable Retention Policies"""
    ids = [make_session(root, hours=hours, files={"f": bytes(1000)}) for hours in (50, 40, 30, 20, 10)]
    dry = prune_sessions(policy=RetentionPolicy(max_age_hours=45), workspace_root=root, dry_run=True)
    assert dry.deleted_sessions == ids[:1]
    assert prune_sessions(policy=RetentionPolicy(max_sessions=4), workspace_root=root).deleted_sessions == ids[:1]
    kept = RetentionPolicy(max_total_bytes=3600, keep=frozenset(ids[1:2]))
    assert prune_sessions(policy=kept, workspace_root=root).deleted_sessions == ids[2:3]
    none = RetentionPolicy(min_free_bytes=1)
    assert prune_sessions(policy=none, workspace_root=root).deleted_sessions == []
    everything = RetentionPolicy(min_free_bytes=1 << 60)
    assert prune_sessions(policy=everything, workspace_root=root).deleted_sessions == [ids[1], ids[3], ids[4]]
    as_written = RetentionPolicy(max_age_hours=24, max_sessions=1000, min_free_space_gb=10)
    assert as_written == RetentionPolicy(max_age_hours=24, max_sessions=1000, min_free_bytes=10 << 30)
    assert as_written.is_bounded and replace(as_written, max_sessions=1).min_free_bytes == 10 << 30
    with pytest.raises(ConfigurationError, match="min_free_space_gb is -1"):
        RetentionPolicy(min_free_space_gb=-1)
    with pytest.raises(ConfigurationError, match="give one of them"):
        RetentionPolicy(min_free_space_gb=1, min_free_bytes=1)


def test_rich_metadata(sessions: Opened, root: Path) -> None:
    """Extension: Rich Metadata"""
    session_id, sandbox = sessions.create(notebook="work/analysis.ipynb")
    sandbox.execute("1")
    sandbox.execute("1/0")
    found = metadata(root, session_id)
    assert found["notebook"] == "work/analysis.ipynb"
    assert found["execution_count"] == 2
    assert found["last_error_at"] <= found["updated_at"]
    assert found["last_error"] == "ZeroDivisionError: division by zero"
    sandbox.execute("raise ValueError('\\ud800 ' + 'é\\n' * 10_000_000)")  # a guest's words are data
    assert metadata(root, session_id)["last_error"].startswith("ValueError: ? é é")
    assert (root / session_id / ".metadata.json").stat().st_size < 4000


def test_session_archival(root: Path, tmp_path: Path) -> None:
    """Extension: Session Archival"""
    old = make_session(root, hours=200, files={"a/b": "content"}, notebook="n.ipynb")
    new = make_session(root, hours=100)
    dry = archive_sessions(older_than_hours=168, archive_path=tmp_path / "archive", workspace_root=root, dry_run=True)
    assert dry.dry_run
    assert list(dry.archived) == [old]
    assert not (tmp_path / "archive").exists()
    done = archive_sessions(older_than_hours=168, archive_path=tmp_path / "archive", workspace_root=root)
    assert done.archived == dry.archived
    assert not (root / old).exists()
    assert (root / new).exists()
    back = import_session(done.archived[old], root)
    assert (root / back / "a" / "b").read_text() == "content"
    assert metadata(root, back)["notebook"] == "n.ipynb"


def test_incremental_pruning(root: Path) -> None:
    """Extension: Incremental Pruning"""
    ids = [make_session(root, hours=100 - i) for i in range(5)]
    assert prune_sessions(older_than_hours=24, workspace_root=root, max_deletions=2).deleted_sessions == ids[:2]
    assert prune_sessions(older_than_hours=24, workspace_root=root, max_deletions=0).deleted_sessions == []
    assert prune_sessions(older_than_hours=24, workspace_root=root, max_deletions=20).deleted_sessions == ids[2:]
