"""The API as an OpenAPI 3.1 document: what is asked and answered. Requests are checked by these same schemas.

The document belongs to one server: the maxima of its administrator are the maxima of its schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasm_kernel.model.limits import LIMITS
from wasm_kernel.model.policy import MAX_MEMORY_BYTES, MIN_MEMORY_BYTES
from wasm_kernel.model.snapshots import MAX_LABEL, TRIGGERS
from wasm_kernel.server.problems import MEDIA_TYPE

Schema = dict[str, Any]

VERSION = "0"
JSON = "application/json"
EVENTS = "application/x-ndjson"
STATES = ("ready", "busy", "idle", "released", "deleted")
DELETED = "Sandbox is deleted. Please create a new one."
MAX_PAGE = 1000
MAX_CODE = 1_000_000
MAX_IDS = 10_000
MAX_WAIT = 600
MAX_TITLE = 200
MAX_IDLE = 10**9
_MAX_COUNT = 10**9
_MAX_BYTES = 1 << 60
_ID = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,126}[A-Za-z0-9])?$"
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_DURATION = r"^[0-9]{1,9}(\.[0-9]{1,6})?(s|m|min|h|d|w)$"
_SIZE = r"^[0-9]{1,9}(\.[0-9]{1,6})?[kMGT]$"
# What an `ExecutionPolicy` takes, where it is not 0 to 2**60.
_LOWEST: dict[str, float] = {"memory": MIN_MEMORY_BYTES, "timeout": 0.001, "fuel": 1, "files": 1, "open": 8}
_HIGHEST: dict[str, float] = {
    "memory": MAX_MEMORY_BYTES,
    "timeout": 1e9,
    "fuel": 2**62,
    "files": 2**31 - 1,
    "open": 1000,
}


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
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`token …`, the Jupyter server's, or one of JupyterHub.",
                }
            },
            "schemas": _SCHEMAS,
        },
    }


# ---- parts of schemas


def _text(most: int, **more: Any) -> Schema:
    return {"type": "string", "maxLength": most, **more}


def _whole(least: int = 0, most: int = _MAX_BYTES, **more: Any) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


def _object(properties: Schema, required: list[str] | None = None, **more: Any) -> Schema:
    """An object with these fields, all of them if nothing else is said, and no others."""
    needed = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
        **more,
    }


def _list(items: Schema, most: int | None = None, **more: Any) -> Schema:
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most}), **more}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_ANY_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_SOME_ID: Schema = _text(128, pattern=_ID, examples=["3f2a9c01-5b6e-4c1d-9a77-0d5f3c2b1a00"])
_NEW_ID: Schema = _text(36, pattern=_UUID, examples=["3f2a9c01-5b6e-4c1d-9a77-0d5f3c2b1a00"])
_ANYTHING: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _ANY_TEXT}


def _duration(unit: str) -> Schema:
    return {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1e9},
            {"type": "string", "pattern": _DURATION, "examples": ["36h"]},
        ],
        "description": f"{unit}, or a text such as 36h, 7d, 2w.",
    }


def _size() -> Schema:
    return {
        "anyOf": [_whole(), {"type": "string", "pattern": _SIZE, "examples": ["1.5G"]}],
        "description": "Bytes, or a text such as 500M, 1.5G.",
    }


def _limits(maxima: Mapping[str, float | None]) -> Schema:
    fields: Schema = {}
    for name, limit in LIMITS.items():
        most = maxima.get(name)
        unit = {"size": ", in bytes", "time": ", in seconds", "count": ""}[limit.kind]
        schema: Schema = {
            "type": "number" if limit.kind == "time" else "integer",
            "minimum": _LOWEST.get(name, 0),
            "maximum": min(_HIGHEST.get(name, _MAX_BYTES), _MAX_BYTES * 4 if most is None else most),
            "description": f"{limit.meaning}{unit}",
        }
        fields[name] = _or_null(schema) if limit.optional and most is None else schema
    return _object(fields, [], description="What the sandbox may use; the maxima are the administrator's.")


# ---- what is answered

_RESULT = _object(
    {
        "stdout": _ANY_TEXT,
        "stderr": _ANY_TEXT,
        "result": {"type": ["object", "null"], "description": "The last expression's value, by media type."},
        "displays": _list(_ANYTHING),
        "error": {
            "anyOf": [
                _object({"name": _ANY_TEXT, "value": _ANY_TEXT, "traceback": _list(_ANY_TEXT)}),
                {"type": "null"},
            ]
        },
        "exit_code": {"type": "integer"},
        "duration_seconds": _NUMBER,
        "memory_bytes": _COUNT,
        "execution_count": _COUNT,
        "files_created": _list(_ANY_TEXT),
        "files_modified": _list(_ANY_TEXT),
        "files_deleted": _list(_ANY_TEXT),
    },
    description="Everything the code gave, up to the first 16 MiB.",
)
_OUTCOME = _object(
    {
        "kind": {"enum": ["ok", "error", "interrupted", "time_limit", "fuel_limit", "exit", "crashed"]},
        "cause": _ANY_TEXT,
        "message": _ANY_TEXT,
        "next_step": _ANY_TEXT,
        "state_lost": {"type": "boolean"},
    }
)
_TASK: Schema = {
    "task_id": _NEW_ID,
    "sandbox_id": _SOME_ID,
    "state": {"enum": ["running", "done"]},
    "created_at": _TIME,
    "ended_at": _or_null(_TIME),
    "code": _text(500, description="How it begins."),
    "outcome": {"anyOf": [_ref("Outcome"), {"type": "null"}]},
    "events": {**_COUNT, "description": "How many there are so far."},
    "truncated": {"type": "boolean", "description": "Whether there were more events than are kept."},
}
_PRUNED = _object(
    {
        "session_id": _SOME_ID,
        "action": {"enum": ["delete", "archive", "keep", "skip", "forget"]},
        "reason": _ANY_TEXT,
        "done": {"type": "boolean"},
        "age_hours": _or_null(_NUMBER),
        "size_bytes": _COUNT,
        "notebook": _ANY_TEXT,
        "title": _ANY_TEXT,
        "archive": _or_null(_ANY_TEXT),
    },
    description="`keep`: a bound asks for it, but it is in use (`live`) or otherwise kept; `skip`: it cannot be "
    "judged; `forget`: a deleted sandbox of which snapshots were left. `archive`: the file's name in the folder that "
    "the administrator named.",
)

_SCHEMAS: Schema = {
    "Problem": {
        "type": "object",
        "description": "RFC 9457. `holder`, `task_id` and others tell more where they apply.",
        "properties": {"type": _ANY_TEXT, "title": _ANY_TEXT, "status": {"type": "integer"}, "detail": _ANY_TEXT},
        "required": ["type", "title", "status", "detail"],
    },
    "Sandbox": _object(
        {
            "sandbox_id": _SOME_ID,
            "state": {"enum": list(STATES)},
            "title": _ANY_TEXT,
            "notebook": _ANY_TEXT,
            "created_at": _or_null(_TIME),
            "updated_at": _or_null(_TIME),
            "deleted_at": _or_null(_TIME),
            "idle_timeout_seconds": _COUNT,
            "idle_seconds": _or_null(_NUMBER),
            "limits": {"type": ["object", "null"], "additionalProperties": {"type": ["number", "null"]}},
            "size_bytes": _COUNT,
            "snapshot_count": _COUNT,
            "execution_count": _COUNT,
            "problem": _ANY_TEXT,
            "task_id": _or_null(_NEW_ID),
            "holder": {
                "anyOf": [
                    _object({"pid": _or_null(_COUNT), "since": _or_null(_TIME)}),
                    {"type": "null"},
                ],
                "description": "The other process, such as a notebook's kernel, that has it open.",
            },
            "snapshot_id": {**_or_null(_NEW_ID), "description": "Of a deleted one: what brings it back."},
        },
        description="ready: in memory, nothing ran yet. busy: a task runs, it is marked so, or another process has it "
        "open. idle: in memory; released when its idle timeout is over. released: on disk; the next task brings it "
        "back with its variables. deleted: for good.",
    ),
    "Outcome": _OUTCOME,
    "TaskSummary": _object(_TASK),
    "Task": _object({**_TASK, "result": {"anyOf": [_RESULT, {"type": "null"}]}}),
    "Snapshot": _object(
        {
            "snapshot_id": _NEW_ID,
            "sandbox_id": _SOME_ID,
            "trigger": {"enum": list(TRIGGERS)},
            "created_at": _TIME,
            "label": _ANY_TEXT,
            "parent": _or_null(_NEW_ID),
            "execution_count": _COUNT,
            "image_key": _ANY_TEXT,
            "memory_bytes": _COUNT,
            "file_count": _COUNT,
            "file_bytes": _COUNT,
            "stored_bytes": _COUNT,
            "metadata": {**_ANYTHING, "description": "As it was given."},
            "details": {**_ANYTHING, "description": "What wasm-kernel notes: a cell's beginning, what it changed."},
        }
    ),
    "Prune": _object(
        {
            "dry_run": {"type": "boolean"},
            "sessions": _list(_PRUNED),
            "totals": _object(
                {
                    "sessions": _COUNT,
                    "bytes": _COUNT,
                    "removed": _COUNT,
                    "reclaimed_bytes": _COUNT,
                    "live": _COUNT,
                    "skipped": _COUNT,
                    "errors": _COUNT,
                    "snapshots_removed": _COUNT,
                    "snapshot_bytes_freed": _COUNT,
                }
            ),
            "errors": _TEXTS,
            "live": _list(_SOME_ID),
            "snapshots": _list(_NEW_ID),
        },
        description="What was done, or, in a plan, would be. `live`: sessions in use that would have gone. "
        "`snapshots`: those that `snapshots` of the request asked for; in a plan, bytes freed are an estimate.",
    ),
    "Usage": _object(
        {
            "sessions": _COUNT,
            "session_bytes": _COUNT,
            "live": _COUNT,
            "snapshots": _COUNT,
            "snapshot_bytes": _COUNT,
            "deleted": _COUNT,
            "disk_free_bytes": _COUNT,
            "live_here": _COUNT,
            "max_live_sandboxes": _COUNT,
        },
        description="`live`: in use by anybody; `live_here`: in this server's memory. `deleted`: sandboxes of which "
        "only snapshots are left.",
    ),
}


def _page_of(name: str) -> Schema:
    return _object(
        {
            "items": _list(_ref(name)),
            "total": _COUNT,
            "offset": _COUNT,
            "limit": _COUNT,
            "next_offset": _or_null(_COUNT),
        }
    )


# ---- what is asked

_PAGING = [
    {"name": "limit", "in": "query", "schema": _whole(1, MAX_PAGE, default=100)},
    {"name": "offset", "in": "query", "schema": _whole(0, _MAX_COUNT, default=0)},
]
_PATHS = {
    "sandbox_id": {"name": "sandbox_id", "in": "path", "required": True, "schema": _SOME_ID},
    "task_id": {"name": "task_id", "in": "path", "required": True, "schema": _NEW_ID},
    "snapshot_id": {"name": "snapshot_id", "in": "path", "required": True, "schema": _NEW_ID},
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
    for status, (text, schema) in answers.items():
        responses[str(status)] = {
            "description": text,
            **({"content": {media_type: {"schema": schema}}} if schema is not None else {}),
            **({"links": links} if links else {}),
            **({"headers": headers} if headers else {}),
        }
    problem = {MEDIA_TYPE: {"schema": _ref("Problem")}}
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


def _retention(*, execute: bool) -> Schema:
    age, size = _duration("Hours"), _size()
    fields: Schema = {
        "max_age_hours": {**age, "description": f"Not used for so long: it goes. {age['description']}"},
        "max_sessions": _whole(0, _MAX_COUNT, description="At most so many stay."),
        "max_total_bytes": {**size, "description": f"At most so much space in all stays. {size['description']}"},
        "min_free_bytes": {**size, "description": f"So much of the disk should be free. {size['description']}"},
        "keep": _list(_SOME_ID, MAX_IDS, description="Sessions that never go."),
        "only": _list(_SOME_ID, MAX_IDS, description="Of what would go, only these do."),
        "max_deletions": _whole(0, _MAX_COUNT, description="At most so many go."),
        "archive": {
            "type": "boolean",
            "default": False,
            "description": "Each session is written to a file before it goes, in the folder that the administrator "
            "named (WasmKernelExtension.archive_folder); 409 if there is none.",
        },
        "snapshots": _object(
            {
                "max_age_hours": age,
                "max_per_session": _whole(0, _MAX_COUNT),
                "max_total_bytes": size,
            },
            [],
            description="Snapshots of sessions that stay; the newest of each always does.",
        ),
    }
    return _object(fields, [], description="What goes; " + ("it is done." if execute else "nothing is done."))


def _paths(maxima: Mapping[str, float | None], idle_timeout: int) -> Schema:
    sandbox, task, snapshot = _ref("Sandbox"), _ref("Task"), _ref("Snapshot")
    missing, changing = (404,), (404, 409, 410)
    running = (*changing, 429, 503)
    of_sandbox = {
        "get": {"operationId": "getSandbox", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
        "run": {"operationId": "createTask", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
        "save": {"operationId": "createSnapshot", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
        "delete": {"operationId": "deleteSandbox", "parameters": {"sandbox_id": "$response.body#/sandbox_id"}},
    }
    place = {"Location": {"schema": _ANY_TEXT, "required": True}}
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
                {200: ("A page.", _page_of("Sandbox"))},
                query=[
                    {
                        "name": "state",
                        "in": "query",
                        "description": "Only these; without it all but deleted ones.",
                        "schema": _list({"enum": list(STATES)}, len(STATES)),
                    },
                    {
                        "name": "q",
                        "in": "query",
                        "description": "A part of the id, title or notebook.",
                        "schema": _text(200),
                    },
                    {
                        "name": "unused_for_seconds",
                        "in": "query",
                        "description": "Not used for at least so long.",
                        "schema": _whole(0, _MAX_COUNT),
                    },
                    *_PAGING,
                ],
            ),
            post=_operation(
                "createSandbox",
                "A new sandbox, or one that goes on from a snapshot.",
                {201: ("It is ready.", sandbox)},
                (404, 409, 429, 503),
                body=_object(
                    {
                        "snapshot_id": _NEW_ID,
                        "idle_timeout_seconds": _whole(
                            0, MAX_IDLE, default=idle_timeout, description="0: its memory is never given back."
                        ),
                        "limits": _limits(maxima),
                        "title": _text(MAX_TITLE),
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
                {200: ("A page.", _page_of("TaskSummary"))},
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
                body=_object(
                    {
                        "code": _text(MAX_CODE, description="Python, as in a notebook's cell."),
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
                {200: ("Events: `seq` from 1 on, `type`, and what belongs to the type.", _ANY_TEXT)},
                missing,
                query=[
                    {
                        "name": "after",
                        "in": "query",
                        "description": "The last `seq` that is known already.",
                        "schema": _whole(0, _MAX_COUNT, default=0),
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
                {200: ("It.", _ref("TaskSummary"))},
                (404, 410),
            ),
        ),
        "/sandboxes/{sandbox_id}/snapshots": path(
            "sandbox_id",
            get=_operation(
                "listSnapshotsOfSandbox",
                "Its snapshots, the newest first.",
                {200: ("A page.", _page_of("Snapshot"))},
                missing,
                query=[_TRIGGER, *_PAGING],
            ),
            post=_operation(
                "createSnapshot",
                "Save it as it is now: variables and files.",
                {201: ("It is saved.", snapshot)},
                running,
                body=_object({"label": _text(MAX_LABEL), "metadata": _METADATA}, []),
                optional=True,
                links=of_snapshot,
                headers=place,
            ),
        ),
        "/snapshots": path(
            get=_operation(
                "listSnapshots",
                "All snapshots, the newest first; of deleted sandboxes, too.",
                {200: ("A page.", _page_of("Snapshot"))},
                query=[_TRIGGER, *_PAGING],
            ),
        ),
        "/snapshots/{snapshot_id}": path(
            "snapshot_id",
            get=_operation("getSnapshot", "One snapshot.", {200: ("It.", snapshot)}, missing, links=of_snapshot),
            delete=_operation("deleteSnapshot", "Delete a snapshot.", {204: ("It is gone.", None)}, missing),
        ),
        "/prune/plan": path(
            post=_operation(
                "planPrune",
                "What a prune would do.",
                {200: ("A plan.", _ref("Prune"))},
                (409,),
                body=_retention(execute=False),
                optional=True,
            )
        ),
        "/prune/execute": path(
            post=_operation(
                "executePrune",
                "Delete sessions by a policy; never one that is in use.",
                {200: ("What was done.", _ref("Prune"))},
                (409,),
                body=_retention(execute=True),
                optional=True,
            )
        ),
        "/usage": path(get=_operation("getUsage", "What this user has.", {200: ("Numbers.", _ref("Usage"))})),
        "/openapi.json": path(get=_operation("getOpenapi", "This document.", {200: ("It.", _ANYTHING)})),
    }


_TRIGGER: Schema = {"name": "trigger", "in": "query", "schema": _list({"enum": list(TRIGGERS)}, len(TRIGGERS))}
_METADATA: Schema = {**_ANYTHING, "maxProperties": 100, "description": "Anything, up to 64 KiB."}
