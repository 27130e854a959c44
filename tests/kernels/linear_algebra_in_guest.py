"""Runs in the guest: products in every layout, what LAPACK makes of them, and sorts, as numpy gives them.

`problems` has a line for each deviation. Products are compared with einsum, which has loops of its own; the bound is that of
their sums, 4 * (k + 2) * epsilon * |A| |B|.
"""

import numpy as np

rng = np.random.default_rng(5)
problems: list[str] = []
checks = 0


def expect(right: object, *what: object) -> None:
    global checks
    checks += 1
    if not right:
        problems.append(" ".join(map(str, what)))


def layouts(x):
    """The same matrix in many places: both orders, with steps, backwards, at an odd address, every row the same memory."""
    yield "C", np.ascontiguousarray(x)
    yield "F", np.asfortranarray(x)
    wide = np.zeros((x.shape[0] + 3, x.shape[1] + 5), x.dtype)
    wide[1:-2, 2:-3] = x
    yield "part", wide[1:-2, 2:-3]
    wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
    wide[::2, ::3] = x
    yield "steps", wide[::2, ::3]
    yield "backwards", np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    odd = np.ndarray(x.shape, x.dtype, np.zeros(x.nbytes + 1, np.uint8).data, 1)
    odd[...] = x
    yield "odd address", odd


def product(x, y):
    return np.einsum("...ij,...jk->...ik", x, y, optimize=False)


def check_product(x, y, *what: object) -> None:
    """Products of two matrices, and of the first row and column of them as vectors."""
    bound = 4 * (x.shape[1] + 2) * np.finfo(x.dtype).eps * product(abs(x).astype("f8"), abs(y).astype("f8")) + 1e-300
    want = product(x, y)
    expect((abs(x @ y - want) <= bound).all(), *what)
    if want.size:
        expect((abs(x @ y[:, 0] - want[:, 0]) <= bound[:, 0]).all(), "matrix @ vector", *what)
        expect((abs(x[0] @ y - want[0]) <= bound[0]).all(), "vector @ matrix", *what)
        expect(abs(x[0] @ y[:, 0] - want[0, 0]) <= bound[0, 0], "vector @ vector", *what)


def check_products() -> None:
    sizes = [
        (1, 1, 1),
        (2, 3, 4),
        (5, 7, 3),
        (17, 1, 9),
        (1, 130, 1),
        (33, 65, 29),
        (0, 3, 4),
        (3, 0, 4),
        (70, 150, 90),
    ]
    for kind in ("f8", "f4", "c16", "c8"):
        for m, k, n in sizes:
            a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
            if kind[0] == "c":
                a, b = a + np.asarray(1j, kind) * a[::-1], b - np.asarray(0.5j, kind) * b[:, ::-1]
            firsts, seconds = list(layouts(a)), list(layouts(b))
            for i, (one, x) in enumerate(firsts):
                two, y = seconds[(2 * i + 1) % len(seconds)]
                check_product(x, y, kind, m, k, n, one, two)
                check_product(x.conj(), y, kind, m, k, n, one, two, "conjugated")
                check_product(y.T, x.T, kind, m, k, n, one, two, "transposed")
    x = rng.standard_normal((150, 150))
    want = product(x, x)
    np.matmul(x, x, out=x)
    expect(np.allclose(x, want), "overlap")
    x[3, 5], x[7, 7] = np.nan, np.inf
    with np.errstate(all="ignore"):
        expect(np.array_equal(np.isnan(x @ x), np.isnan(product(x, x))), "NaN")


def check_lapack() -> None:
    for n in (1, 2, 3, 50, 131, 300):
        a = rng.standard_normal((n, n))
        s, p, eye = a + a.T, a @ a.T + n * np.eye(n), np.eye(n)
        u, w, v = np.linalg.svd(a)
        q, r = np.linalg.qr(a)
        e, z = np.linalg.eigh(s)
        low = np.linalg.cholesky(p)
        ce, cz = np.linalg.eig(a)
        for name, difference in {
            "svd": u * w @ v - a, "qr": q @ r - a, "eigh": z * e @ z.T - s, "inv": np.linalg.inv(p) @ p - eye,
            "cholesky": low @ low.T - p, "solve": p @ np.linalg.solve(p, eye) - eye,
            "lstsq": np.linalg.lstsq(p, p[:, :1], rcond=None)[0] - eye[:, :1], "eig": a @ cz - cz * ce,
            "complex solve": (p + 1j * s) @ np.linalg.solve(p + 1j * s, eye) - eye,
            "float solve": np.linalg.solve(p.astype("f4"), p.astype("f4")) - eye,
            "norm": np.linalg.norm(a[0]) - np.sqrt(np.sum(a[0] ** 2)),
        }.items():  # fmt: skip
            worst = np.max(np.abs(difference))
            expect(worst < (1e-3 if name == "float solve" else 1e-9 * n), name, n, worst)


def arrays(kind: str, n: int):
    if kind[0] == "f":
        v = rng.standard_normal(n).astype(kind)
        yield v
        w = v.copy()
        w[rng.random(n) < 0.2], w[rng.random(n) < 0.1], w[rng.random(n) < 0.1] = np.nan, -np.inf, -0.0
        yield w
        yield np.round(v)
    else:
        limits = np.iinfo(kind)
        yield rng.integers(limits.min, limits.max, n, kind, endpoint=True)
        yield rng.integers(0, 4, n).astype(kind)
    yield np.sort(v if kind[0] == "f" else rng.integers(0, 100, n).astype(kind))[::-1]


def same(x, y) -> bool:
    return np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


def check_sorts() -> None:
    for kind in ("f8", "f4", "i8", "u8", "i4", "u4", "l", "L", "i2", "u2", "i1", "u1"):
        for n in (0, 1, 2, 100, 600, 1023, 1024, 5000):
            for v in arrays(kind, n):
                want = np.array(sorted(v.tolist(), key=lambda t: (t != t, t if t == t else 0)), v.dtype)
                expect(same(np.sort(v), want), "sort", kind, n)
                expect(same(np.sort(np.repeat(v, 2)[::2]), want), "sort of every second", kind, n)
                order = np.argsort(v)
                expect(same(v[order], want) and same(np.sort(order), np.arange(n)), "argsort", kind, n)
                numbers = v.tolist()
                stable = sorted(range(n), key=[(t != t, t if t == t else 0) for t in numbers].__getitem__)
                expect(np.array_equal(np.argsort(v, kind="stable"), stable), "stable argsort", kind, n)
                if n:
                    check_partition(kind, v, want)


def check_partition(kind: str, v, want) -> None:
    n = len(v)
    for places in (
        [0],
        [n // 2],
        [n - 1],
        [n // 4, n // 2, 3 * n // 4],
        [-1, 0, n // 3],
        rng.permutation(n)[:9].tolist(),
    ):
        for name, found in (("partition", np.partition(v, places)), ("argpartition", v[np.argpartition(v, places)])):
            expect(same(np.sort(found), want), name, kind, n, "lost something")
            for k in {place % n for place in places}:
                expect(same(found[k : k + 1], want[k : k + 1]) and same(np.sort(found[:k]), want[:k]), name, kind, n, k)
