"""Connections of users' sessions, copied from the sessions' own logs into the audit log with each scheduled run.

The logs are in users' homes: a copy says what their kernels wrote down, and a user who can write there can change it
before. What was copied is known by the time when it ended, per user, in the service's own folder.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.host.durable import write_file
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.run_journal import Journal
from wasm_kernel.hub.workplace import Workplace
from wasm_kernel.hub.workspaces import checked_answers
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer

MOST = 1000  # connections of a user that one run copies


@dataclass(frozen=True)
class ConnectionRow:
    """A connection that ended, or is open, as a user's workspace tells it."""

    session_id: str
    time: str
    ended: str
    host: str
    port: int
    bytes: int


def connection_rows(found: dict[str, Any]) -> list[ConnectionRow]:
    """What `jobs.connections` found, checked."""

    def row(of: dict[str, Any]) -> ConnectionRow:
        began, ended = (checked_answers.text(of, name, 40) for name in ("time", "ended"))
        both = checked_answers.number(of, "sent") + checked_answers.number(of, "received")
        session_id, host = checked_answers.identifier(of, "session_id"), checked_answers.text(of, "host")
        return ConnectionRow(session_id, began, ended, host, checked_answers.number(of, "port"), both)

    return sorted(checked_answers.rows(found, "connections", row)[:MOST], key=lambda row: row.ended)


class ConnectionCopies:
    """Copies what is new."""

    def __init__(self, path: Path, workplace: Workplace) -> None:
        self._path, self._workplace = path, workplace
        self._until: dict[str, str] | None = None

    async def copy(
        self,
        users: Collection[HubUser],
        journal: Journal,
        for_each: Callable[[Collection[HubUser], Callable[[HubUser], Awaitable[None]]], Awaitable[object]],
    ) -> None:
        """Note the connections of these users since the last time. Who cannot be asked is asked the next time."""
        until = self._read()

        async def one(user: HubUser) -> None:
            found = await self._workplace.do(user, "connections", after=until.get(user.name, ""))
            try:
                rows = connection_rows(found)
            except BadAnswer:
                return
            if rows:
                await journal.connected(user.name, rows)
                until[user.name] = rows[-1].ended

        await for_each(users, one)
        kept = {user.name: until[user.name] for user in users if user.name in until}
        write_file(self._path, json.dumps(kept).encode())
        self._until = kept

    def _read(self) -> dict[str, str]:
        if self._until is None:
            try:
                found = json.loads(self._path.read_bytes())
            except (OSError, ValueError):
                found = {}
            self._until = {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
        return self._until
