"""How much room a session has left for uploads: what its kernel's own guest has, less what is reserved."""

from __future__ import annotations

import contextlib
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.disk import locks
from wasm_kernel.host.files import quota
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.host.runtime import scratch
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy


def measure(root: Path, session_id: str, policy: ExecutionPolicy) -> Quota:
    """What a session uses and may use: by the limits of the kernel that has it open, else by these.

    The kernel notes in its lock what its limits are, and where its guest's /tmp is.
    """
    told = locks.told(root, session_id)
    wanted = told.get("limits")
    if isinstance(wanted, dict):
        with contextlib.suppress(ConfigurationError):
            policy = limits.changed(policy, wanted)
    pid = told.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return quota.measure(policy, root / session_id)
    return quota.measure(policy, root / session_id, scratch.of_another(told.get("scratch")), pid=pid)


class Reservations:
    """Bytes reserved for running uploads, by session. Used on the event loop only."""

    def __init__(self) -> None:
        self._promised: dict[str, int] = {}

    def of(self, session_id: str) -> int:
        """Bytes reserved in a session."""
        return self._promised.get(session_id, 0)

    def change(self, session_id: str, by: int) -> None:
        """Reserve this much more, or less."""
        left = self.of(session_id) + by
        if left > 0:
            self._promised[session_id] = left
        else:
            self._promised.pop(session_id, None)
