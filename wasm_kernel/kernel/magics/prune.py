"""`%prune`: deletes sessions that are no longer needed, after the person has confirmed which."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.kernel import render
from wasm_kernel.kernel.magics.answers import Answer, Usage, say, table
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.kernel.magics.naming import name_of, one_line
from wasm_kernel.model.grants import legible
from wasm_kernel.model.retention import Decision, RetentionPolicy
from wasm_kernel.model.units import counted, format_age, format_size, parse_duration, parse_size

if TYPE_CHECKING:
    from wasm_kernel.sessions.housekeeping import HousePlan

_WHERE = {False: "", True: " (in the object store)"}


def _size(decision: Decision) -> int:
    return decision.stored_bytes if decision.only_stored else decision.size_bytes


class PruneMagic(Group):
    """`%prune`, and the prune that the configuration asks for when a kernel starts."""

    def _here(self) -> frozenset[str]:
        runtime = self._host.current.runtime
        return frozenset([runtime.live.session_id]) if runtime is not None else frozenset()

    async def do(self, words: list[str], *, used: bool) -> Answer:
        """``used``: the result goes to code, rather than only being shown."""
        from wasm_kernel.sessions.housekeeping import plan_housekeeping

        parser = Usage("%prune", add_help=False)
        parser.add_argument("--older-than", default=None)
        parser.add_argument("--max-sessions", type=int, default=None)
        parser.add_argument("--dry-run", action="store_true")
        parser.add_argument("--yes", action="store_true")
        options = parser.parse_args(words)
        older = options.older_than
        policy = RetentionPolicy(
            max_age_hours=parse_duration(older) / 3600 if older is not None else None,
            max_sessions=options.max_sessions,
            keep=self._here(),
        )
        store = self._place.remote.objects if self._place.remote is not None else None
        planned = await asyncio.to_thread(partial(plan_housekeeping, self._place.root, policy, store=store))
        if options.yes and not options.dry_run:
            return await self._carry_out(planned)
        if used:
            await self._host.require("list", "read which of your sessions have not been used for a while")
        return self._listed(planned, bounded=policy.is_bounded)

    async def _carry_out(self, planned: HousePlan) -> Answer:
        """Delete what was planned, once the person has seen it and said yes."""
        from wasm_kernel.sessions.housekeeping import carry_out

        going = planned.sessions.remove
        if going or planned.forget:
            lines = [
                one_line(d.session_id, self._name(planned, d), _size(d), d.age_hours * 3600) + _WHERE[d.only_stored]
                for d in going
            ]
            lines += [
                f"{d.session_id}, deleted {format_age(d.age_hours * 3600)}: its snapshots" for d in planned.forget
            ]
            amount = f"{counted(len(lines), 'session')}, {format_size(planned.reclaimed_bytes)}"
            if planned.stored_bytes:
                amount += f" here, {format_size(planned.stored_bytes)} in the object store"
            await self._host.require("prune", f"delete {amount}", lines)
        # Do exactly what was asked about, however long the answer took.
        result = await asyncio.to_thread(carry_out, self._place.root, planned, self._place.logger)
        data = {"deleted": result.deleted_sessions, "reclaimed_bytes": result.reclaimed_bytes}
        return say(str(result) + "".join(f"\n{name}: {text}" for name, text in result.errors.items()), data)

    def _listed(self, planned: HousePlan, *, bounded: bool) -> Answer:
        """What would go. ``bounded``: the person said which sessions are too many."""
        going = planned.sessions.remove
        freed = format_size(planned.reclaimed_bytes)
        if planned.stored_bytes:
            freed += f" here and {format_size(planned.stored_bytes)} in the object store"
        data = {"would_delete": [d.session_id for d in going], "would_reclaim_bytes": planned.reclaimed_bytes}
        if not going:
            text = "No session would be deleted."
            if planned.forget:
                text += f" Snapshots of {counted(len(planned.forget), 'deleted session')} would be deleted, {freed}."
            if not bounded:
                text += " Say which to delete: `%prune --older-than 24h` or `%prune --max-sessions N`."
            return say(text, data)
        rows = [
            (
                render.code(d.session_id),
                self._name(planned, d) + _WHERE[d.only_stored],
                format_size(_size(d)),
                format_age(d.age_hours * 3600),
            )
            for d in going
        ]
        caption = f"{counted(len(rows), 'session')} would be deleted, {freed} freed. To do it, add `--yes`."
        header = ("session", "title or notebook", "size", "last used")
        return replace(table(data, header, rows, numbers=(2,), caption=caption), private=True)

    def _name(self, planned: HousePlan, decision: Decision) -> str:
        """What a person knows a session by; of one in the store, what its metadata there says."""
        record = planned.found.records.get(decision.session_id) if decision.only_stored else None
        if record is None:
            return name_of(self._place.root, decision.session_id)
        title, notebook = (str(record.extra.get(name) or "") for name in ("title", "notebook"))
        return legible(title[:200] or Path(notebook[:4096]).name)

    def at_start(self, wanted: dict[str, Any]) -> None:
        """Prune as the configuration says. Runs on a thread, and never fails the kernel."""
        from wasm_kernel.sessions.housekeeping import prune_sessions

        try:
            policy = RetentionPolicy(
                max_age_hours=parse_duration(str(wanted["older_than"])) / 3600 if "older_than" in wanted else None,
                max_sessions=wanted.get("max_sessions"),
                max_total_bytes=parse_size(str(wanted["max_total"])) if "max_total" in wanted else None,
                keep=self._here(),
            )
            store = self._place.remote.objects if self._place.remote is not None else None
            prune_sessions(0, self._place.root, logger=self._place.logger, policy=policy, store=store)
        except Exception:
            self._host.log.exception("the prune at the start failed")
