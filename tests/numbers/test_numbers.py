"""The guest's numbers are those of a 64-bit machine: types and values, beside a native numpy of the same version.

`expressions/` is a table of numpy's integers, `programs/` what people do with the libraries. `recorded.json` holds what
a native Python answers and decides; `make record-numbers` makes it anew. `known_differences.py` lists the exceptions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.numbers import known_differences, native, records
from tests.numbers.comparing import NARROW, OTHER, SAME, TOLERANCE, difference
from tests.numbers.records import Answers
from wasm_kernel import BaseSandbox, ExecutionPolicy
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.sandbox import Sandbox

FILES = [native.stem(file) for file in records.program_files()]
LOOSE = {p: bound for programs in known_differences.LOOSE.values() for p, bound in programs.items()}
KNOWN_NARROW = {p for programs in known_differences.NARROW.values() for p in programs}
KNOWN_OTHER = {p: answer for programs in known_differences.OTHER.values() for p, answer in programs.items()}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return records.read()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return records.guest_answers(tmp_path_factory.mktemp("numbers"))


def kind(program: str, native_answer: Any, guest_answer: Any) -> str:
    return difference(native_answer, guest_answer, LOOSE.get(program, TOLERANCE))


def test_the_record_is_of_the_guests_versions(recorded: dict[str, Any], tmp_path: Path) -> None:
    assert recorded["packages"] == records.guest_versions(tmp_path), "run `make record-numbers`"


def test_there_are_enough(recorded: dict[str, Any]) -> None:
    counts = {file: len(programs) for file, programs in recorded["answers"].items()}
    assert sum(n for file, n in counts.items() if file.startswith("expressions/")) >= 400
    assert sum(n for file, n in counts.items() if file.startswith("programs/")) >= 600
    names = [program for programs in recorded["answers"].values() for program in programs]
    assert len(names) == len(set(names)), "a program is in two files"


@pytest.mark.parametrize("file", FILES)
def test_answers_are_native_ones(file: str, recorded: dict[str, Any], given: Answers) -> None:
    wanted, found = recorded["answers"][file], given[file]
    assert list(found) == list(wanted), "run `make record-numbers`"
    wrong = []
    for program, answer in found.items():
        how = kind(program, wanted[program], answer)
        if program in KNOWN_OTHER:
            as_listed = how != SAME and difference(KNOWN_OTHER[program], answer) == SAME
        else:
            as_listed = how == (NARROW if program in KNOWN_NARROW else SAME)
        if not as_listed:
            wrong.append(f"{program}\n    natively {wanted[program]}\n    here     {answer}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(found)}:", *wrong])


def test_known_differences_are_of_programs(recorded: dict[str, Any]) -> None:
    names = {program for programs in recorded["answers"].values() for program in programs}
    listed = [*KNOWN_NARROW, *KNOWN_OTHER, *LOOSE]
    assert not set(listed) - names
    assert len(KNOWN_NARROW) == sum(map(len, known_differences.NARROW.values()))
    assert not KNOWN_NARROW & set(KNOWN_OTHER)


def test_the_record_is_what_a_native_python_answers_now(recorded: dict[str, Any]) -> None:
    """The table of expressions; `make check-numbers` compares the programs as well."""
    files = records.program_files("expressions")
    try:
        answers = native.answers(files, [f"numpy=={recorded['packages']['numpy']}"])
    except native.NoNativePython as e:
        pytest.skip(str(e))
    for file, found in answers.items():
        assert {p: a for p, a in found.items() if difference(recorded["answers"][file][p], a) != SAME} == {}


@pytest.mark.parametrize(
    ("wanted", "given", "how"),
    [
        (["int64[]", [2], [1, 2]], ["int64[]", [2], [1, 2]], SAME),
        (["int64[]", [2], [1, 2]], ["int32[]", [2], [1, 2]], NARROW),
        (["int64[]", [2], [1, 2]], ["int32[]", [2], [1, 3]], OTHER),
        (["int64[]", [2], [1, 2]], ["int16[]", [2], [1, 2]], OTHER),
        (["int64", 1], ["float64", 1.0], OTHER),
        (["int64", 2**60], ["int64", 2**60 + 1], OTHER),
        (["bool", True], ["bool", 1], OTHER),
        (["float64[]", [2], [1.0, 1e-9]], ["float64[]", [2], [1.0, 2e-9]], SAME),
        (["float64[]", [2], [1.0, 2.0]], ["float64[]", [2], [1.0, 2.1]], OTHER),
        (["float64", "nan"], ["float64", 1.0], OTHER),
        (["tuple", [["int64", 1]], 1], ["tuple", [["int32", 1]], 1], NARROW),
        (["int64", 1], ["raises", "OverflowError"], OTHER),
        (["float64[]", [1], [1.0]], ["float64[]", [2], [1.0, 1.0]], OTHER),
    ],
)
def test_differences_are_noticed(wanted: Any, given: Any, how: str) -> None:
    assert difference(wanted, given) == how


@pytest.mark.parametrize(
    "code",
    [
        "np.repeat([1], 2**32)",
        "np.repeat([1, 2], np.array([2**32, 1]))",
        "np.bincount(np.array([2**32]))",
        "np.pad([1], 2**32)",
        "pd.Series([1]).take(np.array([2**32]))",
        "pd.Series([1]).iloc[np.array([2**32])]",
        "pd.Index([1]).take(np.array([2**32]))",
        "np.arange(5)[np.array([0, 2**32])]",
        "np.arange(5)[np.array([[0, 2**32]])]",
        "np.add.reduceat(np.arange(3), [0, 2**32])",
        "np.random.RandomState(0).binomial(np.array([2**40, 5]), 0.5)",
        "np.repeat([1], np.array([2**32]))",
        "np.repeat([], 2**32 + 1)",
        "np.ones(2**32, 'i1')",
        "np.zeros(np.array([2**32 + 1]))",
        "np.empty((2**16, 2**16), 'i1')",
        "np.arange(2**33)",
        "np.bincount([0], minlength=2**32)",
        "np.bincount(np.array([2**31 + 5]))",
        "np.tile([1], 2**32)",
        "np.eye(2**32)",
        "np.linspace(0, 1, 2**32)",
        "np.resize([1], 2**32)",
        "np.broadcast_to(1, 2**32)",
        "np.indices((2**32,))",
        "np.fromfunction(lambda i: i, (2**32,))",
        "np.random.default_rng(0).integers(5, size=2**32)",
        "np.random.rand(2**32)",
        "np.random.permutation(2**32)",
        "np.strings.multiply(np.array(['a']), np.array([2**32]))",
        "pd.Series([1]).repeat(np.array([2**32]))",
        "pd.Series([1]).iloc[2**32]",
        "pd.Categorical.from_codes(np.array([2**32]), ['a'])",
        "pd.DataFrame({'a': [1]}).iloc[np.array([2**32]), np.array([0])]",
    ],
)
def test_counts_and_positions_that_are_too_large_raise(code: str, shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute(f"import numpy as np, pandas as pd\n{code}")
    assert result.error is not None, result.stdout
    assert result.error.name in (
        "IndexError",
        "ValueError",
        "OverflowError",
        "MemoryError",
        "_ArrayMemoryError",
        "TypeError",
    )


def test_installed_packages_get_64_bits(tmp_path: Path) -> None:
    """As %pip installs them: pure Python, written for 64-bit machines."""
    packages, app = tmp_path / "packages", tmp_path / "app"
    packages.mkdir()
    app.mkdir()
    (packages / "ranks.py").write_text("""
