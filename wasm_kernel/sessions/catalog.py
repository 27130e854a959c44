"""Sessions: create, discard, repair. A session is a folder below a workspace root, named by its id."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.disk import locks, removal, reserve
from wasm_kernel.host.disk.locks import lock_session, state_folder
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.disk.spreading import spread
from wasm_kernel.host.durable import sync_folder, sync_tree
from wasm_kernel.host.files import delete_tree, workspace_survey
from wasm_kernel.host.store.sequence import next_number
from wasm_kernel.model.records import (
    OWN_SNAPSHOTS_AFTER,
    LaterRecord,
    SessionRecord,
    check_session_id,
    is_session_id,
    new_record,
)
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE


def create_session_folder(
    root: Path, logger: SandboxLogger, *, session_id: str | None = None, **extra: Any
) -> tuple[str, Path, locks.SessionLock]:
    """A new session without a sandbox: its id, its folder, and its lock, which the caller must release."""
    session_id = session_id or str(uuid.uuid4())
    lock = lock_session(root, session_id)
    try:
        return session_id, make_session_folder(root, session_id, extra, logger), lock
    except BaseException:
        lock.release()
        raise


def discard_session(root: Path, session_id: str) -> None:
    """Delete a session that nobody has used: unlike one that is deleted, it is not remembered."""
    lock = lock_session(root, session_id)
    try:
        removal.remove_session(root, session_id)
    finally:
        lock.release()
        locks.forget_free_lock(root, session_id)


def repair_session_metadata(
    session_id: str, workspace_root: Path | str | None = None, logger: SandboxLogger | None = None
) -> SessionRecord:
    """Give a session without metadata, or with a damaged file, metadata made from its files' times.

    Never done automatically: a session without metadata is never pruned, one with metadata can be. A damaged file is
    kept under another name.
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
        except LaterRecord as e:
            raise ConfigurationError(str(e)) from None
        except ValueError:
            known = None
            damaged = folder / workspace_survey.METADATA_NAME
            damaged.rename(folder / f"{workspace_survey.METADATA_NAME}.damaged-{secrets.token_hex(4)}")
        if known is not None:
            return known
        times = [what[2] for what in workspace_survey.survey(folder).files.values()] or [folder.stat().st_mtime_ns]
        moments = [datetime.fromtimestamp(ns / 1e9, UTC) for ns in (min(times), max(times))]
        record = SessionRecord(session_id, moments[0], moments[1])
        write_record(folder, record, sync=True)
    finally:
        lock.release()
    logger.info("session.metadata.repaired", session_id=session_id)
    return record


def prepared_root(workspace_root: Path | str | None) -> Path:
    """The workspace root, created if needed, and ready for the day when its disk is full."""
    root = workspace_survey.prepare(Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE))
    reserve.keep_ready(root)
    return root


def make_session_folder(root: Path, session_id: str, extra: dict[str, Any], logger: SandboxLogger) -> Path:
    """A new session's folder. A session deleted under this id may have left snapshots: it does not go on from them."""
    store = state_folder(root) / "snapshots"
    if (store / "manifests" / session_id).is_dir():
        extra = {**extra, OWN_SNAPSHOTS_AFTER: next_number(store)}
    with staged_session(root, session_id, extra, logger):
        pass
    return root / session_id


@contextlib.contextmanager
def staged_session(root: Path, session_id: str, extra: dict[str, Any], logger: SandboxLogger) -> Iterator[Path]:
    """The folder of a session being made, with metadata; it gets its name, complete, when the block ends.

    The caller holds the session's lock.
    """
    with _room_for_one(root):  # before it is filled, which may take a while
        pass
    reserve.make_way(root)
    place = state_folder(root) / "new"
    place.mkdir(exist_ok=True)
    spread(place)
    half = place / f"{session_id}.{secrets.token_hex(4)}"
    half.mkdir()
    try:
        try:
            write_record(half, new_record(session_id, datetime.now(UTC), **extra), sync=True)
            logger.debug("session.metadata.created", session_id=session_id)
        except OSError as e:
            logger.warning("session.metadata.create_failed", session_id=session_id, error=str(e))
        yield half
        _sync_tree(half)
        with _room_for_one(root):
            os.rename(half, root / session_id)  # noqa: PTH104 - fails where Path.replace would overwrite
    except BaseException:
        with contextlib.suppress(OSError):
            delete_tree.remove(half)
        raise
    sync_folder(root)


def _sync_tree(folder: Path) -> None:
    """Make what is in a folder survive a power cut, before the folder gets its name."""
    if any(entry.name != workspace_survey.METADATA_NAME for entry in folder.iterdir()):  # that one is synced already
        sync_tree(folder)


@contextlib.contextmanager
def _room_for_one(root: Path) -> Iterator[None]:
    """Holds the place for one more session, so that two at once cannot both be the last one allowed."""
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
                f"there are {count} sessions, and the administrator allows at most {rules.sessions} "
                f"({rules.sources['sessions']}). Delete some: `%prune --older-than 7d` shows old ones and deletes them "
                "with --yes, `%session list` shows all, `%session delete ID --yes` deletes one; in a terminal: "
                "`wasm-kernel prune`"
            )
        yield
    finally:
        os.close(handle)
