"""What is logged: event names, fields, levels; as JSON or for people; never on standard output."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import Log, make_corrupted, make_legacy, make_session, run_python
from wasm_kernel import (
    PathRefused,
    SandboxLogger,
    archive_sessions,
    create_session_sandbox,
    delete_session_workspace,
    export_session,
    import_session,
    prune_sessions,
    read_session_file,
    repair_session_metadata,
)

ALWAYS = {"event", "level", "timestamp"}


def fields(event: dict[str, object]) -> set[str]:
    """The fields of an event beyond those that every event has."""
    return set(event) - ALWAYS


def test_events_and_fields_of_a_sessions_life(sessions: Opened, root: Path, log: Log) -> None:
    session_id, sandbox = sessions.create(logger=log.logger)
    sandbox.execute("print(1)")
    sandbox.close()
    sessions.get(session_id, logger=log.logger).close()
    delete_session_workspace(session_id, root, logger=log.logger)
    assert [(event["event"], event["level"]) for event in log.events()] == [
        ("session.metadata.created", "debug"),
        ("session.created", "info"),
        ("execution.start", "info"),
        ("execution.complete", "info"),
        ("session.metadata.updated", "debug"),
        ("session.retrieved", "info"),
        ("session.deleted", "info"),
    ]
    assert all(event["session_id"] == session_id for event in log.events())
    expected = {
        "session.created": {"session_id", "workspace_path"},
        "execution.start": {"session_id", "code_bytes"},
        "execution.complete": {"session_id", "outcome", "duration_seconds"},
        "session.metadata.updated": {"session_id", "updated_at"},
    }
    for name, wanted in expected.items():
        assert fields(log.event(name)) >= wanted, name
    assert log.event("execution.start")["code_bytes"] == len("print(1)")
    assert log.event("execution.complete")["outcome"] == "ok"


def test_events_and_fields_of_pruning(root: Path, log: Log) -> None:
    make_session(root, hours=100)
    make_legacy(root)
    make_corrupted(root)
    prune_sessions(24, root, logger=log.logger)
    expected = {
        "session.prune.started": {"threshold", "workspace_root", "dry_run"},
        "session.prune.candidate": {"session_id", "age_hours", "size_bytes"},
        "session.prune.deleted": {"session_id"},
        "session.prune.skipped": {"session_id", "reason"},
        "session.prune.completed": {"deleted_count", "skipped_count", "reclaimed_bytes", "duration"},
    }
    assert {event["event"] for event in log.events()} == set(expected)
    for event in log.events():
        assert fields(event) >= expected[event["event"]]


def test_events_of_archives_repairs_and_refused_paths(root: Path, tmp_path: Path, log: Log) -> None:
    session_id = make_session(root, hours=1000, files={"f": "x"})
    legacy = make_legacy(root)
    target = export_session(session_id, tmp_path / "out.zip", root, logger=log.logger)
    import_session(target, root, logger=log.logger)
    repair_session_metadata(legacy, root, logger=log.logger)
    with pytest.raises(PathRefused):
        read_session_file(session_id, "../x", root, logger=log.logger)
    archive_sessions(168, tmp_path / "archive", root, logger=log.logger)
    assert fields(log.events("session.exported")[0]) >= {"session_id", "target"}
    assert fields(log.event("session.imported")) >= {"session_id", "archive"}
    assert log.event("session.metadata.repaired")["session_id"] == legacy
    assert fields(log.event("security.path_refused")) >= {"session_id", "path", "error"}
    assert log.event("session.deleted")["session_id"] == session_id


def test_every_event_has_its_time_in_utc(log: Log) -> None:
    log.logger.info("something", number=1, nothing=None, text="ü\n", path=str(Path("a")))
    event = log.event("something")
    assert abs(datetime.now(UTC) - datetime.fromisoformat(event["timestamp"])) < timedelta(seconds=5)
    assert datetime.fromisoformat(event["timestamp"]).utcoffset() == timedelta(0)
    assert (event["number"], event["nothing"], event["text"]) == (1, None, "ü\n")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(level: str, expected: list[str]) -> None:
    log = Log(level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log.logger, name)("by name")
        log.logger.log(name, "by argument")
    assert [event["level"] for event in log.events("by name")] == expected
    assert [event["level"] for event in log.events("by argument")] == expected
    bound = log.logger.bind(session_id="abc-123")
    bound.debug("bound")
    assert bool(log.events("bound")) == (level == "debug"), "what is bound keeps its level"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        SandboxLogger(level="loud")


def test_context_is_bound_without_touching_the_logger_it_came_from(log: Log) -> None:
    one = log.logger.bind(session_id="a", user="u")
    two = one.bind(session_id="b")
    for logger in (log.logger, one, two):
        logger.info("said")
    one.info("said", user="other")
    assert [(e.get("session_id"), e.get("user")) for e in log.events("said")] == [
        (None, None),
        ("a", "u"),
        ("b", "u"),
        ("a", "other"),
    ]
    given = {"a": 1}
    logger = SandboxLogger(level="info", json=True, stream=(stream := io.StringIO()), context=given)
    given["a"] = 2
    logger.info("said")
    assert json.loads(stream.getvalue())["a"] == 1


def test_the_console_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logger = SandboxLogger(level="info")
    logger.info("session.created", session_id="abc-123")
    out, err = capsys.readouterr()
    assert out == ""
    assert "session.created" in err
    assert "abc-123" in err
    assert "\x1b" not in err, "no colours where no terminal is"
    with pytest.raises(json.JSONDecodeError):
        json.loads(err)


def test_ordinary_events_are_quiet_by_default(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session_id = make_session(root, hours=100, files={"f": "x"})
    read_session_file(session_id, "f", root)
    prune_sessions(24, root)
    assert capsys.readouterr() == ("", "")
    make_legacy(root)
    prune_sessions(24, root)
    out, err = capsys.readouterr()
    assert out == ""
    assert "session.prune.skipped" in err


def test_nothing_is_ever_written_to_standard_output(root: Path) -> None:
    """Not even where file descriptor 1 is all that a kernel has: everything here logs, nothing prints."""
    code = """
