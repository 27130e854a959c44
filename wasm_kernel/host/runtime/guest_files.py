"""The files a guest can change, /app and /tmp: what a turn changed there, and how much it may still write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from wasm_kernel.host.files import quota, workspace_survey
from wasm_kernel.host.files.workspace_survey import Changes, Survey
from wasm_kernel.model.names import is_hidden, is_session_folder
from wasm_kernel.model.policy import ExecutionPolicy

FIRST_CHANGE = 2  # the interposer's question before a turn's first change of a file


class GuestFiles:
    """The workspace and the scratch folder of one guest, as it can see them."""

    def __init__(self, folder: Path, scratch: Path, *, in_session: bool) -> None:
        """``in_session``: the folder is a session's own. Otherwise sessions may be below it, which are hidden."""
        self.folder, self.scratch, self.in_session = folder, scratch, in_session
        self._sessions: frozenset[str] = frozenset()
        self._before: Survey | None = None
        self._last: Survey | None = None  # after the last turn that changed anything
        self.changed = False  # whether any file changed, or may have; whoever captures the guest resets it
        self.before_change: Callable[[], None] = lambda: None
        self._first = threading.Lock()

    def begin_turn(self, sessions: Iterable[str]) -> None:
        """A turn begins; these sessions, which are below the folder, are hidden from it."""
        self._sessions = frozenset(sessions)
        self._before = None

    def first_change(self) -> None:
        """The turn, or a worker of it, is about to change a file for the first time. On any thread."""
        with self._first:
            if self._before is not None:
                return
            self.changed = True
            self.before_change()
            # Whatever changes from here on is known only when `changes` has looked: not every turn ends with that.
            self._before, self._last = self._survey(self._last), None

    def changes(self) -> Changes:
        """What the turn changed in the workspace."""
        if self._before is None:
            return Changes()
        self._last = self._survey()
        return workspace_survey.changes(self._before, self._last)

    def left(self, policy: ExecutionPolicy, kind: int) -> tuple[int, int]:
        """Bytes and names the guest may still use; ``kind`` is the interposer's question."""
        found = self.quota(policy, self._before if kind == FIRST_CHANGE else None)
        return found.free, found.free_entries

    def quota(self, policy: ExecutionPolicy, seen: Survey | None = None) -> quota.Quota:
        """What it uses and may use, counted on disk. ``seen``: the workspace, if it was surveyed just now."""
        return quota.measure(policy, self.folder, self.scratch, seen=seen if seen is not None else self._survey())

    def _survey(self, known: Survey | None = None) -> Survey:
        """The workspace as the guest can see it. ``known``: what was there when it was last looked at."""
        if self.in_session:
            return workspace_survey.survey(self.folder, known=known)
        sessions = self._sessions
        return workspace_survey.survey(
            self.folder, lambda name: is_hidden(name) or is_session_folder(name, sessions), known
        )
