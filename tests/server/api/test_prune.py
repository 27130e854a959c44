"""Prunes over HTTP: what is planned is what is done, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Api, running
from tests.sessions.helpers import make_corrupted, make_legacy, make_session, set_age
from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.server.api.openapi import DELETED as GONE
from wasm_kernel.sessions.deletion import delete_session_workspace
from wasm_kernel.sessions.session_sandboxes import create_session_sandbox
from wasm_kernel.sessions.snapshots import create_snapshot, list_snapshots


@pytest.fixture
def old(api: Api) -> Iterator[dict[str, str]]:
    """Sessions so old that no other test's are in question."""
    root = api.server.root
    made = {
        "ancient": make_session(root, hours=5000, files={"a": b"x" * 100}, notebook="/n/ancient.ipynb", title="An"),
        "older": make_session(root, hours=3000, files={"a": b"x" * 10}),
        "young": make_session(root, hours=10),
        "legacy": make_legacy(root, {"a": "b"}),
        "broken": make_corrupted(root),
    }
    live = make_session(root, hours=4000, notebook="/n/live.ipynb")
    lock = lock_session(root, live)
    yield {**made, "live": live}
    lock.release()


def by_id(report: Any) -> dict[str, Any]:
    return {s["session_id"]: s for s in report["sessions"]}


def test_a_plan_is_what_is_done(api: Api, old: dict[str, str]) -> None:
    wanted = {"max_age_hours": "2000h"}
    plan = api("POST", "prune/plan", wanted)
    found = by_id(plan)
    ancient = found[old["ancient"]]
    assert ancient["action"] == "delete" and ancient["reason"] == "max_age_hours" and not ancient["done"]
    assert (ancient["notebook"], ancient["title"]) == ("/n/ancient.ipynb", "An") and round(ancient["age_hours"]) == 5000
    assert ancient["size_bytes"] > 100
    assert found[old["live"]]["action"] == "keep" and found[old["live"]]["reason"] == "live"
    assert plan["live"] == [old["live"]]
    assert (found[old["legacy"]]["action"], found[old["legacy"]]["reason"]) == ("skip", "no_metadata")
    assert found[old["broken"]]["reason"] == "corrupted_metadata" and old["young"] not in found
    assert plan["dry_run"] and (api.server.root / old["ancient"]).is_dir()

    done = api("POST", "prune/execute", wanted)
    keys = ("session_id", "action", "reason", "size_bytes", "notebook", "title")
    assert [[s[k] for k in keys] for s in done["sessions"]] == [[s[k] for k in keys] for s in plan["sessions"]]
    assert [s["session_id"] for s in done["sessions"] if s["done"]] == [
        s["session_id"] for s in plan["sessions"] if s["action"] == "delete"
    ]
    for name in ("removed", "reclaimed_bytes", "live", "skipped", "sessions", "bytes"):
        assert done["totals"][name] == plan["totals"][name]
    assert done["errors"] == {} and not done["dry_run"] and done["live"] == plan["live"]
    there = {name for name, session_id in old.items() if (api.server.root / session_id).is_dir()}
    assert there == {"young", "legacy", "broken", "live"}
    assert by_id(api("POST", "prune/plan", wanted)).keys() & {old["ancient"], old["older"]} == set()


def test_what_is_kept_and_how_much_goes(api: Api, old: dict[str, str]) -> None:
    wanted = {"max_age_hours": 2000, "keep": [old["ancient"]]}
    found = by_id(api("POST", "prune/plan", wanted))
    assert found[old["ancient"]]["reason"] == "kept by the policy" and found[old["older"]]["action"] == "delete"
    one = api("POST", "prune/plan", {"max_age_hours": 2000, "max_deletions": 1})
    assert one["totals"]["removed"] == 1 and by_id(one)[old["older"]]["reason"] == "max_deletions"
    only = api("POST", "prune/execute", {"max_age_hours": 2000, "only": [old["older"], old["young"]]})
    assert only["totals"]["removed"] == 1 and (api.server.root / old["ancient"]).is_dir()
    assert not (api.server.root / old["older"]).exists() and (api.server.root / old["young"]).is_dir()
    assert api("POST", "prune/plan", {"max_total_bytes": "0k"})["totals"]["removed"] >= 2
    assert api("POST", "prune/plan", {})["totals"]["removed"] == 0


