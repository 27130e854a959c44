"""The built image: what it holds, that nothing is done twice at start, that damage is repaired."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, ImageMissing
from wasm_kernel.host.image import build, cache, image
from wasm_kernel.host.image.build import Progress
from wasm_kernel.host.runtime import interposer
from wasm_kernel.host.runtime.engine import engine

CLONED = ("runtime", "library", "site", "code", "filter")
ORIGINAL = cache.cache_root()


@pytest.fixture
def copy_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that shares the expensive entries with the real one by link, without its base memory."""
    parts = image.parts()
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    for entry in parts.all():
        if entry.kind in CLONED:
            (root / entry.kind).mkdir()
            (root / entry.kind / entry.key).symlink_to(entry.path)
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(root))
    return root


def test_the_stack_is_imported_and_the_user_sees_nothing_of_it(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute(
        "import sys, wasm_guest.shelf\nstack = 'numpy pandas matplotlib.pyplot scipy.stats sklearn.cluster statsmodels.api seaborn IPython ipywidgets'\n"
        "print([m for m in stack.split() if wasm_guest.shelf.find(m) is None])"
    )
    assert result.stdout == "[]\n"
    assert result.execution_count == 1
    names = shared_sandbox.execute("[n for n in globals() if not n.startswith('_')]").result
    assert names is not None
    known = {"In", "Out", "get_ipython", "exit", "quit", "open", "sys", "wasm_guest", "stack"}
    assert set(json.loads(names["text/plain"].replace("'", '"'))) <= known


def test_no_descriptor_is_open_in_the_base_memory() -> None:
    manifest = image.parts().base.manifest()
    assert manifest is not None
    assert manifest["files"] == []
    assert manifest["missing"] == []
    assert manifest["immortal_objects"] > 500_000


@pytest.mark.parametrize(
    "code",
    [
        "import threading; threading.Event().wait(0.05)",
        "import queue\ntry: queue.Queue().get(timeout=0.05)\nexcept queue.Empty: pass",
        "import threading\nlock = threading.Lock(); lock.acquire()\nassert not lock.acquire(timeout=0.05)\n"
        "try: lock.acquire()\nexcept RuntimeError as e: assert 'deadlock' in str(e)",
        "import asyncio; await asyncio.gather(*[asyncio.sleep(0.01) for i in range(5)])",
        "import asyncio; assert asyncio.run(asyncio.sleep(0, 5)) == 5",
        "import asyncio; assert await asyncio.to_thread(lambda: 5) == 5",
        "from concurrent.futures import ThreadPoolExecutor as T\nassert list(T(4).map(abs, [-1, -2])) == [1, 2]",
        "import ssl, socket\ntry: socket.create_connection(('example.com', 443))\nexcept OSError as e: assert 'no permission' in str(e)",
        "import urllib.request\ntry: urllib.request.urlopen('https://example.com')\nexcept OSError as e: assert 'no permission' in str(e)",
        "import subprocess\ntry: subprocess.run(['ls'])\nexcept OSError: pass",
        "import os\ntry: os.system('ls')\nexcept OSError as e: assert 'no processes' in str(e)",
        "from tqdm.auto import tqdm\nassert list(tqdm(range(3))) == [0, 1, 2]",
        "import os; assert os.getuid() == 0",
        "import os\nwith open(os.devnull, 'w') as f: print('x', file=f)\nassert open(os.devnull).read() == ''",
        "import threading\ntry: threading.Thread(target=print).start()\nexcept RuntimeError as e: assert 'one thread' in str(e)",
        "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: assert os.path.dirname(f.name) == '/tmp'",
        "import nbformat, jsonschema, jupyter_core",
        "import os, sys; assert not sys.stdout.isatty() and not os.isatty(1) and os.path.isdir(os.environ['MPLCONFIGDIR'])",
        "from IPython.display import HTML; HTML(''); import os; assert not os.path.exists('')",
        "import io, sys\nsys.stdin = io.StringIO('line\\n')\ntry: assert input() == 'line'\nfinally: sys.stdin = sys.__stdin__",
        "assert '\\x1b' not in get_ipython().find_magic('matplotlib').__doc__",
        "import os; assert os.path.expanduser('~') == os.getcwd() == '/app'",
    ],
)
def test_shims(shared_sandbox: BaseSandbox, code: str) -> None:
    result = shared_sandbox.execute(code)
    assert result.success, (result.error, result.stderr)


@pytest.mark.parametrize("code", ["!ls", "x = !ls", "%%bash\nls", "%sx ls", "%pip install x"])
def test_commands_say_in_one_line_that_they_cannot_run(shared_sandbox: BaseSandbox, code: str) -> None:
    result = shared_sandbox.execute(code)
    assert result.error is not None
    assert result.error.name == "UsageError"
    assert len(result.stderr.strip().splitlines()) <= 1


def test_a_figure_needs_no_warming(shared_sandbox: BaseSandbox) -> None:
    result = shared_sandbox.execute("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    assert result.displays[0]["image/png"].startswith("iVBOR")


def test_a_lost_base_memory_is_built_again_and_nothing_else(copy_of_the_cache: Path) -> None:
    assert not image.is_built()
    with pytest.raises(ImageMissing, match="wasm-kernel install"):
        image.Image()
    steps: list[Progress] = []
    build.build(steps.append)
    assert {s.step for s in steps} == {"base memory"}
    assert steps[0].fraction == 0
    assert steps[-1].fraction == 1
    assert image.is_built()
    image.Image()
    theirs = json.loads((ORIGINAL / "base" / image.parts().base.key / "digests.json").read_bytes())
    assert image.parts().base.digests() == theirs, "two builds of the same must be equal, byte for byte"
    damaged = image.parts().base.path / "base.mem"
    os.truncate(damaged, damaged.stat().st_size - 65536)
    assert not image.is_built(), "a truncated base memory must not be used"


def test_the_base_memory_holds_nothing_that_depends_on_the_kind_of_cpu() -> None:
    """What `inf - inf` is: of all that WebAssembly computes only the bits of such a NaN are left to the machine."""
    made_by_x86 = struct.pack("<Q", 0xFFF8 << 48)
    with (image.parts().base.path / "base.mem").open("rb") as file:
        memory = file.read()
    places = [found.start() for found in re.finditer(re.escape(made_by_x86), memory)]
    assert [hex(at) for at in places if at % 8 == 0] == []


def test_a_damaged_module_is_thrown_away_and_built_again(copy_of_the_cache: Path) -> None:
    entry = image.parts().filter
    (copy_of_the_cache / "filter" / entry.key).unlink()
    shutil.copytree(ORIGINAL / "filter" / entry.key, entry.path)
    module = entry.path / "shim.cwasm"
    module.write_bytes(bytes(module.stat().st_size))
    assert entry.manifest() is not None, "the size is right: only loading can tell"
    with pytest.raises(ImageMissing, match="damaged"):
        image.load_modules(image.parts(), metered=False)
    assert entry.manifest() is None


def test_starting_reads_no_image_file_but_the_manifests(tmp_path: Path) -> None:
    """Nothing is hashed, copied or unpacked at start: what the process opens there is a handful of files."""
    code = (
        "import sys, wasm_kernel\nopened = []\n"
        "sys.addaudithook(lambda e, a: opened.append(str(a[0])) if e == 'open' else None)\n"
        f"with wasm_kernel.create_sandbox(workspace={str(tmp_path)!r}) as s: s.execute('1')\n"
        f"import json; print(json.dumps([o for o in opened if o.startswith({str(cache.cache_root())!r})]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = [Path(name).name for name in json.loads(done.stdout)]
    assert set(names) == {"entry.json", "digests.json", "base.mem"}, names


def test_an_import_that_is_not_on_the_allowlist_does_not_link() -> None:
    text = '(module (import "wasi_snapshot_preview1" "fd_allocate" (func (param i32 i64 i64) (result i32))))'
    eng = engine()
    path = cache.cache_root() / "allowlist-test.cwasm"
    path.write_bytes(eng.compile(text))
    try:
        module = eng.load(path)
        made = interposer.Interposer.__new__(interposer.Interposer)
        with pytest.raises(ValueError, match="fd_allocate.*allowlist"):
            made.imports_for(module)
    finally:
        path.unlink()
