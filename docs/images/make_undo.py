"""Makes docs/images/undo.png, the picture at the top of the README: `python -m docs.images.make_undo`.

A real JupyterLab with the real kernel in a real Chromium, both started as the browser tests start them.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import ViewportSize

from tests.browser import chromium
from tests.browser.lab import LIGHT, PATIENCE, Notebook, open_lab, running_browser, running_lab

PICTURE = Path(__file__).with_name("undo.png")
CELLS = (
    """\
import pandas as pd

peaks = pd.DataFrame({"peak": ["Denali", "Aconcagua", "Everest"],
                      "metres": [6190, 6961, 8849]})
peaks.to_csv("peaks.csv")
peaks.plot.barh(x="peak", figsize=(6.5, 1.5), legend=False, ylabel="");""",
    """\
import os
os.remove("peaks.csv")  # oops
del peaks""",
    "%session undo",
    """\
%ls
peaks""",
)
UNDO = 2  # the cell to look at
SIZE: ViewportSize = {"width": 820, "height": 1000}
MARGIN = 12
# Figures as sharp as the screen.
STARTUP = "get_ipython().run_line_magic('config', \"InlineBackend.figure_formats = ['retina']\")"


def main() -> None:
    """Run the notebook, photograph it, write the picture."""
    with notebook_in_lab("mountains.ipynb", CELLS, SIZE) as notebook:
        notebook.command("statusbar:toggle", wait=True)
        for side in ("left", "right"):
            notebook.command("application:toggle-side-tabbar", wait=True, side=side)
        notebook.run_all()
        notebook.command("notebook:delete-cell", wait=True)  # the empty one at the end
        notebook.save()
        photograph(notebook)


@contextlib.contextmanager
def notebook_in_lab(name: str, cells: tuple[str, ...], size: ViewportSize, sharpness: float = 2) -> Iterator[Notebook]:
    """A notebook in a window of this size, sharper than on a screen."""
    browser = chromium.find()
    if browser is None:
        raise SystemExit(chromium.MISSING)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = folder / "lab" / "config" / "jupyter_wasm_kernel_config.py"
        config.parent.mkdir(parents=True)
        config.write_text(f"c.WasmKernel.startup_code = {STARTUP!r}\n")
        with running_lab(folder / "lab", folder / "lab.log") as lab, running_browser(browser) as plain:
            assert plain.browser is not None
            sharp = plain.browser.new_context(viewport=size, device_scale_factor=sharpness)
            sharp.set_default_timeout(PATIENCE * 1000)
            notebook = Notebook.make(lab, open_lab(sharp, lab), folder, name, cells)
            notebook.theme(LIGHT)
            yield notebook
            sharp.close()


def photograph(notebook: Notebook) -> None:
    """From the menu to the last output, with the cell that undid selected."""
    notebook.cell(UNDO).locator(".jp-InputPrompt").click()
    notebook.page.mouse.move(0, 0)
    notebook.page.wait_for_timeout(1000)  # until the figure is drawn and the hints are gone
    last = notebook.output(-1).bounding_box()
    assert last is not None
    bottom = last["y"] + last["height"] + MARGIN
    notebook.page.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": bottom})


if __name__ == "__main__":
    main()
