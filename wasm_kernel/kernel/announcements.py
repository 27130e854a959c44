"""What the person is told once: as a notification by the side panel, or else by the next cell.

Front ends with a side panel are offered everything that waits, and say what they have shown. What none of them has
shown, because there is none, or its page was closed, is said in a cell.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["continued", "lost", "unstored", "prune", "note"]
_PATIENCE = 2.0  # seconds that a side panel has to say that it has shown what it was offered


@dataclass(frozen=True)
class Announcement:
    """Something that a person should know.

    Attributes:
        kind: What it is about: the session continues where it was; a cell's work is lost; checkpoints are not being
            kept; sessions will be pruned; something else.
        text: It, in plain words.
        advice: What to type, for front ends that have no button for it.
        good: Whether nothing is wrong.
        values: What the text says, for a front end that has words of its own.
        in_cells: Whether a cell says it if no side panel does.
        on_told: Called when the person was told. On any thread.
        id: One per event.
    """

    kind: Kind
    text: str
    advice: str = ""
    good: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    in_cells: bool = True
    on_told: Callable[[], None] = lambda: None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def full_text(self) -> str:
        """The text with the advice."""
        return f"{self.text} {self.advice}".rstrip()


class Announcements:
    """What the person was not told yet. Its methods can be called on any thread.

    Attributes:
        on_added: Called when there is something new, on the thread that adds it.
    """

    def __init__(self) -> None:
        self.on_added: Callable[[], None] = lambda: None
        self._waiting: dict[str, Announcement] = {}
        self._offered: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, announcement: Announcement) -> None:
        """The person is to be told something."""
        with self._lock:
            self._waiting[announcement.id] = announcement
        self.on_added()

    def warn(self, text: str) -> None:
        """The person is to be told that something is wrong."""
        self.add(Announcement("note", text))

    @property
    def waiting(self) -> list[Announcement]:
        """What the person was not told, the oldest first."""
        with self._lock:
            return list(self._waiting.values())

    def offer(self) -> list[Announcement]:
        """The same, for side panels, which are about to show it."""
        with self._lock:
            now = time.monotonic()
            for name in self._waiting:
                self._offered.setdefault(name, now)
            return list(self._waiting.values())

    def told(self, name: str) -> None:
        """A side panel has shown one."""
        with self._lock:
            announcement = self._waiting.pop(name, None)
            self._offered.pop(name, None)
        if announcement is not None:
            announcement.on_told()

    def take_for_cell(self) -> list[Announcement]:
        """What the cell that is about to run has to say: no side panel has shown it, nor is about to."""
        with self._lock:
            since = time.monotonic() - _PATIENCE
            mine = [a for a in self._waiting.values() if a.in_cells and self._offered.get(a.id, since) <= since]
            for announcement in mine:
                del self._waiting[announcement.id]
                self._offered.pop(announcement.id, None)
        for announcement in mine:
            announcement.on_told()
        return mine
