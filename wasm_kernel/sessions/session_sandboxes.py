"""Sessions for programs: a sandbox over a session's folder, of a new session or of one that exists."""

from __future__ import annotations

import uuid
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import check_session_id
from wasm_kernel.sessions.catalog import make_session_folder, prepared_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.open_sessions import entered, live_session, opening
from wasm_kernel.sessions.sandboxes import BaseSandbox, RuntimeType, check_runtime, ready_image
from wasm_kernel.sessions.session import LiveSession, SessionSandbox
from wasm_kernel.sessions.snapshots import fork_snapshot, open_from_snapshot


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

    With ``snapshot_id`` it continues from that snapshot, as `fork_session` would, with its own random numbers.

    The folder appears complete, with its metadata. If only the metadata cannot be written, the session is still
    usable, and one warning says so.
    """
    check_runtime(runtime)
    logger = logger or SandboxLogger()
    root = prepared_root(workspace_root)
    if snapshot_id is not None:
        session_id = fork_snapshot(snapshot_id, root, notebook=notebook, logger=logger)
        return session_id, get_session_sandbox(session_id, runtime, policy, root, logger, resume=True)
    session_id = str(uuid.uuid4())
    policy = administrator.permitted(policy or ExecutionPolicy())
    img = ready_image(metered=policy.fuel_budget is not None)
    lock = lock_session(root, session_id)
    try:
        extra = {} if notebook is None else {"notebook": notebook}
        folder = make_session_folder(root, session_id, extra, logger)
        live = LiveSession(session_id, folder, img, policy, lock)
    except BaseException:
        lock.release()
        raise
    logger.info("session.created", session_id=session_id, workspace_path=str(folder))
    return session_id, SessionSandbox(entered(root, live), logger)


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

    With ``resume`` it has the variables of the session's newest snapshot; otherwise only the files.

    If this process has the session open already, the sandbox is another handle on the same guest; then a
    different ``policy`` is refused. If another process has it, `SessionLocked` names it, at once or after ``wait``
    seconds.
    """
    check_runtime(runtime)
    check_session_id(session_id)
    logger = logger or SandboxLogger()
    root = prepared_root(workspace_root)
    with opening(root, session_id):
        live = live_session(session_id, root)
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
    live = open_live(root, session_id, policy, logger, wait=wait)
    if resume:
        try:
            open_from_snapshot(live)
        except BaseException:
            live.close()
            raise
    return entered(root, live)


def open_live(
    root: Path,
    session_id: str,
    policy: ExecutionPolicy | None,
    logger: SandboxLogger,
    *,
    wait: float = 0.0,
    new: bool = False,
) -> LiveSession:
    """A session with a fresh interpreter over its folder, which is made if need be; ``new``: it has to be made."""
    policy = administrator.permitted(policy or ExecutionPolicy())
    img = ready_image(metered=policy.fuel_budget is not None)
    lock = lock_session(root, session_id, wait)
    try:
        folder = root / session_id
        if folder.is_symlink():
            raise ConfigurationError(f"session {session_id} is a link, not a folder; remove it")
        if not folder.is_dir():
            folder = make_session_folder(root, session_id, {}, logger)
        elif new:
            raise ConfigurationError(f"there is a session {session_id} already; open_session() opens it")
        return LiveSession(session_id, folder, img, policy, lock)
    except BaseException:
        lock.release()
        raise
