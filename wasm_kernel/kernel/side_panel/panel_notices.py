"""What side panels tell the person without being asked: notices, and how far the image is that is being built."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import Interrupted
from wasm_kernel.kernel.announcements import Announcement
from wasm_kernel.kernel.current_session import CurrentSession

if TYPE_CHECKING:
    from wasm_kernel.kernel.image_progress import ImageBuild

Message = dict[str, Any]
_OFF = (
    "Checkpoints are switched off (WasmKernel.checkpoint = False): cells cannot be undone, and variables are lost when "
    "the kernel is killed"
)


class PanelNotices:
    """Sends side panels what they are to show. On the kernel's loop, but for what says otherwise."""

    def __init__(self, current: CurrentSession, send: Callable[[Message], None]) -> None:
        """``send``: sends a message to every side panel."""
        self._current, self._send, self._loop = current, send, asyncio.get_running_loop()
        self._announcements = current.place.announcements
        self._announcements.on_added = lambda: self._soon(self.offer)
        self._build: tuple[str, ImageBuild] | None = None
        self._told_off = False
        current.on_build = self._follow
        if current.build is not None:
            self._follow(current.build)

    def _soon(self, work: Callable[[], None]) -> None:
        """Do something on the loop. Called on any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(work)

    def opened(self) -> None:
        """There is another side panel."""
        self.offer()
        if self._build is not None and self._current.build is not None:
            self._progressed()

    def offer(self) -> None:
        """Send everything that the person was not told yet."""
        for announcement in self._announcements.offer():
            self._send({"notice": _notice(announcement)})

    def seen(self, name: str) -> None:
        """A side panel shows a notice, or the progress of the build."""
        if self._build is not None and self._build[0] == name:
            self._build[1].is_followed = True
        self._announcements.told(name)

    def session_opened(self) -> None:
        """There is a session: a person who looks at its timeline must know if nothing will appear in it."""
        runtime = self._current.runtime
        if runtime is not None and not runtime.rules.on and not self._told_off:
            self._told_off = True
            self._announcements.add(Announcement("unstored", _OFF, values={"why": "off"}, in_cells=False))

    # ---- the image

    def _follow(self, build: ImageBuild) -> None:
        self._build = (uuid.uuid4().hex, build)
        build.follow(lambda: self._soon(self._progressed))
        self._progressed()

    def _progressed(self) -> None:
        assert self._build is not None
        name, build = self._build
        state, problem = "running", ""
        if build.done.done():
            error = build.done.exception()
            state = "ready" if error is None else "stopped" if isinstance(error, Interrupted) else "failed"
            problem = "" if error is None else str(error)
        step, steps = build.step
        told = {"id": name, "state": state, "step": step, "steps": steps, "fraction": build.fraction, "text": problem}
        self._send({"progress": told})


def _notice(announcement: Announcement) -> Message:
    return {
        "id": announcement.id,
        "kind": announcement.kind,
        "good": announcement.good,
        "text": announcement.full_text,
        "values": dict(announcement.values),
    }
