"""A session in which a thousand cells ran: all are in the timeline, few are in the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.lab import DARK, LIGHT, PATIENCE, Notebook
from tests.browser.side_panel import SidePanel
from wasm_kernel.host.disk.locks import state_folder
from wasm_kernel.kernel.input_history import History

CELLS = 1000
_NODES = "() => document.querySelectorAll('.jp-WasmKernel-view *').length"
_SCROLL = """top => {
    const view = document.querySelector('.jp-WasmKernel-view');
    view.scrollTop = top < 0 ? view.scrollHeight : top;
}"""


def with_a_past(book: Notebook) -> None:
    """Close a notebook, and let it come back with the history of a thousand cells."""
    session = book.folder
    book.close()
    book.page.wait_for_timeout(500)
    history = History(state_folder(session.parent) / "history" / session.name / "history.sqlite")
    for number in range(1, CELLS + 1):
        changes = {"added": [f"name_{number}"], "changed": ["total"], "removed": []}
        files = {"added": [f"data/part-{number}.csv"] if number % 10 == 0 else [], "changed": [], "removed": []}
        about = {"seconds": number / 1000, "ok": number % 7 != 0, "variables": changes, "files": files}
        history.finished(history.add(number, f"name_{number} = {number}\ntotal += name_{number}", runs=True), about)
        history.saved(number + 1)
    history.close()
    book.open()


def test_a_thousand_rows(notebook: Callable[..., Notebook], page: Page, shots: Path) -> None:
    book = notebook()
    book.run("x = 1")
    with_a_past(book)
    panel = SidePanel(book)
    expect(panel.rows().first).to_be_visible()
    oldest, most = panel.rows().filter(has_text="name_1 = 1"), 0
    end = time.monotonic() + 2 * PATIENCE
    while not oldest.count():  # to the end, which comes as it is scrolled to
        assert time.monotonic() < end, panel.rows().last.inner_text()
        page.evaluate(_SCROLL, -1)
        page.wait_for_timeout(100)
        most = max(most, page.evaluate(_NODES))
    assert int(oldest.get_attribute("aria-setsize") or 0) >= int(oldest.get_attribute("aria-posinset") or 0) >= CELLS
    for top in range(0, 60_000, 3000):
        page.evaluate(_SCROLL, top)
        page.wait_for_timeout(30)
        most = max(most, page.evaluate(_NODES))
    assert most < 5000, "a thousand rows have some 25,000 elements"
    assert panel.rows().count() < 200

    gone = panel.row("name_900 = 900")
    page.evaluate(_SCROLL, 0)
    end = time.monotonic() + 2 * PATIENCE
    while not gone.count():
        assert time.monotonic() < end, panel.rows().last.inner_text()
        page.evaluate("() => { document.querySelector('.jp-WasmKernel-view').scrollTop += 400 }")
        page.wait_for_timeout(50)
    gone.hover()
    for label in ("Back to here", "Fork from here", "Name it", "Compare with now"):
        button = gone.get_by_role("button", name=label)
        expect(button).to_be_disabled()
        expect(button).to_have_attribute(
            "title", f"{label}: its checkpoint is gone; the last 30 cells are kept, and moments that have a name"
        )
    for theme in (DARK, LIGHT):
        book.theme(theme)
        gone.hover()
        page.screenshot(path=shots / f"long-timeline-{theme.split()[-1].lower()}.png")
