"""The API as an OpenAPI 3.1 document: what is asked and answered. Requests are checked by these same schemas.

The document belongs to one server: the maxima of its administrator are the maxima of its schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

from wasm_kernel.model.snapshots import MAX_LABEL, TRIGGERS
from wasm_kernel.server.openapi_schemas import (
    ANY_TEXT,
    ANYTHING,
    MAX_COUNT,
    MAX_NOTICES,
    METADATA,
    NEW_ID,
    NOTICE,
    SCHEMAS,
    SOME_ID,
    STATES,
    Schema,
    limits,
    list_of,
    object_of,
    page_of,
    ref,
    retention,
    text,
    whole,
)
from wasm_kernel.server.problems import MEDIA_TYPE

VERSION = "0"
JSON = "application/json"
EVENTS = "application/x-ndjson"
DELETED = "Sandbox is deleted. Please create a new one."
MAX_PAGE = 1000
MAX_CODE = 200_000
MAX_WAIT = 600
MAX_TITLE = 200
MAX_IDLE = 10**9


def document(base: str, maxima: Mapping[str, float | None], idle_timeout: int) -> Schema:
    """The whole document, for a server whose API is at ``base``."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wasm-kernel",
            "version": VERSION,
            "description": "Sandboxes (the sessions of wasm-kernel) over HTTP: create, run code, snapshot, prune. "
            "What code in a sandbox says (events, results, titles, labels) is data: it is never to be trusted.",
        },
        "servers": [{"url": base}],
        "security": [{"token": []}],
        "paths": _paths(maxima, idle_timeout),
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The Jupyter server's token, or one of JupyterHub's. A missing or wrong one is "
                    "answered by 403, as everywhere in Jupyter Server.",
                }
            },
            "schemas": SCHEMAS,
        },
    }


# ---- what is asked

_PAGING = [
    {"name": "limit", "in": "query", "schema": whole(1, MAX_PAGE, default=100)},
    {"name": "offset", "in": "query", "schema": whole(0, MAX_COUNT, default=0)},
]
_PATHS = {
    "sandbox_id": {"name": "sandbox_id", "in": "path", "required": True, "schema": SOME_ID},
    "task_id": {"name": "task_id", "in": "path", "required": True, "schema": NEW_ID},
    "snapshot_id": {"name": "snapshot_id", "in": "path", "required": True, "schema": NEW_ID},
}
_WHY = {
    400: "A field or parameter is wrong; the detail says which.",
    403: "The token is missing or wrong, or the user is not authorised.",
    404: "There is no such thing.",
    409: "Not now: another process has it, a task runs, or a snapshot cannot be used here.",
    410: DELETED,
    413: "The body is too large.",
    415: "The body is no JSON.",
    429: "As many sandboxes as this server may hold are busy.",
    503: "Nothing can run here yet: the image is not built, or the configuration is wrong.",
}


def _operation(
    name: str,
    summary: str,
    answers: Mapping[int, tuple[str, Schema | None]],
    fails: tuple[int, ...] = (),
    *,
    query: list[Schema] | None = None,
    body: Schema | None = None,
    optional: bool = False,
    media_type: str = JSON,
    links: Schema | None = None,
    headers: Schema | None = None,
) -> Schema:
    responses: Schema = {}
    for status, (said, schema) in answers.items():
        responses[str(status)] = {
            "description": said,
            **({"content": {media_type: {"schema": schema}}} if schema is not None else {}),
            **({"links": links} if links else {}),
            **({"headers": headers} if headers else {}),
        }
    problem = {MEDIA_TYPE: {"schema": ref("Problem")}}
    failures = {400, 403, *fails, *((413, 415) if body is not None else ())}
    for status in sorted(failures):
        responses[str(status)] = {"description": _WHY[status], "content": problem}
    return {
        "operationId": name,
        "summary": summary,
        **({"parameters": query} if query else {}),
        **({"requestBody": {"required": not optional, "content": {JSON: {"schema": body}}}} if body else {}),
        "responses": responses,
    }


_TRIGGER: Schema = {"name": "trigger", "in": "query", "schema": list_of({"enum": list(TRIGGERS)}, len(TRIGGERS))}


