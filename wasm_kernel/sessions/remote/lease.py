"""Who may push a session: a lease with a fencing token, by nothing but objects that only one writer can create."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime

from wasm_kernel.errors import LeaseLost, SessionElsewhere
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.grants import legible
from wasm_kernel.model.records import format_time

BEAT_SECONDS = 60.0
_STALE_AFTER = 4 * BEAT_SECONDS
_DIGITS = 12
_MOST_SAID = 10_000  # bytes


@dataclass(frozen=True)
class Holder:
    """Who has, or had, a session: for people."""

    token: int
    who: str
    since: str
    over: bool


class Lease:
    """The right to push a session, until `give_back`, or until somebody takes over."""

    def __init__(self, objects: Objects, session_id: str, token: int) -> None:
        self._objects, self._session_id, self.token = objects, session_id, token

    @property
    def prefix(self) -> str:
        """What the names of its states begin with: they sort by token."""
        return f"{self.token:0{_DIGITS}d}"

    def check(self) -> None:
        """`LeaseLost` if somebody has taken over."""
        found = holder(self._objects, self._session_id)
        if found is None or found.token != self.token:
            who = f"{found.who} has taken it over at {found.since}" if found is not None else "it was deleted there"
            raise LeaseLost(f"session {self._session_id} is no longer pushed from here: {who}")

    def beat(self) -> None:
        """Say that it is still in use."""
        self._objects.write(f"{_name(self._session_id, self.token)}.beat", format_time(datetime.now(UTC)).encode())

    def give_back(self) -> None:
        """Let the next one have it at once."""
        self._objects.write(f"{_name(self._session_id, self.token)}.over", b"")


def holder(objects: Objects, session_id: str) -> Holder | None:
    """Who had the session last; None: nobody yet."""
    names = objects.names(f"sessions/{session_id}/leases/")
    tokens = [int(last) for name in names if (last := name.rpartition("/")[2]).isdecimal()]
    if not tokens:
        return None
    token = max(tokens)
    try:
        said = json.loads(objects.read(_name(session_id, token))[:_MOST_SAID])
        who, since = legible(str(said["who"]), 200), legible(str(said["since"]), 40)
    except (ValueError, KeyError, TypeError):
        who, since = "somebody", "an unknown time"
    return Holder(token, who, since, f"{_name(session_id, token)}.over" in names)


def acquire(objects: Objects, session_id: str, *, take_over: bool = False) -> Lease:
    """The lease of a session that nobody has, or whose holder is gone; with ``take_over`` in any case.

    `SessionElsewhere` says who has it.
    """
    before = holder(objects, session_id)
    if before is not None and not before.over and not take_over and not _is_stale(objects, session_id, before.token):
        raise SessionElsewhere(
            f"session {session_id} is open at {before.who} since {before.since}; close it there, or take it over"
        )
    token = before.token + 1 if before is not None else 1
    me = {"who": f"{platform.node()}, process {os.getpid()}", "since": format_time(datetime.now(UTC))}
    if not objects.create(_name(session_id, token), json.dumps(me).encode()):
        raise SessionElsewhere(f"session {session_id} was just opened elsewhere; try again")
    lease = Lease(objects, session_id, token)
    lease.beat()
    return lease


def _is_stale(objects: Objects, session_id: str, token: int) -> bool:
    """Whether its holder has not said anything for long, by the store's own clock: those of machines differ."""
    name = _name(session_id, token)
    try:
        last = objects.modified(f"{name}.beat")
    except KeyError:
        last = objects.modified(name)
    probe = f"sessions/{session_id}/leases/probe-{os.getpid()}"
    objects.write(probe, b"")
    try:
        return objects.modified(probe) - last > _STALE_AFTER
    finally:
        objects.delete([probe])


def _name(session_id: str, token: int) -> str:
    return f"sessions/{session_id}/leases/{token:0{_DIGITS}d}"
