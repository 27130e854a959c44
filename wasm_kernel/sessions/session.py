"""One session: a sandbox over its own folder, with metadata that is kept up to date."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import SandboxClosed
from wasm_kernel.guest import wire
from wasm_kernel.host import administrator
from wasm_kernel.host.disk import packages
from wasm_kernel.host.disk.locks import SessionLock
from wasm_kernel.host.disk.records import RecordKeeper, read_record
from wasm_kernel.host.image import image
from wasm_kernel.host.network.connection import Connection
from wasm_kernel.host.network.connection_log import ConnectionLog, line_of
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.host.store.cell_log import LOGS, CellLog
from wasm_kernel.model import limits
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.outcome import OutcomeKind, SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import BadRecord, format_time
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import BaseSandbox

if TYPE_CHECKING:
    from wasm_kernel.sessions.recorder import Recorder

_MAX_ERROR = 300  # characters of an error that the metadata keeps


@dataclass(frozen=True)
class Ran:
    """What the metadata says of one execution: when it ended, the fuel it took, and what went wrong."""

    at: datetime
    fuel: int | None
    error: str | None

    @classmethod
    def of(cls, result: SandboxResult) -> Ran:
        """An execution that has just ended."""
        failed = not result.success and result.outcome.kind is not OutcomeKind.EXIT
        return cls(datetime.now(UTC), result.fuel_consumed, _error_text(result) if failed else None)


class LiveSession:
    """A session in use by this process, shared by every handle on it; closed with the last."""

    def __init__(
        self, session_id: str, folder: Path, img: image.Image, policy: ExecutionPolicy, lock: SessionLock
    ) -> None:
        policy = administrator.permitted(policy)
        self.session_id, self.folder, self.policy = session_id, folder, policy
        self.sandbox = Sandbox(img, folder, policy, packages.prepare(folder.parent, session_id), in_session=True)
        self._image, self._lock = img, lock
        self._connections = ConnectionLog(self.root / STATE_FOLDER / "history" / session_id)
        self.sandbox.network.traffic.session = self._connections.session_bytes()
        self.sandbox.network.listeners.append(self._note_connection)
        self.on_connection: Callable[[dict[str, Any]], None] = lambda line: None
        self._tell_limits()
        self._keeper = RecordKeeper(folder)
        self._handles = 0
        self._guard = threading.Lock()
        self._record_guard = threading.Lock()  # held while the metadata is read, changed and written
        self._recorder: Recorder | None = None
        logs = self.root / STATE_FOLDER / LOGS / session_id
        self.cell_log = CellLog(logs, img.key)
        self.on_close: Callable[[], None] = lambda: None
        self.on_wait: Callable[[bool], None] = lambda waits: None  # the guest waits to change a file, or no longer

    @property
    def root(self) -> Path:
        """The workspace root."""
        return self.folder.parent

    @property
    def recorder(self) -> Recorder:
        """Takes and restores its snapshots; created when first needed."""
        if self._recorder is None:
            from wasm_kernel.sessions.recorder import Recorder

            self._recorder = Recorder(
                self.root, self.session_id, self.folder, self.sandbox, self.cell_log, lambda waits: self.on_wait(waits)
            )
        return self._recorder

    @property
    def has_snapshots(self) -> bool:
        """Whether any were ever taken, or cells logged; checked without importing the code that reads them."""
        return (
            self.root / STATE_FOLDER / "snapshots" / "manifests" / self.session_id
        ).is_dir() or self.cell_log.is_on_disk

    @property
    def has_files(self) -> bool:
        """Whether its folder contains anything a person would see."""
        return any(path.name[0] != "." for path in self.folder.iterdir())

    @property
    def execution_count(self) -> int:
        """How many cells ever ran in it, as its metadata says."""
        with contextlib.suppress(BadRecord):
            record = read_record(self.folder)
            count = record.extra.get("execution_count") if record is not None else 0
            return count if type(count) is int else 0
        return 0

    @property
    def on_older_image(self) -> bool:
        """Whether it goes on with the image of an earlier version, from a snapshot that was taken with that."""
        return self.sandbox.image.key != self._image.key

    def begins_afresh(self) -> bool:
        """Whether a kernel restart asked for a fresh interpreter, and nothing was saved since."""
        with contextlib.suppress(BadRecord):
            record = read_record(self.folder)
            return record is not None and bool(record.extra.get("fresh_start"))
        return False

    def start_afresh(self) -> None:
        """Begin again from the memory of this version's image; files stay. Blocks."""
        if not self.sandbox.fresh or self.on_older_image:
            self.sandbox.reset(self._image)
        self.cell_log.begin("", self._image.key)

    def enter(self) -> bool:
        """Add a handle; False if the session has just been closed."""
        with self._guard:
            if self.sandbox.closed:
                return False
            self._handles += 1
            return True

    def leave(self) -> None:
        """Drop a handle; the last one closes the session."""
        with self._guard:
            self._handles -= 1
            last = self._handles <= 0
        if last:
            self.close()

    def _note_connection(self, connection: Connection) -> None:
        """Write down a connection of the guest's that begins, or has ended. On the sandbox's thread."""
        line = line_of(connection, self.sandbox.network.traffic.session)
        self._connections.add(line)
        if connection.ended:
            self.on_connection(line)

    def close(self) -> None:
        """Stop the sandbox and let others use the session."""
        if self._recorder is not None:
            self._recorder.leave_memory()
        self.sandbox.close()
        if self._recorder is not None:
            self._recorder.close()
        self.cell_log.close()
        self._keeper.close()
        self._lock.release()
        self.on_close()

    def note(self, **extra: Any) -> None:
        """Add fields to the session's metadata."""
        with contextlib.suppress(OSError, BadRecord), self._record_guard:
            record = read_record(self.folder)
            if record is not None:
                self._keeper.replace(record.touched(datetime.now(UTC), **extra))

    def change_policy(self, policy: ExecutionPolicy) -> None:
        """Change the limits from the next execution on; the guest keeps its memory."""
        policy = administrator.permitted(policy)
        self.sandbox.change_policy(policy)
        self.policy = policy
        self._tell_limits()

    def _tell_limits(self) -> None:
        """Publish the limits for others who put files there and count the same files: `upload_quota`."""
        told = {name: limits.current(self.policy, name) for name in ("disk", "file", "files")}
        self._lock.tell(limits=told, scratch=str(self.sandbox.scratch))

    def refresh(self, ran: Sequence[Ran], logger: SandboxLogger) -> None:
        """Record what ran. Never fails the execution; a session without metadata stays without."""
        self._lock.tell_again()
        with self._record_guard:
            self._refresh(ran, logger)

    def _refresh(self, ran: Sequence[Ran], logger: SandboxLogger) -> None:
        try:
            record = read_record(self.folder)
        except BadRecord as e:
            logger.warning("session.metadata.corrupted", session_id=self.session_id, error=str(e))
            return
        if record is None:
            return
        now = datetime.now(UTC)
        count = record.extra.get("execution_count")
        extra: dict[str, Any] = {"execution_count": (count if isinstance(count, int) else 0) + len(ran)}
        consumed = [one.fuel for one in ran if one.fuel is not None]
        if consumed:
            fuel = record.extra.get("total_fuel_consumed")
            extra["total_fuel_consumed"] = (fuel if isinstance(fuel, int) else 0) + sum(consumed)
        failed = [one for one in ran if one.error is not None]
        if failed:
            extra |= {"last_error_at": format_time(failed[-1].at), "last_error": failed[-1].error}
        newer = record.touched(now, **extra)
        try:
            self._keeper.replace(newer)
        except OSError as e:
            logger.warning("session.metadata.update_failed", session_id=self.session_id, error=str(e))
            return
        logger.debug("session.metadata.updated", session_id=self.session_id, updated_at=format_time(newer.updated_at))


