"""The service where users' sessions are in an object store: a prefix for each, real S3 over HTTP and a folder."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from tests.hub.town import Citizens
from tests.sessions.remote.conftest import address, s3, s3_server
from tests.sessions.remote.test_pushing import made, push, ran
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.remote.objects import Objects, open_objects
from wasm_kernel.hub.app import WasmKernelHub
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.policies import Policies
from wasm_kernel.hub.service import Arrangement, Service
from wasm_kernel.hub.workspaces import object_stores
from wasm_kernel.hub.workspaces.object_stores import ObjectStores
from wasm_kernel.kernel.notices import unshown
from wasm_kernel.sessions.remote.lease import acquire
from wasm_kernel.sessions.remote.notices import fetch_notices
from wasm_kernel.sessions.remote.stored import StoreSurvey, remote_sessions

__all__ = ["address", "s3", "s3_server"]


def service_of(state: Path, store: str, policy: dict[str, object]) -> Service:
    """A service for ann and bob, each of whom has a prefix."""
    citizens = Citizens({name: HubUser(name, running=True) for name in ("ann", "bob")})
    return Service(Arrangement(state, Policies(policy)), ObjectStores(store + "/{username}"), citizens)


def test_a_census_a_prune_and_what_is_in_use(tmp_path: Path, address: str) -> None:
    anns = open_objects(f"{address}/ann")
    one, two, three = (made(tmp_path, "x = 1") for _ in range(3))
    record = read_record(tmp_path / one)
    assert record is not None
    write_record(tmp_path / one, record.touched(record.updated_at, title="<b>sums</b>"), sync=True)
    for session_id in (one, two, three):
        push(anns, tmp_path, session_id)
    lease = acquire(anns, two, node="a pod")
    service = service_of(tmp_path / "state", address, {"max_sessions": 0})
    census = asyncio.run(service.census(fresh=True))
    rows = {row.session_id: row for row in census.users["ann"].sessions}
    assert rows.keys() == {one, two, three} and not census.users["bob"].sessions
    assert rows[one].title == "<b>sums</b>" and rows[one].size_bytes > 0
    assert [rows[name].state for name in (one, two, three)] == ["rest", "live", "rest"]

    seen = asyncio.run(service.prune("an admin", dry_run=True)).users["ann"]
    assert seen.deleted == {name: rows[name].size_bytes for name in (one, three)} and seen.live == (two,)
    assert remote_sessions(anns) == sorted([one, two, three])
    done = asyncio.run(service.delete_sessions("an admin", {"ann": [one]})).users["ann"]
    assert list(done.deleted) == [one] and not done.errors
    run = asyncio.run(service.prune("schedule")).users["ann"]
    assert (list(run.deleted), run.live, run.errors) == ([three], (two,), {})
    assert remote_sessions(anns) == [two]
    lease.check()
    service.close()


def test_what_was_pushed_or_opened_after_the_decision_is_spared(tmp_path: Path) -> None:
    objects = open_objects(f"file://{tmp_path}/store/ann")
    pushed, opened = made(tmp_path, "x = 1"), made(tmp_path, "x = 1")
    for session_id in (pushed, opened):
        push(objects, tmp_path, session_id)
    service = service_of(tmp_path / "state", f"file://{tmp_path}/store", {})
    asyncio.run(service.census(fresh=True))
    ran(tmp_path, pushed, "x = 2")
    push(objects, tmp_path, pushed)
    acquire(objects, opened, node="a pod")
    done = asyncio.run(service.delete_sessions("an admin", {"ann": [pushed, opened]})).users["ann"]
    assert (done.deleted, done.changed, done.live) == ({}, (pushed,), (opened,))
    assert remote_sessions(objects) == sorted([pushed, opened])


def test_what_only_a_kernel_can_do_says_so(tmp_path: Path) -> None:
    objects = open_objects(f"file://{tmp_path}/store/ann")
    session_id = made(tmp_path, "x = 1")
    push(objects, tmp_path, session_id)
    service = service_of(tmp_path / "state", f"file://{tmp_path}/store", {})
    done = asyncio.run(service.stop_sessions("an admin", {"ann": [session_id]})).users["ann"]
    assert "only users' own kernels can do that" in done.errors["user"]
    assert remote_sessions(objects) == [session_id]


def test_users_are_warned_by_way_of_the_store(tmp_path: Path) -> None:
    objects = open_objects(f"file://{tmp_path}/store/ann")
    session_id = made(tmp_path, "x = 1")
    push(objects, tmp_path, session_id)
    service = service_of(tmp_path / "state", f"file://{tmp_path}/store", {"max_age": "1s", "warn_before": "7d"})
    run = asyncio.run(service.prune("schedule")).users["ann"]
    assert (run.deleted, run.waiting) == ({}, 0) or run.waiting == 1
    assert [w.session_id for w in service.warnings()] == [session_id]
    pod = tmp_path / "pod"
    pod.mkdir()
    fetch_notices(objects, pod)
    (notice,) = unshown(pod)
    assert "delete" in notice.text and notice.due
    objects.write("notices.json", b'{"notices": [1, {"id": 3}]}')  # the prefix is its user's
    fetch_notices(objects, pod)
    assert unshown(pod) == []


def test_a_store_that_fails_is_a_problem_of_that_user(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    service = service_of(tmp_path / "state", s3, {"max_age": "1d"})
    census = asyncio.run(service.census(fresh=True))
    assert "cannot be reached" in census.users["ann"].problem
    assert "cannot be reached" in asyncio.run(service.prune("schedule")).users["ann"].left_alone


def test_what_a_user_puts_there_harms_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = f"file://{tmp_path}/store"
    anns, bobs = (open_objects(f"{store}/{name}") for name in ("ann", "bob"))
    session_id = made(tmp_path, "x = 1")
    push(bobs, tmp_path, session_id)
    other = str(uuid.uuid4())
    for last, data in (
        ("leases/5", b""),
        ("leases/000000000007", b"[" * 100_000),
        ("states/7-x", b""),
        ("states/7-1", b""),
    ):
        anns.write(f"sessions/{other}/{last}", data)
    service = service_of(tmp_path / "state", store, {"max_sessions": 0})
    census = asyncio.run(service.census(fresh=True))
    assert [row.state for row in census.users["ann"].sessions] == ["live"]
    real = object_stores.survey_store

    def unforeseen(objects: Objects) -> StoreSurvey:
        if objects.address == anns.address:
            raise RecursionError
        return real(objects)

    monkeypatch.setattr(object_stores, "survey_store", unforeseen)
    run = asyncio.run(service.prune("schedule")).users
    assert run["ann"].left_alone == "what is in their store cannot be read (RecursionError)"
    assert list(run["bob"].deleted) == [session_id]
    service.close()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"store": "s3://bucket/all"}, "must be an address with {username} in it"),
        ({"store": "s3://bucket/{username}/{group}"}, "must be an address with {username} in it"),
        ({"store": "file:///shared/{username}"}, "links there that lead into others' folders"),
        ({"store": "s3://b/{username}", "remote": True}, "store and remote are both set"),
        ({"store": "s3://b/{username}", "policy": {"max_age": "1d", "archive": True}}, "unset archive"),
    ],
)
def test_settings_that_cannot_work(
    settings: dict[str, object], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = WasmKernelHub(users=["ann"], **settings)
    with pytest.raises(ConfigurationError, match=complaint.replace("{", r"\{")):
        app.make_service()
