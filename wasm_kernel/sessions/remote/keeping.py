"""Keeps a running session's copy in an object store up to date, behind the session's back.

Nothing waits for the store: what changed is pushed on a thread of its own, a little after the last change and every so
often while changes go on. What cannot be pushed stays here, and is tried again, later and later. A person is told once
when it begins to fail, and when another machine has taken over.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.errors import LeaseLost, SessionElsewhere, WasmKernelError
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.sessions.remote.lease import BEAT_SECONDS, Lease, acquire
from wasm_kernel.sessions.remote.pushing import SessionPush
from wasm_kernel.sessions.remote.states import states
from wasm_kernel.sessions.remote.synced import node_of, read_synced
from wasm_kernel.sessions.snapshots.reading import newest_snapshot

_QUIET = 5.0  # seconds without a change after which it is pushed
_FIRST_RETRY, _LAST_RETRY = 10.0, 600.0  # seconds

_FAILS = (
    "This session cannot be pushed to {address}: {why}. Nothing is lost: everything is on this machine's disk, cells "
    "run as usual, and pushing is tried again."
)
_LOST = (
    "{why}. What you run here stays on this machine and is not pushed any more. To keep it as a session of its own: "
    "`%session fork`"
)
_NEWER = (
    "The store has a newer state of this session, from another machine. What you run here stays on this machine and is "
    "not pushed. To go on with the newer one, shut this kernel down and start it again: what is here stays as a "
    "snapshot. To keep what is here as a session of its own: `%session fork`"
)


@dataclass(frozen=True)
class CopyStatus:
    """How far the copy is: when it was last pushed (by the clock), whether something waits, and why if it fails."""

    pushed_at: float | None = None
    waits: bool = False
    problem: str = ""
    lost: bool = False


class SessionCopy:
    """The copy of one session. Its methods can be called on any thread, and none of them waits except `close`."""

    def __init__(
        self,
        objects: Objects,
        root: Path,
        session_id: str,
        lease: Lease | None,
        every: float,
        tell: Callable[[str], None],
        on_pushed: Callable[[], None] = lambda: None,
    ) -> None:
        """``lease``: None if the store could not be asked yet. ``every``: seconds between pushes while cells run.

        ``tell``: something for the person. ``on_pushed``: called after each push, on its thread.
        """
        self._objects, self._root, self.session_id, self._lease = objects, root, session_id, lease
        self._every, self._tell, self._on_pushed = every, tell, on_pushed
        self._push: SessionPush | None = None
        self._changes = threading.Condition()
        self._first_change = self._last_change = time.monotonic() if lease is None else 0.0
        self._changed = True  # perhaps: the last kernel may have been killed before it pushed
        self._not_before = 0.0
        self._failures, self._closing, self._told = 0, False, False
        self.status = CopyStatus(waits=True)
        self._beaten = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="wasm-kernel-remote", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """The session was stored on the local disk."""
        with self._changes:
            now = time.monotonic()
            if not self._changed:
                self._changed, self._first_change = True, now
            self._last_change = now
            self._changes.notify()

    def close(self, seconds: float, *, push: bool = True) -> bool:
        """Push what was not, for so long at most; whether all is there. The lease goes back if so.

        Without ``push`` only a push that is under way is waited for.
        """
        with self._changes:
            self._closing, self._changed = True, push and not self.status.lost
            self._not_before = 0.0
            self._changes.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive() and not self._changed and not self.status.problem

    # ---- on its thread

    def _run(self) -> None:
        while self._wait():
            with self._changes:
                self._changed = False
            self._attempt()
            if self.status.lost:
                return
        if self._lease is not None and not self.status.problem and not self._changed:
            with contextlib.suppress(WasmKernelError, OSError):
                self._lease.give_back()

    def _wait(self) -> bool:
        """Wait until something is to be pushed; False: it is over."""
        with self._changes:
            while True:
                if self._closing:
                    return self._changed and not self.status.problem  # one attempt, not one after the other
                now = time.monotonic()
                due = max(self._not_before, min(self._last_change + _QUIET, self._first_change + self._every))
                if self._changed and now >= due:
                    return True
                until = min(due if self._changed else now + BEAT_SECONDS, self._beaten + BEAT_SECONDS)
                if now >= self._beaten + BEAT_SECONDS:
                    self._changes.release()
                    try:
                        self._beat()
                    finally:
                        self._changes.acquire()
                else:
                    self._changes.wait(max(0.05, until - now))

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        if self._lease is not None:
            try:
                self._lease.check()
                self._lease.beat()
            except LeaseLost as e:
                self._lose(_LOST.format(why=_sentence(e)))
                with self._changes:
                    self._closing, self._changed = True, False
            except (WasmKernelError, OSError):
                pass  # the next push says so

    def _attempt(self) -> None:
        try:
            newer = self._store_is_newer()
            if not newer:
                self._push_once()
        except (LeaseLost, SessionElsewhere) as e:
            self._lose(_LOST.format(why=_sentence(e)))
        except Exception as e:  # noqa: BLE001 - a library's own error must not end the copying
            self._fail(e)
        else:
            if newer:
                self._lose(_NEWER)
                return
            self._failures, self._told = 0, False
            self.status = CopyStatus(time.time(), waits=self._changed)

    def _store_is_newer(self) -> bool:
        """Whether another machine has pushed what this one has never had. Looked at before the first push."""
        if self._lease is None:
            self._lease = acquire(self._objects, self.session_id, node=node_of(self._root))
        if self._push is not None:
            return False
        known = read_synced(self._root, self.session_id)
        newest = states(self._objects, self.session_id)[-1:]
        return bool(newest) and (known is None or not known.has_had(newest[0]))

    def _push_once(self) -> None:
        if newest_snapshot(self._root, self.session_id) is None:
            return  # nothing has run yet
        assert self._lease is not None
        if self._push is None:
            with self._lease.kept_alive():
                self._push = SessionPush(self._objects, self._root, self.session_id, self._lease)
        self._push.push()
        self._on_pushed()

    def _fail(self, error: BaseException) -> None:
        self._failures += 1
        with self._changes:
            self._changed = True
            retry = min(_LAST_RETRY, _FIRST_RETRY * 2 ** (self._failures - 1))
            self._not_before = time.monotonic() + retry
        why = str(error) or type(error).__name__
        self.status = CopyStatus(self.status.pushed_at, True, why)
        if not self._told:
            self._told = True
            self._tell(_FAILS.format(address=self._objects.address, why=why))

    def _lose(self, text: str) -> None:
        self.status = CopyStatus(self.status.pushed_at, False, text.partition(". ")[0], lost=True)
        if not self._closing:
            self._tell(text)


def _sentence(error: BaseException) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
