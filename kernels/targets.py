"""Which functions of the runtime a kernel replaces, where its own name is not the answer.

A kernel without an entry replaces the one function of its name. Names are those of the runtime's name section, where
C++ is spelled out. `long` and `int` have 32 bits both, so one kernel serves the two of them.
"""

from __future__ import annotations

from kernels.numpy_targets import NUMPY

_INTEGERS = {
    "i8": [("signed char", 1)],
    "u8": [("unsigned char", 2)],
    "i16": [("short", 3)],
    "u16": [("unsigned short", 4)],
    "i32": [("int", 5), ("long", 7)],
    "u32": [("unsigned int", 6), ("unsigned long", 8)],
    "i64": [("long long", 9)],
    "u64": [("unsigned long long", 10)],
}
_FLOATS = {"f32": [("float", 11)], "f64": [("double", 12)]}

TARGETS: dict[str, list[str]] = {**NUMPY}
