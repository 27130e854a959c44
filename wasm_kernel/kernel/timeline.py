"""A notebook's timeline: a checkpoint after every cell, undo and redo, and the way back after the kernel was away."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ConfigurationError, SandboxBusy, SandboxClosed, WasmKernelError
from wasm_kernel.host.memory import CapturedMemory
from wasm_kernel.host.sandbox import Captured
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.snapshots import Manifest, SavedFile, Snapshot, checked_variables, chunks_of
from wasm_kernel.sessions.recorder import Recorder, read_snapshot
from wasm_kernel.sessions.snapshots import list_snapshots

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel

Variables = dict[str, list[Any]]
_MOST_NAMES = 20  # of what a cell changed, in the timeline
_PAUSE = 0.05  # seconds without another cell before checkpoints are written
_MOST_WAIT = 1.0  # however fast cells follow each other
_FEWEST = 2  # checkpoints that stay however large they are
_COLLECT_EVERY = 100  # checkpoints that went
_CLOSE_PATIENCE = 2.0  # seconds


@dataclass
class _Pending:
    """A capture on its way to the store. ``same_files``: the cell changed none."""

    guest: Captured
    trigger: str
    count: int
    variables: Variables
    metadata: dict[str, Any]
    label: str = ""
    files: list[SavedFile] | None = None
    same_files: bool = False
    since: float = field(default_factory=time.monotonic)
    written: Future[Snapshot] = field(default_factory=Future)

    @property
    def may_go(self) -> bool:
        """Whether nobody would miss it: a checkpoint without files of its own."""
        return self.trigger == "checkpoint" and self.same_files


class Timeline:
    """The snapshots of the session a kernel works in. Its coroutines run on the kernel's loop."""

    def __init__(self, kernel: WasmKernel) -> None:
        self._kernel = kernel
        self._writer = ThreadPoolExecutor(1, "wasm-kernel-snapshots")
        self._queue: deque[_Pending] = deque()  # captured, to be written
        self._guard = threading.Lock()  # of the queue, and of whether the writer works on it
        self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._variables: Variables = {}
        self._redo: list[str] = []
        self._gone = self._gone_bytes = 0  # checkpoints, since their chunks were collected
        self._closed = False
        self._kept: deque[tuple[str, int]] | None = None  # checkpoints, the oldest first, with what each added
        self._released: str | None = None  # the snapshot to go on from when the guest's memory was given back
        self.used = time.monotonic()

    @property
    def _recorder(self) -> Recorder:
        return self._kernel.live.recorder

    @property
    def on(self) -> bool:
        """Whether cells leave checkpoints."""
        return bool(self._kernel.checkpoint)

    def moved(self, manifest: Manifest | None) -> None:
        """The kernel works in another session, or its guest is another one: at this snapshot, or at the beginning."""
        self._variables = dict(manifest.variables) if manifest is not None else {}
        self._redo.clear()
        self._released = self._kept = None

    # ---- taking

    def before_first_cell(self) -> None:
        """The state before anything ran, so that the first cell can be undone, too; there are files already."""
        if self.on and self._recorder.last is None:
            beginning = self._beginning()
            self._recorder.captured(beginning.memory)
            self._enqueue(_Pending(beginning, "checkpoint", 1, {}, {"cell": "", "number": 0}))

    def _beginning(self) -> Captured:
        sandbox = self._kernel.live.sandbox
        return Captured(CapturedMemory(sandbox.base_bytes, everything=True), sandbox.base_rest, fresh=True)

    async def after_cell(self, number: int, code: str, result: SandboxResult, count: int) -> None:
        """A checkpoint: captured now, while the guest rests, and written in the background."""
        self._redo.clear()
        if not self.on:
            return
        if self._recorder.last is None and not self._queue and not self._writing:  # it began with an empty folder
            self._enqueue(_Pending(self._beginning(), "checkpoint", 1, {}, {"cell": "", "number": 0}, files=[]))
        before = self._variables
        guest = await self._capture()
        if guest.changed_files:
            self._recorder.expect_files()
        if "variables" in result.reply:  # else it was stopped by force, and they are what they were
            self._variables = checked_variables(result.reply["variables"])
        variables = self._variables
        metadata = {
            "cell": code.strip()[:500],
            "number": number,
            "seconds": round(result.duration_seconds, 6),
            "ok": result.success,
            "variables": compare(before, variables),
            "files": {
                "added": result.files_created[:_MOST_NAMES],
                "changed": [f for f in result.files_modified if f not in result.files_created][:_MOST_NAMES],
                "removed": result.files_deleted[:_MOST_NAMES],
            },
        }
        pending = _Pending(guest, "checkpoint", count, variables, metadata, same_files=not guest.changed_files)
        if self._kernel.home.starts_fresh:
            pending.written.add_done_callback(self._begun)
        self._enqueue(pending, soon=not guest.changed_files)

    def _begun(self, written: Future[Snapshot]) -> None:
        """The first checkpoint after a restart is on disk. On the writer's thread."""
        if written.exception() is None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                kernel = self._kernel
                kernel.loop.call_soon_threadsafe(lambda: kernel.home.has_begun(kernel.live))

    async def _capture(self, *, scrub: bool = False) -> Captured:
        """Called with the guest's lock held. ``scrub``: without what the guest has freed."""
        recorder = self._recorder
        everything = recorder.begin_capture()
        guest: Captured = await self._kernel.in_guest(
            lambda sandbox, deliver: sandbox.begin_capture(
                deliver,
                recorder.split,
                everything=everything,
                # Not only the cell changes files: somebody may have uploaded one, and an undo must not take it away.
                files_differ=recorder.files_differ,
                scrub=scrub,
            ),
            None,
        )
        recorder.captured(guest.memory, files=False)
        return guest

    # ---- writing

    def _enqueue(self, pending: _Pending, *, soon: bool = False) -> _Pending:
        """Have something written: now, or, while cells follow each other fast, a little later."""
        if self._closed:
            raise SandboxClosed("the kernel is ending; the last snapshot is the one of its end")
        with self._guard:
            self._queue.append(pending)
            while len(self._queue) > self._kernel.checkpoint_count and self._queue[0].may_go:
                # The oldest would be deleted as soon as it is written: the next one takes over what changed.
                oldest = self._queue.popleft()
                self._queue[0].guest.memory.take_over(oldest.guest.memory)
                oldest.written.set_exception(SandboxClosed("other cells followed too fast"))
            waited = time.monotonic() - self._queue[0].since
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if soon and waited < _MOST_WAIT:
            self._timer = self._kernel.loop.call_later(_PAUSE, self._flush)
        else:
            self._flush()
        return pending

    def _flush(self) -> None:
        with self._guard:
            if self._queue and not self._writing:
                self._writing = True
                self._writer.submit(self._drain)

    def _drain(self) -> None:
        """Write what waits, in order. On the writer's thread."""
        while True:
            with self._guard:
                if not self._queue:
                    self._writing = False
                    return
                pending = self._queue.popleft()
            self._write(pending)

    def _write(self, pending: _Pending) -> None:
        recorder = self._recorder
        files = recorder.files if pending.same_files and pending.files is None else pending.files
        if pending.same_files and files is None:  # not known yet: they are as they are now
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
        except BaseException as e:  # noqa: BLE001 - who waits for it gets it
            self._kernel.log.warning("a snapshot could not be written: %s", e)
            pending.written.set_exception(e)
            return
        pending.written.set_result(snapshot)
        if pending.trigger == "checkpoint":
            self._thin_out(recorder, snapshot)

    def _thin_out(self, recorder: Recorder, latest: Snapshot) -> None:
        """Bound what checkpoints take: by number, then by space, the oldest first."""
        if self._kept is None:
            found = list_snapshots(self._kernel.home.root, latest.session_id)
            self._kept = deque((s.snapshot_id, s.stored_bytes) for s in reversed(found) if s.trigger == "checkpoint")
        else:
            self._kept.append((latest.snapshot_id, latest.stored_bytes))
        space = before = sum(size for _, size in self._kept)
        doomed = []
        while len(self._kept) > self._kernel.checkpoint_count or (
            space > self._kernel.checkpoint_bytes and len(self._kept) > _FEWEST
        ):
            oldest, size = self._kept.popleft()
            space -= size
            doomed.append(oldest)
        for snapshot_id in doomed:
            recorder.store.remove_manifest(latest.session_id, snapshot_id)
        self._gone, self._gone_bytes = self._gone + len(doomed), self._gone_bytes + before - space
        # What nobody refers to any more takes no more room than what checkpoints may take.
        if self._gone >= _COLLECT_EVERY or self._gone_bytes > self._kernel.checkpoint_bytes:
            self._gone = self._gone_bytes = 0
            with contextlib.suppress(WasmKernelError, OSError):  # somebody takes one now: later
                recorder.store.collect(chunks_of)

    async def settled(self) -> None:
        """Wait until what was captured is written."""
        while True:
            with self._guard:
                last = self._queue[-1] if self._queue else None
                writing = self._writing
            if last is not None:
                self._flush()
                with contextlib.suppress(Exception):
                    await asyncio.wrap_future(last.written)
            elif writing:
                await asyncio.sleep(0.005)
            else:
                return

    async def take(self, label: str = "") -> Snapshot:
        """A snapshot because a person wants one."""
        kernel = self._kernel
        async with kernel.guest:
            await self.awake()
            guest = await self._capture(scrub=True)
            self._recorder.expect_files()
            pending = _Pending(guest, "user", kernel.execution_count + 1, self._variables, {}, label)
            self._enqueue(pending)
        return await asyncio.wrap_future(pending.written)

    def take_at_close(self) -> None:
        """What the next kernel goes on from. Blocks; called when no cell runs any more."""
        if not self.on or self._released is not None:
            return
        kernel = self._kernel
        if kernel.live.sandbox.fresh:
            return  # nothing ran: there is nothing to come back to
        guest = self._capture_patiently()
        with contextlib.suppress(Exception):
            pending = _Pending(guest, "session_close", kernel.execution_count, self._variables, {})
            with self._guard:
                self._queue.append(pending)
            self._flush()
            pending.written.result()

    def _capture_patiently(self) -> Captured:
        end = time.monotonic() + _CLOSE_PATIENCE
        while True:
            try:
                return self._recorder.capture()
            except SandboxBusy:  # a completion, or the checkpoint of the last cell
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def close(self, *, take: bool) -> None:
        """No more snapshots but, if asked for, the one that the next kernel goes on from. Blocks."""
        self._closed = True  # what was captured before that and is not on its way yet is part of this one
        if take:
            with contextlib.suppress(WasmKernelError, OSError):
                self.take_at_close()
        self._flush()
        self._writer.shutdown(wait=True)

    # ---- going back

    def snapshots(self) -> list[Snapshot]:
        """This session's, the newest first."""
        return list_snapshots(self._kernel.home.root, self._kernel.live.session_id)

    def behind(self, known: list[Snapshot]) -> set[str]:
        """The snapshots that led to where we are; the others were undone."""
        by_id = {s.snapshot_id: s for s in known}
        found: set[str] = set()
        here = self._recorder.last
        while here is not None and here.snapshot_id not in found:
            found.add(here.snapshot_id)
            here = by_id.get(here.parent)
        return found

    def find(self, wanted: str) -> Snapshot:
        """A snapshot by id, by the beginning of its id, or by label."""
        found = self.snapshots()
        matches = [s for s in found if s.label == wanted] or [s for s in found if s.snapshot_id.startswith(wanted)]
        if not wanted or not matches:
            raise ConfigurationError(f"there is no snapshot {wanted!r}; `%session snapshots` shows which there are")
        return matches[0]

    async def restore(self, snapshot: Snapshot) -> None:
        """Go back, or forth, to a snapshot: memory, files, execution count."""
        recorder = self._recorder
        async with self._kernel.guest:
            await self.settled()
            manifest = await asyncio.to_thread(read_snapshot, recorder.store, snapshot.session_id, snapshot.snapshot_id)
            await asyncio.to_thread(recorder.restore, manifest)
            self._variables, self._released = dict(manifest.variables), None
            self._redo.clear()
            self._kernel.guest_is_at(manifest)
            await asyncio.to_thread(self._mark, recorder, manifest)

    def _mark(self, recorder: Recorder, manifest: Manifest) -> None:
        """Whatever happens now: the next kernel goes on from here, not from what was undone."""
        try:
            self._thin_out(recorder, recorder.mark(manifest))
        except (WasmKernelError, OSError) as e:
            self._kernel.log.warning("where the session is could not be written: %s", e)

    async def reset(self) -> None:
        """A fresh interpreter over the same files."""
        recorder = self._recorder
        async with self._kernel.guest:
            await self.settled()
            await asyncio.to_thread(self._kernel.live.sandbox.reset)
            self.moved(None)
            if self.on and recorder.last is not None:  # so that the next kernel is fresh, too, and this can be undone
                beginning = self._beginning()
                recorder.captured(beginning.memory)
                self._enqueue(_Pending(beginning, "checkpoint", 1, {}, {"cell": "", "number": 0}))

    async def undo(self, cells: int) -> Snapshot:
        """As before the last so many cells."""
        await self.settled()
        known = {s.snapshot_id: s for s in self.snapshots()}
        here = self._recorder.last
        left = []
        while here is not None and cells > 0:
            if "number" in here.metadata:
                left.append(here.snapshot_id)
                cells -= 1
            here = known.get(here.parent)
        if here is None:
            there = max(0, len(left) - 1)
            raise ConfigurationError(f"there are only {there} cells to undo; `%session log` shows them")
        while "number" not in here.metadata and here.parent in known:  # the same moment, taken again
            here = known[here.parent]
        undone = [*self._redo, *left]
        await self.restore(here)
        self._redo = undone
        return here

    async def redo(self) -> Snapshot:
        """What the last undo undid, a cell at a time."""
        if not self._redo:
            raise ConfigurationError("there is nothing to redo: no undo came before, or a cell has run since")
        snapshot = self.find(self._redo[-1])
        waiting = self._redo[:-1]
        await self.restore(snapshot)
        self._redo = waiting
        return snapshot

    # ---- giving memory back

    async def release(self) -> bool:
        """Give the guest's memory back to the system; the next use brings it back. Called with the lock held."""
        kernel = self._kernel
        sandbox = kernel.live.sandbox
        if not self.on or self._released is not None or sandbox.fresh or sandbox.next_task is not None:
            return False
        # Always: widgets and background tasks may have changed something since the last checkpoint.
        guest = await self._capture(scrub=True)
        self._recorder.expect_files()
        pending = self._enqueue(_Pending(guest, "checkpoint", kernel.execution_count, self._variables, {}))
        try:
            last = await asyncio.wrap_future(pending.written)
        except (WasmKernelError, OSError):  # no room on the disk: the memory stays where it is
            self.used = time.monotonic()
            return False
        await asyncio.to_thread(sandbox.release)
        self._released = last.snapshot_id
        return True

    async def awake(self) -> None:
        """Bring the guest's memory back if it was given away. Called with the lock held, before the guest is asked."""
        released, self._released = self._released, None
        self.used = time.monotonic()
        if released is not None:
            store, session_id = self._recorder.store, self._kernel.live.session_id
            manifest = await asyncio.to_thread(read_snapshot, store, session_id, released)
            await asyncio.to_thread(lambda: self._recorder.restore(manifest, files=False))
            self._kernel.live.sandbox.next_task = None  # else it had not been given away


def compare(before: Variables, after: Variables) -> dict[str, list[str]]:
    """Names added, removed and changed; as many as a person reads."""
    changed = [name for name in after if name in before and after[name] != before[name]]
    return {
        "added": sorted(name for name in after if name not in before)[:_MOST_NAMES],
        "removed": sorted(name for name in before if name not in after)[:_MOST_NAMES],
        "changed": sorted(changed)[:_MOST_NAMES],
    }


def compare_files(before: Manifest, after: Manifest) -> dict[str, list[str]]:
    """Files added, removed and changed between two snapshots."""

    def listed(manifest: Manifest) -> dict[str, object]:
        return {
            f.path.decode("utf-8", "replace"): (f.kind, f.size, f.chunks, f.target)
            for f in manifest.files
            if f.mount == "app"
        }

    old, new = listed(before), listed(after)
    return {
        "added": sorted(name for name in new if name not in old),
        "removed": sorted(name for name in old if name not in new),
        "changed": sorted(name for name in new if name in old and new[name] != old[name]),
    }
