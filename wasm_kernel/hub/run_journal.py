"""One run, and what the audit log says of it: before anything is removed, and after."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from wasm_kernel.hub.audit import AuditEntry, AuditLog
from wasm_kernel.hub.plan import Run, UserResult
from wasm_kernel.hub.user_warnings import SessionWarning
from wasm_kernel.model.records import format_time

_LISTED = 1000  # snapshots or warnings of a user that one run lists; the rest are counted


class Connected(Protocol):
    """A connection of a user's session."""

    @property
    def session_id(self) -> str: ...
    @property
    def time(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def bytes(self) -> int: ...


class Journal:
    """One run, and what the audit log says of it."""

    def __init__(self, audit: AuditLog, actor: str, action: str, *, dry_run: bool = False) -> None:
        self._audit, self._clock = audit, time.monotonic()
        self._run = Run(uuid.uuid4().hex[:12], actor, action, datetime.now(UTC), dry_run=dry_run)

    async def begun(self, user: str, ids: Iterable[str], reason: str) -> None:
        """Note what is about to be removed; if that fails, it must not be removed."""
        every = list(ids)
        more = f" and {len(every) - _LISTED:,} more" if len(every) > _LISTED else ""
        detail = " ".join(every[:_LISTED]) + more
        await self._write([self._entry(user, reason=reason, result="begun", detail=detail)])

    async def results(self, result: UserResult, reasons: Mapping[str, str]) -> None:
        """Note the result for each."""

        def entry(session_id: str = "", how: str = "done", **more: Any) -> AuditEntry:
            reason = reasons.get(session_id, "")
            return self._entry(result.user, session_id=session_id, reason=reason, result=how, **more)

        kept = {**{i: f"snapshot {name}" for i, name in result.saved.items()}, **result.archived}
        made = [entry(i, bytes=size, detail=kept.get(i, "")) for i, size in result.deleted.items()]
        made += [entry(i, snapshot_id=snapshot) for snapshot, i in result.created.items()]
        made += [entry(snapshot_id=i, bytes=0) for i in result.snapshots[:_LISTED]]
        if len(result.snapshots) > _LISTED:
            made.append(entry(detail=f"and {len(result.snapshots) - _LISTED:,} more snapshots"))
        made += [entry(i, "live") for i in result.live] + [entry(i, "changed") for i in result.changed]
        made += [entry("" if i == "user" else i, "failed", detail=text) for i, text in result.errors.items()]
        await self._write(made)

    async def warned(self, user: str, warnings: Iterable[SessionWarning]) -> None:
        """Note that a user was warned."""
        every = list(warnings)
        made = [
            self._entry(
                user, session_id=w.session_id, reason=w.reason, bytes=w.size_bytes, detail=f"due {format_time(w.due)}"
            )
            for w in every[:_LISTED]
        ]
        if len(every) > _LISTED:
            made.append(self._entry(user, detail=f"and {len(every) - _LISTED:,} more sessions"))
        await self._write(replace(entry, action="warn") for entry in made)

    async def connected(self, user: str, rows: Iterable[Connected]) -> None:
        """Note connections of a user's sessions."""
        made = (
            self._entry(user, session_id=row.session_id, bytes=row.bytes, detail=f"{row.host}:{row.port} at {row.time}")
            for row in rows
        )
        await self._write(replace(entry, action="connect") for entry in made)

    async def finished(self, users: dict[str, UserResult]) -> Run:
        """Note the end of the run, and return all of it."""
        run = replace(self._run, duration=time.monotonic() - self._clock, users=users)
        if not run.dry_run:
            alone = sum(bool(user.left_alone) for user in users.values())
            counts = {
                "sessions deleted": run.deleted,
                "archived": sum(len(user.archived) for user in users.values()),
                "sessions created": sum(len(user.created) for user in users.values()),
                "snapshots deleted": sum(len(user.snapshots) for user in users.values()),
                "in use": sum(len(user.live) for user in users.values()),
                "failed": run.failures,
                "users left alone": alone,
            }
            detail = ", ".join(f"{what}: {count}" for what, count in counts.items() if count) or "nothing to do"
            await self._write([self._entry("", bytes=run.freed_bytes, result="finished", detail=detail)])
        return run

    def _entry(self, user: str, **fields: Any) -> AuditEntry:
        return AuditEntry(
            format_time(datetime.now(UTC)), self._run.run_id, self._run.actor, self._run.action, user, **fields
        )

    async def _write(self, entries: Iterable[AuditEntry]) -> None:
        await asyncio.to_thread(self._audit.append, list(entries))
