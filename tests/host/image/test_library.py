"""The guest's library: sources that are those of its bytecode, where tracebacks and inspect look; packages' data."""

from __future__ import annotations

import importlib.util
import marshal
import re
import zipfile
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, ImageError, SandboxResult
from wasm_kernel.host.image import image, library

LINE = "x = 1\n"


def _bytecode(source: str, *, flags: int = 1) -> bytes:
    """A .pyc of this Python's, with its source's hash."""
    code = marshal.dumps(compile(source, "module.py", "exec"))
    digest = importlib.util.source_hash(source.encode())
    return importlib.util.MAGIC_NUMBER + flags.to_bytes(4, "little") + digest + code


def _plain(result: SandboxResult) -> str:
    assert result.error is not None
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(result.error.traceback))


def test_a_source_is_known_by_the_hash_in_its_bytecode() -> None:
    assert library.made_from(_bytecode(LINE), LINE.encode())
    assert not library.made_from(_bytecode(LINE), b"x = 2\n")
    assert not library.made_from(_bytecode(LINE, flags=0), LINE.encode()), "this one holds a time, not a hash"


def test_a_module_gets_its_source_only_if_that_matches(tmp_path: Path) -> None:
    wheels, archive, folder = tmp_path / "wheels", tmp_path / "library.zip", tmp_path / "entry"
    for name, text in {"pack/same.py": LINE, "pack/other.py": "x = 3\n", "pack-1.0.dist-info/LICENSE": "BSD"}.items():
        (wheels / name).parent.mkdir(parents=True, exist_ok=True)
        (wheels / name).write_text(text)
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("pack/same.pyc", "pack/other.pyc", "bisect.pyc", "own.pyc"):
            packed.writestr(name, _bytecode(LINE))
        packed.writestr("pack-1.0.dist-info/METADATA", "Name: pack")
        with packed.open("matplotlib/mpl-data.zip", "w") as data, zipfile.ZipFile(data, "w") as figures:
            figures.writestr("matplotlibrc", "")
    (wheels / "matplotlib").mkdir()
    facts = library.lay_out(archive, wheels, folder)
    assert facts == {"sources": 1, "without_source": ["bisect.py", "own.py", "pack/other.py"]}
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    site = "lib/python3.15/site-packages"
    assert found == {
        f"{site}/pack/same.py",
        f"{site}/pack/__pycache__/same.cpython-315.pyc",
        f"{site}/pack/other.pyc",
        f"{site}/pack-1.0.dist-info/METADATA",
        f"{site}/matplotlib/mpl-data/matplotlibrc",
        "lib/python3.15/bisect.pyc",
        "lib/python3.15/own.pyc",
        "lib/python315.zip",
        "LICENSES/pack-1.0.dist-info/LICENSE",
        "LICENSES/cpython.txt",
    }


def test_damaged_sources_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "damaged").write_bytes(library.STANDARD_SOURCES.read_bytes()[:-1])
    monkeypatch.setattr(library, "STANDARD_SOURCES", tmp_path / "damaged")
    with pytest.raises(ImageError, match="is damaged; install wasm-kernel again"):
        library.lay_out(tmp_path / "library.zip", tmp_path / "wheels", tmp_path)


def test_every_source_of_the_image_is_that_of_its_bytecode() -> None:
    modules = list((image.parts().library.path / "lib").rglob("__pycache__/*.pyc"))
    assert len(modules) > 5_150
    for path in modules:
        source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
        assert library.made_from(path.read_bytes(), source.read_bytes()), source


def test_a_librarys_frames_have_their_lines(shared_sandbox: BaseSandbox) -> None:
    shown = _plain(shared_sandbox.execute("import pandas as pd\npd.DataFrame({'a': [1]})['b']"))
    assert "File /usr/local/lib/python3.15/site-packages/pandas/core/frame.py:" in shown
    assert re.search(r"\n-> \d+ +indexer = self.columns.get_loc\(key\)\n", shown), shown
    shown = _plain(shared_sandbox.execute("import numpy as np\nnp.linalg.inv(np.zeros((2, 2)))"))
    assert re.search(r'\n--> \d+ +raise LinAlgError\("Singular matrix"\)\n', shown), shown


def test_the_standard_librarys_frames_have_their_lines(shared_sandbox: BaseSandbox) -> None:
    shown = _plain(shared_sandbox.execute("import json\njson.loads('{')"))
    assert "File /usr/local/lib/python3.15/json/decoder.py:" in shown
    assert re.search(r"\n--> \d+ +obj, end = self.scan_once\(s, idx\)\n", shown), shown


