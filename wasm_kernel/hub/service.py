"""The service as its pages, its schedule and its command line use it.

    census = await service.census()          what all users have; cached, renewed when older than `census_seconds`
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
    service.warnings()                       [SessionWarning(user, session_id, warned_at, due, …)], the next due first
    service.policies.rules(hub_user)         what holds for a user; .source says where it is from
    service.last_run                         the last scheduled `Run`, or None; service.next_run a datetime, or None
    service.trouble                          what kept the last scheduled run from being done, or ""
    service.can_archive                      whether an archive folder is set

`app` adds the routes of ``pages.handlers(service)``: (path, handler class, arguments), paths relative to the service's
prefix ("" is its first page); it sets ``xsrf_cookies`` and ``settings["hub_auth"]`` (a `HubOAuth`). The prefix itself
is ``settings["prefix"]``.

Bad values (a policy that cannot be, a user the hub does not know) raise `ConfigurationError`, whose text is for people.
Only one thing that changes anything happens at a time; whoever comes second waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub import answers
from wasm_kernel.hub.answers import BadAnswer
from wasm_kernel.hub.audit import AuditLog, Entry
from wasm_kernel.hub.census import Census, HubUser, SnapshotRow, UserCensus, without_shared
from wasm_kernel.hub.history import History, Sample
from wasm_kernel.hub.hubapi import HubUnavailable
from wasm_kernel.hub.metrics import Metrics
from wasm_kernel.hub.notices import SessionWarning, WarningBook, notices_of, warnings_for
from wasm_kernel.hub.policies import Policies, Rules, Settings, rules_from
from wasm_kernel.hub.work import HubPlan, Run, UserPlan, UserResult, plan_all
from wasm_kernel.model.records import format_time
from wasm_kernel.model.retention import Decision

_T = TypeVar("_T")
_R = TypeVar("_R")
_BATCH = 200  # sessions removed between two entries of the audit log
_LISTED = 1000  # snapshots, or warnings, of a user that one run names; of the others it says how many
_SNAPSHOT_BOUNDS = ("max_age_hours", "max_per_session", "max_total_bytes")
_DAY = 86400.0
_STALE = 10  # a census that much older than it should be is not shown; one that is a little older, while it is renewed

Ids = Mapping[str, Collection[str]]
"""User to ids of sessions or snapshots."""


class Directory(Protocol):
    """Who there is."""

    async def users(self) -> list[HubUser]:
        """Everybody."""

    async def user(self, name: str) -> HubUser | None:
        """One of them, as they are now; None: there is no such user any more."""


class Workplace(Protocol):
    """Where users' workspaces are worked on: in homes that are reachable, or by users' own servers."""

    def obstacle(self, user: HubUser) -> str:
        """Why nothing may be removed for this user now, or empty."""

    def shift(self) -> contextlib.AbstractAsyncContextManager[None]:
        """While the schedule's work is done: whatever has to be started for it is, and is stopped again."""

    async def do(self, user: HubUser, job: str, *, archive: bool = False, **arguments: Any) -> dict[str, Any]:
        """Do a job of `jobs`: its answer, ``{"missing": path}``, or ``{"problem": text}``. Nothing is raised."""

    def close(self) -> None:
        """No more work."""


