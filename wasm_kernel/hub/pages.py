"""The operators' page: what all users have, what a policy would do, and doing it. HTML made here, by templates.

Whoever may see it is decided by the hub (the scope ``access:services!service=…``) and here once more: administrators,
and members of the groups in ``settings["operator_groups"]``. Looking is GET; whatever changes something is asked for by
POST with the hub's XSRF token, from a page that showed what would happen (``confirm``), and done by another (``do``).

Names of notebooks, titles and labels are the users' own, and hostile: templates escape all they are given, and no
page may run a script or load anything but what is in ``static``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from jupyterhub.services.auth import HubOAuthenticated, UserNotAllowed  # type: ignore[import-untyped]
from tornado import web

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub import chart, tables
from wasm_kernel.hub.census import Census
from wasm_kernel.hub.hubapi import HubUnavailable
from wasm_kernel.hub.rendering import STATIC, render
from wasm_kernel.hub.service import Service
from wasm_kernel.hub.work import HubPlan, Run
from wasm_kernel.model.records import is_session_id, is_uuid
from wasm_kernel.model.units import parse_duration, parse_size


def parse_count(text: str) -> int:
    """A number as people write it in a form."""
    digits = text.replace(",", "").replace("'", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
        raise ConfigurationError(f"{text!r} is not a number; write digits, such as 100")
    return int(digits)


_REMEMBERED = 50  # plans and results
_MOST_ITEMS = 1000  # in one request
_MAX_ARGUMENT = 400
_FIELDS = (
    ("max_age", "Longest time unused", "30d", parse_duration),
    ("max_sessions", "Most per user", "100", parse_count),
    ("max_total", "Most space per user", "10G", parse_size),
    ("min_free", "Least free on the disk", "5G", parse_size),
    ("snapshot_max_age", "Oldest", "14d", parse_duration),
    ("snapshot_max_per_session", "Most per session", "20", parse_count),
    ("snapshot_max_total", "Most space per user", "5G", parse_size),
)
_ARGUMENTS = (
    *("search", "user", "state", "sort", "page", "session", "action", "result", "policy", "users", "archive"),
    *(name for name, *_ in _FIELDS),
)
_ACTIONS = ("archive", "delete", "delete-snapshots")
_RULES = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


@dataclass(frozen=True)
class Tried:
    """A plan somebody looked at, so that what is done is what was seen."""

    plan: HubPlan
    policy: dict[str, Any] | None
    users: list[str] | None


@dataclass
class Memory:
    """What one request leaves for the next; lost with the process, and then it has to be looked at anew."""

    plans: OrderedDict[str, Tried] = field(default_factory=OrderedDict)
    runs: OrderedDict[str, Run] = field(default_factory=OrderedDict)

    def keep_plan(self, tried: Tried) -> str:
        """Remember a plan; its name."""
        name = secrets.token_hex(8)
        _keep(self.plans, name, tried)
        return name

    def keep_run(self, run: Run) -> None:
        """Remember what was done."""
        _keep(self.runs, run.run_id, run)


def _keep(where: OrderedDict[str, Any], name: str, value: Any) -> None:
    where[name] = value
    while len(where) > _REMEMBERED:
        where.popitem(last=False)


def handlers(service: Service) -> list[tuple[Any, ...]]:
    """The routes, relative to the service's prefix."""
    given = {"service": service, "memory": Memory()}
    return [
        ("/?", SessionsPage, given),
        ("users", UsersPage, given),
        ("snapshots", SnapshotsPage, given),
        ("policy", PolicyPage, given),
        ("warnings", WarningsPage, given),
        ("audit", AuditPage, given),
        ("confirm", ConfirmPage, given),
        ("do", DoPage, given),
        ("done/([0-9a-zA-Z-]+)", DonePage, given),
        ("static/(.*)", StaticFile, {"path": str(STATIC)}),
    ]


class StaticFile(web.StaticFileHandler):
    """Style and script."""

    def set_extra_headers(self, path: str) -> None:
        """Nothing is guessed about them."""
        self.set_header("X-Content-Type-Options", "nosniff")


