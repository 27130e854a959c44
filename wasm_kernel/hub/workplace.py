"""What the service needs from outside: the users, and somebody who works in their workspaces."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from wasm_kernel.hub.census import HubUser


class Directory(Protocol):
    """The users."""

    async def users(self) -> list[HubUser]:
        """All users of the hub."""

    async def user(self, name: str) -> HubUser | None:
        """One of them, as they are now; None if they no longer exist."""


class Workplace(Protocol):
    """Who works in users' workspaces: a worker on this machine, or users' own servers."""

    def obstacle(self, user: HubUser) -> str:
        """Why nothing may be removed for this user now, or empty."""

    def shift(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Around a scheduled run: what it needs is started, and stopped again."""

    async def do(self, user: HubUser, job: str, *, archive: bool = False, **arguments: Any) -> dict[str, Any]:
        """Do a job of `workspaces.jobs`: its answer, ``{"missing": path}``, or ``{"problem": text}``.

        Nothing is raised, whatever goes wrong.
        """

    def close(self) -> None:
        """Stop, and end what runs."""
