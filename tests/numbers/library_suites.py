"""Test files of numpy, pandas, scipy, scikit-learn and statsmodels, run by pytest inside the guest.

    python -m tests.numbers.library_suites [-v] [--own] [FILE ...]     FILE: numpy/lib/tests/test_io.py

The tests are those of the wheels for native Pythons, in the guest's versions; they and the pure packages they need are
fetched once into the cache. Each file runs in a sandbox of its own, two at a time, as what it is: a part of its library,
although it lies in /packages. With --own it is in /app, as people's own code, which gets int64 from functions that return
positions where a library gets np.intp. `library_failures.py` explains what fails: a failure without an explanation makes the run
fail and, if all files ran, so does an explanation of nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ipython_suite import FOR_THE_GUEST, compile_packages, pip, read_records
from tests.numbers import native, records
from tests.numbers.library_failures import EXPLANATIONS, OWN, Explanation
from wasm_kernel import ExecutionPolicy
from wasm_kernel.host.image import image
from wasm_kernel.host.image.cache import Entry, build_lock
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.sessions.sandboxes import ready_image

WORKERS = 2
FILE_SECONDS = 1200.0  # numpy has 14,000 tests in one file
TEST_PACKAGES = (
    "hypothesis==6.138.0", "iniconfig==2.3.1", "pluggy==1.7.0", "pytest==9.2.0", "sortedcontainers==2.4.0",
)  # fmt: skip

FILES = (
    *(f"numpy/_core/tests/test_{name}.py" for name in (
        "abc", "array_coercion", "arrayprint", "casting_unittests", "conversion_utils", "datetime", "defchararray", "dtype",
        "einsum", "function_base", "getlimits", "indexerrors", "indexing", "item_selection", "multiarray", "nditer",
        "nep50_promotions", "numeric", "numerictypes", "records", "regression", "scalar_ctors", "scalar_methods",
        "scalarmath", "scalarprint", "shape_base", "strings", "ufunc", "umath", "unicode")),
    *(f"numpy/lib/tests/test_{name}.py" for name in (
        "arraypad", "arraysetops", "format", "function_base", "histograms", "index_tricks", "io", "nanfunctions", "recfunctions",
        "shape_base", "stride_tricks", "twodim_base", "type_check")),
    *(f"numpy/random/tests/test_{name}.py" for name in (
        "generator_mt19937", "generator_mt19937_regressions", "random", "randomstate", "randomstate_regression", "regression")),
    *(f"numpy/ma/tests/test_{name}.py" for name in ("core", "extras")),
    "numpy/linalg/tests/test_linalg.py",
    "numpy/fft/tests/test_pocketfft.py",
    "pandas/tests/test_algos.py",
    "pandas/tests/test_sorting.py",
    "pandas/tests/test_take.py",
    "pandas/tests/groupby/test_groupby.py",
    "pandas/tests/groupby/test_counting.py",
    "pandas/tests/groupby/methods/test_value_counts.py",
    "pandas/tests/reshape/merge/test_merge.py",
    "pandas/tests/reshape/test_cut.py",
    "pandas/tests/reshape/test_pivot.py",
    "pandas/tests/indexing/test_iloc.py",
    "pandas/tests/indexing/test_loc.py",
    "pandas/tests/indexes/multi/test_indexing.py",
    "pandas/tests/indexes/numeric/test_indexing.py",
    "pandas/tests/indexes/ranges/test_range.py",
    "pandas/tests/frame/test_reductions.py",
    "pandas/tests/frame/test_constructors.py",
    "pandas/tests/series/test_constructors.py",
    "pandas/tests/window/test_rolling.py",
    "pandas/tests/resample/test_datetime_index.py",
    "pandas/tests/io/parser/test_read_fwf.py",
    "scipy/ndimage/tests/test_measurements.py",
    "scipy/ndimage/tests/test_morphology.py",
    "scipy/ndimage/tests/test_filters.py",
    "scipy/signal/tests/test_peak_finding.py",
    "scipy/signal/tests/test_upfirdn.py",
    "scipy/sparse/tests/test_csr.py",
    "scipy/sparse/tests/test_coo.py",
    "scipy/sparse/tests/test_construct.py",
    "scipy/sparse/csgraph/tests/test_shortest_path.py",
    "scipy/spatial/tests/test_kdtree.py",
    "scipy/interpolate/tests/test_interpolate.py",
    "scipy/special/tests/test_basic.py",
    "scipy/stats/tests/test_rank.py",
    "scipy/stats/tests/test_discrete_basic.py",
    "scipy/stats/tests/test_contingency.py",
    "sklearn/utils/tests/test_random.py",
    "sklearn/utils/tests/test_sparsefuncs.py",
    "sklearn/preprocessing/tests/test_label.py",
    "sklearn/preprocessing/tests/test_encoders.py",
    "sklearn/model_selection/tests/test_split.py",
    "sklearn/metrics/tests/test_ranking.py",
    "sklearn/neighbors/tests/test_kd_tree.py",
    "sklearn/cluster/tests/test_k_means.py",
    "sklearn/tree/tests/test_tree.py",
    "statsmodels/discrete/tests/test_discrete.py",
    "statsmodels/tsa/tests/test_stattools.py",
    "statsmodels/stats/tests/test_contingency_tables.py",
)  # fmt: skip

# What some of them need that is not beside them.
ELSEWHERE = {
    "sklearn/model_selection/tests/test_split.py": (
        "sklearn/tests/__init__.py",
        "sklearn/tests/metadata_routing_common.py",
    ),
    "statsmodels/discrete/tests/test_discrete.py": ("statsmodels/genmod/tests/results/iris.csv",),
}

# numpy's test modules in C are not in the runtime: what needs one is skipped.
_RUN = """
def run_tests(name, place):
    import importlib, json, os, sys, types
    parts = name.split("/")
    names = [".".join(parts[:n]) for n in range(1, parts.index("tests") + 1)]
    modules = [importlib.import_module(package) for package in names]
    sys.path.insert(0, "/packages")
    import pytest
    from _pytest.assertion.rewrite import AssertionRewritingHook
    from importlib.machinery import SourceFileLoader
    os.environ.pop("FORCE_COLOR", None)

    def as_a_library(kind):
        real = kind.exec_module

        def exec_module(self, module):
            if module.__spec__.origin.startswith(f"/packages/{parts[0]}/"):
                vars(module)["return"] = 0
            real(self, module)

        kind.exec_module = exec_module

    as_a_library(AssertionRewritingHook)
    as_a_library(SourceFileLoader)

    class Absent(types.ModuleType):
        def __getattr__(self, attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            if attribute == "get_fpu_mode":
                return lambda: 0
            if attribute in ("rational", "rational2"):
                make = lambda cls, *args: numpy.float64.__new__(cls, args[0] if args else 0)
                return type(attribute, (numpy.float64,), {"__new__": make})
            return lambda *args, **kwargs: pytest.skip("needs a test module in C")

    import numpy._core
    for short in ("_multiarray_tests", "_umath_tests", "_rational_tests", "_struct_ufunc_tests", "_operand_flag_tests"):
        sys.modules["numpy._core." + short] = Absent("numpy._core." + short)
        setattr(numpy._core, short, sys.modules["numpy._core." + short])

    for module in modules:  # the packages are the guest's, their tests are not
        module.__path__ = [f"{place}/{module.__name__.replace('.', '/')}", *module.__path__]

    report = open("/app/report.jsonl", "w", buffering=1)

    class Report:
        outcomes = {}

        def pytest_collection_finish(self, session):
            print(json.dumps({"collected": len(session.items)}), file=report)

        def pytest_collectreport(self, report):
            if report.outcome == "failed":
                self.write(report.nodeid, "failed", report)

        def pytest_runtest_logreport(self, report):
            if report.when == "call" or report.outcome != "passed":
                if self.outcomes.get(report.nodeid) != "failed":
                    self.outcomes[report.nodeid] = report.outcome
                    self.reason = report
            if report.when == "teardown":
                outcome = self.outcomes.pop(report.nodeid, "failed")
                self.write(report.nodeid, outcome, self.reason if outcome == "failed" else None)

        def write(self, test, outcome, reason=None):
            record = {"test": test, "outcome": outcome}
            if reason is not None:
                crash = getattr(reason.longrepr, "reprcrash", None)
                record["reason"] = (crash.message if crash else str(reason.longrepr))[-600:]
            print(json.dumps(record), file=report)

    os.chdir("/app")
    options = ["-q", "--no-header", "--no-summary", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore"]
    options += ["-m", "not slow and not xslow and not network and not db and not single_cpu"]
    status = pytest.main([*options, f"--rootdir={place}", f"{place}/{name}"], plugins=[Report()])
    print(json.dumps({"finished": int(status) in (0, 1, 5)}), file=report)
"""


@dataclass
class FileReport:
    """How one test file went."""

    name: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)  # test, what it said
    trouble: str = ""  # why it did not run to its end

    def line(self) -> str:
        """One line of the table."""
        counts = "".join(f"{self.outcomes[kind]:8}" for kind in ("passed", "failed", "skipped"))
        return f"{self.name:56}{counts}{self.seconds:8.1f} s  {self.trouble}".rstrip()


def material() -> tuple[Path, Path]:
    """The libraries with their tests, for a native Python, and the test packages for the guest."""
    with tempfile.TemporaryDirectory() as place:
        requirements = native.pinned(records.guest_versions(Path(place)))
    libraries = native.packages(native.interpreter(), requirements)
    key = hashlib.sha256(json.dumps([TEST_PACKAGES, image.parts().runtime.key]).encode())
    entry = Entry("library-suites", key.hexdigest()[:20])
    if entry.manifest() is None:
        with build_lock(lambda state: None):
            entry.build(_fetch)
    return libraries, entry.path / "packages"


def _fetch(folder: Path) -> dict[str, Any]:
    pip("install", "--target", str(folder / "packages"), *FOR_THE_GUEST, *TEST_PACKAGES)
    shutil.rmtree(folder / "packages" / "bin", ignore_errors=True)
    compile_packages(folder / "packages")
    return {}


def lay_out(libraries: Path, name: str, place: Path) -> None:
    """A test file with what it imports from its tests folder and the conftests above it."""
    parts = Path(name).parts
    tests = Path(*parts[: parts.index("tests") + 1])
    whole = Path(*parts[:-1]) if parts[0] == "pandas" and len(parts) > 3 else tests
    if parts[0] == "pandas" and len(parts) == 3:  # pandas has all its tests in one folder
        (place / tests).mkdir(parents=True)
        shutil.copy(libraries / name, place / name)
    else:
        shutil.copytree(libraries / whole, place / whole, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [*Path(name).parents][:-1]:
        if (libraries / folder / "conftest.py").exists():
            (place / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(libraries / folder / "conftest.py", place / folder)
        (place / folder / "__init__.py").touch()  # pytest takes the names of modules from these
    for extra in ELSEWHERE.get(name, ()):
        (place / extra).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(libraries / extra, place / extra)
    (place / "pytest.ini").write_text("[pytest]\naddopts =\n")


def run_file(libraries: Path, packages: Path, name: str, own: bool) -> FileReport:
    """Run one test file in a sandbox of its own, as a part of its library or as people's own code."""
    report = FileReport(name)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        app = Path(place) / "app"
        app.mkdir()
        if own:
            lay_out(libraries, name, app)
        else:
            packages = shutil.copytree(packages, Path(place) / "packages")
            lay_out(libraries, name, packages)
        policy = ExecutionPolicy(timeout_seconds=FILE_SECONDS, memory_bytes=3 << 30)
        sandbox = Sandbox(image.load(), app, policy, packages)
        try:
            result = sandbox.execute(
                f"{_RUN}\nrun_tests({name!r}, {'/app' if own else '/packages'!r})\n", options={"silent": True}
            )
        finally:
            sandbox.close()
        collected, finished = 0, False
        for record in read_records(app / "report.jsonl"):
            collected = record.get("collected", collected)
            finished = record.get("finished", finished)
            if "outcome" in record:
                report.outcomes[record["outcome"]] += 1
                if record["outcome"] == "failed":
                    report.failures[record["test"]] = record["reason"]
    if not finished:
        error = result.error.value if result.error else ""
        report.trouble = (
            f"stopped after {sum(report.outcomes.values())} of {collected}: {result.outcome.message} {error}"
        )
        report.failures.setdefault(name, report.trouble)
    report.seconds = time.monotonic() - started
    return report


def main() -> int:
    """Run the files, print a table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.numbers.library_suites")
    parser.add_argument("files", nargs="*", metavar="FILE", help="only these; default: all that are listed here")
    parser.add_argument("--own", action="store_true", help="as people's own code, in /app")
    parser.add_argument("-v", action="store_true", dest="verbose", help="say why tests failed")
    options = parser.parse_args()
    ready_image()
    libraries, packages = material()
    reports: list[FileReport] = []
    print(f"{'file':56}  passed  failed skipped")
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(run_file, libraries, packages, name, options.own) for name in options.files or FILES]
        for done in as_completed(running):
            reports.append(done.result())
            print(reports[-1].line(), flush=True)
            for test, said in reports[-1].failures.items() if options.verbose else ():
                print(f"    {test.rpartition('/')[2]}: {said[:300]}", flush=True)
    total = sum((report.outcomes for report in reports), Counter[str]())
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped in {len(reports)} files")
    return _judge(reports, (*EXPLANATIONS, *OWN) if options.own else EXPLANATIONS, everything=not options.files)


def _judge(reports: list[FileReport], explanations: tuple[Explanation, ...], everything: bool) -> int:
    """Print which failure has which explanation, and return the exit status."""
    unexplained = []
    found: Counter[str] = Counter()
    for test, said in [item for report in reports for item in report.failures.items()]:
        why = next((e.why for e in explanations if e.matches(test, said)), None)
        if why is None:
            unexplained.append(f"{test}: {said}")
        else:
            found[why] += 1
    for explanation in explanations:
        if found[explanation.why] or everything:
            print(f"{found[explanation.why]:6}  {explanation.why}")
    print("\n".join(f"without an explanation: {line[:500]}" for line in unexplained))
    return bool(unexplained) or (everything and any(not found[e.why] for e in explanations))


if __name__ == "__main__":
    sys.exit(main())
