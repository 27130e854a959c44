"""Pages that change something: what would be done, doing it, and what came of it.

Whatever changes something is asked for by POST with the hub's XSRF token, from a page that showed what would happen
(``confirm``), and done by another (``do``).
"""

from __future__ import annotations

from dataclasses import replace

from tornado import web

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.page.base_handler import Page
from wasm_kernel.hub.page.request_memory import Tried
from wasm_kernel.hub.plan import Run
from wasm_kernel.model.records import is_session_id, is_uuid

_MOST_ITEMS = 1000  # in one request
_OF_SNAPSHOTS = ("delete-snapshots", "create")
_ACTIONS = ("archive", "delete", "stop", *_OF_SNAPSHOTS)


class ConfirmPage(Page):
    """What would be done, before it is."""

    @web.authenticated
    async def post(self) -> None:
        """Show it, and ask."""
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
    """Does what was confirmed."""

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
                "stop": self.service.stop_sessions,
                "create": self.service.create_sessions,
                "delete-snapshots": self.service.delete_snapshots,
            }[action]
            run = await work(self.actor, ids)
        self.memory.keep_run(run)
        self.redirect(f"{self.base}done/{run.run_id}", status=303)

    async def _prune(self, tried: Tried) -> Run:
        """Prune only what was shown."""
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
        raise ConfigurationError("this plan is too old; try the policy once more")
    return tried


def _items(page: Page, action: str) -> list[tuple[str, str]]:
    """User and id of what was selected; ids come first, because users' names may hold anything."""
    if action not in _ACTIONS:
        raise web.HTTPError(400, reason="Unknown action")
    is_id = is_uuid if action in _OF_SNAPSHOTS else is_session_id
    found = []
    for text in page.get_arguments("item")[: _MOST_ITEMS + 1]:
        name, colon, user = text.partition(":")
        if not colon or not user or not is_id(name):
            raise web.HTTPError(400, reason="The selection is not a session or a snapshot")
        found.append((user, name))
    if not found:
        raise ConfigurationError("nothing is selected; go back and tick what you mean")
    if len(found) > _MOST_ITEMS:
        raise ConfigurationError(f"too much is selected: choose at most {_MOST_ITEMS}, or use a policy")
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
