"""Deletes sessions from an object store, so that nobody brings them back unknowingly.

A deletion takes the session's lease, then makes a mark, then looks for other leases. Whoever takes a lease looks for a
mark afterwards, so of two that come at once one sees the other, and gives way. While the mark is there nobody gets the
lease: a machine that was away is told that the session was deleted, and by whom, and keeps what is on its own disk.
Only with the mark in place are states and packs deleted; what a push that was under way still writes is left over, and
goes with the next prune. So does what a deletion that was killed has left.

A session that was deleted on this machine, by whatever way, and is still in the store as this machine knew it, is a
deletion that is not finished: `finish_deletions`. One that another machine has gone on with meanwhile is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from wasm_kernel.errors import LeaseLost, SessionElsewhere, WasmKernelError
from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.sessions.remote.lease import Lease, acquire, mark_of, me
from wasm_kernel.sessions.remote.states import newest_state, states
from wasm_kernel.sessions.remote.stored import Leftover, StoredSession
from wasm_kernel.sessions.remote.synced import forget_synced, node_of, read_synced, synced_sessions


def delete_stored(objects: Objects, session_id: str, lease: Lease) -> int:
    """Delete a session whose lease we have; how many objects that were. `LeaseLost` if somebody has taken over."""
    lease.check()
    objects.create(mark_of(session_id), me())
    if _other_leases(objects, session_id, lease):
        objects.delete([mark_of(session_id)])
        raise LeaseLost(f"session {session_id} was just opened elsewhere")
    names = [name for name in objects.names(f"sessions/{session_id}/") if name != mark_of(session_id)]
    for part in ("/states/", "/packs/", "/leases/"):  # a state never names what is gone
        objects.delete(name for name in names if part in name)
    return len(names)


def _other_leases(objects: Objects, session_id: str, lease: Lease) -> bool:
    last = [name.rpartition("/")[2] for name in objects.names(f"sessions/{session_id}/leases/")]
    return any(name.isdecimal() and int(name) > lease.token for name in last)


def waiting_deletions(root: Path) -> list[str]:
    """Sessions that were deleted here, and that the store had. Looks at this machine only."""
    return [name for name in synced_sessions(root) if tombstones.read(root, name) is not None]


def unfinished(root: Path, stored: Mapping[str, StoredSession]) -> list[str]:
    """Which of them are in the store as this machine knew them."""
    found = []
    for session_id in waiting_deletions(root):
        known, there = read_synced(root, session_id), stored.get(session_id)
        if known is not None and there is not None and known.has_had(there.state):
            found.append(session_id)
    return found


def finish_deletions(objects: Objects, root: Path, only: Iterable[str] | None = None) -> dict[str, str]:
    """Delete from the store what was deleted here; what went wrong, by session. It is tried again by the next one."""
    errors: dict[str, str] = {}
    for session_id in waiting_deletions(root) if only is None else set(waiting_deletions(root)) & set(only):
        try:
            _finish(objects, root, session_id)
        except (SessionElsewhere, LeaseLost):
            forget_synced(root, session_id)  # somebody else goes on with it, or has deleted it
        except (WasmKernelError, OSError) as e:
            errors[session_id] = str(e)
    return errors


def _finish(objects: Objects, root: Path, session_id: str) -> None:
    known = read_synced(root, session_id)
    newest = states(objects, session_id)[-1:]
    if newest and known is not None and known.has_had(newest[0]):
        lease = acquire(objects, session_id, node=node_of(root))
        if states(objects, session_id)[-1:] != newest:
            lease.give_back()
        else:
            delete_stored(objects, session_id, lease)
    forget_synced(root, session_id)


def collect(objects: Objects, leftover: Leftover) -> None:
    """Delete what nothing needs. Where somebody may be writing it, its session's lease is taken for that."""
    if not leftover.unsure:
        objects.delete(leftover.names)
        return
    with contextlib.suppress(SessionElsewhere, LeaseLost):
        lease = acquire(objects, leftover.session_id)
        try:
            newest = newest_state(objects, leftover.session_id)
            used = {f"sessions/{leftover.session_id}/packs/{name}" for name in newest.packs} if newest else set()
            lease.check()  # what was listed before a check that finds no other lease is nobody else's
            objects.delete(name for name in leftover.names if name not in used)
        finally:
            lease.give_back()
