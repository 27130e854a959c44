"""One sandbox in the server's memory, and what is done with it that blocks: open, save, delete. For threads."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ImageError, WasmKernelError
from wasm_kernel.host import image, ledger, removal, tombstones
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import BadRecord
from wasm_kernel.model.snapshots import Manifest, Snapshot
from wasm_kernel.server import api_views
from wasm_kernel.server.api_tasks import Task
from wasm_kernel.server.api_views import Living, Terms
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.catalog import create_session_folder
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.snapshots import (
    delete_snapshot,
    fork_snapshot,
    get_snapshot,
    list_snapshots,
    newest_snapshot,
    open_from_snapshot,
)

LOGGER = SandboxLogger(level="error")
OURS = {"api": True}  # marks a checkpoint that the next one replaces
_MOST_DELETED = 1000  # deleted sandboxes remembered, with their snapshots


@dataclass
class Held:
    """A sandbox that this server has in memory, or whose tasks it remembers. Changed on the event loop."""

    session_id: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # requests that have it, or wait for it
    live: LiveSession | None = None
    idle_timeout: int = 0
    used: float = field(default_factory=time.monotonic)
    marked_busy: bool = False
    rests: bool = False  # something ran in it, or it was marked idle
    leaving: bool = False  # it is being deleted, or the server stops
    task: Task | None = None  # that runs
    tasks: dict[str, Task] = field(default_factory=dict)
    ran: bool = False  # since it was opened
    unsaved: bool = False
    begins_afresh: bool = False  # its metadata says so, until there is a snapshot of what began
    execution_count: int = 1
    variables: dict[str, list[Any]] = field(default_factory=dict)
    checkpoint: str = ""  # the one that the next replaces

    @property
    def state(self) -> str:
        """One of the API's states."""
        if self.live is None:
            return "released"
        if self.task is not None or self.marked_busy:
            return "busy"
        return "idle" if self.rests else "ready"

    def living(self) -> Living | None:
        """What is shown of it; None when it is not in memory."""
        if self.live is None:
            return None
        idle = None if self.state == "busy" else round(time.monotonic() - self.used, 3)
        task_id = self.task.task_id if self.task is not None else None
        return Living(self.state, idle, task_id, api_views.numbers(self.live.policy))

    def now_has(self, opened: Opened) -> None:
        """It was opened."""
        known = opened.manifest.snapshot if opened.manifest is not None else None
        self.live, self.idle_timeout, self.used = opened.live, opened.idle_timeout, time.monotonic()
        self.ran = self.unsaved = self.rests = self.marked_busy = False
        self.begins_afresh = opened.begins_afresh
        self.execution_count = known.execution_count if known is not None else 1
        self.variables = dict(opened.manifest.variables) if opened.manifest is not None else {}
        ours = known is not None and known.trigger == "checkpoint" and known.metadata == OURS
        self.checkpoint = known.snapshot_id if known is not None and ours else ""


@dataclass(frozen=True)
class Opened:
    """A session that was just opened, and what it goes on from."""

    live: LiveSession
    manifest: Manifest | None
    begins_afresh: bool
    idle_timeout: int


def no_sandbox(session_id: str) -> Problem:
    """The answer about one that is not there."""
    return Problem(404, f"there is no sandbox {session_id[:140]!r}")


def make(root: Path, snapshot_id: str | None, policy: ExecutionPolicy, notes: dict[str, Any]) -> str:
    """A new session with these notes in its metadata, empty or as a snapshot was; its id."""
    _image_for(policy)
    if snapshot_id is None:
        session_id, _, lock = create_session_folder(root, LOGGER, **notes)
        lock.release()
        return session_id
    _check_memory(get_snapshot(snapshot_id, root), policy)
    session_id = fork_snapshot(snapshot_id, root, logger=LOGGER)
    record = ledger.read_record(root / session_id)
    if record is not None:
        ledger.write_record(root / session_id, record.touched(datetime.now(UTC), **notes), sync=True)
    return session_id


