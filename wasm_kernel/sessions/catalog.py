"""Sessions: create, open, delete, repair. A session is a folder below a workspace root, named by its id."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import uuid
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.host import administrator, ledger, removal, trees, workspace
from wasm_kernel.host.durable import sync_folder
from wasm_kernel.host.ledger import lock_session, read_record, state_folder, write_record
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import SessionRecord, check_session_id, is_session_id, new_record
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE, BaseSandbox, RuntimeType, check_runtime, ready_image
from wasm_kernel.sessions.session import LiveSession, SessionSandbox

_live: dict[tuple[Path, str], LiveSession] = {}
_opening: weakref.WeakValueDictionary[tuple[Path, str], threading.Lock] = weakref.WeakValueDictionary()
_guard = threading.RLock()


def create_session_sandbox(
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    policy: ExecutionPolicy | None = None,
    workspace_root: Path | str | None = None,
    logger: SandboxLogger | None = None,
    *,
    notebook: str | None = None,
    snapshot_id: str | None = None,
) -> tuple[str, BaseSandbox]:
    """Create a session with a new id and a folder of its own; the id and its sandbox.

    With ``snapshot_id`` it goes on from that snapshot, as `fork_session` would; its random numbers are its own.

    The folder appears whole, with its metadata. If only the metadata cannot be written, the session is usable all the
    same, and one warning says so.
    """
    check_runtime(runtime)
    logger = logger or SandboxLogger()
    root = prepared_root(workspace_root)
    if snapshot_id is not None:
        from wasm_kernel.sessions.snapshots import fork_snapshot

        session_id = fork_snapshot(snapshot_id, root, notebook=notebook, logger=logger)
        return session_id, get_session_sandbox(session_id, runtime, policy, root, logger, resume=True)
    session_id = str(uuid.uuid4())
    policy = administrator.permitted(policy or ExecutionPolicy())
    img = ready_image(metered=policy.fuel_budget is not None)
    lock = lock_session(root, session_id)
    try:
        extra = {} if notebook is None else {"notebook": notebook}
        folder = _make_folder(root, session_id, extra, logger)
        live = LiveSession(session_id, folder, img, policy, lock)
    except BaseException:
        lock.release()
        raise
    logger.info("session.created", session_id=session_id, workspace_path=str(folder))
    return session_id, SessionSandbox(_entered(root, live), logger)


def create_session_folder(
    root: Path, logger: SandboxLogger, *, session_id: str | None = None, **extra: Any
) -> tuple[str, Path, ledger.SessionLock]:
    """A new session without a sandbox: its id, its folder, and its lock, which the caller releases."""
    session_id = session_id or str(uuid.uuid4())
    lock = lock_session(root, session_id)
    try:
        return session_id, _make_folder(root, session_id, extra, logger), lock
    except BaseException:
        lock.release()
        raise


def get_session_sandbox(
    session_id: str,
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    policy: ExecutionPolicy | None = None,
    workspace_root: Path | str | None = None,
    logger: SandboxLogger | None = None,
    *,
    wait: float = 0.0,
    resume: bool = False,
) -> BaseSandbox:
    """A sandbox for an existing session, or for a new one of this name if there is none.

    With ``resume`` it goes on with the variables of the session's newest snapshot; otherwise only files are kept.

    If this process has the session open already, the sandbox is another handle on the same guest; a different
    ``policy`` is refused then. If another process has it, `SessionLocked` names it, at once or after ``wait`` seconds.
    """
    check_runtime(runtime)
    check_session_id(session_id)
    logger = logger or SandboxLogger()
    root = prepared_root(workspace_root)
    with _guard:
        turn = _opening.setdefault((root, session_id), threading.Lock())
    with turn:  # one thread opens it, and the others share what it opened
        with _guard:
            live = _live.get((root, session_id))
        if live is not None and live.enter():
            if policy is not None and administrator.permitted(policy) != live.policy:
                live.leave()
                raise ConfigurationError(
                    f"session {session_id} is open in this process with another policy; close it first"
                )
        else:
            live = _open(root, session_id, policy, logger, wait, resume)
    logger.info("session.retrieved", session_id=session_id)
    return SessionSandbox(live, logger)


def _open(
    root: Path, session_id: str, policy: ExecutionPolicy | None, logger: SandboxLogger, wait: float, resume: bool
) -> LiveSession:
    policy = administrator.permitted(policy or ExecutionPolicy())
    img = ready_image(metered=policy.fuel_budget is not None)
    lock = lock_session(root, session_id, wait)
    try:
        folder = root / session_id
        if folder.is_symlink():
            raise ConfigurationError(f"session {session_id} is a link, not a folder; remove it")
        if not folder.is_dir():
            folder = _make_folder(root, session_id, {}, logger)
        live = LiveSession(session_id, folder, img, policy, lock)
    except BaseException:
        lock.release()
        raise
    if resume:
        from wasm_kernel.sessions.snapshots import open_from_snapshot

        try:
            open_from_snapshot(live)
        except BaseException:
            live.close()
            raise
    return _entered(root, live)


def delete_session_workspace(
    session_id: str, workspace_root: Path | str | None = None, logger: SandboxLogger | None = None, *, wait: float = 0.0
) -> None:
    """Delete a session and everything in it; nothing happens when there is none.

    A sandbox of the session in this process is closed first. If another process uses it, `SessionLocked` says so.
    """
    check_session_id(session_id)
    logger = logger or SandboxLogger()
    root = Path(workspace_root or DEFAULT_WORKSPACE).absolute()
    if not root.is_dir():
        return
    close_session(session_id, root)
    lock = lock_session(root, session_id, wait)
    try:
        removed = removal.remove_session(root, session_id)
    finally:
        lock.release()
        ledger.forget_free_lock(root, session_id)
    if removed:
        logger.info("session.deleted", session_id=session_id)


def live_session(session_id: str, root: Path) -> LiveSession | None:
    """The session, if this process has it open."""
    with _guard:
        return _live.get((root, session_id))


def close_session(session_id: str, root: Path) -> bool:
    """Close a session's sandbox if this process has one; whether it had."""
    with _guard:
        live = _live.get((root, session_id))
    if live is None:
        return False
    live.close()
    return True


