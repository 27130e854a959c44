"""WebAssembly, as far as we need it: the only module that imports wasmtime.

Rules that hold here, each learnt from a crash:

* `async_stack_size` is set before `max_wasm_stack`, or wasmtime aborts the process.
* Every entry into wasm runs on a thread with `THREAD_STACK` bytes of stack (`start_thread`); on a smaller one
  deep recursion in the guest kills the process instead of trapping.
* wasmtime-py hands exceptions of host functions over in one process-wide slot, and its tables of callbacks are
  not safe between threads. So host functions are made here, on the unchecked C interface: an exception is kept
  with its store and stops the guest with a trap.
* `Store.close()` must be called; callbacks keep their objects alive until then.

Private names of wasmtime-py used below, because there is no public one: `_ffi.wasmtime_config_async_stack_size_set`,
`_ffi.wasmtime_store_epoch_deadline_callback`, `_ffi.wasmtime_func_new_unchecked`, `_ffi.wasmtime_func_call_unchecked`,
`_bindings._wasmtime_…` for what is called `_at_once`, `Store._context`, `Func._func`, `Func._from_raw`,
`Global._global`, `Memory._memory`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import wasmtime
from wasmtime import _bindings, _ffi

from wasm_kernel.model.outcome import TrapCause

WASM_STACK = 8 << 20
THREAD_STACK = WASM_STACK + (4 << 20)  # the rest is for what runs below and between the guest's frames
NO_DEADLINE = 1 << 62
WASI = "wasi_snapshot_preview1"
PAGE = 65536
_MOST_PAGES = 65536  # of a linear memory

_CAUSES = {
    wasmtime.TrapCode.STACK_OVERFLOW: TrapCause.STACK_OVERFLOW,
    wasmtime.TrapCode.UNREACHABLE: TrapCause.ABORT,
    wasmtime.TrapCode.OUT_OF_FUEL: TrapCause.OUT_OF_FUEL,
    wasmtime.TrapCode.INTERRUPT: TrapCause.STOPPED,
}
_NO_FINALIZER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)()
_EPOCH_CALLBACK = _bindings._wasmtime_store_epoch_deadline_callback.argtypes[1]


def _at_once(function: Any) -> Any:
    """A function of wasmtime's that only looks or sets, called without giving up the interpreter's lock.

    Whoever waits for the lock would have it first, a dozen times in every cell.
    """
    return ctypes.PYFUNCTYPE(function.restype, *function.argtypes)(ctypes.cast(function, ctypes.c_void_p).value or 0)


_memory_size = _at_once(_bindings._wasmtime_memory_data_size)
_global_get = _at_once(_bindings._wasmtime_global_get)
_global_set = _at_once(_bindings._wasmtime_global_set)
_set_epoch_deadline = _at_once(_bindings._wasmtime_context_set_epoch_deadline)

_thread_stack_lock = threading.Lock()


def version() -> str:
    """wasmtime's version, part of what a compiled module depends on."""
    # The name of its metadata's folder: importlib.metadata takes 25 ms to say the same, at every start.
    for found in Path(wasmtime.__file__).parent.parent.glob("wasmtime-*.dist-info"):
        return found.name.removeprefix("wasmtime-").removesuffix(".dist-info")
    from importlib import metadata

    return metadata.version("wasmtime")


def assemble(text: str) -> bytes:
    """The binary of a module that is given as text."""
    return bytes(wasmtime.wat2wasm(text))


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread that may enter wasm: with enough stack to trap rather than overflow."""
    with _thread_stack_lock:  # threading.stack_size is process-wide
        before = threading.stack_size(THREAD_STACK)
        try:
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread


class Trapped(Exception):
    """WebAssembly stopped before it returned. Frames of the guest are gone; its memory is as they left it."""

    def __init__(self, cause: TrapCause, text: str = "", exit_code: int = 0) -> None:
        super().__init__(f"{cause.value}: {text}" if text else cause.value)
        self.cause, self.text, self.exit_code = cause, text, exit_code


class Stop(BaseException):
    """Raised by a host function or an epoch callback to stop the guest: cause `STOPPED`."""


@dataclass(frozen=True)
class Mount:
    """A host folder and the path under which the guest sees it."""

    host: Path
    guest: str
    writable: bool


class Module:
    """A compiled module, loaded."""

    def __init__(self, raw: wasmtime.Module) -> None:
        self.raw = raw
        self.imports = [(i.module, i.name) for i in raw.imports]
        self.exports = [e.name for e in raw.exports]


class Engine:
    """The compiler and its settings. Modules of one engine run only on an engine with the same settings."""

    def __init__(self, *, metered: bool = False) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.consume_fuel = metered
        _ffi.wasmtime_config_async_stack_size_set(config.ptr(), WASM_STACK)
        config.max_wasm_stack = WASM_STACK
        self.metered = metered
        self.raw = wasmtime.Engine(config)
        self.wasi = wasmtime.Linker(self.raw)
        self.wasi.define_wasi()

    def compile(self, wasm: bytes | str) -> bytes:
        """Machine code for a module given as bytes or as text."""
        return bytes(wasmtime.Module(self.raw, wasm).serialize())

    def load(self, path: Path) -> Module:
        """A module compiled before by an engine with the same settings; its pages are shared between processes.

        The file is machine code and is trusted: it must come from a private folder of ours.
        """
        try:
            return Module(wasmtime.Module.deserialize_file(self.raw, str(path)))
        except wasmtime.WasmtimeError as e:
            raise ValueError(f"{path.name}: {e}") from None

    def bump(self) -> None:
        """Make every running guest of this engine call its epoch callback soon. Callable from any thread."""
        self.raw.increment_epoch()


@cache
def engine(metered: bool = False) -> Engine:
    """The process's engine of this flavour."""
    return Engine(metered=metered)


