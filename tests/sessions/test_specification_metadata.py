"""The specification's document 001, metadata and pruning: one test for each of its scenarios."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import (
    UUID4,
    Log,
    make_corrupted,
    make_legacy,
    make_session,
    metadata,
    put_files,
    set_age,
    tree,
    tree_bytes,
)
from wasm_kernel import PruneResult, prune_sessions
from wasm_kernel.host.disk.records import RecordKeeper, read_record
from wasm_kernel.sessions import catalog

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|\+00:00)")


def moment(text: str) -> datetime:
    """A timestamp of the metadata, which must have microseconds and be UTC."""
    assert TIMESTAMP.fullmatch(text), text
    return datetime.fromisoformat(text)


# ---- workspace creation


def test_create_session_with_metadata(sessions: Opened, root: Path) -> None:
    """Scenario: Create session with metadata"""
    session_id, sandbox = sessions.create()
    assert (sandbox.workspace / ".metadata.json").is_file()
    found = metadata(root, session_id)
    assert set(found) >= {"session_id", "created_at", "updated_at", "version"}
    assert found["session_id"] == session_id
    assert found["created_at"] == found["updated_at"]
    assert abs(datetime.now(UTC) - moment(found["created_at"])) < timedelta(seconds=1)


@pytest.mark.parametrize("failure", [PermissionError(errno.EACCES, "Permission denied"), OSError(errno.ENOSPC, "full")])
def test_session_creation_fails_gracefully_if_metadata_write_fails(
    sessions: Opened, log: Log, monkeypatch: pytest.MonkeyPatch, failure: OSError
) -> None:
    """Scenario: Session creation fails gracefully if metadata write fails"""

    def fail(*args: object, **options: object) -> None:
        raise failure

    monkeypatch.setattr(catalog, "write_record", fail)
    session_id, sandbox = sessions.create(logger=log.logger)
    assert sandbox.workspace.is_dir()
    assert not (sandbox.workspace / ".metadata.json").exists()
    [warning] = log.warnings()
    assert warning["session_id"] == session_id
    assert str(failure) in warning["error"]
    assert sandbox.execute("open('x', 'w').write('1'); print('usable')").stdout == "usable\n"
    assert len(log.warnings()) == 1, "an execution without metadata is silent"
    assert not (sandbox.workspace / ".metadata.json").exists()


# ---- metadata updates


def test_update_timestamp_on_successful_execution(sessions: Opened, root: Path) -> None:
    """Scenario: Update timestamp on successful execution"""
    session_id, sandbox = sessions.create()
    path = root / session_id / ".metadata.json"
    path.write_text(json.dumps({**metadata(root, session_id), "mine": {"kept": [1, None]}, "notebook": "a.ipynb"}))
    first = metadata(root, session_id)
    seen = [moment(first["updated_at"])]
    for _ in range(3):
        assert sandbox.execute("1").success
        found = metadata(root, session_id)
        seen.append(moment(found["updated_at"]))
        assert abs(datetime.now(UTC) - seen[-1]) < timedelta(seconds=1)
        for name in ("created_at", "session_id", "version", "mine", "notebook"):
            assert found[name] == first[name]
    assert seen == sorted(set(seen)), "updated_at must increase with each execution"
    assert metadata(root, session_id)["execution_count"] == 3


def test_a_timestamp_update_takes_less_than_10_ms(root: Path) -> None:
    session_id = make_session(root)
    keeper = RecordKeeper(root / session_id)
    times = []
    for _ in range(50):
        started = time.perf_counter()
        record = read_record(root / session_id)
        assert record is not None
        keeper.replace(record.touched(datetime.now(UTC)))
        times.append(time.perf_counter() - started)
    assert min(times) < 0.010  # the others may have waited for a busy machine


def test_an_execution_succeeds_even_if_the_timestamp_update_fails(
    sessions: Opened, root: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, sandbox = sessions.create(logger=log.logger)
    before = (root / session_id / ".metadata.json").read_bytes()

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RecordKeeper, "replace", fail)
    assert sandbox.execute("print('ran')").stdout == "ran\n"
    [warning] = log.warnings()
    assert warning["session_id"] == session_id
    assert "No space left" in warning["error"]
    assert (root / session_id / ".metadata.json").read_bytes() == before


def test_skip_timestamp_update_for_sessions_without_metadata(sessions: Opened, root: Path, log: Log) -> None:
    """Scenario: Skip timestamp update for sessions without metadata"""
    session_id = make_legacy(root, {"old.txt": "x"})
    sandbox = sessions.get(session_id, logger=log.logger)
    assert sandbox.execute("print(open('old.txt').read())").stdout == "x\n"
    sandbox.close()
    assert [p.name for p in (root / session_id).iterdir()] == ["old.txt"]
    assert log.warnings() == []
    assert not [event for event in log.events() if event["event"].startswith("session.metadata")]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"null", b"[]", b'{"session_id": "x"}', b"\xff\xfe\x00", b'{"version": 1, "session_id"']
)
def test_handle_corrupted_metadata_gracefully(sessions: Opened, root: Path, log: Log, damage: bytes) -> None:
    """Scenario: Handle corrupted metadata gracefully"""
    session_id = make_corrupted(root, damage)
    sandbox = sessions.get(session_id, logger=log.logger)
    assert sandbox.execute("print('ran')").stdout == "ran\n"
    sandbox.close()
    [warning] = log.warnings()
    assert warning["level"] == "warning"
    assert warning["session_id"] == session_id
    assert warning["error"]
    assert (root / session_id / ".metadata.json").read_bytes() == damage
    assert [p.name for p in (root / session_id).iterdir()] == [".metadata.json"]


# ---- metadata model


def test_metadata_schema_validation(sessions: Opened, root: Path) -> None:
    """Scenario: Metadata schema validation"""
    session_id, sandbox = sessions.create()
    for _ in range(2):  # as created, and as refreshed
        found = metadata(root, session_id)
        assert re.fullmatch(UUID4, found["session_id"])
        assert found["session_id"] == sandbox.workspace.name
        assert moment(found["created_at"]) <= moment(found["updated_at"])
        assert found["version"] == 1
        assert type(found["version"]) is int
        sandbox.execute("1")


def test_metadata_is_hidden_from_guest_code(sessions: Opened, root: Path) -> None:
    """Scenario: Metadata is hidden from guest code"""
    session_id, sandbox = sessions.create()
    put_files(sandbox.workspace, {"seen.txt": "x"})
    before = metadata(root, session_id)
    assert sandbox.execute("import os; print(os.listdir('/app'))").stdout == "['seen.txt']\n"
    result = sandbox.execute("open('/app/.metadata.json')")
    assert result.error is not None
    assert result.error.name == "FileNotFoundError"
    code = """
