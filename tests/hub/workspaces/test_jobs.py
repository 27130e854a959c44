"""What is done in one user's workspace, on plain folders: no worker, no guest."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import make_corrupted, make_session, plant_snapshot, set_age
from wasm_kernel.host.disk import locks, tombstones
from wasm_kernel.hub.workspaces import checked_answers, jobs
from wasm_kernel.hub.workspaces.jobs import JOBS
from wasm_kernel.hub.workspaces.remote import Remote
from wasm_kernel.model.records import format_time
from wasm_kernel.sessions.inventory import stamp_of
from wasm_kernel.sessions.snapshots import list_snapshots

BOUNDS = {"max_age_hours": None, "max_per_session": 1, "max_total_bytes": None}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def in_use(root: Path) -> Iterator[Callable[[str], None]]:
    held: list[locks.SessionLock] = []
    yield lambda session_id: held.append(locks.lock_session(root, session_id))
    for lock in held:
        lock.release()


def decided(root: Path, *session_ids: str) -> list[list[Any]]:
    return [[name, "max_age_hours", 100, stamp_of(root, name)] for name in session_ids]


def wired(found: Any) -> Any:
    """As it comes to the service."""
    return json.loads(json.dumps(found))


def test_the_same_jobs_are_done_in_homes_and_by_servers() -> None:
    async def made() -> Remote:
        return Remote(None, "http://127.0.0.1:8000", "secret")  # type: ignore[arg-type]

    theirs = asyncio.run(made())._jobs
    assert theirs.keys() == JOBS.keys() - {"connections"}, "of connections, servers cannot be asked yet"
    for name, job in ((name, JOBS[name]) for name in theirs):
        ours, others = (set(inspect.signature(f).parameters) for f in (job, theirs[name]))
        assert ours - {"root", "archive_to"} == others - {"server", "archive"}, name


def test_looking(root: Path, in_use: Callable[[str], None]) -> None:
    session_id = make_session(root, 1, {"f": b"x" * 100}, title="t" * 1000, notebook="n" * 1000)
    make_corrupted(root)
    assert jobs.look(root)["snapshot_bytes"] == 0
    assert not (root / ".wasm-kernel/snapshots").exists(), "who only looks makes no store"
    plant_snapshot(root, session_id)
    plant_snapshot(root, "0c11d2e3-0000-4000-8000-000000000000")  # of a session that is gone
    in_use(session_id)
    found = wired(jobs.look(root))
    of = {info["session_id"]: info for info in found["sessions"]}[session_id]
    assert (of["live"], of["snapshot_count"], len(of["title"]), len(of["notebook"])) == (True, 1, 200, 300)
    assert len(found["sessions"]) == 2
    assert found["snapshot_count"] == 2
    assert found["snapshot_bytes"] > 0
    assert found["free_bytes"] > 0


def test_snapshots_are_listed(root: Path) -> None:
    one, other = make_session(root), make_session(root)
    taken = [plant_snapshot(root, name, hours).snapshot_id for name, hours in ((one, 2), (other, 1))]
    found = checked_answers.snapshot_rows("ann", wired(jobs.snapshots(root)))
    assert [row.snapshot_id for row in found] == taken[::-1]
    (row,) = checked_answers.snapshot_rows("ann", wired(jobs.snapshots(root, one)))
    assert (row.session_id, row.trigger, row.stored_bytes) == (one, "checkpoint", 16)


def test_only_what_is_as_it_was_is_removed(root: Path, in_use: Callable[[str], None]) -> None:
    old, used, live = (make_session(root, 50) for _ in range(3))
    wanted = decided(root, old, used, live)
    set_age(root, used, 50)
    in_use(live)
    found = checked_answers.pruned(wired(jobs.remove(root, wanted)))
    assert (found.deleted, found.changed, found.live) == ({old: 100}, (used,), (live,))
    assert {p.name for p in root.iterdir()} == {used, live, ".wasm-kernel"}


def test_archived_before_removed(root: Path, tmp_path: Path) -> None:
    old = make_session(root, 50, {"f": b"x"})
    found = checked_answers.pruned(wired(jobs.remove(root, decided(root, old), str(tmp_path / "old"))))
    assert found.archived == {old: f"{old}.tar.zst"}
    assert (tmp_path / "old" / f"{old}.tar.zst").is_file()
    assert not (root / old).exists()


def test_stopped_sessions_leave_a_snapshot(root: Path, in_use: Callable[[str], None]) -> None:
    old, used, live = (make_session(root, 50, {"f": b"x"}) for _ in range(3))
    wanted = decided(root, old, used, live)
    set_age(root, used, 50)
    in_use(live)
    found = checked_answers.pruned(wired(jobs.stop(root, wanted)))
    (last,) = list_snapshots(root)
    assert (found.deleted, found.changed, found.live) == ({old: 100}, (used,), (live,))
    assert found.saved == {old: last.snapshot_id} and last.trigger == "session_close"


def test_a_session_from_a_snapshot(root: Path) -> None:
    old = make_session(root, 50, {"f": b"content"})
    jobs.stop(root, decided(root, old))
    (last,) = list_snapshots(root)
    made = wired(jobs.fork(root, last.snapshot_id, "t" * 1000))["session_id"]
    assert (root / made / "f").read_bytes() == b"content"
    assert len({s["session_id"]: s for s in jobs.look(root)["sessions"]}[made]["title"]) == 200


def test_what_is_foreseen_counts_every_snapshot_once(root: Path, in_use: Callable[[str], None]) -> None:
    goes, stays, live = (make_session(root, 50) for _ in range(3))
    for number, name in enumerate((goes, stays, live)):
        for hours in (3, 2, 1):
            plant_snapshot(root, name, hours, data=b"%d-%d" % (number, hours) * 100)
    in_use(live)
    before = sorted(str(p) for p in root.rglob("*"))
    wanted = decided(root, goes)
    whole = checked_answers.foreseen(wired(jobs.foresee(root, wanted, BOUNDS)))
    assert whole.of_sessions == {goes: 3 * 300}
    thinned = list_snapshots(root, stays)[1:]
    assert set(whole.snapshots) == {s.snapshot_id for s in thinned}, "those of sessions that go go with them"
    assert whole.snapshot_bytes == 2 * 300
    bare = checked_answers.foreseen(wired(jobs.foresee(root, wanted)))
    assert (bare.of_sessions, bare.snapshots, bare.snapshot_bytes) == (whole.of_sessions, (), 0)
    assert sorted(str(p) for p in root.rglob("*")) == before, "nothing was changed"

    jobs.remove(root, wanted)
    assert set(wired(jobs.thin(root, BOUNDS))["snapshots"]) == set(whole.snapshots)


def test_snapshots_are_forgotten_one_by_one(root: Path, in_use: Callable[[str], None]) -> None:
    rests, live = make_session(root), make_session(root)
    one, kept = plant_snapshot(root, rests), plant_snapshot(root, live)
    in_use(live)
    found = checked_answers.pruned(wired(jobs.forget(root, [one.snapshot_id, kept.snapshot_id, "none"])))
    assert found.snapshots == (one.snapshot_id,)
    assert "is in use" in found.errors[kept.snapshot_id]
    assert "none" in found.errors
    assert found.snapshot_bytes > 0
    assert list_snapshots(root) == [kept]


def test_sweeping_takes_no_session(root: Path) -> None:
    old = make_session(root, 1000)
    for name, hours in (("gone", 100), ("fresh", 1)):
        moment = format_time(datetime.now(UTC) - timedelta(hours=hours))
        tombstones.write(root, name, {"deleted_at": moment}, most=10)
    left = locks.state_folder(root) / "trash/0123456789abcdef"
    left.mkdir(parents=True)
    jobs.sweep(root)
    assert not left.exists()
    assert tombstones.names(root) == {"gone", "fresh"}
    assert checked_answers.pruned(wired(jobs.sweep(root, 24.0))).deleted == {}
    assert tombstones.names(root) == {"fresh"}
    assert (root / old).is_dir()


def test_notices_are_put_where_a_kernel_finds_them(root: Path) -> None:
    assert jobs.tell(root, [{"id": "1", "text": "soon"}]) == {}
    assert "soon" in (root / ".wasm-kernel/notices.json").read_text()
    jobs.tell(root, [])
    assert not (root / ".wasm-kernel/notices.json").exists()
