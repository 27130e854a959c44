"""Which snapshots go and which stay: a pure decision, as `retention` is for sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from wasm_kernel.model.snapshots import Snapshot


@dataclass(frozen=True)
class SnapshotRetention:
    """Which snapshots stay. Those a person took count like the others but go last; the newest of a session stays.

    Attributes:
        max_age_hours: Older ones go.
        max_per_session: At most so many of each session stay.
        max_total_bytes: At most so much space in all; the oldest go first.
        max_total: At most so many in all; the oldest go first.
        keep: Ids that never go.
        keep_user: Whether those a person took stay.
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
    """Those that go. ``snapshots``: the newest first; ``total_bytes``: what all of them take on disk."""
    newest = {s.session_id: s for s in reversed(snapshots)}
    order = sorted(snapshots, key=lambda s: (s.trigger == "user", s.created_at))
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
