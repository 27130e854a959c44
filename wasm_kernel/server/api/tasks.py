"""One task: code that runs in a sandbox, and its events, kept as lines of JSON up to a limit.

Events come on the sandbox's thread; everything else here happens on the server's event loop. `task_store` keeps tasks
on the disk; one that comes from there has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.model.names import text_of
from wasm_kernel.model.outcome import Outcome, SandboxResult
from wasm_kernel.model.records import format_time
from wasm_kernel.server.api.task_store import TaskLog
from wasm_kernel.server.api.values import as_json

MAX_BYTES = 16 << 20  # of one task's events
_PER_EVENT = 64  # bytes that Python itself needs
_BATCH = 256  # events sent at once
_MOST_FILES = 1000  # names
_ALIVE_EVERY = 15.0  # seconds
SHOWN_CODE = 500
# What is said of a task that nothing is known of.
NO_FACTS: dict[str, Any] = {
    "exit_code": 1,
    "duration_seconds": 0.0,
    "memory_bytes": 0,
    "execution_count": 0,
    "files_created": [],
    "files_modified": [],
    "files_deleted": [],
}


class Task:
    """Code that runs, or ran, in a sandbox."""

    def __init__(self, sandbox_id: str, code: str, task_id: str = "") -> None:
        self.task_id, self.sandbox_id = task_id or str(uuid.uuid4()), sandbox_id
        self.log: TaskLog | None = None
        self.created_at, self.ended_at = datetime.now(UTC), None  # type: datetime, datetime | None
        self.size = 0
        self.truncated = False
        self._code = code[:SHOWN_CODE]
        self._lines: list[bytes] = []
        self._outcome: dict[str, Any] | None = None
        self._facts: dict[str, Any] = {}
        self._concluded_at: datetime | None = None
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._told = False  # the loop has been notified
        self._guard = threading.Lock()
        self._done = asyncio.Event()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.ended_at is not None

    # ---- events

    def take(self, event: wire.Event) -> None:
        """Keep an event. Called on the sandbox's thread."""
        said = _said(event)
        if said is not None and not self.truncated:
            self._add(said)
            if not self._told:  # one notice for many events: a guest may print a million lines
                self._told = True
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._tell)

    def _add(self, said: dict[str, Any], *, last: bool = False) -> None:
        with self._guard:
            number = {"seq": len(self._lines) + 1}
            line = as_json({**number, **said}) + b"\n"
            if not last and self.size + len(line) + _PER_EVENT > MAX_BYTES:
                self.truncated = True
                line = as_json({**number, "type": "truncated", "max_bytes": MAX_BYTES}) + b"\n"
            self.size += len(line) + _PER_EVENT
            self._lines.append(line)
        if self.log is not None:
            self.log.add(line, last=last)

    def _tell(self) -> None:
        self._told = False
        self._news.set()
        self._news = asyncio.Event()

    def conclude(self, outcome: Outcome, result: SandboxResult | None) -> None:
        """Note what came of it, on the disk too: for a thread. Then `end` it."""
        self._concluded_at = datetime.now(UTC)
        self._outcome = outcome_in_json(outcome)
        found = result or SandboxResult(success=False, outcome=outcome, exit_code=1)
        self._facts = {
            "exit_code": found.exit_code,
            "duration_seconds": round(found.duration_seconds, 6),
            "memory_bytes": found.memory_bytes,
            "execution_count": max(0, found.execution_count),
            "files_created": _names(found.files_created),
            "files_modified": _names(found.files_modified),
            "files_deleted": _names(found.files_deleted),
        }
        if found.error is not None:
            # Also where its own event came too late to be kept.
            self._facts["error"] = {"name": found.error.name[:200], "value": found.error.value[:2000], "traceback": []}
        self._add({"type": "done", "outcome": self._outcome, **self._facts}, last=True)
        if self.log is not None:
            self.log.end({**self.summary(), "ended_at": format_time(self._concluded_at)})

    def end(self) -> None:
        """Tell everybody who waits that it has ended."""
        self.ended_at = self._concluded_at or datetime.now(UTC)
        self._done.set()
        self._tell()

    # ---- from the disk

    def keep(self, event: dict[str, Any]) -> None:
        """Keep an event that was stored."""
        self._add({name: value for name, value in event.items() if name != "seq"}, last=event.get("type") == "done")

    def ended(self, ended_at: datetime, outcome: dict[str, Any], facts: dict[str, Any]) -> None:
        """Note that it has ended, long ago."""
        self.ended_at, self._outcome, self._facts = ended_at, outcome, facts
        self._done.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._done.wait(), seconds)
        return self.done

    async def events(self, after: int) -> AsyncIterator[bytes]:
        """Its events, some lines at a time, from the one after ``after`` on and until its end."""
        while True:
            news = self._news  # before looking: what comes now sets this one
            lines = self._lines[after : after + _BATCH]
            if lines:
                after += len(lines)
                yield b"".join(lines)
            elif self.done:
                return
            else:
                try:
                    await asyncio.wait_for(news.wait(), _ALIVE_EVERY)
                except TimeoutError:
                    yield b"\n"  # proxies close silent connections; and a client that has gone is noticed

    # ---- answers

    def summary(self) -> dict[str, Any]:
        """Its state, without its output."""
        return {
            "task_id": self.task_id,
            "sandbox_id": self.sandbox_id,
            "state": "done" if self.done else "running",
            "created_at": format_time(self.created_at),
            "ended_at": format_time(self.ended_at) if self.ended_at is not None else None,
            "code": self._code,
            "outcome": self._outcome,
            "events": len(self._lines),
            "truncated": self.truncated,
        }

    def full(self) -> bytes:
        """All of it as JSON, with its output put together once it has ended. May take a while: for a thread."""
        return as_json({**self.summary(), "result": self._result() if self.done else None})

    def _result(self) -> dict[str, Any]:
        texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        found: dict[str, Any] = {"result": None, "displays": [], "error": None, **self._facts}
        for line in self._lines:
            said = json.loads(line)
            kind = said["type"]
            if kind == "stream":
                texts[said["name"]].append(said["text"])
            elif kind == "execute_result":
                found["result"] = said["data"]
            elif kind == "display_data":
                found["displays"].append(said["data"])
            elif kind == "error":
                found["error"] = {"name": said["ename"], "value": said["evalue"], "traceback": said["traceback"]}
        return {**{name: "".join(parts) for name, parts in texts.items()}, **found}


