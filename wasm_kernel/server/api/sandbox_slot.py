"""One sandbox in the server's memory, and the blocking work on it: open, save, delete. For threads."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ImageError, WasmKernelError
from wasm_kernel.host.disk import locks, records
from wasm_kernel.host.image import image
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.server.api import views
from wasm_kernel.server.api.tasks import Task
from wasm_kernel.server.api.views import Living, Terms
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.catalog import create_session_folder
from wasm_kernel.sessions.deletion import remove_but_snapshots, thin_out
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.opening import OpenedSession, resume
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.snapshots import (
    delete_snapshot,
    fork_snapshot,
    get_snapshot,
)

LOGGER = SandboxLogger(level="error")


@dataclass
class SandboxSlot:
    """A sandbox that this server has in memory, or whose tasks it remembers. Changed on the event loop."""

    session_id: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # requests that have it, or wait for it
    runtime: SessionRuntime | None = None
    idle_timeout: int = 0
    used: float = field(default_factory=time.monotonic)  # by a client; background tasks do not count
    marked_busy: bool = False
    rests: bool = False  # something ran in it, or it was marked idle
    leaving: bool = False  # it is being deleted, or the server stops
    task: Task | None = None  # the one that runs
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """One of the API's states."""
        if self.runtime is None:
            return "released"
        if self.task is not None or self.marked_busy:
            return "busy"
        return "idle" if self.rests else "ready"

    def living(self) -> Living | None:
        """What is shown of it; None when it is not in memory."""
        if self.runtime is None:
            return None
        idle = None if self.state == "busy" else round(time.monotonic() - self.used, 3)
        task_id = self.task.task_id if self.task is not None else None
        return Living(self.state, idle, task_id, views.numbers(self.runtime.live.policy))

    def now_has(self, runtime: SessionRuntime, idle_timeout: int) -> None:
        """Note that it was opened."""
        self.runtime, self.idle_timeout, self.used = runtime, idle_timeout, time.monotonic()
        self.rests = self.marked_busy = False


def no_sandbox(session_id: str) -> Problem:
    """The answer for a sandbox that does not exist."""
    return Problem(404, f"there is no sandbox {session_id[:140]!r}")


def make(root: Path, snapshot_id: str | None, policy: ExecutionPolicy, notes: dict[str, Any]) -> str:
    """Create a session with these notes in its metadata, empty or from a snapshot; return its id."""
    _image_for(policy)
    if snapshot_id is None:
        session_id, _, lock = create_session_folder(root, LOGGER, **notes)
        lock.release()
        return session_id
    _check_memory(get_snapshot(snapshot_id, root), policy)
    session_id = fork_snapshot(snapshot_id, root, logger=LOGGER)
    record = records.read_record(root / session_id)
    if record is not None:
        records.write_record(root / session_id, record.touched(datetime.now(UTC), **notes), sync=True)
    return session_id


def open_session(root: Path, session_id: str, terms: Terms, *, fresh: bool) -> tuple[OpenedSession, int]:
    """Open a session with the memory it was left with, unless ``fresh``; return it and its idle timeout."""
    lock = locks.lock_session(root, session_id)
    try:
        folder = root / session_id
        if folder.is_symlink():
            raise Problem(409, f"sandbox {session_id} is a link, not a folder; it is left alone")
        if not folder.is_dir():
            raise no_sandbox(session_id)  # it was just deleted
        wishes = terms.wishes(folder)
        live = LiveSession(session_id, folder, _image_for(wishes.policy), wishes.policy, lock)
    except BaseException:
        lock.release()
        raise
    try:
        opened = resume(live, fresh=fresh, check=lambda snapshot: _check_memory(snapshot, live.policy))
    except BaseException:
        live.close()
        raise
    return opened, wishes.idle_timeout


def forget(root: Path, snapshot_id: str) -> int:
    """Delete a snapshot; return the bytes it had added, if they can be read."""
    size = 0
    with contextlib.suppress(WasmKernelError):  # a damaged one can be deleted too
        size = get_snapshot(snapshot_id, root).stored_bytes
    delete_snapshot(snapshot_id, root)
    return size


def remove(root: Path, held: SandboxSlot, last: Snapshot | None, *, thin: bool) -> None:
    """Delete a sandbox except its snapshots, under the lock it was saved under: nobody uses it in between.

    ``thin``: also its checkpoints, which only a session that continues can use.
    """
    session_id, runtime = held.session_id, held.runtime
    lock = locks.lock_session(root, session_id) if runtime is None else None
    try:
        remove_but_snapshots(root, session_id, last)
        if runtime is not None:
            if thin:
                thin_out(root, session_id)
            runtime.close(take=False)
            runtime.live.close()
    finally:
        if lock is not None:
            lock.release()
    locks.forget_free_lock(root, session_id)


def _check_memory(snapshot: Snapshot, policy: ExecutionPolicy) -> None:
    if snapshot.memory_bytes > policy.memory_bytes:
        raise Problem(
            409,
            f"snapshot {snapshot.snapshot_id} has {snapshot.memory_bytes:,} bytes of memory, and the sandbox may have "
            f"{policy.memory_bytes:,}: create one with a higher limits.memory, or run a task with fresh=true",
        )


def _image_for(policy: ExecutionPolicy) -> image.Image:
    """The image; it is not built here, as that would take minutes."""
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
