"""Sessions and snapshots as the API shows them. Reads the disk: for threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import BadRecord, format_time, is_session_id, is_uuid, parse_time
from wasm_kernel.model.session_info import SandboxInfo
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.server.api.openapi import MAX_IDLE, MAX_TITLE, STATES
from wasm_kernel.server.api.values import holder, page, shallow
from wasm_kernel.sessions.session_list import SessionSummary, list_sessions, snapshot_counts, with_sizes
from wasm_kernel.sessions.snapshots import list_snapshots

_GIVEN = "given"  # in a snapshot's metadata: what the client gave, apart from our own


@dataclass(frozen=True)
class Living:
    """What this server knows of a sandbox in its memory."""

    state: str
    idle_seconds: float | None
    task_id: str | None
    limits: dict[str, float | None]


@dataclass(frozen=True)
class Wishes:
    """What a client asked for when it created a sandbox, from the metadata."""

    idle_timeout: int
    policy: ExecutionPolicy


class Terms:
    """What this server's sandboxes may use: the administrator's maxima, and the defaults."""

    def __init__(self, policy: ExecutionPolicy, maxima: Mapping[str, float], idle_timeout: int) -> None:
        self._policy, self._maxima, self._idle_timeout = policy, maxima, idle_timeout

    def policy(self, wanted: Mapping[str, Any]) -> ExecutionPolicy:
        """The policy for limits that a client wants; `ConfigurationError` if one is too high."""
        return limits.changed(self._policy, wanted, self._maxima)

    def wishes(self, folder: Path) -> Wishes:
        """What a session's metadata asks for, within the maxima. Anybody may have written it: it is not trusted."""
        record = None
        with contextlib.suppress(BadRecord):
            record = read_record(folder)
        found = record.extra.get("sandbox") if record is not None else None
        asked = found if isinstance(found, dict) else {}
        timeout = asked.get("idle_timeout_seconds")
        if type(timeout) is not int or not 0 <= timeout <= MAX_IDLE:
            timeout = self._idle_timeout
        return Wishes(timeout, self._bounded(asked.get("limits")))

    def _bounded(self, wanted: Any) -> ExecutionPolicy:
        if not isinstance(wanted, dict):
            return self._policy
        try:
            return limits.bounded(limits.changed(self._policy, wanted), self._maxima)
        except ConfigurationError:
            return self._policy


def numbers(policy: ExecutionPolicy) -> dict[str, float | None]:
    """A policy's limits by their names."""
    return {name: limits.current(policy, name) for name in limits.LIMITS}


# ---- sandboxes


def sandbox(root: Path, session_id: str, terms: Terms, living: Living | None) -> SandboxInfo | None:
    """One sandbox, even a deleted one; None if there is none."""
    found = list_sessions(root, only=session_id) if is_session_id(session_id) and root.is_dir() else []
    if found:
        return _shown(root, found[0], terms, living)
    buried = tombstones.read(root, session_id)
    return _deleted(session_id, buried, snapshot_counts(root, session_id)) if buried is not None else None


