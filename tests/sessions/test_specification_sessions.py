"""The specification's document 003, session management: one test for each of its scenarios."""

from __future__ import annotations

import os
import re
import stat
import uuid
from pathlib import Path

import pytest

import wasm_kernel
from tests.sessions.conftest import Opened
from tests.sessions.helpers import UUID4, Log, metadata, put_files, tree
from wasm_kernel import (
    BaseSandbox,
    ExecutionPolicy,
    RuntimeType,
    create_sandbox,
    delete_session_workspace,
    read_session_file,
)

# ---- session id generation


def test_generate_unique_session_id(sessions: Opened) -> None:
    """Scenario: Generate unique session ID"""
    ids = [sessions.create()[0] for _ in range(5)]
    assert len(set(ids)) == 5
    for session_id in ids:
        assert uuid.UUID(session_id).version == 4
        assert os.path.basename(session_id) == session_id
        assert not set(session_id) & set('/\\:*?"<>| .\0')


def test_session_id_format_validation(sessions: Opened, root: Path) -> None:
    """Scenario: Session ID format validation"""
    session_id, sandbox = sessions.create()
    assert sandbox.workspace.name == session_id
    assert re.fullmatch(r"[A-Za-z0-9-]+", session_id)
    assert re.fullmatch(UUID4, session_id)


# ---- workspace mapping