@dataclass(frozen=True)
class Arrangement:
    """How the service works, turned once from settings.

    Attributes:
        state: The service's own folder: audit log, warnings, history.
        policies: What is kept of whom.
        can_archive: Whether there is an archive folder.
        census_seconds: How old a census may be that is shown.
        breadth: How many users are worked for at once.
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
        self._history = History(arrangement.state / "history.sqlite")
        self._book = WarningBook(arrangement.state / "warnings.json")
        self._census: Census | None = None
        self._looking, self._working = asyncio.Lock(), asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        self._swept: dict[str, float] = {}
        self.metrics = Metrics()
        self.policies, self.can_archive = arrangement.policies, arrangement.can_archive
        self.last_run: Run | None = None
        self.next_run: datetime | None = None
        self.trouble = ""

    def close(self) -> None:
        """No more work."""
        self._workplace.close()

    # ---- looking

    async def census(self, *, fresh: bool = False) -> Census:
        """What all users have."""
        known, asked_at = self._census, _now()
        if known is None or fresh:
            return await self._look_since(asked_at)
        age = (asked_at - known.taken_at).total_seconds()
        if age > _STALE * self._how.census_seconds:
            return await self._look_since(asked_at)
        if age > self._how.census_seconds and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh(asked_at))
        return known

    async def _look_since(self, asked_at: datetime) -> Census:
        """A census that was begun after somebody asked for it; several who ask share one."""
        async with self._looking:
            known = self._census
            if known is not None and known.taken_at >= asked_at:
                return known
            taken_at = _now()
            found = await self._for_each(await self._directory.users(), self._look)
            census = self._census = Census(taken_at, without_shared(found))
            self.metrics.saw(census)
            with contextlib.suppress(sqlite3.Error, OSError):  # it is only for a chart
                await asyncio.to_thread(self._history.add, census)
            return census

    async def _refresh(self, asked_at: datetime) -> None:
        """While somebody looks at what is known."""
        with contextlib.suppress(HubUnavailable):  # who waits for a census will be told
            await self._look_since(asked_at)

    async def _look(self, user: HubUser) -> UserCensus:
        taken_at = _now()
        try:
            return answers.user_census(user, taken_at, await self._workplace.do(user, "look"))
        except BadAnswer as e:
            return UserCensus(user, taken_at, problem=f"the answer about them cannot be: {e}")

    async def snapshots(self, user: str, session_id: str | None = None) -> list[SnapshotRow]:
        """A user's snapshots, the newest first."""
        known = await self._known([user])
        found = await self._workplace.do(known[user].user, "snapshots", session_id=session_id)
        if found.get("problem"):
            raise ConfigurationError(f"the snapshots of {user!r} cannot be listed: {found['problem']}")
        return answers.snapshot_rows(user, found)

    def audit(
        self, limit: int = 100, offset: int = 0, *, user: str = "", action: str = "", result: str = ""
    ) -> tuple[list[Entry], int]:
        """A page of the audit log, the newest first, and how many entries fit in all."""
        return self._audit.read(limit, offset, user=user, action=action, result=result)

    def history(self, user: str = "") -> list[Sample]:
        """Space over time, of a user or of all."""
        return self._history.samples(user)

    def warnings(self) -> list[SessionWarning]:
        """Sessions whose users were told that they will go, the next due first."""
        return self._book.all()

    # ---- planning

    async def plan(self, policy: Settings | None = None, users: Collection[str] | None = None) -> HubPlan:
        """What the configured policies, or this one, would do now."""
        given = rules_from(policy) if policy is not None else None
        census = await self.census(fresh=True)
        return await self._plan(census, self._rules(census, given, users), warned=given is None)

    async def _plan(self, census: Census, rules: dict[str, Rules], *, warned: bool) -> HubPlan:
        due = {name: {i: w.due for i, w in self._book.of(name).items()} for name in rules} if warned else {}
        made = plan_all(census, rules, due, _now(), self._workplace.obstacle)

        async def with_snapshots(of_user: UserPlan) -> UserPlan:
            if of_user.left_alone or not of_user.rules.bounds_snapshots:
                return of_user
            user = census.users[of_user.user]
            if not user.snapshot_count:
                return of_user
            found = await self._thin(user.user, of_user.rules, dry_run=True)
            return replace(of_user, snapshots=found.snapshots, snapshot_bytes=found.snapshot_bytes)

        planned = await self._for_each(list(made.users.values()), with_snapshots)
        return replace(made, users={of_user.user: of_user for of_user in planned})

    def _rules(self, census: Census, given: Rules | None, users: Collection[str] | None) -> dict[str, Rules]:
        chosen = census.users if users is None else _checked(census, users)
        return {name: given or self.policies.rules(census.users[name].user) for name in chosen}

    async def _known(self, names: Collection[str]) -> dict[str, UserCensus]:
        """What the last census says of these users."""
        census = await self.census()
        return {name: census.users[name] for name in _checked(census, names)}

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
        """Do what a plan made now says, and tell users what will go."""
        given = rules_from(policy) if policy is not None else None
        whole = given is None and only is None and not dry_run
        async with self._working, self._workplace.shift() if whole else contextlib.nullcontext():
            journal = _Journal(self._audit, actor, "prune", dry_run=dry_run)
            census = await self.census(fresh=True)
            rules = self._rules(census, given, users)
            if whole:
                await self._warn(census, rules, journal)
            plan = await self._plan(census, rules, warned=given is None)

            async def work(of_user: UserPlan) -> UserResult:
                allowed = None if only is None else set(only.get(of_user.user, ()))
                remove = [d for d in of_user.remove if allowed is None or d.session_id in allowed]
                result = UserResult(
                    of_user.user,
                    live=of_user.live,
                    skipped=tuple(d.session_id for d in of_user.skip),
                    waiting=len(of_user.waiting),
                    left_alone=of_user.left_alone,
                )
                if dry_run:
                    deleted = {d.session_id: d.size_bytes for d in remove}
                    thinned = (of_user.snapshots, of_user.snapshot_bytes) if only is None else ((), 0)
                    return replace(result, deleted=deleted, snapshots=thinned[0], snapshot_bytes=thinned[1])
                if not of_user.left_alone:
                    done = await self._remove(of_user.user, remove, journal, archive=of_user.rules.archive)
                    result = result.plus(done)
                    if of_user.snapshots and only is None and not done.left_alone:
                        result = result.plus(await self._thin_now(of_user, journal))
                    if whole and census.users[of_user.user].root_exists:
                        result = result.plus(await self._sweep(of_user))
                return result

            return await self._finish(journal, await self._for_each(list(plan.users.values()), work))

    async def archive(self, actor: str, sessions: Ids) -> Run:
        """Write sessions to the archive folder, and delete them."""
        if not self.can_archive:
            raise ConfigurationError("there is no archive folder; set WasmKernelHub.archive_folder")
        return await self._asked_for(actor, "archive", sessions, archive=True)

    async def delete_sessions(self, actor: str, sessions: Ids) -> Run:
        """Delete sessions."""
        return await self._asked_for(actor, "delete", sessions, archive=False)

    async def _asked_for(self, actor: str, action: str, sessions: Ids, *, archive: bool) -> Run:
        async with self._working:
            journal = _Journal(self._audit, actor, action)
            known = await self._known(list(sessions))

            async def work(name: str) -> UserResult:
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
                return result.plus(await self._remove(name, judged, journal, archive=archive))

            return await self._finish(journal, await self._for_each(list(sessions), work))

    async def delete_snapshots(self, actor: str, snapshots: Ids) -> Run:
        """Delete snapshots."""
        async with self._working:
            journal = _Journal(self._audit, actor, "delete snapshots")
            await self._known(list(snapshots))

            async def work(name: str) -> UserResult:
                user, refused = await self._ready(name)
                if user is None:
                    return refused
                wanted = [str(i) for i in snapshots[name]]
                await journal.begun(name, wanted, "asked for")
                found = await self._workplace.do(user, "forget", snapshot_ids=wanted)
                return await self._judged(name, found, journal, dict.fromkeys(wanted, "asked for"))

            return await self._finish(journal, await self._for_each(list(snapshots), work))

    async def _ready(self, name: str) -> tuple[HubUser | None, UserResult]:
        """A user as the hub knows them at this moment, if something may be done for them."""
        try:
            user = await self._directory.user(name)
        except HubUnavailable as e:
            return None, UserResult(name, left_alone=str(e))
        if user is None:
            return None, UserResult(name, left_alone="the hub does not know them any more")
        obstacle = self._workplace.obstacle(user)
        return (None, UserResult(name, left_alone=obstacle)) if obstacle else (user, UserResult(name))

    async def _remove(
        self, name: str, decisions: Sequence[Decision], journal: _Journal, *, archive: bool
    ) -> UserResult:
        """Delete sessions, a batch at a time, each noted before and after."""
        result = UserResult(name)
        for batch in _batches(decisions):
            user, refused = await self._ready(name)  # a server may have been started meanwhile
            if user is None:
                return result.plus(refused)
            if archive and not self.can_archive:
                text = "it is to be archived, but there is no archive folder; set WasmKernelHub.archive_folder"
                return result.plus(UserResult(name, errors={"user": text}))
            reasons = {d.session_id: d.reason for d in batch}
            await journal.begun(name, reasons, batch[0].reason)
            listed = [[d.session_id, d.reason, d.size_bytes, d.stamp] for d in batch]
            found = await self._workplace.do(user, "remove", decisions=listed, archive=archive)
            done = await self._judged(name, found, journal, reasons)
            result = result.plus(done)
            if "user" in done.errors:
                break
        return result

    async def _thin_now(self, of_user: UserPlan, journal: _Journal) -> UserResult:
        user, refused = await self._ready(of_user.user)
        if user is None:
            return refused
        await journal.begun(user.name, of_user.snapshots, "snapshots")
        found = await self._thin(user, of_user.rules)
        await journal.results(found, {})
        return found

    async def _sweep(self, of_user: UserPlan) -> UserResult:
        """Take away what belongs to nothing, once a day."""
        name, now = of_user.user, time.monotonic()
        user, refused = await self._ready(name)
        if user is None or now - self._swept.get(name, now - _DAY) < _DAY:
            return refused
        self._swept[name] = now
        hours = of_user.rules.retention.max_age_hours
        return _result(name, await self._workplace.do(user, "sweep", max_age_hours=hours))

    async def _thin(self, user: HubUser, rules: Rules, *, dry_run: bool = False) -> UserResult:
        bounds = {name: getattr(rules.snapshots, name) for name in _SNAPSHOT_BOUNDS}
        found = await self._workplace.do(user, "thin", policy=bounds, dry_run=dry_run)
        return _result(user.name, found)

    async def _judged(
        self, name: str, found: dict[str, Any], journal: _Journal, reasons: Mapping[str, str]
    ) -> UserResult:
        result = _result(name, found)
        await journal.results(result, reasons)
        return result

    async def _finish(self, journal: _Journal, results: Iterable[UserResult]) -> Run:
        run = await journal.finished({result.user: result for result in results})
        if not run.dry_run:
            self.metrics.did(run)
            if self._census is not None:
                gone = {name: of_user.deleted.keys() for name, of_user in run.users.items()}
                self._census = self._census.without(gone)
        return run

    # ---- telling

    async def _warn(self, census: Census, rules: Mapping[str, Rules], journal: _Journal) -> None:
        """Tell users what will go. Whoever could not be told has not been warned."""
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

    # ---- several at once

    async def _for_each(self, items: Collection[_T], work: Callable[[_T], Awaitable[_R]]) -> list[_R]:
        breadth = asyncio.Semaphore(self._how.breadth)

        async def one(item: _T) -> _R:
            async with breadth:
                return await work(item)

        found = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
        for each in found:  # nobody is left working when one has failed
            if isinstance(each, BaseException):
                raise each
        return cast(list[_R], found)


