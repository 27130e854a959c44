"""How much room a session has left for uploads, those counted that are under way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.host.folder import TEMPORARY
from wasm_kernel.host.workspace import survey
from wasm_kernel.model.policy import ExecutionPolicy


@dataclass(frozen=True)
class Quota:
    """What a session uses and may use. ``used`` is None when it cannot be told: the tree is too deep."""

    used: int | None
    limit: int
    entries: int
    max_entries: int
    max_file: int

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        return max(0, self.limit - self.used) if self.used is not None else 0


def measure(folder: Path, policy: ExecutionPolicy) -> Quota:
    """Count a session's files as its own guest is held to; what is being uploaded is not among them."""
    found = survey(folder)
    coming = [what[1] for name, what in found.files.items() if name.rpartition("/")[2].startswith(TEMPORARY)]
    used = max(0, found.used_bytes - sum(coming)) if found.complete else None
    return Quota(used, policy.workspace_bytes, found.entries - len(coming), policy.max_files, policy.max_file_bytes)


class Reservations:
    """Room promised to uploads under way, by session. Used on the event loop only."""

    def __init__(self) -> None:
        self._promised: dict[str, int] = {}

    def of(self, session_id: str) -> int:
        """Bytes promised in a session."""
        return self._promised.get(session_id, 0)

    def change(self, session_id: str, by: int) -> None:
        """Promise so much more, or less."""
        left = self.of(session_id) + by
        if left > 0:
            self._promised[session_id] = left
        else:
            self._promised.pop(session_id, None)
