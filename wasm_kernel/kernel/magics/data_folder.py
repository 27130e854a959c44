"""The folder of the person's that this kernel's session sees at /data, read-only.

Which one it is stands in the session's metadata, so it is shown again when the notebook is opened again, if the
permission, the administrator's rules and the folder are still there. A session that is copied, imported or attached
elsewhere starts without. Snapshots hold nothing of it, and undo does not touch it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from wasm_kernel.errors import ConfigurationError, NotAllowed, WasmKernelError
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.kernel.magics.grants import Grants, forbidden
from wasm_kernel.kernel.notebook_session import NotebookSession
from wasm_kernel.model.names import is_kept_back
from wasm_kernel.model.records import BadRecord
from wasm_kernel.sessions.runtime import SessionRuntime

_FIELD = "data_folder"


class DataFolder:
    """What a kernel shows its guest at /data.

    Attributes:
        shown: The folder; None: nothing.
    """

    def __init__(self, place: NotebookSession, granted: Grants) -> None:
        self._place, self._granted = place, granted
        self._runtime: SessionRuntime | None = None
        self.shown: Path | None = None

    @property
    def described(self) -> str:
        """A line about it for a person."""
        return f"{self.shown}, read-only" if self.shown is not None else "nothing"

    def moved_in(self, runtime: SessionRuntime) -> None:
        """The kernel has opened a session: show what that has at /data."""
        self._runtime, self.shown = runtime, None
        try:
            record = read_record(runtime.live.folder)
        except BadRecord:
            record = None
        named = record.extra.get(_FIELD) if record is not None else None
        if not isinstance(named, str) or not named:
            return
        folder = self._still_permitted(Path(named))
        if folder is not None:
            runtime.sandbox.show_data(folder)
        self.shown = folder

    def _still_permitted(self, folder: Path) -> Path | None:
        """The folder, if it may be shown as when the person allowed it; otherwise the next cell says why not."""
        try:
            if "mount" not in self._granted.given():
                raise NotAllowed(forbidden("mount") or "the permission for it was taken back")
            return self._permitted(folder, folder)
        except (WasmKernelError, OSError) as e:
            self._place.announcements.warn(f"{folder} is not shown at /data: {e}")
            return None

    async def check(self) -> None:
        """Before a cell: what is no longer permitted is no longer shown, though a later opening may show it again."""
        runtime = self._runtime
        if runtime is not None and self.shown is not None and self._still_permitted(self.shown) is None:
            self.shown = None
            async with runtime.guest:
                await asyncio.to_thread(runtime.sandbox.show_data, None)

    def find(self, wanted: str) -> Path:
        """The folder that a person means; refused if a notebook may not see it."""
        beside = self._place.folder
        try:
            return self._permitted(beside / Path(wanted).expanduser(), beside)
        except OSError as e:
            raise ConfigurationError(f"{wanted or beside} cannot be shown: {e.strerror}") from None

    def _permitted(self, wanted: Path, beside: Path) -> Path:
        folder, beside, root = wanted.resolve(strict=True), beside.resolve(), self._place.root.resolve()
        if not folder.is_dir():
            raise ConfigurationError(f"{wanted} is not a folder")
        ruled = administrator.data_folders()
        if ruled is None and not _holds(beside, folder):
            raise ConfigurationError(f"{wanted} is neither the notebook's folder, {beside}, nor a folder in it")
        if ruled is not None and not any(_holds(shared.resolve(), folder) for shared in ruled):
            allowed = ", ".join(map(str, ruled)) or "none"
            raise NotAllowed(f"the administrator lets notebooks see only these folders at /data: {allowed}")
        if _holds(root, folder) or _holds(folder, root):
            raise NotAllowed(f"{folder} and your sessions, in {root}, are one within the other; sessions stay apart")
        return folder

    async def show(self, folder: Path | None) -> None:
        """Show a folder, or nothing any more, also when the session is opened again. While the guest is idle."""
        runtime = self._runtime
        assert runtime is not None
        async with runtime.guest:
            await asyncio.to_thread(runtime.sandbox.show_data, folder)
        self.shown = folder
        runtime.live.note(**{_FIELD: str(folder or "")})


def _holds(folder: Path, other: Path) -> bool:
    """Whether a guest that sees a folder would see another one in it: not below a name that is kept back."""
    return other.is_relative_to(folder) and not any(map(is_kept_back, other.relative_to(folder).parts))
