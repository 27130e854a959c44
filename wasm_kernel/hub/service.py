"""The service as its pages, its schedule and its command line use it.

    census = await service.census()          what all users have; cached, renewed when older than `census_seconds`
    census.users["ann"].sessions             rows: session_id, updated_at, size_bytes, live, problem, title, notebook, …
    census.sessions                          every row of everybody; each knows its user
    await service.census(fresh=True)         looked at now

    await service.snapshots("ann", session_id=None)     snapshots of a user, or of one session
    await service.all_snapshots()            snapshots of all users; cached like a census

    plan = await service.plan()              what the configured policies would do now (reads a fresh census)
    plan = await service.plan({"max_age": "7d"}, users=["ann"])       what these settings would do (see `policies`)
    plan.remove                              [(user, Decision)]; plan.reclaimed_bytes; plan.users["ann"].waiting, …

    run = await service.prune(actor, policy=None, users=None, only=plan_ids, dry_run=False)
        does what a plan made now says, but nothing that is not in ``only`` ({user: ids}), if that is given: what an
        administrator saw and agreed to. A policy tried out by hand knows of no warnings: what it names goes at once.
    run = await service.archive(actor, {"ann": [session_id, …]})      to the archive folder, then deleted
    run = await service.delete_sessions(actor, {"ann": [session_id, …]})
    run = await service.stop_sessions(actor, {"ann": [session_id, …]})           deleted; each leaves a snapshot
    run = await service.delete_snapshots(actor, {"ann": [snapshot_id, …]})
    run = await service.create_sessions(actor, {"ann": [snapshot_id, …]})        new ones that continue from them
        `actor` is the name of the administrator, for the audit log. What was used since the last census is left alone
        (``run.users["ann"].changed``), what is in use as well (``.live``); errors are in ``.errors``, nothing is raised
        for a single user or session.

    entries, total = service.audit(limit=100, offset=0, user="", action="", result="")      the newest first
    service.history(user="")                 [Sample(time, sessions, session_bytes, snapshots, snapshot_bytes)]
    service.audited_runs(limit=50, offset=0, …)         the same by run, and how many runs match
    service.warnings()                       [SessionWarning(user, session_id, warned_at, due, …)], the next due first
    service.policies.rules(hub_user)         the rules for a user; .source says where they come from
    service.last_run                         the last scheduled `Run`, or None; service.next_run a datetime, or None
    service.trouble                          why the last scheduled run failed, or ""
    service.can_archive                      whether an archive folder is set

`app` adds the routes of ``page.handlers.handlers(service)``: (path, handler class, arguments), paths relative to the
service's prefix ("" is its first page); it sets ``xsrf_cookies`` and ``settings["hub_auth"]`` (a `HubOAuth`). The
prefix itself is ``settings["prefix"]``.

Bad values (an impossible policy, a user the hub does not know) raise `ConfigurationError`, whose text is for people.
Only one change is made at a time; others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.audit import AuditedRun, AuditEntry, AuditLog
from wasm_kernel.hub.census import Census, HubUser, SnapshotRow, UserCensus, without_shared
from wasm_kernel.hub.connections import ConnectionCopies
from wasm_kernel.hub.deletions import Deletions
from wasm_kernel.hub.hubapi import HubUnavailable
from wasm_kernel.hub.metrics import Metrics
from wasm_kernel.hub.plan import HubPlan, Run, UserPlan, UserResult, foreseen, kept, plan_all
from wasm_kernel.hub.policies import Policies, Settings, UserRules, rules_from
from wasm_kernel.hub.progress import Progress, for_each
from wasm_kernel.hub.run_journal import Journal
from wasm_kernel.hub.snapshots import SnapshotCensus, Snapshots
from wasm_kernel.hub.usage_history import Sample, UsageHistory
from wasm_kernel.hub.user_warnings import SessionWarning, WarningBook, notices_of, warnings_for
from wasm_kernel.hub.workplace import Directory, Workplace
from wasm_kernel.hub.workspaces import checked_answers
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer
from wasm_kernel.model.retention import Decision

_T = TypeVar("_T")
_R = TypeVar("_R")
_STALE = 10  # a census this many times too old is not shown; one a little too old is, while it is renewed

Ids = Mapping[str, Collection[str]]
"""User to ids of sessions or snapshots."""


@dataclass(frozen=True)
class Arrangement:
    """How the service works, made once from its settings.

    Attributes:
        state: The service's own folder: audit log, warnings, history.
        policies: What is kept for whom.
        can_archive: Whether there is an archive folder.
        census_seconds: How old a census may be when it is shown.
        breadth: How many users are handled at once.
    """

    state: Path
    policies: Policies
    can_archive: bool = False
    census_seconds: float = 60.0
    breadth: int = 4


class Service:
    """Everything the service can do."""

    def __init__(self, arrangement: Arrangement, workplace: Workplace, directory: Directory) -> None:
        self._how, self._workplace, self._directory = arrangement, workplace, directory
        self._audit = AuditLog(arrangement.state / "audit.jsonl")
        self._history = UsageHistory(arrangement.state / "history.sqlite")
        self._book = WarningBook(arrangement.state / "warnings.json")
        self._connections = ConnectionCopies(arrangement.state / "connections.json", workplace)
        self._census: Census | None = None
        self._looking, self._working = asyncio.Lock(), asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        self._snapshots = Snapshots(workplace)
        self._deletions = Deletions(workplace, directory, can_archive=arrangement.can_archive)
        self.metrics = Metrics()
        self.policies, self.can_archive = arrangement.policies, arrangement.can_archive
        self.last_run: Run | None = None
        self.next_run: datetime | None = None
        self.trouble = ""

    def close(self) -> None:
        """Stop, and end what runs."""
        self._workplace.close()

    # ---- looking

    async def census(self, *, fresh: bool = False, progress: Progress | None = None) -> Census:
        """What all users have."""
        known, asked_at = self._census, _now()
        if known is None or fresh:
            return await self._look_since(asked_at, progress)
        age = (asked_at - known.taken_at).total_seconds()
        if age > _STALE * self._how.census_seconds:
            return await self._look_since(asked_at)
        if age > self._how.census_seconds and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh(asked_at))
        return known

    async def _look_since(self, asked_at: datetime, progress: Progress | None = None) -> Census:
        """A census begun after ``asked_at``; several callers share one."""
        progress = progress or Progress()
        progress.begin("Waiting for another look at everybody’s sessions")
        async with self._looking:
            known = self._census
            if known is not None and known.taken_at >= asked_at:
                return known
            taken_at = _now()
            users = await self._directory.users()
            progress.begin("Looking at users’ sessions", len(users))
            found = await self._for_each(users, self._look, progress)
            census = self._census = Census(taken_at, without_shared(found))
            self.metrics.saw(census)
            with contextlib.suppress(sqlite3.Error, OSError):  # it is only for a chart
                await asyncio.to_thread(self._history.add, census)
            return census

    async def _refresh(self, asked_at: datetime) -> None:
        """Renew the census in the background."""
        with contextlib.suppress(HubUnavailable):  # whoever waits for a census is told
            await self._look_since(asked_at)

    async def _look(self, user: HubUser) -> UserCensus:
        taken_at = _now()
        try:
            return checked_answers.user_census(user, taken_at, await self._workplace.do(user, "look"))
        except BadAnswer as e:
            return UserCensus(user, taken_at, problem=f"the answer about their workspace is invalid: {e}")

    async def snapshots(self, user: str, session_id: str | None = None) -> list[SnapshotRow]:
        """A user's snapshots, newest first."""
        known = await self._known([user])
        return await self._snapshots.of(known[user].user, session_id)

    async def all_snapshots(self, *, fresh: bool = False) -> SnapshotCensus:
        """The snapshots of all users, newest first."""
        users = (await self.census()).users.values()
        oldest = _now() - timedelta(seconds=0 if fresh else self._how.census_seconds)
        return await self._snapshots.of_all([u.user for u in users if u.snapshot_count], oldest, self._for_each)

    def audit(
        self, limit: int = 100, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[AuditEntry], int]:
        """A page of the audit log, newest first, and how many entries match in total."""
        return self._audit.read(limit, offset, user=user, action=action, result=result)

    def audited_runs(
        self, limit: int = 50, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[AuditedRun], int]:
        """A page of the runs in the audit log, newest first, and how many match in total."""
        return self._audit.runs(limit, offset, user=user, action=action, result=result)

    def history(self, user: str = "") -> list[Sample]:
        """Space over time, of a user or of all."""
        return self._history.samples(user)

    def warnings(self) -> list[SessionWarning]:
        """Sessions whose users were warned that they will be deleted, the next due first."""
        return self._book.all()

    # ---- planning

    async def plan(
        self,
        policy: Settings | None = None,
        users: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> HubPlan:
        """What the configured policies, or this one, would do now."""
        given = rules_from(policy) if policy is not None else None
        census = await self.census(fresh=True, progress=progress)
        return await self._plan(census, self._rules(census, given, users), warned=given is None, progress=progress)

    async def _plan(
        self, census: Census, rules: dict[str, UserRules], *, warned: bool, progress: Progress | None = None
    ) -> HubPlan:
        due = {name: {i: w.due for i, w in self._book.of(name).items()} for name in rules} if warned else {}
        made = plan_all(census, rules, due, _now(), self._workplace.obstacle)

        async def with_snapshots(of_user: UserPlan) -> UserPlan:
            known = census.users[of_user.user]
            asks = of_user.remove or of_user.rules.bounds_snapshots
            if of_user.left_alone or not known.snapshot_count or not asks:
                return of_user
            return await self._deletions.foresee(of_user, known.user)

        if progress is not None:
            progress.begin("Counting their snapshots", len(made.users))
        planned = await self._for_each(list(made.users.values()), with_snapshots, progress)
        return replace(made, users={of_user.user: of_user for of_user in planned})

    def _rules(self, census: Census, given: UserRules | None, users: Collection[str] | None) -> dict[str, UserRules]:
        chosen = census.users if users is None else census.checked(users)
        return {name: given or self.policies.rules(census.users[name].user) for name in chosen}

    async def _known(self, names: Collection[str]) -> dict[str, UserCensus]:
        """What the last census says of these users."""
        census = await self.census()
        return {name: census.users[name] for name in census.checked(names)}

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
        """Plan now and carry it out, and warn users of what will be deleted."""
        given = rules_from(policy) if policy is not None else None
        whole = given is None and only is None and not dry_run
        async with self._working, self._workplace.shift() if whole else contextlib.nullcontext():
            journal = Journal(self._audit, actor, "prune", dry_run=dry_run)
            census = await self.census(fresh=True)
            rules = self._rules(census, given, users)
            if whole:
                await self._warn(census, rules, journal)
                known = [census.users[name].user for name in rules if census.users[name].root_exists]
                await self._connections.copy(known, journal, self._for_each)
            plan = await self._plan(census, rules, warned=given is None)

            async def work(of_user: UserPlan) -> UserResult:
                if only is not None:
                    of_user = of_user.only(only.get(of_user.user, ()))
                if dry_run:
                    return foreseen(of_user)
                if of_user.left_alone:
                    return kept(of_user)
                sweep = whole and census.users[of_user.user].root_exists
                return await self._carry_out(of_user, journal, sweep=sweep)

            return await self._finish(journal, await self._for_each(list(plan.users.values()), work))

    async def _carry_out(self, of_user: UserPlan, journal: Journal, *, sweep: bool) -> UserResult:
        """Do what was planned for a user: sessions, then snapshots of those that stay, then leftovers."""
        result = kept(of_user)
        done = await self._deletions.remove(of_user.user, of_user.remove, journal, archive=of_user.rules.archive)
        result = result.plus(done)
        if of_user.snapshots and not done.left_alone:
            result = result.plus(await self._deletions.thin(of_user, journal))
        if sweep:
            result = result.plus(await self._deletions.sweep(of_user))
        return result

    async def archive(self, actor: str, sessions: Ids) -> Run:
        """Write sessions to the archive folder, and delete them."""
        if not self.can_archive:
            raise ConfigurationError("there is no archive folder; set WasmKernelHub.archive_folder")
        return await self._asked_for(actor, "archive", sessions)

    async def delete_sessions(self, actor: str, sessions: Ids) -> Run:
        """Delete sessions."""
        return await self._asked_for(actor, "delete", sessions)

    async def stop_sessions(self, actor: str, sessions: Ids) -> Run:
        """Delete sessions; each leaves a last snapshot."""
        return await self._asked_for(actor, "stop", sessions)

    async def _asked_for(self, actor: str, action: str, sessions: Ids) -> Run:
        how = {"archive": action == "archive", "stop": action == "stop"}
        async with self._working:
            journal = Journal(self._audit, actor, action)
            known = await self._known(list(sessions))

            async def work(name: str) -> UserResult:
                if known[name].problem:  # what is there is not known: nothing was changed, as far as anybody can tell
                    return UserResult(name, errors={"user": known[name].problem})
                rows = {row.session_id: row for row in known[name].sessions}
                wanted = [rows[i] for i in sessions[name] if i in rows]
                judged = [
                    Decision(r.session_id, "asked for", 0.0, r.size_bytes, r.stamp) for r in wanted if not r.problem
                ]
                result = UserResult(
                    name,
                    changed=tuple(i for i in sessions[name] if i not in rows),
                    skipped=tuple(r.session_id for r in wanted if r.problem),
                )
                return result.plus(await self._deletions.remove(name, judged, journal, **how))

            return await self._finish(journal, await self._for_each(list(sessions), work))

    async def delete_snapshots(self, actor: str, snapshots: Ids) -> Run:
        """Delete snapshots."""
        return await self._with_snapshots(actor, "delete snapshots", snapshots, self._deletions.delete_snapshots)

    async def create_sessions(self, actor: str, snapshots: Ids) -> Run:
        """Make new sessions that continue from snapshots."""
        return await self._with_snapshots(actor, "create", snapshots, self._deletions.create)

    async def _with_snapshots(
        self,
        actor: str,
        action: str,
        snapshots: Ids,
        do: Callable[[str, Sequence[str], Journal], Awaitable[UserResult]],
    ) -> Run:
        async with self._working:
            journal = Journal(self._audit, actor, action)
            await self._known(list(snapshots))

            async def work(name: str) -> UserResult:
                return await do(name, list(snapshots[name]), journal)

            return await self._finish(journal, await self._for_each(list(snapshots), work))

    async def _finish(self, journal: Journal, results: Iterable[UserResult]) -> Run:
        run = await journal.finished({result.user: result for result in results})
        if not run.dry_run:
            self.metrics.did(run)
            if self._census is not None:
                gone = {name: of_user.deleted.keys() for name, of_user in run.users.items()}
                self._census = self._census.without(gone)
            self._snapshots.forget()
            await self._look_again([name for name, of_user in run.users.items() if of_user.created or of_user.saved])
        return run

    async def _look_again(self, names: Collection[str]) -> None:
        """Renew what the census says of some users: they have something new."""
        if self._census is not None and names:
            known = self._census.users
            found = await self._for_each([known[name].user for name in names if name in known], self._look)
            self._census = replace(self._census, users=known | {of_user.name: of_user for of_user in found})

    # ---- warning

    async def _warn(self, census: Census, rules: Mapping[str, UserRules], journal: Journal) -> None:
        """Warn users of what will be deleted. Who could not be told does not count as warned."""
        now = _now()

        async def tell(name: str) -> tuple[str, list[SessionWarning]]:
            user, known = census.users[name], self._book.of(name)
            wanted = warnings_for(user, rules[name], known, now)
            new = [w for w in wanted if w.session_id not in known or known[w.session_id] != w]
            if new or {w.session_id for w in wanted} != known.keys():
                notices = notices_of(wanted, rules[name])
                found = await self._workplace.do(user.user, "tell", notices=notices)
                if "problem" in found or "missing" in found:
                    return name, [w for w in wanted if w not in new]
                await journal.warned(name, new)
            return name, wanted

        told = dict(await self._for_each(list(rules), tell))
        await asyncio.to_thread(self._book.replace, told, users=census.users)
        self.metrics.warned(len(self._book.all()))

    async def _for_each(
        self, items: Collection[_T], work: Callable[[_T], Awaitable[_R]], progress: Progress | None = None
    ) -> list[_R]:
        return await for_each(items, work, self._how.breadth, progress)


def _now() -> datetime:
    return datetime.now(UTC)
