"""Exports are added by name, and the result is a module that still works."""

from __future__ import annotations

import pytest
import wasmtime

from wasm_kernel.host.image.wasmfile import add_exports

_TEXT = """(module
  (func $hidden_one (export "seen") (result i32) (i32.const 1))
  (func $hidden_two (result i32) (i32.const 2))
  (func $PyErr_SetInterruptEx (param i32) (result i32) (i32.add (local.get 0) (i32.const 40))))"""


def _module() -> bytes:
    return bytes(wasmtime.wat2wasm(_TEXT))


def test_named_functions_become_exports() -> None:
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    module = wasmtime.Module(engine, add_exports(_module(), {"PyErr_SetInterruptEx", "hidden_two"}))
    exports = wasmtime.Instance(store, module, []).exports(store)
    assert exports["PyErr_SetInterruptEx"](store, 2) == 42
    assert exports["hidden_two"](store) == 2
    assert exports["seen"](store) == 1


def test_the_name_section_is_dropped() -> None:
    assert b"hidden_two" in _module()
    assert b"hidden_two" not in add_exports(_module(), {"PyErr_SetInterruptEx"})


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no_such_function"):
        add_exports(_module(), {"no_such_function"})
    with pytest.raises(ValueError, match="not a WebAssembly"):
        add_exports(b"ELF....", set())
