"""What is decided, without any file: plans of all users, warnings, what two users share."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from wasm_kernel.hub.census import Census, HubUser, SessionRow, UserCensus, without_shared
from wasm_kernel.hub.plan import UserPlan, foreseen, plan_all, plan_user
from wasm_kernel.hub.policies import UserRules, rules_from
from wasm_kernel.hub.user_warnings import notices_of, warnings_for

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def row(hours: float, *, user: str = "ann", size: int = 100, session_id: str = "", **more: object) -> SessionRow:
    moment = NOW - timedelta(hours=hours)
    return SessionRow(user, session_id or str(uuid.uuid4()), moment, moment, size, **more)  # type: ignore[arg-type]


def user(*rows: SessionRow, name: str = "ann", **more: object) -> UserCensus:
    return UserCensus(HubUser(name), NOW, "/x", rows, **more)  # type: ignore[arg-type]


def decide(of: UserCensus, rules: UserRules, due: dict[str, datetime] | None = None, obstacle: str = "") -> UserPlan:
    return plan_user(of, rules, due or {}, NOW, obstacle)


RULES = rules_from({"max_age": "10d", "warn_before": "2d"})


def test_nothing_is_planned_for_whom_something_stands_in_the_way() -> None:
    old = row(1000)
    rules = rules_from({"max_age": "1d"})
    assert [d.session_id for d in decide(user(old), rules).remove] == [old.session_id]
    for plan in (decide(user(old), rules, obstacle="it runs"), decide(user(old, problem="no"), rules)):
        assert not plan.remove
        assert plan.left_alone in ("it runs", "no")


def test_live_named_and_unjudged_sessions_stay() -> None:
    live, bad, named = row(1000, live=True), row(1000, problem="no_metadata"), row(1000, session_id="thesis")
    plan = decide(user(live, bad, named), rules_from({"max_age": "1d"}))
    assert not plan.remove
    assert plan.live == (live.session_id,)
    assert [d.session_id for d in plan.skip] == [bad.session_id]


def test_a_session_nobody_was_told_of_waits() -> None:
    old = row(1000)
    plan = decide(user(old), RULES)
    assert not plan.remove
    assert [w.due for w in plan.waiting] == [NOW + timedelta(days=2)]


def test_it_goes_when_the_time_is_over_and_not_a_moment_before() -> None:
    old = row(1000)
    assert not decide(user(old), RULES, {old.session_id: NOW + timedelta(seconds=1)}).remove
    assert decide(user(old), RULES, {old.session_id: NOW}).remove


def test_a_full_disk_waits_for_nobody() -> None:
    old = row(1000, size=50)
    rules = rules_from({"min_free": 100, "warn_before": "2d"})
    assert [d.reason for d in decide(user(old, free_bytes=60), rules).remove] == ["min_free_bytes"]
    assert not warnings_for(user(old, free_bytes=60), rules, {}, NOW)


def test_users_are_told_ahead_of_time() -> None:
    soon, later, never = row(9 * 24), row(7 * 24), row(1)
    told = warnings_for(user(soon, later, never), RULES, {}, NOW)
    assert [w.session_id for w in told] == [soon.session_id]
    assert told[0].due == NOW + timedelta(days=2)  # it is old enough in one day, but was told of only now
    early = warnings_for(user(row(8 * 24 + 1)), rules_from({"max_age": "10d", "warn_before": "2d"}), {}, NOW)
    assert early[0].due == NOW + timedelta(days=2)


def test_a_warning_stays_as_it_is_until_the_session_is_used() -> None:
    old = row(9 * 24)
    (first,) = warnings_for(user(old), RULES, {}, NOW)
    later = NOW + timedelta(days=1)
    assert warnings_for(user(old), RULES, {first.session_id: first}, later) == [first]
    assert warnings_for(user(row(0, session_id=old.session_id)), RULES, {first.session_id: first}, later) == []
    again = row(8.5 * 24, session_id=old.session_id)  # used since, and old again
    (second,) = warnings_for(user(again), RULES, {first.session_id: first}, NOW + timedelta(days=1))
    assert second.warned_at == NOW + timedelta(days=1)


def test_a_user_who_cannot_be_looked_at_keeps_warnings() -> None:
    (known,) = warnings_for(user(row(9 * 24)), RULES, {}, NOW)
    assert warnings_for(user(problem="away"), RULES, {known.session_id: known}, NOW) == [known]


def test_notices_are_short_however_much_there_is() -> None:
    many = [row(9 * 24, title=f"session {n} " + "x" * 200) for n in range(2000)]
    told = warnings_for(user(*many), RULES, {}, NOW)
    (notice,) = notices_of(told, RULES)
    assert len(notice["session_ids"]) == 500
    assert len(notice["text"]) < 1000
    assert "2000 sessions of yours will be deleted" in notice["text"]
    assert "1995 more" in notice["text"]
    assert notice["due"] == "2026-11-24T12:00:00.000000Z"


def test_notices_say_what_to_do() -> None:
    told = warnings_for(user(row(9 * 24, notebook="/home/ann/work/sums.ipynb")), RULES, {}, NOW)
    (notice,) = notices_of(told, rules_from({"max_age": "10d", "archive": True}))
    assert notice["text"] == (
        "A session of yours will be archived and deleted, on 2026-11-24 (unused for 10.0 d): sums.ipynb. "
        "To keep it, open its notebook and run a cell."
    )


def test_of_users_who_share_a_folder_nothing_is_known() -> None:
    found = without_shared(
        [user(row(1), name="ann", identity="1:2"), user(row(1), name="bob", identity="1:2"), user(row(1), name="eve")]
    )
    assert not found["ann"].sessions
    assert found["ann"].problem == "/x is also the workspace of bob"
    assert found["bob"].problem
    assert found["eve"].sessions


def test_what_is_reclaimed_counts_snapshots_of_sessions_that_go() -> None:
    one, other = row(1000, size=100), row(999, size=10)
    plan = decide(user(one, other), rules_from({"max_age": "1d"}))
    remove = tuple(replace(d, snapshot_bytes=5) for d in plan.remove)
    plan = replace(plan, remove=remove, snapshots=("s",), snapshot_bytes=3)
    assert plan.reclaimed_bytes == 110 + 2 * 5 + 3
    dry = foreseen(plan)
    assert (dry.deleted, dry.snapshots, dry.snapshot_bytes) == ({one.session_id: 100, other.session_id: 10}, ("s",), 13)
    assert dry.freed_bytes == plan.reclaimed_bytes
    part = plan.only([other.session_id])
    assert (part.reclaimed_bytes, part.snapshots, foreseen(part).freed_bytes) == (15, (), 15)


def test_ten_thousand_sessions_are_planned_in_a_moment() -> None:
    users = {
        f"user{n}": user(*(row(hours, user=f"user{n}") for hours in range(200)), name=f"user{n}") for n in range(50)
    }
    census = Census(NOW, users)
    rules = dict.fromkeys(users, rules_from({"max_age": "3d", "max_sessions": 50, "max_total": "1M"}))
    begun = time.process_time()
    plan = plan_all(census, rules, {}, NOW, lambda user: "")
    assert time.process_time() - begun < 2
    assert len(plan.remove) == 50 * 150
