"""What there is below a workspace root, for people: every session with its size, age, notebook and state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from wasm_kernel.model.records import SessionRecord
from wasm_kernel.model.retention import SessionFacts
from wasm_kernel.sessions.pruning import existing_root, survey


@dataclass(frozen=True)
class SessionSummary:
    """One session.

    Attributes:
        session_id: Its name.
        created_at: None when its metadata does not say, or cannot be read.
        updated_at: Likewise.
        size_bytes: All its files.
        live: Whether somebody uses it now.
        problem: ``no_metadata``, ``corrupted_metadata``, ``symlink``, ``mount_inside`` or empty.
        title: What a person called it.
        notebook: The path of its notebook, if it has one.
        execution_count: Cells run so far.
        former_notebook: The path of the notebook that left it for another session.
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


def list_sessions(workspace_root: Path | str | None = None, *, only: str | None = None) -> list[SessionSummary]:
    """Every session below a root, the last used first; or this one, if it is there."""
    root = existing_root(workspace_root)
    seen = survey(root, named=True, only=only)
    found = [summary(facts, seen.records.get(facts.session_id)) for facts in seen.sessions]
    return sorted(found, key=lambda s: (s.updated_at is None, -(s.updated_at.timestamp() if s.updated_at else 0)))


def summary(facts: SessionFacts, record: SessionRecord | None) -> SessionSummary:
    """One session by what a survey found. What its metadata says is anybody's text: cut, and not believed."""
    extra: dict[str, Any] = record.extra if record is not None else {}
    count = extra.get("execution_count")
    return SessionSummary(
        facts.session_id,
        record.created_at if record is not None else None,
        facts.updated_at,
        facts.size_bytes,
        facts.live,
        facts.problem,
        str(extra.get("title") or "")[:200],
        str(extra.get("notebook") or "")[:4096],
        count if isinstance(count, int) else 0,
        str(extra.get("former_notebook") or "")[:4096],
    )
