"""Jupyter's own conformance tests, with every sample filled in but widgets: 0.7.0 has no schema for comm_open."""

from __future__ import annotations

from collections.abc import Iterator

import jupyter_kernel_test
import pytest

from tests.conformance.client import unsealed

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def _own_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WASM_KERNEL_WORKSPACE", str(tmp_path_factory.mktemp("sessions")))
        patch.setenv("JUPYTER_CONFIG_DIR", str(unsealed(tmp_path_factory.mktemp("config"))))
        yield


class TestKernel(jupyter_kernel_test.KernelTests):
    kernel_name = "wasm"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "%%writef", "matches": {"%%writefile"}},
        {"text": "%session wa", "matches": {"watch"}},
        {"text": "str.casef", "matches": {".casefold"}},
        {"text": "def f(): pass\n"},
    ]
    complete_code_samples = [
        "1",
        "print('hello, world')",
        "def f(x):\n  return x*2\n\n",
        "await x",
        "%matplotlib",
        "!ls",
    ]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2", "for i in range(3):", "%%timeit", "f("]
    invalid_code_samples = ["import = 7q", "def", "1 +* 2"]
    code_page_something = "print?"
    code_generate_error = "raise RuntimeError('on purpose')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "'\\u00e4'", "result": "'ä'"},
        {"code": "import pandas as pd; pd.DataFrame({'a': [1]})", "mime": "text/html"},
    ]
    code_display_data = [
        {"code": "from IPython.display import *; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>'))", "mime": "image/svg+xml"},
        {"code": "display(Latex('$x^2$'))", "mime": "text/latex"},
        {"code": "display(Math('x^2'))", "mime": "text/latex"},
        {"code": "display(Markdown('*x*'))", "mime": "text/markdown"},
        {"code": "display(Javascript('1'))", "mime": "application/javascript"},
        {"code": "display(JSON({'a': 1}))", "mime": "application/json"},
        {"code": "display(GeoJSON({'type': 'Point', 'coordinates': [0, 0]}))", "mime": "application/geo+json"},
        {"code": "display({'text/plain': 'x', 'application/x-ours': 1}, raw=True)", "mime": "application/x-ours"},
        {"code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "mime": "image/png"},
        {"code": "display(Image(b'\\xff\\xd8\\xff\\xd9', format='jpeg'))", "mime": "image/jpeg"},
        {"code": "display(1, 'two')", "mime": "text/plain"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "wasm"
    support_iopub_welcome = True