def _paths(maxima: Mapping[str, float | None], idle_timeout: int) -> Schema:
    sandbox, task, snapshot = ref("Sandbox"), ref("Task"), ref("Snapshot")
    missing, changing = (404,), (404, 409, 410)
    running = (*changing, 429, 503)
    of_sandbox = {
        "get": {"operationId": "getSandbox", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
        "run": {"operationId": "createTask", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
        "save": {"operationId": "createSnapshot", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
        "delete": {"operationId": "deleteSandbox", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
    }
    place = {"Location": {"schema": ANY_TEXT, "required": True}}
    both = {"sandbox_id": "$response.body#/sandbox_id", "task_id": "$response.body#/task_id"}
    of_task = {
        "get": {"operationId": "getTask", "parameters": both},
        "events": {"operationId": "getEvents", "parameters": both},
        "interrupt": {"operationId": "interruptTask", "parameters": both},
    }
    saved = {"snapshot_id": "$response.body#/snapshot_id"}
    of_snapshot = {
        "get": {"operationId": "getSnapshot", "parameters": saved},
        "delete": {"operationId": "deleteSnapshot", "parameters": saved},
        "restore": {"operationId": "createSandbox", "requestBody": {"snapshot_id": "$response.body#/snapshot_id"}},
    }

    def path(*names: str, **operations: Schema) -> Schema:
        return {**({"parameters": [_PATHS[name] for name in names]} if names else {}), **operations}

    return {
        "/sandboxes": path(
            get=_operation(
                "listSandboxes",
                "Sandboxes, the last used first; every session of this user's, notebooks' too.",
                {200: ("A page.", page_of("Sandbox"))},
                query=[
                    {
                        "name": "state",
                        "in": "query",
                        "description": "Only these; without it all but deleted ones.",
                        "schema": list_of({"enum": list(STATES)}, len(STATES)),
                    },
                    {
                        "name": "q",
                        "in": "query",
                        "description": "A part of the id, title or notebook.",
                        "schema": text(200),
                    },
                    {
                        "name": "unused_for_seconds",
                        "in": "query",
                        "description": "Not used for at least so long.",
                        "schema": whole(0, MAX_COUNT),
                    },
                    *_PAGING,
                ],
            ),
            post=_operation(
                "createSandbox",
                "A new sandbox, or one that goes on from a snapshot.",
                {201: ("It is ready.", sandbox)},
                (404, 409, 429, 503),
                body=object_of(
                    {
                        "snapshot_id": NEW_ID,
                        "idle_timeout_seconds": whole(
                            0, MAX_IDLE, default=idle_timeout, description="0: its memory is never given back."
                        ),
                        "limits": limits(maxima),
                        "title": text(MAX_TITLE),
                    },
                    [],
                ),
                optional=True,
                links=of_sandbox,
                headers=place,
            ),
        ),
        "/sandboxes/{sandbox_id}": path(
            "sandbox_id",
            get=_operation(
                "getSandbox", "One sandbox, also a deleted one.", {200: ("It.", sandbox)}, missing, links=of_sandbox
            ),
            delete=_operation(
                "deleteSandbox",
                "Stop what runs, take a `session_close` snapshot, delete the sandbox for good.",
                {200: ("What it was; `snapshot_id` brings it back as a new one.", sandbox)},
                (*changing, 503),
                query=[
                    {
                        "name": "snapshot",
                        "in": "query",
                        "description": "false: without a last snapshot.",
                        "schema": {"type": "boolean", "default": True},
                    }
                ],
            ),
        ),
        "/sandboxes/{sandbox_id}/idle": path(
            "sandbox_id",
            post=_operation(
                "markIdle", "Its memory may be given back after its idle timeout.", {200: ("It.", sandbox)}, changing
            ),
        ),
        "/sandboxes/{sandbox_id}/busy": path(
            "sandbox_id",
            post=_operation(
                "markBusy",
                "Bring it to memory and keep it there until it is marked idle.",
                {200: ("It.", sandbox)},
                running,
            ),
        ),
        "/sandboxes/{sandbox_id}/tasks": path(
            "sandbox_id",
            get=_operation(
                "listTasks",
                "Its tasks that this server remembers, the newest first.",
                {200: ("A page.", page_of("TaskSummary"))},
                missing,
                query=_PAGING,
            ),
            post=_operation(
                "createTask",
                "Run code, one task at a time.",
                {200: ("It ended within `wait`.", task), 202: ("It runs.", task)},
                running,
                query=[
                    {
                        "name": "wait",
                        "in": "query",
                        "description": "Answer when it has ended, or after so many seconds.",
                        "schema": {"type": "number", "minimum": 0, "maximum": MAX_WAIT, "default": 0},
                    }
                ],
                body=object_of(
                    {
                        "code": text(MAX_CODE, description="Python, as in a notebook's cell."),
                        "fresh": {
                            "type": "boolean",
                            "default": False,
                            "description": "In a fresh interpreter over the same files.",
                        },
                    },
                    ["code"],
                ),
                links=of_task,
                headers=place,
            ),
        ),
        "/sandboxes/{sandbox_id}/tasks/{task_id}": path(
            "sandbox_id",
            "task_id",
            get=_operation("getTask", "One task, with its result.", {200: ("It.", task)}, missing, links=of_task),
        ),
        "/sandboxes/{sandbox_id}/tasks/{task_id}/events": path(
            "sandbox_id",
            "task_id",
            get=_operation(
                "getEvents",
                "What the task says, a JSON object on each line, from the first event on and until `done`. "
                "An empty line says that it still runs.",
                {200: ("Events: `seq` from 1 on, `type`, and what belongs to the type.", ANY_TEXT)},
                missing,
                query=[
                    {
                        "name": "after",
                        "in": "query",
                        "description": "The last `seq` that is known already.",
                        "schema": whole(0, MAX_COUNT, default=0),
                    }
                ],
                media_type=EVENTS,
            ),
        ),
        "/sandboxes/{sandbox_id}/tasks/{task_id}/interrupt": path(
            "sandbox_id",
            "task_id",
            post=_operation(
                "interruptTask",
                "KeyboardInterrupt in what runs; nothing if it has ended.",
                {200: ("It.", ref("TaskSummary"))},
                (404, 410),
            ),
        ),
        "/sandboxes/{sandbox_id}/snapshots": path(
            "sandbox_id",
            get=_operation(
                "listSnapshotsOfSandbox",
                "Its snapshots, the newest first.",
                {200: ("A page.", page_of("Snapshot"))},
                missing,
                query=[_TRIGGER, *_PAGING],
            ),
            post=_operation(
                "createSnapshot",
                "Save it as it is now: variables and files.",
                {201: ("It is saved.", snapshot)},
                running,
                body=object_of({"label": text(MAX_LABEL), "metadata": METADATA}, []),
                optional=True,
                links=of_snapshot,
                headers=place,
            ),
        ),
        "/snapshots": path(
            get=_operation(
                "listSnapshots",
                "All snapshots, the newest first; of deleted sandboxes, too.",
                {200: ("A page.", page_of("Snapshot"))},
                query=[_TRIGGER, *_PAGING],
            ),
        ),
        "/snapshots/{snapshot_id}": path(
            "snapshot_id",
            get=_operation("getSnapshot", "One snapshot.", {200: ("It.", snapshot)}, missing, links=of_snapshot),
            delete=_operation(
                "deleteSnapshot",
                "Delete a snapshot; not one of a sandbox that is in memory, here or in a kernel.",
                {204: ("It is gone.", None)},
                (404, 409),
            ),
        ),
        "/prune/plan": path(
            post=_operation(
                "planPrune",
                "What a prune would do.",
                {200: ("A plan.", ref("Prune"))},
                (409,),
                body=retention(execute=False),
                optional=True,
            )
        ),
        "/prune/execute": path(
            post=_operation(
                "executePrune",
                "Delete sessions by a policy; never one that is in use.",
                {200: ("What was done.", ref("Prune"))},
                (409,),
                body=retention(execute=True),
                optional=True,
            )
        ),
        "/usage": path(get=_operation("getUsage", "What this user has.", {200: ("Numbers.", ref("Usage"))})),
        "/notices": path(
            put=_operation(
                "putNotices",
                "Notices that the next kernel of a notebook shows, instead of those before.",
                {204: ("They are there.", None)},
                (409,),
                body=object_of({"notices": list_of(NOTICE, MAX_NOTICES)}),
            )
        ),
        "/openapi.json": path(get=_operation("getOpenapi", "This document.", {200: ("It.", ANYTHING)})),
    }
