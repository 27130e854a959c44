"""The session a kernel works in: opened by the first request that needs it, exchanged for another, closed.

`notebook_session` chooses it; `sessions.runtime` runs code in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ImageMissing
from wasm_kernel.host.disk.locks import state_folder
from wasm_kernel.kernel.input_history import History
from wasm_kernel.kernel.notebook_session import NotebookSession
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.sessions.opening import OpenedSession
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.session import LiveSession

if TYPE_CHECKING:
    from wasm_kernel.kernel.image_progress import ImageBuild
    from wasm_kernel.model.timeline_rows import TimelineRow
    from wasm_kernel.sessions.timeline import Timeline

Message = dict[str, Any]
_END_PATIENCE = 2.0  # seconds a running cell gets when the kernel ends
_FOLLOW_SECONDS = 60.0  # between questions to the server whether the notebook was renamed


@dataclass(frozen=True)
class SessionSettings:
    """What the kernel's configuration says about its session.

    Attributes:
        checkpoints: Which checkpoints to take.
        startup_code: Python run in every fresh guest, before the first cell.
        idle_seconds: Release the guest's memory after this long without use; 0: never.
    """

    checkpoints: CheckpointRules
    startup_code: str
    idle_seconds: float


class CurrentSession:
    """A kernel's session. Its coroutines run on the kernel's loop.

    Attributes:
        place: Which session it is, and what the person is to be told.
        history: Its input history.
        on_stored: Called on the loop when a snapshot was stored, or could not be.
        on_build: Called on the loop when the image begins to be built.
    """

    def __init__(
        self,
        place: NotebookSession,
        opening: Future[OpenedSession],
        settings: SessionSettings,
        log: logging.Logger,
        on_moved: Callable[[SessionRuntime], None],
        notice: Callable[..., None],
    ) -> None:
        """``opening``: the session, being opened on a thread. ``on_moved``: called after a change of session.

        ``notice`` publishes what belongs to no cell, while none runs.
        """
        self.place, self.history = place, History(None)
        self._settings, self._log, self._on_moved, self._notice = settings, log, on_moved, notice
        self._opening: Future[OpenedSession] | None = opening
        self._entrance = asyncio.Lock()
        self._runtime: SessionRuntime | None = None
        self._timeline: Timeline | None = None
        self._build: ImageBuild | None = None
        self._releasing: asyncio.Task[bool] | None = None
        self._followed = time.monotonic()
        self.on_stored: Callable[[], None] = lambda: None
        self.on_build: Callable[[ImageBuild], None] = lambda build: None

    @property
    def runtime(self) -> SessionRuntime | None:
        """The session, if it is open."""
        return self._runtime

    @property
    def count(self) -> int:
        """The number of the running cell, or of the next one."""
        return self._runtime.count if self._runtime is not None else 1

    @property
    def timeline(self) -> Timeline:
        """The snapshots of the open session; imported when first needed."""
        if self._timeline is None:
            from wasm_kernel.sessions.timeline import Timeline

            assert self._runtime is not None
            self._timeline = Timeline(self._runtime, self._log)
            self._timeline.on_moved = self._note_undone
        return self._timeline

    def _note_undone(self, rows: Sequence[TimelineRow]) -> None:
        """Cells were undone, or redone. Their checkpoints go one day; that they were undone stays known."""
        undone = [row.key for row in rows if row.state == "undone"]
        self.history.mark_undone(undone, [row.key for row in rows if row.state != "undone"])

    # ---- opening

    async def ready(self, show: Callable[..., None] | None = None) -> SessionRuntime:
        """The open session.

        ``show`` publishes in a cell. A cell waits for the image, if that has to be built first, and shows how far it
        is; without ``show``, the build is begun, and `ImageMissing` raised.
        """
        if self._runtime is None and not await self._opened(show is None) and show is not None:
            await self._built(show)
            await self._opened(True)
        assert self._runtime is not None
        return self._runtime

    async def if_possible(self) -> SessionRuntime | None:
        """The open session; None if the image has to be built first."""
        return self._runtime if await self._opened(False) else None

    async def _opened(self, needed: bool) -> bool:
        """Open the session, if it is not open; whether it is open then. ``needed``: a missing image is an error."""
        async with self._entrance:  # opened once, however many requests wait for it
            if self._runtime is None:
                try:
                    self._moved(await self._open())
                except ImageMissing:
                    if needed:
                        self._begin_build()
                        raise
        return self._runtime is not None

    async def _open(self) -> OpenedSession:
        opening, self._opening = self._opening, None
        return await (asyncio.wrap_future(opening) if opening else asyncio.to_thread(self.place.open))

    @property
    def build(self) -> ImageBuild | None:
        """The image that is being built, if one is."""
        return self._build if self._build is not None and not self._build.done.done() else None

    @property
    def build_progress(self) -> str:
        """How far the image is that is being built, for a person; empty if none is."""
        return self.build.text if self.build is not None else ""

    def _begin_build(self) -> ImageBuild:
        """Build the image. What no cell asked for is begun once: an interrupt is not for nothing."""
        if self._build is None:
            from wasm_kernel.kernel.image_progress import ImageBuild

            self._build = ImageBuild(self._notice, self._log)
            self._build.done.add_done_callback(lambda done: self._notice("status", {"execution_state": "idle"}))
            self.on_build(self._build)
        return self._build

    async def _built(self, show: Callable[..., None]) -> None:
        """Wait for the image, whoever began to build it."""
        if self._build is not None and self._build.done.done():
            self._build = None  # it was interrupted, or failed: this cell tries again
        build = self._begin_build()
        build.watch(show)
        await asyncio.wrap_future(build.done)

    def _moved(self, opened: OpenedSession) -> None:
        place, live = self.place, opened.live
        self.history.close()
        self.history = History(state_folder(place.root) / "history" / live.session_id / "history.sqlite")
        if self._runtime is None:
            self._runtime = self._make_runtime(opened)
        else:
            self._runtime.moved(opened)
        self._runtime.on_saved, self._runtime.on_finished = self.history.saved, self.history.finished
        if opened.problem:
            place.announcements.warn(opened.problem)
        if opened.manifest is not None:
            place.tell_of_return(opened.manifest.snapshot, self.history, older_image=live.on_older_image)
        if place.remote is not None and not place.temporary:
            place.remote.moved_in(live.session_id)
        self._on_moved(self._runtime)

    def _make_runtime(self, opened: OpenedSession) -> SessionRuntime:
        settings = self._settings
        runtime = SessionRuntime(
            opened,
            settings.checkpoints,
            startup_code=settings.startup_code,
            logger=self.place.logger,
            log=self._log,
        )
        runtime.on_quota_short = self.place.tell_of_quota
        runtime.on_written = partial(self._written, asyncio.get_running_loop())
        if settings.idle_seconds:
            self._look_whether_idle(runtime)
        return runtime

    def _written(self, loop: asyncio.AbstractEventLoop, error: BaseException | None) -> None:
        """A snapshot was stored, or could not be. On the writer's thread."""
        self.place.tell_of_checkpoint(error)
        if self.place.remote is not None and error is None:
            self.place.remote.changed()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: self.on_stored())

    # ---- while it is open

    async def move(self, how: Callable[[LiveSession], OpenedSession]) -> OpenedSession:
        """Continue in another session; the one left behind can be continued later."""
        runtime = await self.ready()
        async with runtime.guest:
            await runtime.leave()
            opened = await asyncio.to_thread(how, runtime.live)
            self._moved(opened)
        return opened

    def follow(self) -> None:
        """From time to time, ask the server whether the notebook was renamed."""
        now = time.monotonic()
        if self._runtime is not None and now - self._followed > _FOLLOW_SECONDS:
            self._followed = now
            asyncio.get_running_loop().run_in_executor(None, self.place.follow, self._runtime.live)

    def _look_whether_idle(self, runtime: SessionRuntime) -> None:
        """Release the guest's memory after a while without use."""
        patience, loop = self._settings.idle_seconds, asyncio.get_running_loop()
        loop.call_later(max(0.2, min(patience / 4, 30)), self._look_whether_idle, runtime)
        if runtime.at_rest and runtime.idle_seconds > patience:
            self._releasing = loop.create_task(runtime.release())  # the loop itself holds tasks only weakly

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code. Called on any thread."""
        build, runtime = self._build, self._runtime
        if build is not None:
            build.cancel()
        if runtime is not None:
            runtime.sandbox.interrupt()

    # ---- the end

    def close(self, *, restarting: bool) -> None:
        """Release the guest's memory; keep its files, and what the next kernel continues from. On any thread."""
        runtime, opening = self._runtime, self._opening
        if runtime is not None:
            self._wait_for_rest(runtime)
            runtime.close(take=not self.place.temporary, restarting=restarting)
            self.history.close()  # the session's next kernel opens it
            self.place.leave(runtime.live)
            if self.place.remote is not None:
                self.place.remote.close(restarting=restarting)
        elif opening is not None:
            wait([opening], _END_PATIENCE)  # or an empty session would be left of a kernel that ends while it opens
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                self.place.leave(opening.result().live)
        self.history.close()

    def _wait_for_rest(self, runtime: SessionRuntime) -> None:
        """A cell was interrupted: keep what it changed so far."""
        end = time.monotonic() + _END_PATIENCE
        here = threading.current_thread() is threading.main_thread()  # then the loop is blocked while we wait
        while not here and not runtime.at_rest and time.monotonic() < end:
            time.sleep(0.01)
