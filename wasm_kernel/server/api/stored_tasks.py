"""Tasks that come back from the disk, as the API shows them. Whoever can write there may have written anything: every
field is checked, and what does not fit is left out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from wasm_kernel.model.outcome import Outcome, OutcomeKind
from wasm_kernel.model.records import BadRecord, format_time, parse_time
from wasm_kernel.server.api.task_store import StoredTask
from wasm_kernel.server.api.tasks import NO_FACTS, SHOWN_CODE, Task, outcome_in_json

_CUT_OFF = Outcome(
    OutcomeKind.CRASHED,
    "server_ended",
    "the server ended while this task ran",
    "Run it again: the sandbox is as it was before, but for files that were written.",
    state_lost=True,
)
_TEXTS = ("cause", "message", "next_step")
_STREAMS = ("stdout", "stderr")
_SHOWS = ("execute_result", "display_data", "update_display_data")


def task_of(sandbox_id: str, task_id: str, found: StoredTask) -> Task:
    """A task that has ended, with its events."""
    short = summary_of(sandbox_id, task_id, found)
    task = Task(sandbox_id, short["code"], task_id)
    task.created_at = parse_time(short["created_at"])
    facts: dict[str, Any] = {}
    for event in found.events:
        if _is_event(event):
            task.keep(event)
        if event.get("type") == "done":
            facts = {name: event[name] for name in (*NO_FACTS, "error") if _fits(name, event.get(name))}
    if found.cut_off:
        task.keep({"type": "done", "outcome": short["outcome"], **NO_FACTS})
    task.truncated = short["truncated"] or any(event.get("type") == "truncated" for event in found.events)
    task.ended(parse_time(short["ended_at"]), short["outcome"], {**NO_FACTS, **facts})
    return task


def summary_of(sandbox_id: str, task_id: str, found: StoredTask) -> dict[str, Any]:
    """A task in short, from its record alone."""
    record, count, code = found.record, found.record.get("events"), found.record.get("code")
    last = datetime.fromtimestamp(found.modified, UTC)
    outcome = outcome_in_json(_CUT_OFF) if found.cut_off else _outcome(record.get("outcome"))
    ended_at = _moment(record.get("ended_at"), last) if outcome is not None else None
    return {
        "task_id": task_id,
        "sandbox_id": sandbox_id,
        "state": "done" if outcome is not None else "running",
        "created_at": format_time(_moment(record.get("created_at"), last)),
        "ended_at": format_time(ended_at) if ended_at is not None else None,
        "code": code[:SHOWN_CODE] if isinstance(code, str) else "",
        "outcome": outcome,
        "events": count if type(count) is int and count >= 0 else 0,
        "truncated": record.get("truncated") is True,
    }


def _moment(value: Any, otherwise: datetime) -> datetime:
    try:
        return parse_time(value)
    except BadRecord:
        return otherwise


def _outcome(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or value.get("kind") not in {kind.value for kind in OutcomeKind}:
        return None
    texts = {name: value[name] if isinstance(value.get(name), str) else "" for name in _TEXTS}
    return {"kind": value["kind"], **texts, "state_lost": value.get("state_lost") is True}


def _is_event(event: dict[str, Any]) -> bool:
    """Whether it has what is read of its kind; unknown kinds are passed on as they are."""
    kind = event.get("type")
    if kind == "stream":
        return event.get("name") in _STREAMS and isinstance(event.get("text"), str)
    if kind in _SHOWS:
        return isinstance(event.get("data"), dict)
    if kind == "error":
        return _is_error({"name": event.get("ename"), "value": event.get("evalue"), **event})
    return isinstance(kind, str)


def _is_error(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("traceback"), list):
        return False
    return all(isinstance(text, str) for text in (value.get("name"), value.get("value"), *value["traceback"]))


def _fits(name: str, value: Any) -> bool:
    """Whether a value of a task's end is of the kind it must be."""
    if name == "error":
        return _is_error(value)
    if name.startswith("files_"):
        return isinstance(value, list) and all(isinstance(path, str) for path in value)
    if name == "exit_code":
        return type(value) is int
    return type(value) in ((int, float) if name == "duration_seconds" else (int,)) and value >= 0
