"""What the magics need from their kernel."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from wasm_kernel.kernel.current_session import CurrentSession
from wasm_kernel.kernel.magics.cluster_access import ClusterAccess
from wasm_kernel.kernel.magics.data_folder import DataFolder
from wasm_kernel.kernel.magics.grants import Grants
from wasm_kernel.kernel.magics.network_access import NetworkAccess
from wasm_kernel.sessions.runtime import SessionRuntime

Message = dict[str, Any]


class Host(Protocol):
    """A kernel, as its magics see it.

    Attributes:
        current: The session it works in.
        granted: What its notebook may do beyond that session.
        data_folder: What it shows the guest at /data.
        network_access: Where its session may connect to.
        cluster_access: Where the workers of its session run.
        allow_pip: Whether packages may be installed.
    """

    current: CurrentSession
    granted: Grants
    data_folder: DataFolder
    network_access: NetworkAccess
    cluster_access: ClusterAccess
    log: logging.Logger

    @property
    def allow_pip(self) -> bool: ...

    @property
    def outputs_trusted(self) -> bool:
        """Whether the session's outputs are shown unsealed."""

    async def ready(self, parent: Message) -> SessionRuntime:
        """The open session; the request waits for the image, and shows its progress."""

    async def require(self, grant: str, what: str, details: Sequence[str] = ()) -> None:
        """Return only if the running cell may do something beyond its session; raise otherwise."""

    async def ask_secret(self, prompt: str) -> str:
        """What the person types into a field that does not show it; raises if nobody does."""

    def trust_outputs(self, trusted: bool) -> None:
        """Show outputs unsealed from now on, or seal them again."""

    def forget_widgets(self) -> None:
        """The guest starts afresh: its widgets are gone."""

    def browser(self, folder: str) -> Message:
        """A new file browser, as front ends with widgets show it."""

    def publish(self, parent: Message, kind: str, content: Message) -> None:
        """Send something to the front ends."""


class Group:
    """A group of magics. Methods named ``session_NAME`` are ``%session NAME``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._place = host.current.place