def test_create_session_workspace(sessions: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Create session workspace"""
    monkeypatch.chdir(tmp_path)
    root = Path("deep/down/workspace")  # none of it exists: parents=True
    sandbox = sessions.get("abc-123", workspace_root=root)
    folder = root / "abc-123"
    assert folder.is_dir()
    assert sandbox.workspace == folder.absolute()
    mode = stat.S_IMODE(folder.stat().st_mode)
    assert mode & 0o700 == 0o700
    (folder / "by_the_host.txt").write_text("hello")
    assert sandbox.execute("print(open('by_the_host.txt').read())").stdout == "hello\n"
    session_id, other = sessions.create(workspace_root="deep/down/workspace")  # exists by now: exist_ok=True
    assert other.workspace == (root / session_id).absolute()
    assert other.workspace.is_dir()


def test_resolve_existing_session_workspace(sessions: Opened, root: Path) -> None:
    """Scenario: Resolve existing session workspace"""
    (root / "abc-123").mkdir()
    (root / "abc-123" / "old.txt").write_text("from before")
    for _ in range(2):  # reusable across sandbox instances
        sandbox = sessions.get("abc-123")
        assert sandbox.workspace == root / "abc-123"
        assert sandbox.execute("print(open('old.txt').read())").stdout == "from before\n"
        sandbox.close()
    assert sorted(p.name for p in root.iterdir() if not p.name.startswith(".")) == ["abc-123"]


def test_custom_workspace_root_of_a_session(sessions: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Custom workspace root"""
    monkeypatch.chdir(tmp_path)
    session_id, sandbox = sessions.create(workspace_root=tmp_path / "custom")
    assert sandbox.workspace == tmp_path / "custom" / session_id
    assert sandbox.workspace.is_dir()
    assert not (tmp_path / "workspace").exists() or not any((tmp_path / "workspace").iterdir())


# ---- session-aware sandboxes


def test_create_new_session_with_sandbox(sessions: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Create new session with sandbox"""
    monkeypatch.chdir(tmp_path)
    made = sessions.create(runtime=RuntimeType.PYTHON, workspace_root=None)
    assert isinstance(made, tuple)
    session_id, sandbox = made
    assert isinstance(session_id, str)
    assert isinstance(sandbox, BaseSandbox)
    assert sandbox.workspace == tmp_path / "workspace" / session_id
    assert re.fullmatch(UUID4, session_id)


@pytest.mark.metered
def test_create_session_with_custom_policy(sessions: Opened, root: Path) -> None:
    """Scenario: Create session with custom policy"""
    policy = ExecutionPolicy(fuel_budget=500_000_000)
    session_id, sandbox = sessions.create(policy=policy)
    assert sandbox.policy is policy
    assert sandbox.policy.fuel_budget == 500_000_000
    result = sandbox.execute("sum(range(1000))")
    assert result.fuel_consumed is not None
    assert 0 < result.fuel_consumed < 500_000_000
    assert metadata(root, session_id)["total_fuel_consumed"] == result.fuel_consumed
    again = sandbox.execute("sum(range(1000))")
    assert again.fuel_consumed is not None
    assert metadata(root, session_id)["total_fuel_consumed"] == result.fuel_consumed + again.fuel_consumed


def test_create_session_with_custom_logger(sessions: Opened, log: Log) -> None:
    """Scenario: Create session with custom logger"""
    session_id, sandbox = sessions.create(logger=log.logger)
    sandbox.execute("1")
    sandbox.logger.info("mine")
    assert log.event("mine")["session_id"] == session_id, "the sandbox uses another logger"
    assert len(log.events()) >= 4
    assert {event.get("session_id") for event in log.events()} == {session_id}


def test_retrieve_sandbox_for_existing_session(sessions: Opened, root: Path) -> None:
    """Scenario: Retrieve sandbox for existing session"""
    first = sessions.get("abc-123")
    assert first.execute("open('/app/from_before.txt', 'w').write('still here')").success
    first.close()
    second = sessions.get("abc-123")
    assert isinstance(second, BaseSandbox)
    assert second.workspace == root / "abc-123"
    assert second.execute("print(open('/app/from_before.txt').read())").stdout == "still here\n"


# ---- isolation


def test_files_isolated_between_sessions(sessions: Opened, root: Path) -> None:
    """Scenario: Files isolated between sessions"""
    a, b = sessions.get("aaa-111"), sessions.get("bbb-222")
    assert a.execute("open('data.txt', 'w').write('Session A data')").success
    assert b.execute("open('data.txt', 'w').write('Session B data')").success
    assert a.execute("print(open('data.txt').read())").stdout == "Session A data\n"
    assert b.execute("print(open('data.txt').read())").stdout == "Session B data\n"
    for path in ("../bbb-222/data.txt", "/app/../bbb-222/data.txt", f"{root}/bbb-222/data.txt", "/bbb-222/data.txt"):
        result = a.execute(f"print(open({path!r}).read())")
        assert not result.success, path
        assert "Session B" not in result.stdout
        assert not a.execute(f"open({path!r}, 'w').write('overwritten')").success, path
    assert read_session_file("bbb-222", "data.txt", root) == b"Session B data"


def test_wasi_preopen_scoped_to_session(sessions: Opened, root: Path) -> None:
    """Scenario: WASI preopen scoped to session"""
    put_files(root, {"of_the_root.txt": "root secret"})
    other_id, other = sessions.create()
    put_files(other.workspace, {"of_another.txt": "other secret"})
    session_id, sandbox = sessions.create()
    put_files(sandbox.workspace, {"mine.txt": "mine"})
    assert sandbox.execute("import os; print(os.listdir('/app'))").stdout == "['mine.txt']\n"
    before = tree(root / other_id)
    code = f"""
import os
found = []
for base in ("..", "/app/..", "/app/../..", "{root}", "/app/../{other_id}", "{root}/{other_id}", "/{other_id}", "/"):
    try: found += [f"{{base}}: {{n}}" for n in os.listdir(base)]
    except OSError: pass
for path in ("../of_the_root.txt", "/app/../of_the_root.txt", "{root}/of_the_root.txt",
             "../{other_id}/of_another.txt", "{root}/{other_id}/of_another.txt"):
    try: found.append(open(path).read())
    except OSError: pass
    try: os.rename("mine.txt", path); found.append("renamed to " + path)
    except OSError: pass
try: os.symlink("../{other_id}", "link"); found += os.listdir("link")
except OSError: pass
print(found)
"""
    result = sandbox.execute(code)
    assert result.success, result.error
    for hidden in ("secret", "of_the_root", "of_another", other_id, session_id, "renamed"):
        assert hidden not in result.stdout
    assert tree(root / other_id) == before
    assert (root / "of_the_root.txt").read_text() == "root secret"


# ---- persistence


def test_persist_files_across_executions(sessions: Opened) -> None:
    """Scenario: Persist files across executions"""
    sandbox = sessions.get("abc-123")
    first = sandbox.execute("with open('/app/state.json', 'w') as f: f.write('{\"count\": 1}')")
    assert "state.json" in first.files_modified
    second = sandbox.execute("with open('/app/state.json', 'r') as f: print(f.read())")
    assert '{"count": 1}' in second.stdout


def test_track_file_changes_per_execution(sessions: Opened) -> None:
    """Scenario: Track file changes per execution"""
    _, sandbox = sessions.create()
    put_files(sandbox.workspace, {"data.csv": "a,b\n"})
    result = sandbox.execute("open('data.csv', 'a').write('1,2')\nopen('output.txt', 'w').write('x')")
    assert "data.csv" in result.files_modified
    assert "output.txt" in result.files_created
    assert "data.csv" not in result.files_created
    assert not any(".metadata" in name for name in (*result.files_created, *result.files_modified))


# ---- deletion


def test_delete_session_workspace(sessions: Opened, root: Path) -> None:
    """Scenario: Delete session workspace"""
    sandbox = sessions.get("abc-123")
    assert sandbox.execute("import os; os.makedirs('a/b'); open('a/b/c.txt', 'w').write('x')").success
    delete_session_workspace(session_id="abc-123", workspace_root=root)
    assert not (root / "abc-123").exists()
    fresh = sessions.get("abc-123")
    assert (root / "abc-123").is_dir()
    assert fresh.execute("import os; print(os.listdir('/app'))").stdout == "[]\n"


@pytest.mark.parametrize(
    "session_id",
    [
        "../../../tmp",
        "..",
        ".",
        "",
        "/etc",
        "a/b",
        "a\\b",
        "a\0b",
        "abc_123",
        ".wasm-kernel",
        "-a",
        "a" * 129,
        "é",
        "a b",
    ],
)
def test_prevent_path_traversal_in_deletion(root: Path, tmp_path: Path, session_id: str) -> None:
    """Scenario: Prevent path traversal in deletion"""
    put_files(tmp_path, {"tmp/precious.txt": "keep", "workspace/file.txt": "keep"})
    before = tree(tmp_path)
    with pytest.raises(ValueError, match="session_id"):
        delete_session_workspace(session_id=session_id, workspace_root=root)
    assert tree(tmp_path) == before


def test_safe_deletion_when_workspace_missing(root: Path, tmp_path: Path) -> None:
    """Scenario: Safe deletion when workspace missing"""
    for _ in range(2):
        delete_session_workspace(session_id="nonexistent-123", workspace_root=root)
    delete_session_workspace(session_id="nonexistent-123", workspace_root=tmp_path / "not even a root")
    assert not (tmp_path / "not even a root").exists()


# ---- session context in logging


def test_log_session_creation(sessions: Opened, root: Path, log: Log) -> None:
    """Scenario: Log session creation"""
    session_id, _ = sessions.create(logger=log.logger)
    event = log.event("session.created")
    assert event["session_id"] == session_id
    assert event["workspace_path"] == str(root / session_id)
    assert event["level"] == "info"


def test_log_session_retrieval(sessions: Opened, log: Log) -> None:
    """Scenario: Log session retrieval"""
    sessions.get("abc-123", logger=log.logger)
    assert log.event("session.retrieved")["session_id"] == "abc-123"
    second = Log()
    sessions.get("abc-123", logger=second.logger)  # open already
    assert second.event("session.retrieved")["session_id"] == "abc-123"


def test_log_session_deletion(root: Path, log: Log) -> None:
    """Scenario: Log session deletion"""
    (root / "abc-123").mkdir()
    delete_session_workspace(session_id="abc-123", workspace_root=root, logger=log.logger)
    assert log.event("session.deleted")["session_id"] == "abc-123"


def test_include_session_id_in_execution_logs(sessions: Opened, log: Log) -> None:
    """Scenario: Include session ID in execution logs"""
    session_id, sandbox = sessions.create(logger=log.logger)
    sandbox.execute("1/0")
    assert log.event("execution.start")["session_id"] == session_id
    complete = log.event("execution.complete")
    assert complete["session_id"] == session_id
    assert complete["outcome"] == "error"


# ---- session metadata in results


def test_include_session_id_in_result_metadata(sessions: Opened) -> None:
    """Scenario: Include session ID in result metadata"""
    session_id, sandbox = sessions.create()
    assert sandbox.execute("1").metadata["session_id"] == session_id
    assert sandbox.execute("1/0").metadata["session_id"] == session_id
    assert sessions.get("abc-123").execute("1").metadata["session_id"] == "abc-123"


def test_workspace_path_reflects_session(sessions: Opened, root: Path) -> None:
    """Scenario: Workspace path reflects session"""
    result = sessions.get("abc-123").execute("1")
    assert Path(result.workspace_path) == root / "abc-123"
    assert result.workspace == root / "abc-123"


# ---- backwards compatibility


def test_non_session_sandbox_usage_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Non-session sandbox usage unchanged"""
    monkeypatch.chdir(tmp_path)
    with create_sandbox(runtime=RuntimeType.PYTHON) as sandbox:
        result = sandbox.execute("open('x.txt', 'w').write('1')\nprint('as before')")
        assert result.stdout == "as before\n"
        assert sandbox.workspace == tmp_path / "workspace"
        assert "session_id" not in result.metadata
    assert [p.name for p in (tmp_path / "workspace").iterdir()] == ["x.txt"], "no metadata, no state of ours"


def test_explicit_workspace_parameter_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario: Explicit workspace parameter still works"""
    monkeypatch.chdir(tmp_path)
    with create_sandbox(workspace=Path("custom_workspace")) as sandbox:
        result = sandbox.execute("open('x.txt', 'w').write('1')")
        assert Path(result.workspace_path) == tmp_path / "custom_workspace"
        assert "session_id" not in result.metadata
    assert [p.name for p in (tmp_path / "custom_workspace").iterdir()] == ["x.txt"]
    assert not (tmp_path / "workspace").exists()


def test_public_api_surface_extended_additively() -> None:
    """Scenario: Public API surface extended additively"""
    before_sessions = {
        "create_sandbox",
        "ExecutionPolicy",
        "SandboxResult",
        "SandboxLogger",
        "RuntimeType",
        "BaseSandbox",
    }
    sessions = {
        "create_session_sandbox",
        "get_session_sandbox",
        "delete_session_workspace",
        "list_session_files",
        "read_session_file",
        "write_session_file",
        "delete_session_path",
        "prune_sessions",
        "PruneResult",
    }
    assert before_sessions | sessions <= set(wasm_kernel.__all__)
    assert len(set(wasm_kernel.__all__)) == len(wasm_kernel.__all__)
    for name in wasm_kernel.__all__:
        assert getattr(wasm_kernel, name) is not None
        assert name in dir(wasm_kernel)
        if name != "__version__":  # `from sandbox.sessions import …`, as the documents write it
            assert getattr(wasm_kernel.sessions, name) is getattr(wasm_kernel, name)
    assert not hasattr(wasm_kernel.sessions, "no_such_name")
    with pytest.raises(AttributeError):
        wasm_kernel.no_such_name  # noqa: B018
