"""Writes checkpoints to disk, in order, on a separate thread, and thins them out.

Capturing a guest does not wait for the disk: captures are written a moment later, or at once if somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wasm_kernel.errors import SandboxClosed, WasmKernelError
from wasm_kernel.host.runtime.sandbox import Captured
from wasm_kernel.host.store.cell_log import CellLog
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.model.snapshots import SavedFile, Snapshot, Variables
from wasm_kernel.sessions.guest_access import when_written
from wasm_kernel.sessions.recorder import Recorder
from wasm_kernel.sessions.snapshots import collect_snapshots, list_snapshots

_PAUSE, _MOST_WAIT = 0.05, 1.0  # seconds without another cell before a checkpoint is written, and at most
_LOGGED_PAUSE, _LOGGED_MOST_WAIT = 1.0, 60.0  # the same for one whose cell is in the log
_SYNC_EVERY = 1.0  # seconds, while cells are logged and not written
_MOST_WAITING = 32 << 20  # bytes of the log: as much is held to undo what was changed since a capture
_FEWEST = 2  # checkpoints that stay however large they are
_PATIENCE = 10.0  # seconds that a cell waits until less is held, or logged, for captures that are not written


class Collector:
    """Frees the space of deleted snapshots once there may be a lot of it, because finding it takes a while."""

    def __init__(self, root: Path, every: int, max_bytes: int, log: logging.Logger, *, patience: float = 0.0) -> None:
        """``every``: collect after this many. ``patience``: seconds to wait while others take snapshots."""
        self._root, self._every, self._max_bytes, self._log, self._patience = root, every, max_bytes, log, patience
        self._count = self._bytes = 0
        self._lock = threading.Lock()

    def went(self, count: int, size: int) -> None:
        """Count deleted snapshots and added bytes: what a snapshot adds becomes free once others replace it.

        Blocks; for threads.
        """
        with self._lock:
            self._count, self._bytes = self._count + count, self._bytes + size
            if self._count < self._every and self._bytes <= self._max_bytes:
                return
            try:
                collect_snapshots(self._root, wait=self._patience)
                self._count = self._bytes = 0
            except (WasmKernelError, OSError) as e:  # a snapshot is being taken: try again next time
                self._log.info("the space of deleted snapshots is not free yet: %s", e)


@dataclass
class Pending:
    """A capture that is not written yet.

    ``same_files``: the cell changed no files. ``due``: whether it is to be written now, or "when idle", which is now as
    long as no cell comes.
    """

    recorder: Recorder
    guest: Captured
    trigger: str
    count: int
    variables: Variables
    metadata: dict[str, Any]
    label: str = ""
    files: list[SavedFile] | None = None
    same_files: bool = False
    due: Literal["", "when idle", "now"] = ""
    since: float = field(default_factory=time.monotonic)
    written: Future[Snapshot] = field(default_factory=Future)

    @property
    def may_go(self) -> bool:
        """Whether it can be dropped: a checkpoint without changed files."""
        return self.trigger == "checkpoint" and self.same_files


class Checkpoints:
    """The captures of one runtime. `enqueue` is called on its event loop."""

    def __init__(
        self, rules: CheckpointRules, collector: Collector, loop: asyncio.AbstractEventLoop, log: logging.Logger
    ) -> None:
        self.rules = rules
        self._collector, self._loop, self._log = collector, loop, log
        self._writer = ThreadPoolExecutor(1, "wasm-kernel-snapshots")
        self._queue: deque[Pending] = deque()
        self._guard = threading.Lock()  # guards the queue, and whether the writer is at work on it
        self._writing = False
        self._being_written: tuple[Pending, ...] = ()  # at most one
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._synced = time.monotonic()
        self._kept: deque[tuple[str, int]] | None = None  # oldest first, with what each added

    @property
    def idle(self) -> bool:
        """Whether everything captured is written."""
        with self._guard:
            return not self._queue and not self._writing

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """What the captures that are not written yet say of their cells, the oldest first."""
        with self._guard:
            return [pending.metadata for pending in (*self._being_written, *self._queue)]

    def forget(self) -> None:
        """The session has changed: count its snapshots from now on."""
        self._kept = None

    def enqueue(self, pending: Pending, *, soon: bool = False, logged: bool = False) -> Pending:
        """Write a capture: now, or a little later while cells follow each other quickly.

        ``logged``: its cell is in the log, so nothing is lost if it waits for longer.
        """
        if self._closed:
            raise SandboxClosed("the session is being closed; no more snapshots can be taken")
        if pending.trigger == "checkpoint":
            pending.metadata = {**pending.metadata, **self.rules.marks}
        with self._guard:
            self._queue.append(pending)
            self._merge_oldest(self.rules.count)  # more would be deleted as soon as they are written
            waited = time.monotonic() - self._queue[0].since
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pause, most = (_LOGGED_PAUSE, _LOGGED_MOST_WAIT) if logged else (_PAUSE, _MOST_WAIT)
        if soon and waited < most and pending.recorder.log.size < _MOST_WAITING:
            self._timer = self._loop.call_later(pause, self._paused, "when idle" if logged else "now")
            self._sync(pending.recorder.log)
        else:
            self._flush()
        return pending

    def merge_waiting(self) -> None:
        """Write one checkpoint instead of all that wait: too much is held for them. What each changed is in it."""
        with self._guard:
            self._merge_oldest(1)

    def _merge_oldest(self, most: int) -> None:
        while len(self._queue) > most and self._queue[0].may_go:
            oldest = self._queue.popleft()
            self._queue[0].guest.memory.take_over(oldest.guest.memory)
            oldest.written.set_exception(SandboxClosed("other cells followed too quickly"))

    def _sync(self, log: CellLog) -> None:
        """Let a power cut take no more than about a second of what is only logged."""
        now = time.monotonic()
        if now - self._synced > _SYNC_EVERY:
            self._synced = now
            self._writer.submit(log.sync)

    async def settled(self) -> None:
        """Wait until all captures are written."""
        while True:
            with self._guard:
                last = self._queue[-1] if self._queue else None
                writing = self._writing
            if last is not None:
                self._flush()
                with contextlib.suppress(Exception):
                    await when_written(last.written)
            elif writing:
                await asyncio.sleep(0.005)
            else:
                return

    async def caught_up(self) -> None:
        """Wait until no more than the last capture is to be written, for a while."""
        end = time.monotonic() + _PATIENCE
        while len(self._being_written) + len(self._queue) > 1 and time.monotonic() < end:
            self._flush()
            await asyncio.sleep(0.02)

    def close(self, last: Callable[[], Pending | None] = lambda: None) -> None:
        """Write ``last`` and nothing after it. Earlier captures that still wait are merged into it. Blocks."""
        self._closed = True
        try:
            pending = last()
            if pending is not None:
                with self._guard:
                    self._queue.append(pending)
        finally:
            self._flush()
            self._writer.shutdown(wait=True)

    def write_now(self, pending: Pending) -> Snapshot:
        """Write a capture and wait for it. Blocks; for threads."""
        with self._guard:
            self._queue.append(pending)
        self._flush()
        return pending.written.result()

    def hold(self) -> None:
        """A cell is about to run: what is written only because nothing happened waits again. On the loop."""
        with self._guard:
            held = [pending for pending in self._queue if pending.due == "when idle"]
            for pending in held:
                pending.due = ""
        if held and self._timer is None:
            self._timer = self._loop.call_later(_LOGGED_PAUSE, self._paused, "when idle")

    def _paused(self, due: Literal["when idle", "now"]) -> None:
        self._timer = None
        self._flush(due)

    def _flush(self, due: Literal["when idle", "now"] = "now") -> None:
        """Write all that wait now; not those that come meanwhile."""
        with self._guard:
            for pending in self._queue:
                pending.due = pending.due if pending.due == "now" else due
            if self._queue and not self._writing:
                self._writing = True
                self._queue[-1].recorder.log.rotate()
                self._writer.submit(self._drain)

    def _drain(self) -> None:
        """Write the captures that are due, in order. On the writer's thread."""
        while True:
            with self._guard:
                if not self._queue or not self._queue[0].due:
                    self._writing = False
                    return
                pending = self._queue.popleft()
                self._being_written = (pending,)
            self._write(pending)

    def _write(self, pending: Pending) -> None:
        recorder = pending.recorder
        files = recorder.files if pending.same_files and pending.files is None else pending.files
        if pending.same_files and files is None:  # not known yet: use the current files
            recorder.expect_files()
        try:
            snapshot = recorder.write(
                pending.guest,
                pending.trigger,
                label=pending.label,
                execution_count=pending.count,
                variables=pending.variables,
                metadata=pending.metadata,
                files=files,
            )
        except BaseException as e:  # noqa: BLE001 - passed on to the waiting caller
            self._log.warning("a snapshot could not be written: %s", e)
            self._being_written = ()
            pending.written.set_exception(e)
            with contextlib.suppress(OSError):
                recorder.log.sync()  # there is nothing else that a power cut would leave of it
            return
        self._being_written = ()  # before anybody hears of it, or it would be there twice
        pending.written.set_result(snapshot)
        if pending.trigger == "checkpoint" or (pending.trigger == "session_close" and self._kept is not None):
            self.thin_out(recorder, snapshot)
        else:
            self._collector.went(0, snapshot.stored_bytes)

    def thin_out(self, recorder: Recorder, latest: Snapshot) -> None:
        """Delete the oldest checkpoints beyond the limits on number and space. On any thread but the loop's.

        The snapshot taken when a session is closed counts as one, and stays.
        """
        rules, at_end = self.rules, latest.trigger != "checkpoint"
        if self._kept is None:
            found = list_snapshots(recorder.root, latest.session_id)
            self._kept = deque((s.snapshot_id, s.stored_bytes) for s in reversed(found) if self._counts(s))
        elif not at_end:
            self._kept.append((latest.snapshot_id, latest.stored_bytes))
        space = sum(size for _, size in self._kept)
        doomed = []
        while len(self._kept) + at_end > rules.count or (space > rules.max_bytes and len(self._kept) > _FEWEST):
            oldest, size = self._kept.popleft()
            space -= size
            doomed.append(oldest)
        for snapshot_id in doomed:
            recorder.store.remove_manifest(latest.session_id, snapshot_id)
        self._collector.went(len(doomed), latest.stored_bytes)

    def _counts(self, snapshot: Snapshot) -> bool:
        return snapshot.trigger == "checkpoint" and self.rules.marks.items() <= snapshot.metadata.items()
