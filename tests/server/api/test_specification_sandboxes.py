"""The specification's document 004, sandboxes and snapshots, as we read it: idle releases memory and resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conftest import Api, running
from wasm_kernel.model.records import is_uuid

GONE = "Sandbox is deleted. Please create a new one."


@pytest.fixture
def sandbox(api: Api) -> str:
    """A sandbox with a variable and a file."""
    sandbox_id = api.create()
    api.run(sandbox_id, "x = 41; open('f.txt', 'w').write('here')")
    return sandbox_id


def test_snapshots_have_the_fields_of_the_table(api: Api, sandbox: str) -> None:
    """1.1 Snapshots table: id, sandbox_id, trigger_type, created_at, metadata"""
    saved = api("POST", f"sandboxes/{sandbox}/snapshots", {"metadata": {"ticket": 7}}, 201)
    assert is_uuid(saved["snapshot_id"]) and saved["sandbox_id"] == sandbox
    assert (saved["trigger_type"], saved["metadata"]) == ("user", {"ticket": 7}) and saved["created_at"]


def test_sandboxes_have_the_renamed_columns(api: Api, sandbox: str) -> None:
    """1.3 Column names: parent_sandbox_id, idle_timeout_seconds (default: 900), state deleted"""
    shown = api("GET", f"sandboxes/{sandbox}")
    assert (shown["parent_sandbox_id"], shown["idle_timeout_seconds"]) == (None, 900)
    saved = api("POST", f"sandboxes/{sandbox}/snapshots", {}, 201)["snapshot_id"]
    assert api("GET", f"sandboxes/{api.create(snapshot_id=saved)}")["parent_sandbox_id"] == sandbox
    states = api("GET", "openapi.json")["components"]["schemas"]["Sandbox"]["properties"]["state"]["enum"]
    assert "deleted" in states and "stopped" not in states


def test_endpoints_are_those_of_sandboxes(api: Api, sandbox: str) -> None:
    """3.1 Endpoints: idle, busy, stop (which deletes), tasks"""
    assert api("POST", f"sandboxes/{sandbox}/busy")["state"] == "busy"
    assert api("POST", f"sandboxes/{sandbox}/idle")["state"] == "idle"
    assert api("GET", f"sandboxes/{sandbox}/tasks")["total"] == 1
    assert api("POST", f"sandboxes/{sandbox}/stop")["state"] == "deleted"


def test_old_endpoints_are_not_there(api: Api, sandbox: str) -> None:
    """10.2 Integration test: Verify old APIs return 404 or appropriate errors"""
    for path in ("sessions", f"sessions/{sandbox}", f"sandboxes/{sandbox}/restart", f"sandboxes/{sandbox}/remix"):
        for method in ("GET", "POST"):
            assert "openapi.json describes" in api(method, path, None, 404)["detail"]


def test_snapshot_endpoints(api: Api, sandbox: str) -> None:
    """3.3 Snapshot endpoints: create, list of a sandbox, list all, details, delete"""
    made = api("POST", f"sandboxes/{sandbox}/snapshots", None, 201)
    assert made["snapshot_id"] and made["created_at"]
    assert made["snapshot_id"] in {s["snapshot_id"] for s in api("GET", f"sandboxes/{sandbox}/snapshots")["items"]}
    assert made["snapshot_id"] in {s["snapshot_id"] for s in api("GET", "snapshots")["items"]}
    assert api("GET", f"snapshots/{made['snapshot_id']}") == made
    api("DELETE", f"sandboxes/{sandbox}")
    api("DELETE", f"snapshots/{made['snapshot_id']}", None, 204)
    api("GET", f"snapshots/{made['snapshot_id']}", status=404)


def test_create_from_snapshot(api: Api, sandbox: str) -> None:
    """10.2 Integration test: Create from snapshot"""
    saved = api("POST", f"sandboxes/{sandbox}/snapshots", {}, 201)["snapshot_id"]
    api.run(sandbox, "x = 0; open('f.txt', 'w').write('changed')")
    other = api.create(snapshot_id=saved)
    assert api.value(other, "x, open('f.txt').read()") == "(41, 'here')"
    assert api.value(sandbox, "x, open('f.txt').read()") == "(0, 'changed')"  # a copy, not a mount


def test_snapshot_creation_and_restoration(api: Api, sandbox: str) -> None:
    """10.1 Unit test: Test snapshot creation/restoration"""
    saved = api("POST", f"sandboxes/{sandbox}/snapshots", {"label": "good"}, 201)
    assert (saved["label"], saved["file_count"], saved["memory_bytes"] > 0) == ("good", 1, True)
    for _ in range(2):
        assert api.value(api.create(snapshot_id=saved["snapshot_id"]), "x + 1") == "42"


def test_full_lifecycle(api: Api) -> None:
    """10.2 Integration test: Full lifecycle: create → idle → delete → snapshot created"""
    sandbox_id = api.create()
    api.run(sandbox_id, "x = 41")
    api("POST", f"sandboxes/{sandbox_id}/idle")
    deleted = api("DELETE", f"sandboxes/{sandbox_id}")
    assert api("GET", f"snapshots/{deleted['snapshot_id']}")["trigger_type"] == "session_close"
    assert api.value(api.create(snapshot_id=deleted["snapshot_id"]), "x") == "41"


def test_deleted_sandbox_behavior(api: Api, sandbox: str) -> None:
    """10.2 Integration test: Verify only GET works on deleted sandboxes"""
    api("DELETE", f"sandboxes/{sandbox}")
    assert api("GET", f"sandboxes/{sandbox}")["state"] == "deleted"
    for path, body in (("tasks", {"code": "1"}), ("snapshots", {}), ("idle", None), ("busy", None), ("stop", None)):
        assert api("POST", f"sandboxes/{sandbox}/{path}", body, 410)["detail"] == GONE
    assert api("DELETE", f"sandboxes/{sandbox}", None, 410)["detail"] == GONE


def test_details_of_a_deleted_sandbox(api: Api) -> None:
    """3.5 GET of a deleted sandbox: full details including state deleted"""
    sandbox_id = api.create(title="kept in mind")
    api.run(sandbox_id, "1")
    before = api("GET", f"sandboxes/{sandbox_id}")
    api("DELETE", f"sandboxes/{sandbox_id}")
    after = api("GET", f"sandboxes/{sandbox_id}")
    same = ("sandbox_id", "title", "created_at", "execution_count", "idle_timeout_seconds")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert after.keys() == before.keys() and after["deleted_at"] and after["state"] == "deleted"


def test_idle_timeout(api: Api) -> None:
    """10.1 Unit test: Test idle timeout → auto-delete"""
    sandbox_id = api.create(idle_timeout_seconds=1)
    api.run(sandbox_id, "x = 41")
    api.until(lambda: api.state(sandbox_id) == "released")  # its memory is freed, and nothing is lost
    assert api("GET", f"sandboxes/{sandbox_id}/snapshots")["total"] == 1
    assert api.value(sandbox_id, "x") == "41"


def test_data_survives_the_server(tmp_path: Path) -> None:
    """10.3 Manual test: Verify data persistence in snapshots"""
    with running(tmp_path, "") as server:
        api = Api(server)
        sandbox_id = api.create()
        api.run(sandbox_id, "x = 41")
        last = api("DELETE", f"sandboxes/{sandbox_id}")["snapshot_id"]
    with running(tmp_path, "") as server:
        api = Api(server)
        assert api("GET", f"sandboxes/{sandbox_id}")["state"] == "deleted"
        assert api.value(api.create(snapshot_id=last), "x + 1") == "42"
