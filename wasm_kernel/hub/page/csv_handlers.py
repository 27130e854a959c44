"""The page's lists as CSV, whole and with the same filters, for spreadsheets.

Names of notebooks and labels are the users': a spreadsheet must not take them for formulas.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from tornado import web

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.page import tables
from wasm_kernel.hub.page.base_handler import Page
from wasm_kernel.model.records import format_time

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a cell that is computed begins with
_MOST_ENTRIES = 100_000  # of the audit log


def as_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV; text that a spreadsheet would compute is quoted by an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    text = "".join(c if c.isprintable() else " " for c in value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


class CsvPage(Page):
    """Answers with a table."""

    def send(self, name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A file of this name."""
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="wasm-kernel-{name}.csv"')
        self.finish(as_csv(head, rows))


class SessionsCsv(CsvPage):
    """Sessions."""

    @web.authenticated
    async def get(self) -> None:
        """The file."""
        census = await self.known()
        rows = tables.found(census.sessions, self.argument("search"), self.argument("user"), self.argument("state"))
        head = ("user", "session_id", "title", "notebook", "state", "created_at", "updated_at", "size_bytes")
        found = tables.ordered(rows, self.argument("sort") or "-used", tables.SESSION_KEYS, "-used")
        self.send(
            "sessions",
            (*head, "snapshots", "cells"),
            (
                (r.user, r.session_id, r.title, r.notebook, r.problem or r.state)
                + (_time(r.created_at), _time(r.updated_at), r.size_bytes, r.snapshot_count, r.execution_count)
                for r in found
            ),
        )


class SnapshotsCsv(CsvPage):
    """Snapshots of everybody, or of a user."""

    @web.authenticated
    async def get(self) -> None:
        """The file."""
        census, user = await self.known(), self.argument("user")
        session = self.argument("session") or None
        rows = await self.service.snapshots(user, session) if user else (await self.service.all_snapshots()).rows
        names = {(row.user, row.session_id): row for row in census.sessions}
        found = tables.found_snapshots(rows, names, self.argument("search"), self.argument("trigger"))
        head = ("user", "snapshot_id", "session_id", "trigger_type", "created_at", "label")
        self.send(
            "snapshots",
            (*head, "added_bytes", "memory_bytes", "files", "file_bytes"),
            (
                (r.user, r.snapshot_id, r.session_id, r.trigger, _time(r.created_at), r.label)
                + (r.stored_bytes, r.memory_bytes, r.file_count, r.file_bytes)
                for r in tables.ordered(found, self.argument("sort") or "-taken", tables.SNAPSHOT_KEYS, "-taken")
            ),
        )


class PlanCsv(CsvPage):
    """What a plan that was shown would remove."""

    @web.authenticated
    async def get(self) -> None:
        """The file."""
        tried = self.memory.plans.get(self.argument("plan"))
        if tried is None:
            raise ConfigurationError("this plan is too old; try the policy once more")
        rows = {(row.user, row.session_id): row for row in (await self.known()).sessions}
        head = ("user", "session_id", "title", "notebook", "reason", "unused_hours", "size_bytes", "snapshot_bytes")

        def line(user: str, decision: Any) -> tuple[Any, ...]:
            row = rows.get((user, decision.session_id))
            names = (row.title, row.notebook) if row is not None else ("", "")
            numbers = (round(decision.age_hours, 1), decision.size_bytes, decision.snapshot_bytes)
            return user, decision.session_id, *names, decision.reason, *numbers

        self.send("plan", head, (line(*pair) for pair in tables.by_space(tried.plan.remove)))


class AuditCsv(CsvPage):
    """The audit log, line by line."""

    @web.authenticated
    async def get(self) -> None:
        """The file."""
        wanted = {name: self.argument(name) for name in ("user", "action", "result")}
        entries, _ = await asyncio.to_thread(self.service.audit, _MOST_ENTRIES, 0, **wanted)
        head = ("time", "run", "actor", "action", "user", "session_id", "snapshot_id", "reason", "bytes", "result")
        self.send("audit", (*head, "detail"), ([getattr(e, name) for name in (*head, "detail")] for e in entries))


def _time(moment: Any) -> str:
    return format_time(moment) if moment is not None else ""
