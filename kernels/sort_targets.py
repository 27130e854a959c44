"""What kernels of sorting replace: instances of numpy's templates, with their names as the runtime has them."""

from __future__ import annotations

# What our kernels call a type, and what numpy does: its C name and its NPY_TYPES. `int` and `long` have 32 bits both.
_TYPES = {
    "i8": [("signed char", 1)],
    "u8": [("unsigned char", 2)],
    "i16": [("short", 3)],
    "u16": [("unsigned short", 4)],
    "i32": [("int", 5), ("long", 7)],
    "u32": [("unsigned int", 6), ("unsigned long", 8)],
    "i64": [("long long", 9)],
    "u64": [("unsigned long long", 10)],
    "f32": [("float", 11)],
    "f64": [("double", 12)],
}
_WIDE = ("i32", "u32", "i64", "u64", "f32", "f64")


def _tag(number: int, c_type: str) -> str:
    return f"npy::{'floating_point' if number in (11, 12) else 'integral'}_type<{c_type}, (NPY_TYPES){number}>"


def _sorts() -> dict[str, list[str]]:
    """numpy's sorts in ascending order: templates over a tag and the type itself."""
    found: dict[str, list[str]] = {}
    for name, types in _TYPES.items():
        for c_type, number in types:
            tag = _tag(number, c_type)
            ascending = f"<{tag}, {c_type}, false>"
            targets = {"sort": f"int quicksort_{ascending}({c_type}*, long)"}
            if name in _WIDE:
                rest = f"{c_type}>({c_type}*, long*, long, long, long*, long*)"
                targets |= {
                    "argsort": f"int aquicksort_{ascending}({c_type}*, long*, long)",
                    "stable_argsort": f"int atimsort_{ascending}(void*, long*, long)",
                    "partition": f"int introselect_<{tag}, false, {rest}",
                    "argpartition": f"int introselect_<{tag}, true, {rest}",
                }
            for kernel, target in targets.items():
                found.setdefault(f"{kernel}_{name}", []).append(target)
    return found


SORTS = _sorts()
