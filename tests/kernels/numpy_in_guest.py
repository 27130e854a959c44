"""Runs in the guest: numpy's loops on arrays that kernels handle, against the loops they replaced.

An array of every second element is none of a kernel's business, so it goes to the original loop: `apart` makes one, and
what both give must be the same, to the bit. `check(...)` returns what differs as text, "" if nothing does.
"""

import operator
import warnings

import numpy as np

FLOATS, SIGNED, UNSIGNED = ("f4", "f8"), ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8")
_SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    np.inf,
    -np.inf,
    5e-324,
    1e-310,
    1e-45,
    3e38,
    1e308,
    2.0**31,
    -(2.0**31),
    255.5,
    2.0**63,
]


def numbers(kind: str, n: int, seed: int) -> np.ndarray:
    """Numbers of a type, many of them special: NaNs of both signs with bits of their own, both zeros, subnormals."""
    rng = np.random.default_rng(seed)
    if kind == "?":  # any byte is a boolean
        return rng.choice(np.array([0, 0, 1, 1, 2, 255], "u1"), n).view("?")
    if kind[0] == "c":
        return numbers({"c8": "f4", "c16": "f8"}[kind], 2 * n, seed).view(kind)
    if kind[0] in "iu":
        ends = np.iinfo(kind)
        near = [ends.min, ends.min + 1, 0, 1, 2, 3, ends.max - 1, ends.max]
        if rng.random() < 0.5:
            return rng.integers(0, 5, n).astype(kind)
        some = rng.integers(ends.min, ends.max, n, dtype=kind, endpoint=True)
        return np.where(rng.random(n) < 0.3, rng.choice(np.array(near, kind), n), some)
    found = rng.standard_normal(n).astype(kind) * rng.choice(np.array([1, 1e3, 1e-3, 1e30], kind), n)
    with np.errstate(all="ignore"):
        special = rng.choice(np.array(_SPECIAL).astype(kind), n)
    found = np.where(rng.random(n) < rng.choice([0, 0.3, 1]), special, found)
    bits = found.view("u" + kind[1])
    nan = rng.random(n) < rng.choice([0, 0, 0.05, 1])
    quiet = np.array(np.nan, kind).view(bits.dtype)
    bits[nan] = quiet | rng.integers(0, 2**20, n).astype(bits.dtype)[nan]
    bits[nan & (rng.random(n) < 0.5)] |= bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return found


def apart(a: np.ndarray) -> np.ndarray:
    """The same numbers, every second element of another array."""
    if not a.ndim:
        return a
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)[..., ::2]
    wide[...] = a
    return wide


def moved(a: np.ndarray, offset: int) -> np.ndarray:
    """The same numbers, side by side, ``offset`` elements after another beginning."""
    room = np.zeros(a.size + offset, a.dtype)[offset:]
    room[...] = a
    return room


def same(got: object, want: object, any_nan: bool = False) -> bool:
    """Whether two results have the same type, shape and bits; with ``any_nan``, one NaN is as good as another."""
    got, want = np.asarray(got), np.asarray(want)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return False
    if any_nan and got.dtype.kind == "c":
        got, want = (np.atleast_1d(m).view(f"f{m.itemsize // 2}") for m in (got, want))
    if any_nan and got.dtype.kind == "f":
        nan = np.isnan(apart(want))
        if not np.array_equal(np.isnan(apart(got)), nan):
            return False
        got, want = np.where(nan, 0, got), np.where(nan, 0, want)
    return got.tobytes() == want.tobytes()


