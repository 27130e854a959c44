"""Which snapshots to delete and which to keep: a pure decision, as `retention` is for sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from wasm_kernel.model.snapshots import Snapshot


@dataclass(frozen=True)
class SnapshotRetention:
    """Which snapshots to keep. Those a person took count too but are deleted last; a session's newest is always kept.

    Attributes:
        max_age_hours: Delete older ones.
        max_per_session: Keep at most this many of each session.
        max_total_bytes: Keep at most this much in all; the oldest are deleted first.
        max_total: Keep at most this many in all; the oldest are deleted first.
        keep: Ids that are never deleted.
        keep_user: Whether to keep all that a person took.
    """

    max_age_hours: float | None = None
    max_per_session: int | None = None
    max_total_bytes: int | None = None
    max_total: int | None = None
    keep: frozenset[str] = frozenset()
    keep_user: bool = False


def plan_snapshots(
    snapshots: Sequence[Snapshot], policy: SnapshotRetention, now: datetime, total_bytes: int
) -> list[Snapshot]:
    """The snapshots to delete. ``total_bytes``: what they all take on disk."""
    newest = {s.session_id: s for s in sorted(snapshots, key=lambda s: s.order)}
    order = sorted(snapshots, key=lambda s: (s.trigger == "user", s.order))
    counts: dict[str, int] = {}
    for s in snapshots:
        counts[s.session_id] = counts.get(s.session_id, 0) + 1
    doomed: list[Snapshot] = []
    for s in order:
        if newest[s.session_id] is s or s.snapshot_id in policy.keep or (policy.keep_user and s.trigger == "user"):
            continue
        too_old = (
            policy.max_age_hours is not None and (now - s.created_at).total_seconds() >= 3600 * policy.max_age_hours
        )
        too_many = policy.max_per_session is not None and counts[s.session_id] > policy.max_per_session
        too_large = policy.max_total_bytes is not None and total_bytes > policy.max_total_bytes
        too_many |= policy.max_total is not None and len(snapshots) - len(doomed) > policy.max_total
        if too_old or too_many or too_large:
            doomed.append(s)
            counts[s.session_id] -= 1
            total_bytes -= s.stored_bytes
    return doomed


@dataclass(frozen=True)
class CheckpointRules:
    """Which checkpoints a session takes and keeps.

    Attributes:
        on: Whether to take one after every cell.
        count: How many are kept.
        max_bytes: Roughly how much space they may take.
        marks: Metadata added to each; only checkpoints that have it are counted and thinned out.
    """

    on: bool = True
    count: int = 30
    max_bytes: int = 2 << 30
    marks: Mapping[str, Any] = field(default_factory=dict)

    def within(self, most: int | None) -> CheckpointRules:
        """The same, with no more space than the administrator allows."""
        return self if most is None else replace(self, max_bytes=min(self.max_bytes, most))
