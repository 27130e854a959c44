"""The schemas of the OpenAPI document: what is asked for, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasm_kernel.model.limits import LIMITS
from wasm_kernel.model.policy import MAX_MEMORY_BYTES, MIN_MEMORY_BYTES
from wasm_kernel.model.snapshots import TRIGGERS

Schema = dict[str, Any]

STATES = ("ready", "busy", "idle", "released", "deleted")
MAX_IDS = 10_000
MAX_NOTICES = 20
MAX_COUNT = 10**9
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


# ---- parts of schemas


def text(most: int, **more: Any) -> Schema:
    """A text of at most so many characters."""
    return {"type": "string", "maxLength": most, **more}


def whole(least: int = 0, most: int = _MAX_BYTES, **more: Any) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, **more}


def object_of(properties: Schema, required: list[str] | None = None, **more: Any) -> Schema:
    """An object with these fields, all of them if nothing else is said, and no others."""
    needed = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
        **more,
    }


def list_of(items: Schema, most: int | None = None, **more: Any) -> Schema:
    """A list, of at most so many."""
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most}), **more}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def ref(name: str) -> Schema:
    """One of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


ANY_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_TIME: Schema = {"type": "string", "format": "date-time"}
SOME_ID: Schema = text(128, pattern=_ID, examples=["3f2a9c01-5b6e-4c1d-9a77-0d5f3c2b1a00"])
NEW_ID: Schema = text(36, pattern=_UUID, examples=["3f2a9c01-5b6e-4c1d-9a77-0d5f3c2b1a00"])
ANYTHING: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "object", "additionalProperties": ANY_TEXT}
METADATA: Schema = {**ANYTHING, "maxProperties": 100, "description": "Anything, up to 64 KiB."}

NOTICE: Schema = object_of(
    {
        "id": text(100, minLength=1),
        "text": text(1000, minLength=1, description="One line; what is longer is cut."),
        "created_at": text(40),
        "session_ids": list_of(SOME_ID, 500, description="What it is about: not shown when all of them are gone."),
        "due": text(40),
    },
    ["id", "text"],
)


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
        "anyOf": [whole(), {"type": "string", "pattern": _SIZE, "examples": ["1.5G"]}],
        "description": "Bytes, or a text such as 500M, 1.5G.",
    }


def limits(maxima: Mapping[str, float | None]) -> Schema:
    """What a sandbox may use, up to these maxima."""
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
    return object_of(fields, [], description="What the sandbox may use; the maxima are the administrator's.")


# ---- what is answered

_RESULT = object_of(
    {
        "stdout": ANY_TEXT,
        "stderr": ANY_TEXT,
        "result": {"type": ["object", "null"], "description": "The last expression's value, by media type."},
        "displays": list_of(ANYTHING),
        "error": {
            "anyOf": [
                object_of({"name": ANY_TEXT, "value": ANY_TEXT, "traceback": list_of(ANY_TEXT)}),
                {"type": "null"},
            ]
        },
        "exit_code": {"type": "integer"},
        "duration_seconds": _NUMBER,
        "memory_bytes": _COUNT,
        "execution_count": _COUNT,
        "files_created": list_of(ANY_TEXT),
        "files_modified": list_of(ANY_TEXT),
        "files_deleted": list_of(ANY_TEXT),
    },
    description="Everything the code gave, up to the first 16 MiB.",
)
_OUTCOME = object_of(
    {
        "kind": {"enum": ["ok", "error", "interrupted", "time_limit", "fuel_limit", "exit", "crashed"]},
        "cause": ANY_TEXT,
        "message": ANY_TEXT,
        "next_step": ANY_TEXT,
        "state_lost": {"type": "boolean"},
    }
)
_TASK: Schema = {
    "task_id": NEW_ID,
    "sandbox_id": SOME_ID,
    "state": {"enum": ["running", "done"]},
    "created_at": _TIME,
    "ended_at": _or_null(_TIME),
    "code": text(500, description="How it begins."),
    "outcome": {"anyOf": [ref("Outcome"), {"type": "null"}]},
    "events": {**_COUNT, "description": "How many there are so far."},
    "truncated": {"type": "boolean", "description": "Whether there were more events than are kept."},
}
_PRUNED = object_of(
    {
        "session_id": SOME_ID,
        "action": {"enum": ["delete", "archive", "keep", "skip", "forget"]},
        "reason": ANY_TEXT,
        "done": {"type": "boolean"},
        "age_hours": _or_null(_NUMBER),
        "size_bytes": _COUNT,
        "snapshot_bytes": _COUNT,
        "notebook": ANY_TEXT,
        "title": ANY_TEXT,
        "archive": _or_null(ANY_TEXT),
    },
    description="`keep`: asked for, but in use (`live`), was used since (`changed`), or is kept otherwise; "
    "`skip`: it cannot be judged; `forget`: a deleted sandbox of which snapshots were left. `snapshot_bytes`: what its "
    "snapshots added to the store. `archive`: the file's name in the folder that the administrator named.",
)