import sys
from wasm_kernel import *
from wasm_kernel.sessions.log import SandboxLogger
logger = SandboxLogger(level="debug", json=len(sys.argv) > 2)
root = sys.argv[1]
session_id, sandbox = create_session_sandbox(workspace_root=root, logger=logger)
result = sandbox.execute("import sys; print('guest output'); print('guest error', file=sys.stderr); 1/0")
assert result.stdout == "guest output\\n"
try: read_session_file(session_id, "../x", root, logger=logger)
except PathRefused: pass
sandbox.close()
prune_sessions(0, root, logger=logger)
"""
    for options in ([], ["json"]):
        done = subprocess.run([sys.executable, "-c", code, root, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert "guest" not in done.stderr
        for name in ("session.created", "execution.start", "security.path_refused", "session.prune.completed"):
            assert name in done.stderr
        if options:
            assert all(json.loads(line)["event"] for line in done.stderr.splitlines())


def test_lines_of_threads_do_not_mix(log: Log) -> None:
    def talk(number: int) -> None:
        logger = log.logger.bind(thread=number)
        for n in range(50):
            logger.info("said", n=n, filler="x" * 500)

    threads = [threading.Thread(target=talk, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.events("said")) == 200
    assert {(e["thread"], e["n"]) for e in log.events()} == {(t, n) for t in range(4) for n in range(50)}


def test_structlog_is_not_imported_before_something_is_said() -> None:
    code = "import sys, wasm_kernel; l = wasm_kernel.SandboxLogger(); l.info('x'); print('structlog' in sys.modules)"
    assert run_python(code) == "False\n"


def test_a_bound_logger_is_of_the_same_kind(root: Path) -> None:
    """A program's own logger, with a constructor of its own, still gets the events of its sessions."""

    class Kept(SandboxLogger):
        def __init__(self, to: list[tuple[str, dict[str, object]]]) -> None:
            super().__init__(level="debug")
            self.to = to

        def log(self, level: str, event: str, **fields: object) -> None:
            self.to.append((event, {**self._context, **fields}))

    found: list[tuple[str, dict[str, object]]] = []
    logger = Kept(found)
    bound = logger.bind(session_id="s").bind(more=1)
    assert type(bound) is Kept
    bound.info("event", more=2)
    logger.info("other")
    assert found == [("event", {"session_id": "s", "more": 2}), ("other", {})]
    found.clear()
    session_id, sandbox = create_session_sandbox(workspace_root=root, logger=logger)
    with sandbox:
        sandbox.execute("1")
    assert {fields.get("session_id") for event, fields in found if event.startswith("session.")} == {session_id}
    assert "session.metadata.updated" in [event for event, _ in found]