def _error_text(result: SandboxResult) -> str:
    """What went wrong, for the metadata: one short line, whatever the guest said."""
    error = result.error
    said = f"{error.name}: {error.value}" if error is not None else result.outcome.message
    return " ".join(wire.without_surrogates(said[:_MAX_ERROR]).split())


class SessionSandbox(BaseSandbox):
    """A sandbox bound to a session. Closing it leaves the files, and other handles on the session, as they are."""

    def __init__(self, live: LiveSession, logger: SandboxLogger) -> None:
        super().__init__(live.sandbox, logger.bind(session_id=live.session_id))
        self._live = live
        self._leave = weakref.finalize(self, live.leave)
        self._leave.atexit = False  # at exit, the sandboxes themselves are closed

    @property
    def session_id(self) -> str:
        """The session's id. The guest does not know it."""
        return self._live.session_id

    def execute(
        self,
        code: str,
        *,
        on_event: Callable[[wire.Event], None] | None = None,
        on_input: Callable[[wire.InputRequest], str] | None = None,
    ) -> SandboxResult:
        """Run code as `BaseSandbox.execute` does; afterwards the session's metadata says so."""
        if not self._leave.alive:
            raise SandboxClosed("this sandbox is closed; use get_session_sandbox() to open the session again")
        result = super().execute(code, on_event=on_event, on_input=on_input)
        self._live.refresh([Ran.of(result)], self._logger)
        return replace(result, metadata={**result.metadata, "session_id": self.session_id})

    def close(self) -> None:
        """Give up this handle; the last one stops the sandbox and unlocks the session."""
        with contextlib.suppress(Exception):
            self._leave()
