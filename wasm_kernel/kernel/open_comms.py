"""Which comms of the guest are open. The guest chooses their number and their names, so both are bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 20_000  # a progress bar takes about ten
LONGEST = 200  # characters of an id, and of a target's name; ours and ipywidgets' ids have 32 or 36


class OpenComms:
    """Open comms, by id."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}

    def note(self, action: str, content: Mapping[str, Any]) -> str:
        """Record a message that may open or close a comm; why it is refused, or an empty string."""
        comm_id = content.get("comm_id")
        if action == "comm_close":
            self._targets.pop(comm_id, None) if isinstance(comm_id, str) else None
        elif action == "comm_open":
            target = content.get("target_name", "")
            if not (isinstance(comm_id, str) and isinstance(target, str) and max(len(comm_id), len(target)) <= LONGEST):
                return f"its id and target name must be strings of at most {LONGEST} characters"
            if len(self._targets) >= MOST and comm_id not in self._targets:
                return (
                    f"{MOST:,} are open, which is the maximum; close those no longer needed, with .close() or "
                    "ipywidgets.Widget.close_all()"
                )
            self._targets[comm_id] = target
        return ""

    def known(self) -> dict[str, str]:
        """Ids and target names."""
        return dict(self._targets)

    def clear(self) -> None:
        """The guest that had them is gone."""
        self._targets.clear()
