"""Everybody's snapshots, "stop and snapshot", and sessions made from snapshots: by the confined worker, in homes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub.town import Town, town_in
from tests.sessions.helpers import make_session, metadata, plant_snapshot, tree
from wasm_kernel import ConfigurationError, create_session_sandbox, create_snapshot, get_session_sandbox, list_snapshots
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.workspaces import homes, landlock


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town_in(tmp_path_factory.mktemp("town")) as made:
        yield made


def saved(root: Path) -> str:
    """A session at rest with a variable in a snapshot, and a file that changed later."""
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    sandbox.execute("x = 41; open('f', 'w').write('early')")
    create_snapshot(session_id, root, label="mine")
    sandbox.close()
    (root / session_id / "f").write_text("late")
    return session_id


def entries(service: Any) -> list[tuple[str, str, str, str]]:
    return [(e.action, e.result, e.session_id, e.snapshot_id) for e in reversed(service.audit()[0])]


def test_stop_and_snapshot_then_create_from_it(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    session_id = saved(root)
    service, _ = town.service([ann])
    stopped = asyncio.run(service.stop_sessions("boss", {ann: [session_id]}))
    result = stopped.users[ann]
    assert list(result.deleted) == [session_id] and not (root / session_id).exists()
    last = list_snapshots(root, session_id)[0]
    assert (result.saved, last.trigger) == ({session_id: last.snapshot_id}, "session_close")
    seen = asyncio.run(service.all_snapshots())
    assert [row.snapshot_id for row in seen.rows] == [s.snapshot_id for s in list_snapshots(root)]
    assert (seen.rows[0].file_count, seen.rows[0].parent) == (1, seen.rows[1].snapshot_id)

    made = asyncio.run(service.create_sessions("boss", {ann: [last.snapshot_id]}))
    fork = made.users[ann].created[last.snapshot_id]
    assert metadata(root, fork)["title"] == f"From snapshot {last.snapshot_id[:8]}"
    assert fork in {row.session_id for row in asyncio.run(service.census()).sessions}, "the census knows it at once"
    with get_session_sandbox(fork, workspace_root=root, resume=True) as sandbox:
        assert sandbox.execute("print(x, open('f').read())").stdout == "41 late\n"
    assert entries(service) == [
        ("stop", "begun", "", ""),
        ("stop", "done", session_id, ""),
        ("stop", "finished", "", ""),
        ("create", "begun", "", ""),
        ("create", "done", fork, last.snapshot_id),
        ("create", "finished", "", ""),
    ]
    assert [e.detail for e in service.audit(user=ann, action="stop", result="done")[0]] == [
        f"snapshot {last.snapshot_id}"
    ]


def test_what_is_in_use_or_used_since_stays(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    live, used = make_session(root), make_session(root)
    service, _ = town.service([ann])
    asyncio.run(service.census())
    lock = lock_session(root, live)
    (root / used / ".metadata.json").write_text((root / used / ".metadata.json").read_text() + " ")
    result = asyncio.run(service.stop_sessions("boss", {ann: [live, used]})).users[ann]
    lock.release()
    assert (result.deleted, result.live, result.changed) == ({}, (live,), (used,))
    assert list_snapshots(root) == []


def test_nothing_is_done_that_is_not_in_the_audit_log(town: Town) -> None:
    (ann,) = town.settle("ann")
    session_id = saved(town.root(ann))
    snapshot = list_snapshots(town.root(ann))[0].snapshot_id
    service, _ = town.service([ann])
    asyncio.run(service.census())
    service._audit._path.mkdir(parents=True)  # it cannot be written
    before = tree(town.root(ann))
    for work in (
        service.stop_sessions("boss", {ann: [session_id]}),
        service.create_sessions("boss", {ann: [snapshot]}),
    ):
        with pytest.raises(OSError):
            asyncio.run(work)
    assert tree(town.root(ann)) == before


def test_snapshots_that_are_not_there_and_users_who_do_not_exist(town: Town) -> None:
    (ann,) = town.settle("ann")
    make_session(town.root(ann))
    service, _ = town.service([ann])
    missing = "0c11d2e3-0000-4000-8000-000000000000"
    result = asyncio.run(service.create_sessions("boss", {ann: [missing]})).users[ann]
    assert "there is no snapshot" in result.errors[missing] and not result.created
    with pytest.raises(ConfigurationError, match="knows no user"):
        asyncio.run(service.create_sessions("boss", {"nobody": [missing]}))


def test_who_cannot_be_listed_is_named(town: Town) -> None:
    ann, bob = town.settle("ann", "bob")
    for user in (ann, bob):
        plant_snapshot(town.root(user), make_session(town.root(user)))
    service, _ = town.service([ann, bob])
    real = town.homes.do

    class Odd:
        obstacle, shift, close = town.homes.obstacle, town.homes.shift, town.homes.close

        async def do(self, user: HubUser, job: str, **arguments: Any) -> dict[str, Any]:
            found = await real(user, job, **arguments)
            return {**found, "snapshots": [{"snapshot_id": "<b>"}]} if (user.name, job) == (bob, "snapshots") else found

    service, _ = town.service([ann, bob], workplace=Odd())
    seen = asyncio.run(service.all_snapshots())
    assert [row.user for row in seen.rows] == [ann] and list(seen.problems) == [bob]
    assert asyncio.run(service.all_snapshots()) is seen
    assert asyncio.run(service.all_snapshots(fresh=True)) is not seen


@pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock")
def test_the_administrators_rules_hold_in_the_confined_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read before the worker gives up the right to read them."""
    rules = tmp_path / "administrator.toml"
    rules.write_text(f'workspace_root = "{tmp_path}"\nsessions = 1\n')
    rules.chmod(0o644)
    code = (
        "import pathlib; from wasm_kernel.host import administrator as a; "
        f"a.places = lambda: [pathlib.Path({str(rules)!r})]; "
        "from wasm_kernel.hub.workspaces.confined_worker import main; main()"
    )
    monkeypatch.setattr(homes, "_WORKER", ("-c", code))
    with town_in(tmp_path) as town:
        (ann,) = town.settle("ann")
        root = town.root(ann)
        session_id = saved(root)
        snapshot = list_snapshots(root)[0].snapshot_id
        service, _ = town.service([ann])
        result = asyncio.run(service.create_sessions("boss", {ann: [snapshot]})).users[ann]
        assert "the administrator allows at most 1" in result.errors[snapshot]
        done = asyncio.run(service.stop_sessions("boss", {ann: [session_id]})).users[ann]
        assert list(done.saved) == [session_id]
        created = asyncio.run(service.create_sessions("boss", {ann: [snapshot]})).users[ann]
        assert list(created.created) == [snapshot]
