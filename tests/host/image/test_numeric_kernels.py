"""Kernels take the places of the functions they were made for, and of no others."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from wasm_kernel.host.image import numeric_kernels
from wasm_kernel.host.image.numeric_kernels import Function, Table, UnfitKernels, body_hash, transplant
from wasm_kernel.host.image.wasm_module import WasmModule

_RUNTIME = """(module (memory 1)
  (func $twice (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
  (func $double (export "double") (param i32) (result i32) (i32.add (local.get 0) (local.get 0)))
  (func $one (export "one") (result i32) (i32.const 1))
  (func $user (export "user") (param i32) (result i32) (call $twice (local.get 0))))"""
# As a relocatable object has it: three imports and two functions whose calls have indexes of five bytes.
_IMPORTS = ["one", "original_twice"]
_I32 = 0x7F


def _object(*, relocation: int = 0, extra_import: str = "") -> WasmModule:
    """`twice` gives one() + helper(x), and helper the original's answer."""
    imports = [*_IMPORTS, *([extra_import] if extra_import else [])]
    types = bytes([2, 0x60, 0, 1, _I32, 0x60, 1, _I32, 1, _I32])
    first = len(imports)

    def call(index: int) -> bytes:
        return b"\x10" + bytes([index | 0x80, 0x80, 0x80, 0x80, 0])

    twice = b"\0" + call(0) + b"\x20\0" + call(first + 1) + b"\x6a\x0b"
    helper = b"\0" + b"\x20\0" + call(1) + b"\x0b"
    code = bytes([2, len(twice)]) + twice + bytes([len(helper)]) + helper
    offsets = [4, 12, 2 + len(twice) + 1 + 4]
    relocations = b"".join(bytes([relocation, offset, 0]) for offset in offsets)

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    def section(kind: int, body: bytes) -> bytes:
        return bytes([kind, len(body)]) + body

    named = [*imports, "twice", "helper"]
    names = bytes([len(named)]) + b"".join(bytes([i]) + text(name) for i, name in enumerate(named))
    data = b"\0asm\1\0\0\0" + section(1, types)
    data += section(
        2, bytes([len(imports)]) + b"".join(text("env") + text(n) + bytes([0, n != "one"]) for n in imports)
    )
    data += section(3, bytes([2, 1, 1])) + section(10, code)
    data += section(0, text("reloc.CODE") + bytes([3, len(offsets)]) + relocations)
    data += section(0, text("name") + section(1, names))
    return WasmModule(data)


def _runtime() -> WasmModule:
    return WasmModule(bytes(wasmtime.wat2wasm(_RUNTIME)))


def _function(name: str) -> Function:
    runtime = _runtime()
    return Function(name, runtime.function_index(name), body_hash(runtime.body(runtime.function_index(name))))


def _table() -> Table:
    return Table("", {"twice": [_function("twice"), _function("double")]}, {"one": _function("one")})


def _call(module: WasmModule, name: str, *arguments: int) -> Any:
    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, module.to_bytes()), [])
    function: Any = instance.exports(store)[name]
    return function(store, *arguments)


def test_a_kernel_replaces_all_its_targets_and_can_call_helpers_the_runtime_and_the_original() -> None:
    runtime = _runtime()
    transplant(runtime, _object(), _table())
    assert [_call(runtime, name, 20) for name in ("twice", "double", "user")] == [41, 41, 41]
    assert _call(runtime, "one") == 1


def test_nothing_that_was_there_gets_another_index() -> None:
    runtime = _runtime()
    before = runtime.function_count
    transplant(runtime, _object(), _table())
    assert WasmModule(runtime.to_bytes()).exports == _runtime().exports
    assert runtime.function_count == before + 2  # the helper, and the copy of the original


@pytest.mark.parametrize("part", ["replaces", "calls"])
def test_another_runtime_is_refused_in_one_line(part: str) -> None:
    other = dataclasses.replace(_function("one" if part == "calls" else "twice"), sha256=body_hash(b"another"))
    table = dataclasses.replace(_table(), **{part: {"one": other} if part == "calls" else {"twice": [other]}})
    with pytest.raises(UnfitKernels, match=f"^function . of the runtime is not the {other.name} that .* made for;.*$"):
        transplant(_runtime(), _object(), table)


@pytest.mark.parametrize("index", [-1, 4, 10**9])
def test_an_index_that_the_runtime_does_not_have_is_refused(index: int) -> None:
    table = dataclasses.replace(_table(), calls={"one": dataclasses.replace(_function("one"), index=index)})
    with pytest.raises(UnfitKernels, match="is not the one that"):
        transplant(_runtime(), _object(), table)


def test_a_function_of_another_type_is_refused() -> None:
    with pytest.raises(UnfitKernels, match="twice has another type"):
        transplant(_runtime(), _object(), dataclasses.replace(_table(), replaces={"twice": [_function("one")]}))


def test_a_kernel_that_needs_more_than_its_body_is_refused() -> None:
    with pytest.raises(UnfitKernels, match="a relocation of kind 4"):
        transplant(_runtime(), _object(relocation=4), _table())


def test_what_a_kernel_calls_must_be_known() -> None:
    for name in ("printf", "original_nothing"):
        with pytest.raises(UnfitKernels, match=f"calls {name}, which is neither"):
            transplant(_runtime(), _object(extra_import=name), _table())


def test_a_kernel_that_is_listed_must_be_there() -> None:
    table = _table()
    table.replaces["thrice"] = [_function("double")]
    with pytest.raises(UnfitKernels, match="no kernel thrice"):
        transplant(_runtime(), _object(), table)


def test_the_object_is_the_one_that_the_table_describes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = Table.from_json(numeric_kernels.TABLE.read_text())
    assert hashlib.sha256(numeric_kernels.OBJECT.read_bytes()).hexdigest() == table.sha256
    changed = tmp_path / "numeric-kernels.wasm"
    changed.write_bytes(numeric_kernels.OBJECT.read_bytes() + b"\0")
    monkeypatch.setattr(numeric_kernels, "OBJECT", changed)
    with pytest.raises(UnfitKernels, match="is not the file that numeric-kernels.json describes"):
        numeric_kernels.accelerate(b"")


def test_no_function_is_replaced_twice() -> None:
    table = Table.from_json(numeric_kernels.TABLE.read_text())
    indexes = [f.index for functions in table.replaces.values() for f in functions]
    assert len(indexes) == len(set(indexes))
    assert not {f.index for f in table.calls.values()} & set(indexes)
