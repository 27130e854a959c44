"""Makes docs/images/side-panel.png, the README's picture of the side panel: `python -m docs.images.make_side_panel`."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import ViewportSize, expect

from docs.images.make_undo import notebook_in_lab
from tests.browser.lab import Notebook
from tests.browser.side_panel import SidePanel, run_beside_panel

PICTURE = Path(__file__).with_name("side-panel.png")
CELLS = (
    """\
import pandas as pd

peaks = pd.DataFrame({"peak": ["Denali", "Aconcagua", "Everest", "Kibo"],
                      "metres": [6190, 6961, 8849, 5895]})""",
    """\
peaks["feet"] = (peaks.metres / 0.3048).round().astype(int)
peaks.to_csv("peaks.csv")""",
    """\
high = peaks[peaks.metres > 6000].sort_values("metres")
high.plot.barh(x="peak", y="metres", figsize=(7, 1.6), legend=False, ylabel="");""",
    """\
import os
os.remove("peaks.csv")  # oops
peaks = peaks[peaks.metres > 9000]""",
)
NAMED = 'peaks["feet"]'
SIZE: ViewportSize = {"width": 1280, "height": 720}
WIDER = 60  # pixels that the panel gets in addition


def main() -> None:
    """Run the cells, undo the last, name a moment, and photograph all of it."""
    with notebook_in_lab("mountains.ipynb", CELLS, SIZE, sharpness=1.5) as notebook:
        notebook.command("application:toggle-side-tabbar", wait=True, side="left")
        _, panel = run_beside_panel(notebook)
        widen(notebook)
        panel.press("Name it", panel.row(NAMED))
        notebook.page.locator(".jp-Dialog input").fill("with feet")
        notebook.confirm()
        panel.press("Undo cell")
        expect(panel.rows("undone")).to_have_count(1)
        notebook.command("notebook:delete-cell", wait=True)  # the empty one at the end
        notebook.save()
        photograph(panel)


def widen(notebook: Notebook) -> None:
    """Drag the panel's edge to the left."""
    page = notebook.page
    edge = page.locator(".jp-WasmKernel").bounding_box()
    assert edge is not None
    page.mouse.move(edge["x"] - 2, 400)
    page.mouse.down()
    page.mouse.move(edge["x"] - WIDER, 400, steps=5)
    page.mouse.up()


def photograph(panel: SidePanel) -> None:
    """With the pointer on the row that has a name, where its buttons are seen."""
    panel.page.locator(".jp-NotebookPanel .jp-WindowedPanel-outer").evaluate("n => n.scrollTop = 0")
    panel.row(NAMED).hover()
    panel.page.wait_for_timeout(3000)  # until hints and notifications are gone
    panel.page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
