"""What a prune is asked for and what it did, in JSON: one shape for the command line, the REST API and the hub.

Whoever writes a report and whoever reads it share these types; a reader that does not trust the writer checks every
field all the same (`hub.answers`).
"""

from __future__ import annotations

from typing import Literal, TypedDict

Action = Literal["delete", "archive", "keep", "skip", "forget"]


class SnapshotBounds(TypedDict, total=False):
    """The fields of a `SnapshotRetention` that can be asked for; texts as people write them."""

    max_age_hours: float | str
    max_per_session: int
    max_total_bytes: int | str


class PruneRequest(TypedDict, total=False):
    """What a prune is asked for: the bounds of a `RetentionPolicy`, and more. Without any bound no session goes.

    Attributes:
        stamps: Sessions that go whatever the bounds say, each with the ``stamp`` that it was listed with: one that was
            used since stays.
        only: Of all that would go, only these do.
    """

    max_age_hours: float | str
    max_sessions: int
    max_total_bytes: int | str
    min_free_bytes: int | str
    keep: list[str]
    stamps: dict[str, str]
    only: list[str]
    max_deletions: int
    archive: bool
    snapshots: SnapshotBounds


class PrunedSession(TypedDict):
    """A session that goes (``done``: has gone), or would but for a reason.

    Attributes:
        action: ``delete``; ``archive``: written to a file, then deleted; ``keep``: a bound asks for it, but it is in
            use or otherwise kept; ``skip``: it cannot be judged; ``forget``: it was deleted before, and what is
            remembered of it goes, with its snapshots.
        size_bytes: Its files.
        snapshot_bytes: What its snapshots added to the store.
        archive: The name of the file, in the folder of archives.
    """

    session_id: str
    action: Action
    reason: str
    done: bool
    age_hours: float | None
    size_bytes: int
    snapshot_bytes: int
    notebook: str
    title: str
    archive: str | None


class PruneTotals(TypedDict):
    """The same in numbers.

    Attributes:
        sessions: How many there were, and ``bytes`` of files in them.
        removed: How many sessions were deleted, archived ones included.
        reclaimed_bytes: Files and snapshots of all that goes, counted before anything is deleted.
        snapshot_bytes_freed: What the disk got back of snapshots, measured; in a dry run what they had added.
    """

    sessions: int
    bytes: int
    removed: int
    reclaimed_bytes: int
    live: int
    skipped: int
    errors: int
    snapshots_removed: int
    snapshot_bytes_freed: int


class PruneReport(TypedDict):
    """What a prune did, or would do (``dry_run``).

    Attributes:
        errors: Session, or snapshot, to what went wrong.
        live: Sessions that would have gone but are in use.
        changed: Sessions that were used, or went, after it was decided that they go.
        snapshots: Snapshots that went, of sessions that stay.
    """

    dry_run: bool
    sessions: list[PrunedSession]
    totals: PruneTotals
    errors: dict[str, str]
    live: list[str]
    changed: list[str]
    snapshots: list[str]


def joined(one: PruneReport, other: PruneReport) -> PruneReport:
    """Two reports of the same workspace as one."""
    a, b = one["totals"], other["totals"]
    return {
        "dry_run": one["dry_run"],
        "sessions": [*one["sessions"], *other["sessions"]],
        "totals": {
            "sessions": max(a["sessions"], b["sessions"]),
            "bytes": max(a["bytes"], b["bytes"]),
            "removed": a["removed"] + b["removed"],
            "reclaimed_bytes": a["reclaimed_bytes"] + b["reclaimed_bytes"],
            "live": a["live"] + b["live"],
            "skipped": a["skipped"] + b["skipped"],
            "errors": a["errors"] + b["errors"],
            "snapshots_removed": a["snapshots_removed"] + b["snapshots_removed"],
            "snapshot_bytes_freed": a["snapshot_bytes_freed"] + b["snapshot_bytes_freed"],
        },
        "errors": {**one["errors"], **other["errors"]},
        "live": [*one["live"], *other["live"]],
        "changed": [*one["changed"], *other["changed"]],
        "snapshots": [*one["snapshots"], *other["snapshots"]],
    }


def report_of_snapshots(deleted: list[str], errors: dict[str, str], freed_bytes: int = 0) -> PruneReport:
    """Snapshots that were chosen one by one, as a prune that touched no session."""
    return {
        "dry_run": False,
        "sessions": [],
        "totals": {
            "sessions": 0,
            "bytes": 0,
            "removed": 0,
            "reclaimed_bytes": freed_bytes,
            "live": 0,
            "skipped": 0,
            "errors": len(errors),
            "snapshots_removed": len(deleted),
            "snapshot_bytes_freed": freed_bytes,
        },
        "errors": errors,
        "live": [],
        "changed": [],
        "snapshots": deleted,
    }
