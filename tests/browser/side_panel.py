"""The side panel as a person uses it: its rows and buttons, its variables, its file browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import Notebook

CELLS = (
    "x = 1",
    "open('a.txt', 'w').write('one'); y = [x, x]",
    "x = 2",
    "1/0",
    "z = 'last'",
)


class SidePanel:
    """The panel, open beside a notebook."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook, self.page = notebook, notebook.page
        notebook.command("wasm-kernel:show-timeline", wait=True)

    def rows(self, state: str = "") -> Locator:
        """The rows in a state, newest first."""
        return self.page.locator(f".jp-WasmKernel-row{f'[data-state={state}]' if state else ''}")

    def row(self, text: str) -> Locator:
        """The row of a cell."""
        return self.rows().filter(has_text=text)

    def press(self, label: str, row: Locator | None = None) -> None:
        """Press a button, of a row or above them; a row's are seen where the pointer is."""
        if row is not None:
            row.hover()
        button = (row or self.page.locator(".jp-WasmKernel-bar")).get_by_role("button", name=label)
        expect(button).to_be_enabled()
        button.click()

    def variables(self) -> list[str]:
        """The names in the table of variables."""
        return [name.strip() for name in self.page.locator(".jp-WasmKernel-table tbody th").all_inner_texts()]


Opened = Callable[..., tuple[Notebook, SidePanel]]


def run_beside_panel(book: Notebook) -> tuple[Notebook, SidePanel]:
    """Open the panel beside a notebook, and run its cells one by one."""
    panel = SidePanel(book)
    cells = book.panel.locator(".jp-CodeCell").count() - 1  # the last is to type into
    for number in range(cells):
        book.cell(number).locator(".cm-content").click()
        book.page.keyboard.press("Shift+Enter")
        book.wait_until_done(number)
    expect(panel.rows()).to_have_count(cells + 1)  # and the start
    return book, panel


def entry(book: Notebook, name: str) -> Locator:
    """A file or folder in the panel's file browser."""
    return book.page.locator(".jp-WasmKernel-files .jp-DirListing-item").filter(has_text=name)


def upload(page: Page, path: Path) -> None:
    """Press "Upload" and choose a file."""
    with page.expect_file_chooser() as chosen:
        page.locator(".jp-WasmKernel").get_by_role("button", name="Upload").click()
    chosen.value.set_files(path)


def drag(source: Locator, target: Locator) -> None:
    """With the mouse, from one row of a file browser to another."""
    expect(source).to_be_visible()
    expect(target).to_be_visible()
    begin, end, mouse = source.bounding_box(), target.bounding_box(), source.page.mouse
    assert begin is not None and end is not None
    x, y = begin["x"] + 60, begin["y"] + 8
    mouse.move(x, y)
    mouse.down()
    for step in range(1, 11):
        mouse.move(x + (end["x"] + 60 - x) * step / 10, y + (end["y"] + 8 - y) * step / 10)
    mouse.up()


def walk_through_time(book: Notebook, panel: SidePanel) -> None:
    """After `CELLS` ran: undo two, redo one, name, compare, and back to the first cell."""
    failed = panel.row("1/0")
    expect(failed).to_have_attribute("data-failed", "true")
    expect(panel.row("open(")).to_contain_text("a.txt")
    assert panel.variables() == ["x", "y", "z"]

    panel.press("Undo cell")
    expect(panel.rows("undone")).to_have_count(1)
    book.press("wasm-kernel-undo")
    expect(panel.rows("undone")).to_have_count(2)
    expect(panel.rows("now")).to_contain_text("x = 2")
    assert "jp-mod-wasmUndone" in (book.cell(3).get_attribute("class") or "")
    assert "jp-mod-wasmUndone" not in (book.cell(2).get_attribute("class") or "")
    assert panel.variables() == ["x", "y"]

    panel.press("Redo cell")
    expect(panel.rows("undone")).to_have_count(1)

    panel.press("Name it", panel.row("y = [x, x]"))
    book.page.locator(".jp-Dialog input").fill("with a file")
    book.confirm()
    expect(panel.row("y = [x, x]").locator(".jp-WasmKernel-label")).to_have_text("with a file")

    panel.press("Compare with now", panel.row("x = 1"))
    dialog = book.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("a.txt")
    expect(dialog.locator("tbody tr").filter(has_text="x").first).to_contain_text("2")
    book.confirm()

    panel.press("Back to here", panel.row("x = 1"))
    expect(panel.rows("now")).to_contain_text("x = 1")
    number = book.run("import os; print(os.listdir(), x)")
    assert book.text(number).strip() == "[] 1"


def variable(page: Page, name: str) -> Locator:
    """A variable in the table of them."""
    exactly = page.get_by_role("rowheader", name=name, exact=True)
    return page.locator(".jp-WasmKernel-variables tbody").filter(has=exactly)
