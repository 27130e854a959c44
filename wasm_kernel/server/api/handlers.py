"""The API's request handlers (permission, request, answer), and their routes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from wasm_kernel.model.prune_report import PruneRequest
from wasm_kernel.server.api.api_handler import ApiHandler
from wasm_kernel.server.api.openapi import BASE, EVENTS
from wasm_kernel.server.api.values import as_json, page
from wasm_kernel.server.problems import Problem

if TYPE_CHECKING:
    from wasm_kernel.server.api.tasks import Task

_F = TypeVar("_F", bound=Callable[..., Any])
_MAX_METADATA = 64 << 10


def _may_execute(method: _F) -> _F:
    """Require the right to run code, which is not the right to change things."""
    return cast(_F, authorized(action="execute")(method))


class SandboxesHandler(ApiHandler):
    """All sandboxes."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """A page of them."""
        query = self.query("listSandboxes")
        workspace = await self.api.workspace()
        with self.answering():
            self.answer(await workspace.sandboxes(query))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """A new one."""
        wanted = self.body("createSandbox")
        sandboxes = await self.api.sandboxes()
        with self.answering():
            sandbox_id = await sandboxes.create(wanted)
            self.answer(await sandboxes.describe(sandbox_id), 201, location=f"sandboxes/{sandbox_id}")


class SandboxHandler(ApiHandler):
    """One sandbox."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        """Describe it."""
        self.query("getSandbox")
        sandboxes = await self.api.sandboxes()
        self.answer(await sandboxes.describe(sandbox_id))

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str) -> None:
        """Save it and delete it."""
        query = self.query("deleteSandbox")
        sandboxes = await self.api.sandboxes()
        with self.answering(sandbox_id):
            self.answer(await sandboxes.delete(sandbox_id, snapshot=query["snapshot"]))


class StopHandler(ApiHandler):
    """Another name for deleting, which clients without DELETE can use."""

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        """Save it and delete it."""
        query = self.query("stopSandbox")
        sandboxes = await self.api.sandboxes()
        with self.answering(sandbox_id):
            self.answer(await sandboxes.delete(sandbox_id, snapshot=query["snapshot"]))


class MarkHandler(ApiHandler):
    """Whether a sandbox may be released."""

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str, mark: str) -> None:
        """Mark it ``busy`` or ``idle``."""
        self.query("markBusy")
        sandboxes = await self.api.sandboxes()
        with self.answering(sandbox_id):
            await sandboxes.mark(sandbox_id, busy=mark == "busy")
            self.answer(await sandboxes.describe(sandbox_id))


class TasksHandler(ApiHandler):
    """A sandbox's tasks."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        """A page of them."""
        query = self.query("listTasks")
        sandboxes = await self.api.sandboxes()
        await sandboxes.check(sandbox_id, change=False)
        self.answer(page(await sandboxes.tasks(sandbox_id), query, lambda task: task))

    @web.authenticated
    @_may_execute
    async def post(self, sandbox_id: str) -> None:
        """Run code."""
        query, wanted = self.query("createTask"), self.body("createTask")
        sandboxes = await self.api.sandboxes()
        with self.answering(sandbox_id):
            task = await sandboxes.run(sandbox_id, wanted["code"], fresh=wanted["fresh"])
        ended = await task.wait(query["wait"]) if query["wait"] else False
        place = f"sandboxes/{sandbox_id}/tasks/{task.task_id}"
        self.answer(await sandboxes.pool.in_thread(task.full), 200 if ended else 202, location=place)


class TaskHandler(ApiHandler):
    """One task."""

    async def found(self, sandbox_id: str, task_id: str) -> Task:
        """The task; a `Problem` if there is none."""
        sandboxes = await self.api.sandboxes()
        await sandboxes.check(sandbox_id, change=False)
        return await sandboxes.task(sandbox_id, task_id)

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str, task_id: str) -> None:
        """Its state, and its result once it has ended."""
        self.query("getTask")
        task = await self.found(sandbox_id, task_id)
        self.answer(await (await self.api.sandboxes()).pool.in_thread(task.full))


class EventsHandler(TaskHandler):
    """A task's events."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str, task_id: str) -> None:
        """Stream them as they come."""
        query = self.query("getEvents")
        task = await self.found(sandbox_id, task_id)
        self.content_type = EVENTS
        self.set_header("Content-Type", EVENTS)
        self.set_header("X-Accel-Buffering", "no")
        with contextlib.suppress(StreamClosedError):
            await self.flush()
            async for lines in task.events(query["after"]):
                self.write(lines)
                await self.flush()


class InterruptHandler(ApiHandler):
    """A task's interrupt."""

    @web.authenticated
    @_may_execute
    async def post(self, sandbox_id: str, task_id: str) -> None:
        """KeyboardInterrupt."""
        self.query("interruptTask")
        sandboxes = await self.api.sandboxes()
        self.answer((await sandboxes.interrupt(sandbox_id, task_id)).summary())


