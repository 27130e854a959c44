"""Removing sessions and snapshots from users' workspaces: each is noted in the audit log before and after.

Every step asks the hub for the user's present state: their server may have been started since the plan was made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.hubapi import HubUnavailable
from wasm_kernel.hub.plan import UserPlan, UserResult
from wasm_kernel.hub.policies import UserRules
from wasm_kernel.hub.run_journal import Journal
from wasm_kernel.hub.workplace import Directory, Workplace
from wasm_kernel.hub.workspaces import checked_answers
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer
from wasm_kernel.model.retention import Decision

_BATCH = 200  # sessions removed between two entries of the audit log
_SNAPSHOT_BOUNDS = ("max_age_hours", "max_per_session", "max_total_bytes")
_DAY = 86400.0


class Deletions:
    """Says which snapshots would be deleted, and removes what was decided."""

    def __init__(self, workplace: Workplace, directory: Directory, *, can_archive: bool) -> None:
        self._workplace, self._directory, self._can_archive = workplace, directory, can_archive
        self._swept: dict[str, float] = {}

    async def _ready(self, name: str) -> tuple[HubUser | None, UserResult]:
        """A user as the hub knows them now, if anything may be removed for them."""
        try:
            user = await self._directory.user(name)
        except HubUnavailable as e:
            return None, UserResult(name, left_alone=str(e))
        if user is None:
            return None, UserResult(name, left_alone="the hub no longer knows them")
        obstacle = self._workplace.obstacle(user)
        return (None, UserResult(name, left_alone=obstacle)) if obstacle else (user, UserResult(name))

    async def foresee(self, of_user: UserPlan, user: HubUser) -> UserPlan:
        """The same plan with the snapshots to delete: those of deleted sessions, and those that the rules thin out."""
        bounds = _bounds(of_user.rules) if of_user.rules.bounds_snapshots else None
        found = await self._workplace.do(user, "foresee", decisions=_listed(of_user.remove), policy=bounds)
        try:
            seen = checked_answers.foreseen(found)
        except BadAnswer:
            return of_user
        remove = tuple(replace(d, snapshot_bytes=seen.of_sessions.get(d.session_id, 0)) for d in of_user.remove)
        return replace(of_user, remove=remove, snapshots=seen.snapshots, snapshot_bytes=seen.snapshot_bytes)

    async def remove(
        self, name: str, decisions: Sequence[Decision], journal: Journal, *, archive: bool = False, stop: bool = False
    ) -> UserResult:
        """Delete sessions, a batch at a time. ``stop``: each leaves a last snapshot."""
        result = UserResult(name)
        for batch in _batches(decisions):
            user, refused = await self._ready(name)
            if user is None:
                return result.plus(refused)
            if archive and not self._can_archive:
                text = "it is to be archived, but there is no archive folder; set WasmKernelHub.archive_folder"
                return result.plus(UserResult(name, errors={"user": text}))
            reasons = {d.session_id: d.reason for d in batch}
            await journal.begun(name, reasons, batch[0].reason)
            if stop:
                found = await self._workplace.do(user, "stop", decisions=_listed(batch))
            else:
                found = await self._workplace.do(user, "remove", decisions=_listed(batch), archive=archive)
            done = _result(name, found)
            await journal.results(done, reasons)
            result = result.plus(done)
            if "user" in done.errors:
                break
        return result

    async def delete_snapshots(self, name: str, snapshot_ids: Sequence[str], journal: Journal) -> UserResult:
        """Delete snapshots that an administrator chose."""
        user, refused = await self._ready(name)
        if user is None:
            return refused
        await journal.begun(name, snapshot_ids, "asked for")
        done = _result(name, await self._workplace.do(user, "forget", snapshot_ids=list(snapshot_ids)))
        await journal.results(done, dict.fromkeys(snapshot_ids, "asked for"))
        return done

    async def create(self, name: str, snapshot_ids: Sequence[str], journal: Journal) -> UserResult:
        """Make a new session of each snapshot that an administrator chose."""
        user, refused = await self._ready(name)
        if user is None:
            return refused
        await journal.begun(name, snapshot_ids, "asked for")
        result = UserResult(name)
        for snapshot_id in snapshot_ids:
            title = f"From snapshot {snapshot_id[:8]}"
            found = await self._workplace.do(user, "fork", snapshot_id=snapshot_id, title=title)
            result = result.plus(_forked(name, snapshot_id, found))
        await journal.results(result, {})
        return result

    async def thin(self, of_user: UserPlan, journal: Journal) -> UserResult:
        """Delete snapshots by a user's rules."""
        user, refused = await self._ready(of_user.user)
        if user is None:
            return refused
        await journal.begun(user.name, of_user.snapshots, "snapshots")
        done = _result(user.name, await self._workplace.do(user, "thin", policy=_bounds(of_user.rules)))
        await journal.results(done, {})
        return done

    async def sweep(self, of_user: UserPlan) -> UserResult:
        """Remove leftovers, once a day."""
        name, now = of_user.user, time.monotonic()
        user, refused = await self._ready(name)
        if user is None or now - self._swept.get(name, now - _DAY) < _DAY:
            return refused
        self._swept[name] = now
        hours = of_user.rules.retention.max_age_hours
        return _result(name, await self._workplace.do(user, "sweep", max_age_hours=hours))


def _listed(decisions: Sequence[Decision]) -> list[list[Any]]:
    """Decisions as jobs take them."""
    return [[d.session_id, d.reason, d.size_bytes, d.stamp] for d in decisions]


def _bounds(rules: UserRules) -> dict[str, Any]:
    return {name: getattr(rules.snapshots, name) for name in _SNAPSHOT_BOUNDS}


def _result(user: str, found: dict[str, Any]) -> UserResult:
    """What a job says it did."""
    try:
        if "missing" in found:
            return UserResult(
                user, errors={"user": f"the workspace {checked_answers.text(found, 'missing')} no longer exists"}
            )
        if "problem" in found:
            return UserResult(user, errors={"user": checked_answers.text(found, "problem", 1000)})
        done = checked_answers.pruned(found)
        return UserResult(
            user,
            done.deleted,
            done.archived,
            done.live,
            done.changed,
            errors=done.errors,
            snapshots=done.snapshots,
            snapshot_bytes=done.snapshot_bytes,
            saved=done.saved,
        )
    except BadAnswer as e:
        return UserResult(user, errors={"user": f"the answer about their workspace is invalid: {e}"})


def _forked(user: str, snapshot_id: str, found: dict[str, Any]) -> UserResult:
    """What a job says of a new session."""
    try:
        if "problem" in found or "missing" in found:
            said = checked_answers.text(found, "problem", 1000) or "the workspace no longer exists"
            return UserResult(user, errors={snapshot_id: said})
        return UserResult(user, created={snapshot_id: checked_answers.identifier(found, "session_id")})
    except BadAnswer as e:
        return UserResult(user, errors={snapshot_id: f"the answer about their workspace is invalid: {e}"})


def _batches(decisions: Sequence[Decision]) -> Iterator[Sequence[Decision]]:
    for start in range(0, len(decisions), _BATCH):
        yield decisions[start : start + _BATCH]