def test_archives_go_where_the_administrator_says(api: Api, old: dict[str, str]) -> None:
    wanted = {"max_age_hours": 2000, "archive": True}
    plan = api("POST", "prune/plan", wanted)
    assert by_id(plan)[old["ancient"]]["archive"] == f"{old['ancient']}.tar.zst"
    place = api.server.root.parent / "archive"
    done = api("POST", "prune/execute", wanted)
    assert by_id(done)[old["ancient"]]["done"] and (place / f"{old['ancient']}.tar.zst").is_file()
    assert not (api.server.root / old["ancient"]).exists()


def test_no_archive_where_none_is_configured(tmp_path: Path) -> None:
    with running(tmp_path, "c.WasmKernel.maxima = {'memory': 'much'}\n") as server:
        api = Api(server)
        session_id = make_session(server.root, hours=100)
        for path in ("plan", "execute"):
            told = api("POST", f"prune/{path}", {"max_age_hours": 1, "archive": True}, 409)
            assert "WasmKernelExtension.archive_folder" in told["detail"]
        assert (server.root / session_id).is_dir()
        # Nor does anything run where the maxima cannot be read.
        assert "WasmKernel.maxima cannot be used" in api("POST", "sandboxes", {}, 503)["detail"]
        assert "WasmKernel.maxima" in api("POST", f"sandboxes/{session_id}/tasks", {"code": "1"}, 503)["detail"]
        assert api("POST", "prune/execute", {"max_age_hours": 1})["totals"]["removed"] == 1


def test_deleted_sandboxes_keep_their_snapshots_until_they_are_old(api: Api) -> None:
    root = api.server.root
    sandbox_id = api.create()
    api.run(sandbox_id, "x = 1")
    api("DELETE", f"sandboxes/{sandbox_id}")
    api("POST", "prune/execute", {"max_age_hours": 1000})
    assert list_snapshots(root, sandbox_id) and api.state(sandbox_id) == "deleted"
    buried = tombstones.read(root, sandbox_id)
    assert buried is not None
    tombstones.write(root, sandbox_id, {**buried, "deleted_at": "2020-01-01T00:00:00Z"}, most=1000)
    kept = by_id(api("POST", "prune/plan", {"max_age_hours": 1000, "keep": [sandbox_id]}))
    assert sandbox_id not in kept
    found = by_id(api("POST", "prune/plan", {"max_age_hours": 1000}))[sandbox_id]
    assert found["action"] == "forget" and not found["done"] and list_snapshots(root, sandbox_id)
    done = api("POST", "prune/execute", {"max_age_hours": 1000})
    assert by_id(done)[sandbox_id]["done"] and not list_snapshots(root, sandbox_id)
    api("GET", f"sandboxes/{sandbox_id}", status=404)


def test_a_pruned_sandbox_says_that_it_is_deleted(api: Api) -> None:
    root = api.server.root
    gone = make_session(root, hours=5000, title="report", notebook="/home/ann/r.ipynb", execution_count=7)
    saved = make_session(root, hours=5000, files={"a": "content"})
    api("POST", "prune/execute", {"max_age_hours": 4000, "only": [gone]})
    shown = api("GET", f"sandboxes/{gone}")
    assert (shown["state"], shown["title"], shown["notebook"]) == ("deleted", "report", "/home/ann/r.ipynb")
    assert (shown["execution_count"], shown["snapshot_id"], shown["snapshot_count"]) == (7, None, 0)
    assert shown["created_at"] and shown["updated_at"] and shown["deleted_at"]
    assert gone in [s["sandbox_id"] for s in api("GET", "sandboxes?state=deleted&q=report")["items"]]
    for method, path, body in (("POST", "/tasks", {"code": "1"}), ("DELETE", "", None), ("POST", "/snapshots", {})):
        assert api(method, f"sandboxes/{gone}{path}", body, 410)["detail"] == GONE
    done = by_id(api("POST", "prune/execute", {"max_age_hours": 4000, "only": [saved], "snapshot": True}))[saved]
    assert api("GET", f"sandboxes/{saved}")["snapshot_id"] == done["snapshot_id"]
    assert api("GET", f"snapshots/{done['snapshot_id']}")["trigger_type"] == "session_close"
    assert api.value(api.create(snapshot_id=done["snapshot_id"]), "open('a').read()") == "'content'"
    delete_session_workspace(by_hand := make_session(root, title="by hand"), root)
    assert api("GET", f"sandboxes/{by_hand}")["state"] == "deleted"