def sandboxes(root: Path, terms: Terms, living: Mapping[str, Living], query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of the sandboxes that match, most recently used first, then deleted ones."""
    wanted = set(query.get("state") or STATES[:-1])
    fits, counts = _filter(query), snapshot_counts(root) if "deleted" in wanted else {}
    found: list[SessionSummary | SandboxInfo] = [
        summary
        for summary in (list_sessions(root, measured=False) if wanted - {"deleted"} and root.is_dir() else ())
        if _state(summary, living.get(summary.session_id)) in wanted
        and fits(summary.session_id, summary.title, summary.notebook, summary.updated_at)
    ]
    buried = tombstones.every_one(root) if "deleted" in wanted else {}
    for session_id, facts in reversed(buried.items()):
        gone = _deleted(session_id, facts, counts)
        moment = parse_time(gone["deleted_at"]) if gone["deleted_at"] else None
        if fits(session_id, gone["title"], gone["notebook"], moment):
            found.append(gone)

    def shown(item: SessionSummary | SandboxInfo) -> SandboxInfo:
        if isinstance(item, SessionSummary):
            return _shown(root, with_sizes(root, item), terms, living.get(item.session_id))
        return item

    return page(found, query, shown)


def _filter(query: Mapping[str, Any]) -> Callable[[str, str, str, datetime | None], bool]:
    text, seconds = query.get("q", "").casefold(), query.get("unused_for_seconds")
    now = datetime.now(UTC)

    def fits(session_id: str, title: str, notebook: str, used: datetime | None) -> bool:
        if text and not any(text in part.casefold() for part in (session_id, title, notebook)):
            return False
        return seconds is None or (used is not None and (now - used).total_seconds() >= seconds)

    return fits


def _state(summary: SessionSummary, living: Living | None) -> str:
    if living is not None:
        return living.state
    return "busy" if summary.live else "released"


def _shown(root: Path, summary: SessionSummary, terms: Terms, living: Living | None) -> SandboxInfo:
    elsewhere = summary.live and living is None
    wishes = terms.wishes(root / summary.session_id) if summary.problem != "symlink" else None
    return {
        "sandbox_id": summary.session_id,
        "parent_sandbox_id": summary.forked_from or None,
        "state": _state(summary, living),
        "title": summary.title,
        "notebook": summary.notebook,
        "former_notebook": summary.former_notebook,
        "created_at": _time(summary.created_at),
        "updated_at": _time(summary.updated_at),
        "deleted_at": None,
        "idle_timeout_seconds": wishes.idle_timeout if wishes is not None else 0,
        "idle_seconds": living.idle_seconds if living is not None else None,
        "limits": living.limits if living else numbers(wishes.policy) if wishes and not elsewhere else None,
        "size_bytes": summary.size_bytes,
        "snapshot_count": summary.snapshot_count,
        "execution_count": summary.execution_count,
        "problem": summary.problem,
        "task_id": living.task_id if living is not None else None,
        "holder": holder(root, summary.session_id) if elsewhere else None,
        "snapshot_id": None,
        "stamp": summary.stamp,
    }


def _deleted(session_id: str, buried: Mapping[str, Any], counts: Mapping[str, int]) -> SandboxInfo:
    def text(name: str) -> str:
        value = buried.get(name)
        return value if isinstance(value, str) else ""

    def moment(name: str) -> str | None:
        with contextlib.suppress(BadRecord):
            return format_time(parse_time(buried.get(name)))
        return None

    def number(name: str) -> int:
        value = buried.get(name)
        return value if type(value) is int and value >= 0 else 0

    return {
        "sandbox_id": session_id,
        "parent_sandbox_id": parent if is_session_id(parent := text("parent_sandbox_id")) else None,
        "state": "deleted",
        "title": text("title")[:MAX_TITLE],
        "notebook": text("notebook"),
        "former_notebook": "",
        "created_at": moment("created_at"),
        "updated_at": moment("updated_at"),
        "deleted_at": moment("deleted_at"),
        "idle_timeout_seconds": number("idle_timeout_seconds"),
        "idle_seconds": None,
        "limits": None,
        "size_bytes": 0,
        "snapshot_count": counts.get(session_id, 0),
        "execution_count": number("execution_count"),
        "problem": "",
        "task_id": None,
        "holder": None,
        "snapshot_id": text("snapshot_id") if is_uuid(text("snapshot_id")) else None,
        "stamp": "",
    }


def _time(moment: datetime | None) -> str | None:
    return format_time(moment) if moment is not None else None


# ---- snapshots


def snapshot_metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot's metadata, in which a client's values cannot be taken for ours."""
    return {_GIVEN: dict(given)} if given else {}


def snapshot(found: Snapshot) -> dict[str, Any]:
    """One snapshot. Its metadata may come from elsewhere."""
    details = shallow(found.metadata)
    given = details.get(_GIVEN)
    return {
        "snapshot_id": found.snapshot_id,
        "sandbox_id": found.session_id,
        "trigger": found.trigger,
        "trigger_type": found.trigger,
        "created_at": format_time(found.created_at),
        "label": found.label,
        "parent": found.parent or None,
        "execution_count": found.execution_count,
        "image_key": found.image_key,
        "memory_bytes": found.memory_bytes,
        "file_count": found.file_count,
        "file_bytes": found.file_bytes,
        "stored_bytes": found.stored_bytes,
        "metadata": given if isinstance(given, dict) else {},
        "details": {name: value for name, value in details.items() if name != _GIVEN},
    }


def snapshots(root: Path, query: Mapping[str, Any], session_id: str | None = None) -> dict[str, Any]:
    """A page of snapshots, newest first."""
    triggers: Collection[str] = query.get("trigger") or ()
    found = list_snapshots(root, session_id) if root.is_dir() else []
    return page([s for s in found if not triggers or s.trigger in triggers], query, snapshot)