def told(call, *arguments, **options):
    """A call's result and what it warned of, or the error it raised."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = call(*arguments, **options)
        except (IndexError, ValueError, TypeError) as e:
            return np.array(0), [repr(e)]
    return result, [str(w.message) for w in said]


def check_binary(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """Arrays with arrays, with one number on either side, in place, as reduction and as accumulation."""
    f = getattr(np, name)
    a, b = numbers(kind, n, seed), numbers(kind, n, seed + 1)
    any_nan = f in (np.add, np.subtract, np.multiply, np.divide)  # which NaN comes out is the machine's choice
    one = (np.array(seed % 70).astype(kind) if "shift" in name else numbers(kind, 1, seed + 2)).reshape(())
    wrong = []

    def compare(what: str, got, want) -> None:
        if got[1] != want[1] or not same(got[0], want[0], any_nan):
            wrong.append(f"{what}: {got} instead of {want}")

    for what, x, y in (("arrays", a, b), ("first", one, b), ("second", a, one)):
        want = told(f, apart(x), apart(y))
        compare(what, told(f, moved(x, offset) if x.ndim else x, moved(y, offset + 1) if y.ndim else y), want)
    want = told(f, apart(a), apart(b))
    if f(a[:0], b[:0]).dtype == a.dtype:
        for what, position in (("into the first", 0), ("into the second", 1)):
            pair = [a.copy(), b.copy()]
            compare(what, told(f, *pair, out=pair[position]), want)
        for shift in (1, 3):
            if n > shift:  # numpy copies operands that overlap the result; accumulations below are where it cannot
                x = a.copy()
                compare(
                    "overlap",
                    told(f, x[:-shift], b[shift:], out=x[shift:]),
                    told(f, apart(a[:-shift]), apart(b[shift:])),
                )
        if n and f not in (np.subtract, np.divide, np.floor_divide, np.left_shift, np.right_shift):
            compare("reduce", told(f.reduce, moved(a, offset)), told(f.reduce, apart(a)))
        if n:
            compare("accumulate", told(f.accumulate, moved(a, offset)), told(f.accumulate, apart(a)))
            rows = numbers(kind, 3 * n, seed + 3).reshape(3, n)
            compare("by column", told(f.reduce, rows, 0), told(f.reduce, apart(rows), 0))
            compare("by row", told(f.reduce, rows, 1), told(f.reduce, apart(rows), 1))
    return "; ".join(wrong)


def check_unary(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """One operand, into another array and in place."""
    f = getattr(np, name)
    a = numbers(kind, n, seed)
    if name == "log" and seed % 3:  # with a negative number beside it, one goes the original's way
        a = np.abs(a)
    want, got = f(apart(a)), f(moved(a, offset))
    wrong = [] if same(got, want, name == "sqrt") else [f"{got} instead of {want}"]
    if want.dtype == a.dtype:
        x = a.copy()
        f(x, out=x)
        if not same(x, want, name == "sqrt"):
            wrong.append(f"in place: {x} instead of {want}")
    return "; ".join(wrong)


def check_clip(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """Between two numbers."""
    a = numbers(kind, n, seed)
    low, high = numbers(kind, 2, seed + 1)
    with np.errstate(all="ignore"):
        got, want = np.clip(moved(a, offset), low, high), np.clip(apart(a), low, high)
    return "" if same(got, want) else f"{got} instead of {want}"


def check_arg(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """argmax and argmin: the first NaN, else the first of the largest or smallest."""
    a = numbers(kind, n + 1, seed)
    values = [bool(v) for v in a.view("u1").tolist()] if kind == "?" else a.tolist()
    nans = [i for i, v in enumerate(values) if v != v]
    best = nans[0] if nans else values.index(max(values) if name == "argmax" else min(values))
    got = getattr(moved(a, offset), name)()
    return "" if got == best else f"{got} instead of {best}"


def check_sum(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """Sums of floats, in numpy's order."""
    a = numbers(kind, n, seed)
    with np.errstate(all="ignore"):
        got, want = moved(a, offset).sum(), apart(a).sum()
        rows, wide = (m.reshape(2, -1).sum(1) for m in (numbers(kind, 2 * n, seed), apart(numbers(kind, 2 * n, seed))))
    return "" if same(got, want, True) and same(rows, wide, True) else f"{got} instead of {want}"


