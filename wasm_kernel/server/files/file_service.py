"""What requests for files work with: where the sessions are, what each may have, and threads that touch the disk."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.model.records import is_session_id
from wasm_kernel.model.settings import SessionLimits
from wasm_kernel.server.files.upload_quota import Reservations, measure
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.zip_stream import Bounds

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 4


class FileService:
    """One per server, shared by its handlers. All but `in_thread` and `close` blocks: it is for threads."""

    def __init__(self, root: Path, settings: SessionLimits, bounds: Bounds) -> None:
        self.root, self.bounds = root, bounds
        self.reservations = Reservations()
        self._settings = settings
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wasm-kernel-files")

    async def in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run work on the disk without holding up the server."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(work, *args, **kwargs))

    def close(self) -> None:
        """Called when the server stops."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def path(self, session_id: str) -> Path:
        """A session's folder; a `Problem` if its id is impossible."""
        if not is_session_id(session_id):
            raise Problem(404, f"there is no session {session_id[:140]!r}")
        return self.root / session_id

    def open(self, session_id: str) -> Folder:
        """Open a session's folder."""
        try:
            return Folder(self.path(session_id), backslashes=True)
        except OSError:
            raise Problem(404, f"there is no session {session_id}") from None

    def quota(self, session_id: str) -> Quota:
        """What a session uses and may use: by the limits of the kernel that has it open, else by the settings."""
        return measure(self.path(session_id).parent, session_id, self._settings.policy)

    def check_settings(self) -> None:
        """Let nothing be added to a session if the settings do not say how much it may hold."""
        if self._settings.problem:
            raise Problem(503, self._settings.problem)