# wasmtime-py's types are skipped by mypy; these names say what is meant.
Func: TypeAlias = Any
Exports: TypeAlias = Any


class Store:
    """One guest's private world: its instances, memories and files."""

    def __init__(self, eng: Engine, mounts: Sequence[Mount], argv: list[str], env: dict[str, str], memory_limit: int):
        self.engine = eng
        self.raw = wasmtime.Store(eng.raw)
        self.failure: BaseException | None = None  # what a host function raised
        self._keep: list[Any] = []  # C callbacks live as long as the store
        self._globals: dict[int, tuple[Any, str, Any, Any]] = {}  # by id; the last is what has that id
        wasi = wasmtime.WasiConfig()
        wasi.argv = argv
        wasi.env = list(env.items())
        for mount in mounts:
            wasi.preopen_dir(str(mount.host), mount.guest, mount.writable)
        self.raw.set_wasi(wasi)
        self.limit_memory(memory_limit)
        self.raw.set_epoch_deadline(NO_DEADLINE)
        if eng.metered:
            self.set_fuel(NO_DEADLINE)

    def wasi_function(self, name: str) -> Func:
        """wasmtime's own implementation of a WASI call, in this store."""
        func: Func = self.engine.wasi.get(self.raw, WASI, name)
        return func

    def host_function(self, params: str, result: str, function: Callable[..., int]) -> Func:
        """A function of ours for the guest. ``params`` and ``result`` are letters: ``i`` for i32, ``l`` for i64.

        Arguments come as signed integers. An exception in it stops the guest; `call` raises it afterwards.
        """
        kinds = {"i": wasmtime.ValType.i32, "l": wasmtime.ValType.i64}
        names = {"i": "i32", "l": "i64"}
        fields = [names[p] for p in params]
        result_field = names[result]

        def callback(_env: Any, _caller: Any, values: Any, _count: int) -> int:
            try:
                answer = function(*[getattr(values[i], name) for i, name in enumerate(fields)])
                setattr(values[0], result_field, answer)
                return 0
            except BaseException as e:  # noqa: BLE001 - an exception must not cross wasm's frames
                self.failure = e
                return int(ctypes.cast(wasmtime.Trap("host function failed")._consume(), ctypes.c_void_p).value or 0)

        c_callback = _ffi.wasmtime_func_unchecked_callback_t(callback)
        self._keep.append(c_callback)
        kind = wasmtime.FuncType([kinds[p]() for p in params], [kinds[result]()])
        raw = _ffi.wasmtime_func_t()
        _ffi.wasmtime_func_new_unchecked(
            self.raw._context(), kind.ptr(), c_callback, None, _NO_FINALIZER, ctypes.byref(raw)
        )
        return wasmtime.Func._from_raw(raw)

    def instantiate(self, module: Module, imports: Sequence[Any]) -> Exports:
        """An instance's exports. Imports are positional, as `Module.imports` lists them."""
        return wasmtime.Instance(self.raw, module.raw, list(imports)).exports(self.raw)

    def on_epoch(self, callback: Callable[[], int]) -> None:
        """Call ``callback`` on the guest's thread when the epoch reaches the deadline; it returns the next one.

        It may enter the guest again, after moving the deadline forward itself, and may raise `Stop`.
        """

        def c_callback(_context: Any, _data: Any, delta: Any, kind: Any) -> int:
            try:
                delta[0] = callback()
                kind[0] = 0
                return 0
            except BaseException as e:  # noqa: BLE001 - an exception must not cross wasm's frames
                self.failure = e
                return int(ctypes.cast(_ffi.wasmtime_error_new(b"stopped"), ctypes.c_void_p).value or 0)

        kept = _EPOCH_CALLBACK(c_callback)
        self._keep.append(kept)
        _ffi.wasmtime_store_epoch_deadline_callback(self.raw.ptr(), kept, None, _NO_FINALIZER)

    def set_epoch_deadline(self, ticks: int) -> None:
        """How many bumps from now the epoch callback runs."""
        _set_epoch_deadline(self.raw._context(), ticks)

    def caller(self, func: Func, parameters: str, result: str = "") -> Callable[..., int]:
        """A quick way to call one wasm function again and again; raises `Trapped`."""
        fields = [{"i": "i32", "l": "i64"}[p] for p in parameters]
        size = max(len(parameters), len(result), 1)
        handle = ctypes.byref(func._func)
        context = self.raw._context()
        result_field = {"": None, "i": "i32", "l": "i64"}[result]

        def call(*arguments: int) -> int:
            values = (_ffi.wasmtime_val_raw_t * size)()
            for i, name in enumerate(fields):
                setattr(values[i], name, arguments[i])
            trap = ctypes.POINTER(_ffi.wasm_trap_t)()
            error = _ffi.wasmtime_func_call_unchecked(context, handle, values, size, ctypes.byref(trap))
            if error or trap:
                raise self._trapped(error, trap)
            return 0 if result_field is None else int(getattr(values[0], result_field))

        return call

    def _trapped(self, error: Any, trap: Any) -> Trapped:
        failure, self.failure = self.failure, None
        exit_code = 0
        cause = TrapCause.DAMAGE
        if error:
            problem: Any = wasmtime.WasmtimeError._from_ptr(error)
            if isinstance(problem, wasmtime.ExitTrap):
                cause, exit_code = TrapCause.EXIT, problem.code
        else:
            problem = wasmtime.Trap._from_ptr(trap)
            cause = _CAUSES.get(problem.trap_code, TrapCause.DAMAGE)
        if isinstance(failure, Stop):
            cause = TrapCause.STOPPED
        elif isinstance(failure, Trapped):  # a host function called the guest, which was stopped there
            cause, exit_code = failure.cause, failure.exit_code
        elif failure is not None:
            cause = TrapCause.HOST
        trapped = Trapped(cause, str(problem).splitlines()[0] if cause is not TrapCause.EXIT else "", exit_code)
        trapped.__cause__ = failure
        return trapped

    def new_memory(self, size: int) -> Any:
        """A linear memory of the host's own, of at least ``size`` bytes; it may grow. It is no guest's."""
        pages = -(-size // PAGE)
        return wasmtime.Memory(self.raw, wasmtime.MemoryType(wasmtime.Limits(pages, _MOST_PAGES)))

    def memory_address(self, memory: Any) -> int:
        """Where a linear memory begins in this process."""
        return ctypes.addressof(memory.data_ptr(self.raw).contents)

    def memory_size(self, memory: Any) -> int:
        """A linear memory's size in bytes."""
        return int(_memory_size(self.raw._context(), ctypes.byref(memory._memory)))

    def memory_grow_to(self, memory: Any, size: int) -> None:
        """Grow a linear memory to at least ``size`` bytes."""
        missing = size - self.memory_size(memory)
        if missing > 0:
            memory.grow(self.raw, -(-missing // PAGE))

    def limit_memory(self, most: int) -> None:
        """Let no memory grow beyond this."""
        self.raw.set_limits(memory_size=most, instances=8, memories=8, tables=16, table_elements=1 << 20)

    def get_global(self, item: Any) -> int:
        """An exported global's value."""
        global_, field, value = self._global(item)
        _global_get(self.raw._context(), global_, ctypes.byref(value))
        return int(getattr(value.of, field))

    def set_global(self, item: Any, number: int) -> None:
        """Set an exported mutable global, of integers."""
        global_, field, value = self._global(item)
        setattr(value.of, field, number)
        _global_set(self.raw._context(), global_, ctypes.byref(value))

    def _global(self, item: Any) -> tuple[Any, str, Any]:
        """What C needs to read or set a global. wasmtime-py asks for its type each time, which takes long."""
        known = self._globals.get(id(item))
        if known is None:
            field = str(item.type(self.raw).content)
            value = _ffi.wasmtime_val_t(kind={"i32": 0, "i64": 1}[field])
            known = self._globals[id(item)] = ctypes.byref(item._global), field, value, item
        return known[:3]

    def set_fuel(self, fuel: int) -> None:
        """Give a metered store this much fuel."""
        self.raw.set_fuel(fuel)

    def fuel(self) -> int:
        """What is left of a metered store's fuel."""
        return int(self.raw.get_fuel())

    def close(self) -> None:
        """Release the guest: memory, files, callbacks."""
        self.raw.close()
        self._keep.clear()
