"""A prune's request and report in JSON: one format for the command line, the REST API and the hub.

Writer and reader of a report share these types; a reader that does not trust the writer still checks every
field (`hub.workspaces.checked_answers`).
"""

from __future__ import annotations

from typing import Literal, TypedDict

Action = Literal["delete", "archive", "keep", "skip", "forget"]


class SnapshotBounds(TypedDict, total=False):
    """The fields of a `SnapshotRetention` that a request can set; strings as people write them."""

    max_age_hours: float | str
    max_per_session: int
    max_total_bytes: int | str


class PruneRequest(TypedDict, total=False):
    """A request to prune: the bounds of a `RetentionPolicy`, and more. Without a bound no session is deleted.

    Attributes:
        stamps: Sessions to delete whatever the bounds say, each with the ``stamp`` it was listed with: one that has
            been used since is kept.
        only: Delete only these, out of all that would be deleted.
        snapshot: Whether each deleted session leaves a last snapshot.
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
    snapshot: bool
    snapshots: SnapshotBounds


class PrunedSession(TypedDict):
    """A session to be deleted (``done``: it has been), or the reason why it is kept.

    Attributes:
        action: ``delete``; ``archive``: written to a file, then deleted; ``keep``: past a bound, but in use or
            otherwise kept; ``skip``: cannot be judged; ``forget``: deleted earlier, and now its record and its
            snapshots are deleted too.
        size_bytes: Size of its files.
        snapshot_bytes: What its snapshots added to the store.
        stored_bytes: What it takes in the object store; 0 without one.
        archive: The name of its file in the archive folder.
        snapshot_id: The snapshot that was taken of it before it was deleted, if that was asked for.
    """

    session_id: str
    action: Action
    reason: str
    done: bool
    age_hours: float | None
    size_bytes: int
    snapshot_bytes: int
    stored_bytes: int
    notebook: str
    title: str
    archive: str | None
    snapshot_id: str | None


class PruneTotals(TypedDict):
    """A prune in numbers.

    Attributes:
        sessions: How many sessions there were; ``bytes``: the size of their files.
        removed: How many sessions were deleted, archived ones included.
        reclaimed_bytes: Files and snapshots of all that is deleted, counted beforehand.
        snapshot_bytes_freed: Disk space freed by deleting snapshots, measured; in a dry run, what they had added.
        stored_bytes_freed: What the deleted sessions took in the object store.
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
    stored_bytes_freed: int


class PruneReport(TypedDict):
    """What a prune did, or would do (``dry_run``).

    Attributes:
        errors: What went wrong, by session or snapshot.
        live: Sessions that would have been deleted but are in use.
        changed: Sessions that were used or deleted by others after the decision.
        snapshots: Deleted snapshots of sessions that were kept.
    """

    dry_run: bool
    sessions: list[PrunedSession]
    totals: PruneTotals
    errors: dict[str, str]
    live: list[str]
    changed: list[str]
    snapshots: list[str]


def joined(one: PruneReport, other: PruneReport) -> PruneReport:
    """Merge two reports about the same workspace."""
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
            "stored_bytes_freed": a["stored_bytes_freed"] + b["stored_bytes_freed"],
        },
        "errors": {**one["errors"], **other["errors"]},
        "live": [*one["live"], *other["live"]],
        "changed": [*one["changed"], *other["changed"]],
        "snapshots": [*one["snapshots"], *other["snapshots"]],
    }


def report_of_snapshots(deleted: list[str], errors: dict[str, str], freed_bytes: int = 0) -> PruneReport:
    """The report of a prune that deleted only individually chosen snapshots."""
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
            "stored_bytes_freed": 0,
        },
        "errors": errors,
        "live": [],
        "changed": [],
        "snapshots": deleted,
    }
