"""A listed session in JSON: one format for the command line, the REST API, and the hub's worker and client.

Writer and reader of a listing share these types; a reader that does not trust the writer still checks every
field (`hub.answers`).
"""

from __future__ import annotations

from typing import Any, TypedDict

MAX_TITLE = 200  # characters
SNAPSHOT_NUMBERS = ("stored_bytes", "memory_bytes", "execution_count", "file_count", "file_bytes")
"""The numbers of a listed snapshot, by the names of `Snapshot`."""


class _Listed(TypedDict):
    created_at: str | None
    updated_at: str | None
    size_bytes: int
    problem: str
    title: str
    notebook: str
    former_notebook: str
    execution_count: int
    snapshot_count: int
    stamp: str


class SessionInfo(_Listed):
    """A session. ``stamp`` changes whenever it is used: sending it back says which state was meant."""

    session_id: str
    live: bool


class SandboxInfo(_Listed):
    """A session as a sandbox of the REST API, with what only its server knows."""

    sandbox_id: str
    parent_sandbox_id: str | None
    state: str
    deleted_at: str | None
    idle_timeout_seconds: int
    idle_seconds: float | None
    limits: dict[str, float | None] | None
    task_id: str | None
    holder: dict[str, Any] | None
    snapshot_id: str | None


class WorkspaceInfo(TypedDict):
    """A user's workspace: sessions, number and disk space of snapshots, and free disk space."""

    sessions: list[SessionInfo]
    snapshot_count: int
    snapshot_bytes: int
    free_bytes: int | None


def session_of(sandbox: SandboxInfo) -> SessionInfo:
    """The session behind a sandbox of the REST API."""
    return {
        "session_id": sandbox["sandbox_id"],
        "live": sandbox["state"] != "released",
        "created_at": sandbox["created_at"],
        "updated_at": sandbox["updated_at"],
        "size_bytes": sandbox["size_bytes"],
        "problem": sandbox["problem"],
        "title": sandbox["title"],
        "notebook": sandbox["notebook"],
        "former_notebook": sandbox["former_notebook"],
        "execution_count": sandbox["execution_count"],
        "snapshot_count": sandbox["snapshot_count"],
        "stamp": sandbox["stamp"],
    }