class SnapshotsHandler(ApiHandler):
    """Snapshots of one sandbox, or of all."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str | None = None) -> None:
        """A page of them."""
        query = self.query("listSnapshots")
        if sandbox_id is not None:
            await (await self.api.sandboxes()).check(sandbox_id, change=False)
        workspace = await self.api.workspace()
        with self.answering():
            self.answer(await workspace.snapshots(query, sandbox_id))


class SandboxSnapshotsHandler(SnapshotsHandler):
    """Snapshots of one sandbox."""

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        """Save it as it is now."""
        self.query("createSnapshot")
        wanted = self.body("createSnapshot")
        given = wanted.get("metadata", {})
        if len(as_json(given)) > _MAX_METADATA:
            raise Problem(413, f"metadata has {len(as_json(given)):,} bytes; at most {_MAX_METADATA:,} are allowed")
        sandboxes = await self.api.sandboxes()
        with self.answering(sandbox_id):
            saved = await sandboxes.snapshot(sandbox_id, wanted.get("label", ""), given)
        shown = (await self.api.workspace()).shown(saved)
        self.answer(shown, 201, location=f"snapshots/{saved.snapshot_id}")


class SnapshotHandler(ApiHandler):
    """One snapshot."""

    @web.authenticated
    @authorized
    async def get(self, snapshot_id: str) -> None:
        """Describe it."""
        self.query("getSnapshot")
        workspace = await self.api.workspace()
        with self.answering():
            self.answer(await workspace.snapshot(snapshot_id))

    @web.authenticated
    @authorized
    async def delete(self, snapshot_id: str) -> None:
        """Delete it."""
        self.query("deleteSnapshot")
        workspace = await self.api.workspace()
        with self.answering():
            await workspace.delete_snapshot(snapshot_id)
        self.answer_nothing()


class PruneHandler(ApiHandler):
    """Deleting by a policy."""

    @web.authenticated
    @authorized
    async def post(self, how: str) -> None:
        """``plan`` it, or ``execute`` it."""
        operation = "planPrune" if how == "plan" else "executePrune"
        self.query(operation)
        wanted = cast(PruneRequest, self.body(operation))
        workspace = await self.api.workspace()
        with self.answering():
            self.answer(await workspace.prune(wanted, dry_run=how == "plan"))


class UsageHandler(ApiHandler):
    """What the workspace holds."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the totals."""
        self.query("getUsage")
        workspace = await self.api.workspace()
        with self.answering():
            self.answer(await workspace.usage())


class NoticesHandler(ApiHandler):
    """Notices for the user, written by the hub's service."""

    @web.authenticated
    @authorized
    async def put(self) -> None:
        """Replace the notices."""
        self.query("putNotices")
        wanted = self.body("putNotices")
        workspace = await self.api.workspace()
        with self.answering():
            await workspace.replace_notices(wanted["notices"])
        self.answer_nothing()


class OpenapiHandler(ApiHandler):
    """The API's description."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the OpenAPI document."""
        self.query("getOpenapi")
        self.answer(self.api.document)


class NothingHandler(ApiHandler):
    """Any other address below the API's."""

    async def prepare(self) -> None:  # type: ignore[override]
        """Answer 404, whatever the method."""
        await super().prepare()
        raise Problem(404, f"the API has no {self.request.path!r}; {BASE}/openapi.json describes what it has")


_SANDBOX = rf"{BASE}/sandboxes/([^/]+)"
ROUTES: list[tuple[str, type[ApiHandler]]] = [
    (rf"{BASE}/sandboxes", SandboxesHandler),
    (_SANDBOX, SandboxHandler),
    (rf"{_SANDBOX}/stop", StopHandler),
    (rf"{_SANDBOX}/(idle|busy)", MarkHandler),
    (rf"{_SANDBOX}/tasks", TasksHandler),
    (rf"{_SANDBOX}/tasks/([^/]+)", TaskHandler),
    (rf"{_SANDBOX}/tasks/([^/]+)/events", EventsHandler),
    (rf"{_SANDBOX}/tasks/([^/]+)/interrupt", InterruptHandler),
    (rf"{_SANDBOX}/snapshots", SandboxSnapshotsHandler),
    (rf"{BASE}/snapshots", SnapshotsHandler),
    (rf"{BASE}/snapshots/([^/]+)", SnapshotHandler),
    (rf"{BASE}/prune/(plan|execute)", PruneHandler),
    (rf"{BASE}/usage", UsageHandler),
    (rf"{BASE}/notices", NoticesHandler),
    (rf"{BASE}/openapi.json", OpenapiHandler),
    (rf"{BASE}(?:/.*)?", NothingHandler),
]
