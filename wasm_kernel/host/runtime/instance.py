"""One live instance of the guest: its store, its interposer, its memory. Used on the sandbox's own thread only.

An instance is thrown away after a trap: its stack pointer and half-finished C frames cannot be trusted. What
survives is at rest, outside of it: `GuestMemory`, the list of open files, the clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterable

from wasm_kernel.errors import SandboxError
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime import pagescan, polling
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.engine import Engine, Module, Mount, Stop, Store, Trapped
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.instance_parts import Around, AtRest, Fork, Handlers, Limits, as_it_is
from wasm_kernel.host.runtime.interposer import Callbacks, Interposer
from wasm_kernel.host.runtime.listing import list_folder
from wasm_kernel.host.runtime.memory import CHUNK, GuestMemory
from wasm_kernel.host.runtime.page_keeper import PageKeeper
from wasm_kernel.host.runtime.received_memory import ReceivedMemory
from wasm_kernel.host.runtime.run import SIGINT, Run

# Functions of CPython's that the runtime does not export and we need.
_INTERRUPT, _CALL, _CLEAR = "PyErr_SetInterruptEx", "PyObject_CallNoArgs", "PyErr_Clear"
ADDED_EXPORTS = (_INTERRUPT, _CALL, _CLEAR)
STACK_POINTER = "__stack_pointer"  # of C's own stack in linear memory: the one global that changes
_EINVAL, _EFAULT = 28, 21
_MAX_SUBSCRIPTIONS = 4096
_DOOR_REFUSED = -2
MOST_UNUSED = 1024  # stretches: each may cost a mapping
_BLOCK_HEAD = 64  # bytes at both ends of a block that the allocator may use when it is freed
_ALL = 1 << 62
_FOREVER = 1e9  # seconds


class Instance:
    """A guest that can take turns."""

    def __init__(
        self,
        engine: Engine,
        guest: Module,
        modules: dict[str, Module],
        mounts: list[Mount],
        env: dict[str, str],
        limits: Limits,
        handlers: Handlers,
        memory: GuestMemory | ForkedMemory | ReceivedMemory,
        rest: AtRest,
        around: Around = as_it_is,
    ) -> None:
        """``around``: for a guest that is to be the same everywhere (`image/reproducible.py`)."""
        self._handlers, self._memory = handlers, memory
        self._most = limits.memory_bytes
        self._engine = engine
        self._run: Run | None = None
        self._counts_fuel = False  # in this turn
        self._keeper: PageKeeper | None = None
        self._keeper_module = modules.get("keeper")
        self.store = store = Store(engine, mounts, ["python"], env, limits.memory_bytes)
        try:
            callbacks = Callbacks(
                handlers.output,
                self._poll,
                self._door,
                self._refill,
                lambda fd, path: list_folder(mounts[fd - 3].host, path),
            )
            by_name = around is not as_it_is
            self._interposer = interposer = Interposer(store, modules, callbacks, len(mounts), by_name=by_name)
            exports = store.instantiate(guest, interposer.imports_for(guest, around))
            self._linear = exports["memory"]
            # Code that an earlier version compiled does not have it: its guests know nothing of workers, either.
            self._stack_pointer = exports[STACK_POINTER] if STACK_POINTER in guest.exports else None
            interposer.attach(self._linear)
            interposer.set("max_file", limits.max_file_bytes)
            interposer.set("max_open", limits.max_open_files)
            for name in ("dev", "data", "app"):
                interposer.set(name, 3 + [m.guest for m in mounts].index(f"/{name}"))
            self._turn = store.caller(exports["turn"], "ii", "i")
            self._alloc = store.caller(exports["host_alloc"], "i", "i")
            self._set_interrupt = store.caller(exports[_INTERRUPT], "i")
            self._call = store.caller(exports[_CALL], "i", "i")
            self._clear = store.caller(exports[_CLEAR], "")
            store.on_epoch(self._on_epoch)
            self._lay_memory(rest)
        except BaseException:
            store.close()
            raise

    def _lay_memory(self, rest: AtRest) -> None:
        if self._memory.size > self._most:
            raise SandboxError(
                f"the guest's memory has {self._memory.size:,} bytes, more than its limit of {self._most:,}; "
                "raise the memory limit"
            )
        self.store.memory_grow_to(self._linear, self._memory.size)
        self._address = self.store.memory_address(self._linear)
        self._memory.attach(self._address)
        self._clock_offset = rest.clock_ns - self._interposer.monotonic_ns() if rest.clock_ns else 0
        self._interposer.set("clock_offset", self._clock_offset)
        self._entry = rest.entry
        self.lost_files = self._interposer.reopen(rest.files) if rest.files else []

    def hide_sessions(self, named: Iterable[str]) -> None:
        """Hide the folders of sessions in /app: those named by a UUID, and these."""
        self._interposer.hide_sessions(named)

    def let_grow(self, may: bool) -> None:
        """Whether the guest's memory may grow, up to its limit."""
        self.store.limit_memory(self._most if may else self.memory_span[1])

    def forget(self, stretches: list[list[int]]) -> None:
        """Make zeros of what the guest says is unused. If it lies, it harms only itself."""
        size = self.memory_span[1]
        ends = [(at + _BLOCK_HEAD, at + length - _BLOCK_HEAD) for at, length in stretches[:MOST_UNUSED]]
        assert isinstance(self._memory, GuestMemory)
        with contextlib.suppress(OSError):  # too many mappings: it stays as it is
            self._memory.forget(
                self._address, size, [(at, end) for at, end in ends if end <= size and end - at >= CHUNK]
            )

    # ---- turns

    def turn(self, run: Run, fuel: int | None = None) -> None:
        """Let the guest take one turn; its requests come through `Handlers.frame`. Raises `Trapped`.

        Calls the driver's function directly: the runtime's own `turn` parses source and remembers it, each time.
        """

        def enter() -> None:
            if not self._call(self._entry):  # an exception the driver did not catch: there will be no reply
                self._clear()

        self._guarded(run, fuel, enter)

    def fork(self) -> Fork | None:
        """This guest in the middle of a turn, from a call to the host; None: its machine code does not let us."""
        if self._stack_pointer is None or not isinstance(self._memory, GuestMemory):
            return None
        return Fork(self._memory.forked(*self.memory_span), self.rest(), self.store.get_global(self._stack_pointer))

    def run_forked(self, run: Run, stack_pointer: int, function: int, fuel: int | None) -> bool:
        """As the copy of a guest, call a function without arguments, above the frames of the guest's own call.

        They are there in memory, and nothing ever returns to them. Whether the function returned. Raises `Trapped`.
        """
        returned = [False]

        def enter() -> None:
            returned[0] = bool(self._call(function))

        self.store.set_global(self._stack_pointer, stack_pointer)
        self._guarded(run, fuel, enter)
        return returned[0]

    def run_source(self, run: Run, source: bytes) -> int:
        """Run Python source in the guest's `__main__`, as the runtime does it; its status. Raises `Trapped`."""
        status = [0]

        def enter() -> None:
            status[0] = self._turn(self._place(source), len(source))

        self._guarded(run, None, enter)
        return status[0]

    def _guarded(self, run: Run, fuel: int | None, enter: Callable[[], None]) -> None:
        self._interposer.begin_turn()
        self._counts_fuel = self._engine.metered and fuel is not None
        if self._engine.metered:
            self.store.set_fuel(_ALL if fuel is None else fuel)
        self._run = run
        try:
            self.store.set_epoch_deadline(1)
            enter()
        finally:
            self._run = None
            if self._engine.metered:
                if fuel is not None:
                    run.fuel_used = fuel - self.store.fuel()
                self.store.set_fuel(_ALL)  # what the host itself asks of the store until the next turn costs nothing
            self._interposer.drain_output()

    def keep(self, most: int | None = None) -> AtRest | None:
        """Keep the memory as the turn left it; what else belongs to it.

        ``most``: None, and nothing is kept, if more bytes than these may have changed.
        """
        assert isinstance(self._memory, GuestMemory)
        self.store.set_epoch_deadline(_ALL)
        return self.rest() if self._memory.keep(*self.memory_span, most, self._page_keeper()) else None

    def _page_keeper(self) -> PageKeeper | None:
        """Made when it is first needed: a guest that runs one cell and is gone needs none."""
        if self._keeper is None and self._keeper_module is not None and pagescan.can_scan:
            self._keeper = PageKeeper(self.store, self._keeper_module, self._linear, self._memory.base)
        return self._keeper

    def rest(self) -> AtRest:
        """What belongs to the memory: open files and the clock."""
        return AtRest(self._interposer.descriptors(), self.clock_ns(), self._entry)

    @property
    def memory_span(self) -> tuple[int, int]:
        """Where the linear memory is in this process, and how large."""
        return self._address, self.store.memory_size(self._linear)

    @property
    def base(self) -> BaseMemory:
        """The image's memory that its own is laid over."""
        assert isinstance(self._memory.base, BaseMemory)
        return self._memory.base

    @property
    def changed_files(self) -> bool:
        """Whether the last turn tried to change any file."""
        return bool(self._interposer.get("dirty"))

    def files_changed_elsewhere(self, changed: bool) -> None:
        """Count anew what may be written, before the next change; ``changed``: workers changed files in this turn."""
        for name in ("bytes", "files"):
            self._interposer.set(name, 0)
        if changed:
            self._interposer.set("dirty", 1)

    def fuel_left(self) -> int | None:
        """What is left of the turn's fuel; None: it is not counted."""
        return self.store.fuel() if self._counts_fuel else None

    def spend_fuel(self, fuel: int) -> None:
        """Take fuel away that is used elsewhere; less than nothing: give some back."""
        if self._counts_fuel and fuel:
            self.store.set_fuel(max(0, self.store.fuel() - fuel))

    def limit_growth(self, most: int) -> None:
        """Let the memory grow up to so many bytes; `let_grow` sets it back."""
        self.store.limit_memory(most)

    @property
    def memory_size(self) -> int:
        """Bytes of linear memory."""
        return self.store.memory_size(self._linear)

    def clock_ns(self) -> int:
        """The guest's monotonic clock."""
        return self._interposer.monotonic_ns() + self._clock_offset

    def close(self) -> None:
        """Give back its memory, files and callbacks."""
        self._keeper = None
        self.store.close()

    def bump(self) -> None:
        """Get the guest's attention now. Callable from any thread."""
        self._engine.bump()

    def due(self, now: float) -> Callable[[], None] | None:
        """For the ticker: bump the engine when output waits or the run is due something."""
        run = self._run
        if run is not None and (run.due(now) or self._interposer.has_output):
            return self._engine.bump
        return None

    # ---- what the guest calls

    def _place(self, data: bytes) -> int:
        """Put bytes into memory the guest allocates."""
        where = self._alloc(len(data)) & 0xFFFFFFFF
        if not where:
            raise MemoryError("the guest has no memory left for an answer")
        self._write(where, data)
        return where

    def _span(self, pointer: int, length: int) -> int:
        """The host address of [pointer, pointer + length) of the guest's memory, which must hold it."""
        pointer &= 0xFFFFFFFF
        length &= 0xFFFFFFFF
        if pointer + length > self.store.memory_size(self._linear):
            raise IndexError("outside the guest's memory")
        return self._address + pointer

    def _write(self, pointer: int, data: bytes) -> None:
        ctypes.memmove(self._span(pointer, len(data)), data, len(data))

    def _door(self, pointer: int, length: int, out: int, out_length: int) -> int:
        if length & 0xFFFFFFFF > self._handlers.max_frame:
            self._handlers.frame_refused(length & 0xFFFFFFFF)
            return _DOOR_REFUSED
        try:
            frame = ctypes.string_at(self._span(pointer, length), length & 0xFFFFFFFF)
            self._span(out, 4)
            self._span(out_length, 4)
        except IndexError:
            return _DOOR_REFUSED
        try:
            answer = self._handlers.frame(frame)
            where = self._place(answer) if answer else 0
        except (wire.BadFrame, MemoryError):
            return _DOOR_REFUSED
        self._write(out, where.to_bytes(4, "little"))
        self._write(out_length, len(answer).to_bytes(4, "little"))
        return 0

    def _refill(self, kind: int, wanted: int) -> int:
        """The filter's three questions: bytes left (0), names left (1), a first change is coming (2)."""
        if kind == 2:
            self._handlers.first_change()
        left, names = self._handlers.refill(kind, wanted)
        if kind == 2:
            self._interposer.set("bytes", left)
            self._interposer.set("files", names)
        return names if kind == 1 else left

    def _poll(self, subscriptions: int, events: int, count: int, used: int, now: int) -> int:
        """poll_oneoff: files are always ready; clocks are waited for here, where an interrupt can end the wait."""
        count &= 0xFFFFFFFF
        if not 0 < count <= _MAX_SUBSCRIPTIONS:
            return _EINVAL
        try:
            data = ctypes.string_at(self._span(subscriptions, count * polling.ASKED_SIZE), count * polling.ASKED_SIZE)
            self._span(events, count * polling.EVENT_SIZE)
            self._span(used, 4)
        except IndexError:
            return _EFAULT
        ready, wait = polling.what_is_asked(data, now, time.time_ns())
        if wait is not None:
            self._wait(wait.seconds)
            ready.append(wait.event)
        packed = polling.pack(ready)
        self._write(events, packed)
        self._write(used, len(ready).to_bytes(4, "little"))
        return 0

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            if self._signal_or_stop():
                return
            left = end - time.monotonic()
            if left <= 0 or self._run is None:
                return
            self._run.wake.wait(min(left, 3600))

    def _signal_or_stop(self) -> bool:
        """Deliver what is asked of the run: whether a signal was. Raises `Stop`."""
        run = self._run
        if run is None:
            return False
        if run.stop:
            raise Stop
        signal, run.signal = run.signal, 0
        if not signal:
            return False
        run.wake.clear()
        try:
            self._set_interrupt(signal)
        except Trapped:  # no stack left for it just now: at the next tick
            run.signal = signal
        return True

    def pump(
        self, ready: Callable[[], bool], seconds: float = _FOREVER, nap: Callable[[float], object] | None = None
    ) -> bool:
        """Wait, on the guest's behalf, until ``ready`` or for so long; False when an interrupt came first.

        ``nap``: waits for something else than what wakes a run, for a moment at most. Raises `Stop`.
        """
        end = time.monotonic() + seconds
        while not ready():
            if self._run is None:
                return False
            if self._run.stop:
                raise Stop
            if self._run.signal:
                if self._run.signal == SIGINT:
                    self._run.signal = 0
                    self._run.interrupt_seen()
                else:
                    self._signal_or_stop()
                self._run.wake.clear()
                return False
            left = end - time.monotonic()
            if left <= 0:
                break
            (nap or self._run.wake.wait)(min(left, 3600))
            self._run.wake.clear()  # whatever set it is looked at next
        return True

    def _on_epoch(self) -> int:
        self._interposer.drain_output()
        # First: a nested call with the deadline passed would trap.
        self.store.set_epoch_deadline(_ALL)
        self._signal_or_stop()
        return 1