def test_snapshots_are_thinned_out(api: Api) -> None:
    """Of sessions at rest: those of a live one can still be wanted for an undo."""
    live = api.create()
    kept = [api("POST", f"sandboxes/{live}/snapshots", {}, 201)["snapshot_id"] for _ in range(2)]
    resting, sandbox = create_session_sandbox(workspace_root=api.server.root)
    ids = [create_snapshot(resting, api.server.root).snapshot_id for _ in range(3)]
    sandbox.close()
    wanted = {"snapshots": {"max_per_session": 1}}
    plan = api("POST", "prune/plan", wanted)
    assert set(ids[:2]) <= set(plan["snapshots"]) and not {ids[2], *kept} & set(plan["snapshots"])
    done = api("POST", "prune/execute", wanted)
    assert done["snapshots"] == plan["snapshots"] and done["totals"]["snapshots_removed"] == len(plan["snapshots"])
    assert [s["snapshot_id"] for s in api("GET", f"sandboxes/{resting}/snapshots")["items"]] == [ids[2]]
    assert {s["snapshot_id"] for s in api("GET", f"sandboxes/{live}/snapshots")["items"]} >= set(kept)


def test_chosen_sessions_go_by_their_stamp(api: Api) -> None:
    """Whatever their age; but one that was used after it was listed stays."""
    root = api.server.root
    same, used = make_session(root, hours=1), make_session(root, hours=1)
    stamps = {name: api("GET", f"sandboxes/{name}")["stamp"] for name in (same, used)}
    set_age(root, used, 1)
    plan = api("POST", "prune/plan", {"stamps": stamps})
    assert (by_id(plan)[same]["action"], by_id(plan)[same]["reason"]) == ("delete", "asked for")
    assert by_id(plan)[used]["reason"] == "changed" and plan["changed"] == [used]
    done = api("POST", "prune/execute", {"stamps": stamps})
    assert [s["session_id"] for s in done["sessions"] if s["done"]] == [same] and done["changed"] == [used]
    assert (root / used).is_dir() and not (root / same).exists()
    for bad in ({"../x": "1"}, {same: 1}, [same], {same: "x" * 65}):
        api("POST", "prune/plan", {"stamps": bad}, 400)


def test_a_snapshot_of_a_live_session_cannot_be_deleted(api: Api) -> None:
    held = api.create()
    elsewhere = make_session(api.server.root, hours=1)
    of_held = api("POST", f"sandboxes/{held}/snapshots", {}, 201)["snapshot_id"]
    of_other = create_snapshot(elsewhere, api.server.root).snapshot_id
    lock = lock_session(api.server.root, elsewhere)
    try:
        for session_id, snapshot_id in ((held, of_held), (elsewhere, of_other)):
            told = api("DELETE", f"snapshots/{snapshot_id}", status=409)
            assert f"session {session_id} is in use" in told["detail"]
            api("GET", f"snapshots/{snapshot_id}")
    finally:
        lock.release()
    api("DELETE", f"snapshots/{of_other}", status=204)
    api("DELETE", f"sandboxes/{held}")
    api("DELETE", f"snapshots/{of_held}", status=204)


def test_notices(api: Api) -> None:
    """Whoever keeps house says what the next kernel shows."""
    notice = {"id": "1", "text": "It will go.", "session_ids": ["3f2a9c01"], "due": "2026-12-01T00:00:00Z"}
    api("PUT", "notices", {"notices": [notice]}, 204)
    file = api.server.root / ".wasm-kernel" / "notices.json"
    assert json.loads(file.read_bytes()) == {"version": 1, "notices": [notice]}
    assert not list((api.server.root / ".wasm-kernel" / "new").glob("notices.*"))
    for bad in ({}, {"notices": [{"id": "1"}]}, {"notices": [{"id": "1", "text": "x", "session_ids": ["../x"]}]}):
        api("PUT", "notices", bad, 400)
    assert json.loads(file.read_bytes())["notices"] == [notice]
    api("PUT", "notices", {"notices": []}, 204)
    assert not file.exists()


def test_usage(api: Api) -> None:
    before = api("GET", "usage")
    sandbox_id = api.create()
    api.run(sandbox_id, "open('f', 'wb').write(bytes(100_000))")
    api("POST", f"sandboxes/{sandbox_id}/snapshots", {}, 201)
    after = api("GET", "usage")
    assert after["sessions"] == before["sessions"] + 1 and after["session_bytes"] >= before["session_bytes"] + 100_000
    assert after["snapshots"] > before["snapshots"] and after["snapshot_bytes"] > 0
    assert after["max_live_sandboxes"] == 4 >= after["live_here"] >= 1 and after["disk_free_bytes"] > 0
    set_age(api.server.root, sandbox_id, 1)
    api("DELETE", f"sandboxes/{sandbox_id}")
    assert api("GET", "usage")["deleted"] == before["deleted"] + 1