class _Journal:
    """One run, and what the audit log says of it."""

    def __init__(self, audit: AuditLog, actor: str, action: str, *, dry_run: bool = False) -> None:
        self._audit, self._clock = audit, time.monotonic()
        self._run = Run(uuid.uuid4().hex[:12], actor, action, _now(), dry_run=dry_run)

    async def begun(self, user: str, ids: Iterable[str], reason: str) -> None:
        """Something is about to be removed; if that cannot be written down, it must not be."""
        every = list(ids)
        more = f" and {len(every) - _LISTED:,} more" if len(every) > _LISTED else ""
        detail = " ".join(every[:_LISTED]) + more
        await self._write([self._entry(user, reason=reason, result="begun", detail=detail)])

    async def results(self, result: UserResult, reasons: Mapping[str, str]) -> None:
        """How it went, for each."""

        def entry(session_id: str = "", how: str = "done", **more: Any) -> Entry:
            reason = reasons.get(session_id, "")
            return self._entry(result.user, session_id=session_id, reason=reason, result=how, **more)

        made = [entry(i, bytes=size, detail=result.archived.get(i, "")) for i, size in result.deleted.items()]
        made += [entry(snapshot_id=i, bytes=0) for i in result.snapshots[:_LISTED]]
        if len(result.snapshots) > _LISTED:
            made.append(entry(detail=f"and {len(result.snapshots) - _LISTED:,} more snapshots"))
        made += [entry(i, "live") for i in result.live] + [entry(i, "changed") for i in result.changed]
        made += [entry("" if i == "user" else i, "failed", detail=text) for i, text in result.errors.items()]
        await self._write(made)

    async def warned(self, user: str, warnings: Iterable[SessionWarning]) -> None:
        """A user was told."""
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

    async def finished(self, users: dict[str, UserResult]) -> Run:
        """The whole run."""
        run = replace(self._run, duration=time.monotonic() - self._clock, users=users)
        if not run.dry_run:
            alone = sum(bool(user.left_alone) for user in users.values())
            counts = {
                "sessions deleted": run.deleted,
                "archived": sum(len(user.archived) for user in users.values()),
                "snapshots deleted": sum(len(user.snapshots) for user in users.values()),
                "in use": sum(len(user.live) for user in users.values()),
                "failed": run.failures,
                "users left alone": alone,
            }
            detail = ", ".join(f"{what}: {count}" for what, count in counts.items() if count) or "nothing to do"
            await self._write([self._entry("", bytes=run.freed_bytes, result="finished", detail=detail)])
        return run

    def _entry(self, user: str, **fields: Any) -> Entry:
        return Entry(format_time(_now()), self._run.run_id, self._run.actor, self._run.action, user, **fields)

    async def _write(self, entries: Iterable[Entry]) -> None:
        await asyncio.to_thread(self._audit.append, list(entries))


def _result(user: str, found: dict[str, Any]) -> UserResult:
    """What a job says it did."""
    try:
        if "missing" in found:
            return UserResult(user, errors={"user": f"there is no workspace {answers.text(found, 'missing')} any more"})
        if "problem" in found:
            return UserResult(user, errors={"user": answers.text(found, "problem", 1000)})
        done = answers.pruned(found)
        return UserResult(
            user,
            done.deleted,
            done.archived,
            done.live,
            done.changed,
            errors=done.errors,
            snapshots=done.snapshots,
            snapshot_bytes=done.snapshot_bytes,
        )
    except BadAnswer as e:
        return UserResult(user, errors={"user": f"the answer about them cannot be: {e}"})


def _batches(decisions: Sequence[Decision]) -> Iterator[Sequence[Decision]]:
    for start in range(0, len(decisions), _BATCH):
        yield decisions[start : start + _BATCH]


def _checked(census: Census, names: Collection[str]) -> list[str]:
    """Users the hub knows, each once."""
    for name in names:
        if name not in census.users:
            raise ConfigurationError(f"the hub knows no user {name!r}; see the list of users for their names")
    return list(dict.fromkeys(names))


def _now() -> datetime:
    return datetime.now(UTC)
