"""Telling users before their sessions go: who was told of what, and the notice their next kernel shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Warning:
    """A session whose user was told that it will go.

    Attributes:
        user: Whose.
        session_id: Which.
        warned_at: When the notice was written.
        due: From when on it may go.
        reason: Which bound asks for it.
        updated_at: When it was last used, then; using it makes the warning void.
        notice_id: The notice it is in.
        size_bytes: What it holds.
    """

    user: str
    session_id: str
    warned_at: datetime
    due: datetime
    reason: str
    updated_at: datetime
    notice_id: str
    size_bytes: int = 0
