"""What Dask runs on a worker: functions of ours, called with bytes, that give bytes back.

Dask's own pickle only ever carries the names of these functions and `bytes`. What went wrong is said in the answer,
too: an exception would be pickled. Whatever a process keeps for later calls is in its `Station`.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.guest.wire import BadFrame
from wasm_kernel.host.cluster.chunk_cache import ChunkCache
from wasm_kernel.host.cluster.frames import MISSING, REFUSED, Call, CallOutcome, Description
from wasm_kernel.host.cluster.received_fork import ReceivedFork, chunks_of
from wasm_kernel.host.cluster.remote_worker import Crew, SessionLimits
from wasm_kernel.host.image import image
from wasm_kernel.host.image.image import Image
from wasm_kernel.host.image.older_images import why_another

_MOST_FORKS = 4  # that nobody uses now, and are kept
_UNUSED_SECONDS = 300.0  # and for how long at most


async def identify(dask_worker: Any) -> bytes:
    """What this worker has: its image, or why it has none."""
    station = await asyncio.to_thread(station_of, dask_worker)
    return json.dumps(station.identity).encode()


def adopt(fork_id: str, description: bytes, packs: Sequence[bytes]) -> bytes:
    """Take a fork and chunks of it; says which are still missing."""
    return _answered(lambda station: station.adopt(fork_id, description, packs))


def run_call(fork_id: str, call: bytes) -> bytes:
    """Run a call in a copy of a fork."""
    return _answered(lambda station: station.run(fork_id, call, _wanted()))


def forget(fork_ids: Sequence[str]) -> None:
    """Forks of a cell that is over."""
    if _the_station is not None:
        _the_station.forget(fork_ids)


def _answered(work: Callable[[Station], CallOutcome]) -> bytes:
    try:
        outcome = work(_station())
    except (WasmKernelError, BadFrame, ValueError) as e:
        outcome = CallOutcome(REFUSED, str(e))
    except OSError as e:
        outcome = CallOutcome(REFUSED, f"the worker's system fails: {e.strerror or e}")
    return replace(outcome, worker=_address()).encode()


def _address() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # not on a worker: a test
        return ""


def _wanted() -> Callable[[], bool]:
    """Whether Dask still wants the task that this thread runs: it was not cancelled, and its client is there."""
    from distributed import get_worker

    try:
        worker = get_worker()
        key = worker.get_current_task()
    except ValueError:
        return lambda: True

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state not in ("cancelled", "released", "forgotten")

    return wanted


class Station:
    """What this process has for the calls of notebooks. Thread-safe.

    Attributes:
        identity: What it says of itself.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        """``threads``: how many calls may run at a time."""
        self._folder, self._threads = folder, threads
        self._lock = threading.Lock()
        self._cache = ChunkCache(folder)
        self._forks: dict[str, Crew] = {}
        self._sessions: weakref.WeakValueDictionary[str, SessionLimits] = weakref.WeakValueDictionary()
        self._used: dict[str, float] = {}
        self._making: dict[str, threading.Lock] = {}
        self._will_tidy = False
        self._workers = int.from_bytes(os.urandom(2), "little") * 100  # so that numbers differ from machine to machine
        self._image: Image | None = None
        self.identity = {"key": image.key_of(image.parts().base), "problem": ""}
        try:
            self._image = image.load()
            self._image.modules()
        except WasmKernelError as e:
            self.identity["problem"] = str(e)

    def adopt(self, fork_id: str, data: bytes, packs: Sequence[bytes]) -> CallOutcome:
        """As `adopt` says."""
        with self._lock:
            if fork_id in self._forks:
                return CallOutcome(MISSING)
            making = self._making.setdefault(fork_id, threading.Lock())
        with making:
            if fork_id in self._forks:
                return CallOutcome(MISSING)
            problem = self._problem(description := Description.decode(data))
            if problem:
                return CallOutcome(REFUSED, problem)
            for pack in packs:
                self._cache.add(pack)
            missing = self._cache.missing(chunks_of(description))
            if missing:
                return CallOutcome(MISSING, data=b"".join(missing))
            assert self._image is not None
            with self._lock:
                session = self._sessions.setdefault(description.session, SessionLimits(self._threads))
            crew = Crew(ReceivedFork(description, self._cache, self._image, self._folder), session, self._number)
            if crew.problem:
                crew.close()
                return CallOutcome(REFUSED, crew.problem)
            with self._lock:
                self._forks[fork_id], self._used[fork_id] = crew, time.monotonic()
                self._making.pop(fork_id, None)
            self._tidy()
        return CallOutcome(MISSING)

    def _problem(self, description: Description) -> str:
        """Why this worker cannot run it."""
        theirs, own = description.manifest.snapshot.image_key, self.identity["key"]
        if self.identity["problem"]:
            return self.identity["problem"]
        if theirs != own:
            return f"this worker has the image {own}, and the session needs {theirs}: {why_another(own, theirs)}"
        if description.policy.fuel_budget is not None:
            return "a session with a limit on fuel cannot use a cluster: `%session limits fuel=none`"
        return ""

    def run(self, fork_id: str, data: bytes, wanted: Callable[[], bool]) -> CallOutcome:
        """As `run_call` says."""
        call = Call.decode(data)
        with self._lock:
            crew = self._forks.get(fork_id)
            if crew is None:
                return CallOutcome(MISSING)
            crew.calls += 1
        try:
            return crew.run(call, wanted)
        finally:
            with self._lock:
                crew.calls -= 1
                forgotten = not self._used[fork_id]
                if not forgotten:
                    self._used[fork_id] = time.monotonic()
            if forgotten:
                self._tidy()

    def forget(self, fork_ids: Sequence[str]) -> None:
        """As `forget` says: those whose calls still run go later."""
        with self._lock:
            for fork_id in fork_ids:
                if fork_id in self._used:
                    self._used[fork_id] = 0.0
        threading.Thread(target=self._tidy, name="wasm-kernel-tidy", daemon=True).start()

    def _tidy(self) -> None:
        """Let forks go that nobody uses."""
        now = time.monotonic()
        with self._lock:
            unused = sorted((self._used[f], f) for f, crew in self._forks.items() if not crew.calls)
            extra = len(unused) - _MOST_FORKS
            going = [f for n, (used, f) in enumerate(unused) if n < extra or not used or now - used > _UNUSED_SECONDS]
            crews = [self._forks.pop(f) for f in going]
            for fork_id in going:
                del self._used[fork_id]
            if self._forks and not self._will_tidy:  # notebooks may be gone without a word
                self._will_tidy = True
                timer = threading.Timer(1.1 * _UNUSED_SECONDS, self._tidy_again)
                timer.daemon = True
                timer.start()
        for crew in crews:
            crew.close()

    def _tidy_again(self) -> None:
        self._will_tidy = False
        self._tidy()

    def _number(self) -> int:
        with self._lock:
            self._workers += 1
            return self._workers

    def close(self) -> None:
        """End everything."""
        with self._lock:
            crews, self._forks = list(self._forks.values()), {}
        for crew in crews:
            crew.close()
        self._cache.close()


def close_station() -> None:
    """The worker ends."""
    global _the_station
    with _making:
        station, _the_station = _the_station, None
    if station is not None:
        station.close()


_the_station: Station | None = None
_making = threading.Lock()


def station_of(worker: Any) -> Station:
    """This process's, which is Dask's ``worker``."""
    global _the_station
    with _making:
        if _the_station is None:
            _the_station = Station(Path(worker.local_directory), worker.state.nthreads)
        return _the_station


def _station() -> Station:
    from distributed import get_worker

    return _the_station or station_of(get_worker())