def outcome_in_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the API shows it."""
    return {
        "kind": outcome.kind.value,
        "cause": outcome.cause,
        "message": outcome.message,
        "next_step": outcome.next_step,
        "state_lost": outcome.state_lost,
    }


def _names(paths: list[str]) -> list[str]:
    return [text_of(path) for path in paths[:_MOST_FILES]]


def _said(event: wire.Event) -> dict[str, Any] | None:
    """An event in Jupyter's terms; None for those that tasks do not report."""
    if isinstance(event, wire.Stream):
        return {"type": "stream", "name": event.name, "text": event.text}
    if isinstance(event, wire.DisplayData | wire.UpdateDisplay):
        kind = "display_data" if isinstance(event, wire.DisplayData) else "update_display_data"
        return {"type": kind, "data": event.data, "metadata": event.metadata, "transient": event.transient}
    if isinstance(event, wire.ExecuteResult):
        count = {"execution_count": event.execution_count}
        return {"type": "execute_result", "data": event.data, "metadata": event.metadata, **count}
    if isinstance(event, wire.ErrorRaised):
        return {"type": "error", "ename": event.ename, "evalue": event.evalue, "traceback": event.traceback}
    if isinstance(event, wire.ClearOutput):
        return {"type": "clear_output", "wait": event.wait}
    if isinstance(event, wire.Comm):  # its buffers are not JSON
        return {"type": event.action, "content": event.content, "metadata": event.metadata}
    return None