class Page(HubOAuthenticated, web.RequestHandler):  # type: ignore[misc]
    """What all pages have in common."""

    def initialize(self, service: Service, memory: Memory) -> None:
        """As `handlers` says."""
        self.service, self.memory = service, memory

    @property
    def hub_auth(self) -> Any:
        """The hub's word on who somebody is."""
        return self.settings["hub_auth"]

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        """Also where every user may see every service, only some may see this one."""
        allowed: dict[str, Any] = super().check_hub_user(model)
        operators = set(self.settings.get("operator_groups", ()))
        if allowed.get("admin") or operators.intersection(allowed.get("groups") or ()):
            return allowed
        raise UserNotAllowed(model)

    def set_default_headers(self) -> None:
        """Nothing but our own script and style, in nobody's frame, kept by nobody."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", _RULES)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> None:
        """A browser says where a request comes from; one that changes something comes from here."""
        site = self.request.headers.get("Sec-Fetch-Site", "same-origin")
        if self.request.method not in ("GET", "HEAD") and site not in ("same-origin", "none"):
            raise web.HTTPError(403, reason="This request comes from another site")

    @property
    def base(self) -> str:
        """The address of the first page; the others are below it."""
        return str(self.settings["prefix"]).rstrip("/") + "/"

    @property
    def actor(self) -> str:
        """Who is asking."""
        return str(self.current_user["name"])

    def argument(self, name: str) -> str:
        """A value of the address or the form, short and of one line."""
        return str(self.get_argument(name, ""))[:_MAX_ARGUMENT].strip()

    def number(self, name: str) -> int:
        """A page's number."""
        text = self.argument(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1

    async def known(self) -> Census:
        """What all users have."""
        return await self.service.census(fresh=bool(self.argument("fresh")))

    def show(self, template: str, **values: Any) -> None:
        """Finish with a page."""
        arguments = {name: self.argument(name) for name in _ARGUMENTS if name in self.request.query_arguments}

        def link(page: str = "", /, **wanted: Any) -> str:
            given = {name: value for name, value in wanted.items() if value not in ("", None)}
            return self.base + page + (f"?{urlencode(given)}" if given else "")

        def here(**changes: Any) -> str:
            return link(self.request.path.removeprefix(self.base.rstrip("/")).lstrip("/"), **{**arguments, **changes})

        values |= {"base": self.base, "link": link, "here": here, "arguments": arguments, "service": self.service}
        values |= {"me": self.current_user, "xsrf": self.xsrf_token.decode(), "now": datetime.now(UTC)}
        self.finish(render(template, **values))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """What the page itself tells needs no traceback."""
        if not isinstance(value, ConfigurationError | HubUnavailable):
            super().log_exception(typ, value, tb)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """An error as a page."""
        error = kwargs.get("exc_info", (None, None))[1]
        text = ""
        for kind, status in ((ConfigurationError, 400), (HubUnavailable, 503)):
            if isinstance(error, kind):
                status_code, text = status, str(error)
                self.set_status(status)
        if isinstance(error, web.HTTPError):
            text = error.reason or ""
        title = HTTPStatus(status_code).phrase if status_code in HTTPStatus._value2member_map_ else "Error"
        values = {"status": status_code, "title": title, "text": "" if text == title else text}
        self.finish(render("error.html", base=self.base, **values))


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
    """Every user, with what they take."""

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
    """The snapshots of a session, or of a user."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        user, session_id = self.argument("user"), self.argument("session")
        if session_id and not is_session_id(session_id):
            raise web.HTTPError(404, reason="There is no such session")
        census = await self.known()
        if user not in census.users:
            raise web.HTTPError(404, reason="The hub knows no such user")
        snapshots = await self.service.snapshots(user, session_id or None)
        row = next((row for row in census.users[user].sessions if row.session_id == session_id), None)
        names = {row.session_id: row for row in census.users[user].sessions}
        self.show(
            "snapshots.html",
            of_user=census.users[user],
            session_id=session_id,
            row=row,
            names=names,
            table=tables.cut(snapshots, self.number("page")),
            stored=sum(s.stored_bytes for s in snapshots),
        )


class PolicyPage(Page):
    """What a policy would do: the configured ones, or one tried out."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        given = {name: self.argument(name) for name, *_ in _FIELDS if self.argument(name)}
        whose, chosen = self.argument("users"), self.argument("policy")
        tried, name, problem = None, "", ""
        if chosen:
            try:
                policy = None if chosen == "configured" else _settings(given, archive=bool(self.argument("archive")))
                users = whose.replace(",", " ").split() or None
                tried = Tried(await self.service.plan(policy, users), policy, users)
                name = self.memory.keep_plan(tried)
            except ConfigurationError as e:
                problem = str(e)
                self.set_status(400)
        census = await self.known()
        rows = {(row.user, row.session_id): row for row in census.sessions} if tried else {}
        self.show(
            "policy.html",
            fields=_FIELDS,
            given=given,
            whose=whose,
            chosen=chosen,
            problem=problem,
            tried=tried,
            plan_name=name,
            plan_snapshots=sum(len(user.snapshots) for user in tried.plan.users.values()) if tried else 0,
            rows=rows,
            table=tables.cut(tried.plan.remove, self.number("page")) if tried else None,
        )


def _settings(given: Mapping[str, str], *, archive: bool) -> dict[str, Any]:
    """A policy as `policies` reads it, from a form's text."""
    if not given:
        raise ConfigurationError("A policy needs at least one bound: fill in one of the fields")
    result: dict[str, Any] = {"archive": archive}
    for name, label, _, parse in _FIELDS:
        if name in given:
            try:
                result[name] = parse(given[name])
            except ConfigurationError as e:
                raise ConfigurationError(f"{label}: {e}") from None
    return result


class WarningsPage(Page):
    """Sessions whose users were told that they will go."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        census = await self.known()
        rows = {(row.user, row.session_id): row for row in census.sessions}
        self.show("warnings.html", table=tables.cut(self.service.warnings(), self.number("page")), rows=rows)


class AuditPage(Page):
    """Who did what."""

    @web.authenticated
    async def get(self) -> None:
        """The page."""
        page = self.number("page")
        wanted: dict[str, Any] = {name: self.argument(name) for name in ("user", "action", "result")}
        skipped = (page - 1) * tables.PAGE
        entries, total = await asyncio.to_thread(self.service.audit, tables.PAGE, skipped, **wanted)
        pages = max(1, -(-total // tables.PAGE))
        self.show("audit.html", table=tables.Slice(entries, total, min(page, pages), pages), **wanted)


class ConfirmPage(Page):
    """What would be done, before it is."""

    @web.authenticated
    async def post(self) -> None:
        """The question."""
        action = self.argument("action")
        if action == "prune":
            tried = _tried(self)
            archived = [user.rules.archive for user in tried.plan.users.values() if user.remove]
            self.show(
                "confirm.html",
                action=action,
                archives=bool(archived) and all(archived),
                archives_some=any(archived),
                items=[],
                rows={},
                tried=tried,
                plan_name=self.argument("plan"),
                plan_snapshots=sum(len(user.snapshots) for user in tried.plan.users.values()),
            )
            return
        items = _items(self, action)
        census = await self.known()
        rows = {(row.user, row.session_id): row for row in census.sessions}
        self.show(
            "confirm.html",
            action=action,
            archives=action == "archive",
            archives_some=False,
            items=items,
            rows=rows,
            size=sum(rows[item].size_bytes for item in items if item in rows),
            busy=sum(rows[item].live for item in items if item in rows),
            tried=None,
        )


class DoPage(Page):
    """Does it."""

    @web.authenticated
    async def post(self) -> None:
        """Do it, and show what came of it."""
        action = self.argument("action")
        if action == "prune":
            run = await self._prune(_tried(self))
        else:
            ids: dict[str, list[str]] = {}
            for user, name in _items(self, action):
                ids.setdefault(user, []).append(name)
            work = {
                "archive": self.service.archive,
                "delete": self.service.delete_sessions,
                "delete-snapshots": self.service.delete_snapshots,
            }[action]
            run = await work(self.actor, ids)
        self.memory.keep_run(run)
        self.redirect(f"{self.base}done/{run.run_id}", status=303)

    async def _prune(self, tried: Tried) -> Run:
        """Only what was seen."""
        plan = tried.plan
        only = {name: [d.session_id for d in user.remove] for name, user in plan.users.items()}
        run = await self.service.prune(self.actor, policy=tried.policy, users=tried.users, only=only)
        snapshots = {name: user.snapshots for name, user in plan.users.items() if user.snapshots}
        if not snapshots:
            return run
        thinned = await self.service.delete_snapshots(self.actor, snapshots)
        users = {
            name: user.plus(thinned.users[name]) if name in thinned.users else user for name, user in run.users.items()
        }
        return replace(run, users=users, duration=run.duration + thinned.duration)


def _tried(page: Page) -> Tried:
    tried = page.memory.plans.get(page.argument("plan"))
    if tried is None:
        raise ConfigurationError("this plan is too old; look at what the policy would do once more")
    return tried


def _items(page: Page, action: str) -> list[tuple[str, str]]:
    """User and id of what was chosen; ids come first, because users' names may hold anything."""
    if action not in _ACTIONS:
        raise web.HTTPError(400, reason="There is no such action")
    is_id = is_uuid if action == "delete-snapshots" else is_session_id
    found = []
    for text in page.get_arguments("item")[: _MOST_ITEMS + 1]:
        name, colon, user = text.partition(":")
        if not colon or not user or not is_id(name):
            raise web.HTTPError(400, reason="What was chosen is no session and no snapshot")
        found.append((user, name))
    if not found:
        raise ConfigurationError("nothing was chosen; go back and tick what is meant")
    if len(found) > _MOST_ITEMS:
        raise ConfigurationError(f"too much was chosen at once: {_MOST_ITEMS} at most, or use a policy")
    return list(dict.fromkeys(found))


class DonePage(Page):
    """What was done."""

    @web.authenticated
    async def get(self, run_id: str) -> None:
        """The page."""
        run = self.memory.runs.get(run_id)
        if run is None:
            self.redirect(f"{self.base}audit")
            return
        self.show("done.html", run=run)
