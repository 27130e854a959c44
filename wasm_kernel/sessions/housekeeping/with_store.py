"""Housekeeping where sessions are pushed to an object store: what is here and what is there are judged together.

* A session counts once, whether it is here, in the store, or in both; it is deleted from both.
* One that another machine has open is in use. One that another machine has gone on with was used when that was pushed.
* Deleting takes the lease first, then what is here, then what is in the store; what fails there is a deletion that is
  not finished, which the next prune does, bound or no bound.
* A session to be archived, or to leave a snapshot, is brought here first.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from wasm_kernel.errors import LeaseLost, SessionDeleted, SessionElsewhere, SessionLocked, WasmKernelError
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.records import is_uuid
from wasm_kernel.model.retention import Decision, Plan, SessionFacts
from wasm_kernel.sessions.inventory import Survey, stamp_of
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.remote.deleting import collect, delete_stored, unfinished
from wasm_kernel.sessions.remote.lease import Lease, acquire
from wasm_kernel.sessions.remote.pulling import pull_session
from wasm_kernel.sessions.remote.states import states
from wasm_kernel.sessions.remote.stored import Leftover, StoredSession, StoreSurvey, records_of, survey_store
from wasm_kernel.sessions.remote.synced import forget_synced, node_of, read_synced

_AT_ONCE = 8  # sessions: a store answers slowly, and many at a time
_ONLY_HERE = "It is deleted on this machine, and the next prune deletes it from the store"
_NAMED = 200  # sessions of the store, to be deleted, whose titles are read


@dataclass(frozen=True)
class InStore:
    """A store, and what was in it when a prune was planned."""

    objects: Objects
    sessions: dict[str, StoredSession] = field(default_factory=dict)
    leftovers: list[Leftover] = field(default_factory=list)
    deleted_here: list[Decision] = field(default_factory=list)


def look(objects: Objects, root: Path, found: Survey) -> tuple[Survey, InStore]:
    """What is here and in the store, together."""
    seen = survey_store(objects, root)
    gone = set(unfinished(root, seen.sessions))
    sessions = [_both(root, facts, seen) for facts in found.sessions]
    here = {facts.session_id for facts in found.sessions}
    now = datetime.now(UTC)
    deleted_here = []
    for stored in seen.sessions.values():
        if stored.session_id in here or not is_uuid(stored.session_id):
            continue
        live = bool(stored.open_at)
        copy = {"stored_bytes": stored.size_bytes, "stored_stamp": stored.stamp, "only_stored": True}
        facts = SessionFacts(stored.session_id, stored.updated_at, live=live, **copy)  # type: ignore[arg-type]
        if stored.session_id in gone:
            age = (now - stored.updated_at).total_seconds() / 3600
            deleted_here.append(Decision.to_remove(facts, "deleted here", age))
        else:
            sessions.append(facts)
    return replace(found, sessions=sessions), InStore(objects, seen.sessions, seen.leftovers, deleted_here)


def _both(root: Path, facts: SessionFacts, seen: StoreSurvey) -> SessionFacts:
    stored = seen.sessions.get(facts.session_id)
    if stored is None:
        return facts
    known, used = read_synced(root, facts.session_id), facts.updated_at
    if used is not None and (known is None or not known.has_had(stored.state)):
        used = max(used, stored.updated_at)
    return replace(
        facts,
        updated_at=used,
        live=facts.live or bool(stored.open_at),
        stored_bytes=stored.size_bytes,
        stored_stamp=stored.stamp,
    )


def with_deleted_here(decided: Plan, store: InStore, keep: Iterable[str]) -> Plan:
    """A plan that also finishes the deletions of this machine."""
    kept = set(keep)
    return replace(decided, remove=[*decided.remove, *(d for d in store.deleted_here if d.session_id not in kept)])


def with_names(found: Survey, store: InStore, going: Iterable[Decision]) -> Survey:
    """The same with the metadata of sessions in the store that are to be deleted: somebody may be asked about them."""
    wanted = [d.session_id for d in going if d.only_stored][:_NAMED]
    return replace(found, records={**records_of(store.objects, store.sessions, wanted), **found.records})


class StoreRemoval:
    """Deletes sessions from a store: `take` before they are deleted here, `finish` afterwards."""

    def __init__(self, store: InStore, root: Path, logger: SandboxLogger) -> None:
        self._objects, self._store, self._root, self._logger = store.objects, store, root, logger
        self._leases: dict[str, Lease] = {}
        self.live: list[str] = []
        self.changed: list[str] = []
        self.errors: dict[str, str] = {}
        self.freed_bytes = 0

    def take(self, decisions: list[Decision], *, bring: bool) -> list[Decision]:
        """Take their leases; those of which we have them, or that are not in the store, in the same order.

        ``bring``: they are needed here; what is only in the store, or newer there, is fetched.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            taken = list(pool.map(lambda d: self._take(d, bring=bring) if d.stored_stamp else d, decisions))
        return [decision for decision in taken if decision is not None]

    def _take(self, decision: Decision, *, bring: bool) -> Decision | None:
        session_id = decision.session_id
        try:
            lock_session(self._root, session_id).release()  # its own kernel has the lease, and keeps it
            lease = acquire(self._objects, session_id, node=node_of(self._root))
            self._leases[session_id] = lease
            if self._stamp(session_id) != decision.stored_stamp:
                self.changed.append(session_id)
                self._give_back(session_id)
                return None
            return self._brought(decision, lease) if bring else decision
        except (SessionLocked, SessionElsewhere):
            self.live.append(session_id)
        except SessionDeleted:
            if not decision.only_stored:
                return replace(decision, stored_stamp="")
            self.changed.append(session_id)
        except (WasmKernelError, OSError) as e:
            self.errors[session_id] = str(e)
            self._give_back(session_id)
        return None

    def _stamp(self, session_id: str) -> str:
        return "".join(states(self._objects, session_id)[-1:]).rpartition("/")[2]

    def _brought(self, decision: Decision, lease: Lease) -> Decision:
        before = stamp_of(self._root, decision.session_id)
        with lease.kept_alive():
            pull_session(self._objects, self._root, decision.session_id, self._logger)
        if before != decision.stamp:
            return decision  # used just now: carrying it out sees that
        return replace(decision, stamp=stamp_of(self._root, decision.session_id))

    def finish(self, decisions: list[Decision], done: set[str]) -> None:
        """Delete from the store what was deleted here, or was only there; give the others' leases back."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            ours = [d for d in decisions if d.session_id in self._leases]
            self.freed_bytes = sum(pool.map(lambda d: self._finish(d, done), ours))

    def _finish(self, decision: Decision, done: set[str]) -> int:
        session_id = decision.session_id
        if session_id not in done:
            self._give_back(session_id)
            return 0
        try:
            delete_stored(self._objects, session_id, self._leases[session_id])
        except LeaseLost:
            forget_synced(self._root, session_id)
            if decision.only_stored:
                done.discard(session_id)
                self.live.append(session_id)
        except (WasmKernelError, OSError) as e:
            done.discard(session_id)
            self.errors[session_id] = str(e) if decision.only_stored else f"{e}. {_ONLY_HERE}"
        else:
            forget_synced(self._root, session_id)
            self._logger.info("session.prune.deleted", session_id=session_id, where=self._objects.address)
            return decision.stored_bytes
        return 0

    def _give_back(self, session_id: str) -> None:
        lease = self._leases.pop(session_id, None)
        try:
            if lease is not None:
                lease.give_back()
        except (WasmKernelError, OSError) as e:
            self._logger.warning("session.lease.kept", session_id=session_id, error=str(e))

    def sweep(self) -> None:
        """Delete what nothing needs."""
        for leftover in self._store.leftovers:
            try:
                collect(self._objects, leftover)
            except (WasmKernelError, OSError) as e:
                self._logger.warning("session.store.leftovers", session_id=leftover.session_id, error=str(e))
