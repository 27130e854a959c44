"""A session's history as people read it: one row per cell that ran, or that somebody named. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from wasm_kernel.model.differences import MOST_NAMES
from wasm_kernel.model.snapshots import Snapshot, moment_of

_LONGEST_CODE, _LONGEST_NAME = 500, 200
State = Literal["now", "past", "undone"]


@dataclass(frozen=True)
class Changes:
    """Names that a cell added, changed and removed; at most `MOST_NAMES` of each."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimelineRow:
    """A moment that one can go back to.

    Attributes:
        snapshot_id: What to restore; empty while the checkpoint is not stored yet.
        number: The cell's number; 0 is the moment before the first cell, None a snapshot that no cell led to.
        code: The beginning of the cell's code.
        at: When it ended.
        seconds: How long it took.
        ok: Whether it ended without an error.
        variables: What it changed of the variables.
        files: What it changed of the files.
        label: The name a person gave the moment.
        state: Whether the session is there now, was there on its way, or undid it.
    """

    snapshot_id: str
    number: int | None
    code: str
    at: datetime
    seconds: float | None = None
    ok: bool = True
    variables: Changes = field(default_factory=Changes)
    files: Changes = field(default_factory=Changes)
    label: str = ""
    state: State = "past"

    @property
    def key(self) -> tuple[int | None, float | None]:
        """What tells the runs of a session's cells apart, also when their checkpoints are gone."""
        return self.number, self.seconds


def timeline_rows(known: Sequence[Snapshot], behind: Iterable[str], last: Snapshot | None) -> list[TimelineRow]:
    """Rows for snapshots, newest first as they are. ``behind``: those that led to ``last``, where the session is."""
    by_id, led_here = {s.snapshot_id: s for s in known}, set(behind)
    here = moment_of(last, by_id).snapshot_id if last is not None else ""
    rows = []
    for snapshot in known:
        if moment_of(snapshot, by_id) is not snapshot:
            continue  # the same state, stored again
        undone = "number" in snapshot.metadata and snapshot.snapshot_id not in led_here
        state: State = "now" if snapshot.snapshot_id == here else "undone" if undone else "past"
        rows.append(
            row_of(snapshot.metadata, snapshot.created_at, snapshot.snapshot_id, label=snapshot.label, state=state)
        )
    return rows


def with_waiting(stored: Sequence[TimelineRow], waiting: Sequence[TimelineRow]) -> list[TimelineRow]:
    """Rows with those of cells whose checkpoints wait to be stored, newest first: the session is at the first of these.

    One that is just being stored is among both. Until the session is known to be there, it looks as if it was undone.
    """
    waits = {row.key for row in waiting}
    rows = [row for row in stored if row.state != "undone" or row.key not in waits]
    known = {row.key for row in rows}
    fresh = [row for row in waiting if row.key not in known]
    if fresh:
        rows = [replace(row, state="past") if row.state == "now" else row for row in rows]
        fresh[0] = replace(fresh[0], state="now")
    return fresh + rows


def can_undo(rows: Sequence[TimelineRow]) -> bool:
    """Whether a cell led here, and there is a moment before it: the start, or what a fork goes on from."""
    behind = [row for row in rows if row.state != "undone"]
    return any(row.number is not None for row in behind[:-1])


def row_of(
    metadata: Mapping[str, Any], at: datetime, snapshot_id: str = "", *, label: str = "", state: State = "past"
) -> TimelineRow:
    """The row of one cell. Metadata may come from elsewhere, with an import: what does not fit is left out."""
    number, seconds = metadata.get("number"), metadata.get("seconds")
    return TimelineRow(
        snapshot_id,
        number if type(number) is int else None,
        str(metadata.get("cell", ""))[:_LONGEST_CODE],
        at,
        float(seconds) if isinstance(seconds, int | float) else None,
        metadata.get("ok", True) is not False,
        _changes(metadata.get("variables")),
        _changes(metadata.get("files")),
        label,
        state,
    )


def _changes(found: Any) -> Changes:
    if not isinstance(found, dict):
        return Changes()

    def names(kind: str) -> tuple[str, ...]:
        listed = found.get(kind)
        if not isinstance(listed, list):
            return ()
        return tuple(name[:_LONGEST_NAME] for name in listed[:MOST_NAMES] if isinstance(name, str))

    return Changes(names("added"), names("changed"), names("removed"))
