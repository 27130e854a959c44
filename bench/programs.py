"""Programs that keep a CPU busy. The same text runs in the guest and natively; `work()` is what is timed.

Each starts in an empty namespace, with a folder it may write as its working directory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """One of them."""

    name: str
    group: str
    source: str
    threaded: bool = False  # natively it uses all cores unless told otherwise


PYTHON, LIBRARY, NUMERIC = "pure Python", "standard library in C", "numpy and friends"

PROGRAMS = (
    Program(
        "fib(27)",
        PYTHON,
        """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def work():
    fib(27)
""",
    ),
    Program(
        "nbody, 10,000 steps",
        PYTHON,
        """
def system():
    return [
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 39.47),
        ([4.84, -1.16, -0.10], [0.60, 2.81, -0.02], 0.0376),
        ([8.34, 4.12, -0.40], [-1.01, 1.82, 0.008], 0.0112),
        ([12.89, -15.11, -0.22], [1.08, 0.86, -0.01], 0.0017),
        ([15.37, -25.91, 0.17], [0.97, 0.59, -0.03], 0.0020),
    ]
def work():
    bodies, dt = system(), 0.001
    pairs = [(a, b) for i, a in enumerate(bodies) for b in bodies[i + 1:]]
    for _ in range(10_000):
        for (p, v, m), (q, w, n) in pairs:
            dx, dy, dz = p[0] - q[0], p[1] - q[1], p[2] - q[2]
            mag = dt / ((dx * dx + dy * dy + dz * dz) ** 1.5)
            a, b = n * mag, m * mag
            v[0] -= dx * a; v[1] -= dy * a; v[2] -= dz * a
            w[0] += dx * b; w[1] += dy * b; w[2] += dz * b
        for p, v, m in bodies:
            p[0] += dt * v[0]; p[1] += dt * v[1]; p[2] += dt * v[2]
""",
    ),
    Program(
        "dict and set",
        PYTHON,
        """
def work():
    counts, seen = {}, set()
    for i in range(200_000):
        key = (i * 7919) % 10_007
        counts[key] = counts.get(key, 0) + 1
        seen.add(key ^ i)
    len(seen & set(counts))
""",
    ),
    Program(
        "json dumps and loads",
        LIBRARY,
        """
import json
rows = [{"id": i, "name": f"name {i}", "values": [i * 0.5, i / 3, None, True]} for i in range(8_000)]
def work():
    json.loads(json.dumps(rows))
""",
    ),
    Program(
        "regex",
        LIBRARY,
        """
import re
text = " ".join(f"user{i}@host{i % 97}.example, 2024-{i % 12 + 1:02}-{i % 28 + 1:02};" for i in range(6_000))
mail, date = re.compile(r"(\\w+)@([\\w.]+)"), re.compile(r"(\\d{4})-(\\d\\d)-(\\d\\d)")
def work():
    len(mail.findall(text)), date.sub(r"\\3.\\2.\\1", text)
""",
    ),
    Program(
        "sort 200,000 floats",
        LIBRARY,
        """
import random
random.seed(1)
values = [random.random() for _ in range(200_000)]
def work():
    sorted(values)
""",
    ),
    Program(
        "sha256 of 20 MB",
        LIBRARY,
        """
import hashlib
data = bytes(20_000_000)
def work():
    hashlib.sha256(data).hexdigest()
""",
    ),
    Program(
        "zlib, 3 MB",
        LIBRARY,
        """
import zlib
data = b"".join(b"%d %x\\n" % (i * i % 9973, i) for i in range(300_000))[:3_000_000]
def work():
    zlib.decompress(zlib.compress(data))
""",
    ),
    Program(
        "sqlite, 40,000 rows",
        LIBRARY,
        """
import sqlite3
def work():
    base = sqlite3.connect(":memory:")
    base.execute("create table t (a integer, b text, c real)")
    base.executemany("insert into t values (?, ?, ?)", ((i, f"k{i % 100}", i * 0.5) for i in range(40_000)))
    base.execute("select b, sum(c), count(*) from t group by b order by 2").fetchall()
    base.close()
""",
    ),
    Program(
        "numpy elementwise, 5 M",
        NUMERIC,
        """
import numpy as np
a, b = np.random.default_rng(1).random((2, 5_000_000))
def work():
    (a * b + a - b / 2).sum()
