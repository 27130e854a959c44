"""Make 64 bits the width of the runtime's default integer, as on any 64-bit machine.

On wasm32 numpy's default integer is C's `long` (type number 7), which has 32 bits: `np.arange(70000).sum()` would be
negative. int64 is `long long` here (type number 9). Where numpy's compiled code says 7 and means "the default integer",
`CHANGES` makes it say 9. np.intp, the type of positions, stays as wide as an address: compiled code writes through it.
`positions.wat` is what passes between the two: a position or a count that does not fit raises instead of wrapping,
and people's code gets int64 where the libraries get np.intp.

Each change names a function, the instructions that must be there, and how often. Addresses are those of the one runtime
that is pinned by its hash (`WORDS`; the build compares them with the booted guest's). So another runtime cannot be
changed wrongly in silence: it fails the build. What is written in Python is mended in the guest (`guest/integers.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_code import Patterns, with_other_calls
from wasm_kernel.host.image.wasm_module import WasmModule
from wasm_kernel.host.runtime.engine import assemble

# Where the runtime keeps pointers to objects, and a Python expression for the object.
WORDS = {
    "IndexError": (26079528, "IndexError"),
    "OverflowError": (26079564, "OverflowError"),
    "ValueError": (26079184, "ValueError"),
    "longlong": (27642932, "type(numpy.dtype('longlong'))"),
    "intp": (27642972, "type(numpy.dtype('intp'))"),
    "name_int64": (27668356, "sys.intern('int64')"),  # these three are numpy.random.mtrand's
    "name_l": (27668432, "sys.intern('l')"),
    "name_long": (27668500, "sys.intern('long')"),
}
# Objects that are themselves at a known address.
OBJECTS = {
    "int": (26106228, "int"),
    "tuple": (26125008, "tuple"),
    "int32": (26435440, "numpy.int32"),
    "ndarray": (26443132, "numpy.ndarray"),
    "__name__": (26188944, "sys.intern('__name__')"),
    "__main__": (26188688, "sys.intern('__main__')"),
    "__file__": (26187064, "sys.intern('__file__')"),
    "return": (26207064, "sys.intern('return')"),
}

POSITIONS = Path(__file__).with_name("positions.wat")
TEXT_SPACE = 96
_THREAD_STATE = 27561516  # where the pointer to it is; 56 bytes on is the current frame
_METHODS = ("argmax", "argmin", "argsort", "argpartition", "nonzero", "searchsorted")
_VALUE_TYPES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}
_TOO_LARGE = "an index or a count of 2**31 or more: an array has fewer elements than that here"
_DRAWN = "numpy.random.RandomState(0)"
_SAMPLE = "sklearn.utils.random.sample_without_replacement"
# What must hold in a booted guest: with each change by an address, and with the default integer itself.
_FACTS = [
    "numpy.arange(70000).sum() == 2449965000",
    "numpy.array([1]).dtype == numpy.dtype(int) == numpy.dtype('int') == numpy.int_ == numpy.int64",
    "eval('numpy.argsort([2, 1]).dtype', dict(numpy=numpy)) == 'int64'",
    "eval('numpy.argsort([2, 1]).dtype', dict(numpy=numpy, __name__='library')) == 'int32'",
    "eval('numpy.argsort(*[[2, 1]], **{}).dtype', dict(numpy=numpy)) == 'int64'",
    "eval('numpy.argsort(*[[2, 1]], **{}).dtype', dict(numpy=numpy, __name__='library')) == 'int32'",
    f"{_DRAWN}.tomaxint() == 5061911111874532631 and type({_DRAWN}.randint(9)) is int",
    f"{_DRAWN}.poisson(1e10) > 2**32 and {_DRAWN}.poisson([1e10])[0] > 2**32",
    f"{_DRAWN}.choice(9, 3).dtype == {_DRAWN}.choice(9, 3, replace=False).dtype == 'int64'",
    f"{_DRAWN}.permutation(9).dtype == {_DRAWN}.randint(9, size=2).dtype == {_DRAWN}.poisson(3, 2).dtype == 'int64'",
    *(
        f"sorted({_SAMPLE}({kind}(9), 9, method={method!r})) == list(range(9))"
        for kind in ("int", "numpy.int32")
        for method in ("tracking_selection", "pool", "reservoir_sampling")
    ),
]
_SAME_KIND = 1 << 26  # NPY_ARRAY_SAME_KIND_CASTING
_DESCR = "call PyArray_DescrFromType"
_FROM_ANY = "call PyArray_FromAny"
_DEFAULT_INTEGER = f"i32.const 7; {_DESCR}"


@dataclass(frozen=True)
class Change:
    """In a function, ``pattern`` occurs ``times`` times; what is at its positions ``to`` is replaced."""

    function: str
    pattern: str
    to: Mapping[int, str]
    times: int = 1


def _word(name: str) -> str:
    return f"i32.load {WORDS[name][0]}"


_COMMON = "5numpy_6random_7_common"
_LARGEST_RATE, _LARGEST_LEGACY_RATE = 27659120, 27659112  # of poisson: Generator's, and RandomState's (C's long)
_RANDOM = "5numpy_6random_6mtrand"
_RANDOM_STATE = f"{_RANDOM}_11RandomState"
_COUNTS = (
    "arr_bincount",
    f"__pyx_pw_{_RANDOM_STATE}_87binomial",
    f"__pyx_pw_{_RANDOM_STATE}_103multinomial",
)
CHANGES = [
    # np.array([1]), np.result_type(int), np.full(3, 7)
    Change("int_default_descriptor", _DEFAULT_INTEGER, {0: "i32.const 9"}),
    Change("discover_descriptor_from_pylong", _DEFAULT_INTEGER, {0: "i32.const 9"}),
    Change("discover_descriptor_from_pylong", "i32.const 7; i32.const 9", {0: "i32.const 9"}),
    Change("int_common_dtype", f"i32.const 0; {_word('intp')}", {1: _word("longlong")}, times=2),
    # np.dtype(int), np.zeros(3, int), astype(int)
    Change("_convert_from_any", _DEFAULT_INTEGER, {0: "i32.const 9"}),
    Change("can_cast_pyscalar_scalar_to", "i32.const 7; i32.const 12; i32.const 15", {0: "i32.const 9"}),
    Change("PyArray_ArangeObj", _DEFAULT_INTEGER, {0: "i32.const 9"}),
    # add and multiply: .reduce, .accumulate and .reduceat of bool and of integers with fewer bits. The widened type was
    # looked up in a table of nine bytes by type number - 2; it is 9 for odd numbers (signed) and 10 for even ones.
    Change(
        "reducelike_promote_and_resolve",
        "call strcmp; br_if _; end; i32.const 7; local.set _",
        {3: "i32.const 9"},
    ),
    Change("reducelike_promote_and_resolve", "i32.const 3; i32.le_u", {0: "i32.const 7"}),
    Change(
        "reducelike_promote_and_resolve",
        "i32.const 8; i32.gt_u; br_if _; local.get _; i32.load8_u _; local.set _",
        {4: "i32.const 1; i32.and; i32.const 1; i32.xor; i32.const 9; i32.add"},
    ),
    # Python integers in ufuncs
    Change("py_resolve_dtypes_generic", _DEFAULT_INTEGER, {0: "i32.const 9"}, times=2),
    Change("convert_ufunc_arguments", "i32.load 0; i32.const 7; i32.eq; br_if _", {1: "i32.const 9"}),
    Change(
        "ufunc_generic_fastcall",
        f"local.get _; local.get _; i32.store 304; {_DEFAULT_INTEGER}",
        {2: "i64.extend_i32_s; i64.store 304", 3: "i32.const 9"},
    ),
    Change(
        "_multiarray_umath_exec", f"{_DEFAULT_INTEGER}; i32.const 0; call PyArray_Zeros", {0: "i32.const 9"}
    ),
    # positions and counts that are given as int64: positions.wat
    Change(
        "original_PyArray_TakeFrom",
        f"{_DEFAULT_INTEGER}; i32.const 0; i32.const 0; i32.const 67110145; i32.const 0; {_FROM_ANY}",
        {6: "call positions_from_any"},
    ),
    Change(
        "original_PyArray_PutTo",
        f"{_DEFAULT_INTEGER}; i32.const 0; i32.const 0; i32.const 1281; i32.const 0; {_FROM_ANY}",
        {6: "call positions_from_any"},
    ),
    Change(
        "original_PyArray_Choose",
        f"{_DEFAULT_INTEGER}; i32.const 0; i32.const 0; i32.const 0; i32.const 0; {_FROM_ANY}",
        {6: "call positions_from_any"},
    ),
    Change(
        "PyUFunc_GenericReduction",  # reduceat
        f"i32.const 1; i32.const 1; i32.const 1281; i32.const 0; {_FROM_ANY}",
        {4: "call positions_from_any"},
    ),
    Change(
        "PyArray_Repeat",
        f"{_DEFAULT_INTEGER}; i32.const 0; i32.const 1; i32.const 1281; i32.const 0; {_FROM_ANY}",
        {6: "call counts_from_any"},
    ),
    Change("original_arr_bincount", f"select; i32.const 0; {_FROM_ANY}", {2: "call counts_from_any"}),
    Change(
        "original_arr_bincount",
        f"i32.const 1; i32.const 1; local.get _; i32.const 0; {_FROM_ANY}",
        {4: "call counts_from_any"},
    ),
    Change(
        "partition_prep_kth_array",
        f"{_DEFAULT_INTEGER}; i32.const 0; call PyArray_CastToType",
        {3: "call positions_cast"},
    ),
    Change(
        "PyArray_SearchSorted",  # sorter=
        f"{_DEFAULT_INTEGER}; i32.const 768; call PyArray_FromArray",
        {3: "call positions_from_array"},
    ),
    Change(
        "_PyArray_ArgMinMaxCommon",  # out=
        f"{_DEFAULT_INTEGER}; i32.const 9473; call PyArray_FromArray",
        {2: f"i32.const {9473 | _SAME_KIND}"},
    ),
    # how far to shift was compared with 64 after it had been cut to 32 bits; for arrays, kernels/ sees to it
    *(
        Change(f"{sign}longlong_{side}shift", f"i64.const {2**32 - 64}; i64.and; i64.eqz", {0: "i64.const -64"})
        for sign in ("", "u")
        for side in "lr"
    ),
    # nothing to change: positions.wat counts on these
    Change("PyEval_GetGlobals", f"i32.load {_THREAD_STATE}; i32.const 56; i32.add; i32.load 0", {}),
    Change("_PyEval_EvalFrameDefault", "global.get 0; i32.const 400; i32.sub", {}),
    Change("_PyEval_EvalFrameDefault", f"i32.const {3 << 16}; i32.store {272 + 36}", {}),
    Change("_Py_VectorCall_StackRefSteal", "global.get 0; i32.const 48; i32.sub", {}),
    Change("PyObject_Vectorcall", "global.get 0; i32.const 32; i32.sub", {}),
    Change("_PyVectorcall_Call", "global.get 0; i32.const 16; i32.sub", {}),
    Change("method_vectorcall_NOARGS", "global.get 0; i32.const 16; i32.sub", {}),
    # numpy.random.RandomState: names of types. binomial and multinomial write through a `long *` and keep np.long.
    Change(f"__pyx_f_{_RANDOM}_int64_to_long", f"i32.const 0; {_word('name_l')}", {1: _word("name_int64")}),
    Change(
        f"__pyx_f_{_RANDOM}_int64_to_long",
        "i32.wrap_i64; call PyLong_FromLong",
        {0: "", 1: "call PyLong_FromLongLong"},
    ),
    Change(f"__pyx_pf_{_RANDOM_STATE}_34choice", f"i32.const 0; {_word('name_long')}", {1: _word("name_int64")}, 2),
    Change(f"__pyx_pw_{_RANDOM_STATE}_109permutation", f"i32.const 0; {_word('name_long')}", {1: _word("name_int64")}),
    Change(f"__pyx_pw_{_RANDOM_STATE}_43random_integers", f"i32.const 0; {_word('name_l')}", {1: _word("name_int64")}),
    Change(
        f"original___pyx_pw_{_RANDOM_STATE}_87binomial",
        "i32.const 7; local.get _; i32.load _; call_indirect; i32.const 0; i32.const 0; i32.const 256; i32.const 0; "
        "local.get _; call_indirect",  # PyArray_FromAny, by its pointer
        {8: "", 9: "call counts_from_any"},
    ),
    Change(  # local 3 is how far a draw is from the middle, and is squared; 46341 is too far for 32 bits
        "legacy_random_binomial_btpe",
        "i32.const 0; local.get 3; local.get 3; i32.mul; i32.sub; f64.convert_i32_s",
        {
            0: "i64.const 0",
            1: "local.get 3; i64.extend_i32_s",
            2: "local.get 3; i64.extend_i32_s",
            3: "i64.mul",
            4: "i64.sub",
            5: "f64.convert_i64_s",
        },
    ),
    # what it draws with 32 bits: numpy.random.Generator has the same functions with 64, where they are the same
    *(
        Change(name, "call npy_legacy_random_poisson; i64.extend_i32_s", {0: "call random_poisson", 1: ""})
        for name in ("legacy_random_poisson", "legacy_negative_binomial")
    ),
    *(
        Change(name, f"f64.load {_LARGEST_LEGACY_RATE}", {0: f"f64.load {_LARGEST_RATE}"})
        for name in (
            f"__pyx_f_{_COMMON}_check_array_constraint",
            f"__pyx_fuse_0__pyx_f_{_COMMON}_check_constraint",
            f"__pyx_fuse_1__pyx_f_{_COMMON}_check_constraint",
        )
    ),
    *(
        Change(name, "i32.trunc_sat_f64_s; i64.extend_i32_s", {0: "i64.trunc_sat_f64_s", 1: ""})
        for name in ("legacy_random_geometric", "legacy_random_zipf")
    ),
    Change(
        "legacy_random_zipf",  # the largest number that is drawn
        "f64.const _; f64.gt; br_if 0",
        {0: f"i64.const {2**63 - 1}; f64.convert_i64_s"},
    ),
    Change(
        "legacy_logseries",  # local 6 is a float that has been used
        "i32.trunc_sat_f64_s; local.tee 7; i32.const 1; i32.lt_s; br_if _; end; local.get 7; i64.extend_i32_u; return",
        {
            0: "",
            1: "local.set 6; local.get 6",
            2: "i64.const 1; f64.convert_i64_s",
            3: "f64.lt",
            6: "local.get 6",
            7: "i64.trunc_sat_f64_s",
        },
    ),
    # scikit-learn fills arrays of dtype=int through buffers of `long` and `intp_t`: they become np.int32, which is both
    *(
        Change(
            f"__pyx_fuse_{fuse}__pyx_f_7sklearn_5utils_7_random__sample_without_replacement_with_{method}",
            f"i32.const {OBJECTS['int'][0]}; i32.store _",
            {0: f"i32.const {OBJECTS['int32'][0]}"},
            times=2,
        )
        for fuse in (0, 1)
        for method in ("tracking_selection", "pool", "reservoir_sampling")
    ),
]  # fmt: skip


def inputs() -> str:
    """All that the changed module depends on, for the keys of the image."""
    return repr((WORDS, OBJECTS, CHANGES, _METHODS, _COUNTS, _THREAD_STATE, _TOO_LARGE, POSITIONS.read_text()))


def widen(module: WasmModule) -> None:
    """Make the changes, or raise `BadModule` with the first that does not fit and change nothing that is written."""
    added = _lay_over(module)

    def function_index(name: str) -> int:
        return added[name] if name in added else module.function_index(name)

    patterns = Patterns(function_index)
    for change in CHANGES:
        index = function_index(change.function)
        body, found = patterns.replace(module.body(index), change.pattern, change.to)
        if found != change.times:
            raise BadModule(f"{change.function} has `{change.pattern}` {found} times, not {change.times}")
        module.replace_body(index, body)


def _lay_over(module: WasmModule) -> dict[str, int]:
    """Add the functions of positions.wat, some of them in place of the runtime's own.

    Where the new ones are, and those that they call by `original_NAME`.
    """
    other = WasmModule(assemble(_text(module)))
    places: dict[int, int] = {}
    added: dict[str, int] = {}
    for index, imported in enumerate(other.imports):
        there = module.function_index(imported.name)
        if imported.module == "original":
            there = module.append_function(module.type_index(there), module.body(there))
            added[f"original_{imported.name}"] = there
        places[index] = there
    exported = {index: name for name, (_, index) in other.exports.items()}
    own = range(len(other.imports), other.function_count)
    for index in own:
        name = exported.get(index, "")
        if name in module.function_names:
            places[index] = module.function_index(name)
        else:
            places[index] = module.append_function(module.add_type(other.function_type(index)), b"")
        if module.function_type(places[index]) != other.function_type(index):
            raise BadModule(f"{name} has another type in this runtime")
    for index in own:
        module.replace_body(places[index], with_other_calls(other.body(index), places))
    return added | {name: places[index] for index, name in exported.items()}


def _text(module: WasmModule) -> str:
    """positions.wat as a whole module. What it calls is imported with the type that it has in the runtime."""
    text = POSITIONS.read_text().format(
        **{name: address for name, (address, _) in (WORDS | OBJECTS).items()},
        thread_state=_THREAD_STATE,
        write_text=_write_text(_TOO_LARGE),
        methods="\n".join(
            _around(module, f"array_{name}", "(call $for_people {} (i32.const -1))") for name in _METHODS
        ),
        draws="\n".join(_around(module, name, "(call $widened {})") for name in _COUNTS),
    )
    defined = set(re.findall(r"\(func \$(\w+)", text))
    imports = []
    for name in sorted(set(re.findall(r"\(call \$(\w+)", text)) - defined):
        original = name.removeprefix("original_")
        kind = module.function_type(module.function_index(original))
        source = "runtime" if original == name else "original"
        parts = "".join(
            f" ({what} {_names(kinds)})" for what, kinds in (("param", kind.parameters), ("result", kind.results))
        )
        imports.append(f'(import "{source}" "{original}" (func ${name}{parts}))')
    stack = '(import "runtime" "stack" (global $__stack_pointer (mut i32)))'  # the runtime's first global
    return "\n".join(["(module", *imports, stack, text, ")"])


def _around(module: WasmModule, function: str, text: str) -> str:
    """A function that makes something of what the original returns."""
    kinds = module.function_type(module.function_index(function)).parameters
    call = f"(call $original_{function} {' '.join(f'(local.get {k})' for k in range(len(kinds)))})"
    head = f'(func ${function} (export "{function}") (param {_names(kinds)}) (result i32)'
    return f"{head}\n  {text.format(call)})"


def _names(kinds: bytes) -> str:
    return " ".join(_VALUE_TYPES[kind] for kind in kinds)


def _write_text(text: str) -> str:
    """Instructions that write a text to the address $text, eight bytes at a time, and a zero after it."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 8)
    if len(data) > TEXT_SPACE:
        raise ValueError(f"{text!r} is longer than the {TEXT_SPACE} bytes that positions.wat has for it")
    words = (int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8))
    return "\n  ".join(
        f"(i64.store offset={8 * k} (local.get $text) (i64.const {word}))" for k, word in enumerate(words)
    )


def check_source(word: Callable[[int], int]) -> str:
    """Python that raises in a booted guest if an address above is not what it is taken for, or integers have 32 bits.

    ``word`` reads the guest's memory.
    """
    facts = [f"id({expression}) == {word(address)}" for address, expression in WORDS.values()]
    facts += [f"id({expression}) == {address}" for address, expression in OBJECTS.values()]
    lines = [f"assert {fact}, {fact!r}" for fact in [*facts, *_FACTS]]
    return "\n".join(["import sys, numpy, sklearn.utils.random", *lines, ""])
