"""Variables in JupyterLab's side panel, and what opens from there: tables of millions of rows, and the form for limits."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import DARK, HIGH_CONTRAST, LIGHT
from tests.browser.side_panel import Opened, variable
from tests.browser.test_accessibility import AXE, OURS, faults

FRAME = (
    "import numpy as np, pandas as pd\n"
    "n = 10_000_000\n"
    "trips = pd.DataFrame({'trip': np.arange(n, dtype='i4'), 'km': np.resize([12.5, np.nan, 0.1], n).astype('f4'),\n"
    "    'day': np.resize(pd.date_range('2026-11-01', periods=30).to_numpy(), n)})\n"
    "cities = pd.DataFrame({'city': ['Bern', None, 'Basel'], 'people': [135_000, 0, 178_000], 'about': ['x' * 90, {'a': 1}, object()]},\n"
    "    index=pd.Index(['BE', '-', 'BS'], name='canton'))\n"
    "cube = np.arange(2 * 3 * 4).reshape(2, 3, 4); names = ['Ada', 'Grace']; ratio = 0.5; text = 'a longer text ' * 20\n"
    "def area(width, height=1): return width * height"
)


class Table:
    """A variable that is open as a table."""

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name
        self.node = page.locator(f".jp-WasmKernel-tableView[id$='-{name}']")
        expect(self.node).to_be_visible()

    def shows(self, row: int, column: int, cell: Any) -> None:
        """Wait until the grid has a cell; what stands for something else is in a list."""
        script = """([name, row, column, wanted]) => {
            const view = [...jupyterapp.shell.widgets('main')].find(w => w.id.endsWith(`-${name}`));
            const model = view.grid.dataModel;
            return row < model.rowCount('body')
                && JSON.stringify(model.data('body', row, column)) === JSON.stringify(wanted);
        }"""
        self.page.wait_for_function(script, arg=[self.name, row, column, cell])

    @property
    def note(self) -> Locator:
        return self.node.locator(".jp-WasmKernel-tableNote")

    @property
    def cursor(self) -> Locator:
        return self.node.locator(".jp-WasmKernel-tableCell")

    def click(self, x: float, y: float) -> None:
        """Click at a place in the grid, from its upper left."""
        self.node.locator(".lm-DataGrid-viewport").click(position={"x": x, "y": y})


def test_first_values_sorted_and_searched(opened: Opened) -> None:
    book, panel = opened(FRAME)
    page = book.page
    expect(variable(page, "cities")).to_contain_text("city: Bern, NaN, Basel; people: 135000, 0, 178000")
    expect(variable(page, "cities")).to_contain_text("3 × 3")
    expect(variable(page, "cube")).to_contain_text("2 × 3 × 4")
    expect(variable(page, "names")).to_contain_text("['Ada', 'Grace']")
    expect(variable(page, "ratio")).to_contain_text("0.5")
    expect(variable(page, "area")).to_contain_text("area(width, height)")
    page.get_by_role("columnheader", name="Size").get_by_role("button").click()
    page.get_by_role("columnheader", name="Size").get_by_role("button").click()
    assert panel.variables()[0] == "trips"
    page.get_by_role("searchbox", name="Search variables").fill("grace")
    assert panel.variables() == ["names"]
    page.get_by_role("searchbox", name="Search variables").fill("")
    book.run("names.append('Barbara'); ratio = 0.75")
    expect(variable(page, "names")).to_contain_text("['Ada', 'Grace', 'Barbara']")
    expect(variable(page, "ratio")).to_contain_text("0.75")


def test_a_table_of_ten_million_rows(opened: Opened) -> None:
    book, panel = opened(FRAME)
    page = book.page
    variable(page, "trips").get_by_role("button", name="trips").press("Enter")
    table = Table(page, "trips")
    expect(table.node).to_contain_text("DataFrame, 10,000,000 × 3")
    table.shows(0, 1, "12.5")
    table.shows(1, 1, ["NaN"])
    table.click(100, 60)  # into its first row
    expect(table.cursor).to_contain_text("Row 0")
    page.keyboard.press("Control+ArrowDown")
    table.shows(9_999_999, 0, "9999999")
    expect(table.cursor).to_contain_text("Row 9999999")
    page.keyboard.press("ArrowUp")
    expect(table.cursor).to_contain_text("Row 9999998")

    book.run("trips.loc[9_999_999, 'trip'] = -7")
    table.shows(9_999_999, 0, "-7")
    book.run("trips = trips[:5]")
    expect(table.node).to_contain_text("DataFrame, 5 × 3")
    book.run("del trips")
    expect(table.note).to_have_text("There is no variable trips now.")
    table.shows(4, 0, "4")
    panel.press("Undo cell")
    expect(table.note).to_have_text("")


def test_a_table_that_was_closed_opens_again(opened: Opened) -> None:
    book, _ = opened(FRAME)
    for _ in range(2):
        variable(book.page, "cities").get_by_role("button", name="cities").click()
        table = Table(book.page, "cities")
        table.shows(2, 0, "Basel")
        tab = book.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=re.compile("^cities$"))
        tab.locator(".lm-TabBar-tabCloseIcon").click()
        expect(table.node).to_have_count(0)


def test_a_table_waits_until_the_cell_has_ended(opened: Opened) -> None:
    book, panel = opened(FRAME)
    variable(book.page, "cities").dblclick()
    table = Table(book.page, "cities")
    table.shows(2, 0, "Basel")
    number = book.start("import time\nwhile True: time.sleep(0.1)")
    variable(book.page, "cube").dblclick()
    cube = Table(book.page, "cube")
    expect(cube.note).to_have_text("A cell is running: more is fetched when it has ended.")
    book.interrupt()
    book.wait_until_done(number)
    cube.shows(0, 3, "3")
    cube.node.get_by_role("spinbutton", name="Position on axis 0").fill("1")
    cube.shows(0, 3, "15")
    assert book.page.locator(".jp-WasmKernel-tableView").count() == 2

    book.run("del cube")
    expect(cube.note).to_have_text("There is no variable cube now.")
    assert cube.note.evaluate("note => note.scrollWidth - note.clientWidth") <= 0, "it is cut"


def test_each_theme_looks_well_and_axe_finds_nothing_serious(opened: Opened) -> None:
    book, panel = opened(FRAME)
    page = book.page
    expect(variable(page, "cities")).to_contain_text("Bern")
    for name in ("cube", "cities"):
        variable(page, name).dblclick()
        table = Table(page, name)
    table.shows(1, 0, ["NaN"])
    table.click(100, 60)
    for theme in (HIGH_CONTRAST, DARK, LIGHT):
        book.theme(theme)
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        page.screenshot(path=book.shots / f"side-panel-tables-{theme.split()[-1].lower()}.png")
        assert faults(page, AXE.read_text(), *OURS, ".jp-WasmKernel-tableView:not(.lm-mod-hidden)") == []
        page.get_by_role("button", name="Change the limits").click()
        expect(page.locator(".jp-Dialog").get_by_label("memory", exact=True)).to_be_focused()
        page.locator(".jp-Dialog").screenshot(path=book.shots / f"side-panel-limits-{theme.split()[-1].lower()}.png")
        assert faults(page, AXE.read_text(), ".jp-Dialog") == []
        page.keyboard.press("Escape")
        expect(page.locator(".jp-Dialog")).to_have_count(0)


def test_limits_are_raised_within_their_maxima(opened: Opened) -> None:
    book, panel = opened("x = 1")
    page = book.page
    page.get_by_role("button", name="Change the limits").click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("at most 4.0 GB")
    dialog.get_by_label("memory", exact=True).fill("9 G")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_contain_text("memory is '9G'; it must be from")
    expect(dialog.get_by_label("memory", exact=True)).to_have_value("9 G")
    dialog.get_by_label("memory", exact=True).fill("3 G")
    dialog.get_by_label("timeout", exact=True).fill("90 s")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".jp-WasmKernel-usage")).to_contain_text("/ 3.0 GB")
    assert "3.0 GB" in book.text(book.run("%session limits"))


def test_a_notebooks_text_cannot_change_limits(opened: Opened) -> None:
    """A command that a link in a notebook may name does no more than ask the person, whatever it is given."""
    book, panel = opened("x = 1")
    book.command("wasm-kernel:change-limits", memory="3G", change="memory=3G", limits={"memory": "3G"})
    expect(book.page.locator(".jp-Dialog").get_by_label("memory", exact=True)).to_be_focused()
    book.page.keyboard.press("Escape")
    expect(book.page.locator(".jp-Dialog")).to_have_count(0)
    expect(book.page.locator(".jp-WasmKernel-usage")).to_contain_text("/ 2.0 GB")
