"""Reach the browser of whoever opens a notebook's export: what nbconvert writes is what the kernel sent.

Pictures and SVG it escapes itself by now.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from playwright.sync_api import BrowserContext

from tests.browser import chromium
from tests.browser.lab import running_browser
from tests.conformance.client import unsealed

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]
_MARK = "top.reached = (top.reached || []).concat(`NAME`)"
CELLS = {
    "script": "HTML(f'<script>{js}</script>')",
    "handler": "HTML(f'<img src=x onerror=\"{js}\">')",
    "frame": "HTML(f'<iframe srcdoc=\"<script>{js}</script>\"></iframe>')",
    "javascript": "Javascript(js)",
    "markdown": "Markdown(f'<img src=x onerror=\"{js}\">')",
}


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    path = chromium.find()
    if path is None:
        pytest.skip(chromium.MISSING)
    with running_browser(path) as context:
        yield context


def _reached(context: BrowserContext, folder: Path) -> set[str]:
    """Run the cells, export the notebook, open the page; which of them ran a script in it."""
    cells = ["from IPython.display import *"]
    cells += [f"js = {_MARK.replace('NAME', name)!r}\ndisplay({code})" for name, code in CELLS.items()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, kernel_name="wasm", timeout=120).execute()
    page, _ = HTMLExporter().from_notebook_node(notebook)
    (folder / "page.html").write_text(page)
    opened = context.new_page()
    opened.route("http*://**", lambda route: route.abort())  # the page's own style and MathJax
    opened.goto((folder / "page.html").as_uri(), wait_until="load")
    opened.wait_for_timeout(500)
    found = set(opened.evaluate("() => window.reached || []"))
    opened.close()
    return found


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "unsealed"])
def test_an_export_runs_nothing(
    sealed: bool, context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(tmp_path / "sessions"))
    if not sealed:
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(unsealed(tmp_path / "config")))
    assert _reached(context, tmp_path) == (set() if sealed else set(CELLS))
