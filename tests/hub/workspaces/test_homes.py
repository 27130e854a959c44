"""The service in homes: real files, real locks, the worker and its children."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.hub.town import Town, town_in
from tests.sessions.helpers import make_corrupted, make_legacy, make_session, plant_snapshot
from wasm_kernel import create_snapshot, import_session, list_snapshots
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.disk.locks import lock_session, state_folder
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.files.workspace_survey import METADATA_NAME
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.service import Service
from wasm_kernel.hub.workspaces import homes as homes_module
from wasm_kernel.hub.workspaces.homes import LEFT_ALONE, Homes
from wasm_kernel.model.records import format_time, parse_time

AGE = {"max_age": "1d"}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town_in(tmp_path_factory.mktemp("town")) as town:
        yield town


def sessions_of(town: Town, user: str) -> set[str]:
    return {p.name for p in town.root(user).iterdir() if not p.name.startswith(".")}


def results(service: Service) -> list[tuple[str, str, str]]:
    return [(e.action, e.result, e.session_id) for e in reversed(service.audit(1000)[0])]


# ---- looking


def test_a_census(town: Town) -> None:
    ann, bob, eve = town.settle("ann", "bob", "eve")
    old = make_session(town.root(ann), 50, {"a.txt": b"x" * 1000}, title="<b>sums</b>", notebook="/home/ann/a.ipynb")
    used = make_session(town.root(ann), 1)
    legacy, corrupted = make_legacy(town.root(ann)), make_corrupted(town.root(ann))
    make_session(town.root(bob), 1, {"b": b"y" * 10})
    town.root(eve).rmdir()
    service, _ = town.service([ann, bob, eve])
    lock = lock_session(town.root(ann), used)
    try:
        census = asyncio.run(service.census())
    finally:
        lock.release()
    rows = {row.session_id: row for row in census.users[ann].sessions}
    assert rows.keys() == {old, used, legacy, corrupted}
    assert (rows[old].title, rows[old].notebook, rows[old].live) == ("<b>sums</b>", "/home/ann/a.ipynb", False)
    assert rows[old].size_bytes == 1000 + (town.root(ann) / old / METADATA_NAME).stat().st_size
    assert rows[used].state == "live"
    assert (rows[legacy].problem, rows[corrupted].problem) == ("no_metadata", "corrupted_metadata")
    assert len(census.users[bob].sessions) == 1
    assert (census.users[eve].sessions, census.users[eve].problem) == ((), "")
    assert census.users[ann].free_bytes
    assert len(census.sessions) == 5
    assert census.session_bytes == sum(row.size_bytes for row in census.sessions)


def test_a_census_is_remembered_for_a_while(town: Town) -> None:
    (ann,) = town.settle("ann")
    service, _ = town.service([ann], census_seconds=0.05)

    async def look() -> None:
        first = await service.census()
        assert await service.census() is first
        make_session(town.root(ann), 1)
        assert len((await service.census(fresh=True)).sessions) == 1
        make_session(town.root(ann), 1)
        await asyncio.sleep(0.1)
        await service.census()  # it is renewed meanwhile
        while len((await service.census()).sessions) != 2 or service.history(ann)[-1].sessions != 2:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(look(), 30))
    assert service.history()[-1].session_bytes > 0


def test_two_users_with_one_folder(town: Town) -> None:
    ann, bob = town.settle("ann", "bob")
    make_session(town.root(ann), 1000)
    town.root(bob).rmdir()
    town.root(bob).parent.rmdir()
    town.root(bob).parent.symlink_to(town.root(ann).parent)
    service, _ = town.service([ann, bob], AGE)
    run = asyncio.run(service.prune("me"))
    assert f"is also the workspace of {bob}" in run.users[ann].left_alone
    assert not run.deleted
    assert len(sessions_of(town, ann)) == 1


# ---- pruning


def test_what_is_old_goes_and_nothing_else(town: Town) -> None:
    ann, bob = town.settle("ann", "bob")
    old = [make_session(town.root(ann), hours, {"f": b"x" * 10}) for hours in (100, 50)]
    stays = {make_session(town.root(ann), 1), make_legacy(town.root(ann)), make_corrupted(town.root(ann))}
    named = make_session(town.root(ann), 1000, session_id="thesis")
    live = make_session(town.root(ann), 1000)
    young = make_session(town.root(bob), 2)
    service, _ = town.service([ann, bob], AGE)
    lock = lock_session(town.root(ann), live)
    try:
        dry = asyncio.run(service.prune("me", dry_run=True))
        assert sessions_of(town, ann) == {*old, *stays, named, live}
        assert service.audit() == ([], 0)
        run = asyncio.run(service.prune("me"))
    finally:
        lock.release()
    assert sessions_of(town, ann) == {*stays, named, live}
    assert sessions_of(town, bob) == {young}
    assert list(dry.users[ann].deleted.items()) == list(run.users[ann].deleted.items())
    assert list(run.users[ann].deleted) == old
    assert run.users[ann].live == (live,)
    assert run.freed_bytes == sum(run.users[ann].deleted.values()) > 20
    assert results(service) == [
        ("prune", "begun", ""),
        ("prune", "done", old[0]),
        ("prune", "done", old[1]),
        ("prune", "finished", ""),
    ]
    begun = service.audit(result="begun")[0][0]
    assert (begun.actor, begun.user, begun.reason, begun.detail.split()) == ("me", ann, "max_age_hours", old)


def test_what_is_used_after_it_was_decided_stays(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    used, gone = make_session(root, 100), make_session(root, 100)
    service, _ = town.service([ann])

    async def work() -> None:
        await service.census()
        record = read_record(root / used)
        assert record is not None
        write_record(root / used, record.touched(datetime.now(UTC)), sync=False)
        run = await service.delete_sessions("me", {ann: [used, gone, "never-was"]})
        assert set(run.users[ann].changed) == {used, "never-was"}
        assert set(run.users[ann].deleted) == {gone}
        assert [row.session_id for row in (await service.census()).sessions] == [used]

    asyncio.run(work())
    assert sessions_of(town, ann) == {used}


def test_users_with_a_running_server_are_left_alone(town: Town) -> None:
    ann, bob = town.settle("ann", "bob")
    old = {name: make_session(town.root(name), 100) for name in (ann, bob)}
    service, citizens = town.service([ann, bob], AGE)
    citizens.people[ann] = HubUser(ann, running=True)
    run = asyncio.run(service.prune("me"))
    assert run.users[ann].left_alone == LEFT_ALONE
    assert run.users[bob].deleted
    run = asyncio.run(service.archive("me", {ann: [old[ann]]}))
    assert run.users[ann].left_alone == LEFT_ALONE
    run = asyncio.run(service.delete_snapshots("me", {ann: [old[ann]]}))
    assert run.users[ann].left_alone == LEFT_ALONE
    assert sessions_of(town, ann) == {old[ann]}


def test_a_server_that_is_started_meanwhile(town: Town) -> None:
    (ann,) = town.settle("ann")
    old = make_session(town.root(ann), 100)
    service, citizens = town.service([ann], AGE)

    async def running_now(name: str) -> HubUser:
        return HubUser(name, running=True)

    citizens.user = running_now  # type: ignore[method-assign, assignment]
    run = asyncio.run(service.prune("me"))
    assert run.users[ann].left_alone == LEFT_ALONE
    assert sessions_of(town, ann) == {old}


def test_where_locks_are_seen_only_live_sessions_of_running_users_stay(town: Town) -> None:
    (ann,) = town.settle("ann")
    old, live = make_session(town.root(ann), 100), make_session(town.root(ann), 100)
    homes = Homes(town.template, locks_visible=True)
    service, citizens = town.service([ann], AGE, workplace=homes)
    citizens.people[ann] = HubUser(ann, running=True)
    lock = lock_session(town.root(ann), live)
    try:
        run = asyncio.run(service.prune("me"))
    finally:
        lock.release()
        service.close()
    assert set(run.users[ann].deleted) == {old}
    assert sessions_of(town, ann) == {live}


def test_only_what_somebody_agreed_to(town: Town) -> None:
    (ann,) = town.settle("ann")
    one, other = make_session(town.root(ann), 100), make_session(town.root(ann), 50)
    service, _ = town.service([ann])
    young = make_session(town.root(ann), 1)
    only = {ann: [other, young]}  # the policy does not name the young one
    run = asyncio.run(service.prune("me", policy={"max_age": "1d"}, users=[ann], only=only))
    assert set(run.users[ann].deleted) == {other}
    assert sessions_of(town, ann) == {one, young}


def test_many_are_noted_in_parts(town: Town) -> None:
    (ann,) = town.settle("ann")
    for _ in range(205):
        make_session(town.root(ann), 100)
    service, _ = town.service([ann], AGE)
    assert asyncio.run(service.prune("me")).deleted == 205
    assert [len(e.detail.split()) for e in service.audit(result="begun")[0]] == [5, 200]


def test_without_a_log_nothing_is_removed(town: Town) -> None:
    (ann,) = town.settle("ann")
    old = make_session(town.root(ann), 100)
    service, _ = town.service([ann], AGE)
    asyncio.run(service.census())
    service._audit._path.mkdir()
    with pytest.raises(OSError):
        asyncio.run(service.prune("me"))
    assert sessions_of(town, ann) == {old}


def test_unknown_users_and_policies_that_cannot_be(town: Town) -> None:
    (ann,) = town.settle("ann")
    service, _ = town.service([ann])
    with pytest.raises(ConfigurationError, match="no user 'eve'"):
        asyncio.run(service.plan(users=["eve"]))
    with pytest.raises(ConfigurationError, match="no user 'eve'"):
        asyncio.run(service.archive("me", {"eve": []}))
    with pytest.raises(ConfigurationError, match="max_age"):
        asyncio.run(service.prune("me", policy={"max_age": "x"}))


# ---- archives and snapshots


def test_archived_before_deleted(town: Town, tmp_path: Path) -> None:
    (ann,) = town.settle("ann")
    old = make_session(town.root(ann), 100, {"data/a.txt": b"precious"})
    service, _ = town.service([ann], {**AGE, "archive": True})
    run = asyncio.run(service.prune("me"))
    assert run.users[ann].archived == {old: f"{old}.tar.zst"}
    assert sessions_of(town, ann) == set()
    archive = town.archives / ann / f"{old}.tar.zst"
    assert archive.parent.stat().st_mode & 0o777 == 0o700
    again = import_session(archive, tmp_path / "again")
    assert (tmp_path / "again" / again / "data/a.txt").read_bytes() == b"precious"
    assert service.audit(result="done")[0][0].detail == f"{old}.tar.zst"


def test_an_archive_folder_that_others_can_open_is_not_used(town: Town) -> None:
    (ann,) = town.settle("ann")
    old = make_session(town.root(ann), 100)
    service, _ = town.service([ann])
    town.archives.chmod(0o755)
    try:
        run = asyncio.run(service.archive("me", {ann: [old]}))
    finally:
        town.archives.chmod(0o700)
    assert "chmod 700" in run.users[ann].errors["user"]
    assert sessions_of(town, ann) == {old}


def test_snapshots_are_thinned_but_for_those_of_live_sessions(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    rests, live = make_session(root, 1, {"a": b"1"}), make_session(root, 1, {"a": b"2"})
    for session_id in (rests, live):
        for _ in range(3):
            create_snapshot(session_id, root)
    service, _ = town.service([ann], {"snapshot_max_per_session": 1})
    lock = lock_session(root, live)
    try:
        plan = asyncio.run(service.plan())
        assert len(plan.users[ann].snapshots) == 2
        assert plan.reclaimed_bytes == plan.users[ann].snapshot_bytes > 0
        assert len(list_snapshots(root)) == 6
        run = asyncio.run(service.prune("me"))
        (newest,) = list_snapshots(root, live)[:1]
        refused = asyncio.run(service.delete_snapshots("me", {ann: [newest.snapshot_id]}))
    finally:
        lock.release()
    assert set(run.users[ann].snapshots) == set(plan.users[ann].snapshots)
    assert "is in use" in refused.users[ann].errors[newest.snapshot_id]
    assert [len(list_snapshots(root, session_id)) for session_id in (rests, live)] == [1, 3]
    shown = asyncio.run(service.snapshots(ann, live))
    assert [s.snapshot_id for s in shown] == [s.snapshot_id for s in list_snapshots(root, live)]
    run = asyncio.run(service.delete_snapshots("me", {ann: [newest.snapshot_id, "none"]}))
    assert run.users[ann].snapshots == (newest.snapshot_id,)
    assert "none" in run.users[ann].errors
    census = asyncio.run(service.census(fresh=True)).users[ann]
    assert {row.session_id: row.snapshot_count for row in census.sessions} == {rests: 1, live: 2}
    assert census.snapshot_bytes > 0


def test_a_plan_counts_snapshots_of_sessions_that_go_and_thins_out_no_others(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    goes, stays = make_session(root, 100, {"a": b"1"}), make_session(root, 1, {"a": b"2"})
    for name in (goes, stays):
        for hours in (3, 2, 1):
            plant_snapshot(root, name, hours, data=f"{name}{hours}".encode() * 100)
    service, _ = town.service([ann], {**AGE, "snapshot_max_per_session": 1})
    plan = asyncio.run(service.plan())
    of = plan.users[ann]
    assert [d.snapshot_bytes for d in of.remove] == [3 * 3700]
    assert set(of.snapshots) == {s.snapshot_id for s in list_snapshots(root, stays)[1:]}
    assert of.snapshot_bytes == 2 * 3700
    files = of.remove[0].size_bytes
    assert plan.reclaimed_bytes == files + 5 * 3700
    dry = asyncio.run(service.prune("me", dry_run=True))
    assert dry.freed_bytes == plan.reclaimed_bytes
    seen = asyncio.run(service.prune("me", dry_run=True, only={ann: [goes]}))
    assert seen.freed_bytes == files + 3 * 3700
    run = asyncio.run(service.prune("me"))
    assert (set(run.users[ann].deleted), set(run.users[ann].snapshots)) == ({goes}, set(of.snapshots))
    assert not run.failures
    assert len(list_snapshots(root)) == 1


def test_what_belongs_to_nothing_goes_once_a_day(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    make_session(root, 1)
    state = state_folder(root)
    left = [state / "new" / "0c11d2e3.12345678", state / "trash" / "0123456789abcdef", state / "history" / "gone"]
    for hours, name in ((2, "fresh"), (100, "old")):
        (state / "deleted").mkdir(exist_ok=True)
        moment = format_time(datetime.now(UTC) - timedelta(hours=hours))
        (state / "deleted" / f"{name}.json").write_text(json.dumps({"deleted_at": moment}))
    for folder in left:
        folder.mkdir(parents=True)
    service, _ = town.service([ann], AGE)
    assert not asyncio.run(service.prune("me", dry_run=True)).failures
    assert all(folder.exists() for folder in left)
    assert not asyncio.run(service.prune("schedule")).failures
    assert not any(folder.exists() for folder in left)
    assert [p.name for p in (state / "deleted").iterdir()] == ["fresh.json"]
    left[0].mkdir()
    asyncio.run(service.prune("schedule"))
    assert left[0].exists()


def test_a_chart_is_not_worth_a_census(town: Town) -> None:
    (ann,) = town.settle("ann")
    make_session(town.root(ann), 1)
    service, _ = town.service([ann])
    path = service._how.state / "history.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"nonsense" * 1000)
    assert asyncio.run(service.census()).sessions
    assert len(service.history()) == 1
    path.unlink()
    path.mkdir()
    assert asyncio.run(service.census(fresh=True)).sessions


# ---- warnings


def test_users_are_told_and_their_sessions_go_when_the_time_is_over(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    old, used, young = make_session(root, 100), make_session(root, 100), make_session(root, 1)
    service, _ = town.service([ann], {**AGE, "warn_before": "2s"})
    begun = datetime.now(UTC)
    run = asyncio.run(service.prune("schedule"))
    assert (run.deleted, run.users[ann].waiting) == (0, 2)
    assert {w.session_id for w in service.warnings()} == {old, used}
    told = json.loads((root / ".wasm-kernel/notices.json").read_bytes())
    assert told["version"] == 1
    (notice,) = told["notices"]
    assert set(notice) == {"id", "created_at", "text", "session_ids", "due"}
    assert set(notice["session_ids"]) == {old, used}
    assert "2 sessions of yours will be deleted" in notice["text"]
    assert timedelta(seconds=2) <= parse_time(notice["due"]) - begun < timedelta(seconds=30)
    assert {(e.session_id, e.bytes > 0) for e in service.audit(action="warn")[0]} == {(old, True), (used, True)}

    record = read_record(root / used)
    assert record is not None
    write_record(root / used, record.touched(datetime.now(UTC)), sync=False)
    time.sleep(max(0.0, (parse_time(notice["due"]) - datetime.now(UTC)).total_seconds()))
    run = asyncio.run(service.prune("schedule"))
    assert set(run.users[ann].deleted) == {old}
    assert sessions_of(town, ann) == {used, young}
    asyncio.run(service.prune("schedule"))
    assert service.warnings() == []
    assert not (root / ".wasm-kernel/notices.json").exists()
    assert len(service.audit(action="warn")[0]) == 2  # nobody was told twice


def test_warnings_outlive_the_service(town: Town) -> None:
    (ann,) = town.settle("ann")
    make_session(town.root(ann), 100)
    service, citizens = town.service([ann], {**AGE, "warn_before": "1h"})
    asyncio.run(service.prune("schedule"))
    (known,) = service.warnings()
    again = Service(service._how, town.homes, citizens)
    assert again.warnings() == [known]
    asyncio.run(again.prune("schedule"))
    assert again.warnings() == [known]
    (service._how.state / "warnings.json").write_bytes(b"{damaged")
    (anew,) = Service(service._how, town.homes, citizens).warnings() or [None]
    assert anew is None  # everybody is told again, and has time again


def test_who_cannot_be_told_loses_nothing(town: Town) -> None:
    (ann,) = town.settle("ann")
    root = town.root(ann)
    old = make_session(root, 100)
    (root / ".wasm-kernel").mkdir()
    (root / ".wasm-kernel/notices.json").mkdir()  # nothing can take its place
    (root / ".wasm-kernel/notices.json/x").touch()
    service, _ = town.service([ann], {**AGE, "warn_before": "1ms"})
    for _ in range(2):
        asyncio.run(service.prune("schedule"))
    assert service.warnings() == []
    assert sessions_of(town, ann) == {old}


def test_a_policy_tried_out_by_hand_waits_for_nobody(town: Town) -> None:
    (ann,) = town.settle("ann")
    old = make_session(town.root(ann), 100)
    service, _ = town.service([ann], {**AGE, "warn_before": "1h"})
    run = asyncio.run(service.prune("me", policy=AGE))
    assert set(run.users[ann].deleted) == {old}


# ---- metrics


def test_metrics(town: Town) -> None:
    ann, bob = town.settle("ann", "bob")
    old = make_session(town.root(ann), 100, {"f": b"x" * 500})
    live = make_session(town.root(ann), 100)
    make_session(town.root(bob), 1)
    service, _ = town.service([ann, bob], {**AGE, "archive": True})
    lock = lock_session(town.root(ann), live)
    try:
        run = asyncio.run(service.prune("schedule"))
        asyncio.run(service.census(fresh=True))
    finally:
        lock.release()
    service.metrics.scheduled(run)
    text = service.metrics.text().decode()
    size = run.users[ann].deleted[old]
    for line in (
        f'wasm_kernel_hub_user_sessions{{user="{ann}"}} 1.0',
        f'wasm_kernel_hub_user_sessions{{user="{bob}"}} 1.0',
        "wasm_kernel_hub_sessions 2.0",
        "wasm_kernel_hub_live_sessions 1.0",
        f'wasm_kernel_hub_deleted_sessions_total{{user="{ann}"}} 1.0',
        f'wasm_kernel_hub_archived_sessions_total{{user="{ann}"}} 1.0',
        f'wasm_kernel_hub_freed_bytes_total{{user="{ann}"}} {float(size)}',
        "wasm_kernel_hub_skipped_live_sessions 1.0",
        'wasm_kernel_hub_runs_total{result="done"} 1.0',
    ):
        assert line in text.splitlines(), line
    for name in ("snapshots", "snapshot_bytes", "last_run_timestamp_seconds", "last_run_duration_seconds"):
        assert f"\nwasm_kernel_hub_{name} " in text
    assert "python_info" not in text


# ---- the worker


def test_a_child_that_is_killed_or_takes_too_long(town: Town) -> None:
    (ann,) = town.settle("ann")
    make_session(town.root(ann), 1)
    homes = Homes(town.template)
    try:
        asyncio.run(homes.do(HubUser(ann), "look"))
        gate = state_folder(town.root(ann)) / "gate"
        handle = os.open(gate, os.O_RDWR | os.O_CREAT)
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)  # whoever removes sessions waits for it
        old = make_session(town.root(ann), 100)
        homes._seconds, patience = 0.5, homes._seconds
        found = asyncio.run(homes.do(HubUser(ann), "remove", decisions=[[old, "asked for", 1, [1, 1]]]))
        homes._seconds = patience
        assert homes._worker is not None
        worker = psutil.Process(homes._worker._process.pid)
        while worker.children():  # it waits for the gate, and would for ever
            time.sleep(0.05)
        os.close(handle)
        assert "took longer" in found["problem"]
        assert "sessions" in asyncio.run(homes.do(HubUser(ann), "look"))
        worker.kill()
        worker.wait()
        assert "sessions" in asyncio.run(homes.do(HubUser(ann), "look"))  # there is a new one
    finally:
        homes.close()


def test_one_user_does_not_hold_up_the_census_of_all(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = town.settle("ann", "bob")
    slow = (
        "import time; from wasm_kernel.hub.workspaces import confined_worker, jobs; look = jobs.look\n"
        f"jobs.JOBS['look'] = lambda root: time.sleep(60 * ({ann!r} in str(root))) or look(root)\n"
        "confined_worker.main()"
    )
    monkeypatch.setattr(homes_module, "_WORKER", ("-c", slow))
    place = Homes(town.template)
    service, _ = town.service([ann, bob], workplace=place)
    asyncio.run(place.do(HubUser(bob), "look"))  # the worker is there
    monkeypatch.setattr(homes_module, "_PATIENCE", 1.0)
    try:
        census = asyncio.run(service.census())
    finally:
        service.close()
    assert "took longer than 1 s" in census.users[ann].problem
    assert not census.users[bob].problem


def test_the_worker_has_no_secrets_and_ends_with_the_service(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    (ann,) = town.settle("ann")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "geheim")
    homes = Homes(town.template)
    asyncio.run(homes.do(HubUser(ann), "look"))
    worker = homes._worker
    assert worker is not None
    environment = Path(f"/proc/{worker._process.pid}/environ").read_bytes()
    assert b"PATH=" in environment
    assert b"geheim" not in environment
    homes.close()
    assert worker._process.returncode == 0
