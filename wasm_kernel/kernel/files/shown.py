"""What the parts of a file browser know about their browser."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from wasm_kernel.host.files.quota import Quota
from wasm_kernel.kernel.files.acts import Acts
from wasm_kernel.kernel.files.listing import Entry, View
from wasm_kernel.kernel.files.panel import Panel
from wasm_kernel.kernel.files.transfer import Links
from wasm_kernel.sessions.runtime import SessionRuntime


class Shown(Protocol):
    """A file browser, as its parts see it.

    Attributes:
        runtime: The session that runs.
        acts: Starts what buttons do, and shows the result.
        panel: Where it asks questions.
        links: Addresses at the server extension; None without it.
        view: Which folder is shown, and how.
    """

    runtime: SessionRuntime
    acts: Acts
    panel: Panel
    links: Links | None
    view: View

    @property
    def root(self) -> Path:
        """The session's folder on the host."""

    def quota(self) -> Quota:
        """How much the session uses and may use, counted now. Blocks."""

    def chosen(self) -> list[Entry]:
        """The selected entries."""

    def select(self, *paths: str) -> None:
        """Select these with the next refresh."""

    def refresh(self, *, gently: bool = False) -> None:
        """Refresh soon."""
