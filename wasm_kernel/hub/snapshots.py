"""The snapshots of users' sessions, asked for when somebody wants to see them: a census only counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.census import HubUser, SnapshotRow
from wasm_kernel.hub.workplace import Workplace
from wasm_kernel.hub.workspaces import checked_answers
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer

_MOST = 200_000  # kept in memory, the newest; one user may have as many


@dataclass(frozen=True)
class SnapshotCensus:
    """The snapshots of all users, newest first, and of whom they could not be listed, with the reason."""

    taken_at: datetime
    rows: list[SnapshotRow] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


class Snapshots:
    """Lists snapshots, and remembers the list of all."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace, self._looking = workplace, asyncio.Lock()
        self._known: SnapshotCensus | None = None

    async def of(self, user: HubUser, session_id: str | None = None) -> list[SnapshotRow]:
        """A user's snapshots, newest first; `ConfigurationError` if they cannot be listed."""
        try:
            return await self._of(user, session_id)
        except BadAnswer as e:
            raise ConfigurationError(f"the snapshots of {user.name!r} cannot be listed: {e}") from None

    async def _of(self, user: HubUser, session_id: str | None = None) -> list[SnapshotRow]:
        found = await self._workplace.do(user, "snapshots", session_id=session_id)
        if found.get("problem"):
            raise BadAnswer(checked_answers.text(found, "problem", 1000))
        return checked_answers.snapshot_rows(user.name, found)

    async def of_all(
        self,
        users: Sequence[HubUser],
        oldest: datetime,
        for_each: Callable[[Sequence[HubUser], Callable[[HubUser], Awaitable[Any]]], Awaitable[list[Any]]],
    ) -> SnapshotCensus:
        """The snapshots of these users, listed at ``oldest`` or later; several callers share one list."""
        async with self._looking:
            if self._known is not None and self._known.taken_at >= oldest:
                return self._known
            taken_at = datetime.now(UTC)
            rows: list[SnapshotRow] = []
            problems: dict[str, str] = {}

            async def look(user: HubUser) -> None:
                try:
                    rows.extend(await self._of(user))
                except BadAnswer as e:
                    problems[user.name] = str(e)

            await for_each(users, look)
            rows.sort(key=lambda row: row.created_at, reverse=True)
            self._known = SnapshotCensus(taken_at, rows[:_MOST], problems)
            return self._known

    def forget(self) -> None:
        """Something was changed: the next list is a new one."""
        self._known = None
