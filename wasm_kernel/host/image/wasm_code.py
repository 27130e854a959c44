"""The code of one function: its instructions, with exact sequences of them replaced and its calls sent elsewhere.

Only what the runtime's C code is made of is known here, without SIMD and exceptions; anything else is a `BadModule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wasm_kernel.host.image.leb128 import BadNumber, read_signed, read_unsigned, signed, unsigned
from wasm_kernel.host.image.section_reader import BadModule

_PLAIN = {
    "end": 0x0B, "return": 0x0F, "select": 0x1B, "i32.eq": 0x46, "i32.lt_s": 0x48, "i32.gt_u": 0x4B, "i32.le_u": 0x4D,
    "i64.eqz": 0x50, "f64.lt": 0x63, "f64.gt": 0x64, "i32.add": 0x6A, "i32.sub": 0x6B, "i32.mul": 0x6C, "i32.and": 0x71,
    "i32.xor": 0x73, "i64.sub": 0x7D, "i64.mul": 0x7E, "i64.and": 0x83, "i32.wrap_i64": 0xA7, "i64.extend_i32_s": 0xAC,
    "i64.extend_i32_u": 0xAD, "f64.convert_i32_s": 0xB7, "f64.convert_i64_s": 0xB9,
}  # fmt: skip
_SATURATING = {"i32.trunc_sat_f64_s": 2, "i64.trunc_sat_f64_s": 6}  # after the byte that they have in common
_WITH_INDEX = {"br_if": 0x0D, "call": 0x10, "local.get": 0x20, "local.set": 0x21, "local.tee": 0x22, "global.get": 0x23}
_WITH_ALIGNMENT = {
    "i32.load": (0x28, 2), "f64.load": (0x2B, 3), "i32.load8_u": (0x2D, 0), "i32.store": (0x36, 2),
    "i64.store": (0x37, 3),
}  # fmt: skip
_CONSTANTS = {"i32.const": 0x41, "i64.const": 0x42}
_CALL, _CALL_INDIRECT, _BR_TABLE, _MORE = 0x10, 0x11, 0x0E, 0xFC
_NAMES = (
    {code: name for name, code in (_PLAIN | _WITH_INDEX | _CONSTANTS).items()}
    | {code: name for name, (code, _) in _WITH_ALIGNMENT.items()}
    | {_CALL_INDIRECT: "call_indirect", 0x44: "f64.const"}
)
_ONE_SIGNED = {0x02, 0x03, 0x04, 0x41, 0x42}  # types of blocks, constants
_ONE_UNSIGNED = {0x0C, 0x0D, _CALL, 0x20, 0x21, 0x22, 0x23, 0x24}  # labels, functions, locals, globals
_SATURATING_NAMES = {which: name for name, which in _SATURATING.items()}
_FIXED = {0x3F: 1, 0x40: 1, 0x43: 4, 0x44: 8}  # memory.size and .grow, constants that are floats
_UNKNOWN = {*range(0x06, 0x0B), *range(0x12, 0x1A), *range(0x1C, 0x20), *range(0xC5, 0xFC), *range(0xFD, 0x100)}


@dataclass(frozen=True)
class Instruction:
    """One instruction: the bytes it has, its name if it is one that patterns use, and its number (or offset)."""

    start: int
    end: int
    name: str
    number: int | None


def instructions(body: bytes) -> Iterator[Instruction]:
    """The instructions of a function's body, after its locals."""
    try:
        groups, at = read_unsigned(body, 0)
        for _ in range(groups):
            _, at = read_unsigned(body, at)
            at += 1
        while at < len(body):
            start, code = at, body[at]
            number, at = _operands(body, code, at + 1)
            if at > len(body):
                raise BadModule(f"the instruction at byte {start} goes beyond its function")
            name = _SATURATING_NAMES.get(body[start + 1], "") if code == _MORE else _NAMES.get(code, "")
            yield Instruction(start, at, name, number)
    except BadNumber as e:
        raise BadModule(str(e)) from None


def _operands(body: bytes, code: int, at: int) -> tuple[int | None, int]:
    if code in _ONE_SIGNED:
        return read_signed(body, at)
    if code in _ONE_UNSIGNED:
        return read_unsigned(body, at)
    if 0x28 <= code <= 0x3E:  # loads and stores: alignment, offset
        _, at = read_unsigned(body, at)
        return read_unsigned(body, at)
    if code in _UNKNOWN:
        raise BadModule(f"the instruction {code:#x} is not known here")
    more = 0
    if code == _BR_TABLE:
        more, at = read_unsigned(body, at)
        more += 1
    elif code == _CALL_INDIRECT:
        more = 2
    elif code == _MORE:  # saturating conversions, then instructions on memory and tables
        which, at = read_unsigned(body, at)
        more = 0 if which <= 7 else 2 if which in (8, 10, 12, 14) else 1
    for _ in range(more):
        _, at = read_unsigned(body, at)
    return None, at + _FIXED.get(code, 0)


class Patterns:
    """Sequences of instructions as text: `i32.const 7; call PyArray_DescrFromType; br_if _`. `_` is any number."""

    def __init__(self, function_index: Callable[[str], int]) -> None:
        self._function_index = function_index

    def replace(self, body: bytes, pattern: str, changes: Mapping[int, str]) -> tuple[bytes, int]:
        """Put other instructions for some of the pattern's, wherever it is; the new body, and how often it was there.

        ``changes`` has the position in the pattern and the instructions that come there, which may be none.
        """
        wanted = [self._parse(text) for text in pattern.split("; ")]
        code = list(instructions(body))
        out, at, found, k = bytearray(), 0, 0, 0
        while k + len(wanted) <= len(code):
            here = code[k : k + len(wanted)]
            if not all(_matches(instruction, *want) for instruction, want in zip(here, wanted, strict=True)):
                k += 1
                continue
            for position, instruction in enumerate(here):
                if position in changes:
                    out += body[at : instruction.start] + self._assemble(changes[position])
                    at = instruction.end
            found += 1
            k += len(wanted)
        return bytes(out + body[at:]), found

    def _parse(self, text: str) -> tuple[str, int | None]:
        name, _, number = text.partition(" ")
        if name == "call":
            return name, self._function_index(number)
        return name, None if number in ("", "_") else int(number)

    def _assemble(self, text: str) -> bytes:
        return b"".join(_encode(*self._parse(each)) for each in text.split("; ") if each)


def _matches(instruction: Instruction, name: str, number: int | None) -> bool:
    return instruction.name == name and number in (None, instruction.number)


def _encode(name: str, number: int | None) -> bytes:
    if name in _PLAIN:
        return bytes([_PLAIN[name]])
    if name in _SATURATING:
        return bytes([_MORE, _SATURATING[name]])
    if number is None:
        raise BadModule(f"{name} needs a number")
    if name in _CONSTANTS:
        return bytes([_CONSTANTS[name]]) + signed(number)
    if name in _WITH_ALIGNMENT:
        return bytes(_WITH_ALIGNMENT[name]) + unsigned(number)
    return bytes([_WITH_INDEX[name]]) + unsigned(number)


def with_other_calls(body: bytes, places: Mapping[int, int]) -> bytes:
    """The body, with each function that it calls by the index it has elsewhere."""
    out, at = bytearray(), 0
    for instruction in instructions(body):
        if instruction.name == "call_indirect":
            raise BadModule("an indirect call cannot be moved to another module")
        if instruction.name == "call" and instruction.number is not None:
            out += body[at : instruction.start] + bytes([_CALL]) + unsigned(places[instruction.number])
            at = instruction.end
    return bytes(out + body[at:])