def check_cast(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """Casts to the type that ``name`` says."""
    a = numbers(kind, n, seed)
    with np.errstate(all="ignore"):
        got, want = moved(a, offset).astype(name), apart(a).astype(name)
    return "" if same(got, want, True) else f"{got} instead of {want}"


def check_take(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """Elements by their places: negative ones too, one beyond the end, from rows and columns, in every mode."""
    rng = np.random.default_rng(seed)
    a = numbers(kind, 3 * (n + 1), seed).reshape(3, n + 1)
    places = rng.integers(-n - 1, n + 1, n)
    flat, length = a[0].tolist() if kind != "?" else a[0].view("u1").tolist(), n + 1
    got = moved(a[0], offset).take(places)
    want = np.array([flat[i] for i in places.tolist()], "u1" if kind == "?" else kind).view(kind)
    wrong = [] if same(got, want, True) else [f"{got} instead of {want}"]
    for axis in (0, 1):
        which = rng.integers(-a.shape[axis], a.shape[axis], 7)
        if not same(
            a.take(which, axis),
            np.concatenate([np.take(a, [i % a.shape[axis]], axis, mode="clip") for i in which], axis),
        ):
            wrong.append(f"axis {axis}")
    for beyond in (length, -length - 1):
        if not told(a[0].take, [0, beyond])[1]:
            wrong.append(f"{beyond} is no error")
    if not same(a[0].take([length + 2], mode="wrap"), a[0][2 % length : 2 % length + 1]):
        wrong.append("wrap")
    return "; ".join(wrong)


def check_bools(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """any, all and the logical operations, on booleans that are any byte."""
    a, b = numbers("?", n, seed), numbers("?", n, seed + 1)
    x, y = ([bool(v) for v in m.view("u1").tolist()] for m in (a, b))
    wrong = []
    for z in (a, np.zeros(n, "?"), np.ones(n, "?"), np.full(n, 2, "u1").view("?")):
        values = [bool(v) for v in z.view("u1").tolist()]
        if (bool(moved(z, offset).any()), bool(moved(z, offset).all())) != (any(values), all(values)):
            wrong.append(f"any or all of {z}")
    for f, g in (
        (np.logical_and, operator.and_),
        (np.logical_or, operator.or_),
        (np.not_equal, operator.ne),
        (np.less, operator.lt),
    ):
        got = f(moved(a, offset), b).view("u1").tolist()
        if got != [int(g(p, q)) for p, q in zip(x, y, strict=True)]:
            wrong.append(f"{f.__name__}: {got}")
    return "; ".join(wrong)


def check_einsum(name: str, kind: str, n: int, offset: int, seed: int) -> str:
    """Sums of products, which come in another order: within the bound of any order."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((5, n)).astype(kind) for _ in range(2))
    wrong = []
    for subscripts, x, y in (
        ("ij,kj->ik", a, b),
        ("ij,ij->i", a, b),
        ("ij,jk->ik", a, b.T.copy()),
        ("i,ij->ij", a[:, 0] if n else a.sum(1), b),
    ):
        got = np.einsum(subscripts, x, y, optimize=False)
        exact = np.einsum(subscripts, x.astype("f8"), apart(y.astype("f8")), optimize=False)
        bound = (
            (n + 1)
            * np.finfo(kind).eps
            * np.einsum(subscripts, abs(x.astype("f8")), abs(apart(y.astype("f8"))), optimize=False)
        )
        if not (abs(got - exact) <= bound).all():
            wrong.append(f"{subscripts}: {got} instead of {exact}")
    return "; ".join(wrong)


ARITHMETIC = [
    ("binary", name, kind)
    for name in ("add", "subtract", "multiply")
    for kind in (*FLOATS, *SIGNED, *UNSIGNED, "c8", "c16")
]
CASES = [
    *ARITHMETIC,
    *(("binary", name, kind) for name in ("divide", "fmax", "fmin") for kind in FLOATS),
    *(("binary", "floor_divide", kind) for kind in (*SIGNED, *UNSIGNED)),
    *(
        ("binary", name, kind)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
        for kind in (*SIGNED, *UNSIGNED)
    ),
    *(("binary", name, kind) for name in ("maximum", "minimum") for kind in (*FLOATS, *SIGNED, *UNSIGNED)),
    *(
        ("binary", name, kind)
        for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
        for kind in (*FLOATS, *SIGNED, *UNSIGNED, "?")
    ),
    *(("binary", name, "?") for name in ("logical_and", "logical_or")),
    *(("unary", name, kind) for name in ("negative", "absolute", "square") for kind in (*FLOATS, *SIGNED)),
    *(("unary", name, kind) for name in ("negative", "square", "invert") for kind in UNSIGNED),
    *(
        ("unary", name, kind)
        for name in ("sqrt", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "sign", "exp", "log")
        for kind in FLOATS
    ),
    ("unary", "logical_not", "?"),
    *(("clip", "clip", kind) for kind in (*FLOATS, *SIGNED, *UNSIGNED)),
    *(("arg", name, kind) for name in ("argmax", "argmin") for kind in (*FLOATS, *SIGNED, *UNSIGNED, "?")),
    *(("sum", "sum", kind) for kind in FLOATS),
    *(
        ("cast", to, kind)
        for kind in ("?", "u1", "i2", "i4", "i8", "f4", "f8")
        for to in ("?", "u1", "i4", "i8", "f4", "f8")
    ),
    *(("take", "take", kind) for kind in ("u1", "i2", "f4", "i8", "c16")),
    ("bools", "bools", "?"),
    *(("einsum", "einsum", kind) for kind in FLOATS),
]


def check(case: int, n: int, offset: int, seed: int) -> str:
    """One case on arrays of ``n`` elements, ``offset`` elements after a beginning."""
    family, name, kind = CASES[case]
    wrong = globals()[f"check_{family}"](name, kind, n, offset, seed)
    return f"{family} {name} {kind}, n={n}, offset={offset}, seed={seed}: {wrong}" if wrong else ""
