"""Answers to files of programs, as JSON: runs unchanged in the guest and in a native Python.

A file of programs is a Python file. Its top-level expressions are the programs, all other statements prepare for them,
and no program changes what the others see. An answer tells types, sizes and values: what has more than a few values is
told by the first ones and by a sum, or for floats a mean, in which places have different weights.
"""

import ast
import json
import sys
import warnings
import zlib

ALL = 8  # up to this size arrays are told in full
FIRST = 4


def answers(source):
    """{program: answer} for all programs of a file."""
    found, scope = {}, {"__name__": "__main__"}
    warnings.simplefilter("ignore")
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "<programs>", "exec"), scope)
            continue
        program = " ".join(ast.get_source_segment(source, statement).split())
        assert program not in found, f"{program} is there twice"
        try:
            found[program] = describe(eval(compile(ast.Expression(statement.value), "<programs>", "eval"), scope))
        except Exception as error:  # noqa: BLE001 - what it raises is the answer
            found[program] = ["raises", type(error).__name__]
    return found


def describe(value):
    """What an object is: a list that begins with the name of its type."""
    numpy, name = sys.modules["numpy"], type(value).__name__
    if isinstance(value, numpy.generic):
        return [str(value.dtype), _plain(value)]
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return [name, _plain(value)]
    if isinstance(value, numpy.dtype):
        return ["dtype", str(value)]
    if isinstance(value, type):
        return ["type", value.__name__]
    if isinstance(value, numpy.ndarray):
        return _array(value, "" if type(value) is numpy.ndarray else f" {name}")
    if isinstance(value, dict):
        return [name, [[str(key), describe(item)] for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        return [name, [describe(item) for item in value[:ALL]], len(value)]
    if isinstance(value, (set, frozenset)):
        return [name, sorted(map(str, value))]
    if type(value).__module__.partition(".")[0] == "pandas":
        return _pandas(value, name)
    if hasattr(value, "tocoo") and hasattr(value, "nnz"):
        whole = value.tocoo()
        order = numpy.lexsort(whole.coords if hasattr(whole, "coords") else (whole.row, whole.col))
        places = [_array(numpy.asarray(getattr(value, part))) for part in ("indices", "indptr") if hasattr(value, part)]
        return [name, list(value.shape), _array(whole.data[order]), *places]
    if hasattr(value, "items"):
        return [name, [[str(key), describe(item)] for key, item in value.items()]]
    return [name, repr(value)[:200]]


def _pandas(value, name):
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        columns = [[str(label), describe(value.iloc[:, k].array)] for k, label in enumerate(value.columns)]
        return [name, columns, describe(value.index)]
    if isinstance(value, pandas.Series):
        return [name, describe(value.array), describe(value.index)]
    if isinstance(value, pandas.MultiIndex):
        return [name, [describe(value.get_level_values(k)) for k in range(value.nlevels)]]
    if isinstance(value, pandas.Categorical):
        return [name, describe(value.codes), describe(value.categories)]
    if isinstance(value, pandas.Index):
        return [name, describe(value.array)]
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return [str(value.dtype), *_array(value.to_numpy())]
    return [name, str(value)[:200]]


def _array(array, name=""):
    numpy = sys.modules["numpy"]
    dtype, shape = f"{array.dtype}[]{name}", list(array.shape)
    array = array if hasattr(array, "filled") else numpy.asarray(array)
    if hasattr(array, "filled"):
        return [dtype, describe(array.filled(0).view(numpy.ndarray)), describe(numpy.ma.getmaskarray(array))]
    if array.dtype.names:
        return [dtype, shape, [_array(array[field]) for field in array.dtype.names]]
    if array.dtype.kind in "mM":
        array = array.view(numpy.int64)
    if array.dtype == object and array.size <= ALL:
        return [dtype, shape, [describe(item) for item in array.ravel()]]
    if array.dtype.kind not in "biufc":
        values = [str(item) for item in array.ravel()]
        more = [] if len(values) <= ALL else [zlib.crc32("\n".join(values).encode())]
        return [dtype, shape, values[: ALL if not more else FIRST] + more]
    flat = array.ravel()
    if flat.size <= ALL:
        return [dtype, shape, [_plain(item) for item in flat]]
    return [dtype, shape, [_plain(item) for item in flat[:FIRST]] + [_weighted(flat)]]


def _weighted(flat):
    """Notices two values in each other's place; exact for integers."""
    numpy = sys.modules["numpy"]
    if flat.dtype.kind in "biu":
        return sum((k % 97 + 1) * int(item) for k, item in enumerate(flat.tolist()))
    weights = numpy.arange(flat.size) % 97 + 1.0
    return _plain(numpy.sum(weights * numpy.where(numpy.isfinite(flat), flat, 0)) / numpy.sum(weights))


def _plain(value):
    """A scalar as JSON has it."""
    value = value.item() if hasattr(value, "item") and getattr(value, "dtype", None) is not None else value
    if isinstance(value, float):
        return float(f"{value:.12g}") if value - value == 0 else repr(value)
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    return str(value)


if __name__ == "__main__":  # files of programs in, one line of JSON out
    told = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            told[path] = answers(file.read())
    print(json.dumps(told))
