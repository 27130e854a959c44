"""The space that snapshots take: deleting them, thinning them out, collecting chunks that none of them needs.

Snapshots of a session in use are kept, because undo needs them. Only the process that has the session open may thin
them out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import SessionLocked, StoreBusy, WasmKernelError
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.locks import gate, is_live, live_sessions
from wasm_kernel.host.store.chunks import ChunkStore, Collected, Verified
from wasm_kernel.model.administrator import Rules
from wasm_kernel.model.snapshot_retention import SnapshotRetention, plan_snapshots
from wasm_kernel.model.snapshots import Snapshot, chunks_of
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots.reading import AnyRoot, has_store, head_of, list_snapshots, session_of_snapshot

_ATTEMPTS = 4
_PATIENCE = 2.0  # seconds
_MOSTLY = 0.75


def delete_snapshot(snapshot_id: str, workspace_root: AnyRoot = None, *, logger: SandboxLogger | None = None) -> None:
    """Delete a snapshot. The next `collect_snapshots`, or prune, frees its space.

    Those of a session in use are kept for undo: `SessionLocked`.
    """
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    with contextlib.closing(snapshot_store(root)) as store:
        session_id = session_of_snapshot(store, snapshot_id)
        remove_at_rest(root, session_id, [snapshot_id], store)
    logger.info("session.snapshot.deleted", session_id=session_id, snapshot_id=snapshot_id)


def remove_at_rest(root: Path, session_id: str, snapshot_ids: Iterable[str], store: ChunkStore) -> list[str]:
    """Delete snapshots of a session that is not in use; returns those found. `SessionLocked` if it is.

    They are kept while it is live, because its kernel offers them for undo.
    """
    with gate(root, exclusive=True):  # keeps the session from being opened
        if is_live(root, session_id):
            raise SessionLocked(f"session {session_id} is in use, so its snapshots are kept for undo; close it first")
        return [name for name in snapshot_ids if store.remove_manifest(session_id, name)]


def remove_snapshots(
    root: Path, doomed: Iterable[Snapshot], store: ChunkStore, *, own: str = ""
) -> tuple[list[Snapshot], list[str]]:
    """Delete snapshots, session by session; those deleted, and the sessions that keep theirs because they are in use.

    ``own``: a session that the caller has open.
    """
    by_session: dict[str, list[Snapshot]] = {}
    for snapshot in doomed:
        by_session.setdefault(snapshot.session_id, []).append(snapshot)
    gone: list[Snapshot] = []
    in_use: list[str] = []
    for session_id, snapshots in by_session.items():
        if session_id == own:
            gone += [s for s in snapshots if store.remove_manifest(session_id, s.snapshot_id)]
            continue
        try:
            removed = set(remove_at_rest(root, session_id, [s.snapshot_id for s in snapshots], store))
            gone += [s for s in snapshots if s.snapshot_id in removed]
        except SessionLocked:
            in_use.append(session_id)
    return gone, in_use


# ---- the administrator's bounds


def make_room(root: Path, *, own: str = "", but: str = "") -> bool:
    """If most of the administrator's allowance for snapshots is used, delete the oldest checkpoints until half is free.

    Keeps what a person took, the newest of each session, and ``but``. Of sessions in use, only ``own``, which the
    caller has open, loses any. Whether there is room now.
    """
    rules = administrator.rules()
    if not rules.bounds_snapshots:
        return True
    with contextlib.closing(snapshot_store(root)) as store:
        for _ in range(_ATTEMPTS):  # deleted ones may share chunks with kept ones: then delete more
            size = store.stored_bytes()
            if not _is_mostly_used(rules, len(store.manifest_names()), size):
                return True
            gone, _ = remove_snapshots(root, _oldest_checkpoints(root, rules, size, own, but), store, own=own)
            with contextlib.suppress(StoreBusy):  # a snapshot is being taken: next time
                store.collect(chunks_of, wait=_PATIENCE)
            if not gone:
                break
    return False


def _is_mostly_used(rules: Rules, count: int, size: int) -> bool:
    bounds = ((count, rules.snapshots), (size, rules.snapshot_bytes))
    return any(most is not None and used > _MOSTLY * most for used, most in bounds)


def _oldest_checkpoints(root: Path, rules: Rules, size: int, own: str, but: str) -> list[Snapshot]:
    """The snapshots to delete so that half of the administrator's allowance is free."""
    found = list_snapshots(root)
    in_use = live_sessions(root) - {own}
    policy = SnapshotRetention(
        max_total=None if rules.snapshots is None else rules.snapshots // 2,
        max_total_bytes=None if rules.snapshot_bytes is None else rules.snapshot_bytes // 2,
        keep=frozenset([but, *(s.snapshot_id for s in found if s.session_id in in_use)]),
        keep_user=True,
    )
    return plan_snapshots(found, policy, datetime.now(UTC), size)


# ---- the whole store


def added_bytes(root: Path, session_ids: Collection[str]) -> dict[str, int]:
    """What the snapshots of these sessions added to the store, for sessions that have any."""
    if not session_ids or not has_store(root):
        return {}
    found: dict[str, int] = {}
    with contextlib.closing(snapshot_store(root)) as store:
        for group, name in store.manifest_names():
            if group in session_ids:
                with contextlib.suppress(WasmKernelError, OSError):
                    found[group] = found.get(group, 0) + head_of(store, group, name).stored_bytes
    return found


def give_space_back(root: Path, *, wait: float = 0.0) -> int:
    """Delete chunks that no snapshot refers to; the bytes freed. Left to the next time if a snapshot is being taken."""
    if not has_store(root):
        return 0
    with contextlib.suppress(WasmKernelError, OSError), contextlib.closing(snapshot_store(root)) as store:
        return store.collect(chunks_of, wait=wait).freed
    return 0


def collect_snapshots(workspace_root: AnyRoot = None, *, wait: float = 0.0) -> Collected:
    """Free the space of chunks that no snapshot refers to."""
    with contextlib.closing(snapshot_store(existing_root(workspace_root))) as store:
        return store.collect(chunks_of, wait=wait)


def verify_snapshots(
    workspace_root: AnyRoot = None, *, on_progress: Callable[[int, int], None] | None = None
) -> Verified:
    """Read everything that is stored, and report which snapshots are intact."""
    with contextlib.closing(snapshot_store(existing_root(workspace_root))) as store:
        return store.verify(chunks_of, on_progress)
