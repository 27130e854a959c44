"""A kernel's file browsers, also those that stand in the notebook's outputs although the kernel that made them is gone.

The session's metadata, which no guest sees, says under which ids front ends know them. The next kernel opens them again
under these ids when a page asks what is open, and the page finds them as it finds widgets after a reload.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.kernel.comm_messages import CommMessages
from wasm_kernel.kernel.current_session import CurrentSession
from wasm_kernel.model.records import FILE_BROWSERS, BadRecord
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.session import LiveSession

if TYPE_CHECKING:
    from wasm_kernel.kernel.files.browser import Browsers

WIDGET_CONTROL = "jupyter.widget.control"
_ID = re.compile(r"[0-9a-f]{32}\Z")


class KeptBrowsers:
    """The file browsers of one kernel. Their widgets are imported with the first."""

    def __init__(self, current: CurrentSession, comms: CommMessages) -> None:
        self._current, self._comms = current, comms
        self._browsers: Browsers | None = None

    def show(self, folder: str) -> dict[str, Any]:
        """A new browser, as front ends with widgets show it."""
        runtime = self._current.runtime
        assert runtime is not None
        browsers = self._prepared(runtime)
        shown = browsers.make(folder).mime_bundle()
        runtime.live.note(**{FILE_BROWSERS: browsers.open})
        return shown

    def refresh(self) -> None:
        """A cell has run."""
        if self._browsers is not None:
            self._browsers.refresh()

    async def reopen(self) -> None:
        """Open again what earlier kernels left. No front end is told: the one that asks learns of it by the answer."""
        if self._browsers is not None:
            return
        with contextlib.suppress(WasmKernelError, OSError):  # the session cannot be opened: its cells will say so
            runtime = await self._current.if_possible()
            left = _left_open(runtime.live) if runtime is not None else []
            if runtime is None or not left or self._browsers is not None:
                return
            comms = self._comms.prepare_host()
            comms.quiet = True
            try:
                for model_id, folder in left:
                    self._prepared(runtime).make(folder, model_id)
            finally:
                comms.quiet = False

    def _prepared(self, runtime: SessionRuntime) -> Browsers:
        if self._browsers is None:
            self._comms.prepare_host()  # before ipywidgets is imported
            from wasm_kernel.kernel.files.browser import Browsers

            self._browsers = Browsers(runtime, self._current.place.environ)
        return self._browsers


def _left_open(live: LiveSession) -> list[tuple[str, str]]:
    """The ids and folders of browsers that earlier kernels made."""
    record = None
    with contextlib.suppress(BadRecord):
        record = read_record(live.folder)
    found = record.extra.get(FILE_BROWSERS) if record is not None else None
    if not isinstance(found, list):
        return []
    pairs = [item for item in found if isinstance(item, list) and len(item) == 2]
    return [(key, at) for key, at in pairs if isinstance(key, str) and _ID.match(key) and isinstance(at, str)]