""",
    ),
    Program(
        "numpy f4 elementwise, 5 M",
        NUMERIC,
        """
import numpy as np
a, b = np.random.default_rng(1).random((2, 5_000_000), dtype=np.float32)
def work():
    (a * b + a - b / 2).sum()
""",
    ),
    Program(
        "numpy maximum, 5 M",
        NUMERIC,
        """
import numpy as np
a, b = np.random.default_rng(1).random((2, 5_000_000))
def work():
    np.maximum(a, b).max()
""",
    ),
    Program(
        "numpy compare, bool & and any, 5 M",
        NUMERIC,
        """
import numpy as np
a, b = np.random.default_rng(1).random((2, 5_000_000))
def work():
    ((a > 0.5) & (b < 0.5) & (a == b)).any()
""",
    ),
    Program(
        "numpy argmax, 5 M",
        NUMERIC,
        """
import numpy as np
rng = np.random.default_rng(1)
a, b, c = rng.random(5_000_000), rng.random(5_000_000, dtype=np.float32), rng.integers(0, 1_000_000, 5_000_000)
def work():
    a.argmax(), b.argmin(), c.argmax()
""",
    ),
    Program(
        "numpy integers, 5 M",
        NUMERIC,
        """
import numpy as np
a, b = np.random.default_rng(1).integers(0, 1_000_000, (2, 5_000_000))
def work():
    ((a + b) // 7 - a * 3).astype(float).sum()
""",
    ),
    Program(
        "numpy matmul 512",
        NUMERIC,
        """
import numpy as np
a, b = np.random.default_rng(1).random((2, 512, 512))
def work():
    a @ b
""",
        threaded=True,
    ),
    Program(
        "numpy sort, 1 M",
        NUMERIC,
        """
import numpy as np
a = np.random.default_rng(1).random(1_000_000)
def work():
    np.sort(a)
""",
    ),
    Program(
        "numpy argsort, 1 M",
        NUMERIC,
        """
import numpy as np
a = np.random.default_rng(1).random(1_000_000)
def work():
    np.argsort(a)
""",
    ),
    Program(
        "numpy svd 300",
        NUMERIC,
        """
import numpy as np
a = np.random.default_rng(1).random((300, 300))
def work():
    np.linalg.svd(a)
""",
        threaded=True,
    ),
    Program(
        "numpy fft 2^20",
        NUMERIC,
        """
import numpy as np
a = np.random.default_rng(1).random(1 << 20)
def work():
    np.fft.fft(a)
""",
    ),
    Program(
        "pandas groupby, 1 M",
        NUMERIC,
        """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
frame = pd.DataFrame({"k": rng.integers(0, 1000, 1_000_000), "v": rng.random(1_000_000)})
def work():
    frame.groupby("k")["v"].agg(["mean", "std", "max"])
""",
    ),
    Program(
        "pandas merge, 200,000",
        NUMERIC,
        """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
left = pd.DataFrame({"k": rng.permutation(200_000), "a": rng.random(200_000)})
right = pd.DataFrame({"k": rng.permutation(200_000), "b": rng.random(200_000)})
def work():
    left.merge(right, on="k")
""",
    ),
    Program(
        "pandas read_csv, 6 MB",
        NUMERIC,
        """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
pd.DataFrame({"a": np.arange(100_000), "b": rng.random(100_000), "c": rng.random(100_000),
              "d": [f"text {i % 50}" for i in range(100_000)]}).to_csv("numbers.csv", index=False)
def work():
    pd.read_csv("numbers.csv")
""",
    ),
    Program(
        "sklearn KMeans, 20,000 x 8",
        NUMERIC,
        """
import numpy as np
from sklearn.cluster import KMeans
a = np.random.default_rng(1).random((20_000, 8))
def work():
    KMeans(n_clusters=8, n_init=1, max_iter=30, random_state=1).fit(a)
""",
        threaded=True,
    ),
    Program(
        "matplotlib savefig png",
        NUMERIC,
        """
import io
import numpy as np
from matplotlib.figure import Figure
x = np.linspace(0, 10, 1_000)
def work():
    figure = Figure()
    axes = figure.subplots()
    for k in range(1, 6):
        axes.plot(x, np.sin(k * x), label=f"k = {k}")
    axes.legend(); axes.set_title("sines")
    figure.savefig(io.BytesIO(), format="png")
""",
    ),
)
