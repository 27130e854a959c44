"""Which snapshots go."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from wasm_kernel.model.snapshot_retention import SnapshotRetention, plan_snapshots
from wasm_kernel.model.snapshots import Snapshot

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def snapshot(sequence: int, hours: float, *, session: str = "s", trigger: str = "checkpoint") -> Snapshot:
    return Snapshot(str(uuid.uuid4()), session, trigger, NOW - timedelta(hours=hours), sequence=sequence)


@pytest.mark.parametrize(
    "policy", [SnapshotRetention(max_per_session=1), SnapshotRetention(max_total=1), SnapshotRetention(max_age_hours=0)]
)
@pytest.mark.parametrize("hours", [[1, 2, 3], [3, 2, 1], [-5, 0, -9], [2, 2, 2]])
def test_the_newest_is_the_one_with_the_highest_number(policy: SnapshotRetention, hours: list[float]) -> None:
    """Whatever the clocks said when they were taken, and however the list is sorted."""
    taken = [snapshot(n, age) for n, age in enumerate(hours, 1)]
    for listed in (taken, taken[::-1]):
        assert taken[-1] not in plan_snapshots(listed, policy, NOW, 0)


def test_the_oldest_go_first_by_their_number() -> None:
    taken = [snapshot(n, age) for n, age in enumerate([1, 4, 2, 3], 1)]
    assert plan_snapshots(taken, SnapshotRetention(max_per_session=2), NOW, 0) == taken[:2]
    others = [snapshot(5, 9, session="other"), snapshot(6, 9, session="other")]
    assert plan_snapshots([*taken, *others], SnapshotRetention(max_total=3), NOW, 0) == taken[:3]


def test_those_without_a_number_are_older_than_all_others_and_in_the_order_of_their_times() -> None:
    old = [snapshot(0, age) for age in (30, 20, -10)]
    new = [snapshot(1, 40), snapshot(2, 50)]
    assert sorted([*new, *old[::-1]], key=lambda s: s.order) == [*old, *new]
    assert plan_snapshots([*new, *old], SnapshotRetention(max_per_session=2), NOW, 0) == old
    assert plan_snapshots(old, SnapshotRetention(max_per_session=1), NOW, 0) == old[:2]
