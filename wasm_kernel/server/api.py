"""The API's requests: who may, what is asked, what is answered. Loads what runs guests with the first request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from wasm_kernel.errors import ConfigurationError, NotAllowed, SessionLocked, WasmKernelError
from wasm_kernel.model.prune_report import PruneRequest
from wasm_kernel.model.records import is_uuid
from wasm_kernel.server.api_values import as_json
from wasm_kernel.server.handlers import SessionHandler
from wasm_kernel.server.openapi import EVENTS
from wasm_kernel.server.problems import Problem, as_problems

if TYPE_CHECKING:
    from wasm_kernel.server.api_sandboxes import Sandboxes
    from wasm_kernel.server.api_tasks import Task

_F = TypeVar("_F", bound=Callable[..., Any])
BASE = "/wasm-kernel/api/v0"
_MAX_METADATA = 64 << 10
_METHODS = ("get", "post", "put", "patch", "delete")


def _may_execute(method: _F) -> _F:
    """Running code is another right than changing things."""
    return cast(_F, authorized(action="execute")(method))


class ApiHandler(SessionHandler):
    """What all requests share."""

    def compute_etag(self) -> None:
        """No answer is the same twice."""

    async def sandboxes(self) -> Sandboxes:
        """The sandboxes of this server."""
        return await self.ours.sandboxes()

    def query(self, operation: str) -> dict[str, Any]:
        """Query arguments, checked."""
        given = {name: self.arguments(name) for name in self.request.query_arguments}
        return self.ours.operations[operation].query(given)

    def body(self, operation: str) -> dict[str, Any]:
        """The body, checked."""
        return self.ours.operations[operation].body(self.request.headers.get("Content-Type", ""), self.request.body)

    def answer(self, value: Any, status: int = 200, *, location: str = "") -> None:
        """JSON; bytes are JSON already."""
        self.set_status(status)
        if location:
            self.set_header("Location", f"{self.base_url.rstrip('/')}{BASE}/{location}")
        self.finish(value if isinstance(value, bytes) else as_json(value))

    @contextlib.contextmanager
    def answering(self, sandboxes: Sandboxes, sandbox_id: str = "") -> Iterator[None]:
        """What sandboxes and snapshots raise, as answers."""
        from wasm_kernel.server.api_views import holder

        try:
            with as_problems():
                yield
        except FileNotFoundError as e:  # those with an errno are answers already
            raise Problem(404, str(e).partition(";")[0]) from None
        except SessionLocked as e:
            if not sandbox_id:
                raise Problem(409, str(e)) from None
            who = holder(sandboxes.pool.root, sandbox_id)
            told = f"process {who['pid']} since {who['since']}" if who["pid"] is not None else "another process"
            text = f"sandbox {sandbox_id} is in use by {told}; shut down its notebook's kernel, or wait for it"
            raise Problem(409, text, holder=who) from None
        except NotAllowed as e:
            raise Problem(403, str(e)) from None
        except ConfigurationError as e:
            raise Problem(409, str(e)) from None
        except WasmKernelError as e:
            self.log.warning("wasm_kernel: %s", e)
            raise Problem(409, str(e)) from None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """As problem documents; who uses a wrong method is told the right ones."""
        if status_code == 405:
            there = [m for m in _METHODS if getattr(type(self), m) is not getattr(web.RequestHandler, m)]
            self.set_header("Allow", ", ".join(m.upper() for m in [*there, "options"]))
        super().write_error(status_code, **kwargs)


def _checked_uuid(name: str, what: str) -> str:
    if not is_uuid(name):
        raise Problem(404, f"there is no {what} {name[:140]!r}")
    return name


class SandboxesHandler(ApiHandler):
    """All sandboxes."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """A page of them."""
        from wasm_kernel.server import api_views

        query = self.query("listSandboxes")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            pool = sandboxes.pool
            self.answer(await pool.in_thread(api_views.sandboxes, pool.root, pool.terms, pool.living(), query))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """A new one."""
        wanted = self.body("createSandbox")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            sandbox_id = await sandboxes.create(wanted)
            self.answer(await sandboxes.describe(sandbox_id), 201, location=f"sandboxes/{sandbox_id}")


class SandboxHandler(ApiHandler):
    """One sandbox."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        """How it is."""
        self.query("getSandbox")
        sandboxes = await self.sandboxes()
        self.answer(await sandboxes.describe(sandbox_id))

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str) -> None:
        """Save it and delete it."""
        query = self.query("deleteSandbox")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes, sandbox_id):
            self.answer(await sandboxes.delete(sandbox_id, snapshot=query["snapshot"]))


class MarkHandler(ApiHandler):
    """Whether a sandbox may be released."""

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str, mark: str) -> None:
        """Mark it ``busy`` or ``idle``."""
        self.query("markBusy")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes, sandbox_id):
            await sandboxes.mark(sandbox_id, busy=mark == "busy")
            self.answer(await sandboxes.describe(sandbox_id))


class TasksHandler(ApiHandler):
    """A sandbox's tasks."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        """A page of them."""
        from wasm_kernel.server import api_views

        query = self.query("listTasks")
        sandboxes = await self.sandboxes()
        await sandboxes.check(sandbox_id, change=False)
        self.answer(api_views.page(sandboxes.tasks(sandbox_id), query, lambda task: task.summary()))

    @web.authenticated
    @_may_execute
    async def post(self, sandbox_id: str) -> None:
        """Run code."""
        query, wanted = self.query("createTask"), self.body("createTask")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes, sandbox_id):
            task = await sandboxes.run(sandbox_id, wanted["code"], fresh=wanted["fresh"])
        ended = await task.wait(query["wait"]) if query["wait"] else False
        place = f"sandboxes/{sandbox_id}/tasks/{task.task_id}"
        self.answer(await sandboxes.pool.in_thread(task.full), 200 if ended else 202, location=place)


