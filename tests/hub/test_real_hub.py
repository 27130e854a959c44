"""The service and a real hub: which scopes it needs, one by one, and the work done by users' own servers."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.hub.hub import Hub
from tests.sessions.helpers import make_session
from wasm_kernel import create_snapshot, list_snapshots
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.hub.hubapi import HubApi, HubUnavailable
from wasm_kernel.hub.policies import Policies
from wasm_kernel.hub.service import Arrangement, Service
from wasm_kernel.hub.workspaces.remote import NOT_RUNNING, Remote

_T = TypeVar("_T")


def token(hub: Hub, *scopes: str) -> str:
    """A token that can do just that."""
    made: str = hub.api("users/admin/tokens", "POST", {"scopes": list(scopes), "note": "test"})["token"]
    return made


def api(hub: Hub, *scopes: str, groups: bool = False) -> HubApi:
    return HubApi(f"{hub.url}hub/api", token(hub, *scopes), groups=groups)


def ask(question: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(question)


LISTING = ("list:users", "read:servers")


def test_these_scopes_are_enough_to_know_users_and_servers(hub: Hub) -> None:
    found = {user.name: user for user in ask(api(hub, *LISTING).users())}
    assert {"ann", "bob", "admin"} <= found.keys()
    assert ask(api(hub, *LISTING).user("ann")) == found["ann"]
    assert ask(api(hub, *LISTING).user("nobody")) is None


def test_pages_of_users(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from wasm_kernel.hub import hubapi

    monkeypatch.setattr(hubapi, "_LIMIT", 1)
    assert {"ann", "bob", "admin"} <= {user.name for user in ask(api(hub, *LISTING).users())}


def test_only_some_users(hub: Hub) -> None:
    only = HubApi(f"{hub.url}hub/api", token(hub, *LISTING), only=["ann"])
    assert [user.name for user in ask(only.users())] == ["ann"]


@pytest.mark.parametrize("missing", LISTING)
def test_without_one_of_them_the_error_names_it(hub: Hub, missing: str) -> None:
    with pytest.raises(HubUnavailable, match=missing):
        ask(api(hub, *(scope for scope in LISTING if scope != missing)).users())


def test_groups_need_a_scope_of_their_own(hub: Hub) -> None:
    with pytest.raises(HubUnavailable, match="read:users:groups"):
        ask(api(hub, *LISTING, groups=True).users())
    assert ask(api(hub, *LISTING, "read:users:groups", groups=True).users())


def test_a_hub_that_is_not_there() -> None:
    with pytest.raises(HubUnavailable, match="cannot be reached"):
        ask(HubApi("http://127.0.0.1:1/hub/api", "x").users())


def metrics(hub: Hub, token: str) -> str:
    request = urllib.request.Request(f"{hub.url}services/wasm-kernel-hub/metrics")
    if token:
        request.add_header("Authorization", f"token {token}")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        return str(answer.read().decode())


def test_metrics_need_a_token_with_access(hub: Hub) -> None:
    text = metrics(hub, token(hub, "access:services!service=wasm-kernel-hub"))
    assert "\nwasm_kernel_hub_users " in text
    assert 'wasm_kernel_hub_user_sessions{user="ann"}' in text
    for other in ("", "nonsense", token(hub, "list:users"), token(hub, "access:services!service=other")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            metrics(hub, other)
        assert caught.value.code == 403


# ---- by users' servers


def remote(hub: Hub, tmp_path: Path, policy: dict[str, Any], *scopes: str, **more: Any) -> Service:
    secret = token(hub, *scopes)
    directory = HubApi(f"{hub.url}hub/api", secret, only=["bob", "admin"])
    how = Arrangement(tmp_path / "state", Policies(policy), can_archive=True)
    return Service(how, Remote(directory, hub.url.rstrip("/"), secret, **more), directory)


def test_the_work_is_done_by_users_servers(hub: Hub, tmp_path: Path) -> None:
    lab = hub.start("bob")
    hub.stop("admin")
    root = lab.sessions
    old, used, live = (make_session(root, 1000, {"f": b"x" * 100}) for _ in range(3))
    young = make_session(root, 1, {"f": b"y"})
    for _ in range(2):
        create_snapshot(young, root)
    lock = lock_session(root, live)

    async def work() -> None:
        service = remote(hub, tmp_path, {"max_age": "7d", "snapshot_max_per_session": 1}, *LISTING, "access:servers")
        census = await service.census()
        assert {old, used, live, young} <= {row.session_id for row in census.users["bob"].sessions}
        rows = {row.session_id: row for row in census.users["bob"].sessions}
        assert (rows[old].live, rows[live].live, rows[young].snapshot_count) == (False, True, 2)
        assert rows[old].size_bytes > 100
        assert census.users["admin"].problem == NOT_RUNNING
        shown = await service.snapshots("bob", young)
        assert [s.snapshot_id for s in shown] == [s.snapshot_id for s in list_snapshots(root, young)]

        record = read_record(root / used)  # after it was decided
        assert record is not None
        plan = await service.plan()
        assert {old, used} <= {d.session_id for d in plan.users["bob"].remove}
        write_record(root / used, record.touched(datetime.now(UTC)), sync=False)
        asked = await service.delete_sessions("me", {"bob": [used]})
        assert asked.users["bob"].changed == (used,)

        run = await service.prune("schedule")
        assert old in run.users["bob"].deleted
        assert live in run.users["bob"].live
        assert shown[1].snapshot_id in run.users["bob"].snapshots
        assert run.users["admin"].left_alone == NOT_RUNNING
        assert not run.failures
        gone = await service.delete_snapshots("me", {"bob": [shown[0].snapshot_id]})
        assert gone.users["bob"].snapshots == (shown[0].snapshot_id,)
        service.close()

    try:
        asyncio.run(work())
    finally:
        lock.release()
    assert not (root / old).exists()
    assert all((root / name).is_dir() for name in (used, live, young))
    assert list_snapshots(root, young) == []
    assert not hub.is_running("admin")


def test_without_access_to_servers_nothing_is_done(hub: Hub, tmp_path: Path) -> None:
    lab = hub.start("bob")
    old = make_session(lab.sessions, 1000)

    async def work() -> None:
        service = remote(hub, tmp_path, {"max_age": "7d"}, *LISTING)
        run = await service.prune("schedule")
        assert "access:servers" in run.users["bob"].left_alone
        service.close()

    asyncio.run(work())
    assert (lab.sessions / old).is_dir()


def test_servers_are_started_for_it_and_stopped_again(hub: Hub, tmp_path: Path) -> None:
    hub.stop("admin")
    root = hub.sessions("admin")
    old = make_session(root, 1000)

    async def work(*scopes: str) -> Any:
        service = remote(hub, tmp_path, {"max_age": "7d"}, *LISTING, "access:servers", *scopes, start_servers=True)
        try:
            assert (await service.census()).users["admin"].problem == NOT_RUNNING  # nobody starts one to look
            return await service.prune("schedule")
        finally:
            service.close()

    refused = asyncio.run(work())
    assert "start:servers" in refused.users["admin"].left_alone
    run = asyncio.run(work("start:servers", "delete:servers"))
    assert old in run.users["admin"].deleted
    assert not (root / old).exists()
    hub.wait_until_stopped("admin")


def test_sessions_are_stopped_and_created_by_users_servers(hub: Hub, tmp_path: Path) -> None:
    lab = hub.start("bob")
    old, open_elsewhere = make_session(lab.sessions, 1000, {"f": b"content"}), make_session(lab.sessions)
    lock = lock_session(lab.sessions, open_elsewhere)

    async def work() -> None:
        service = remote(hub, tmp_path, {}, *LISTING, "access:servers")
        stopped = (await service.stop_sessions("me", {"bob": [old, open_elsewhere]})).users["bob"]
        assert (list(stopped.deleted), stopped.live) == ([old], (open_elsewhere,)), stopped
        (last,) = [s for s in (await service.all_snapshots()).rows if s.session_id == old]
        assert (last.snapshot_id, last.trigger, last.file_count) == (stopped.saved[old], "session_close", 1)
        created = (await service.create_sessions("me", {"bob": [last.snapshot_id]})).users["bob"].created
        assert (lab.sessions / created[last.snapshot_id] / "f").read_bytes() == b"content"
        assert created[last.snapshot_id] in {row.session_id for row in (await service.census()).sessions}
        service.close()

    try:
        asyncio.run(work())
    finally:
        lock.release()
    assert not (lab.sessions / old).exists() and (lab.sessions / open_elsewhere).is_dir()


def test_archives_need_a_folder_there(hub: Hub, tmp_path: Path) -> None:
    lab = hub.start("bob")
    old = make_session(lab.sessions, 1000)

    async def work() -> None:
        service = remote(hub, tmp_path, {}, *LISTING, "access:servers")
        await service.census()
        run = await service.archive("me", {"bob": [old]})
        assert "no archive folder" in run.users["bob"].errors["user"]
        service.close()

    asyncio.run(work())
    assert (lab.sessions / old).is_dir()


def test_users_are_told_by_their_servers(hub: Hub, tmp_path: Path) -> None:
    lab = hub.start("bob")
    old = make_session(lab.sessions, 1000)

    async def work() -> None:
        service = remote(hub, tmp_path, {"max_age": "7d", "warn_before": "1h"}, *LISTING, "access:servers")
        run = await service.prune("schedule")
        assert run.users["bob"].waiting
        assert old in {w.session_id for w in service.warnings()}
        service.close()

    asyncio.run(work())
    assert (lab.sessions / old).is_dir()
    told = json.loads((lab.sessions / ".wasm-kernel/notices.json").read_bytes())["notices"]
    assert old in told[0]["session_ids"]
