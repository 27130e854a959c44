"""The guest itself: its memory and state, the instance that runs it, its turns, and its recovery after a trap.

After each turn the memory is kept (`GuestMemory.keep`), so that a later trap costs only the turn that trapped. All of
this is for the sandbox's own thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from wasm_kernel.errors import SandboxError
from wasm_kernel.guest import wire
from wasm_kernel.host.disk import locks, packages
from wasm_kernel.host.network.guest_network import GuestNetwork
from wasm_kernel.host.runtime import scratch, tasks
from wasm_kernel.host.runtime.captured import Captured, TurnDelta
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.guest_files import GuestFiles
from wasm_kernel.host.runtime.guest_image import GuestImage
from wasm_kernel.host.runtime.guest_state import GuestState, Phase
from wasm_kernel.host.runtime.instance import MOST_UNUSED, Instance
from wasm_kernel.host.runtime.instance_parts import AtRest, Fork, Handlers, Limits
from wasm_kernel.host.runtime.job_thread import JobThread
from wasm_kernel.host.runtime.memory import CHUNK, GuestMemory
from wasm_kernel.host.runtime.output_buffer import OutputBuffer
from wasm_kernel.host.runtime.received_memory import ReceivedMemory
from wasm_kernel.host.runtime.run import Run
from wasm_kernel.host.runtime.ticker import ticker
from wasm_kernel.host.runtime.workers import Elsewhere, LocalWorkers, Turn, most_workers
from wasm_kernel.model.outcome import TrapCause
from wasm_kernel.model.policy import ExecutionPolicy

_REPLY_ROOM = 16 << 20  # a reply may be this much larger than display_max_bytes
_SCRUB_SECONDS = 10.0
_WITH_WORKERS = ("execute", "program")  # what people run; the rest is short, or happens between cells
_WORTH_SCRUBBING = 8 << 20  # bytes that changed: some of them may be free by now
MOST_LOGGED = 4000 << 20  # bytes of memory, changed by one cell, that are logged before it is answered


# Reads all of a snapshot's memory, and returns a function that then makes it and cannot fail: from the present memory,
# if that is known page by page, or from scratch.
Prepare = Callable[[GuestMemory, bool], Callable[[], GuestMemory]]


class LiveGuest:
    """A guest that takes turns; when one of them traps, it is put back to what it was before."""

    def __init__(
        self,
        img: GuestImage,
        folder: Path,
        policy: ExecutionPolicy,
        installed: Path | None,
        thread: JobThread,
        *,
        in_session: bool,
    ) -> None:
        self.image, self.policy = img, policy
        self._packages = installed  # a folder of `packages`
        self._data: Path | None = None
        self._thread = thread
        self.memory = GuestMemory(img.memory)
        self.state = GuestState(img.rest)
        self.instance: Instance | None = None
        self.files = GuestFiles(folder, scratch.make(), in_session=in_session)
        self.network = GuestNetwork(lambda: self.policy)
        self._request = b""
        self._capture: OutputBuffer | None = None
        self._workers: tasks.TaskRunner | None = None  # of the present turn
        self.elsewhere: Elsewhere | None = None  # where workers run instead of on this machine
        self._sessions: frozenset[str] = frozenset()  # hidden from it
        self._scrubbing = False
        self._left_out = False  # the log has no change of memory for the last cell, which is still to be kept

    @property
    def closed(self) -> bool:
        """Whether its sandbox was closed, maybe while it ran."""
        return self._thread.closed

    # ---- turns

    def turn(self, request: dict[str, Any], buffers: tuple[bytes, ...], capture: OutputBuffer, run: Run) -> None:
        """One turn of the guest. Raises `Trapped`: `recover` has to be called then."""
        instance, policy, state = self._live(), self.policy, self.state
        if not self.files.in_session:
            self._sessions = locks.named_sessions(self.files.folder)
            instance.hide_sessions(self._sessions)
        elsewhere, count = self.elsewhere, 0
        if request["op"] in _WITH_WORKERS:
            count = most_workers(policy) if elsewhere is None else elsewhere.most_workers(policy)
        request = {**request, "memory_limit": policy.memory_bytes, "workers": count}
        if state.fresh:
            request = {**request, "fresh": {"seed": os.urandom(16).hex(), "env": dict(policy.env)}}
        if self._packages is not None:
            request = {**request, "packages": packages.in_use(self._packages)}
        if state.reseed:
            request = {**request, "reseed": os.urandom(16).hex()}
        self._request = wire.encode(request, buffers)
        self._capture = capture
        if request["op"] in _WITH_WORKERS:
            context = Turn(instance, run, capture, self.files, policy, self._worker_instance)
            if elsewhere is None:
                self._workers = LocalWorkers(context)
            else:
                self._workers = elsewhere.runner(context, self.image, self._packages)
        self.files.begin_turn(self._sessions)
        self._thread.begin_turn(run, instance, interruptible=not self._scrubbing)
        ticker.enter(instance)
        state.begin_turn()
        try:
            instance.turn(run, policy.fuel_budget)
            if capture.reply is not None:
                state.replied()
        finally:
            ticker.leave(instance)
            workers, self._workers = self._workers, None
            if workers is not None:
                workers.end()
            self._thread.end_turn()
            capture.finish()
            self._capture = None

    def recover(self, trap: Trapped) -> None:
        """Throw the instance away; the next turn gets another one, with the memory of before."""
        if self.instance is not None:
            self.state.trapped(self.instance.clock_ns())
        self.drop_instance()
        self.network.close_all()
        if not self.state.saved:
            self.start_afresh()
        if trap.cause is TrapCause.HOST:
            raise SandboxError("the sandbox's host failed while serving the guest") from trap.__cause__

    def _live(self) -> Instance:
        """The instance, made when first needed and after a trap."""
        if self.instance is None:
            policy, files = self.policy, self.files
            handlers = Handlers(
                self._on_output,
                self._on_frame,
                files.first_change,
                self._left,
                max_frame=min(policy.display_max_bytes + _REPLY_ROOM, wire.MAX_FRAME_BYTES),
                frame_refused=self._on_refused_frame,
            )
            limits = Limits(policy.memory_bytes, policy.max_file_bytes, policy.max_open_files)
            self.instance = self._make_instance(limits, handlers, self.memory, self.state.rest)
        return self.instance

    def _make_instance(
        self, limits: Limits, handlers: Handlers, memory: GuestMemory | ForkedMemory | ReceivedMemory, rest: AtRest
    ) -> Instance:
        eng, modules = self.image.modules(metered=self.policy.fuel_budget is not None)
        mounts = self.image.mounts(self.files.folder, self.files.scratch, self._packages, self._shown_data())
        return Instance(eng, modules["guest"], modules, mounts, {}, limits, handlers, memory, rest)

    def _worker_instance(self, limits: Limits, handlers: Handlers, fork: Fork) -> Instance:
        instance = self._make_instance(limits, handlers, fork.memory, fork.rest)
        if not self.files.in_session:
            instance.hide_sessions(self._sessions)
        return instance

    def _left(self, kind: int, wanted: int) -> tuple[int, int]:
        return self._workers.room(kind, wanted) if self._workers is not None else self.files.left(self.policy, kind)

    def keep(self, most: int | None = None) -> bool:
        """Bring the files of its memory up to date, if no more than ``most`` bytes changed; whether they are now."""
        if self.instance is not None and self.state.needs_keeping:
            try:
                rest = self.instance.keep(most)
            except BaseException:
                self.state.could_not_keep()
                raise
            if rest is None:
                return False
            self.state.kept(rest)
        if self._left_out:
            self._left_out = False
            self.memory.logged()
        return True

    def settle(self) -> None:
        """`keep` between two jobs. Without room for it the live memory is right, and stays in use."""
        try:
            self.keep()
        except Exception:  # noqa: BLE001 - the thread must go on; only a trap would now cost all of the memory
            return
        if self.memory.wants_marks and self.instance is not None and self.state.phase is Phase.KEPT:
            self.memory.mark(self.instance.memory_span[0])

    def rest(self) -> None:
        """Give back memory that is held twice, when there is time for it."""
        if self.instance is not None and self.state.phase is Phase.KEPT:
            with contextlib.suppress(OSError):  # it stays as it is
                self.memory.rest(*self.instance.memory_span)

    def drop_instance(self) -> None:
        """Do without an instance until the next turn makes one, over the memory that is kept."""
        instance, self.instance = self.instance, None
        if instance is not None:
            instance.close()

    def start_afresh(self, img: GuestImage | None = None, *, empty_scratch: bool = True) -> None:
        """Begin again from the base memory of its image, or of another one; /tmp is emptied."""
        self.drop_instance()
        self.network.close_all()
        if img is None or img.key == self.image.key:
            self.memory.reset()
        else:
            self.memory.close()
            self.image, self.memory = img, GuestMemory(img.memory)
        self.state.started_afresh(self.image.rest)
        if empty_scratch:
            scratch.empty(self.files.scratch)
        scratch.furnish(self.files.scratch)

    def restart(self, files: Callable[[], None]) -> None:
        """The same, after ``files`` has put the workspace and /tmp in order."""
        self.drop_instance()
        files()
        self.start_afresh(empty_scratch=False)

    def change_policy(self, policy: ExecutionPolicy) -> None:
        """Other limits from the next turn on."""
        self.keep()
        self.drop_instance()  # the next one is made with these limits, over the same memory
        self.policy = policy

    def show_data(self, folder: Path | None) -> None:
        """Show a folder of the host's at /data, read-only, from the next turn on; None: an empty one."""
        self.keep()
        self.drop_instance()  # the next one is made with it, over the same memory
        self._data = folder

    def _shown_data(self) -> Path | None:
        """What to mount at /data: nothing of a folder that is gone, so that the guest goes on without it."""
        return self._data if self._data is not None and os.access(self._data, os.R_OK | os.X_OK) else None

    def close(self) -> None:
        """Release its memory and files."""
        self.drop_instance()
        self.network.close_all()
        self.memory.close()
        scratch.remove(self.files.scratch)

    # ---- snapshots

    def log_turn(self, log: Callable[[TurnDelta], bool]) -> None:
        """Give ``log`` what changed since it last took something; it says whether it took this."""
        try:
            kept = self.keep(MOST_LOGGED)
        except Exception:  # noqa: BLE001 - there is no room to keep it; the cell has run all the same
            kept = False
        memory, state, instance = self.memory, self.state, self.instance
        size, rest = memory.size, state.rest
        if not kept and instance is not None:
            size, rest = instance.memory_size, instance.rest()
        body = memory.delta() if kept and memory.delta_bytes <= MOST_LOGGED else None
        if log(TurnDelta(size, rest, state.fresh, self.files.changed, body)):
            if kept:
                memory.logged()
            else:
                self._left_out = True

    def replay(self, size: int, delta: bytes, rest: AtRest | None) -> None:
        """Become the guest of the next cell of a log; without ``rest``: a fresh one."""
        self.drop_instance()
        self.network.close_all()
        if rest is None:
            self.start_afresh(empty_scratch=False)
            return
        self.memory.replay(size, delta)
        self.state.restored(rest, reseed=False)

    def captured(
        self, split: Container[int], everything: bool, files_differ: Callable[[], bool], scrub: bool
    ) -> Captured:
        """The guest at rest: what changed since the capture before, or all of it."""
        self.keep()
        if scrub or self.memory.changed_bytes > _WORTH_SCRUBBING:
            self._scrub()
            self.keep()
        if not self.state.saved:
            raise SandboxError("the guest's memory could not be kept: there is no room for it")
        return self._captured(split, everything, files_differ)

    def captured_if_kept(self, split: Container[int], files_differ: Callable[[], bool]) -> Captured | None:
        """What changed since the capture before; None if that takes long, or needs the guest. On any thread."""
        too_much = self.files.changed or self.memory.changed_bytes > _WORTH_SCRUBBING
        if too_much or self.state.phase is not Phase.KEPT:
            return None
        return self._captured(split, False, files_differ)

    def _captured(self, split: Container[int], everything: bool, files_differ: Callable[[], bool]) -> Captured:
        changed = self.files.changed or files_differ()
        self.files.changed = False
        memory = self.memory.capture(split, everything=everything)
        return Captured(memory, self.state.rest, self.image.key, self.state.fresh, changed)

    def captured_whole(self) -> GuestMemory | None:
        """Its memory, if the last capture, with those before it, has all of it."""
        self.keep()
        return self.memory if self.state.phase is Phase.KEPT and not self.memory.changed_bytes else None

    def _scrub(self) -> None:
        """Clear the memory that the guest has freed; all of it is kept first, in case this fails."""
        if self.instance is None or self.state.phase is not Phase.KEPT:
            return
        self._scrubbing = True
        self.instance.let_grow(False)
        try:
            request = {"op": "scrub", "least": 2 * CHUNK, "most": MOST_UNUSED}
            run = Run(_SCRUB_SECONDS, self.policy.interrupt_grace_seconds)
            self.turn(request, (), OutputBuffer(self.policy, None), run)
        except Trapped as e:
            self.recover(e)
        finally:
            self._scrubbing = False
            if self.instance is not None:
                self.instance.let_grow(True)

    def restore(
        self, img: GuestImage, prepare: Prepare, rest: AtRest, *, files: Callable[[], None], reseed: bool
    ) -> None:
        """Become the guest of a snapshot; see `Sandbox.restore`."""
        self.settle()
        finish = prepare(self.memory, self.state.saved)
        self.drop_instance()
        self.network.close_all()
        files()
        scratch.furnish(self.files.scratch)
        self.image, self.memory = img, finish()
        self.state.restored(rest, reseed=reseed)

    # ---- what the guest brings up

    def _on_output(self, fd: int, data: bytes) -> None:
        if self._capture is not None:
            self._capture.write(fd, data)

    def _on_refused_frame(self, size: int) -> None:
        if self._capture is not None:
            most = wire.MAX_FRAME_BYTES
            self._capture.refuse(f"it holds more than {most} bytes" if size > most else "")

    def _on_frame(self, frame: bytes) -> bytes:
        capture = self._capture
        if capture is None:
            return b""
        try:
            event = wire.decode_event(frame)
        except wire.TooMuch as e:
            capture.refuse(str(e))
            raise
        if isinstance(event, wire.NextRequest):
            request, self._request = self._request, b""
            capture.begin()
            return request
        if isinstance(event, wire.Reply):
            capture.take_reply(event, len(frame))
        elif isinstance(event, wire.Unused):
            if self._scrubbing and self.instance is not None:
                self.instance.forget(event.stretches)
        elif isinstance(event, wire.InterruptSeen):
            if self._thread.run is not None:
                self._thread.run.interrupt_seen()
        elif isinstance(event, wire.Parent):
            capture.belongs_to(event)
        elif isinstance(event, wire.InputRequest):
            return self._thread.ask("input", event) if capture.take(event, len(frame)) else wire.ANSWER_REFUSED
        elif isinstance(event, wire.HostMagic):
            return self._thread.ask("magic", event)
        elif isinstance(event, wire.Waiting):
            return self._thread.await_message(event.seconds)
        elif isinstance(event, wire.WorkerRequest):
            return self._ask_workers(event)
        elif isinstance(event, wire.WorkerSays):
            raise wire.BadFrame("only a worker says that")
        elif isinstance(event, wire.Network):
            return self.network.answer(event, self._live().pump)
        else:
            capture.take(event, len(frame))
        return b""

    def _ask_workers(self, request: wire.WorkerRequest) -> bytes:
        workers, instance = self._workers, self.instance
        if workers is None or instance is None:
            raise wire.BadFrame("there are no workers between cells")
        return tasks.answer(workers, request, instance.pump)
