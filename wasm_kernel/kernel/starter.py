"""Whoever started this kernel. A kernel ends when its starter is gone: nobody else knows of it."""

from __future__ import annotations

import os


class Starter:
    """The process that started this one: its parent.

    Attributes:
        descriptor: Becomes readable when the starter may be gone; None: look from time to time.
    """

    descriptor: int | None = None

    def __init__(self) -> None:
        self._parent = os.getppid()

    def bound(self) -> None:
        """The kernel's sockets are bound: clients can connect."""

    def gone(self) -> bool:
        """Whether the starter is gone."""
        return os.getppid() != self._parent
