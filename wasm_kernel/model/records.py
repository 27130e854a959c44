"""A session's metadata, and its JSON form. No I/O, no clock."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

VERSION = 1
OWN_SNAPSHOTS_AFTER = "own_snapshots_after"  # a number: snapshots below it are of a deleted session of the same id
FILE_BROWSERS = "file_browsers"  # those that stand in the notebook's outputs: ids and folders
# What a person allowed one notebook on one machine; it goes nowhere with the session. Here: nothing.
NOTHING_GIVEN: dict[str, Any] = {"grants": {}, "data_folder": "", "network": [], "clusters": []}
_REQUIRED = ("session_id", "created_at", "updated_at", "version")
_SAFE_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,126}[A-Za-z0-9])?\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


class BadRecord(ValueError):
    """A metadata file that is not valid."""


class ForeignRecord(BadRecord):
    """Valid, but of another session, such as where a folder was copied: it says nothing about this one."""


class LaterRecord(BadRecord):
    """Written by a later version: what it means is not known here."""


def is_uuid(name: str) -> bool:
    """Whether a folder's name is one we generate; only these are ever pruned."""
    return _UUID.match(name) is not None


def is_session_id(name: str) -> bool:
    """Whether a folder's name can be a session's."""
    return _SAFE_ID.match(name) is not None


def check_session_id(session_id: str) -> str:
    """Check a session id given by a caller: letters, digits and hyphens, nothing that could be a path."""
    if not isinstance(session_id, str) or not is_session_id(session_id):
        raise ValueError(f"session_id is {session_id!r}; it must be letters, digits and hyphens, 128 at most")
    return session_id


@dataclass(frozen=True)
class SessionRecord:
    """A session's metadata. ``extra`` holds every other field of the file, which are kept unchanged."""

    session_id: str
    created_at: datetime
    updated_at: datetime
    version: int = VERSION
    extra: dict[str, Any] = field(default_factory=dict)

    def touched(self, now: datetime, /, **extra: Any) -> SessionRecord:
        """The record after an execution. `updated_at` only ever goes forward, whatever the clock does."""
        try:
            later = max(now, self.updated_at + timedelta(microseconds=1))
        except OverflowError:  # updated_at is already the latest time there is
            later = self.updated_at
        return replace(self, updated_at=later, extra={**self.extra, **extra})

    def to_json(self) -> bytes:
        """The file's bytes."""
        return json.dumps(
            {
                "session_id": self.session_id,
                "created_at": format_time(self.created_at),
                "updated_at": format_time(self.updated_at),
                "version": self.version,
                **self.extra,
            },
            indent=2,
        ).encode()


def new_record(session_id: str, now: datetime, /, **extra: Any) -> SessionRecord:
    """The record of a session created now."""
    return SessionRecord(session_id, now, now, VERSION, extra)


def parse_record(data: bytes) -> SessionRecord:
    """A record from a file's bytes; `BadRecord` says what is wrong with it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise BadRecord(f"not JSON: {e}") from None
    if not isinstance(found, dict):
        raise BadRecord("not a JSON object")
    missing = [name for name in _REQUIRED if name not in found]
    if missing:
        raise BadRecord(f"{', '.join(missing)} missing")
    if not isinstance(found["session_id"], str):
        raise BadRecord("session_id is not a string")
    if type(found["version"]) is not int or found["version"] < 1:
        raise BadRecord(f"version is {found['version']!r}")
    times = [parse_time(found[name]) for name in ("created_at", "updated_at")]
    extra = {name: value for name, value in found.items() if name not in _REQUIRED}
    return SessionRecord(found["session_id"], times[0], times[1], found["version"], extra)


def check_record(record: SessionRecord, session_id: str) -> SessionRecord:
    """A record, if it is one of this session that this version may judge by and replace."""
    if record.version > VERSION:
        raise LaterRecord(
            f"the metadata of session {session_id} has version {record.version}, and this wasm-kernel knows {VERSION}; "
            "update wasm-kernel"
        )
    if record.session_id != session_id:
        raise ForeignRecord(
            f"the metadata in session {session_id} names session {record.session_id[:128]!r}; "
            f"`wasm-kernel sessions repair {session_id}` gives it its own"
        )
    return record


def format_time(moment: datetime) -> str:
    """ISO 8601, UTC, always with microseconds: 2026-11-22T10:15:30.123456Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: Any) -> datetime:
    """An ISO 8601 time; one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise BadRecord(f"{text!r} is not a time") from None