import os, glob
os.makedirs('d', exist_ok=True)
spellings = ['/app/.metadata.json', '.metadata.json', './.metadata.json', 'd/../.metadata.json', '/app//.metadata.json',
             '/app/d/../.metadata.json', '../app/.metadata.json', '.METADATA.JSON', '/app/.metadata.json/']
attempts = [lambda p: open(p).read(), lambda p: open(p, 'w').write('{}'), lambda p: open(p, 'a').write('x'), os.remove,
            os.stat, lambda p: os.rename(p, 'stolen'), lambda p: os.rename('seen.txt', p), lambda p: os.link(p, 'stolen'),
            lambda p: os.symlink(p, 'stolen') or open('stolen').read(), lambda p: os.open(p, os.O_RDWR), os.mkdir]
for p in spellings:
    for n, attempt in enumerate(attempts):
        try: print('REACHED', n, p, attempt(p))
        except OSError: pass
        try: os.unlink('stolen')
        except OSError: pass
print([n for _, _, names in os.walk('/app') for n in names], glob.glob('/app/.*'))
"""
    result = sandbox.execute(code)
    assert result.success, result.error
    assert "REACHED" not in result.stdout
    assert result.stdout == "['seen.txt'] []\n"
    found = metadata(root, session_id)
    assert {**found, "updated_at": 0, "execution_count": 0, "last_error_at": 0, "last_error": 0} == {
        **before,
        "updated_at": 0,
        "execution_count": 0,
        "last_error_at": 0,
        "last_error": 0,
    }


# ---- pruning


def some_sessions(root: Path) -> dict[str, str]:
    """Sessions of several ages; what to call them, and their ids."""
    return {
        "ancient": make_session(root, hours=1000, files={"a": "x" * 1000, "b/c": "y" * 500}),
        "old": make_session(root, hours=24.01, files={"a": "x" * 10}),
        "recent": make_session(root, hours=23.9, files={"a": "x"}),
        "new": make_session(root, hours=0),
        "legacy": make_legacy(root, {"a": "x"}),
    }


def test_prune_sessions_older_than_threshold(root: Path) -> None:
    """Scenario: Prune sessions older than threshold"""
    ids = some_sessions(root)
    result = prune_sessions(older_than_hours=24, workspace_root=root)
    assert isinstance(result, PruneResult)
    assert result.deleted_sessions == [ids["ancient"], ids["old"]]
    assert result.skipped_sessions == [ids["legacy"]]
    assert result.errors == {}
    assert not result.dry_run
    left = {p.name for p in root.iterdir() if not p.name.startswith(".")}
    assert left == {ids["recent"], ids["new"], ids["legacy"]}
    assert (root / ids["legacy"] / "a").read_text() == "x"


def test_dry_run_mode_lists_candidates_without_deleting(root: Path) -> None:
    """Scenario: Dry-run mode lists candidates without deleting"""
    ids = some_sessions(root)
    before = tree(root)
    dry = prune_sessions(older_than_hours=24, workspace_root=root, dry_run=True)
    assert dry.dry_run
    assert dry.deleted_sessions == [ids["ancient"], ids["old"]]
    assert tree(root) == before
    real = prune_sessions(older_than_hours=24, workspace_root=root)
    assert not real.dry_run
    assert real.deleted_sessions == dry.deleted_sessions
    assert real.skipped_sessions == dry.skipped_sessions
    assert real.reclaimed_bytes == dry.reclaimed_bytes


def test_calculate_disk_space_reclaimed(root: Path) -> None:
    """Scenario: Calculate disk space reclaimed"""
    ids = some_sessions(root)
    (root / ids["ancient"] / "link").symlink_to("a")
    expected = tree_bytes(root / ids["ancient"]) + tree_bytes(root / ids["old"])
    assert expected > 1510
    assert prune_sessions(24, root, dry_run=True).reclaimed_bytes == expected
    assert prune_sessions(24, root).reclaimed_bytes == expected
    assert prune_sessions(24, root).reclaimed_bytes == 0


def test_handle_permission_errors_gracefully(root: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Handle permission errors gracefully"""
    ids = [make_session(root, hours=48, files={"f": "x"}) for _ in range(4)]
    stubborn = make_session(root, hours=48, files={"d/stubborn": "x"})
    real = os.unlink

    def unlink(path: Any, **options: Any) -> None:
        if os.path.basename(path) == "stubborn":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        real(path, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    result = prune_sessions(older_than_hours=24, workspace_root=root, logger=log.logger)
    assert set(result.deleted_sessions) == set(ids)
    assert list(result.errors) == [stubborn]
    assert "Permission denied" in result.errors[stubborn]
    assert (root / stubborn / "d" / "stubborn").exists(), "what could not be deleted is where it was"
    assert [warning["session_id"] for warning in log.warnings()] == [stubborn]


def test_custom_workspace_root_for_pruning(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Custom workspace root"""
    monkeypatch.chdir(tmp_path)  # the default root is workspace/
    other = make_session(root, hours=48)
    mine = make_session(tmp_path / "custom", hours=48)
    before = tree(root)
    assert prune_sessions(older_than_hours=24, workspace_root=Path("custom/")).deleted_sessions == [mine]
    assert not (tmp_path / "custom" / mine).exists()
    assert tree(root) == before
    with pytest.raises(FileNotFoundError, match="nowhere"):
        prune_sessions(older_than_hours=24, workspace_root=Path("nowhere"))
    assert prune_sessions(older_than_hours=24).deleted_sessions == [other]


# ---- the result


def test_prune_result_contains_operation_details(root: Path) -> None:
    """Scenario: PruneResult contains operation details"""
    ids = some_sessions(root)
    for dry_run in (True, False):
        result = prune_sessions(24, root, dry_run)
        assert result.deleted_sessions == [ids["ancient"], ids["old"]]
        assert result.skipped_sessions == [ids["legacy"]]
        assert all(type(i) is str for i in (*result.deleted_sessions, *result.skipped_sessions))
        assert type(result.reclaimed_bytes) is int
        assert result.reclaimed_bytes > 0
        assert result.errors == {}
        assert result.dry_run is dry_run
    empty = prune_sessions(24, root)
    assert (empty.deleted_sessions, empty.reclaimed_bytes) == ([], 0)


def test_prune_result_supports_string_representation() -> None:
    """Scenario: PruneResult supports string representation"""
    result = PruneResult(["a", "b", "c"], ["d", "e"], 1_572_864, {"f": "no"}, dry_run=False)
    text = str(result)
    assert "3" in text
    assert "2 skipped" in text
    assert "1.5 MB" in text
    assert "1 error" in text
    assert "dry" not in text.lower()
    assert str(PruneResult(["a"], [], 1, {"f": "no"})) == "Deleted 1 session, 1 B; 0 skipped; 1 error"
    assert "dry run" in str(PruneResult(dry_run=True)).lower()
    assert str(PruneResult(["a"], [], 1, {}, dry_run=True)) != str(PruneResult(["a"], [], 1, {}, dry_run=False))


# ---- logging


def test_log_pruning_lifecycle_events(root: Path, log: Log) -> None:
    """Scenario: Log pruning lifecycle events"""
    ids = some_sessions(root)
    sizes = {name: tree_bytes(root / i) for name, i in ids.items()}
    result = prune_sessions(24, root, logger=log.logger)
    started = log.event("session.prune.started")
    assert (started["threshold"], started["workspace_root"], started["dry_run"]) == (24, str(root), False)
    candidates = {event["session_id"]: event for event in log.events("session.prune.candidate")}
    assert set(candidates) == {ids["ancient"], ids["old"]}
    assert candidates[ids["ancient"]]["age_hours"] == pytest.approx(1000, abs=0.1)
    assert candidates[ids["ancient"]]["size_bytes"] == sizes["ancient"]
    assert sorted(e["session_id"] for e in log.events("session.prune.deleted")) == sorted(result.deleted_sessions)
    completed = log.event("session.prune.completed")
    assert (completed["deleted_count"], completed["skipped_count"]) == (2, 1)
    assert completed["reclaimed_bytes"] == sizes["ancient"] + sizes["old"]
    assert 0 <= completed["duration"] < 60
    names = [event["event"] for event in log.events()]
    assert names[0] == "session.prune.started"
    assert names[-1] == "session.prune.completed"
    for event in log.events():
        assert datetime.fromisoformat(event["timestamp"]).tzinfo is not None
        assert event["level"] == ("warning" if event["event"] == "session.prune.skipped" else "info")

    dry = Log()
    set_age(root, ids["recent"], 48)
    prune_sessions(24, root, dry_run=True, logger=dry.logger)
    assert dry.event("session.prune.started")["dry_run"] is True
    assert dry.event("session.prune.candidate")["session_id"] == ids["recent"]
    assert dry.events("session.prune.deleted") == []


def test_log_warnings_for_skipped_sessions(root: Path, log: Log) -> None:
    """Scenario: Log warnings for skipped sessions"""
    legacy, corrupted = make_legacy(root), make_corrupted(root)
    make_session(root)
    result = prune_sessions(24, root, logger=log.logger)
    assert set(result.skipped_sessions) == {legacy, corrupted}
    found = {event["session_id"]: event for event in log.warnings()}
    assert len(log.warnings()) == 2, "one warning per skipped session"
    assert {event["event"] for event in found.values()} == {"session.prune.skipped"}
    assert found[legacy]["reason"] == "no_metadata"
    assert found[corrupted]["reason"] == "corrupted_metadata"


# ---- path safety


def test_validate_workspace_root_before_pruning(root: Path, tmp_path: Path, log: Log) -> None:
    """Scenario: Validate workspace root before pruning"""
    outside = tmp_path / "outside"
    victim = make_session(outside, hours=1000, files={"precious": "x"})
    (root / victim).symlink_to(outside / victim)
    mine = make_session(root, hours=1000)
    before = tree(outside)
    result = prune_sessions(24, root, logger=log.logger)
    assert result.deleted_sessions == [mine]
    assert tree(outside) == before
    (tmp_path / "file").write_text("x")
    for bad in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises((FileNotFoundError, NotADirectoryError, ValueError)) as caught:
            prune_sessions(24, bad)
        assert bad.name in str(caught.value)
    assert not (tmp_path / "missing").exists(), "pruning does not make a root"
    again = make_session(root, hours=1000)
    (tmp_path / "by_link").symlink_to(root)
    assert prune_sessions(24, tmp_path / "by_link").deleted_sessions == [again], "a root may be reached by a link"


def test_prevent_deletion_of_non_session_directories(root: Path, log: Log) -> None:
    """Scenario: Prevent deletion of non-session directories"""
    mine = make_session(root, hours=1000)
    others = [
        "abc-123",
        "notes",
        "550e8400",
        mine + "-copy",
        "x" + mine[1:],
        mine.upper(),
        mine.replace("-", ""),
        " " + mine,
    ]
    others = [name for name in others if name != mine]
    for name in others:
        make_session(root, hours=1000, session_id=name, files={"precious": "x"})
    (root / "550e8400-e29b-41d4-a716-446655440000").write_text("a file with such a name")
    for dry_run in (True, False):
        result = prune_sessions(0, root, dry_run=dry_run, logger=log.logger)
        assert result.deleted_sessions == [mine]
        assert result.skipped_sessions == []
        assert result.errors == {}
    assert log.warnings() == []
    for name in others:
        assert tree(root / name).keys() == {".metadata.json", "precious"}
    assert (root / "550e8400-e29b-41d4-a716-446655440000").is_file()


# ---- backwards compatibility


def test_execute_legacy_session_without_metadata(sessions: Opened, root: Path, log: Log) -> None:
    """Scenario: Execute legacy session without metadata"""
    session_id = make_legacy(root, {"user_code.py": "print('old code')"})
    sandbox = sessions.get(session_id, logger=log.logger)
    result = sandbox.execute("exec(open('user_code.py').read())\nopen('new.txt', 'w').write('x')")
    assert result.stdout == "old code\n"
    assert result.files_created == ["new.txt"]
    sandbox.close()
    assert {p.name for p in (root / session_id).iterdir()} == {"user_code.py", "new.txt"}
    assert log.warnings() == []


def test_prune_skips_legacy_sessions(root: Path) -> None:
    """Scenario: Prune skips legacy sessions"""
    dated = [make_session(root, hours=h) for h in (0, 1, 1000)]
    legacy = [make_legacy(root, {"a": "x"}) for _ in range(3)]
    for session_id in legacy:
        os.utime(root / session_id, (0, 0))
    result = prune_sessions(older_than_hours=0, workspace_root=root)
    assert set(result.deleted_sessions) == set(dated)
    assert set(result.skipped_sessions) == set(legacy)
    options: list[dict[str, Any]] = [{"older_than_hours": 0}, {"older_than_hours": 0, "max_deletions": 100}]
    for option in options:
        assert set(prune_sessions(workspace_root=root, **option).skipped_sessions) == set(legacy)
    for session_id in legacy:
        assert tree(root / session_id) == {"a": b"x"}