class TaskHandler(ApiHandler):
    """One task."""

    async def found(self, sandbox_id: str, task_id: str) -> Task:
        """It, or an answer that says why not."""
        sandboxes = await self.sandboxes()
        await sandboxes.check(sandbox_id, change=False)
        return sandboxes.task(sandbox_id, task_id)

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str, task_id: str) -> None:
        """How it is, or what came of it."""
        self.query("getTask")
        task = await self.found(sandbox_id, task_id)
        self.answer(await (await self.sandboxes()).pool.in_thread(task.full))


class EventsHandler(TaskHandler):
    """What a task says."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str, task_id: str) -> None:
        """Its events as they come."""
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
        sandboxes = await self.sandboxes()
        self.answer((await sandboxes.interrupt(sandbox_id, task_id)).summary())


class SnapshotsHandler(ApiHandler):
    """Snapshots of one sandbox, or of all."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str | None = None) -> None:
        """A page of them."""
        from wasm_kernel.server import api_views

        query = self.query("listSnapshots")
        sandboxes = await self.sandboxes()
        if sandbox_id is not None:
            await sandboxes.check(sandbox_id, change=False)
        with self.answering(sandboxes):
            pool = sandboxes.pool
            self.answer(await pool.in_thread(api_views.snapshots, pool.root, query, sandbox_id))


class SandboxSnapshotsHandler(SnapshotsHandler):
    """Snapshots of one sandbox."""

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        """Save it as it is now."""
        from wasm_kernel.server import api_views

        self.query("createSnapshot")
        wanted = self.body("createSnapshot")
        given = wanted.get("metadata", {})
        if len(as_json(given)) > _MAX_METADATA:
            raise Problem(413, f"metadata has {len(as_json(given)):,} bytes; at most {_MAX_METADATA:,} are possible")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes, sandbox_id):
            snapshot = await sandboxes.snapshot(sandbox_id, wanted.get("label", ""), given)
        self.answer(api_views.snapshot(snapshot), 201, location=f"snapshots/{snapshot.snapshot_id}")


class SnapshotHandler(ApiHandler):
    """One snapshot."""

    @web.authenticated
    @authorized
    async def get(self, snapshot_id: str) -> None:
        """What it is."""
        from wasm_kernel.server import api_views
        from wasm_kernel.sessions.snapshots import get_snapshot

        self.query("getSnapshot")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            pool = sandboxes.pool
            found = await pool.in_thread(get_snapshot, _checked_uuid(snapshot_id, "snapshot"), pool.root)
        self.answer(api_views.snapshot(found))

    @web.authenticated
    @authorized
    async def delete(self, snapshot_id: str) -> None:
        """Delete it."""
        from wasm_kernel.server import api_held

        self.query("deleteSnapshot")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            pool = sandboxes.pool
            size = await pool.in_thread(api_held.forget, pool.root, _checked_uuid(snapshot_id, "snapshot"))
            await pool.snapshots_went(1, size)
        self.set_status(204)
        self.finish()


class PruneHandler(ApiHandler):
    """Deleting by a policy."""

    @web.authenticated
    @authorized
    async def post(self, how: str) -> None:
        """``plan`` it, or ``execute`` it."""
        from wasm_kernel.server import api_upkeep

        operation = "planPrune" if how == "plan" else "executePrune"
        self.query(operation)
        wanted = self.body(operation)
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            pool = sandboxes.pool
            done = await pool.in_thread(
                api_upkeep.prune,
                pool.root,
                cast(PruneRequest, wanted),
                self.ours.archives,
                dry_run=operation == "planPrune",
            )
        self.answer(done)


class UsageHandler(ApiHandler):
    """What there is."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """In numbers."""
        from wasm_kernel.server import api_upkeep

        self.query("getUsage")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            pool = sandboxes.pool
            found = await pool.in_thread(api_upkeep.usage, pool.root)
        self.answer({**found, "live_here": pool.live_count, "max_live_sandboxes": pool.max_live})


class NoticesHandler(ApiHandler):
    """What the person should know; whoever keeps house for many says it so."""

    @web.authenticated
    @authorized
    async def put(self) -> None:
        """Replace the notices."""
        from wasm_kernel.sessions.notices import write_notices

        self.query("putNotices")
        wanted = self.body("putNotices")
        sandboxes = await self.sandboxes()
        with self.answering(sandboxes):
            pool = sandboxes.pool
            await pool.in_thread(write_notices, pool.root, wanted["notices"])
        self.set_status(204)
        self.finish()


class OpenapiHandler(ApiHandler):
    """The API's description."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """As OpenAPI."""
        self.query("getOpenapi")
        self.answer(self.ours.openapi)


class NothingHandler(ApiHandler):
    """What the API does not have."""

    async def prepare(self) -> None:  # type: ignore[override]
        """Whatever is asked."""
        await super().prepare()
        raise Problem(404, f"the API has no {self.request.path!r}; {BASE}/openapi.json describes what it has")


_SANDBOX = rf"{BASE}/sandboxes/([^/]+)"
ROUTES: list[tuple[str, type[ApiHandler]]] = [
    (rf"{BASE}/sandboxes", SandboxesHandler),
    (_SANDBOX, SandboxHandler),
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