def test_nothing_is_left_of_the_zip_that_the_interpreter_started_from(shared_sandbox: BaseSandbox) -> None:
    code = (
        "import gc, sys, types\nold = '/usr/local/lib/python315.zip'\n"
        "print([n for n, m in sys.modules.items() if old in str(getattr(m, '__file__', ''))])\n"
        "gc.unfreeze()\n"
        "kept = {f.__code__.co_filename for f in gc.get_objects() if type(f) is types.FunctionType}\n"
        "import json, os; new = '/usr/local/lib/python3.15'\n"
        "print([f for f in kept if f.startswith(old) and os.path.exists(f.replace(old, new))])\n"
        "print(os.__file__, json.__path__, json.__spec__.loader.path)"
    )
    modules, files, places = shared_sandbox.execute(code).stdout.splitlines()
    assert modules == "[]"
    assert files == "[]"
    home = "/usr/local/lib/python3.15"
    assert places == f"{home}/os.py ['{home}/json'] {home}/json/__init__.py"


@pytest.mark.parametrize(
    "code",
    [
        "import inspect, json; assert 'def loads(' in inspect.getsource(json.loads)",
        "import inspect, os; assert 'def join(' in inspect.getsource(os.path.join)",
        "import inspect, collections; assert 'class Counter' in inspect.getsource(collections.Counter)",
        "import inspect, pandas; assert 'def head(' in inspect.getsource(pandas.DataFrame.head)",
        "import inspect, scipy.stats; assert 'class' in inspect.getsource(scipy.stats.norm.__class__)",
        "import inspect, sympy.ntheory.primetest as lazy; assert 'def isprime' in inspect.getsource(lazy)",
        "import sklearn; assert sklearn.__file__ == '/usr/local/lib/python3.15/site-packages/sklearn/__init__.py'",
        "import numpy; assert numpy.__spec__.loader.get_source('numpy').startswith('\"\"\"')",
        "import doctest, networkx\n"
        "assert doctest.DocTestFinder(recurse=False).find(networkx.path_graph, module=False)[0].lineno",
        "import sysconfig, pandas; assert pandas.__file__.startswith(sysconfig.get_path('purelib'))",
    ],
)
def test_whatever_reads_sources_finds_them(shared_sandbox: BaseSandbox, code: str) -> None:
    result = shared_sandbox.execute(code)
    assert result.success, result.error


def test_two_question_marks_show_the_source(shared_sandbox: BaseSandbox) -> None:
    code = "import pandas as pd\nget_ipython().run_line_magic('psource', 'pd.DataFrame.head')"
    assert "self.iloc[:n].copy()" in str(shared_sandbox.execute(code))
    code = (
        "bundle = get_ipython().object_inspect_mime('pd.DataFrame.head', detail_level=1)['text/plain']\n"
        "assert 'Source:' in bundle and 'self.iloc[:n].copy()' in bundle, bundle"
    )
    result = shared_sandbox.execute(code)
    assert result.success, result.error


def test_a_warning_of_a_library_shows_its_line(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute("import scipy.stats, sys\nscipy.stats.pearsonr([1, 1, 1], [1, 2, 3]);")
    assert re.search(r"site-packages/scipy/stats/\S+:\d+: \w+Warning|ConstantInputWarning", result.stderr)
    warned = "import warnings\nwarnings.warn_explicit('w', UserWarning, scipy.stats.__file__, 1)"
    assert result.success
    assert '\n  """' in shared_sandbox.execute(warned).stderr


def test_all_datasets_of_statsmodels_are_there(shared_sandbox: BaseSandbox) -> None:
    code = (
        "import statsmodels.api as sm\nnames = [n for n in dir(sm.datasets) if hasattr(getattr(sm.datasets, n), 'load_pandas')]\n"
        "for name in names: assert len(getattr(sm.datasets, name).load_pandas().data)\nprint(len(names))"
    )
    result = shared_sandbox.execute(code)
    assert result.success, result.error
    assert int(result.stdout) >= 28


def test_sample_pictures_are_there_but_jpeg_cannot_be_decoded(shared_sandbox: BaseSandbox) -> None:
    """The runtime's Pillow has no JPEG decoder. What is said then is what Pillow says anywhere without one."""
    code = "from importlib.resources import files\nprint(len((files('sklearn.datasets.images') / 'china.jpg').read_bytes()))"
    assert shared_sandbox.execute(code).stdout == "196653\n"
    result = shared_sandbox.execute("from sklearn.datasets import load_sample_image; load_sample_image('china.jpg')")
    assert result.error is not None
    assert result.error.name == "OSError"
    assert "decoder jpeg not available" in result.error.value


def test_wheels_licenses_are_kept() -> None:
    folder = image.parts().library.path / "LICENSES"
    assert any("numpy" in p.parts[-2] or "numpy" in str(p) for p in folder.rglob("LICENSE*"))
    assert len(list(folder.iterdir())) > 45
