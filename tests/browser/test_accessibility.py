"""The side panel for everybody: axe finds nothing serious in any theme, and a keyboard alone does everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import DARK, HIGH_CONTRAST, LIGHT, Notebook
from tests.browser.side_panel import Opened, SidePanel

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
OURS = ".jp-WasmKernel", ".jp-WasmKernel-usage"
LABS_OWN = "jp-button"  # buttons of Lab's toolbars, everywhere: they have an aria-pressed that they may not have
CELLS = (
    "x = 1",
    "open('a.txt', 'w').write('one'); y = [x, x]",
    "del y; x = 2",
    "1/0",
    "z = 'last'",
)


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        pytest.skip("axe-core is not installed; `python labextension/build.py test` does it")
    return AXE.read_text()


def faults(page: Page, axe: str, *parts: str) -> list[str]:
    """What axe calls serious or critical in parts of the page."""
    for part in parts:
        expect(page.locator(part)).to_be_visible()
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe)
    # A colour on its way to another is neither; a cursor blinks for ever.
    page.evaluate(
        """() => Promise.allSettled(document.getAnimations()
            .filter(a => a.effect.getComputedTiming().endTime < Infinity).map(a => a.finished))"""
    )
    found = page.evaluate(
        "([parts, not]) => axe.run({include: parts.map(p => [p]), exclude: [[not]]}, {resultTypes: ['violations']})",
        [list(parts), LABS_OWN],
    )
    return [
        f"{fault['id']}: {node['html'][:200]}: {node['failureSummary'][:300]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("theme", [LIGHT, DARK, HIGH_CONTRAST])
def test_axe_finds_nothing_serious(opened: Opened, axe: str, theme: str) -> None:
    book, panel = opened(*CELLS)
    book.theme(theme)
    panel.press("Undo cell")
    expect(panel.rows("undone")).to_have_count(1)
    panel.press("Name it", panel.row("y = [x, x]"))
    assert faults(book.page, axe, ".jp-Dialog") == []
    book.page.locator(".jp-Dialog input").fill("with a file")
    book.confirm()
    expect(panel.row("y = [x, x]").locator(".jp-WasmKernel-label")).to_be_visible()
    panel.row("x = 2").hover()  # its buttons are seen
    assert faults(book.page, axe, *OURS) == []

    panel.press("Compare with now", panel.row("x = 1"))
    assert faults(book.page, axe, ".jp-Dialog") == []
    book.confirm()
    book.press("wasm-kernel-trust")
    assert faults(book.page, axe, ".jp-Dialog") == []
    book.page.locator(".jp-Dialog .jp-mod-reject").click()


def test_the_list_of_session_files(opened: Opened, axe: str) -> None:
    book, _ = opened("open('a.txt', 'w').write('one')")
    number = book.run("%session files")
    expect(book.output(number).get_by_text("a.txt").first).to_be_visible()
    book.output(number).evaluate("o => o.id = 'listed-files'")
    for theme in (DARK, HIGH_CONTRAST, LIGHT):
        book.theme(theme)
        assert faults(book.page, axe, "#listed-files") == []


def focused(page: Page) -> Locator:
    return page.locator(":focus")


def press_until(page: Page, key: str, wanted: Locator, most: int = 40) -> None:
    """Press a key until the focus is where it is wanted, which must come soon."""
    for _ in range(most):
        if wanted.count() and wanted.first.evaluate("e => e === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {wanted}")


def test_a_keyboard_does_it_all(opened: Opened) -> None:
    book, panel = opened(*CELLS)
    page = book.page
    undo, redo = (
        panel.page.locator(".jp-WasmKernel-bar").get_by_role("button", name=name) for name in ("Undo", "Redo")
    )
    undo.focus()
    for _ in range(len(CELLS)):
        page.keyboard.press("Enter")
        page.wait_for_timeout(50)
    expect(panel.rows("undone")).to_have_count(len(CELLS))
    expect(undo).to_be_focused()  # though it can do nothing more
    expect(undo).to_have_attribute("aria-disabled", "true")
    expect(page.locator(".jp-WasmKernel-told")).to_contain_text("Now at")

    page.keyboard.press("Tab")
    expect(redo).to_be_focused()
    expect(redo).not_to_have_attribute("aria-disabled", "true")  # the last undo is over
    page.keyboard.press("Enter")
    expect(panel.rows("undone")).to_have_count(len(CELLS) - 1)

    page.keyboard.press("Tab")  # one stop for all rows
    expect(panel.rows().first).to_be_focused()
    assert panel.rows().first.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("End")
    expect(panel.rows().last).to_be_focused()
    page.keyboard.press("Home")
    press_until(page, "ArrowDown", panel.row("open("))
    page.keyboard.press("Tab")
    expect(focused(page)).to_have_attribute("aria-label", "Back to here")
    page.keyboard.press("Enter")
    expect(panel.rows("now")).to_contain_text("open(")
    expect(focused(page)).to_have_attribute("aria-label", "Back to here")
    assert (book.folder / "a.txt").exists()

    name_it(panel, "by hand")
    compare = panel.row("1/0").get_by_role("button", name="Compare with now")
    page.keyboard.press("Shift+Tab")
    press_until(page, "Shift+Tab", panel.row("open("))
    press_until(page, "ArrowUp", panel.row("1/0"))
    press_until(page, "Tab", compare)
    page.keyboard.press("Enter")
    expect(page.locator(".jp-Dialog")).to_contain_text("From cell")
    expect(page.locator(".jp-Dialog :focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(compare).to_be_focused()


def name_it(panel: SidePanel, name: str) -> None:
    """Name the row in which the focus is, by keys."""
    page = panel.page
    button = panel.row("open(").get_by_role("button", name="Name it")
    press_until(page, "Tab", button)
    page.keyboard.press("Enter")
    expect(page.locator(".jp-Dialog input")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(panel.row("open(").locator(".jp-WasmKernel-label")).to_have_text(name)
    expect(button).to_be_focused()


def test_the_palette_and_keys_undo_and_redo(opened: Opened) -> None:
    book, panel = opened("x = 1", "x = 2")
    book.cell(0).locator(".cm-content").click()
    book.page.keyboard.press("Control+Alt+z")  # as AltGr: in a cell it writes, on a Polish keyboard a letter
    book.page.keyboard.press("Escape")
    book.page.keyboard.press("Control+Alt+z")
    expect(panel.rows("undone")).to_have_count(1)
    book.page.wait_for_timeout(300)
    expect(panel.rows("undone")).to_have_count(1)
    book.page.keyboard.press("Control+Alt+y")
    expect(panel.rows("undone")).to_have_count(0)
    from_palette(book, "Undo Cell Execution")
    expect(panel.rows("undone")).to_have_count(1)


def from_palette(book: Notebook, command: str) -> None:
    """Ctrl Shift C, a few letters, Enter."""
    page = book.page
    page.keyboard.press("Control+Shift+c")
    page.locator(".lm-CommandPalette-input").fill(command)
    expect(page.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(command)
    page.keyboard.press("Enter")