SCHEMAS: Schema = {
    "Problem": {
        "type": "object",
        "description": "RFC 9457. `holder`, `task_id` and others tell more where they apply.",
        "properties": {"type": ANY_TEXT, "title": ANY_TEXT, "status": {"type": "integer"}, "detail": ANY_TEXT},
        "required": ["type", "title", "status", "detail"],
    },
    "Sandbox": object_of(
        {
            "sandbox_id": SOME_ID,
            "state": {"enum": list(STATES)},
            "title": ANY_TEXT,
            "notebook": ANY_TEXT,
            "former_notebook": {**ANY_TEXT, "description": "The notebook that left it for another session."},
            "created_at": _or_null(_TIME),
            "updated_at": _or_null(_TIME),
            "deleted_at": _or_null(_TIME),
            "idle_timeout_seconds": _COUNT,
            "idle_seconds": _or_null(_NUMBER),
            "limits": {"type": ["object", "null"], "additionalProperties": {"type": ["number", "null"]}},
            "size_bytes": _COUNT,
            "snapshot_count": _COUNT,
            "execution_count": _COUNT,
            "problem": ANY_TEXT,
            "task_id": _or_null(NEW_ID),
            "holder": {
                "anyOf": [
                    object_of({"pid": _or_null(_COUNT), "since": _or_null(_TIME)}),
                    {"type": "null"},
                ],
                "description": "The other process, such as a notebook's kernel, that has it open.",
            },
            "snapshot_id": {**_or_null(NEW_ID), "description": "Of a deleted one: what brings it back."},
            "stamp": {**ANY_TEXT, "description": "Changes whenever it is used: what `stamps` of a prune goes by."},
        },
        description="ready: in memory, nothing ran yet. busy: a task runs, it is marked so, or another process has it "
        "open. idle: in memory; released when its idle timeout is over. released: on disk; the next task brings it "
        "back with its variables. deleted: for good.",
    ),
    "Outcome": _OUTCOME,
    "TaskSummary": object_of(_TASK),
    "Task": object_of({**_TASK, "result": {"anyOf": [_RESULT, {"type": "null"}]}}),
    "Snapshot": object_of(
        {
            "snapshot_id": NEW_ID,
            "sandbox_id": SOME_ID,
            "trigger": {"enum": list(TRIGGERS)},
            "created_at": _TIME,
            "label": ANY_TEXT,
            "parent": _or_null(NEW_ID),
            "execution_count": _COUNT,
            "image_key": ANY_TEXT,
            "memory_bytes": _COUNT,
            "file_count": _COUNT,
            "file_bytes": _COUNT,
            "stored_bytes": _COUNT,
            "metadata": {**ANYTHING, "description": "As it was given."},
            "details": {**ANYTHING, "description": "What wasm-kernel notes: a cell's beginning, what it changed."},
        }
    ),
    "Prune": object_of(
        {
            "dry_run": {"type": "boolean"},
            "sessions": list_of(_PRUNED),
            "totals": object_of(
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
            "live": list_of(SOME_ID),
            "changed": list_of(SOME_ID),
            "snapshots": list_of(NEW_ID),
        },
        description="What was done, or, in a plan, would be. `live`: sessions in use that would have gone. `changed`: "
        "sessions that were used, or went, after their stamp was taken. `snapshots`: those that `snapshots` of the "
        "request asked for, but none of a session in use. `reclaimed_bytes`: files and snapshots of all that goes, "
        "counted before; `snapshot_bytes_freed`: what the disk got back of snapshots, in a plan what they added.",
    ),
    "Usage": object_of(
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


def page_of(name: str) -> Schema:
    """A part of a list of one of `SCHEMAS`."""
    return object_of(
        {
            "items": list_of(ref(name)),
            "total": _COUNT,
            "offset": _COUNT,
            "limit": _COUNT,
            "next_offset": _or_null(_COUNT),
        }
    )


def retention(*, execute: bool) -> Schema:
    """What a prune is told: the fields of a `RetentionPolicy`, and more."""
    age, size = _duration("Hours"), _size()
    fields: Schema = {
        "max_age_hours": {**age, "description": f"Not used for so long: it goes. {age['description']}"},
        "max_sessions": whole(0, MAX_COUNT, description="At most so many stay."),
        "max_total_bytes": {**size, "description": f"At most so much space in all stays. {size['description']}"},
        "min_free_bytes": {**size, "description": f"So much of the disk should be free. {size['description']}"},
        "keep": list_of(SOME_ID, MAX_IDS, description="Sessions that never go."),
        "stamps": {
            "type": "object",
            "maxProperties": MAX_IDS,
            "propertyNames": SOME_ID,
            "additionalProperties": text(64),
            "description": "Sessions that go whatever the bounds say, each with the `stamp` that it was listed with: "
            "one that was used since stays.",
        },
        "only": list_of(SOME_ID, MAX_IDS, description="Of what would go, only these do."),
        "max_deletions": whole(0, MAX_COUNT, description="At most so many go."),
        "archive": {
            "type": "boolean",
            "default": False,
            "description": "Each session is written to a file before it goes, in the folder that the administrator "
            "named (WasmKernelExtension.archive_folder); 409 if there is none.",
        },
        "snapshots": object_of(
            {
                "max_age_hours": age,
                "max_per_session": whole(0, MAX_COUNT),
                "max_total_bytes": size,
            },
            [],
            description="Snapshots of sessions that stay, and are not in use; the newest of each always stays.",
        ),
    }
    what = "What goes; without a bound no session does. "
    return object_of(fields, [], description=what + ("It is done." if execute else "Nothing is done."))
