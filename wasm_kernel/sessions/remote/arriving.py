"""Opening a session that may have been elsewhere: its lease first, then what the store has and this machine has not."""

from __future__ import annotations

import contextlib
from pathlib import Path

from wasm_kernel.errors import SessionLocked, WasmKernelError
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.remote.lease import Holder, Lease, acquire, holder, is_held
from wasm_kernel.sessions.remote.pulling import pull_session
from wasm_kernel.sessions.remote.synced import node_of, read_synced
from wasm_kernel.sessions.snapshots.reading import newest_snapshot


def arrive(objects: Objects, root: Path, session_id: str, lease: Lease, logger: SandboxLogger) -> str:
    """Bring a session here whose lease we have. What the person should know, or nothing.

    On an error the lease goes back.
    """
    before = newest_snapshot(root, session_id) if (root / session_id).is_dir() else None
    known = read_synced(root, session_id)
    try:
        with lease.kept_alive():
            pulled = pull_session(objects, root, session_id, logger)
    except BaseException:
        with contextlib.suppress(WasmKernelError, OSError):
            lease.give_back()
        raise
    if pulled is None or before is None or (known is not None and known.snapshot_id == before.snapshot_id):
        return ""
    if pulled.snapshot_id == (known.snapshot_id if known is not None else ""):
        return ""  # nothing came
    return (
        "Another machine has gone on with this session, and so does this one. What had not been pushed from here is "
        'kept as the snapshot "before restore": `%session snapshots`'
    )


def take_lease(objects: Objects, root: Path, session_id: str, *, take_over: bool = False) -> Lease:
    """The lease of a session that no kernel on this machine has open. `SessionElsewhere` says who has it."""
    return acquire(objects, session_id, take_over=take_over, node=node_of(root))


def held_elsewhere(objects: Objects, root: Path, session_id: str) -> Holder | None:
    """Who has a session now, on another machine; None: nobody."""
    found = holder(objects, session_id)
    return found if found is not None and is_held(objects, session_id, found, node_of(root)) else None


def is_open_here(root: Path, session_id: str) -> bool:
    """Whether a process on this machine has a session open."""
    try:
        lock_session(root, session_id).release()
    except SessionLocked:
        return True
    return False
