"""The kernels in a module of a few kilobytes instead of the runtime: stubs with the right types, and the real transplant.

A stub of a function that is replaced says that it was called, so that one sees when a kernel falls back to the original.
"""

from __future__ import annotations

import dataclasses
import functools
from array import array
from typing import Any

import wasmtime

from wasm_kernel.host.image import numeric_kernels
from wasm_kernel.host.image.numeric_kernels import Function, Table
from wasm_kernel.host.image.wasm_module import FunctionType, WasmModule

_NAMES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64", 0x7B: "v128"}
_ARENA = 65536  # where what is put into the memory begins
_PAGES = 512
_ALLOCATOR = """
  (global $next (mut i32) (i32.const 0))
  (func $malloc (export "malloc") (param i32) (result i32)
    (if (i32.eqz (global.get $next)) (then (return (i32.const 0))))
    (global.get $next)
    (global.set $next (i32.and (i32.add (i32.add (global.get $next) (local.get 0)) (i32.const 31)) (i32.const -16))))
  (func $free (export "free") (param i32) (global.set $freed (i32.add (global.get $freed) (i32.const 1))))
  (global $freed (export "freed") (mut i32) (i32.const 0))
  (func (export "allocate_from") (param i32) (global.set $next (local.get 0)))"""


def _stub(name: str, of: FunctionType) -> str:
    parameters = " ".join(_NAMES[value] for value in of.parameters)
    result = f"(result {_NAMES[of.results[0]]})" if of.results else ""
    value = f"({_NAMES[of.results[0]]}.const 0)" if of.results else ""
    body = f"(global.set $originals (i32.add (global.get $originals) (i32.const 1))) {value}"
    return f'(func ${name} (export "{name}") (param {parameters}) {result} {body})'


@functools.cache
def compiled() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """The small module with all kernels in it, compiled as the runtime is."""
    table = Table.from_json(numeric_kernels.TABLE.read_text())
    kernels = WasmModule(numeric_kernels.OBJECT.read_bytes())
    stubs = [_stub(name, kernels.function_type(kernels.function_index(name))) for name in table.replaces]
    stubs += [
        _stub(name, kernels.function_type(kernels.function_index(name)))
        for name in table.calls
        if name not in ("malloc", "free")
    ]
    text = f"""(module (memory (export "memory") {_PAGES})
      (global $originals (export "originals") (mut i32) (i32.const 0)) {_ALLOCATOR} {chr(10).join(stubs)})"""
    runtime = WasmModule(bytes(wasmtime.wat2wasm(text)))

    def function(name: str) -> Function:
        index = runtime.function_index(name)
        return Function(name, index, numeric_kernels.body_hash(runtime.body(index)))

    mine = dataclasses.replace(
        table, replaces={n: [function(n)] for n in table.replaces}, calls={n: function(n) for n in table.calls}
    )
    numeric_kernels.transplant(runtime, kernels, mine)
    config = wasmtime.Config()
    config.epoch_interruption = True
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module(engine, runtime.to_bytes())


class Standalone:
    """An instance of it. Arrays go into its memory by `put` and come back by `get`."""

    def __init__(self) -> None:
        engine, module = compiled()
        self._store = wasmtime.Store(engine)
        self._store.set_epoch_deadline(1 << 60)
        self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._memory: Any = self._exports["memory"]
        self.clear()

    def clear(self) -> None:
        """Forget what was put into the memory."""
        self._next = _ARENA

    def put(self, values: array[Any], *, offset: int = 0) -> int:
        """Write an array into the memory, ``offset`` bytes beside an address that suits vectors; its address."""
        address = self._next + offset
        self._memory.write(self._store, values.tobytes(), address)
        self._next = (address + len(values) * values.itemsize + 63) & ~31
        return address

    def get(self, kind: str, address: int, count: int) -> array[Any]:
        """Read an array from the memory."""
        values = array(kind)
        values.frombytes(bytes(self._memory.read(self._store, address, address + count * values.itemsize)))
        return values

    def call(self, name: str, *arguments: float) -> Any:
        """Call a kernel."""
        function: Any = self._exports[name]
        return function(self._store, *arguments)

    def allow_malloc(self, allowed: bool = True) -> None:
        """From now on malloc gives memory behind all that was put, or nothing."""
        self.call("allocate_from", (self._next + 4096) & ~15 if allowed else 0)

    def count(self, name: str) -> int:
        """How often an original was called (`originals`), or memory given back (`freed`)."""
        value: Any = self._exports[name]
        return int(value.value(self._store))
