"""The side panel in JupyterLab, used as a person does: run cells, go back and forth, name, compare, fork, look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import Notebook
from tests.conformance.client import eventually

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


@pytest.fixture
def opened(notebook: Callable[..., Notebook], page: Page) -> Iterator[Callable[..., tuple[Notebook, SidePanel]]]:
    """A notebook, all cells run one by one, with the panel beside it."""

    def opened(*cells: str) -> tuple[Notebook, SidePanel]:
        book = notebook(*cells)
        panel = SidePanel(book)
        for number in range(len(cells)):
            book.cell(number).locator(".cm-content").click()
            page.keyboard.press("Shift+Enter")
            book.wait_until_done(number)
        expect(panel.rows()).to_have_count(len(cells) + 1)  # and the start
        return book, panel

    yield opened
    page.keyboard.press("Escape")
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-right-area').then(() => null)")


Opened = Callable[..., tuple[Notebook, SidePanel]]


def test_undo_redo_name_and_compare(opened: Opened) -> None:
    book, panel = opened(*CELLS)
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


def test_a_fork_opens_beside_it_in_a_session_of_its_own(opened: Opened) -> None:
    book, panel = opened("x = 1", "x = 2")
    panel.press("Fork from here", panel.row("x = 1"))
    fork = Notebook(book.lab, book.page, book.shots, book.name.replace(".ipynb", "-fork.ipynb"))
    fork.wait_for_kernel()
    expect(panel.rows()).to_have_count(1)
    assert fork.folder != book.folder
    fork.close()


def test_a_file_that_a_person_uploaded_is_asked_about(opened: Opened) -> None:
    book, panel = opened("x = 1")
    (book.folder / "mine.csv").write_text("a,b\n")
    book.run("x = 2")
    expect(panel.rows()).to_have_count(3)
    panel.press("Undo cell")
    expect(book.page.locator(".jp-Dialog")).to_contain_text("mine.csv")
    book.page.locator(".jp-Dialog .jp-mod-reject").click()
    assert (book.folder / "mine.csv").exists()
    panel.press("Undo cell")
    book.page.locator(".jp-Dialog .jp-mod-warn").click()
    expect(panel.rows("undone")).to_have_count(1)
    assert not (book.folder / "mine.csv").exists()


def test_the_shield_asks_before_it_trusts(opened: Opened) -> None:
    book, panel = opened("x = 1")
    usage = book.page.locator(".jp-WasmKernel-usageButton")
    expect(usage).to_contain_text("Sealed")
    book.press("wasm-kernel-trust")
    book.page.locator(".jp-Dialog .jp-mod-reject").click()
    expect(usage).to_contain_text("Sealed")
    book.press("wasm-kernel-trust")
    book.page.locator(".jp-Dialog .jp-mod-warn").click()
    expect(usage).to_contain_text("Trusted")
    book.press("wasm-kernel-trust")
    expect(usage).to_contain_text("Sealed")


def test_after_a_restart_of_the_kernel_it_is_connected_again(opened: Opened) -> None:
    book, panel = opened("x = 1")
    book.restart()
    number = book.run("y = 2")
    expect(panel.rows("now")).to_contain_text("y = 2")
    assert panel.variables() == ["y"], number


def test_each_theme_looks_well(opened: Opened, shots: Path) -> None:
    book, panel = opened(*CELLS)
    panel.press("Undo cell")
    expect(panel.rows("undone")).to_have_count(1)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        book.theme(theme)
        panel.row("x = 2").hover()
        book.screenshot(f"side-panel-{theme.split()[-1].lower()}")
    book.theme("JupyterLab Light")


def entry(book: Notebook, name: str) -> Locator:
    """A file or folder in the panel's file browser."""
    return book.page.locator(".jp-WasmKernel-files .jp-DirListing-item").filter(has_text=name)


def upload(page: Page, path: Path) -> None:
    """Press "Upload" and choose a file."""
    with page.expect_file_chooser() as chosen:
        page.locator(".jp-WasmKernel").get_by_role("button", name="Upload").click()
    chosen.value.set_files(path)


def test_files_open_in_labs_own_viewers(opened: Opened) -> None:
    book, panel = opened("open('cities.csv', 'w').write('city,n\\nBern,1\\n'); open('note.txt', 'w').write('first')")
    page = book.page
    entry(book, "cities.csv").dblclick()
    expect(page.locator(".jp-CSVViewer")).to_be_visible()

    entry(book, "note.txt").dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    expect(editor).to_have_text("first")
    editor.fill("second")
    page.keyboard.press("Control+s")
    eventually(lambda: (book.folder / "note.txt").read_text() == "second")
    book.command("docmanager:open", wait=True, path=book.name, factory="Notebook")
    assert book.text(book.run("print(open('note.txt').read())")).strip() == "second"


def test_files_are_uploaded_renamed_and_deleted(opened: Opened, tmp_path: Path) -> None:
    book, panel = opened("x = 1")
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(150 << 20)
    page = book.page
    upload(page, large)
    expect(entry(book, "large.bin")).to_be_visible()
    assert (book.folder / "large.bin").stat().st_size == 150 << 20

    entry(book, "large.bin").click()
    page.keyboard.press("F2")
    page.locator(".jp-DirListing-editor").fill("renamed.bin")
    page.keyboard.press("Enter")
    expect(entry(book, "renamed.bin")).to_be_visible()
    assert not (book.folder / "large.bin").exists()
    entry(book, "renamed.bin").click()
    page.keyboard.press("Delete")
    page.locator(".jp-Dialog .jp-mod-warn").click()
    expect(entry(book, "renamed.bin")).to_have_count(0)
    assert not (book.folder / "renamed.bin").exists()


def test_an_upload_that_does_not_fit_is_not_sent(opened: Opened, tmp_path: Path) -> None:
    book, panel = opened("x = 1")
    book.run("%session limits disk=1M file=1M")
    file = tmp_path / "too-large.bin"
    file.write_bytes(bytes(2 << 20))
    upload(book.page, file)
    expect(book.page.locator(".jp-Dialog").first).to_contain_text("has room for")
    book.page.keyboard.press("Escape")
    assert not (book.folder / "too-large.bin").exists()


def test_a_file_is_dragged_from_labs_browser_into_the_sandbox(opened: Opened) -> None:
    book, panel = opened("open('mine.txt', 'w').write('m')")
    (book.lab.notebooks / "beside.csv").write_text("a,b\n1,2\n")
    page = book.page
    page.evaluate("() => jupyterapp.commands.execute('filebrowser:activate').then(() => null)")
    page.evaluate("() => jupyterapp.commands.execute('filebrowser:refresh').then(() => null)")
    theirs = page.locator("#filebrowser .jp-DirListing-item").filter(has_text="beside.csv")
    expect(theirs).to_be_visible()
    target = entry(book, "mine.txt").bounding_box()
    source = theirs.bounding_box()
    assert target is not None and source is not None
    page.mouse.move(source["x"] + 60, source["y"] + 8)
    page.mouse.down()
    for step in range(1, 11):
        page.mouse.move(
            source["x"] + 60 + (target["x"] + 60 - source["x"] - 60) * step / 10,
            source["y"] + 8 + (target["y"] + 8 - source["y"] - 8) * step / 10,
        )
    page.mouse.up()
    expect(entry(book, "beside.csv")).to_be_visible()
    assert (book.folder / "beside.csv").read_text() == "a,b\n1,2\n"
    assert (book.lab.notebooks / "beside.csv").exists()
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area').then(() => null)")
