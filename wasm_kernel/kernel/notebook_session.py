"""Chooses the session a kernel works in: its notebook's, a named one, or one made for this kernel alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ConfigurationError, OlderImage, SandboxError, SessionLocked, WasmKernelError
from wasm_kernel.host.disk import reserve
from wasm_kernel.host.disk.locks import SessionLock, lock_session
from wasm_kernel.host.image import image
from wasm_kernel.kernel import notebook as notebooks
from wasm_kernel.kernel.announcements import Announcement, Announcements
from wasm_kernel.kernel.input_history import History
from wasm_kernel.kernel.notices import Notice, mark_shown, unshown
from wasm_kernel.model.administrator import Rules
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import NOTHING_GIVEN, check_session_id, format_time
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_duration
from wasm_kernel.sessions.catalog import create_session_folder, discard_session, prepared_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notebooks import (
    Opened,
    follow_notebook,
    forget_notebook,
    note_identity,
    open_notebook_session,
    open_separate_session,
)
from wasm_kernel.sessions.opening import OpenedSession, resume
from wasm_kernel.sessions.session import LiveSession

if TYPE_CHECKING:
    from wasm_kernel.kernel.remote_sessions import RemoteSessions

_RESTART_PATIENCE = 2.0  # the previous kernel may still be shutting down
TO_FREE_SPACE = (
    "Delete what you no longer need: `%prune --older-than 30d` shows old sessions and deletes them with --yes, "
    "`%session list` shows all, `%session delete ID --yes` deletes one"
)
_DISK_FULL = (
    "The disk with your sessions is full, so checkpoints are not being kept: cells cannot be undone, and variables are "
    f"lost when the kernel ends. {TO_FREE_SPACE}. Checkpoints are taken again once there is room"
)
_NOT_WRITTEN = (
    "The last checkpoint could not be written ({}), so that cell cannot be undone, and variables may be lost when the "
    "kernel ends. The next cell's is tried again"
)
_QUOTA_SHORT = (
    "Your snapshots use most of what the administrator allows. Soon new cells cannot be undone, and variables "
    "will not survive the kernel. Delete old sessions with %prune or, in a terminal, old snapshots with "
    "`wasm-kernel snapshots prune --max-per-session 1`"
)
_KEPT = "saved with an earlier version of the sandbox"
_TOO_LARGE = "saved with more memory than its kernel was allowed"
_ON_OLDER_IMAGE = (
    "They were saved with an earlier version of the sandbox, which goes on; to move to the current one, without them: "
    "`%session reset`"
)
_NO_ROOM = (
    "the disk with your sessions is full, and there is no room for this notebook's. Delete what you no longer need, "
    "and run the cell again: `%prune --older-than 30d` shows old sessions and deletes them with --yes; in a terminal: "
    "`wasm-kernel prune`"
)


@dataclass
class NotebookSession:
    """Which session a kernel uses, and under which rules. Its methods block: call them off the message loop."""

    root: Path
    policy: ExecutionPolicy
    logger: SandboxLogger
    connection_file: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    rules: Rules = field(default_factory=Rules)  # the administrator's
    maxima: dict[str, Any] = field(default_factory=dict)  # of limits: the rules', and the configuration's
    notebook: Path | None = None
    announcements: Announcements = field(default_factory=Announcements)  # what the person is to be told
    refused: str = ""  # why nothing may run here
    remote_settings: tuple[str, float, float] | None = None  # of `remote_sessions.RemoteSettings`
    remote: RemoteSessions | None = None  # the store that sessions are pushed to
    temporary: bool = False  # nobody can return to it: deleted at the end if it has no files
    _told_of_checkpoints: bool = False

    @property
    def folder(self) -> Path:
        """The notebook's folder; without a notebook, the one that the kernel was started in."""
        return self.notebook.parent if self.notebook is not None else Path.cwd()

    def open(self) -> OpenedSession:
        """Open the session. `ImageMissing` if the image has to be built first."""
        if self.refused:
            raise ConfigurationError(self.refused)
        img = image.load()
        self.root = prepared_root(self.root)
        self._open_remote()
        had_room = reserve.has_room(self.root)
        try:
            found = self._find()
        except OSError as e:
            raise SandboxError(_NO_ROOM) if reserve.is_full(e) else e from None
        if not had_room:
            self._tell_of_checkpoints(_DISK_FULL, "disk")
        if found.note:
            self.announcements.warn(found.note)
        live = self._live(found.session_id, found.folder, img, found.lock)
        if self.temporary:
            return OpenedSession(live)
        for notice in unshown(self.root):  # a notebook has somebody to read them
            self.announcements.add(self._announcement(notice))
        return self._resumed(live)

    def _resumed(self, live: LiveSession) -> OpenedSession:
        """Continue where the session's last kernel ended, unless it was asked to restart."""
        try:
            return resume(live)
        except OlderImage as e:
            self._tell_of_older_image(live, str(e))
            return OpenedSession(live)
        except (WasmKernelError, OSError) as e:
            text = f"The variables of the last run could not be restored: {e}. The interpreter is fresh."
            if isinstance(e, SandboxError) and (kept := self._kept(live, _TOO_LARGE)):  # nothing is wrong with them
                text += f" They are kept; afterwards, `%session restore {kept.snapshot_id[:8]}` brings them back."
            self.announcements.warn(text)
            return OpenedSession(live)

    def _kept(self, live: LiveSession, label: str) -> Snapshot | None:
        """What the session was left with, which stays from now on; None: nothing, or it cannot be kept."""
        from wasm_kernel.sessions.snapshots import keep_for_good  # it was just needed anyway

        with contextlib.suppress(WasmKernelError, OSError):  # a full disk: it stays until later checkpoints replace it
            return keep_for_good(self.root, live.session_id, label)
        return None

    def _tell_of_older_image(self, live: LiveSession, why: str) -> None:
        """One line for the first cell. The variables stay where they are, for whoever can open them."""
        kept = self._kept(live, _KEPT)
        where = ""
        if kept is not None:
            by = f", saved by wasm-kernel {kept.saved_by}" if kept.saved_by else ""
            where = f" Until then they are kept in snapshot {kept.snapshot_id[:8]}{by}."
        if live.cell_log.is_on_disk:  # nothing can replay it, and it ends with the first cell that is logged now
            where += " What the last cells did before their kernel was killed is lost."
        text = f"Files are there, and the interpreter is fresh: {why}.{where}"
        self.announcements.add(Announcement("note", text, good=True))

    def tell_of_return(self, snapshot: Snapshot, history: History, *, older_image: bool) -> None:
        """One line for the first cell: what was restored, and how to start fresh."""
        fresh = _ON_OLDER_IMAGE if older_image else "To start fresh: `%session reset`"
        age = (datetime.now(UTC) - snapshot.created_at).total_seconds()
        when = f"{format_duration(age)} ago"
        if age < 0:  # a clock was set back, or another machine's is ahead
            when = f"{snapshot.created_at.astimezone():%Y-%m-%d %H:%M:%S} by the clock of that time"
        # Killed before it could note the snapshot, the cell that led to that counts as unsaved.
        lost = history.unsaved(after=snapshot.metadata.get("number"))
        first, last = min(lost, default=0), max(lost, default=0)  # on a full disk also those of kernels before, again
        values = {"at": format_time(snapshot.created_at), "cells": lost}
        if not lost:
            text = f"Continued from {when}, with all variables."
            self.announcements.add(Announcement("continued", text, fresh, good=True, values=values))
            return
        if len(lost) == 1:
            told = f"The kernel ended while cell [{lost[0]}] was running, {when}. "
            told += "Everything before that cell is restored; what it did is lost."
        else:
            told = f"The kernel ended before its last cells were stored, {when}. "
            told += f"Everything before cell [{first}] is restored; what cells [{first}] to [{last}] did is lost."
        self.announcements.add(Announcement("lost", told, "To start fresh: %session reset", values=values))

    def tell_of_checkpoint(self, error: BaseException | None) -> None:
        """A snapshot was written, or was not: then the person is told, once. On the writer's thread."""
        if isinstance(error, OSError) and reserve.is_full(error):
            self._tell_of_checkpoints(_DISK_FULL, "disk")
        elif isinstance(error, OSError):
            self._tell_of_checkpoints(_NOT_WRITTEN.format(error), "other")
        elif error is None and self._told_of_checkpoints:
            self._told_of_checkpoints = not reserve.has_room(self.root)

    def tell_of_quota(self) -> None:
        """Snapshots have nearly used up what the administrator allows. On any thread."""
        self.announcements.add(Announcement("unstored", _QUOTA_SHORT, values={"why": "quota"}))

    def _tell_of_checkpoints(self, text: str, why: str) -> None:
        if not self._told_of_checkpoints:
            self._told_of_checkpoints = True
            self.announcements.add(Announcement("unstored", text, values={"why": why}))

    def _announcement(self, notice: Notice) -> Announcement:
        """What the hub or the administrator wants the person to know."""
        values = {"due": notice.due, "sessions": len(notice.session_ids)}
        shown = partial(mark_shown, self.root, [notice])
        return Announcement("prune" if notice.due else "note", notice.text, values=values, on_told=shown)

    def _find(self) -> Opened:
        named = self.environ.get("WASM_KERNEL_SESSION", "")
        if named:
            return self._by_name(named)
        self.notebook = notebooks.from_environment(self.environ)
        if self.notebook is not None:
            if self.remote is not None:
                elsewhere = self.remote.before_opening(self.notebook, notebooks.name_of(self.environ, self.notebook))
                if elsewhere:
                    return open_separate_session(self.root, self.notebook, self.logger, elsewhere)
            return open_notebook_session(self.root, self.notebook, self.logger, wait=_RESTART_PATIENCE)
        self.temporary = True
        return Opened(*create_session_folder(self.root, self.logger))

    def _open_remote(self) -> None:
        """The store that the settings name; what is wrong with it does not keep anybody from working."""
        if self.remote_settings is None or self.remote is not None:
            return
        from wasm_kernel.kernel.remote_sessions import RemoteSessions, RemoteSettings  # few kernels have one

        try:
            self.remote = RemoteSessions(
                RemoteSettings(*self.remote_settings), self.root, self.logger, self.announcements.warn
            )
            _ = self.remote.objects
        except WasmKernelError as e:
            self.remote = None
            self.announcements.warn(f"Sessions are not pushed: {e}")

    def _by_name(self, session_id: str) -> Opened:
        try:
            check_session_id(session_id)
            if self.remote is not None:
                self.remote.before_named(session_id)
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

    # ---- changing the session

    def move_to(self, session_id: str, now: LiveSession) -> OpenedSession:
        """Leave a session for another existing one, which becomes the notebook's."""
        if self.remote is not None:
            self.remote.take(session_id)
        self.check_other(session_id, now)
        lock = lock_session(self.root, session_id)
        live = self._move(Opened(session_id, self.root / session_id, lock), now)
        live.note(**NOTHING_GIVEN)  # it was given to another notebook
        return self._resumed(live)

    def check_other(self, session_id: str, now: LiveSession) -> None:
        """Refuse a session that cannot be moved to."""
        check_session_id(session_id)
        if not (self.root / session_id).is_dir() or (self.root / session_id).is_symlink():
            raise ConfigurationError(f"there is no session {session_id}; `%session list` shows all")
        if session_id == now.session_id:
            raise ConfigurationError(f"this notebook already uses session {session_id}")

    def move_to_new(self, now: LiveSession) -> OpenedSession:
        """Leave a session for a new one."""
        return OpenedSession(self._move(Opened(*create_session_folder(self.root, self.logger)), now))

    def _move(self, to: Opened, now: LiveSession) -> LiveSession:
        live = self._live(to.session_id, to.folder, image.load(), to.lock)
        if self.notebook is not None:
            forget_notebook(self.root, now.session_id)
            follow_notebook(self.root, to.session_id, self.notebook)
        unused = self.temporary and now.execution_count == 0  # else it can be returned to, with its variables
        now.close()
        if unused:
            self._discard_empty(now)
        self.temporary = False
        return live

    def follow(self, now: LiveSession) -> None:
        """Ask the server whether the notebook was renamed, and record what identifies it now."""
        if self.notebook is not None:
            where = notebooks.from_server(self.environ, self.connection_file)
            if where is not None and where != self.notebook:
                self.notebook = where
                follow_notebook(self.root, now.session_id, where)
                if self.remote is not None:
                    self.remote.renamed(where, notebooks.name_of(self.environ, where))
            else:
                note_identity(self.root, now.session_id, self.notebook)

    def leave(self, now: LiveSession) -> None:
        """Leave the session: the kernel is ending."""
        if self.notebook is not None:
            note_identity(self.root, now.session_id, self.notebook)
        now.close()
        if self.temporary:
            self._discard_empty(now)

    def _discard_empty(self, left: LiveSession) -> None:
        """Nobody can find a session of this kernel's own again, unless by its files."""
        with contextlib.suppress(OSError, SessionLocked):  # its folder may be gone
            if not left.has_files:
                discard_session(self.root, left.session_id)
