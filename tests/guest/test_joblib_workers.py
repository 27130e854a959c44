"""joblib and what is built on it, with workers."""

from __future__ import annotations

from tests.guest.test_process_pools import WORDS, guest, ok, said
from wasm_kernel import BaseSandbox

__all__ = ["guest"]


def test_parallel(guest: BaseSandbox) -> None:
    ok(guest, WORDS + "import joblib\nfrom joblib import Parallel, delayed")
    assert said(guest, """
print(joblib.cpu_count(), joblib.effective_n_jobs(-1), joblib.effective_n_jobs(2), joblib.effective_n_jobs(99))
print(Parallel(n_jobs=2)(delayed(square)(n) for n in range(30)) == [n * n for n in range(30)])
print(list(Parallel(n_jobs=2, return_as='generator')(delayed(lambda n: -n)(n) for n in range(5))))
print(sorted(Parallel(n_jobs=2, return_as='generator_unordered')(delayed(square)(n) for n in range(5))))
for backend in ('loky', 'multiprocessing', 'threading'): print(Parallel(n_jobs=2, backend=backend)(delayed(abs)(n) for n in (-1, 1)))
print(len(set(Parallel(n_jobs=2)(delayed(lambda: (time.sleep(0.05), os.getpid())[1])() for n in range(4)))) > 1)
print(caught(Parallel(n_jobs=2), [delayed(fail)(1)] * 3)[0])
print(caught(Parallel(n_jobs=2, timeout=0.1), [delayed(time.sleep)(60)] * 2)[0])
out = []
Parallel(n_jobs=2, require='sharedmem')(delayed(out.append)(n) for n in range(3000)); print(out == list(range(3000)))
with joblib.parallel_config(backend='threading', n_jobs=3): print(joblib.effective_n_jobs(), Parallel()([delayed(abs)(-1)]))
with joblib.parallel_config(backend='loky', n_jobs=2, inner_max_num_threads=1): print(Parallel()([delayed(abs)(-1)]))
with Parallel(n_jobs=2) as parallel: print(parallel(delayed(abs)(n) for n in (-1, -2)), parallel(delayed(abs)(n) for n in (-3, -4)))
""") == [
        "4 4 2 4",
        "True",
        "[0, -1, -2, -3, -4]",
        "[0, 1, 4, 9, 16]",
        *["[1, 1]"] * 3,
        "True",
        "ValueError: no 1",
        "TimeoutError: ",
        "True",
        "1 [1]",
        "[1]",
        "[1, 2] [3, 4]",
    ]  # fmt: skip


def test_large_arrays_are_shared_read_only_as_joblib_does(guest: BaseSandbox) -> None:
    ok(guest, WORDS + "from joblib import Parallel, delayed\nimport numpy as np\nbig = np.ones(1_000_000)")
    assert said(guest, """
def touch(a):
    a[0] = 1
print(Parallel(n_jobs=2)(delayed(np.sum)(big) for _ in range(3)) == [1e6] * 3, caught(Parallel(n_jobs=2), [delayed(touch)(big)] * 2)[0])
""") == ["True ValueError: assignment destination is read-only"]  # fmt: skip


def test_scikit_learn_gets_the_same_results_from_workers(guest: BaseSandbox) -> None:
    ok(guest, """
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
X, y = make_classification(300, 8, random_state=0)
""")  # fmt: skip
    assert said(guest, """
model = LogisticRegression()
print((cross_val_score(model, X, y, n_jobs=-1) == cross_val_score(model, X, y, n_jobs=1)).all())
search = [GridSearchCV(model, {'C': [0.1, 1.0]}, n_jobs=n).fit(X, y) for n in (1, 2)]
print(search[0].best_score_ == search[1].best_score_)
for kind in (RandomForestClassifier, RandomForestRegressor):
    forests = [kind(8, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2)]
    print((forests[0].predict(X) == forests[1].predict(X)).all())
""") == ["True"] * 4  # fmt: skip


def test_tqdm_process_map(guest: BaseSandbox) -> None:
    ok(guest, WORDS + "from tqdm.contrib.concurrent import process_map\nfrom tqdm import tqdm")
    result = ok(guest, "print(process_map(square, range(5), max_workers=2, tqdm_class=tqdm))")
    assert result.stdout == "[0, 1, 4, 9, 16]\n"
    assert "5/5" in result.stderr


def test_neighbours_are_found_by_workers_and_in_line(guest: BaseSandbox) -> None:
    """Their compiled trees have methods of ours."""
    assert said(guest, """
import numpy as np
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors
points = np.random.default_rng(0).random((50, 3))
one, two = (NearestNeighbors(n_neighbors=3, radius=0.3, n_jobs=jobs).fit(points) for jobs in (1, 2))
for method in ('kneighbors', 'radius_neighbors'):
    found, wanted = (getattr(each, method)(points, return_distance=False) for each in (one, two))
    print(all(sorted(a) == sorted(b) for a, b in zip(found, wanted)))
print(all((KDTree(points).query(points, 2, workers=n)[1] == KDTree(points).query(points, 2)[1]).all() for n in (2, -1)))
""") == ["True"] * 3  # fmt: skip
