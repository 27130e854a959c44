"""The session a kernel works in: found by its notebook, or by name, or made for this kernel alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ConfigurationError, SessionLocked, WasmKernelError
from wasm_kernel.host import image
from wasm_kernel.host.ledger import STATE_FOLDER, SessionLock, lock_session, read_record
from wasm_kernel.kernel import notebook as notebooks
from wasm_kernel.kernel.history import History
from wasm_kernel.kernel.notices import Notice, mark_shown, unshown
from wasm_kernel.model.administrator import Rules
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import BadRecord, check_session_id
from wasm_kernel.model.units import format_duration
from wasm_kernel.sessions.catalog import create_session_folder, delete_session_workspace, prepared_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notebooks import (
    Opened,
    follow_notebook,
    forget_notebook,
    note_identity,
    open_notebook_session,
)
from wasm_kernel.sessions.session import LiveSession

if TYPE_CHECKING:
    from wasm_kernel.model.snapshots import Manifest

_RESTART_PATIENCE = 2.0  # the kernel before this one may still be on its way out


@dataclass
class Home:
    """Where this kernel lives. Its methods block: they are called off the message loop."""

    root: Path
    policy: ExecutionPolicy
    logger: SandboxLogger
    connection_file: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    rules: Rules = field(default_factory=Rules)  # the administrator's
    maxima: dict[str, Any] = field(default_factory=dict)  # of limits: the rules', and the configuration's
    notebook: Path | None = None
    notes: list[str] = field(default_factory=list)  # what the person should be told with the next cell
    notices: list[Notice] = field(default_factory=list)  # the same, from who keeps house here
    resumed: Manifest | None = None  # what the guest goes on from
    starts_fresh: bool = False  # a restart asked for it, and nothing that could be gone on with was saved since
    refused: str = ""  # why nothing may run here
    temporary: bool = False  # nobody can come back to it: without files it is not kept

    def open(self) -> LiveSession:
        """Open the session. `ImageMissing` if the image has to be built first."""
        if self.refused:
            raise ConfigurationError(self.refused)
        img = image.load()
        self.root = prepared_root(self.root)
        found = self._find()
        if found.note:
            self.notes.append(found.note)
        live = self._live(found.session_id, found.folder, img, found.lock)
        if not self.temporary:  # somebody sits before it
            self.resumed = self._resume(live)
            self.notices = unshown(self.root)
        return live

    def _resume(self, live: LiveSession) -> Manifest | None:
        """Go on where the last kernel of this session ended, unless it was asked to restart."""
        if not (live.root / STATE_FOLDER / "snapshots" / "manifests" / live.session_id).is_dir():
            return None
        record = None
        with contextlib.suppress(BadRecord):
            record = read_record(live.folder)
        if record is not None and record.extra.get("fresh_start"):
            self.starts_fresh = True
            return None
        from wasm_kernel.sessions.snapshots import open_from_snapshot

        try:
            manifest = open_from_snapshot(live)
        except (WasmKernelError, OSError) as e:
            self.notes.append(f"The variables of last time could not be brought back: {e}. The interpreter is fresh.")
            return None
        return manifest if manifest is not None and manifest.entry else None

    def has_begun(self, live: LiveSession) -> None:
        """There is a snapshot of what began afresh: the next kernel goes on from that one."""
        if self.starts_fresh:
            self.starts_fresh = False
            live.note(fresh_start=False)

    def tell_of_return(self, history: History) -> None:
        """One line for the first cell: where we are, and the way to start fresh."""
        if self.resumed is None:
            return
        snapshot = self.resumed.snapshot
        age = format_duration(max(0.0, (datetime.now(UTC) - snapshot.created_at).total_seconds()))
        lost = history.begun_since(snapshot.created_at.timestamp())
        note = f"Continued where this notebook was {age} ago, with its variables"
        if lost is not None:
            note = (
                f"The kernel ended while cell [{lost}] ran, {age} ago: everything before it is back, its work is lost"
            )
        self.notes.append(f"{note}. To start fresh: %session reset")

    def told(self) -> list[str]:
        """What is to be told now; it is not told again."""
        notes, self.notes = self.notes, []
        notices, self.notices = self.notices, []
        if notices:
            mark_shown(self.root, notices)
        return [*notes, *(notice.text for notice in notices)]

    def _find(self) -> Opened:
        named = self.environ.get("WASM_KERNEL_SESSION", "")
        if named:
            return self._by_name(named)
        self.notebook = notebooks.from_environment(self.environ)
        if self.notebook is not None:
            return open_notebook_session(self.root, self.notebook, self.logger, wait=_RESTART_PATIENCE)
        self.temporary = True
        return Opened(*create_session_folder(self.root, self.logger))

    def _by_name(self, session_id: str) -> Opened:
        try:
            check_session_id(session_id)
            lock = lock_session(self.root, session_id, _RESTART_PATIENCE)
        except (ValueError, SessionLocked) as e:
            raise ConfigurationError(f"WASM_KERNEL_SESSION: {e}") from None
        if not (self.root / session_id).is_dir():
            lock.release()
            _, folder, lock = create_session_folder(self.root, self.logger, session_id=session_id)
        return Opened(session_id, self.root / session_id, lock)

    def _live(self, session_id: str, folder: Path, img: image.Image, lock: SessionLock) -> LiveSession:
        try:
            return LiveSession(session_id, folder, img, self.policy, lock)
        except BaseException:
            lock.release()
            raise

    # ---- moving house

    def move_to(self, session_id: str, now: LiveSession) -> LiveSession:
        """Leave a session for another that exists; the notebook's, from now on."""
        self.check_other(session_id, now)
        lock = lock_session(self.root, session_id)
        live = self._move(Opened(session_id, self.root / session_id, lock), now, resume=True)
        live.note(grants={})  # they were given to another notebook
        return live

    def check_other(self, session_id: str, now: LiveSession) -> None:
        """Refuse what is no session that could be moved to."""
        check_session_id(session_id)
        if not (self.root / session_id).is_dir() or (self.root / session_id).is_symlink():
            raise ConfigurationError(f"there is no session {session_id}; `%session list` shows which there are")
        if session_id == now.session_id:
            raise ConfigurationError(f"this is session {session_id} already")

    def move_to_new(self, now: LiveSession) -> LiveSession:
        """Leave a session for a new one."""
        return self._move(Opened(*create_session_folder(self.root, self.logger)), now)

    def _move(self, to: Opened, now: LiveSession, *, resume: bool = False) -> LiveSession:
        live = self._live(to.session_id, to.folder, image.load(), to.lock)
        if self.notebook is not None:
            forget_notebook(self.root, now.session_id)
            follow_notebook(self.root, to.session_id, self.notebook)
        now.close()
        self.temporary, self.resumed = False, self._resume(live) if resume else None
        return live

    def follow(self, now: LiveSession) -> None:
        """Ask the server whether the notebook was renamed, and look at what is in it now."""
        if self.notebook is not None:
            where = notebooks.from_server(self.environ, self.connection_file)
            if where is not None and where != self.notebook:
                self.notebook = where
                follow_notebook(self.root, now.session_id, where)
            else:
                note_identity(self.root, now.session_id, self.notebook)

    def leave(self, now: LiveSession) -> None:
        """The kernel ends."""
        if self.notebook is not None:
            note_identity(self.root, now.session_id, self.notebook)
        now.close()
        if self.temporary and not any(p.name[0] != "." for p in now.folder.iterdir()):
            with contextlib.suppress(OSError, SessionLocked):
                delete_session_workspace(now.session_id, self.root, self.logger)


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where sessions' folders are: `WASM_KERNEL_WORKSPACE`, or a folder of the user's, never the current one."""
    given = environ.get("WASM_KERNEL_WORKSPACE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("wasm-kernel")) / "workspace"
