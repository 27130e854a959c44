"""Faster bodies for the runtime's numeric functions, laid over the old ones before the module is compiled.

numpy and OpenBLAS were compiled into the runtime without SIMD. `kernels/` in the repository has replacements in C for
what costs most: inner loops of linear algebra, sorts, ufuncs. clang made `numeric-kernels.wasm` of them, a relocatable
object with bodies and nothing else: no data, no tables, no stack. A replacement has the type of what it replaces and
works on the same memory, so indexes, table, data and base memory stay as they are. So kernels belong to the keys
of `code` entries alone, and why a snapshot goes on with other kernels than those it was taken with.

`numeric-kernels.json` says which functions of the runtime each one replaces or calls: by name for people, by index for
us (the module has no names any more), and by the hash of the body: in another runtime, an index could mean anything.
Patches that come before, when the runtime is fetched, must leave these functions alone: the hash sees to that.

A symbol of the object is one of four things:

    named in `replaces`        its body takes the place of every function listed there
    named in `calls`           the runtime's own function, as it is
    original_NAME              a copy of the function that NAME replaced, for cases that NAME does not handle
    anything else              a helper, appended after the runtime's functions
"""

from __future__ import annotations

import functools
import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.host.image.leb128 import read_unsigned
from wasm_kernel.host.image.wasm_module import WasmModule

ORIGINAL = "original_"  # in front of a kernel's name: what it replaced
OBJECT = Path(__file__).with_name("numeric-kernels.wasm")
TABLE = OBJECT.with_suffix(".json")
_FUNCTION_INDEX = 0  # R_WASM_FUNCTION_INDEX_LEB, the one kind of relocation that bodies here may need
_INDEX_SIZE = 5  # bytes: relocatable objects write every index as long as it can get


class UnfitKernels(ValueError):
    """The kernels and the runtime were not made for each other, or a kernel needs what cannot be moved."""


@dataclass(frozen=True)
class Function:
    """A function of the runtime: its name, its index, and the SHA-256 of its body."""

    name: str
    index: int
    sha256: str

    def check(self, runtime: WasmModule) -> int:
        """Its index, if it is still the one that is meant."""
        own = len(runtime.imports) <= self.index < runtime.function_count
        if not own or body_hash(runtime.body(self.index)) != self.sha256:
            raise UnfitKernels(
                f"function {self.index} of the runtime is not the {self.name} that the numeric kernels were made for;"
                " `make kernels` makes them for the pinned runtime"
            )
        return self.index


@dataclass(frozen=True)
class Table:
    """What `numeric-kernels.json` says."""

    sha256: str  # of the object
    replaces: dict[str, list[Function]]
    calls: dict[str, Function]

    @classmethod
    def from_json(cls, text: str) -> Table:
        """Read it from its file."""
        value: dict[str, Any] = json.loads(text)
        replaces = {name: [Function(*f) for f in functions] for name, functions in value["replaces"].items()}
        return cls(value["sha256"], replaces, {name: Function(*f) for name, f in value["calls"].items()})


@functools.cache
def key() -> str:
    """Names these kernels: what is compiled with others is another module."""
    return hashlib.sha256(OBJECT.read_bytes() + TABLE.read_bytes()).hexdigest()


def body_hash(body: bytes) -> str:
    """How a function's body is named in the table."""
    return hashlib.sha256(body).hexdigest()


def accelerate(wasm: bytes) -> bytes:
    """The runtime's module with our kernels in it; `UnfitKernels` if it is another runtime."""
    data, table = OBJECT.read_bytes(), Table.from_json(TABLE.read_text())
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise UnfitKernels(f"{OBJECT.name} is not the file that {TABLE.name} describes; `make kernels` makes both")
    runtime = WasmModule(wasm)
    transplant(runtime, WasmModule(data), table)
    return runtime.to_bytes()


def transplant(runtime: WasmModule, kernels: WasmModule, table: Table) -> None:
    """Lay the kernels over the functions of the runtime that they replace."""
    replaced = {name: [f.check(runtime) for f in functions] for name, functions in table.replaces.items()}
    called = {name: f.check(runtime) for name, f in table.calls.items()}
    names = {index: name for name, indexes in kernels.function_names.items() for index in indexes}
    missing = replaced.keys() - names.values()
    if missing:
        raise UnfitKernels(
            f"there is no kernel {', '.join(sorted(missing))}; `make kernels` makes those that are listed"
        )
    places: dict[int, list[int]] = {}  # where each function of the object is in the runtime
    for index, name in sorted(names.items()):
        if index < len(kernels.imports):
            places[index] = [_outside(name, runtime, replaced, called)]
        elif name in replaced:
            places[index] = replaced[name]
        else:
            places[index] = [runtime.append_function(runtime.add_type(kernels.function_type(index)), b"")]
        if any(runtime.function_type(place) != kernels.function_type(index) for place in places[index]):
            raise UnfitKernels(f"the kernels' {name} has another type than the function of the runtime it stands for")
    calls = sorted(call_offsets(kernels))
    for index in range(len(kernels.imports), kernels.function_count):
        body = _moved(kernels, index, calls, places)
        for place in places[index]:
            runtime.replace_body(place, body)


def call_offsets(kernels: WasmModule) -> Iterator[int]:
    """Where the object's code has the index of a function, counted from the beginning of its code section."""
    data = kernels.custom_section("reloc.CODE")
    if not data:  # nothing calls anything
        return
    _, at = read_unsigned(data, 0)  # which section it is about
    count, at = read_unsigned(data, at)
    for _ in range(count):
        if data[at] != _FUNCTION_INDEX:
            raise UnfitKernels(
                f"a relocation of kind {data[at]}: a kernel has data, a stack frame, a table or a function's address"
            )
        offset, at = read_unsigned(data, at + 1)
        _, at = read_unsigned(data, at)  # the symbol; the code has its index already
        yield offset


def _outside(name: str, runtime: WasmModule, replaced: dict[str, list[int]], called: dict[str, int]) -> int:
    """What a kernel calls and the object does not have."""
    if name in called:
        return called[name]
    target = name.removeprefix(ORIGINAL)
    if target == name or target not in replaced:
        raise UnfitKernels(f"a kernel calls {name}, which is neither the runtime's nor a kernel's original")
    first = replaced[target][0]
    return runtime.append_function(runtime.type_index(first), runtime.body(first))


def _moved(kernels: WasmModule, index: int, calls: list[int], places: dict[int, list[int]]) -> bytes:
    """A kernel's body with the runtime's indexes in its calls."""
    body, start = bytearray(kernels.body(index)), kernels.body_offset(index)
    for offset in calls[bisect_left(calls, start) : bisect_left(calls, start + len(body))]:
        at = offset - start
        callee, end = read_unsigned(body, at)
        if end - at != _INDEX_SIZE:
            raise UnfitKernels(f"byte {offset} of the kernels' code is not an index of {_INDEX_SIZE} bytes")
        place = places[callee][0]
        body[at:end] = bytes(place >> shift & 0x7F | (0x80 if shift < 28 else 0) for shift in range(0, 35, 7))
    return bytes(body)