def open_session(root: Path, session_id: str, terms: Terms, *, fresh: bool) -> Opened:
    """Open a session with the memory that it was left with, unless it is to be ``fresh``."""
    lock = ledger.lock_session(root, session_id)
    try:
        folder = root / session_id
        if folder.is_symlink():
            raise Problem(409, f"sandbox {session_id} is a link, not a folder; it is left alone")
        if not folder.is_dir():
            raise no_sandbox(session_id)  # it was just deleted
        wishes = terms.wishes(folder)
        begins_afresh = _begins_afresh(folder)
        live = LiveSession(session_id, folder, _image_for(wishes.policy), wishes.policy, lock)
    except BaseException:
        lock.release()
        raise
    try:
        known = None if fresh or begins_afresh else newest_snapshot(live.root, session_id)
        if known is not None:
            _check_memory(known, live.policy)
        manifest = open_from_snapshot(live, known) if known is not None else None
    except BaseException:
        live.close()
        raise
    return Opened(live, manifest, begins_afresh, wishes.idle_timeout)


def save(held: Held, trigger: str, label: str, metadata: dict[str, Any]) -> tuple[Snapshot, bool]:
    """Take a snapshot of a sandbox that is open; whether a checkpoint went for it."""
    live = held.live
    assert live is not None
    snapshot = live.recorder.take(
        trigger, label=label, metadata=metadata, execution_count=held.execution_count, variables=held.variables
    )
    if held.begins_afresh:
        held.begins_afresh = False
        live.note(fresh_start=False)
    if trigger == "user":
        return snapshot, False
    before, held.checkpoint = held.checkpoint, snapshot.snapshot_id if trigger == "checkpoint" else ""
    return snapshot, bool(before) and live.recorder.store.remove_manifest(held.session_id, before)


def forget(root: Path, snapshot_id: str) -> int:
    """Delete a snapshot; the bytes that it had added, as far as that can be read."""
    size = 0
    with contextlib.suppress(WasmKernelError):  # a damaged one can be deleted, too
        size = get_snapshot(snapshot_id, root).stored_bytes
    delete_snapshot(snapshot_id, root)
    return size


def remove(root: Path, held: Held, shown: Mapping[str, Any], last: Snapshot | None, *, thin: bool) -> None:
    """Delete a sandbox but for its snapshots, under the lock it was saved under: nobody uses it in between.

    ``thin``: checkpoints go, too; they are of use only to whoever goes on.
    """
    session_id, live = held.session_id, held.live
    lock = ledger.lock_session(root, session_id) if live is None else None
    facts = api_views.tombstone(shown, last.snapshot_id if last is not None else None, datetime.now(UTC))
    try:
        tombstones.write(root, session_id, facts, most=_MOST_DELETED)
        try:
            removal.remove_session(root, session_id, keep_snapshots=True)
        except BaseException:
            tombstones.forget(root, session_id)
            raise
        if live is not None:
            for snapshot in list_snapshots(root, session_id) if thin else []:
                if snapshot.trigger == "checkpoint":
                    live.recorder.store.remove_manifest(session_id, snapshot.snapshot_id)
            live.close()
    finally:
        if lock is not None:
            lock.release()
    ledger.forget_free_lock(root, session_id)


def _check_memory(snapshot: Snapshot, policy: ExecutionPolicy) -> None:
    if snapshot.memory_bytes > policy.memory_bytes:
        raise Problem(
            409,
            f"snapshot {snapshot.snapshot_id} has {snapshot.memory_bytes:,} bytes of memory, and the sandbox may have "
            f"{policy.memory_bytes:,}: create one with a higher limits.memory, or run a task with fresh=true",
        )


def _image_for(policy: ExecutionPolicy) -> image.Image:
    """The image; building it here would take minutes."""
    try:
        found = image.load()
    except ImageError as e:
        raise Problem(503, f"nothing can run here yet: {e}; run `wasm-kernel install` where this server runs") from None
    if policy.fuel_budget is not None:
        try:
            found.modules(metered=True)
        except ImageError as e:
            raise Problem(409, f"fuel cannot be metered here: {e}; run `wasm-kernel image build --metered`") from None
    return found


def _begins_afresh(folder: Path) -> bool:
    """Whether a restart of its kernel asked for a fresh interpreter, and nothing was saved since."""
    with contextlib.suppress(BadRecord):
        record = ledger.read_record(folder)
        return record is not None and bool(record.extra.get("fresh_start"))
    return False
