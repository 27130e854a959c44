"""What is in an object store, by one listing: every session's size, age and holder, and what is left over.

Nothing is read of a session, so a store is looked at in a request for each thousand objects, of which a session has
about six. Times are the store's own; a session was last used when its newest state was written, or before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from wasm_kernel.errors import BadSnapshot, RemoteError
from wasm_kernel.host.remote.objects import Entry, Objects
from wasm_kernel.model.records import BadRecord, SessionRecord, is_session_id, parse_record
from wasm_kernel.sessions.remote.lease import holder, is_silent, mark_of, store_time
from wasm_kernel.sessions.remote.states import is_state, read_state
from wasm_kernel.sessions.remote.synced import node_of

REMEMBERED = timedelta(days=365)  # how long a deleted session's mark keeps machines that were away from pushing it
_MOST_OF_A_NAME = 64 << 20  # bytes of a state that is only read for its session's title
_UNFINISHED = timedelta(days=1)  # after which what an interrupted push left is not waited for any more


@dataclass(frozen=True)
class StoredSession:
    """A session in the store. ``state``: the object of its newest state; ``open_at``: who has it on another machine."""

    session_id: str
    updated_at: datetime
    size_bytes: int
    state: str
    open_at: str = ""

    @property
    def stamp(self) -> str:
        """Changes with every push."""
        return self.state.rpartition("/")[2]


@dataclass(frozen=True)
class Leftover:
    """Objects that nothing needs, by session; with ``unsure`` somebody may be writing them, which the lease tells."""

    session_id: str
    names: tuple[str, ...]
    size_bytes: int
    unsure: bool


@dataclass(frozen=True)
class StoreSurvey:
    """Everything in a store."""

    sessions: dict[str, StoredSession] = field(default_factory=dict)
    leftovers: list[Leftover] = field(default_factory=list)
    deleted: frozenset[str] = frozenset()


def survey_store(objects: Objects, root: Path | None = None) -> StoreSurvey:
    """Look at a store. ``root``: this machine's sessions, which do not count as open elsewhere."""
    sessions: dict[str, StoredSession] = {}
    leftovers: list[Leftover] = []
    deleted = set()
    entries = [entry for entry in objects.listing("sessions/") if entry.name.count("/") == 3]
    now = datetime.now(UTC)
    if entries:
        now = datetime.fromtimestamp(store_time(objects, "probes/"), UTC)
    for session_id, group in groupby(entries, key=lambda entry: entry.name.split("/")[1]):
        if not is_session_id(session_id):
            continue
        found = list(group)
        if any(entry.name == mark_of(session_id) for entry in found):
            deleted.add(session_id)
        else:
            stored = _session(objects, session_id, found, now, root)
            if stored is not None:
                sessions[session_id] = stored
        leftovers.extend(_leftovers(session_id, found, now))
    return StoreSurvey(sessions, leftovers, frozenset(deleted))


def _session(
    objects: Objects, session_id: str, entries: list[Entry], now: datetime, root: Path | None
) -> StoredSession | None:
    states = [entry for entry in entries if is_state(entry.name)]
    if not states:
        return None
    size = sum(entry.size for entry in entries)
    open_at = _open_at(objects, session_id, entries, now, root)
    return StoredSession(session_id, states[-1].modified, size, states[-1].name, open_at)


def _open_at(objects: Objects, session_id: str, entries: list[Entry], now: datetime, root: Path | None) -> str:
    """Who has a session on another machine; empty: nobody. Only then something is read: who it is."""
    said = {entry.name.rpartition("/")[2]: entry.modified for entry in entries if "/leases/" in entry.name}
    token = max((name for name in said if name.isdecimal()), default="")
    if not token or f"{token}.over" in said:
        return ""
    last = said.get(f"{token}.beat", said[token])
    if is_silent(last.timestamp(), now.timestamp()):
        return ""
    found = holder(objects, session_id)
    here = found is not None and root is not None and found.node == node_of(root)
    return "" if found is None or found.over or here else found.who


def _leftovers(session_id: str, entries: list[Entry], now: datetime) -> Iterable[Leftover]:
    """What a deletion that was killed, or a push that came too late, has left; and marks that are old enough."""
    marks = [entry for entry in entries if entry.name == mark_of(session_id)]
    states = [entry for entry in entries if is_state(entry.name)]
    if marks:
        old = now - marks[0].modified > REMEMBERED
        rest = [entry for entry in entries if old or entry not in marks]
        if rest:
            yield _leftover(session_id, rest, unsure=False)
        return
    quiet = [entry for entry in entries if "/packs/" in entry.name and now - entry.modified > _UNFINISHED]
    # Packs are written before the state that names them, so what came later, and long ago, is of no state. A holder
    # that was killed may still only be asleep: what it left is its session's next push's to delete.
    said = [entry.name for entry in entries if "/leases/" in entry.name]
    last = max((name for name in said if name.rpartition("/")[2].isdecimal()), default="")
    given_back = f"{last}.over" in said
    stray = [entry for entry in quiet if not states or entry.modified > states[-1].modified]
    if stray and (given_back or not states):
        yield _leftover(session_id, stray, unsure=True)


def _leftover(session_id: str, entries: list[Entry], *, unsure: bool) -> Leftover:
    return Leftover(session_id, tuple(entry.name for entry in entries), sum(entry.size for entry in entries), unsure)


def records_of(
    objects: Objects, sessions: Mapping[str, StoredSession], wanted: Iterable[str]
) -> dict[str, SessionRecord]:
    """The metadata of some sessions in the store, as far as it can be read: people know them by it.

    A hub's service reads those of all users, who may have written anything there: what is very large is not read.
    """
    found = {}
    for session_id in wanted:
        try:
            found[session_id] = parse_record(read_state(objects, sessions[session_id].state, _MOST_OF_A_NAME).record)
        except (KeyError, BadSnapshot, BadRecord, RemoteError):
            continue
    return found


def remote_sessions(objects: Objects) -> list[str]:
    """The ids of all sessions in a store."""
    return sorted(survey_store(objects).sessions)