import numpy as np, pandas as pd

def square(x):
    rank = np.argsort(np.argsort(x)) + 1
    return [r.dtype.name for r in (rank, pd.Series(x).argsort().values, np.unique(x, return_counts=True)[1])], rank @ rank
""")
    sandbox = Sandbox(image.load(), app, ExecutionPolicy(), packages)
    try:
        sandbox.execute("import sys, numpy as np; sys.path.append('/packages')")
        result = sandbox.execute("import ranks; print(*ranks.square(np.arange(70000)))")
    finally:
        sandbox.close()
    assert result.stdout == f"['int64', 'int64', 'int64'] {sum(k * k for k in range(70001))}\n", result.error


def test_warnings_name_the_line_that_asked(shared_sandbox: BaseSandbox) -> None:
    """What libraries warn of on behalf of their caller, although functions of ours are in between."""
    result = shared_sandbox.execute("""
import sys, warnings
import pandas as pd, scipy.signal
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    scipy.signal.peak_prominences([0, 0, 0], [1])
    pd.Index([1, "a"]).join(pd.DatetimeIndex(["2020"]), how="outer", sort=True)
print([(each.filename == sys._getframe().f_code.co_filename, each.lineno) for each in told])
""")
    assert result.stdout == "[(True, 5), (True, 6)]\n", result.error
