"""The sessions that agents use: opened by name when used, saved and closed when others need the room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from wasm_kernel import aio
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.image.image import Image, is_built
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import is_session_id
from wasm_kernel.sessions.catalog import prepared_root
from wasm_kernel.sessions.deletion import delete_session_workspace
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notebooks import notebook_of
from wasm_kernel.sessions.sandboxes import ready_image
from wasm_kernel.sessions.session_list import SessionSummary, list_sessions

_LONGEST_NAME = 64
_PATIENCE = 20.0  # seconds that a call waits for the image


class AgentSessions:
    """Sessions of one workspace root, which is the agents' own. Used on one event loop.

    Attributes:
        root: Where they are.
    """

    def __init__(
        self,
        root: Path,
        policy: ExecutionPolicy,
        *,
        data: Path | None = None,
        most_open: int = 16,
        notebooks: bool = True,
    ) -> None:
        """``data``: a folder that all of them see at /data, read-only. ``most_open``: as many are in memory at once.

        ``notebooks``: whether those of notebooks, if there are any here, are for agents, too.
        """
        self.root = prepared_root(root)
        self._notebooks = notebooks
        self._policy, self._data, self._most_open = policy, data, most_open
        self._open: dict[str, aio.AsyncSession] = {}  # the one used last is last
        self._using: dict[str, int] = {}
        self._guard = asyncio.Lock()
        self._building: asyncio.Task[Image] | None = None
        self._logger = SandboxLogger(level="error")

    @contextlib.asynccontextmanager
    async def using(self, name: str, *, new: bool = False) -> AsyncIterator[aio.AsyncSession]:
        """A session, opened as it was left; it stays open meanwhile. ``new``: if there is none, it is made."""
        if not self.exists(name) and not new:
            raise _none_of(name)
        if name not in self._open:
            await self._image()
        self._using[name] = self._using.get(name, 0) + 1
        try:
            yield await self._get(name)
        finally:
            self._using[name] -= 1
            if not self._using[name]:
                del self._using[name]

    async def _image(self) -> None:
        """Return if the image is there. If not, have it built: that takes minutes, and clients wait for one at most."""
        metered = self._policy.fuel_budget is not None
        if self._building is None:
            if await asyncio.to_thread(is_built, metered=metered):
                return
            self._building = asyncio.create_task(asyncio.to_thread(ready_image, metered=metered))
        building = self._building
        if not (await asyncio.wait([building], timeout=_PATIENCE))[0]:
            raise ConfigurationError(
                "the sandbox is being built, which takes two to five minutes, and is done once; call again after that"
            )
        if self._building is building:
            self._building = None
        building.result()

    async def _get(self, name: str) -> aio.AsyncSession:
        found = self._open.pop(name, None)
        if found is not None:
            self._open[name] = found
            return found
        opening = asyncio.create_task(self._opened(name))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # it is opened all the same, for the next call
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    async def _opened(self, name: str) -> aio.AsyncSession:
        async with self._guard:
            if name not in self._open:
                await self._make_room()
                opened = await aio.open_session(name, self.root, self._policy, data=self._data, logger=self._logger)
                opened.advise(_how_to_allow, _instead_of)
                self._open[name] = opened
            return self._open[name]

    async def _make_room(self) -> None:
        """Close those that were not used for longest, if they may be."""
        while len(self._open) >= self._most_open:
            idle = next((name for name in self._open if name not in self._using), None)
            if idle is None:
                raise ConfigurationError(f"{self._most_open} sessions are running code; wait for one of them to end")
            await self._open.pop(idle).close()

    def exists(self, name: str) -> bool:
        """Whether there is one of this name, open or not."""
        self._check(name)
        return (self.root / name).is_dir()

    async def fork(self, name: str, new: str, snapshot: str | None) -> None:
        """A new session that goes on from another's present, or from one of its snapshots."""
        if self.exists(new):
            raise ConfigurationError(f"there is a session {new} already; choose another name, or discard it first")
        async with self.using(name) as session:  # which may run code for long: others go on meanwhile
            forked = await session.fork(snapshot, name=new)
            forked.advise(_how_to_allow, _instead_of)
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
            raise _none_of(name)
        async with self._guard:
            session = self._open.pop(name, None)
            if session is not None:
                await session.close()
            await asyncio.to_thread(delete_session_workspace, name, self.root, logger=self._logger)

    async def listed(self) -> list[SessionSummary]:
        """All of them."""
        found = await asyncio.to_thread(list_sessions, self.root)
        return [session for session in found if self._notebooks or not session.notebook]

    async def close(self) -> None:
        """Save and close them all."""
        async with self._guard:
            sessions, self._open = list(self._open.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))

    def _check(self, name: str) -> None:
        if not is_session_id(name) or len(name) > _LONGEST_NAME:
            raise ConfigurationError(
                f"the session is called {name[:80]!r}; use letters, digits and hyphens, {_LONGEST_NAME} at most"
            )
        if not self._notebooks and notebook_of(self.root, name):
            raise ConfigurationError(f"session {name} is a notebook's; choose another name")


def _none_of(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no session {name}; `list_sessions` names them, and `run_python` or `write_file` makes one"
    )


def _how_to_allow(host: str) -> str:
    """What only the person who starts the server can do."""
    return f"wasm-kernel mcp --allow {host}, where it is started"


def _instead_of(magic: str) -> str:
    """What an agent does that knows notebooks."""
    tool = "`install`" if magic == "pip" else "`undo`, `snapshot`, `restore`, `fork` or `list_sessions`"
    return f"%{magic} is for notebooks; use the tool {tool}"
