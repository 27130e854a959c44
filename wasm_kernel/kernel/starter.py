"""Whoever started this kernel. A kernel ends when its starter is gone: nobody else knows of it."""

from __future__ import annotations

import os
from collections.abc import Mapping


class Starter:
    """The process that started this one: its parent.

    It may be gone before this process can look for the first time. So whoever is named by ``JPY_PARENT_PID``, which
    Jupyter sets, must be there as well.

    Attributes:
        descriptor: Becomes readable when the starter may be gone; None: look from time to time.
        learns_ports: Whether the kernel may take other ports in place of those that are in use.
    """

    descriptor: int | None = None
    learns_ports = False

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._parent = os.getppid()
        named = environ.get("JPY_PARENT_PID", "")
        self._named = int(named) if named.isdecimal() and len(named) < 10 else 0

    def bound(self, ports: Mapping[str, int]) -> None:
        """The kernel's sockets are bound: clients can connect. ``ports``: as in a connection file."""

    def gone(self) -> bool:
        """Whether the starter is gone."""
        if os.getppid() != self._parent:
            return True
        if self._named in (0, 1, self._parent):
            return False
        try:
            os.kill(self._named, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # another user's: it is there
        return False
