"""Who uses a session: locks that the system releases when their holder dies, and the gate that removals go through."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wasm_kernel.errors import SessionLocked
from wasm_kernel.model.names import METADATA_NAME, STATE_FOLDER
from wasm_kernel.model.records import is_session_id, is_uuid

_MAX_TOLD = 32768  # bytes in a lock's file: there may be a long path in it
_PATIENCE = 0.1  # whoever only looks whether a session is live holds its lock for microseconds


def state_folder(root: Path) -> Path:
    """The folder for locks and trash, made if needed."""
    folder = root / STATE_FOLDER
    (folder / "locks").mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def gate(root: Path, *, exclusive: bool) -> Iterator[None]:
    """Shared: sessions cannot be removed meanwhile. Exclusive: no session's lock can be taken meanwhile."""
    handle = os.open(state_folder(root) / "gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@dataclass
class SessionLock:
    """Held while a sandbox of the session lives; the system releases it if the holder dies."""

    path: Path
    _handle: int
    _facts: dict[str, Any] = field(default_factory=dict)
    _is_told: bool = False

    def tell(self, **facts: Any) -> None:
        """Write down something about its use, for other processes: `told`; where the disk is full, later."""
        self._facts.update(facts)
        self._is_told = False
        with contextlib.suppress(OSError, ValueError):
            text = json.dumps(self._facts).encode()
            # In one go, over all that is there: others read this or the last.
            written = os.pwrite(self._handle, text.ljust(os.fstat(self._handle).st_size), 0)
            self._is_told = written >= len(text)

    def tell_again(self) -> None:
        """Write down what there was no room for."""
        if not self._is_told:
            self.tell()

    def release(self) -> None:
        """Let others use the session."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
                fcntl.flock(self._handle, fcntl.LOCK_UN)  # a forked child may hold the same descriptor
            os.close(self._handle)
            self._handle = -1


def lock_session(root: Path, session_id: str, wait: float = 0.0) -> SessionLock:
    """Take a session's lock; `SessionLocked` names the holder when it is still held after ``wait`` seconds."""
    end = time.monotonic() + max(wait, _PATIENCE)
    path = state_folder(root) / "locks" / session_id
    while True:
        with gate(root, exclusive=False):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
            except OSError as e:
                holder = _holder(handle)
                os.close(handle)
                if e.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            else:
                lock = SessionLock(path, handle)
                lock.tell(pid=os.getpid(), since=time.time())
                return lock
        if time.monotonic() >= end:
            raise SessionLocked(
                f"session {session_id} is in use by {holder}; close it there, or pass wait=SECONDS to wait for it"
            )
        time.sleep(min(0.05, max(0.001, end - time.monotonic())))


def _holder(handle: int) -> str:
    try:
        found = json.loads(os.pread(handle, _MAX_TOLD, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(found["since"])))
        here = " (this process)" if found["pid"] == os.getpid() else ""
        return f"process {int(found['pid'])}{here} since {since}"
    except (ValueError, KeyError, TypeError, OSError):
        return "another process"


def is_live(root: Path, session_id: str) -> bool:
    """Whether somebody holds a session's lock, or may hold it. Exact only while the gate is held exclusively."""
    try:
        handle = os.open(f"{root}/{STATE_FOLDER}/locks/{session_id}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # no descriptor left, or not ours to open: who asks may be about to delete it
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)


def known_locks(root: Path) -> set[str] | None:
    """Sessions that have a lock's file, whether anybody holds it or not; None: that cannot be looked at."""
    try:
        return set(os.listdir(root / STATE_FOLDER / "locks"))  # noqa: PTH208 - names, no paths
    except OSError:
        return None


def told(root: Path, session_id: str) -> dict[str, Any]:
    """What the holder of a session's lock wrote down; nothing when nobody holds it."""
    if not is_live(root, session_id):
        return {}
    try:
        with (root / STATE_FOLDER / "locks" / session_id).open("rb") as file:
            found = json.loads(file.read(_MAX_TOLD))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def forget_lock(root: Path, session_id: str) -> None:
    """Delete the lock file of a session that is gone. The caller holds the gate exclusively."""
    with contextlib.suppress(OSError):
        os.unlink(f"{root}/{STATE_FOLDER}/locks/{session_id}")  # noqa: PTH108 - thousands of these calls in a prune


def forget_free_lock(root: Path, session_id: str) -> None:
    """Delete a session's lock file unless somebody has taken it meanwhile."""
    with gate(root, exclusive=True):
        if not is_live(root, session_id):
            forget_lock(root, session_id)


def live_sessions(root: Path) -> set[str]:
    """Every session whose lock is held."""
    try:
        found = os.listdir(root / STATE_FOLDER / "locks")  # noqa: PTH208 - names, no paths
    except OSError:
        return set()
    return {name for name in found if is_live(root, name)}


def named_sessions(root: Path) -> frozenset[str]:
    """Sessions that are not named by a UUID, in lower case: those somebody opened, and those with metadata."""
    if not (root / STATE_FOLDER).is_dir():
        return frozenset()
    found: set[str] = set()
    with contextlib.suppress(OSError):
        found.update(os.listdir(root / STATE_FOLDER / "locks"))  # noqa: PTH208 - names, no paths
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        found.update(e.name for e in entries if not is_uuid(e.name) and os.path.lexists(f"{e.path}/{METADATA_NAME}"))
    return frozenset(name.lower() for name in found if is_session_id(name) and not is_uuid(name))
