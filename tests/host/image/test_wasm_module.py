"""Modules are read and changed exactly: what was not changed keeps its index and its bytes, and the result still runs."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_module import FunctionType, WasmModule

_TEXT = """(module
  (import "env" "twice" (func $twice (param i32) (result i32)))
  (import "env" "memory" (memory 1 2))
  (import "env" "table" (table 1 funcref))
  (import "env" "level" (global i64))
  (func $seen (export "seen") (result i32) (i32.const 1))
  (func $hidden (param i32) (result i32) (local i64) (call $twice (i32.add (local.get 0) (i32.const 40))))
  (func $calls_hidden (export "calls_hidden") (result i32) (call $hidden (i32.const 2)))
  (data (i32.const 8) "data"))"""
_I32 = b"\x7f"


def _module(text: str = _TEXT) -> WasmModule:
    return WasmModule(bytes(wasmtime.wat2wasm(text)))


def _exports(module: WasmModule) -> dict[str, Any]:
    """The exported functions, each of which can be called."""
    store = wasmtime.Store()
    imports = [
        wasmtime.Func(store, wasmtime.FuncType([wasmtime.ValType.i32()], [wasmtime.ValType.i32()]), lambda x: 2 * x),
        wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(1, 2))),
        wasmtime.Table(store, wasmtime.TableType(wasmtime.ValType.funcref(), wasmtime.Limits(1, None)), None),
        wasmtime.Global(store, wasmtime.GlobalType(wasmtime.ValType.i64(), False), wasmtime.Val.i64(1)),
    ]
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, module.to_bytes()), imports)
    exports = instance.exports(store)

    def caller(function: Any) -> Any:
        return lambda *args: function(store, *args)

    return {name: caller(exports[name]) for name in exports}


def test_what_is_not_changed_stays_byte_for_byte() -> None:
    data = bytes(wasmtime.wat2wasm(_TEXT))
    module = WasmModule(data)
    assert module.to_bytes() == data
    for name in ("seen", "hidden", "calls_hidden"):
        module.replace_body(module.function_index(name), module.body(module.function_index(name)))
    assert module.to_bytes() == data


def test_functions_are_found_by_name() -> None:
    module = _module()
    assert [module.function_index(name) for name in ("twice", "seen", "hidden", "calls_hidden")] == [0, 1, 2, 3]
    assert module.function_count == 4
    assert module.function_type(2) == module.function_type(0) == FunctionType(_I32, _I32)
    assert module.imports[0].name == "twice"
    assert module.exports["calls_hidden"] == (0, 3)


def test_without_a_name_section_the_exports_name_functions() -> None:
    module = WasmModule(_module().to_bytes(names=False))
    assert module.function_index("calls_hidden") == 3
    with pytest.raises(BadModule, match="no functions called hidden"):
        module.function_index("hidden")


def test_a_name_that_two_functions_have_is_refused() -> None:
    """The text format has no two functions of one name; linkers do."""
    data = bytes(wasmtime.wat2wasm("(module (func $first_name) (func $other_name))"))
    module = WasmModule(data.replace(b"other_name", b"first_name"))
    with pytest.raises(BadModule, match="2 functions called first_name"):
        module.function_index("first_name")


def test_a_replaced_body_is_what_others_call() -> None:
    module = _module()
    body = bytes.fromhex("00 20 00 41 e4 00 6a 0b")  # no locals; local.get 0, i32.const 100, i32.add, end
    module.replace_body(module.function_index("hidden"), body)
    assert module.body(module.function_index("hidden")) == body
    assert _exports(module)["calls_hidden"]() == 102


@given(st.integers(0, 300), st.sampled_from(["seen", "calls_hidden"]))
def test_bodies_of_any_size_leave_the_others_alone(padding: int, name: str) -> None:
    module = _module()
    module.replace_body(module.function_index(name), b"\0" + b"\x01" * padding + b"\x41\x07\x0b")  # nops, i32.const 7
    exports = _exports(module)
    assert {each: exports[each]() for each in exports} == {"seen": 1, "calls_hidden": 84, name: 7}


def test_appended_functions_can_be_called_and_exported() -> None:
    module = _module()
    original = module.append_function(module.type_index(2), module.body(2))
    assert original == 4
    pair = module.add_type(FunctionType(_I32 * 2, _I32))
    assert module.add_type(FunctionType(_I32, _I32)) == module.type_index(2), "what is there is taken"
    added = module.append_function(pair, bytes.fromhex("00 20 00 20 01 6a 0b"))
    module.replace_body(2, bytes.fromhex("00 20 00 10 04 41 01 6a 0b"))  # the original, plus 1
    module.export_function("added", added)
    exports = _exports(WasmModule(module.to_bytes()))
    assert exports["added"](20, 3) == 23
    assert exports["calls_hidden"]() == 85
    module.replace_body(added, bytes.fromhex("00 20 00 0b"))
    assert _exports(module)["added"](20, 3) == 20


def test_names_are_kept_or_dropped() -> None:
    assert b"hidden" in _module().to_bytes()
    assert b"\x06hidden" not in _module().to_bytes(names=False)


def test_what_cannot_be_is_refused() -> None:
    module = _module()
    with pytest.raises(BadModule, match="already exports seen"):
        module.export_function("seen", 2)
    with pytest.raises(BadModule, match="no function 9"):
        module.export_function("new", 9)
    with pytest.raises(BadModule, match="no function 0 with a body"):
        module.replace_body(0, b"")
    with pytest.raises(BadModule, match="no function 4 with a body"):
        module.body(4)
    with pytest.raises(BadModule, match="no type 7"):
        module.append_function(7, b"\0\x0b")
    empty = WasmModule(b"\0asm\1\0\0\0")
    empty.add_type(FunctionType(b"", b""))
    with pytest.raises(BadModule, match="no section 1"):
        empty.to_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ELF....", "not a WebAssembly"),
        (b"\0asm\1\0\0\0\x01\x05\0", "longer than the module"),
        (b"\0asm\1\0\0\0\x01\x80", "without an end"),
        (b"\0asm\1\0\0\0\x01\x01\0\x01\x01\0", "two sections 1"),
        (b"\0asm\1\0\0\0\x01\x03\x01\x5f\0", "form 0x5f"),
        (b"\0asm\1\0\0\0\x01\x04\x01\x60\x05\0", "beyond its section"),
        (b"\0asm\1\0\0\0\x01\x02\0\0", "belong to nothing"),
        (b"\0asm\1\0\0\0\x03\x02\x01\0", "of type 0"),
        (b"\0asm\1\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0", "1 functions are declared, 0 have a body"),
        (b"\0asm\1\0\0\0\x0a\x03\x01\x05\0", "beyond its section"),
    ],
)
def test_a_damaged_module_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadModule, match=message):
        WasmModule(data)


@given(st.data())
def test_a_cut_module_never_does_harm(data: st.DataObject) -> None:
    whole = bytes(wasmtime.wat2wasm(_TEXT))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with contextlib.suppress(BadModule):
        module = WasmModule(cut)
        module.to_bytes()
        assert set(module.function_names) <= {"twice", "seen", "hidden", "calls_hidden"}


def test_the_one_mutable_global_can_be_exported() -> None:
    text = '(module (global i32 (i32.const 7)) (global (mut i32) (i32.const 70000)) (func (export "f")))'
    module = _module(text)
    module.export_mutable_global("level")
    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, module.to_bytes()), [])
    assert instance.exports(store)["level"].value(store) == 70000
    with pytest.raises(BadModule, match="already exports level"):
        module.export_mutable_global("level")


@pytest.mark.parametrize(
    ("globals_", "reason"),
    [
        ("(global i32 (i32.const 7))", "0 mutable globals"),
        ("(global (mut i32) (i32.const 7)) (global (mut i64) (i64.const 7))", "2 mutable globals"),
        ("(global (mut f64) (f64.const 7))", "does not begin with a number"),
        ('(import "env" "g" (global i32))', "imports more than functions"),
    ],
)
def test_another_set_of_globals_is_refused(globals_: str, reason: str) -> None:
    with pytest.raises(BadModule, match=reason):
        _module(f'(module {globals_} (func (export "f")))').export_mutable_global("level")
