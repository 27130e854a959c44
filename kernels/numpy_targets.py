"""Which of numpy's functions each kernel of `numpy_*.c` replaces.

`long` and `int` have 32 bits both. Where signed and unsigned integers give the same bits, one kernel serves all.
"""

from __future__ import annotations

from collections.abc import Iterator

_LOOPS = {
    "bool": ["BOOL"],
    "i8": ["BYTE"],
    "u8": ["UBYTE"],
    "i16": ["SHORT"],
    "u16": ["USHORT"],
    "i32": ["INT", "LONG"],
    "u32": ["UINT", "ULONG"],
    "i64": ["LONGLONG"],
    "u64": ["ULONGLONG"],
    "f32": ["FLOAT"],
    "f64": ["DOUBLE"],
    "c64": ["CFLOAT"],
    "c128": ["CDOUBLE"],
}
_CASTS = {
    "bool": ["bool"],
    "u8": ["ubyte"],
    "i16": ["short"],
    "i32": ["int", "long"],
    "i64": ["longlong"],
    "f32": ["float"],
    "f64": ["double"],
}
_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_ARITHMETIC = ("add", "subtract", "multiply", "negative", "square")
_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift")
_EQUALITY = ("equal", "not_equal")
_ORDER = ("less", "less_equal", "greater", "greater_equal")
_EXTREMES = ("maximum", "minimum", "clip")
_ARG_EXTREMES = ("argmax", "argmin")
_FLOAT = (
    "divide", "absolute", "sqrt", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "fmax", "fmin",
    "sign", "exp", "log",
    "pairwise_sum",
)  # fmt: skip
_BOOLEAN = ("logical_and", "logical_or", "logical_not", *_ARG_EXTREMES)
_FROM_TO = {
    "bool": ("i32", "i64", "f32", "f64"),
    "u8": ("bool", "i32", "i64", "f32", "f64"),
    "i16": ("i64", "f32", "f64"),
    "i32": ("bool", "i64", "f32", "f64"),
    "i64": ("bool", "i32"),
    "f32": ("bool", "u8", "i32", "f64"),
    "f64": ("bool", "u8", "i32", "f32"),
}


def _kernels() -> Iterator[tuple[str, list[str]]]:
    for size in (8, 16, 32, 64):
        names = _LOOPS[f"u{size}"] + _LOOPS[f"i{size}"]  # this way round: some signed loops only call the unsigned one
        for operation in (*_ARITHMETIC, *_BITWISE, *_EQUALITY):
            yield f"u{size}_{operation}", [f"{name}_{operation}" for name in names]
        yield f"i{size}_absolute", [f"{name}_absolute" for name in _LOOPS[f"i{size}"]]
    by_type = dict.fromkeys(_INTEGERS, (*_ORDER, *_EXTREMES, *_ARG_EXTREMES, "right_shift"))
    # WebAssembly has no maximum of 64-bit integers, and without it numpy's own search is the quicker one.
    by_type |= dict.fromkeys(("i64", "u64"), (*_ORDER, *_EXTREMES, "right_shift"))
    by_type |= dict.fromkeys(("f32", "f64"), (*_ARITHMETIC, *_EQUALITY, *_ORDER, *_EXTREMES, *_ARG_EXTREMES, *_FLOAT))
    by_type |= dict.fromkeys(("c64", "c128"), ("add", "subtract", "multiply"))
    by_type |= {"bool": (*_EQUALITY, *_ORDER, *_BOOLEAN)}
    for kind, operations in by_type.items():
        for operation in operations:
            yield f"{kind}_{operation}", [f"{name}_{operation}" for name in _LOOPS[kind]]
    for kind in set(_INTEGERS) - {"u64"}:
        yield f"{kind}_floor_divide", [f"{name}_divide" for name in _LOOPS[kind]]
    for source, targets in _FROM_TO.items():
        for target in targets:
            names = [f"_aligned_contig_cast_{s}_to_{t}" for s in _CASTS[source] for t in _CASTS[target]]
            yield f"cast_{source}_{target}", names
    for name in ("pcg64_uint64", "pcg64_uint32", "pcg64_double"):
        yield name, [f"__pyx_f_5numpy_6random_6_pcg64_{name}"]


NUMPY: dict[str, list[str]] = dict(_kernels())
