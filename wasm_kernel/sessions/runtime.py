"""A running session: its guest, which gets one request at a time, and its position in the history of snapshots.

The kernel and the REST API are adapters of this; it knows neither Jupyter nor HTTP. Everything happens on one event
loop, except what blocks (the disk, the guest), which happens on threads.

* Every request to the guest needs `SessionRuntime.guest`. Nothing changes the guest, or its memory, without it.
* A cell that has run is unsaved until `save_cell` has captured it: its sender gets the reply first.
* `moment` changes whenever the session's state does: by a cell, a restore, a fresh start, another session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import SandboxBusy, WasmKernelError
from wasm_kernel.host.runtime.output_buffer import OnEvent
from wasm_kernel.host.runtime.sandbox import Captured, Sandbox, TurnDelta
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.model.snapshots import Manifest, Snapshot, Variables
from wasm_kernel.sessions.background import BackgroundTasks
from wasm_kernel.sessions.guest_access import Execution, GuestAccess, OnQuestion, when_written
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.metadata_refresh import MetadataRefresh
from wasm_kernel.sessions.opening import OpenedSession
from wasm_kernel.sessions.snapshot_quota import SnapshotQuota
from wasm_kernel.sessions.unsaved_cell import UnsavedCell, unsaved_cell

if TYPE_CHECKING:
    from wasm_kernel.sessions.checkpoints import Checkpoints, Collector, Pending

_CLOSE_PATIENCE = 2.0  # seconds that closing a session waits for a request to the guest to end
_MUCH_HELD, _MOST_HELD = 512 << 20, 4 << 30  # bytes of memory as it was, for captures that are not written yet
_MOST_LOGGED = 2 << 30  # bytes of the log, beyond which cells wait until it is folded
_COLLECT_EVERY = 100  # deleted checkpoints
_STARTUP_OPTIONS = {"silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}


class SessionRuntime(GuestAccess):
    """A live session on an event loop.

    Attributes:
        live: The open session.
        rules: Which checkpoints to take.
        count: The number of the running cell, or of the next one.
        running: Whether a cell is running.
        last_result: The result of the last cell.
        used: When it was last used, on the monotonic clock.
        moment: Changes whenever the session's state does.
        touched: Whether the guest got any request since the session was opened.
        background: The guest's asyncio tasks.
        on_background_event: Gets the output of background tasks: the last cell's `on_event`.
        on_finished: Called on the loop with the serial of each cell that ran, and what its checkpoint says of it.
        on_saved: Called on a thread with the serial of the last cell whose effects are in a snapshot now.
        on_quota_short: Called on a thread when snapshots have nearly used up what the administrator allows.
        on_written: Called on the writer's thread after each snapshot, with the error if it could not be written.
    """

    def __init__(
        self,
        opened: OpenedSession,
        rules: CheckpointRules,
        *,
        startup_code: str,
        logger: SandboxLogger,
        log: logging.Logger,
        collector: Collector | None = None,
    ) -> None:
        """``collector``: frees the space of deleted snapshots, if several runtimes share one."""
        super().__init__()
        self.rules, self._startup_code, self._log = rules, startup_code, log
        self.metadata = MetadataRefresh(self._loop, logger)
        self._collector = collector
        self._checkpoints: Checkpoints | None = None
        self.background = BackgroundTasks(self._loop, lambda: self.sandbox, self._background_turn)
        self.running, self.moment = False, 0
        self.on_background_event: OnEvent = lambda event: None
        self.on_finished: Callable[[int, dict[str, Any]], None] = lambda serial, metadata: None
        self.on_saved: Callable[[int], None] = lambda serial: None
        self.on_quota_short: Callable[[], None] = lambda: None
        self.on_written: Callable[[BaseException | None], None] = lambda error: None
        self._quota = SnapshotQuota(lambda: self.live, self._loop, log, lambda: self.on_quota_short())
        self.moved(opened)

    # ---- position in the history

    def moved(self, opened: OpenedSession) -> None:
        """Switch to another session."""
        self.live = opened.live
        self.touched = self._changed = False  # since it was opened, and since it was captured
        self.last_result: SandboxResult | None = None
        self._serial = 0  # of the last cell that has run
        self.used = time.monotonic()
        self._begins_afresh = opened.begins_afresh
        if self._checkpoints is not None:
            self._checkpoints.forget()
        self.is_at(opened.manifest)
        self._quota.look()

    def is_at(self, manifest: Manifest | None) -> None:
        """The guest was just restored from a snapshot, or is fresh."""
        self.moment += 1
        self.count = max(1, manifest.snapshot.execution_count) if manifest is not None else 1
        self.variables: Variables = dict(manifest.variables) if manifest is not None else {}
        self._started = manifest is not None and bool(manifest.entry)  # it has run the startup code
        self._unsaved: UnsavedCell | None = None  # the cell that led to this is itself undone
        self._unlogged: Variables | None = None  # those before the first of the last cells that could not be logged
        self._released: str | None = None  # the snapshot to continue from while the guest's memory is released
        self.background.schedule()

    def count_cell(self, number: int) -> None:
        """A counted cell has ended; not called after a magic in it restored another state."""
        self.count += self.count == number

    @property
    def sandbox(self) -> Sandbox:
        """The live guest."""
        return self.live.sandbox

    @property
    def at_rest(self) -> bool:
        """Whether no cell is running or waiting to be captured, and the guest has no request."""
        return not self.running and self._unsaved is None and not self.guest.locked()

    @property
    def idle_seconds(self) -> float:
        """How long the guest has had no request."""
        return 0.0 if self.running or self.guest.locked() else time.monotonic() - self.used

    # ---- the guest

    async def execute(self, execution: Execution) -> SandboxResult:
        """Run a cell, and before the first one the startup code. With `guest` held."""
        self.running = True
        self.background.stop()
        if self._checkpoints is not None:
            self._checkpoints.hold()
        try:
            if not self._started:
                await self._start(execution.on_event)
            options = {**execution.options, "execution_count": self.count, "glance": self.rules.on}
            if not execution.silent:
                self.on_background_event = execution.on_event
            checkpoint = self.rules.on and not execution.silent
            more: dict[str, Any] = {"on_event": execution.on_event, "options": options}
            more |= {"log": partial(self._log_cell, execution) if checkpoint else None, "on_begin": execution.on_begin}
            result = await self._run(execution.code, execution.on_question, **more)
        finally:
            self.running = False
            self.background.schedule()
        self.moment += 1
        self.last_result = result
        self._serial = execution.serial or self._serial
        self.metadata.ran(self.live, result)
        return result

    def _log_cell(self, cell: Execution, result: SandboxResult, delta: TurnDelta) -> bool:
        """A cell is about to be answered: from here on a kill does not lose it. On the sandbox's thread."""
        before = self.variables if self._unsaved is None else self._unsaved.variables
        unsaved = self._unsaved = unsaved_cell(cell, result, before)
        first, self._unlogged = self._unlogged, before if self._unlogged is None else self._unlogged
        try:
            unsaved.log(self.live.cell_log, delta, self.rules.marks, since=first)
        except (
            OSError,
            ValueError,
            WasmKernelError,
        ) as e:  # a full disk, a rule, too much: stored at once, if possible
            if first is None:
                self._log.warning("cells cannot be logged: %s", e)
            return False
        self._unlogged = None
        return True

    async def _start(self, on_event: OnEvent) -> None:
        self._started = True
        if self.rules.on and self.live.has_files and self.live.recorder.last is None:
            self._save_beginning()  # there are files already: lets the first cell be undone, too
        if self._startup_code:
            await self._run(self._startup_code, on_event=on_event, options=_STARTUP_OPTIONS)

    async def _run(self, code: str, on_question: OnQuestion | None = None, **more: Any) -> SandboxResult:
        begin: Any = lambda sandbox, deliver: sandbox.begin_execute(code, deliver, **more)  # noqa: E731
        result: SandboxResult = await self.in_guest(begin, on_question)
        return result

    async def _background_turn(self) -> None:
        """Let the guest's asyncio tasks continue between cells, but not during a request."""
        if not self.running and not self.guest.locked():
            async with self.guest:
                with contextlib.suppress(WasmKernelError):
                    await self.ask({"op": "pump"}, (), self.on_background_event)

    # ---- checkpoints

    @property
    def checkpoints(self) -> Checkpoints:
        """Writes captured snapshots; imported when first needed, after the first cell."""
        if self._checkpoints is None:
            from wasm_kernel.sessions.checkpoints import Checkpoints, Collector

            most = self.rules.max_bytes // 4
            collector = self._collector or Collector(self.live.root, _COLLECT_EVERY, most, self._log)
            self._checkpoints = Checkpoints(self.rules, collector, self._loop, self._log)
        return self._checkpoints

    async def settled(self) -> None:
        """Wait until all captures are written, and the metadata."""
        await asyncio.to_thread(self.metadata.write)
        if self._checkpoints is not None:
            await self._checkpoints.settled()

    async def save_cell(self) -> None:
        """Capture the checkpoint of the cell that has run while the guest is idle; it is written in the background."""
        if self._unsaved is None:
            return
        async with self.guest:
            unsaved, self._unsaved = self._unsaved, None
            if unsaved is not None:  # otherwise it was undone while this waited
                self.on_finished(self._serial, unsaved.metadata)
                with contextlib.suppress(WasmKernelError):  # the guest cannot be captured: the last checkpoint stays
                    await self._save_cell(unsaved)
                    if self.sandbox.held_bytes > _MUCH_HELD:  # cells change more than can be written meanwhile
                        self.checkpoints.merge_waiting()
                    if self.sandbox.held_bytes > _MOST_HELD or self.live.cell_log.size > _MOST_LOGGED:
                        await self.checkpoints.caught_up()
            self._quota.after_checkpoint()

    async def _save_cell(self, cell: UnsavedCell) -> None:
        guest = self.live.recorder.capture_at_once() if cell.is_logged else None
        if guest is None:
            if self.live.recorder.last is None and self.checkpoints.idle:  # it started with an empty folder
                self._save_beginning(files=[])
            guest = await self._capture()
        self._changed = False
        if guest.changed_files:
            self.live.recorder.expect_files()
        self.variables = cell.variables
        pending = self._pending(guest, "checkpoint", metadata=cell.metadata, same_files=not guest.changed_files)
        self.checkpoints.enqueue(pending, soon=not guest.changed_files, logged=cell.is_logged)

    def _save_beginning(self, files: list[Any] | None = None) -> None:
        """Save the state before anything ran, so that the first cell can be undone, too."""
        guest = self.sandbox.beginning
        if files is None:
            self.live.recorder.captured(guest.memory)
        pending = self._pending(guest, "checkpoint", serial=0, metadata={"cell": "", "number": 0}, files=files)
        pending.count, pending.variables = 1, {}
        self.checkpoints.enqueue(pending, soon=files is not None, logged=True)  # nothing is lost with it

    def _pending(self, guest: Captured, trigger: str, *, serial: int | None = None, **details: Any) -> Pending:
        from wasm_kernel.sessions.checkpoints import Pending

        pending = Pending(self.live.recorder, guest, trigger, self.count, self.variables, **{"metadata": {}, **details})
        pending.written.add_done_callback(partial(self._was_written, self._serial if serial is None else serial))
        return pending

    def _was_written(self, serial: int, written: Future[Snapshot]) -> None:
        """Writing a snapshot succeeded or failed. On the writer's thread."""
        self.on_written(written.exception())
        if written.exception() is not None:
            self._changed = True
            return
        self.on_saved(serial)
        if self._begins_afresh:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._has_begun)

    def _has_begun(self) -> None:
        """There is a snapshot since the fresh start: the next opening continues from it."""
        if self._begins_afresh:
            self._begins_afresh = False
            self.live.note(fresh_start=False)

    async def _capture(self, *, scrub: bool = False) -> Captured:
        """With `guest` held. ``scrub``: leave out memory that the guest has freed."""
        recorder = self.live.recorder
        everything = recorder.begin_capture()
        guest: Captured = await self.in_guest(
            lambda sandbox, deliver: sandbox.begin_capture(
                deliver,
                recorder.split,
                everything=everything,
                # Not only cells change files: one may have been uploaded, and an undo must not remove it.
                files_differ=recorder.files_differ,
                scrub=scrub,
            ),
        )
        recorder.captured(guest.memory, files=False)
        self._changed = False
        return guest

    async def take(
        self,
        label: str = "",
        trigger: str = "user",
        *,
        count: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Snapshot:
        """Take a snapshot on request. ``count``: the number of the next cell, if different by then."""
        async with self.guest:
            pending = await self._take(label, trigger, metadata or {})
            pending.count = count or self.count
            self.checkpoints.enqueue(pending)
        return await when_written(pending.written)

    async def _take(self, label: str, trigger: str, metadata: dict[str, Any]) -> Pending:
        guest = await self._capture(scrub=True)
        self.live.recorder.expect_files()
        return self._pending(guest, trigger, label=label, metadata=metadata)

    # ---- releasing memory

    async def save(self) -> bool:
        """Write everything not written yet; whether that worked. With `guest` held."""
        await self.settled()
        if not self._changed:
            return True
        try:
            pending = self.checkpoints.enqueue(await self._take("", "checkpoint", {}))
            await when_written(pending.written)
        except (WasmKernelError, OSError) as e:  # such as a full disk
            self._log.warning("session %s could not be saved: %s", self.live.session_id, e)
            self.used = time.monotonic()  # try again later
            return False
        return True

    async def release(self) -> bool:
        """Release the guest's memory until the next use; whether that was possible."""
        sandbox = self.sandbox
        async with self.guest:
            if not self.rules.on or self._released is not None or sandbox.fresh or sandbox.next_task is not None:
                return False
            if not await self.save():
                return False
            last = self.live.recorder.last
            if last is None:
                return False
            await asyncio.to_thread(self.live.recorder.release)
            self._released = last.snapshot_id
        return True

    async def _before_turn(self) -> None:
        """Restore the guest's memory if it was released."""
        released, self._released = self._released, None
        self.used = time.monotonic()
        self.touched = self._changed = True
        if released is not None:
            from wasm_kernel.sessions.recorder import read_snapshot

            recorder = self.live.recorder
            manifest = await asyncio.to_thread(read_snapshot, recorder.store, self.live.session_id, released)
            await asyncio.to_thread(lambda: recorder.restore(manifest, files=False))
            self.sandbox.next_task = None  # otherwise it would not have been released

    # ---- restarting and closing

    async def reset(self) -> None:
        """Start a fresh interpreter; files stay."""
        async with self.guest:
            await self.settled()
            await asyncio.to_thread(self.live.start_afresh)
            self.is_at(None)
            if self.rules.on and self.live.has_snapshots:
                self._save_beginning()  # so that the next opening is fresh, too, and this can be undone

    async def leave(self) -> None:
        """Write everything before the runtime moves on. With `guest` held."""
        self.background.stop()
        await self.settled()
        if self.rules.on and self._leaves_something:
            with contextlib.suppress(WasmKernelError, OSError):
                await asyncio.to_thread(lambda: self.checkpoints.write_now(self._last()))

    def close(self, *, take: bool, restarting: bool = False) -> None:
        """Take the snapshot the next opening continues from, or ask for a fresh start. Blocks; for threads.

        The session itself stays open; its opener closes it.
        """
        self.metadata.write()
        if restarting:
            self.live.note(fresh_start=True)
        with contextlib.suppress(WasmKernelError, OSError):
            wanted = take and not restarting and self.rules.on and self._leaves_something
            if wanted or self._checkpoints is not None:
                self.checkpoints.close(self._last if wanted else lambda: None)
        if not restarting and not self.sandbox.fresh:
            self._has_begun()

    @property
    def _leaves_something(self) -> bool:
        return self.touched and self._released is None and not self.sandbox.fresh

    def _last(self) -> Pending:
        """The guest, ready to be closed. A completion, or the last cell's checkpoint, may still be in progress."""
        end = time.monotonic() + _CLOSE_PATIENCE
        while True:
            try:
                return self._pending(self.live.recorder.capture(), "session_close")
            except SandboxBusy:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
