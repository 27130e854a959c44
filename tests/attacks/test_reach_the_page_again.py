"""Reach the page around the seal: by what the seal and JupyterLab, or Chromium, read in two ways.

Each attempt was a hole once. It wants a script to run with the page's rights, which notes its name in the page; or
a call to another port; or a style of the page's own.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest

from tests.browser import chromium
from tests.browser.lab import Notebook, open_lab, running_browser, running_lab

pytestmark = pytest.mark.timeout(600)

_PRELUDE = r"""
import comm, ipywidgets as w
from IPython.display import HTML, Markdown, display

def model(name, **state):
    "A widget's model that no class of ipywidgets has looked at."
    controls, layout = '@jupyter-widgets/controls', 'IPY_MODEL_' + w.Layout().model_id
    state = {'_model_name': name + 'Model', '_model_module': controls, '_model_module_version': '2.0.0',
             '_view_name': name + 'View', '_view_module': controls, '_view_module_version': '2.0.0',
             'layout': layout, 'description': '', **state}
    return comm.create_comm(target_name='jupyter.widget', data={'state': state, 'buffer_paths': []},
                            metadata={'version': '2.1.0'})

def change(made, **state):
    made.send(data={'method': 'update', 'state': state, 'buffer_paths': []})

def view(made):
    data = {'model_id': made.comm_id, 'version_major': 2, 'version_minor': 0}
    display({'application/vnd.jupyter.widget-view+json': data, 'text/plain': 'a widget'}, raw=True)
"""
_IMG = '<img src=x onerror="(window.reached ??= []).push(`{name}`)">'
ATTEMPTS = {
    # The seal takes a model for another than the page does, because the guest has answered where no page asked.
    "states-that-nobody-asked-for": """
m = model('HTML', value='x')
view(m)
c = comm.create_comm(target_name='jupyter.widget.control', data={})
state = {'model_name': 'TextModel', 'model_module': '@jupyter-widgets/controls', 'model_module_version': '2.0.0',
         'state': {'_view_name': 'TextView', '_view_module': '@jupyter-widgets/controls'}}
c.send(data={'method': 'update_states', 'states': {m.comm_id: state}, 'buffer_paths': []})
change(m, value='''{img}''')
""",
    # ipywidgets shows errors as HTML.
    "error-of-a-format": "view(model('IntSlider', value=1, min=0, max=5, step=1, orientation='horizontal', readout_format='''{img}'''))",
    "error-of-numbers": "view(model('FloatsInput', value=[1], format='''{img}''', tag_style='', allow_duplicates=True))",
    "error-of-a-picture": "view(model('ToggleButton', value=True, button_style='', icon='''{img}'''))",
    "error-of-a-model": "m = model('NoSuch')\nchange(m, msg='''{img}''')\nview(m)",
    "error-and-its-stack": "m = model('NoSuch')\nchange(m, error={'stack': '''{img}'''})\nview(m)",
    # What the check of an attribute raises makes nh3 keep it.
    "number-of-many-digits": "HTML('<p style=\"background: url({url}); width: ' + '1' * 5000 + 'px\">x</p>')",
    # tinycss2 hands out names without their escapes.
    "name-with-escapes": "HTML(r'<p style=\"x\\3b background\\3aurl\\28{escaped}\\29\\3b y:[1]\">x</p>')",
    "name-with-braces": "HTML(r'<style>.a[b] { x\\7d body\\7b --{name}:1 }</style>x')",
    # MathJax reads across a <wbr>.
    "command-in-two-pieces": r"HTML(r'$\unic<wbr>ode[x; background: url({url})]{x41}$')",
    "mathematics-by-a-link": r"""
t, l = w.Text(r'$\unicode[x; background: url({url})]{x41}$'), w.Label('x')
link = w.jslink((t, 'value'), (l, 'value'))
display(w.VBox([t, l]))
link.source = (t, 'value')
""",
    "drawing-of-pictures": "Markdown('''~~~mermaid\nflowchart TD\n  A@{ img: \"{url}\", label: \"x\" }\n~~~''')",
    "drawing-with-styles": """Markdown('''``` mermaid
%%{init: {"themeCSS": "* { background: url({url}) }"}}%%
graph TD; A-->B
```''')""",
    # Chromium plays what the bytes are, whatever type they have: a list of addresses.
    "list-of-films": (
        r"w.Video(value=b'#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{url}\n#EXT-X-ENDLIST\n', "
        "format='mp4')"
    ),
}


class _Listener:
    """Another port: whoever calls it has got something out."""

    def __init__(self) -> None:
        self.heard: set[str] = set()
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.add(self.path.strip("/"))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _reached(folder: Path, shots: Path, kernel: str) -> set[str]:
    """Run all attempts, and click on every error."""
    browser = chromium.find()
    if browser is None:
        pytest.skip(chromium.MISSING)
    command = ["python", "-m", "wasm_kernel", "-f", "{connection_file}", "--WasmKernel.seal_outputs=False"]
    spec = {"argv": command, "display_name": "unsealed", "language": "python", "interrupt_mode": "message"}
    (folder / "data/kernels/unsealed").mkdir(parents=True)
    (folder / "data/kernels/unsealed/kernel.json").write_text(json.dumps(spec))
    listener = _Listener()
    cells = [_cell(name, code, f"{listener.url}/{name}") for name, code in ATTEMPTS.items()]
    with running_lab(folder, shots / f"lab-again-{kernel}.log") as lab, running_browser(browser) as context:
        content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (_PRELUDE, *cells, "")])
        content.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        nbformat.write(content, lab.notebooks / "again.ipynb")
        page = open_lab(context, lab)
        notebook = Notebook(lab, page, shots, "again.ipynb")
        notebook.open()
        notebook.run_all(within=300)
        page.wait_for_timeout(4000)
        for error in page.locator(".jupyter-widgets-error-widget").all():
            error.click()
        page.wait_for_timeout(4000)
        styled = {
            name
            for name in ATTEMPTS
            if page.evaluate("name => getComputedStyle(document.body).getPropertyValue(`--${name}`)", name)
        }
        scripts = set(page.evaluate("() => window.reached ?? []"))
        notebook.close()
    listener.close()
    return (listener.heard | scripts | styled) & ATTEMPTS.keys()


def _cell(name: str, code: str, url: str) -> str:
    escaped = re.sub(r"[^\w-]", lambda found: f"\\{ord(found[0]):x} ", url)
    values = {"img": _IMG.replace("{name}", name), "name": name, "url": url, "escaped": escaped}
    return re.sub(r"\{(img|name|url|escaped)\}", lambda found: values[found[1]], code)


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory, shots: Path) -> Callable[[str], set[str]]:
    found: dict[str, set[str]] = {}

    def by(kernel: str) -> set[str]:
        if kernel not in found:
            found[kernel] = _reached(tmp_path_factory.mktemp(kernel), shots, kernel)
        return found[kernel]

    return by


@pytest.mark.parametrize("name", ATTEMPTS)
def test_does_not_get_through(name: str, reached: Callable[[str], set[str]]) -> None:
    assert name not in reached("wasm")


@pytest.mark.parametrize("name", ATTEMPTS)
def test_gets_through_when_sealing_is_off(name: str, reached: Callable[[str], set[str]]) -> None:
    assert (name in reached("unsealed")) is (name not in _ONLY_BY_THE_SEAL)


# The seal itself has made these: without it a browser takes the escapes for what they are.
_ONLY_BY_THE_SEAL = {"name-with-escapes", "name-with-braces"}
