"""Carry out what was decided about a workspace, and nothing else, however much later."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from wasm_kernel.errors import MountInside, SessionLocked, WasmKernelError
from wasm_kernel.host.disk import locks, removal, tombstones
from wasm_kernel.host.disk.deleters import Deleters, processors
from wasm_kernel.host.durable import make_folder
from wasm_kernel.model.retention import Decision
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions.archive import sweep_parts, write_archive
from wasm_kernel.sessions.deletion import MOST_REMEMBERED, remembered, save_and_remove
from wasm_kernel.sessions.housekeeping.planning import HousePlan
from wasm_kernel.sessions.housekeeping.results import PruneResult, kept
from wasm_kernel.sessions.housekeeping.with_store import StoreRemoval
from wasm_kernel.sessions.inventory import stamp_of
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import give_space_back, remove_snapshots

_BATCH = 200  # sessions moved per hold of the gate
_PORTION = 10  # sessions that are deleted by one process, or thread, at a time
_AHEAD = 10  # portions for each that wait while the next batch is moved
# Sessions for which another process is started: it takes as long as to delete a hundred small ones. There are as many
# as processors, and more where that is no matter: a disk may be far away, and each wait for it.
_WORTH_A_PROCESS, _WORTH_WAITING = 200, 1000
_PATIENCE = 10.0  # seconds that a collection waits while a snapshot is being taken

_NOTHING: dict[str, Any] = {}

OnProgress = Callable[[int, int], None]
"""Called with the number of sessions done, and of all."""


def carry_out(
    root: Path,
    planned: HousePlan,
    logger: SandboxLogger,
    *,
    workers: int = 4,
    on_progress: OnProgress | None = None,
) -> PruneResult:
    """Carry out a plan, sparing sessions in use or used since, and sweep leftovers. What fails is reported."""
    wanted = planned.sessions.remove
    stored = StoreRemoval(planned.store, root, logger) if planned.store is not None else None
    if stored is not None:
        taken = stored.take(wanted, bring=planned.archive_to is not None or planned.snapshot)
        if planned.archive_to is None and not planned.snapshot:
            taken = [d for d in taken if not d.only_stored]
        planned = replace(planned, sessions=replace(planned.sessions, remove=taken))
    work = _Removal(root, planned, logger, on_progress)
    forgotten: list[Decision] = []
    try:
        for decision in planned.forget:
            tombstones.forget(root, decision.session_id)  # first: what remains is then swept with the leftovers
            forgotten.append(decision)
        with removal.Bin(root) as place:
            with locks.gate(root, exclusive=True):
                place.collect_leftovers()
            if planned.archive_to is not None or planned.snapshot:
                work.save_and_delete()
            else:
                work.delete(place, workers)
    except OSError as e:  # such as a root, or a gate, that may not be written
        work.fail_the_rest(e)
    if stored is not None:
        _delete_from_store(stored, wanted, planned, work)
    removal.sweep_temporaries(planned.found.temporaries)
    thinned = _thin_out(root, planned.snapshots, work, logger)
    gone = [d for d in wanted if d.session_id in work.done]
    reclaimed = sum(d.size_bytes + d.snapshot_bytes for d in (*gone, *forgotten))
    return PruneResult(
        deleted_sessions=[d.session_id for d in gone],
        skipped_sessions=[d.session_id for d in planned.sessions.skip],
        reclaimed_bytes=reclaimed + sum(s.stored_bytes for s in thinned),
        errors=work.errors,
        live_sessions=work.live,
        archived=work.archived,
        last_snapshots=work.last_snapshots,
        changed_sessions=work.changed,
        forgotten_sessions=[d.session_id for d in forgotten],
        deleted_snapshots=[s.snapshot_id for s in thinned],
        snapshot_bytes_freed=give_space_back(root, wait=_PATIENCE if gone or forgotten or thinned else 0.0),
        stored_bytes_freed=stored.freed_bytes if stored is not None else 0,
    )


def _delete_from_store(stored: StoreRemoval, wanted: list[Decision], planned: HousePlan, work: _Removal) -> None:
    """What was deleted here goes from the store, and what was only there; ``work`` records the result."""
    here = {d.session_id for d in planned.sessions.remove}
    refused = {*stored.live, *stored.changed, *stored.errors}
    work.done.update(d.session_id for d in wanted if d.only_stored and d.session_id not in here | refused)
    stored.finish(wanted, work.done)
    stored.sweep()
    work.live.extend(stored.live)
    work.changed.extend(stored.changed)
    work.errors.update(stored.errors)


class _Around:
    """What is beside sessions, asked once for many of them: true as long as the gate is held exclusively."""

    def __init__(self, root: Path, place: removal.Bin, mounted: set[str]) -> None:
        self.mounted, self.belongings = mounted, place.belongings()
        self._locked = locks.known_locks(root)

    def may_be_locked(self, session_id: str) -> bool:
        """Whether a session has a lock's file, or may have one."""
        return self._locked is None or session_id in self._locked