def repair_session_metadata(
    session_id: str, workspace_root: Path | str | None = None, logger: SandboxLogger | None = None
) -> SessionRecord:
    """Give a session without metadata, or with a damaged file, metadata made from its files' times.

    Never done by itself: a session without metadata is never pruned, with it it can be. A damaged file is kept under
    another name.
    """
    check_session_id(session_id)
    logger = logger or SandboxLogger()
    root = Path(workspace_root or DEFAULT_WORKSPACE).absolute()
    folder = root / session_id
    if folder.is_symlink() or not folder.is_dir():
        raise FileNotFoundError(f"there is no session {session_id} in {root}")
    lock = lock_session(root, session_id)
    try:
        try:
            known = read_record(folder)
        except ValueError:
            known = None
            damaged = folder / workspace.METADATA_NAME
            damaged.rename(folder / f"{workspace.METADATA_NAME}.damaged-{secrets.token_hex(4)}")
        if known is not None:
            return known
        times = [what[2] for what in workspace.survey(folder).files.values()] or [folder.stat().st_mtime_ns]
        moments = [datetime.fromtimestamp(ns / 1e9, UTC) for ns in (min(times), max(times))]
        record = SessionRecord(session_id, moments[0], moments[1])
        write_record(folder, record, sync=True)
    finally:
        lock.release()
    logger.info("session.metadata.repaired", session_id=session_id)
    return record


def prepared_root(workspace_root: Path | str | None) -> Path:
    """The workspace root, made if needed."""
    return workspace.prepare(Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE))


def _entered(root: Path, live: LiveSession) -> LiveSession:
    """A session just opened, known to this process from now on, with its first handle."""
    key = (root, live.session_id)

    def forget() -> None:
        with _guard:
            if _live.get(key) is live:
                del _live[key]

    live.on_close = forget
    live.enter()
    with _guard:
        _live[key] = live
    return live


def _make_folder(root: Path, session_id: str, extra: dict[str, Any], logger: SandboxLogger) -> Path:
    with staged_session(root, session_id, extra, logger):
        pass
    return root / session_id


@contextlib.contextmanager
def staged_session(root: Path, session_id: str, extra: dict[str, Any], logger: SandboxLogger) -> Iterator[Path]:
    """The folder of a session being made, with metadata; it appears under its name, whole, when the block ends.

    The caller holds the session's lock.
    """
    with _room_for_one(root):  # before it is filled, which may take long
        pass
    place = state_folder(root) / "new"
    place.mkdir(exist_ok=True)
    half = place / f"{session_id}.{secrets.token_hex(4)}"
    half.mkdir()
    try:
        try:
            write_record(half, new_record(session_id, datetime.now(UTC), **extra), sync=True)
            logger.debug("session.metadata.created", session_id=session_id)
        except OSError as e:
            logger.warning("session.metadata.create_failed", session_id=session_id, error=str(e))
        yield half
        with _room_for_one(root):
            os.rename(half, root / session_id)  # noqa: PTH104 - fails where Path.replace would overwrite
    except BaseException:
        with contextlib.suppress(OSError):
            trees.remove(half)
        raise
    sync_folder(root)


@contextlib.contextmanager
def _room_for_one(root: Path) -> Iterator[None]:
    """One more session may appear meanwhile, and no other does: two at once cannot both be the last one allowed."""
    rules = administrator.rules()
    if rules.sessions is None:
        yield
        return
    handle = os.open(state_folder(root) / "appearing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        count = sum(is_session_id(entry.name) and entry.is_dir(follow_symlinks=False) for entry in os.scandir(root))
        if count >= rules.sessions:
            raise NotAllowed(
                f"there are {count} sessions, and the administrator allows {rules.sessions} "
                f"({rules.sources['sessions']}). Delete some: `%prune --older-than 7d` shows old ones and deletes them "
                "with --yes, `%session list` shows all, `%session delete ID --yes` deletes one; in a terminal: "
                "`wasm-kernel prune`"
            )
        yield
    finally:
        os.close(handle)
