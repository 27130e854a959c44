"""The operators' page: what all users have, what a policy would do, and doing it. HTML made here, by templates.

Who may see it is decided by the hub (the scope ``access:services!service=…``) and once more here: administrators, and
members of the groups in ``settings["operator_groups"]``. Reading is GET; what changes something is POST
(`action_handlers`).

Names of notebooks, titles and labels are the users', and may be hostile: templates escape all they are given, and no
page may run a script or load anything but what is in ``static``.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tornado import web

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.page import chart, tables
from wasm_kernel.hub.page.action_handlers import ConfirmPage, DonePage, DoPage
from wasm_kernel.hub.page.base_handler import Page, StaticFile
from wasm_kernel.hub.page.csv_handlers import AuditCsv, PlanCsv, SessionsCsv, SnapshotsCsv
from wasm_kernel.hub.page.policy_form import FIELDS, settings_from
from wasm_kernel.hub.page.rendering import STATIC
from wasm_kernel.hub.page.request_memory import Memory, Planning, Tried
from wasm_kernel.hub.progress import Progress
from wasm_kernel.hub.service import Service
from wasm_kernel.model.records import is_session_id

_AT_ONCE = 1.5  # seconds that a plan may take before the page says how far it is


def handlers(service: Service) -> list[tuple[Any, ...]]:
    """The routes, relative to the service's prefix."""
    given = {"service": service, "memory": Memory()}
    return [
        ("/?", SessionsPage, given),
        ("users", UsersPage, given),
        ("snapshots", SnapshotsPage, given),
        ("snapshot", SnapshotPage, given),
        ("policy", PolicyPage, given),
        ("warnings", WarningsPage, given),
        ("audit", AuditPage, given),
        ("sessions.csv", SessionsCsv, given),
        ("snapshots.csv", SnapshotsCsv, given),
        ("policy.csv", PlanCsv, given),
        ("audit.csv", AuditCsv, given),
        ("confirm", ConfirmPage, given),
        ("do", DoPage, given),
        ("done/([0-9a-zA-Z-]+)", DonePage, given),
        ("static/(.*)", StaticFile, {"path": str(STATIC)}),
    ]


class SessionsPage(Page):
    """Every session: searched, sorted, a page at a time."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        census = await self.known()
        of_user = self.argument("user")
        if of_user and of_user not in census.users:
            raise web.HTTPError(404, reason="The hub knows no such user")
        rows = tables.found(census.sessions, self.argument("search"), of_user, self.argument("state"))
        sort = self.argument("sort") or "-used"
        samples = await asyncio.to_thread(self.service.history, of_user)
        self.show(
            "sessions.html",
            census=census,
            table=tables.cut(tables.ordered(rows, sort, tables.SESSION_KEYS, "-used"), self.number("page")),
            found_bytes=sum(row.size_bytes for row in rows),
            running=sum(user.user.running for user in census.users.values()),
            sort=sort,
            of_user=census.users.get(of_user),
            rules=self.service.policies.rules(census.users[of_user].user) if of_user else None,
            chart=chart.draw(samples),
            warned={(w.user, w.session_id): w for w in self.service.warnings()},
        )


class UsersPage(Page):
    """Every user, with the space they use."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        census = await self.known()
        words = self.argument("search").casefold().split()
        users = [
            user
            for user in census.users.values()
            if all(word in f"{user.name}\n{' '.join(user.user.groups)}".casefold() for word in words)
        ]
        sort = self.argument("sort") or "-size"
        most = max((user.session_bytes + user.snapshot_bytes for user in users), default=0)
        self.show(
            "users.html",
            census=census,
            table=tables.cut(tables.ordered(users, sort, tables.USER_KEYS, "-size"), self.number("page")),
            sort=sort,
            most=most or 1,
            last_used=tables.last_used,
            rules_of=lambda user: self.service.policies.rules(user.user),
        )


