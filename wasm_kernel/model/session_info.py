"""A session as it is listed, in JSON: the one shape of the command line, the REST API, and the hub's worker and client.

Whoever writes a listing and whoever reads it share these types; a reader that does not trust the writer checks every
field all the same (`hub.answers`).
"""

from __future__ import annotations

from typing import Any, TypedDict


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
    """A session. ``stamp`` changes whenever it is used: who gives it back says which state was meant."""

    session_id: str
    live: bool


class SandboxInfo(_Listed):
    """The same as a sandbox of the REST API, with what its server knows besides."""

    sandbox_id: str
    state: str
    deleted_at: str | None
    idle_timeout_seconds: int
    idle_seconds: float | None
    limits: dict[str, float | None] | None
    task_id: str | None
    holder: dict[str, Any] | None
    snapshot_id: str | None


class WorkspaceInfo(TypedDict):
    """What somebody has: the sessions, the number of snapshots and what these take on disk, and what is free there."""

    sessions: list[SessionInfo]
    snapshot_count: int
    snapshot_bytes: int
    free_bytes: int | None


def session_of(sandbox: SandboxInfo) -> SessionInfo:
    """A sandbox as the session that it is."""
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
