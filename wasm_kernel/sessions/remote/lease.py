"""Who may push a session: a lease with a fencing token, by nothing but objects that only one writer can create."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from wasm_kernel.errors import LeaseLost, RemoteError, SessionDeleted, SessionElsewhere
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
    node: str = ""  # what `synced.node_of` said there
    deleted: bool = False  # then ``who`` did that


class Lease:
    """The right to push a session, until `give_back`, or until somebody takes over."""

    def __init__(self, objects: Objects, session_id: str, token: int) -> None:
        self._objects, self._session_id, self.token = objects, session_id, token

    @property
    def prefix(self) -> str:
        """What the names of its states begin with: they sort by token."""
        return f"{self.token:0{_DIGITS}d}"

    def check(self) -> None:
        """`LeaseLost` if somebody has taken over, `SessionDeleted` if the session was deleted."""
        found = holder(self._objects, self._session_id)
        if found is not None and found.deleted:
            raise _gone(self._objects, self._session_id, found)
        if found is None or found.token != self.token:
            who = f"{found.who} has taken it over at {found.since}" if found is not None else "it was deleted there"
            raise LeaseLost(f"session {self._session_id} is no longer pushed from here: {who}")

    def beat(self) -> None:
        """Say that it is still in use."""
        self._objects.write(f"{_name(self._session_id, self.token)}.beat", format_time(datetime.now(UTC)).encode())

    @contextlib.contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Say so again and again, on a thread of its own: a push may take longer than a silent holder is waited for."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_SECONDS):
                with contextlib.suppress(RemoteError):  # whoever pushes is told; the next beat is tried again
                    self.beat()

        thread = threading.Thread(target=beat, name="wasm-kernel-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()

    def give_back(self) -> None:
        """Let the next one have it at once."""
        self._objects.write(f"{_name(self._session_id, self.token)}.over", b"")


def holder(objects: Objects, session_id: str) -> Holder | None:
    """Who had the session last; None: nobody yet."""
    return _holder(objects, session_id, _names(objects, session_id))


def _names(objects: Objects, session_id: str) -> list[str]:
    return objects.names(f"sessions/{session_id}/leases/")


def _holder(objects: Objects, session_id: str, names: list[str]) -> Holder | None:
    tokens = [int(last) for name in names if _is_token(last := name.rpartition("/")[2])]
    deleted = mark_of(session_id) in names
    if not tokens and not deleted:
        return None
    token = max(tokens, default=0)
    try:
        said = json.loads(objects.read(mark_of(session_id) if deleted else _name(session_id, token), 0, _MOST_SAID))
        who, since = legible(str(said["who"]), 200), legible(str(said["since"]), 40)
        node = str(said.get("node", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        who, since, node = "somebody", "an unknown time", ""
    return Holder(token, who, since, f"{_name(session_id, token)}.over" in names, node, deleted)


def mark_of(session_id: str) -> str:
    """The object that says that a session was deleted. While it is there, nobody gets a lease."""
    return f"sessions/{session_id}/leases/deleted"


def acquire(objects: Objects, session_id: str, *, take_over: bool = False, node: str = "") -> Lease:
    """The lease of a session that nobody has, or whose holder is gone; with ``take_over`` in any case.

    ``node``: this machine's disk, if nobody here has the session open. A holder there is gone: it was killed.
    `SessionElsewhere` says who has it, `SessionDeleted` that it was deleted.
    """
    before = holder(objects, session_id)
    if before is not None and before.deleted:
        raise _gone(objects, session_id, before)
    if before is not None and not take_over and is_held(objects, session_id, before, node):
        raise SessionElsewhere(
            f"session {session_id} is open at {before.who} since {before.since}; close it there, or take it over"
        )
    token = before.token + 1 if before is not None else 1
    if not objects.create(_name(session_id, token), me(node)):
        raise SessionElsewhere(f"session {session_id} was just opened elsewhere; try again")
    # Whoever deletes it makes a mark, then looks for leases; so one of us two sees the other.
    names = _names(objects, session_id)
    after = _holder(objects, session_id, names)
    if after is not None and after.deleted:
        objects.delete([_name(session_id, token)])
        raise _gone(objects, session_id, after)
    lease = Lease(objects, session_id, token)
    lease.beat()
    with contextlib.suppress(RemoteError):  # the next one does it
        objects.delete(name for name in names if _token_of(name) < token)
    return lease


def is_deleted(objects: Objects, session_id: str) -> bool:
    """Whether a session was deleted from the store."""
    found = holder(objects, session_id)
    return found is not None and found.deleted


def raise_if_deleted(objects: Objects, session_id: str) -> None:
    """`SessionDeleted` if it was."""
    found = holder(objects, session_id)
    if found is not None and found.deleted:
        raise _gone(objects, session_id, found)


def me(node: str = "") -> bytes:
    """Who does something now, for people on other machines."""
    who = f"{platform.node()}, process {os.getpid()}"
    return json.dumps({"who": who, "since": format_time(datetime.now(UTC)), "node": node}).encode()


def _gone(objects: Objects, session_id: str, found: Holder) -> SessionDeleted:
    return SessionDeleted(f"session {session_id} was deleted in {objects.address} by {found.who} at {found.since}")


def is_held(objects: Objects, session_id: str, found: Holder, node: str = "") -> bool:
    """Whether a holder still has the session. ``node``: as for `acquire`."""
    if found.over or found.deleted or (node and found.node == node):
        return False
    return not _is_stale(objects, session_id, found.token)


def _is_stale(objects: Objects, session_id: str, token: int) -> bool:
    """Whether its holder has not said anything for long, by the store's own clock: those of machines differ."""
    name = _name(session_id, token)
    try:
        last = objects.modified(f"{name}.beat")
    except KeyError:
        try:
            last = objects.modified(name)
        except KeyError:  # somebody has just taken over, and deleted it
            return True
    return is_silent(last, store_time(objects, f"sessions/{session_id}/leases/"))


def is_silent(last: float, now: float) -> bool:
    """Whether a holder that said something last at that time has lost its lease."""
    return now - last > _STALE_AFTER


def store_time(objects: Objects, prefix: str) -> float:
    """What the store's clock says: an object is written, and deleted again."""
    probe = f"{prefix}probe-{os.getpid()}-{threading.get_ident()}"
    objects.write(probe, b"")
    try:
        return objects.modified(probe)
    finally:
        objects.delete([probe])


def _token_of(name: str) -> float:
    """Of which lease an object is; infinity: of none."""
    first = name.rpartition("/")[2].partition(".")[0]
    return int(first) if _is_token(first) else math.inf


def _is_token(text: str) -> bool:
    """Whether a lease could have this as the last part of its name: others can write to a store, too."""
    return len(text) == _DIGITS and text.isascii() and text.isdecimal()


def _name(session_id: str, token: int) -> str:
    return f"sessions/{session_id}/leases/{token:0{_DIGITS}d}"