class SnapshotsPage(Page):
    """The snapshots of everybody, of a user, or of a session."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        user, session_id = self.argument("user"), self.argument("session")
        if session_id and not is_session_id(session_id):
            raise web.HTTPError(404, reason="There is no such session")
        census = await self.known()
        if user not in census.users and (user or session_id):
            raise web.HTTPError(404, reason="The hub knows no such user")
        problems: dict[str, str] = {}
        if user:
            snapshots = await self.service.snapshots(user, session_id or None)
        else:
            seen = await self.service.all_snapshots(fresh=bool(self.argument("fresh")))
            snapshots, problems = seen.rows, seen.problems
        names = {(row.user, row.session_id): row for row in census.sessions}
        found = tables.found_snapshots(snapshots, names, self.argument("search"), self.argument("trigger"))
        sort = self.argument("sort") or "-taken"
        self.show(
            "snapshots.html",
            of_user=census.users.get(user),
            session_id=session_id,
            row=names.get((user, session_id)),
            names=names,
            problems=problems,
            sort=sort,
            table=tables.cut(tables.ordered(found, sort, tables.SNAPSHOT_KEYS, "-taken"), self.number("page")),
            stored=sum(s.stored_bytes for s in found),
        )


class SnapshotPage(Page):
    """One snapshot: where it comes from, what is in it, and what can be done with it."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        user, snapshot_id = self.argument("user"), self.argument("snapshot")
        census = await self.known()
        if user not in census.users:
            raise web.HTTPError(404, reason="The hub knows no such user")
        found = {s.snapshot_id: s for s in await self.service.snapshots(user)}
        if snapshot_id not in found:
            raise web.HTTPError(404, reason="There is no such snapshot; it may have been deleted")
        snapshot = found[snapshot_id]
        row = next((r for r in census.users[user].sessions if r.session_id == snapshot.session_id), None)
        self.show("snapshot.html", snapshot=snapshot, row=row, parent=found.get(snapshot.parent))


class PolicyPage(Page):
    """What a policy would do: the configured ones, or one tried out."""

    @web.authenticated
    async def get(self) -> None:
        """The page, or how far its plan is."""
        given = {name: self.argument(name) for name, *_ in FIELDS if self.argument(name)}
        whose, chosen, name, problem = self.argument("users"), self.argument("policy"), self.argument("plan"), ""
        tried = self.memory.plans.get(name)
        if chosen and tried is None:
            try:
                archive = bool(self.argument("archive"))
                policy = None if chosen == "configured" else settings_from(given, archive=archive)
                tried = await self._plan(policy, whose.replace(",", " ").split() or None)
            except ConfigurationError as e:
                problem = str(e)
                self.set_status(400)
            if tried is None and not problem:
                return
            name = self.memory.keep_plan(tried) if tried is not None else ""
        census = await self.known()
        rows = {(row.user, row.session_id): row for row in census.sessions} if tried else {}
        self.show(
            "policy.html",
            fields=FIELDS,
            given=given,
            whose=whose,
            chosen=chosen,
            problem=problem,
            tried=tried,
            plan_name=name,
            plan_snapshots=sum(len(user.snapshots) for user in tried.plan.users.values()) if tried else 0,
            users=sorted(tried.plan.users.values(), key=lambda u: -u.reclaimed_bytes) if tried else [],
            rows=rows,
            table=tables.cut(tables.by_space(tried.plan.remove), self.number("page")) if tried else None,
        )

    async def _plan(self, policy: dict[str, Any] | None, users: list[str] | None) -> Tried | None:
        """A plan; None if it takes longer, and how far it is was answered: the page asks again."""
        asked = (self.actor, json.dumps([policy, users]))
        planning = self.memory.planning.get(asked)
        if planning is None:
            progress = Progress()
            making = asyncio.create_task(self.service.plan(policy, users, progress=progress))
            planning = Planning(making, progress)
            self.memory.begin_plan(asked, planning)
        await asyncio.wait({planning.making}, timeout=_AT_ONCE)
        if not planning.making.done():
            self.set_header("Refresh", "1")
            self.show("planning.html", progress=planning.progress)
            return None
        self.memory.planning.pop(asked, None)
        return Tried(planning.making.result(), policy, users)


class WarningsPage(Page):
    """Sessions whose users were warned that they will be deleted."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        census = await self.known()
        rows = {(row.user, row.session_id): row for row in census.sessions}
        self.show("warnings.html", table=tables.cut(self.service.warnings(), self.number("page")), rows=rows)


class AuditPage(Page):
    """Who did what, a line for each run."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        page = self.number("page")
        wanted: dict[str, Any] = {name: self.argument(name) for name in ("user", "action", "result")}
        skipped = (page - 1) * tables.PAGE
        runs, total = await asyncio.to_thread(self.service.audited_runs, tables.PAGE, skipped, **wanted)
        pages = max(1, -(-total // tables.PAGE))
        self.show("audit.html", table=tables.Slice(runs, total, min(page, pages), pages), **wanted)
