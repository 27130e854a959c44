"""The service as its pages, its schedule and its command line use it.

    census = await service.census()          what all users have; cached, at most `census_seconds` old
    census.users["ann"].sessions             rows: session_id, updated_at, size_bytes, live, problem, title, notebook, …
    census.sessions                          every row of everybody; each knows its user
    await service.census(fresh=True)         looked at now

    await service.snapshots("ann", session_id=None)     snapshots of a user, or of one session

    plan = await service.plan()              what the configured policies would do now (reads a fresh census)
    plan = await service.plan({"max_age": "7d"}, users=["ann"])       what these settings would do (see `policies`)
    plan.remove                              [(user, Decision)]; plan.reclaimed_bytes; plan.users["ann"].waiting, …

    run = await service.prune(actor, policy=None, users=None, only=plan_ids, dry_run=False)
        does what a plan made now says, but nothing that is not in ``only`` ({user: ids}), if that is given: what an
        administrator saw and agreed to. A policy tried out by hand knows of no warnings: what it names goes at once.
    run = await service.archive(actor, {"ann": [session_id, …]})      to the archive folder, then deleted
    run = await service.delete_sessions(actor, {"ann": [session_id, …]})
    run = await service.delete_snapshots(actor, {"ann": [snapshot_id, …]})
        `actor` is the name of the administrator, for the audit log. What was used since the last census is left alone
        (``run.users["ann"].changed``), what is in use as well (``.live``); errors are in ``.errors``, nothing is raised
        for a single user or session.

    entries, total = service.audit(limit=100, offset=0, user="", action="", result="")      the newest first
    service.history(user="")                 [Sample(time, sessions, session_bytes, snapshots, snapshot_bytes)]
    service.warnings()                       [Warning(user, session_id, warned_at, due, reason, …)], the next due first
    service.policies.rules(hub_user)         what holds for a user; .source says where it is from
    service.last_run                         the last scheduled `Run`, or None; service.next_run a datetime, or None
    service.can_archive                      whether an archive folder is set

`app` adds the routes of ``pages.handlers(service)``: (path, handler class, arguments), paths relative to the service's
prefix ("" is its first page); it sets ``xsrf_cookies`` and ``settings["hub_auth"]`` (a `HubOAuth`). The prefix itself
is ``settings["prefix"]``.

Bad values (a policy that cannot be, a user the hub does not know) raise `ConfigurationError`, whose text is for people.
Only one thing that changes anything happens at a time; whoever comes second waits.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.audit import AuditLog, Entry
from wasm_kernel.hub.census import Census, HubUser, SessionRow, SnapshotRow, UserCensus
from wasm_kernel.hub.history import History, Sample
from wasm_kernel.hub.notices import Warning
from wasm_kernel.hub.policies import Policies, Rules, Settings, rules_from
from wasm_kernel.hub.work import LEFT_ALONE, HubPlan, Run, UserPlan, UserResult, plan_all
from wasm_kernel.model.records import format_time, parse_time
from wasm_kernel.model.retention import Decision

Ids = Mapping[str, Collection[str]]
"""User to ids of sessions or snapshots."""


class Workplace(Protocol):
    """Where users' workspaces are worked on: homes that are reachable, or users' own servers."""

    async def do(self, user: HubUser, job: str, **arguments: Any) -> dict[str, Any]:
        """Do a job of `jobs` for a user; ``{"problem": …}`` says why not."""


@dataclass(frozen=True)
class Arrangement:
    """How the service works, turned once from settings.

    Attributes:
        state: The service's own folder: audit log, warnings, history.
        policies: What is kept of whom.
        locks_visible: Whether locks of users' kernels are seen from here.
        can_archive: Whether there is an archive folder.
        census_seconds: How old a census may be that is shown.
        breadth: How many users are worked for at once.
    """

    state: Path
    policies: Policies
    locks_visible: bool = False
    can_archive: bool = False
    census_seconds: float = 60.0
    breadth: int = 4


class Service:
    """Everything the service can do."""

    def __init__(
        self, arrangement: Arrangement, workplace: Workplace, list_users: Callable[[], Awaitable[list[HubUser]]]
    ) -> None:
        self._how, self._workplace, self._list_users = arrangement, workplace, list_users
        self._audit = AuditLog(arrangement.state / "audit.jsonl")
        self._history = History(arrangement.state / "history.sqlite")
        self._census: Census | None = None
        self._looking = asyncio.Lock()
        self._working = asyncio.Lock()
        self.policies = arrangement.policies
        self.can_archive = arrangement.can_archive
        self.last_run: Run | None = None
        self.next_run: datetime | None = None

    # ---- looking

    async def census(self, *, fresh: bool = False) -> Census:
        """What all users have."""
        async with self._looking:
            known = self._census
            if known is None or fresh or (_now() - known.taken_at).total_seconds() > self._how.census_seconds:
                taken_at = _now()
                users = await self._list_users()
                found = await self._for_each(users, self._look)
                known = self._census = Census(taken_at, {user.name: user for user in found})
                await asyncio.to_thread(self._history.add, known)
            return known

    async def _look(self, user: HubUser) -> UserCensus:
        taken_at = _now()
        found = await self._workplace.do(user, "look")
        rows = tuple(_row(user.name, row) for row in found.get("sessions", ()))
        return UserCensus(
            user,
            taken_at,
            str(found.get("root", "")),
            rows,
            int(found.get("snapshot_count", 0)),
            int(found.get("snapshot_bytes", 0)),
            found.get("free_bytes"),
            str(found.get("problem", "")),
        )

    async def snapshots(self, user: str, session_id: str | None = None) -> list[SnapshotRow]:
        """A user's snapshots, the newest first."""
        found = await self._workplace.do(await self._user(user), "snapshots", session_id=session_id)
        if found.get("problem"):
            raise ConfigurationError(f"the snapshots of {user!r} cannot be listed: {found['problem']}")
        return [SnapshotRow(user, **{**s, "created_at": parse_time(s["created_at"])}) for s in found["snapshots"]]

    def audit(
        self, limit: int = 100, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[Entry], int]:
        """A page of the audit log, the newest first, and how many entries fit in all."""
        return self._audit.read(limit, offset, user=user, action=action, result=result)

    def history(self, user: str = "") -> list[Sample]:
        """Space over time, of a user or of all."""
        return self._history.samples(user)

    def warnings(self) -> list[Warning]:
        """Sessions whose users were told that they will go, the next due first."""
        return []

    # ---- planning

    async def plan(self, policy: Settings | None = None, users: Collection[str] | None = None) -> HubPlan:
        """What the configured policies, or this one, would do now."""
        census = await self.census(fresh=True)
        return plan_all(census, self._rules(census, policy, users), {}, _now(), locks_visible=self._how.locks_visible)

    def _rules(self, census: Census, policy: Settings | None, users: Collection[str] | None) -> dict[str, Rules]:
        unknown = sorted(set(users or ()) - census.users.keys())
        if unknown:
            raise ConfigurationError(f"the hub knows no user {unknown[0]!r}; see the list of users for their names")
        given = rules_from(policy) if policy is not None else None
        chosen = census.users if users is None else users
        return {name: given or self.policies.rules(census.users[name].user) for name in chosen}

    # ---- working

    async def prune(
        self,
        actor: str,
        *,
        policy: Settings | None = None,
        users: Collection[str] | None = None,
        only: Ids | None = None,
        dry_run: bool = False,
    ) -> Run:
        """Do what a plan made now says."""
        async with self._working:
            plan = await self.plan(policy, users)

            async def work(of_user: UserPlan) -> UserResult:
                allowed = None if only is None else set(only.get(of_user.user, ()))
                remove = [d for d in of_user.remove if allowed is None or d.session_id in allowed]
                skipped = tuple(d.session_id for d in of_user.skip)
                result = UserResult(of_user.user, live=of_user.live, skipped=skipped, left_alone=of_user.left_alone)
                if dry_run:
                    return replace(result, deleted={d.session_id: d.size_bytes for d in remove})
                return await self._remove(result, remove, archive=of_user.rules.archive)

            return await self._run(actor, "prune", plan.users.values(), work, dry_run=dry_run)

    async def archive(self, actor: str, sessions: Ids) -> Run:
        """Write sessions to the archive folder, and delete them."""
        return await self._asked_for(actor, "archive", sessions, archive=True)

    async def delete_sessions(self, actor: str, sessions: Ids) -> Run:
        """Delete sessions."""
        return await self._asked_for(actor, "delete", sessions, archive=False)

    async def _asked_for(self, actor: str, action: str, sessions: Ids, *, archive: bool) -> Run:
        if archive and not self.can_archive:
            raise ConfigurationError("there is no archive folder; set WasmKernelHub.archive_folder")
        census = await self.census()
        self._rules(census, None, list(sessions))

        async def work(name: str) -> UserResult:
            user = census.users[name]
            if user.user.running and not self._how.locks_visible:
                return UserResult(name, left_alone=LEFT_ALONE)
            rows = {row.session_id: row for row in user.sessions}
            result = UserResult(name, changed=tuple(i for i in sessions[name] if i not in rows))
            wanted = [rows[i] for i in sessions[name] if i in rows]
            judged = [Decision(r.session_id, "asked for", 0.0, r.size_bytes, r.stamp) for r in wanted if not r.problem]
            result = replace(result, skipped=tuple(r.session_id for r in wanted if r.problem))
            return await self._remove(result, judged, archive=archive)

        async with self._working:
            return await self._run(actor, action, list(sessions), work)

    async def delete_snapshots(self, actor: str, snapshots: Ids) -> Run:
        """Delete snapshots."""
        census = await self.census()
        self._rules(census, None, list(snapshots))

        async def work(name: str) -> UserResult:
            found = await self._workplace.do(census.users[name].user, "forget", snapshot_ids=list(snapshots[name]))
            if found.get("problem"):
                return UserResult(name, errors={"user": str(found["problem"])})
            return UserResult(
                name,
                errors=found["errors"],
                snapshots=tuple(found["snapshots"]),
                snapshot_bytes=found["snapshot_bytes"],
            )

        async with self._working:
            return await self._run(actor, "delete snapshots", list(snapshots), work)

    async def _remove(self, result: UserResult, decisions: list[Decision], *, archive: bool) -> UserResult:
        if not decisions:
            return result
        user = await self._user(result.user)
        listed = [[d.session_id, d.reason, d.size_bytes, d.stamp] for d in decisions]
        found = await self._workplace.do(user, "remove", decisions=listed, archive=archive)
        if found.get("problem"):
            return replace(result, errors={**result.errors, "user": str(found["problem"])})
        return replace(
            result,
            deleted=found["deleted"],
            archived=found["archived"],
            errors={**result.errors, **found["errors"]},
            live=(*result.live, *found["live"]),
            changed=(*result.changed, *found["changed"]),
            snapshot_bytes=found["snapshot_bytes"],
        )

    async def _run(
        self,
        actor: str,
        action: str,
        items: Collection[Any],
        work: Callable[[Any], Awaitable[UserResult]],
        *,
        dry_run: bool = False,
    ) -> Run:
        started_at, clock = _now(), time.monotonic()
        run_id = uuid.uuid4().hex[:12]
        results = await self._for_each(items, work)
        self._census = None if not dry_run else self._census
        run = Run(run_id, actor, action, started_at, time.monotonic() - clock, dry_run, {r.user: r for r in results})
        if not dry_run:
            await asyncio.to_thread(self._audit.append, _entries(run))
        return run

    async def _user(self, name: str) -> HubUser:
        census = await self.census()
        if name not in census.users:
            raise ConfigurationError(f"the hub knows no user {name!r}; see the list of users for their names")
        return census.users[name].user

    async def _for_each(self, items: Collection[Any], work: Callable[[Any], Awaitable[Any]]) -> list[Any]:
        """Several at once, but not all."""
        breadth = asyncio.Semaphore(self._how.breadth)

        async def one(item: Any) -> Any:
            async with breadth:
                return await work(item)

        return list(await asyncio.gather(*(one(item) for item in items)))


def _entries(run: Run) -> list[Entry]:
    now = format_time(_now())
    made = []
    for user in run.users.values():

        def entry(of: UserResult = user, **fields: Any) -> Entry:
            return Entry(now, run.run_id, run.actor, run.action, of.user, **fields)

        for session_id, size in user.deleted.items():
            made.append(entry(session_id=session_id, bytes=size, detail=user.archived.get(session_id, "")))
        for snapshot_id in user.snapshots:
            made.append(entry(snapshot_id=snapshot_id))
        for result, ids in (("live", user.live), ("changed", user.changed), ("skipped", user.skipped)):
            made += [entry(session_id=session_id, result=result) for session_id in ids]
        made += [entry(session_id=name, result="failed", detail=text) for name, text in user.errors.items()]
    return made


def _row(user: str, found: dict[str, Any]) -> SessionRow:
    times = {name: found[name] and parse_time(found[name]) for name in ("created_at", "updated_at")}
    return SessionRow(user, **{**found, **times, "stamp": tuple(found["stamp"] or ())})


def _now() -> datetime:
    return datetime.now(UTC)
