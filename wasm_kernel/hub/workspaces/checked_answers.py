"""Answers about a user's workspace, checked field by field: the user can write there, or sent them.

An impossible value is a `BadAnswer`, and then nothing is known about that user; text is cut, and still to be escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from wasm_kernel.hub.census import HubUser, SessionRow, SnapshotRow, UserCensus
from wasm_kernel.model.records import BadRecord, is_session_id, is_uuid, parse_time
from wasm_kernel.model.session_info import SNAPSHOT_NUMBERS

_T = TypeVar("_T")
_MAX_ROWS = 200_000
_MAX_TEXT = 300
_MAX_NUMBER = 1 << 62


class BadAnswer(ValueError):
    """An answer with a value that is impossible; the text says which."""


def user_census(user: HubUser, taken_at: datetime, found: dict[str, Any]) -> UserCensus:
    """What `jobs.look` found."""
    root = text(found, "root", 4096)
    if "problem" in found:
        return UserCensus(user, taken_at, root, problem=text(found, "problem", 1000) or "unknown")
    if "missing" in found:
        return UserCensus(user, taken_at, text(found, "missing", 4096))
    return UserCensus(
        user,
        taken_at,
        root,
        tuple(rows(found, "sessions", lambda row: _session(user.name, row))),
        number(found, "snapshot_count"),
        number(found, "snapshot_bytes"),
        number(found, "free_bytes") if found.get("free_bytes") is not None else None,
        identity=text(found, "identity", 100),
    )


def _session(user: str, found: dict[str, Any]) -> SessionRow:
    return SessionRow(
        user,
        identifier(found, "session_id"),
        _time(found, "created_at"),
        _time(found, "updated_at"),
        number(found, "size_bytes"),
        found.get("live") is True,
        text(found, "problem"),
        text(found, "title"),
        text(found, "notebook"),
        number(found, "execution_count"),
        number(found, "snapshot_count"),
        text(found, "stamp", 64),
    )


def snapshot_rows(user: str, found: dict[str, Any]) -> list[SnapshotRow]:
    """What `jobs.snapshots` found."""

    def row(of: dict[str, Any]) -> SnapshotRow:
        created_at = _time(of, "created_at")
        if created_at is None:
            raise BadAnswer("a snapshot has no time")
        return SnapshotRow(
            user,
            identifier(of, "snapshot_id"),
            identifier(of, "session_id"),
            created_at,
            text(of, "trigger"),
            text(of, "label"),
            **{name: number(of, name) for name in SNAPSHOT_NUMBERS},
            parent=text(of, "parent"),
        )

    return rows(found, "snapshots", row)


@dataclass(frozen=True)
class Pruned:
    """What a `PruneReport` says, checked; for its fields see there.

    Attributes:
        deleted: Session to bytes of its files; also those that were archived first.
        archived: Session to the name of the file it is in.
        saved: Session to the last snapshot that was taken of it.
    """

    deleted: dict[str, int]
    archived: dict[str, str]
    saved: dict[str, str]
    live: tuple[str, ...]
    changed: tuple[str, ...]
    errors: dict[str, str]
    snapshots: tuple[str, ...]
    snapshot_bytes: int


def pruned(found: dict[str, Any]) -> Pruned:
    """A `PruneReport`: what was done, or in a dry run would be."""

    def gone(row: dict[str, Any]) -> tuple[str, int, str, str] | None:
        if row.get("done") is not True or row.get("action") not in ("delete", "archive"):
            return None
        archive = text(row, "archive") if row.get("archive") is not None else ""
        saved = identifier(row, "snapshot_id") if row.get("snapshot_id") is not None else ""
        return identifier(row, "session_id"), number(row, "size_bytes"), archive, saved

    went = [row for row in rows(found, "sessions", gone) if row is not None]
    return Pruned(
        {name: size for name, size, _, _ in went},
        {name: archive for name, _, archive, _ in went if archive},
        {name: saved for name, _, _, saved in went if saved},
        identifiers(found, "live"),
        identifiers(found, "changed"),
        by_identifier(found, "errors", text),
        identifiers(found, "snapshots"),
        number(_totals(found), "snapshot_bytes_freed"),
    )


@dataclass(frozen=True)
class Foreseen:
    """What a `PruneReport` of a dry run says of snapshots, checked.

    Attributes:
        of_sessions: Deleted session to what its snapshots added to the store.
        snapshots: Snapshots deleted from sessions that stay.
        snapshot_bytes: What these added.
    """

    of_sessions: dict[str, int]
    snapshots: tuple[str, ...]
    snapshot_bytes: int


def foreseen(found: dict[str, Any]) -> Foreseen:
    """A `PruneReport` of a dry run; one that only names a problem foresees nothing."""
    going = [row for row in rows(found, "sessions", dict) if row.get("action") in ("delete", "archive")]
    of_sessions = {identifier(row, "session_id"): number(row, "snapshot_bytes") for row in going}
    in_all = number(_totals(found), "snapshot_bytes_freed")
    return Foreseen(of_sessions, identifiers(found, "snapshots"), max(0, in_all - sum(of_sessions.values())))


def _totals(found: dict[str, Any]) -> dict[str, Any]:
    totals = found.get("totals", {})
    if not isinstance(totals, dict):
        raise BadAnswer("totals is not an object")
    return totals


def rows(found: dict[str, Any], name: str, parse: Callable[[dict[str, Any]], _T]) -> list[_T]:
    """A list of objects."""
    value = found.get(name, [])
    if not isinstance(value, list) or len(value) > _MAX_ROWS or not all(isinstance(row, dict) for row in value):
        raise BadAnswer(f"{name} is not a list, or too long")
    return [parse(row) for row in value]


def identifiers(found: dict[str, Any], name: str) -> tuple[str, ...]:
    """A list of ids."""
    value = found.get(name, [])
    if not isinstance(value, list) or len(value) > _MAX_ROWS:
        raise BadAnswer(f"{name} is not a list, or too long")
    return tuple(identifier({"id": item}, "id") for item in value)


def by_identifier(found: dict[str, Any], name: str, of: Callable[[dict[str, Any], str], _T]) -> dict[str, _T]:
    """An object of ids to numbers or texts."""
    value = found.get(name, {})
    if not isinstance(value, dict) or len(value) > _MAX_ROWS:
        raise BadAnswer(f"{name} is not an object, or too long")
    return {identifier({"id": key}, "id"): of(value, key) for key in value}


def identifier(found: dict[str, Any], name: str) -> str:
    """The id of a session or a snapshot."""
    value = found.get(name)
    if not isinstance(value, str) or not (is_uuid(value) or is_session_id(value)):
        raise BadAnswer(f"{name} is {str(value)[:40]!r}")
    return value


def number(found: dict[str, Any], name: str) -> int:
    """A count or a size."""
    value = found.get(name, 0)
    if type(value) is not int or not 0 <= value < _MAX_NUMBER:
        raise BadAnswer(f"{name} is {str(value)[:40]!r}")
    return value


def text(found: dict[str, Any], name: str, most: int = _MAX_TEXT) -> str:
    """Text, cut."""
    value = found.get(name, "")
    if not isinstance(value, str):
        raise BadAnswer(f"{name} is {str(value)[:40]!r}")
    return value[:most]


def _time(found: dict[str, Any], name: str) -> datetime | None:
    value = found.get(name)
    try:
        return None if value is None else parse_time(value)
    except BadRecord:
        raise BadAnswer(f"{name} is {str(value)[:40]!r}") from None
