"""Retention of sessions that are pushed: here, in the store, or in both; deleted from both, and not brought back."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.remote.test_pushing import QUIET, made, pull, push, ran
from wasm_kernel import delete_session_workspace
from wasm_kernel.errors import LeaseLost, RemoteError, SessionDeleted
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.retention import Plan, RetentionPolicy
from wasm_kernel.sessions.housekeeping import (
    PruneResult,
    carry_out,
    foreseen,
    plan_housekeeping,
    plan_removal,
    prune_sessions,
    report,
)
from wasm_kernel.sessions.remote import lease as leases
from wasm_kernel.sessions.remote import stored as stored_module
from wasm_kernel.sessions.remote.deleting import delete_stored, finish_deletions, waiting_deletions
from wasm_kernel.sessions.remote.lease import acquire, holder, mark_of
from wasm_kernel.sessions.remote.pulling import pull_session
from wasm_kernel.sessions.remote.pushing import SessionPush
from wasm_kernel.sessions.remote.stored import remote_sessions, survey_store

EVERYTHING = RetentionPolicy(max_age_hours=0)
Nodes = tuple[Path, Path]


def prune(objects: Objects, root: Path, policy: RetentionPolicy = EVERYTHING, **more: Any) -> PruneResult:
    """A dry run, and the real one, which must do exactly that."""
    planned = plan_housekeeping(root, policy, store=objects, **more)
    before = objects.names("")
    expected = foreseen(planned)
    assert objects.names("") == before, "a dry run changes nothing"
    done = carry_out(root, planned, QUIET)
    assert done.deleted_sessions == expected.deleted_sessions
    assert (done.reclaimed_bytes, done.stored_bytes_freed) == (expected.reclaimed_bytes, expected.stored_bytes_freed)
    assert done.live_sessions == expected.live_sessions and not done.errors
    return done


def aged(root: Path, session_id: str) -> None:
    """Last used a year ago, as this machine knows it."""
    record = read_record(root / session_id)
    assert record is not None
    long_ago = record.updated_at - timedelta(days=365)
    write_record(root / session_id, replace(record, created_at=long_ago, updated_at=long_ago), sync=True)


def test_a_session_is_deleted_from_both(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id, kept = made(here, "x = 1"), made(here, "x = 2")
    for one in (session_id, kept):
        push(objects, here, one)
    size = survey_store(objects).sessions[session_id].size_bytes
    done = prune(objects, here, RetentionPolicy(max_age_hours=0, keep=frozenset({kept})))
    assert done.deleted_sessions == [session_id] and done.stored_bytes_freed == size > 0
    assert not (here / session_id).exists() and remote_sessions(objects) == [kept]
    assert objects.names(f"sessions/{session_id}/") == [mark_of(session_id)], "only the mark is left"
    with pytest.raises(SessionDeleted, match=r"was deleted in .* by .*, process \d+ at 20"):
        pull_session(objects, there, session_id, QUIET)


def test_what_is_only_in_the_store_is_judged_and_deleted(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    planned = plan_housekeeping(there, RetentionPolicy(max_sessions=0), store=objects)
    told = report(planned, foreseen(planned))["sessions"][0]
    assert (told["session_id"], told["size_bytes"], told["done"]) == (session_id, 0, False) and told["stored_bytes"] > 0
    nothing = prune(objects, there, RetentionPolicy(min_free_bytes=1 << 60))
    assert nothing.deleted_sessions == [], "it takes nothing of this disk"
    assert prune(objects, there, RetentionPolicy(max_age_hours=24)).deleted_sessions == []
    assert prune(objects, there, RetentionPolicy(max_total_bytes=10)).deleted_sessions == [session_id]
    assert remote_sessions(objects) == [] and (here / session_id).is_dir(), "what is on another disk stays there"


def test_without_the_store_only_this_disk_is_pruned(objects: Objects, nodes: Nodes) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    assert prune_sessions(0, here).deleted_sessions == [session_id]
    assert remote_sessions(objects) == [session_id]
    assert waiting_deletions(here) == [session_id], "and the next one that knows the store finishes it"
    assert prune(objects, here, RetentionPolicy()).deleted_sessions == [session_id]
    assert remote_sessions(objects) == waiting_deletions(here) == []


def test_a_session_that_another_machine_has_open_is_in_use(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    theirs = leases.acquire(objects, session_id, node="another disk")
    for root in nodes:  # here it is on the disk, too; there it is only in the store
        assert prune(objects, root).live_sessions == [session_id]
    planned = plan_housekeeping(here, EVERYTHING, store=objects, stamps={session_id: "any"})
    assert [d.reason for d in planned.sessions.keep] == ["live"]
    assert (here / session_id).is_dir() and remote_sessions(objects) == [session_id]
    theirs.give_back()
    assert prune(objects, here).deleted_sessions == [session_id]


def test_one_that_is_opened_after_the_decision_is_spared(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    opened, pushed, untouched = (made(here, "x = 1") for _ in range(3))
    for one in (opened, pushed, untouched):
        push(objects, here, one)
    planned = plan_housekeeping(there, EVERYTHING, store=objects)
    lease = acquire(objects, opened, node="another disk")
    ran(here, pushed, "x = 2")
    push(objects, here, pushed)
    done = carry_out(there, planned, QUIET)
    assert (done.deleted_sessions, done.live_sessions, done.changed_sessions) == ([untouched], [opened], [pushed])
    assert remote_sessions(objects) == sorted([opened, pushed])
    lease.check()
    assert holder(objects, pushed).over, "its lease was given back"  # type: ignore[union-attr]


def test_a_session_that_went_on_elsewhere_is_as_old_as_it_is_there(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    aged(here, session_id)
    policy = RetentionPolicy(max_age_hours=24 * 30)
    assert foreseen(plan_housekeeping(here, policy, store=objects)).deleted_sessions == [session_id]
    pull(objects, there, session_id)
    ran(there, session_id, "x = 2")
    push(objects, there, session_id)
    assert prune(objects, here, policy).deleted_sessions == []


def test_a_machine_that_was_away_does_not_bring_it_back(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    pull(objects, there, session_id)
    assert prune(objects, here).deleted_sessions == [session_id]
    ran(there, session_id, "x = 'only there'")
    with pytest.raises(SessionDeleted, match="was deleted in"):
        push(objects, there, session_id)
    assert remote_sessions(objects) == []
    assert ran(there, session_id, "print(x)") == "only there", "and nothing of it is lost"
    assert prune(objects, there, RetentionPolicy(max_age_hours=24)).deleted_sessions == []


def test_a_push_that_was_under_way_is_told_and_what_it_writes_does_not_count(
    objects: Objects, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    lease = acquire(objects, session_id)
    session = SessionPush(objects, here, session_id, lease)
    session.push()
    ran(here, session_id, "import os; x = 2; data = os.urandom(1 << 20)")
    original, checks = leases.Lease.check, list[int]()

    def check(self: leases.Lease) -> None:
        original(self)
        checks.append(1)
        if len(checks) == 2:  # right after the last look before the state is written
            monkeypatch.setattr(leases.Lease, "check", original)
            delete_stored(objects, session_id, acquire(objects, session_id, take_over=True))

    monkeypatch.setattr(leases.Lease, "check", check)
    with pytest.raises(SessionDeleted):
        session.push()
    assert len(objects.names(f"sessions/{session_id}/")) > 1, "it wrote after the deletion"
    assert remote_sessions(objects) == []
    with pytest.raises(SessionDeleted):
        pull_session(objects, there, session_id, QUIET)
    prune(objects, there, RetentionPolicy())
    assert objects.names(f"sessions/{session_id}/") == [mark_of(session_id)], "and that is swept, without any bound"
    assert ran(here, session_id, "print(x)") == "2"


def test_of_a_deletion_and_an_opening_at_once_one_gives_way(
    objects: Objects, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    mine = acquire(objects, session_id)
    real = leases.holder
    looked: list[Any] = []

    def late(given: Objects, name: str) -> Any:
        """Whoever opens it looks before the mark is made, and makes its lease afterwards."""
        found = looked[0] if looked else real(given, name)
        if not looked:
            looked.append(found)
            objects.create(mark_of(session_id), leases.me())
        else:
            monkeypatch.setattr(leases, "holder", real)
            found = real(given, name)
        return found

    monkeypatch.setattr(leases, "holder", late)
    with pytest.raises(SessionDeleted):
        acquire(objects, session_id, take_over=True)
    objects.delete([mark_of(session_id)])
    acquire(objects, session_id, take_over=True)  # and the other way round: it was there before the mark
    with pytest.raises(LeaseLost):
        delete_stored(objects, session_id, mine)
    monkeypatch.setattr(leases.Lease, "check", lambda self: None)  # it came right after the look at the lease
    with pytest.raises(LeaseLost, match="just opened elsewhere"):
        delete_stored(objects, session_id, mine)
    assert remote_sessions(objects) == [session_id], "nothing was deleted, and there is no mark"


@pytest.mark.parametrize("after", (0, 1, 3))
def test_a_deletion_that_is_killed_is_finished_by_the_next_prune(
    objects: Any, nodes: Nodes, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    calls = [0]

    def dying(work: Any) -> Any:
        def call(names: Any) -> Any:
            for name in names:
                calls[0] += 1
                if calls[0] > after:
                    raise KeyboardInterrupt
                work([name])

        return call

    lease = acquire(objects, session_id)
    monkeypatch.setattr(objects, "delete", dying(objects.delete))
    with pytest.raises(KeyboardInterrupt):
        delete_stored(objects, session_id, lease)
    monkeypatch.undo()
    with pytest.raises(SessionDeleted):
        pull_session(objects, there, session_id, QUIET)
    prune(objects, there, RetentionPolicy())
    assert objects.names(f"sessions/{session_id}/") == [mark_of(session_id)]


def test_a_deletion_while_the_store_is_away_is_finished_later(
    objects: Any, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = nodes
    session_id, other = made(here, "x = 1"), made(here, "x = 2")
    for one in (session_id, other):
        push(objects, here, one)
    planned = plan_housekeeping(here, EVERYTHING, store=objects, only={session_id})
    real = objects.create

    def create(name: str, data: bytes) -> bool:
        if name == mark_of(session_id):
            raise RemoteError("the store is away")
        return bool(real(name, data))

    monkeypatch.setattr(objects, "create", create)
    done = carry_out(here, planned, QUIET)
    assert "the store is away" in done.errors[session_id] and "the next prune deletes it" in done.errors[session_id]
    assert not (here / session_id).exists() and remote_sessions(objects) == sorted([session_id, other])
    assert finish_deletions(objects, here) == {session_id: "the store is away"}
    monkeypatch.setattr(objects, "create", real)
    assert prune(objects, here, RetentionPolicy()).deleted_sessions == [session_id], "without any bound"
    assert remote_sessions(objects) == [other]


def test_a_store_that_is_away_loses_nothing(objects: Any, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    planned = plan_housekeeping(here, EVERYTHING, store=objects)

    def away(*given: Any) -> Any:
        raise RemoteError("the store is away")

    for name in ("listing", "names", "create", "write"):
        monkeypatch.setattr(objects, name, away)
    with pytest.raises(RemoteError):
        plan_housekeeping(here, EVERYTHING, store=objects)
    done = carry_out(here, planned, QUIET)
    assert done.errors == {session_id: "the store is away"} and done.deleted_sessions == []
    assert (here / session_id).is_dir()


def test_what_another_machine_went_on_with_is_not_an_unfinished_deletion(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    pull(objects, there, session_id)
    ran(there, session_id, "x = 2")
    push(objects, there, session_id)
    delete_session_workspace(session_id, here)
    assert prune(objects, here, RetentionPolicy()).deleted_sessions == []
    assert finish_deletions(objects, here) == {}
    assert remote_sessions(objects) == [session_id] and waiting_deletions(here) == []


def test_a_disk_that_was_lost_deletes_nothing(objects: Objects, nodes: Nodes) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    shutil.rmtree(here / session_id)  # by hand: nobody said that the session should go
    assert prune(objects, here, RetentionPolicy()).deleted_sessions == []
    assert finish_deletions(objects, here) == {} and remote_sessions(objects) == [session_id]


@pytest.mark.parametrize("where", ["here", "there"])
def test_archives_and_last_snapshots_of_what_is_in_the_store(
    objects: Objects, nodes: Nodes, tmp_path: Path, where: str
) -> None:
    root = nodes[where == "there"]
    first, second = (made(nodes[0], "open('a.txt', 'w').write('a')") for _ in range(2))
    for one in (first, second):
        push(objects, nodes[0], one)
    done = prune(objects, root, only={first}, archive_to=tmp_path / "archive")
    assert list(done.archived) == [first] and done.archived[first].stat().st_size > 100
    done = prune(objects, root, only={second}, snapshot=True)
    assert list(done.last_snapshots) == [second]
    assert remote_sessions(objects) == [] and not (root / first).exists() and not (root / second).exists()


def test_what_interrupted_pushes_left_is_collected_but_nothing_that_is_used(
    objects: Objects, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = nodes
    session_id, first = made(here, "import os; data = os.urandom(1 << 20)"), made(here, "x = 1")
    push(objects, here, session_id)
    stray = f"sessions/{session_id}/packs/{'0' * 64}"
    never = f"sessions/{first}/packs/{'1' * 64}"  # killed before its first state
    time.sleep(1.1)  # S3's times are whole seconds
    for name in (stray, never):
        objects.write(name, b"stray")
    before = objects.names("sessions/")
    prune(objects, there, RetentionPolicy())
    assert objects.names("sessions/") == before, "somebody may be writing it"
    monkeypatch.setattr(stored_module, "_UNFINISHED", -stored_module._UNFINISHED)
    held = acquire(objects, session_id, node="another disk")
    monkeypatch.setattr(leases, "_STALE_AFTER", -1000.0)  # it said nothing for long, and may only be asleep
    prune(objects, there, RetentionPolicy())
    assert stray in objects.names("sessions/") and never not in objects.names("sessions/")
    held.give_back()
    prune(objects, there, RetentionPolicy())
    assert stray not in objects.names("sessions/")
    pull(objects, there, session_id)
    assert ran(there, session_id, "print(len(data))") == str(1 << 20)


def test_marks_go_in_the_end(objects: Objects, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    prune(objects, here)
    monkeypatch.setattr(stored_module, "REMEMBERED", -stored_module.REMEMBERED)
    prune(objects, here, RetentionPolicy())
    assert objects.names("sessions/") == []


def test_a_damaged_copy_is_mended_by_the_next_push(objects: Objects, nodes: Nodes) -> None:
    here, there = nodes
    session_id = made(here, "import os; data = os.urandom(1 << 20)")
    push(objects, here, session_id)
    objects.delete(objects.names(f"sessions/{session_id}/packs/"))
    push(objects, here, session_id)
    pull(objects, there, session_id)
    assert ran(there, session_id, "print(len(data))") == str(1 << 20)


def test_hub_and_commands_delete_what_they_chose_from_both(objects: Objects, nodes: Nodes) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    push(objects, here, session_id)
    planned = plan_housekeeping(here, RetentionPolicy(), store=objects, stamps={session_id: "another"})
    assert [d.reason for d in planned.sessions.keep] == ["changed"]
    assert plan_removal(here, Plan()).store is None
    stamps = {f.session_id: f.stamp for f in planned.found.sessions}
    done = prune(objects, here, RetentionPolicy(), stamps=stamps)
    assert done.deleted_sessions == [session_id] and remote_sessions(objects) == []
