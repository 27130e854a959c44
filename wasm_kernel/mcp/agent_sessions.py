"""The sessions that agents use: opened by name when first used, saved and closed when others need the room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from wasm_kernel import aio
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import is_session_id
from wasm_kernel.sessions.catalog import prepared_root
from wasm_kernel.sessions.deletion import delete_session_workspace
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.session_list import SessionSummary, list_sessions

_LONGEST_NAME = 64


class AgentSessions:
    """Sessions of one workspace root, which is the agents' own. Used on one event loop.

    Attributes:
        root: Where they are.
    """

    def __init__(self, root: Path, policy: ExecutionPolicy, *, data: Path | None = None, most_open: int = 16) -> None:
        """``data``: a folder that all of them see at /data, read-only. ``most_open``: as many are in memory at once."""
        self.root = prepared_root(root)
        self._policy, self._data, self._most_open = policy, data, most_open
        self._open: dict[str, aio.AsyncSession] = {}  # the one used last is last
        self._using: dict[str, int] = {}
        self._guard = asyncio.Lock()
        self._logger = SandboxLogger(level="error")

    @contextlib.asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[aio.AsyncSession]:
        """A session, opened as it was left or created; it stays open meanwhile."""
        _check(name)
        self._using[name] = self._using.get(name, 0) + 1
        try:
            yield await self._get(name)
        finally:
            self._using[name] -= 1
            if not self._using[name]:
                del self._using[name]

    async def _get(self, name: str) -> aio.AsyncSession:
        async with self._guard:
            found = self._open.pop(name, None)
            if found is None:
                await self._make_room()
                found = await aio.open_session(name, self.root, self._policy, data=self._data, logger=self._logger)
                found.advise(_how_to_allow)
            self._open[name] = found
            return found

    async def _make_room(self) -> None:
        """Close those that were not used for longest, if they may be."""
        while len(self._open) >= self._most_open:
            idle = next((name for name in self._open if name not in self._using), None)
            if idle is None:
                raise ConfigurationError(f"{self._most_open} sessions are running code; wait for one of them to end")
            await self._open.pop(idle).close()

    def exists(self, name: str) -> bool:
        """Whether there is one of this name, open or not."""
        return is_session_id(name) and (self.root / name).is_dir()

    async def fork(self, name: str, new: str, snapshot: str | None) -> None:
        """A new session that goes on from another's present, or from one of its snapshots."""
        _check(new)
        if self.exists(new):
            raise ConfigurationError(f"there is a session {new} already; choose another name, or discard it first")
        async with self.using(name) as session:  # which may run code for long: others go on meanwhile
            forked = await session.fork(snapshot, name=new)
            forked.advise(_how_to_allow)
        try:
            async with self._guard:
                await self._make_room()
                self._open[new] = forked
        except ConfigurationError:
            pass  # no room now: it is opened when it is used
        finally:
            if self._open.get(new) is not forked:
                await forked.close()

    async def discard(self, name: str) -> None:
        """Delete a session with its files and snapshots."""
        if not self.exists(name):
            raise ConfigurationError(f"there is no session {name[:_LONGEST_NAME]!r}; `list_sessions` names them")
        async with self._guard:
            session = self._open.pop(name, None)
            if session is not None:
                await session.close()
            await asyncio.to_thread(delete_session_workspace, name, self.root, logger=self._logger)

    async def listed(self) -> list[SessionSummary]:
        """All of them."""
        return await asyncio.to_thread(list_sessions, self.root)

    async def close(self) -> None:
        """Save and close them all."""
        async with self._guard:
            sessions, self._open = list(self._open.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))


def _how_to_allow(host: str) -> str:
    """What only the person who starts the server can do."""
    return f"wasm-kernel mcp --allow {host}, where it is started"


def _check(name: str) -> None:
    if not is_session_id(name) or len(name) > _LONGEST_NAME:
        raise ConfigurationError(
            f"the session is called {name[:80]!r}; use letters, digits and hyphens, {_LONGEST_NAME} at most"
        )
