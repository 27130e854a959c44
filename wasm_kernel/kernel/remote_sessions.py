"""A kernel's sessions in an object store: found there when it starts, pushed while it runs and when it ends.

`sessions.remote` does the work. Here is when: before a session is opened the store is asked, for a while; after that no
cell waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wasm_kernel.errors import ConfigurationError, SessionDeleted, SessionElsewhere, WasmKernelError
from wasm_kernel.host.remote.objects import Objects, open_objects, without_credentials
from wasm_kernel.model.records import check_session_id
from wasm_kernel.model.units import format_age
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.notebooks import adopt_notebook, cells_of, known_cells, notebook_of, session_of_notebook
from wasm_kernel.sessions.remote.arriving import arrive, held_elsewhere, is_open_here, take_lease
from wasm_kernel.sessions.remote.deleting import finish_deletions, waiting_deletions
from wasm_kernel.sessions.remote.keeping import SessionCopy
from wasm_kernel.sessions.remote.lease import Lease, is_deleted
from wasm_kernel.sessions.remote.notebook_hints import NotebookHint, read_hint, write_hint
from wasm_kernel.sessions.remote.notices import fetch_notices
from wasm_kernel.sessions.remote.stored import remote_sessions

VARIABLE = "WASM_KERNEL_REMOTE"
_PATIENCE = 20.0  # seconds that opening a session waits for the store's first answer
_OPEN_ELSEWHERE = (
    "This notebook's session is open at {who}, since {since}. This kernel has a separate session, with its own /app. "
    "To take the notebook's over, with what was pushed from there last: `%session attach {session_id}`"
)
_NAMED_ELSEWHERE = (
    "{why}. To take it over: `%session attach {session_id}` in a kernel that is started without WASM_KERNEL_SESSION. A "
    "machine that is gone loses it four minutes after its last sign, and then a cell here opens it"
)
_NOT_ASKED = (
    "The store of your sessions, {address}, cannot be asked: {why}. This kernel goes on with what is on this "
    "machine's disk, and pushing is tried again."
)
_NAMESAKE = (
    "Another notebook of this name has a session in {address}; this one has a session of its own. If it is the same "
    "notebook after all: `%session attach {session_id}`"
)
_Answer = TypeVar("_Answer")
_log = logging.getLogger("wasm_kernel")


@dataclass(frozen=True)
class RemoteSettings:
    """What the configuration says: the address, how often to push while cells run, how long the end waits for it."""

    address: str
    every: float = 60.0
    at_close: float = 2.0


class RemoteSessions:
    """The store, as a kernel uses it. Methods block, except `moved_in` and `changed`."""

    def __init__(
        self, settings: RemoteSettings, root: Path, logger: SandboxLogger, tell: Callable[[str], None]
    ) -> None:
        """``tell``: something for the person; called on any thread."""
        self._settings, self._root, self._logger, self._tell = settings, root, logger, tell
        self.address = without_credentials(settings.address)
        self._objects: Objects | None = None
        self._leases: dict[str, Lease] = {}  # of sessions that are about to be opened
        self._notebook: Path | None = None
        self._name = ""  # of the notebook, in the store
        self._seen_hint: str | None = None  # the session that the store named for it; None: not asked yet
        self._written: NotebookHint | None = None
        self._copy: SessionCopy | None = None
        self._left: SessionCopy | None = None  # of the session before
        self._finishing = False

    @property
    def objects(self) -> Objects:
        """The store."""
        if self._objects is None:
            self._objects = open_objects(self._settings.address)
        return self._objects

    # ---- before a session is opened

    def before_opening(self, notebook: Path, name: str) -> str:
        """Bring a notebook's session here, if the store has one. If it is open elsewhere: what to tell the person.

        ``name``: the notebook's, on all machines.
        """
        self._notebook, self._name = notebook, name
        session_id = session_of_notebook(self._root, notebook)
        if session_id and is_open_here(self._root, session_id):
            return ""  # as without a store
        try:
            found, lease = self._in_time(lambda: self._ask(session_id))
            if lease is not None:
                self._bring(found, lease)
                if not session_id and (self._root / found).is_dir():
                    adopt_notebook(self._root, found, notebook)
        except SessionElsewhere as e:
            return str(e)
        except (WasmKernelError, OSError) as e:
            self._tell(_NOT_ASKED.format(address=self.address, why=e))
        return ""

    def before_named(self, session_id: str) -> None:
        """Bring a session here by its id, if the store has it."""
        if is_open_here(self._root, session_id):
            return
        try:
            lease = self._in_time(lambda: take_lease(self.objects, self._root, session_id))
            self._bring(session_id, lease)
        except SessionElsewhere as e:
            raise ConfigurationError(_NAMED_ELSEWHERE.format(why=e, session_id=session_id)) from None
        except SessionDeleted:
            return  # as in `_ask`
        except (WasmKernelError, OSError) as e:
            self._tell(_NOT_ASKED.format(address=self.address, why=e))

    def _ask(self, session_id: str) -> tuple[str, Lease | None]:
        """The notebook's session, here or there, and its lease; None: it has none yet."""
        fetch_notices(self.objects, self._root)
        hint = read_hint(self.objects, self._name)
        self._seen_hint = hint.session_id if hint is not None else ""
        if not session_id and hint is not None:
            if hint.is_for(cells_of(self._notebook) if self._notebook is not None else None):
                session_id = hint.session_id
            else:
                self._tell(_NAMESAKE.format(address=self.address, session_id=hint.session_id))
        if not session_id:
            return "", None
        if is_deleted(self.objects, session_id):
            return "", None  # what is here is gone on with, and whoever keeps its copy is told
        elsewhere = held_elsewhere(self.objects, self._root, session_id)
        if elsewhere is not None:
            told = _OPEN_ELSEWHERE.format(who=elsewhere.who, since=elsewhere.since, session_id=session_id)
            raise SessionElsewhere(told)
        return session_id, take_lease(self.objects, self._root, session_id)

    def _bring(self, session_id: str, lease: Lease) -> None:
        note = arrive(self.objects, self._root, session_id, lease, self._logger)
        self._leases[session_id] = lease
        if note:
            self._tell(note)

    def _in_time(self, work: Callable[[], _Answer]) -> _Answer:
        """What the store answers, unless that takes too long: then it goes on behind our back, without effect."""
        answer: Future[_Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as e:  # noqa: BLE001 - raised where it is waited for
                answer.set_exception(e)

        threading.Thread(target=run, name="wasm-kernel-asks-store", daemon=True).start()
        try:
            return answer.result(_PATIENCE)
        except TimeoutError:
            raise ConfigurationError(f"no answer within {_PATIENCE:.0f} seconds") from None

    # ---- another session, because the person says so

    def describe(self, session_id: str) -> str:
        """Who has a session elsewhere, for the question whether to go on with it here; empty: nobody."""
        with contextlib.suppress(WasmKernelError, OSError):
            found = self._in_time(lambda: held_elsewhere(self.objects, self._root, session_id))
            if found is not None:
                return f"open at {found.who}, since {found.since}: it is taken over, and no longer pushed from there"
        return ""

    def take(self, session_id: str) -> None:
        """Bring a session here to go on with it, also if it is open elsewhere."""
        check_session_id(session_id)
        local = (self._root / session_id).is_dir()
        if local and is_open_here(self._root, session_id):
            return  # opening it says so
        try:
            if local or session_id in remote_sessions(self.objects):
                self._bring(session_id, take_lease(self.objects, self._root, session_id, take_over=True))
        except (WasmKernelError, OSError) as e:
            if not local:
                raise
            if isinstance(e, SessionDeleted):
                return
            self._tell(_NOT_ASKED.format(address=self.address, why=e))

    def deleted(self, session_id: str) -> str:
        """A session was deleted here: delete it from the store, too. How that went, for the end of a sentence."""
        try:
            errors, gone = self._in_time(lambda: self._delete_stored(session_id))
        except (WasmKernelError, OSError) as e:
            errors, gone = {session_id: str(e)}, False
        if errors:
            return (
                f"; it will be deleted from {self.address} when a kernel starts or prunes here ({errors[session_id]})"
            )
        return f", also from {self.address}" if gone else ""

    def _delete_stored(self, session_id: str) -> tuple[dict[str, str], bool]:
        """What went wrong, by session, and whether the store says that it is deleted."""
        if self._left is not None and self._left.session_id == session_id:
            self._left.close(_PATIENCE, push=False)  # what it is still pushing would seem another machine's
        return finish_deletions(self.objects, self._root, [session_id]), is_deleted(self.objects, session_id)

    # ---- while it is open

    def moved_in(self, session_id: str) -> None:
        """The kernel works in this session now: keep its copy, and no longer that of the one before."""
        if self._copy is not None:
            before = self._copy
            if before.session_id == session_id:
                return
            self._left = before
            threading.Thread(target=before.close, args=(600.0,), name="wasm-kernel-last-push", daemon=True).start()
            self._seen_hint = ""  # a person chose another: the store follows
        try:
            objects = self.objects
        except WasmKernelError as e:  # such as a missing package
            self._tell(_NOT_ASKED.format(address=self.address, why=e))
            return
        if not self._finishing and waiting_deletions(self._root):
            self._finishing = True
            arguments = objects, self._root
            threading.Thread(
                target=finish_deletions, args=arguments, name="wasm-kernel-deletes-stored", daemon=True
            ).start()
        lease = self._leases.pop(session_id, None)
        self._copy = SessionCopy(
            objects, self._root, session_id, lease, self._settings.every, self._tell, self._note_notebook
        )

    def changed(self) -> None:
        """A snapshot was stored."""
        if self._copy is not None:
            self._copy.changed()

    def _note_notebook(self) -> None:
        """Write in the store which session the notebook has. After a push."""
        notebook, copy = self._notebook, self._copy
        if notebook is None or copy is None or notebook_of(self._root, copy.session_id) != str(notebook):
            return
        hint = NotebookHint(copy.session_id, self._name, known_cells(self._root, notebook))
        if hint == self._written:
            return
        if self._seen_hint is None:  # the store could not be asked when the kernel started
            there = read_hint(self.objects, self._name)
            self._seen_hint = there.session_id if there is not None else ""
            if there is not None and there.session_id != copy.session_id and there.is_for(cells_of(notebook)):
                self._tell(_NAMESAKE.format(address=self.address, session_id=there.session_id))
                self._notebook = None  # it keeps the session it has there
                return
        write_hint(self.objects, hint)
        self._written = hint

    def renamed(self, notebook: Path, name: str) -> None:
        """The notebook has another name now."""
        self._notebook, self._name, self._seen_hint = notebook, name, ""

    @property
    def described(self) -> str:
        """How far the copy is, for a person."""
        status = self._copy.status if self._copy is not None else None
        if status is None:
            return f"not used: {self.address}"
        when = f"pushed {format_age(time.time() - status.pushed_at)}" if status.pushed_at else "not pushed yet"
        if status.lost:
            return f"{when}, and not any more: {status.problem}"
        return f"{when}, to {self.address}" + (f"; fails: {status.problem}" if status.problem else "")

    @property
    def facts(self) -> dict[str, object]:
        """The same for programs in the guest, which learn no address."""
        status = self._copy.status if self._copy is not None else None
        pushed = status.pushed_at if status is not None else None
        failing, lost = status is not None and bool(status.problem), status is not None and status.lost
        return {
            "pushed_seconds": None if pushed is None else round(time.time() - pushed),
            "fails": failing,
            "lost": lost,
        }

    # ---- the end

    def close(self, *, restarting: bool) -> None:
        """Push the rest, for a while; what takes longer a process of its own finishes."""
        copy = self._copy
        if copy is None:
            return
        if restarting:
            copy.close(0.0, push=False)  # the next kernel has the same disk
            return
        if copy.close(self._settings.at_close) or copy.status.lost:
            return
        if copy.status.problem:
            _log.warning(
                "session %s was not pushed to %s: %s; it is whole on this disk, and pushed by its next kernel here",
                copy.session_id,
                self.address,
                copy.status.problem,
            )
            return
        _log.warning("session %s is still being pushed to %s, by a process of its own", copy.session_id, self.address)
        self._finish_aside(copy.session_id)

    def _finish_aside(self, session_id: str) -> None:
        command = [sys.executable, "-m", "wasm_kernel.apps.cli", "remote", "push", session_id]
        with contextlib.suppress(OSError):
            subprocess.Popen(
                [*command, "--workspace-root", str(self._root)],
                env={**os.environ, VARIABLE: self._settings.address},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
