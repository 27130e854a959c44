"""Which sessions go: properties of a pure decision."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel import ConfigurationError, RetentionPolicy
from wasm_kernel.model.retention import Plan, SessionFacts, plan

NOW = datetime(2026, 11, 22, 12, 0, 0, 0, UTC)

ages = st.integers(-100, 3000).map(lambda tenths: NOW - timedelta(hours=tenths / 10))
names = st.integers(0, 30).map(lambda n: f"s{n:02}")
one = st.builds(
    SessionFacts,
    names,
    ages | ages | ages | st.none(),
    st.integers(0, 1000),
    st.booleans().flatmap(lambda maybe: st.booleans() if maybe else st.just(False)),
    st.sampled_from(["", "", "", "", "no_metadata", "corrupted_metadata", "symlink", "mount_inside"]),
)
many = st.lists(one, max_size=14, unique_by=lambda item: item.session_id)
policies = st.builds(
    RetentionPolicy,
    max_age_hours=st.none() | st.integers(0, 300) | st.floats(0, 300),
    max_sessions=st.none() | st.integers(0, 12),
    max_total_bytes=st.none() | st.integers(0, 6000),
    min_free_bytes=st.none() | st.integers(0, 9000),
    keep=st.frozensets(names, max_size=4),
)
frees = st.none() | st.integers(0, 9000)


def protected(item: SessionFacts, policy: RetentionPolicy) -> bool:
    return item.live or item.session_id in policy.keep or bool(item.problem) or item.updated_at is None


def judged(facts: list[SessionFacts]) -> list[SessionFacts]:
    """The sessions that count towards the bounds."""
    return [item for item in facts if not item.problem and item.updated_at is not None]


def broken_bounds(staying: list[SessionFacts], policy: RetentionPolicy, free: int | None, freed: int) -> set[str]:
    """The bounds that do not hold when these stay."""
    staying = judged(staying)
    broken = set()
    if policy.max_age_hours is not None and any(
        (NOW - item.updated_at).total_seconds() / 3600 >= policy.max_age_hours
        for item in staying
        if item.updated_at is not None and not protected(item, policy)
    ):
        broken.add("max_age_hours")
    if policy.max_sessions is not None and len(staying) > policy.max_sessions:
        broken.add("max_sessions")
    if policy.max_total_bytes is not None and sum(item.size_bytes for item in staying) > policy.max_total_bytes:
        broken.add("max_total_bytes")
    if policy.min_free_bytes is not None and free is not None and free + freed < policy.min_free_bytes:
        broken.add("min_free_bytes")
    return broken


def ids(decisions: list[Any]) -> list[str]:
    return [decision.session_id for decision in decisions]


@given(many, policies, frees, st.none() | st.integers(0, 9))
def test_a_plan_is_a_partition(
    facts: list[SessionFacts], policy: RetentionPolicy, free: int | None, most: int | None
) -> None:
    decided = plan(facts, policy, NOW, free_bytes=free, max_deletions=most)
    assert sorted(ids(decided.remove) + ids(decided.keep) + ids(decided.skip)) == sorted(i.session_id for i in facts)
    sizes = {item.session_id: item.size_bytes for item in facts}
    for decision in (*decided.remove, *decided.keep, *decided.skip):
        assert decision.size_bytes == sizes[decision.session_id]
    assert decided.reclaimed_bytes == sum(sizes[i] for i in ids(decided.remove))


@given(many, policies, frees)
def test_live_kept_and_undated_sessions_never_go(
    facts: list[SessionFacts], policy: RetentionPolicy, free: int | None
) -> None:
    decided = plan(facts, policy, NOW, free_bytes=free)
    by_id = {item.session_id: item for item in facts}
    assert not [i for i in ids(decided.remove) if protected(by_id[i], policy)]
    assert set(ids(decided.skip)) == {item.session_id for item in facts if item.problem or item.updated_at is None}
    for decision in decided.skip:
        assert decision.reason == (by_id[decision.session_id].problem or "no_metadata")
    for decision in decided.keep:
        if decision.reason == "live":
            assert by_id[decision.session_id].live


@given(many, policies, frees, st.integers())
def test_a_plan_depends_on_nothing_but_what_it_is_given(
    facts: list[SessionFacts], policy: RetentionPolicy, free: int | None, seed: int
) -> None:
    first = plan(facts, policy, NOW, free_bytes=free)
    assert plan(iter(facts), policy, NOW, free_bytes=free) == first
    shuffled = list(facts)
    random.Random(seed).shuffle(shuffled)
    other = plan(shuffled, policy, NOW, free_bytes=free)
    assert other.remove == first.remove, "the order of a folder's entries must not matter"
    assert other.keep == first.keep
    assert sorted(ids(other.skip)) == sorted(ids(first.skip))


@given(many, policies, frees)
def test_the_longest_unused_go_first(facts: list[SessionFacts], policy: RetentionPolicy, free: int | None) -> None:
    decided = plan(facts, policy, NOW, free_bytes=free)
    by_age = sorted(
        (item for item in facts if not protected(item, policy)),
        key=lambda item: (item.updated_at or NOW, item.session_id),
    )
    assert ids(decided.remove) == [item.session_id for item in by_age[: len(decided.remove)]]
    hours = [decision.age_hours for decision in decided.remove]
    assert hours == sorted(hours, reverse=True)


@given(many, policies, frees)
def test_doing_what_is_planned_keeps_the_bounds_or_leaves_only_protected_ones(
    facts: list[SessionFacts], policy: RetentionPolicy, free: int | None
) -> None:
    decided = plan(facts, policy, NOW, free_bytes=free)
    gone = set(ids(decided.remove))
    staying = [item for item in facts if item.session_id not in gone]
    if broken_bounds(staying, policy, free, decided.reclaimed_bytes):
        assert all(protected(item, policy) for item in staying)
    later = plan(staying, policy, NOW, free_bytes=None if free is None else free + decided.reclaimed_bytes)
    assert later.remove == [], "a second prune has nothing to do"


@given(many, policies, frees)
def test_nothing_goes_without_need(facts: list[SessionFacts], policy: RetentionPolicy, free: int | None) -> None:
    """Each session that goes has a bound that was broken as long as it was there."""
    decided = plan(facts, policy, NOW, free_bytes=free)
    staying, freed = list(facts), 0
    for decision in decided.remove:
        assert decision.reason in broken_bounds(staying, policy, free, freed)
        staying = [item for item in staying if item.session_id != decision.session_id]
        freed += decision.size_bytes


@given(many, policies, frees, st.integers(0, 9))
def test_max_deletions_cuts_the_plan_short(
    facts: list[SessionFacts], policy: RetentionPolicy, free: int | None, most: int
) -> None:
    whole = plan(facts, policy, NOW, free_bytes=free)
    cut = plan(facts, policy, NOW, free_bytes=free, max_deletions=most)
    assert ids(cut.remove) == ids(whole.remove)[:most]
    assert cut.skip == whole.skip


def some(*ages_and_sizes: tuple[float, int]) -> list[SessionFacts]:
    return [SessionFacts(f"s{n}", NOW - timedelta(hours=age), size) for n, (age, size) in enumerate(ages_and_sizes)]


def check(decided: Plan, *expected: str) -> None:
    assert ids(decided.remove) == list(expected)


def test_each_bound_by_itself() -> None:
    facts = some((1, 100), (50, 200), (24, 300), (23.99, 400))
    check(plan(facts, RetentionPolicy(), NOW))
    check(plan(facts, RetentionPolicy(max_age_hours=24), NOW), "s1", "s2")
    check(plan(facts, RetentionPolicy(max_sessions=3), NOW), "s1")
    check(plan(facts, RetentionPolicy(max_sessions=0), NOW), "s1", "s2", "s3", "s0")
    check(plan(facts, RetentionPolicy(max_total_bytes=500), NOW), "s1", "s2")
    check(plan(facts, RetentionPolicy(max_total_bytes=499), NOW), "s1", "s2", "s3")
    check(plan(facts, RetentionPolicy(min_free_bytes=1000), NOW, free_bytes=700), "s1", "s2")
    check(plan(facts, RetentionPolicy(min_free_bytes=1000), NOW, free_bytes=1000))
    check(plan(facts, RetentionPolicy(min_free_bytes=1000), NOW))  # nobody knows what is free
    check(plan(facts, RetentionPolicy(max_age_hours=24, keep=frozenset({"s1"})), NOW), "s2")
    check(plan([], RetentionPolicy(max_age_hours=0, max_sessions=0), NOW))


def test_live_sessions_count_but_stay() -> None:
    facts = [SessionFacts("live", NOW - timedelta(hours=99), 1000, live=True), *some((5, 10), (4, 10))]
    check(plan(facts, RetentionPolicy(max_sessions=2), NOW), "s0")
    decided = plan(facts, RetentionPolicy(max_age_hours=24), NOW)
    assert [(d.session_id, d.reason) for d in decided.keep][0] == ("live", "live")
    decided = plan(facts, RetentionPolicy(max_age_hours=500), NOW)
    assert {d.reason for d in decided.keep} == {""}, "a live session nobody asks to go is not reported"


@pytest.mark.parametrize("name", ["max_age_hours", "max_sessions", "max_total_bytes", "min_free_bytes"])
@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), "24", True, [1]])
def test_a_bad_bound_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RetentionPolicy(**{name: value})


def test_a_policy_owns_its_set() -> None:
    given_ids = {"a"}
    policy = RetentionPolicy(keep=given_ids)  # type: ignore[arg-type]
    given_ids.add("b")
    assert policy.keep == {"a"}


def test_ten_thousand_sessions_are_planned_in_no_time() -> None:
    facts = some(*((n % 977 / 7, n) for n in range(10_000)))
    started = time.process_time()
    plan(facts, RetentionPolicy(max_age_hours=24, max_sessions=5000), NOW)
    assert time.process_time() - started < 0.5  # 20,000 a second
