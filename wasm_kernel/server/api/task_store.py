"""Tasks on the disk, so that they outlive the server: below the workspace root, two files each.

    tasks/<sandbox>/00000007-<task>.json      its record: what was asked for and, since it ended, what came of it
    tasks/<sandbox>/00000007-<task>.ndjson    its events, a line each, up to a limit; the last one may be torn

A record is replaced whole, at the beginning and before the end is answered, so a server that is killed loses no outcome
that a client has seen. One that says nothing of an end, of a process that no longer has the sandbox, was cut off. Old
tasks go when there are too many, and all of them with their sandbox. Whatever goes wrong here, tasks run.

What guests print is in these files, and anybody with access to the workspace may have written them: all of it is data,
and checked when it is read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wasm_kernel.guest.wire import nested_deeper_than
from wasm_kernel.host.disk import locks
from wasm_kernel.host.durable import write_file
from wasm_kernel.model.names import STATE_FOLDER, TASKS
from wasm_kernel.model.records import is_session_id, is_uuid
from wasm_kernel.server.api.values import as_json

MAX_STORED = 1 << 20  # bytes of one task's events
_MOST_OF_ONE, _MOST_IN_ALL, _MOST_BYTES = 100, 2000, 128 << 20
_TRIM_EVERY = 50  # tasks
_NAME = re.compile(r"([0-9]{8,12})-([0-9a-f-]{36})\.json\Z")
_RECORD, _EVENTS = ".json", ".ndjson"
_MAX_RECORD, _MAX_TEXT = 1 << 16, 4000
_FLUSH_BYTES, _FLUSH_SECONDS = 1 << 16, 0.2
_MAX_DEPTH = 100


@dataclass(frozen=True)
class StoredTask:
    """A task as it was found on the disk: its record, and its events if they were asked for."""

    task_id: str
    record: dict[str, Any]
    cut_off: bool  # its server ended before it did
    modified: float
    events: list[dict[str, Any]] = field(default_factory=list)


class TaskStore:
    """All stored tasks of a workspace. Blocks: for threads."""

    def __init__(self, root: Path) -> None:
        self._root, self._begun = root, 0

    def begin(self, sandbox_id: str, task_id: str, record: Mapping[str, Any]) -> TaskLog:
        """Store the record of a task that begins; the oldest make room for it."""
        folder = self._folder(sandbox_id)
        log = TaskLog(folder / f"00000001-{task_id}", {**record, "pid": os.getpid()})
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = sorted(self._names(sandbox_id))
            for number, name in known[: -_MOST_OF_ONE + 1]:
                _remove(folder / f"{number}-{name}")
            last = int(known[-1][0]) if known else 0
            log = TaskLog(folder / f"{last + 1:08d}-{task_id}", {**record, "pid": os.getpid()})
            if self._begun % _TRIM_EVERY == 0:
                self._trim()
            self._begun += 1
        log.save()
        return log

    def records(self, sandbox_id: str) -> list[StoredTask]:
        """The tasks of a sandbox, newest first, without their events."""
        found = [self._read(sandbox_id, number, name) for number, name in sorted(self._names(sandbox_id), reverse=True)]
        return [task for task in found if task is not None]

    def task(self, sandbox_id: str, task_id: str) -> StoredTask | None:
        """One of them, with its events."""
        for number, name in self._names(sandbox_id):
            if name == task_id:
                task = self._read(sandbox_id, number, name)
                path = self._folder(sandbox_id) / f"{number}-{name}"
                return task and replace(task, events=_events(path))
        return None

    def _read(self, sandbox_id: str, number: str, task_id: str) -> StoredTask | None:
        path = self._folder(sandbox_id) / f"{number}-{task_id}"
        with contextlib.suppress(OSError, ValueError, RecursionError):
            data, modified = _content(path, _RECORD, _MAX_RECORD)
            with contextlib.suppress(OSError):
                modified = max(modified, _file(path, _EVENTS).stat().st_mtime)
            record = json.loads(data)
            if isinstance(record, dict) and not nested_deeper_than(record, _MAX_DEPTH):
                cut_off = not isinstance(record.get("outcome"), dict) and not self._runs(sandbox_id, record.get("pid"))
                return StoredTask(task_id, record, cut_off, modified)
        return None

    def _runs(self, sandbox_id: str, pid: Any) -> bool:
        """Whether another server runs the task that it began; this one knows its own, and does not ask."""
        holder = locks.told(self._root, sandbox_id).get("pid") if locks.is_live(self._root, sandbox_id) else None
        return type(pid) is int and holder == pid != os.getpid()

    def _folder(self, sandbox_id: str) -> Path:
        return self._root / STATE_FOLDER / TASKS / sandbox_id

    def _names(self, sandbox_id: str) -> Iterator[tuple[str, str]]:
        """Number and id of each task of a sandbox."""
        if not is_session_id(sandbox_id):
            return
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder(sandbox_id)):  # noqa: PTH208 - names, no paths
                match = _NAME.match(name)
                if match is not None and is_uuid(match[2]):
                    yield match[1], match[2]

    def _trim(self) -> None:
        """Delete the oldest of all tasks, if they are too many or too large."""
        above = self._root / STATE_FOLDER / TASKS
        found = []
        for sandbox_id in os.listdir(above):  # noqa: PTH208
            for number, name in self._names(sandbox_id):
                path = above / sandbox_id / f"{number}-{name}"
                infos = []
                for suffix in (_RECORD, _EVENTS):
                    with contextlib.suppress(OSError):
                        infos.append(_file(path, suffix).stat())
                if infos:
                    found.append((max(i.st_mtime for i in infos), sum(i.st_size for i in infos), path))
        count, space = len(found), sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if count < _MOST_IN_ALL and space <= _MOST_BYTES:
                return
            _remove(path)
            count, space = count - 1, space - size


class TaskLog:
    """One task on the disk, while its server remembers it. Used by the sandbox's thread and by others."""

    def __init__(self, path: Path, record: dict[str, Any]) -> None:
        self._path, self._record, self._guard = path, record, threading.Lock()
        self._waiting: list[bytes] = []
        self._size = self._waits = 0
        self._flushed, self._full, self._ended = time.monotonic(), False, False

    def add(self, line: bytes, *, last: bool = False) -> None:
        """Keep an event, if there is room for it; the ``last`` one always."""
        with self._guard:
            if self._full and not last:
                return
            if self._size + len(line) > MAX_STORED and not last:
                self._full = True
                line = _beginning(line, MAX_STORED - self._size)
                line += as_json({"type": "truncated", "max_bytes": MAX_STORED}) + b"\n"
            self._waiting.append(line)
            self._size, self._waits = self._size + len(line), self._waits + len(line)
            late = time.monotonic() - self._flushed >= _FLUSH_SECONDS
            if last or late or self._ended or self._waits >= _FLUSH_BYTES:
                self._flush()

    def _flush(self) -> None:
        data, self._waiting, self._waits = b"".join(self._waiting), [], 0
        self._flushed = time.monotonic()
        with contextlib.suppress(OSError), _file(self._path, _EVENTS).open("ab") as file:
            file.write(data)

    def end(self, record: Mapping[str, Any]) -> None:
        """Replace the record: the task has ended. What its asyncio tasks print later is added, too."""
        with self._guard:
            self._flush()
            self._ended = True
        outcome = {name: v[:_MAX_TEXT] if isinstance(v, str) else v for name, v in record["outcome"].items()}
        self._record |= {**record, "outcome": outcome, "truncated": record.get("truncated") is True or self._full}
        self.save()

    def save(self) -> None:
        """Write the record, whole or not at all."""
        with contextlib.suppress(OSError):
            # Not synced: it must survive the server, not a power cut, and clients wait for it.
            write_file(_file(self._path, _RECORD), as_json(self._record), sync=False)


def _beginning(line: bytes, room: int) -> bytes:
    """As much of printed text as there is room for; nothing of other events."""
    event = json.loads(line)
    if event.get("type") != "stream":
        return b""
    longest = 6  # bytes of a character in JSON
    return as_json({**event, "text": event["text"][: max(0, room // longest - longest * longest)]}) + b"\n"


def _file(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _content(path: Path, suffix: str, most: int) -> tuple[bytes, float]:
    """A plain file's beginning, and when it was last changed; links are not followed, and pipes not waited for."""
    handle = os.open(_file(path, suffix), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle
        return file.read(most), os.fstat(handle).st_mtime


def _events(path: Path) -> list[dict[str, Any]]:
    """The events of a task; a torn line ends them."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(OSError, ValueError, RecursionError):
        for line in _content(path, _EVENTS, MAX_STORED + (1 << 20))[0].splitlines():
            event = json.loads(line)
            if isinstance(event, dict) and not nested_deeper_than(event, _MAX_DEPTH):
                found.append(event)
    return found


def _remove(path: Path) -> None:
    for suffix in (_RECORD, _EVENTS):
        with contextlib.suppress(OSError):
            _file(path, suffix).unlink()