class _Removal:
    """Deletes the sessions of a plan, and records the result for each."""

    def __init__(self, root: Path, planned: HousePlan, logger: SandboxLogger, on_progress: OnProgress | None) -> None:
        self._root, self._planned, self._logger, self._on_progress = root, planned, logger, on_progress
        self.done: set[str] = set()
        self.errors: dict[str, str] = {}
        self.live = kept(planned, "live")
        self.changed = kept(planned, "changed")
        self.archived: dict[str, Path] = {}
        self.last_snapshots: dict[str, str] = {}
        # No more than will be remembered: a prune may delete any number.
        self._facts = dict.fromkeys([d.session_id for d in planned.sessions.remove[-MOST_REMEMBERED:]], _NOTHING)

    def delete(self, place: removal.Bin, workers: int) -> None:
        """Move the sessions to a bin, a batch at a time, and empty it."""
        remove = self._planned.sessions.remove
        mounted = removal.mounted_in(self._root) if remove else set()

        workers = max(1, workers)
        count = _processes(len(remove), workers) if place.path else 0
        unnoted: list[str] = []
        with Deleters(place.handle, count) as others, ThreadPoolExecutor(workers) as pool:
            portions: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
            helpers = others.count or workers - 1
            helping = [pool.submit(self._help, place, others, portions) for _ in range(helpers)]
            try:
                for start in range(0, len(remove), _BATCH):
                    with locks.gate(self._root, exclusive=True):
                        batch, around = remove[start : start + _BATCH], _Around(self._root, place, mounted)
                        taken = [d.session_id for d in batch if self._take(place, d, around)]
                    if not self._note(taken):
                        unnoted += taken
                    for at in range(0, len(taken), _PORTION):
                        portions.put(taken[at : at + _PORTION])
                    while portions.qsize() > _AHEAD * helpers:
                        self._destroy(place, portions)
                while self._destroy(place, portions):
                    pass
            finally:
                for _ in helping:
                    portions.put([])
            for helper in helping:
                helper.result()
        self._note(unnoted)  # there was no room; now there may be
        if self.done:
            tombstones.trim(self._root, MOST_REMEMBERED)

    def _help(self, place: removal.Bin, others: Deleters, portions: queue.SimpleQueue[list[str]]) -> None:
        """Have sessions deleted by another process, if there is one, until there are no more. On a thread."""
        coming = iter(portions.get, [])
        for session_ids, left in others.delete(coming) if others.count else ((some, some) for some in coming):
            self._destroyed(place, session_ids, left)

    def _destroy(self, place: removal.Bin, portions: queue.SimpleQueue[list[str]]) -> bool:
        """Delete some sessions that are in the bin; whether there were any."""
        try:
            session_ids = portions.get_nowait()
        except queue.Empty:
            return False
        self._destroyed(place, session_ids, session_ids)
        return True

    def _destroyed(self, place: removal.Bin, session_ids: list[str], left: list[str]) -> None:
        """Record that sessions are deleted, after those that are ``left`` have been."""
        for session_id in session_ids:
            try:
                if session_id in left:
                    place.destroy(session_id)
            except OSError as e:
                self._failed(session_id, e)
                continue
            self.done.add(session_id)
            self._logger.info("session.prune.deleted", session_id=session_id)
            self._progressed(len(self.done))

    def _note(self, session_ids: list[str]) -> bool:
        gone = {session_id: facts for session_id in session_ids if (facts := self._facts.get(session_id))}
        return not gone or tombstones.note(self._root, gone)

    def _take(self, place: removal.Bin, decision: Decision, around: _Around) -> bool:
        """Move a session to the bin, unless it must be kept. The gate is held exclusively."""
        session_id = decision.session_id
        if around.may_be_locked(session_id) and locks.is_live(self._root, session_id):
            self.live.append(session_id)
            return False
        try:
            if session_id in around.mounted:
                raise MountInside(f"another file system is mounted inside session {session_id}; unmount it first")
            if stamp_of(self._root, session_id) == decision.stamp:
                if session_id in self._facts:
                    record = self._planned.found.records.get(session_id)  # the stamp says that it is the same
                    self._facts[session_id] = remembered(self._root / session_id, record=record)
                if place.take(session_id, there=around.belongings) is not None:
                    if around.may_be_locked(session_id):
                        locks.forget_lock(self._root, session_id)
                    return True
        except FileNotFoundError:
            pass  # deleted by somebody else
        except OSError as e:
            self._failed(session_id, e)
            return False
        self.changed.append(session_id)
        return False

    def save_and_delete(self) -> None:
        """Write each session to a file of its own, or save it as a last snapshot, or both, and delete it."""
        if self._planned.archive_to is not None:
            sweep_parts(self._planned.archive_to)
        for number, decision in enumerate(self._planned.sessions.remove, 1):
            session_id = decision.session_id
            try:
                lock = locks.lock_session(self._root, session_id)
            except SessionLocked:
                self.live.append(session_id)
                continue
            except OSError as e:
                self.errors[session_id] = str(e)
                continue
            try:
                self._save_and_delete(decision, lock)
            except (OSError, ValueError, WasmKernelError) as e:
                self.errors[session_id] = str(e)
            finally:
                lock.release()
                locks.forget_free_lock(self._root, session_id)
                self._progressed(number)

    def _save_and_delete(self, decision: Decision, lock: locks.SessionLock) -> None:
        """Save and delete it under one lock, so that no work done in between is lost."""
        session_id, target = decision.session_id, self._planned.archive_of(decision.session_id)
        if stamp_of(self._root, session_id) != decision.stamp:
            self.changed.append(session_id)
            return
        if target is not None:
            make_folder(target.parent)
            write_archive(self._root, session_id, target, self._logger)
        if self._planned.snapshot:
            self.last_snapshots[session_id] = self._saved(session_id, lock)
        else:
            facts = remembered(self._root / session_id)
            removal.remove_session(self._root, session_id)
            tombstones.note(self._root, {session_id: facts})
        self.done.add(session_id)
        if target is not None:
            self.archived[session_id] = target
        self._logger.info("session.deleted", session_id=session_id)

    def fail_the_rest(self, error: OSError) -> None:
        """Nothing more can be done: whatever was to be deleted, and is not, could not be."""
        known = self.done.union(self.errors, self.live, self.changed)
        rest = [d.session_id for d in self._planned.sessions.remove if d.session_id not in known]
        for session_id in rest:
            self._failed(session_id, error)
        if not rest:
            self._logger.warning("session.prune.failed", workspace_root=str(self._root), error=str(error))

    def _saved(self, session_id: str, lock: locks.SessionLock) -> str:
        return save_and_remove(self._root, session_id, lock, self._logger).snapshot_id

    def _failed(self, session_id: str, error: OSError) -> None:
        self.errors[session_id] = str(error)
        self._logger.warning("session.prune.failed", session_id=session_id, error=str(error))

    def _progressed(self, count: int) -> None:
        if self._on_progress is not None:
            self._on_progress(count, len(self._planned.sessions.remove))


def _processes(sessions: int, workers: int) -> int:
    """How many processes besides this one are to delete so many sessions."""
    if sessions < _WORTH_A_PROCESS:
        return 0
    return min(workers - 1, max(processors() - 1, sessions // _WORTH_WAITING, 1))


def _thin_out(root: Path, doomed: list[Snapshot], work: _Removal, logger: SandboxLogger) -> list[Snapshot]:
    """Delete these snapshots; those deleted. Sessions that are now in use are added to those of ``work``."""
    if not doomed:
        return []
    try:
        with contextlib.closing(snapshot_store(root)) as store:
            gone, in_use = remove_snapshots(root, doomed, store)
    except OSError as e:
        work.errors.update({s.session_id: str(e) for s in doomed})
        return []
    work.live.extend(in_use)
    for snapshot in gone:
        logger.info("session.snapshot.deleted", snapshot_id=snapshot.snapshot_id)
    return gone
