"""A list for people of every session below a workspace root, with size, age, notebook and state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from wasm_kernel.host.store import manifests
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import SessionRecord, format_time, is_session_id
from wasm_kernel.model.retention import SessionFacts
from wasm_kernel.model.session_info import SessionInfo
from wasm_kernel.sessions.inventory import existing_root, session_bytes, survey


@dataclass(frozen=True)
class SessionSummary:
    """One session.

    Attributes:
        session_id: Its name.
        created_at: None if its metadata does not say, or cannot be read.
        updated_at: Likewise.
        size_bytes: All its files.
        live: Whether it is in use now.
        problem: ``no_metadata``, ``corrupted_metadata``, ``foreign_metadata``, ``symlink``, ``mount_inside`` or empty.
        title: The title a person gave it.
        notebook: The path of its notebook, if it has one.
        execution_count: Cells run so far.
        former_notebook: The path of the notebook that left it for another session.
        snapshot_count: How many snapshots it has.
        stamp: Changes whenever it is used.
        forked_from: The session from whose snapshot it was made, or empty.
    """

    session_id: str
    created_at: datetime | None
    updated_at: datetime | None
    size_bytes: int
    live: bool
    problem: str = ""
    title: str = ""
    notebook: str = ""
    execution_count: int = 0
    former_notebook: str = ""
    snapshot_count: int = 0
    stamp: str = ""
    forked_from: str = ""

    def info(self) -> SessionInfo:
        """The same as JSON."""
        return {
            "session_id": self.session_id,
            "created_at": format_time(self.created_at) if self.created_at is not None else None,
            "updated_at": format_time(self.updated_at) if self.updated_at is not None else None,
            "size_bytes": self.size_bytes,
            "live": self.live,
            "problem": self.problem,
            "title": self.title,
            "notebook": self.notebook,
            "former_notebook": self.former_notebook,
            "execution_count": self.execution_count,
            "snapshot_count": self.snapshot_count,
            "stamp": self.stamp,
        }


def list_sessions(
    workspace_root: Path | str | None = None, *, only: str | None = None, measured: bool = True
) -> list[SessionSummary]:
    """Every session below a root, last used first; or only this one, if it exists.

    Without ``measured`` sizes and numbers of snapshots are 0, until `with_sizes`: of thousands, few are shown at once.
    """
    root = existing_root(workspace_root)
    seen = survey(root, named=True, only=only, measured=measured)
    counts = snapshot_counts(root, only) if seen.sessions and measured else {}
    found = [_summary(f, seen.records.get(f.session_id), counts.get(f.session_id, 0)) for f in seen.sessions]
    return sorted(found, key=lambda s: (s.updated_at is None, -(s.updated_at.timestamp() if s.updated_at else 0)))


def with_sizes(root: Path, session: SessionSummary) -> SessionSummary:
    """A session that was listed without its size and its number of snapshots, with both."""
    if session.problem == "symlink":  # not followed
        return session
    count = snapshot_counts(root, session.session_id).get(session.session_id, 0)
    return replace(session, size_bytes=session_bytes(root, session.session_id), snapshot_count=count)


def snapshot_counts(root: Path, session_id: str | None = None) -> dict[str, int]:
    """How many snapshots each session has, or only this one; deleted sessions included."""
    folder = root / STATE_FOLDER / "snapshots" / "manifests"
    return Counter(group for group, _ in manifests.names(folder, session_id))


def _summary(facts: SessionFacts, record: SessionRecord | None, snapshot_count: int) -> SessionSummary:
    """One session from a survey. Its metadata is untrusted text: cut to length, and not relied on."""
    extra: dict[str, Any] = record.extra if record is not None else {}
    count, parent = extra.get("execution_count"), extra.get("forked_from")
    return SessionSummary(
        facts.session_id,
        record.created_at if record is not None else None,
        facts.updated_at,
        facts.size_bytes,
        facts.live,
        facts.problem,
        str(extra.get("title") or "")[:200],
        str(extra.get("notebook") or "")[:4096],
        max(0, count) if type(count) is int else 0,
        str(extra.get("former_notebook") or "")[:4096],
        snapshot_count,
        facts.stamp,
        parent if isinstance(parent, str) and is_session_id(parent) else "",
    )
