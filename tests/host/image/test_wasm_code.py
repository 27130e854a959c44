"""Instructions are found exactly, and only what was asked for is replaced."""

from __future__ import annotations

import pytest
import wasmtime

from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_code import Patterns, instructions, with_other_calls
from wasm_kernel.host.image.wasm_module import WasmModule

_TEXT = """(module
  (memory 1)
  (func $seven (result i32) (i32.const 7))
  (func $nine (result i32) (i32.const 9))
  (func $sum (export "sum") (result i32) (local i32 i64 f64)
    (local.set 0 (i32.add (i32.const 7) (call $seven)))
    (block (br_if 0 (i32.const 0)) (br_table 0 0 (i32.const 1)))
    (i32.store offset=16 (i32.const 0) (i32.const 7))
    (local.set 2 (f64.const 1.5))
    (memory.fill (i32.const 64) (i32.const 0) (i32.const 8))
    (drop (i64.trunc_sat_f64_s (local.get 2)))
    (i32.add (local.get 0) (i32.load offset=16 (i32.const 0)))))"""


def _module() -> WasmModule:
    return WasmModule(bytes(wasmtime.wat2wasm(_TEXT)))


def _sum(module: WasmModule) -> int:
    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, module.to_bytes()), [])
    function = instance.exports(store)["sum"]
    assert isinstance(function, wasmtime.Func)
    return int(function(store))


def _replaced(pattern: str, changes: dict[int, str]) -> tuple[WasmModule, int]:
    module = _module()
    index = module.function_index("sum")
    body, found = Patterns(module.function_index).replace(module.body(index), pattern, changes)
    module.replace_body(index, body)
    return module, found


def test_every_byte_belongs_to_one_instruction() -> None:
    module = _module()
    body = module.body(module.function_index("sum"))
    found = list(instructions(body))
    assert all(a.end == b.start for a, b in zip(found, found[1:], strict=False))
    assert found[-1].end == len(body)
    assert [i.number for i in found if i.name == "i32.const"] == [7, 0, 1, 0, 7, 64, 0, 8, 0]
    assert [i.number for i in found if i.name in ("i32.store", "i32.load")] == [16, 16]


@pytest.mark.parametrize(
    ("pattern", "changes", "times", "total"),
    [
        ("i32.const 7", {0: "i32.const 1000000"}, 2, 2000007),
        ("i32.const 7; call seven", {0: "i32.const -9"}, 1, 5),
        ("i32.const 7; call seven", {1: "call nine"}, 1, 23),
        ("f64.const _; local.set 2", {0: "i64.const -9000000000; f64.convert_i64_s"}, 1, 21),
        ("local.get 2; i64.trunc_sat_f64_s", {1: "i32.trunc_sat_f64_s"}, 1, 21),
        ("i32.trunc_sat_f64_s", {}, 0, 21),
        ("i32.const _; call seven; i32.add", {2: "i32.add; i32.const 1; i32.add"}, 1, 22),
        ("i32.const 7; i32.store 16", {}, 1, 21),
        ("i32.const 7; i32.store 16", {1: "i64.extend_i32_s; i64.store 16"}, 1, 21),
        ("i32.const 7; i32.store 17", {0: "i32.const 1"}, 0, 21),
        ("call nine", {0: ""}, 0, 21),
    ],
)
def test_a_pattern_is_replaced(pattern: str, changes: dict[int, str], times: int, total: int) -> None:
    module, found = _replaced(pattern, changes)
    assert found == times
    assert _sum(module) == total


def test_an_instruction_can_be_taken_out() -> None:
    module, found = _replaced("local.get _; i32.const 0; i32.load 16; i32.add", {1: "", 2: "", 3: ""})
    assert found == 1
    assert _sum(module) == 14


def test_calls_are_sent_elsewhere() -> None:
    module = _module()
    seven, nine, index = (module.function_index(name) for name in ("seven", "nine", "sum"))
    module.replace_body(index, with_other_calls(module.body(index), {seven: nine}))
    assert _sum(module) == 23


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(BadModule, match="no functions called absent"):
        _replaced("call absent", {})
    with pytest.raises(BadModule, match="0xfd"):
        list(instructions(b"\0\xfd\x0c" + bytes(16)))
    with pytest.raises(BadModule, match="beyond its function"):
        list(instructions(b"\0\x44\0"))
    with pytest.raises(BadModule, match="needs a number"):
        _replaced("i32.const 7", {0: "i32.const"})
    with pytest.raises(BadModule, match="indirect"):
        with_other_calls(b"\0\x11\0\0\x0b", {})
