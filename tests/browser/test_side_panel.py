"""The side panel in JupyterLab, used as a person does: run cells, go back and forth, name, compare, fork, look."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.lab import DARK, HIGH_CONTRAST, LIGHT, Notebook
from tests.browser.side_panel import CELLS, Opened, drag, entry, upload, walk_through_time
from tests.conformance.client import eventually

OVERFLOW = "bar => bar.lastElementChild.getBoundingClientRect().right - bar.getBoundingClientRect().right"


def test_undo_redo_name_and_compare(opened: Opened) -> None:
    walk_through_time(*opened(*CELLS))


def test_a_fork_opens_beside_it_in_a_session_of_its_own(opened: Opened) -> None:
    book, panel = opened("x = 1", "x = 2")
    book.rename("renamed_before_a_fork.ipynb")
    panel.press("Fork from here", panel.row("x = 1"))
    fork = Notebook(book.lab, book.page, book.shots, book.name.replace(".ipynb", "-fork.ipynb"))
    fork.wait_for_kernel()
    expect(panel.rows()).to_have_count(1)
    expect(panel.rows()).to_contain_text("forked from cell [1]")
    assert fork.folder != book.folder
    prompts = fork.panel.filter(has_text="x = 1").last.locator(".jp-CodeCell .jp-InputPrompt")
    expect(prompts).to_have_text(["[1]:", "[ ]:", "[ ]:"])  # the second cell did not run there
    fork.close()


def test_it_is_as_it_was_after_the_page_was_loaded_anew(opened: Opened) -> None:
    book, panel = opened("x = 1")
    sizes = """() => [...jupyterapp.shell.widgets('right')].find(w => w.id === 'wasm-kernel-panel')
        .content.relativeSizes().map(size => size.toFixed(1)).join()"""
    wanted = "0.6,0.2,0.2"
    book.page.evaluate(
        f"""() => {{
            const panel = [...jupyterapp.shell.widgets('right')].find(w => w.id === 'wasm-kernel-panel');
            panel.content.setRelativeSizes([{wanted}]);
            jupyterapp.shell.collapseRight();
            jupyterapp.shell.activateById(panel.id);
        }}"""
    )
    assert eventually(lambda: '"sizes": [0.6' in book._layout())
    book.reload()
    expect(panel.row("x = 1")).to_be_visible()
    assert eventually(lambda: book.page.evaluate(sizes) == wanted)


def test_what_is_there_when_the_kernel_has_ended(opened: Opened) -> None:
    book, panel = opened("open('a.txt', 'w').write('one')")
    expect(entry(book, "a.txt")).to_be_visible()
    context = "jupyterapp.shell.currentWidget.sessionContext"
    book.page.evaluate(f"() => {context}.shutdown().then(() => null)")
    hint = book.page.locator(".jp-WasmKernel-hint").first
    expect(hint).to_contain_text("The kernel is not running. Variables and files are kept")
    expect(entry(book, "a.txt")).to_be_visible()
    book.page.evaluate(f"() => {context}.changeKernel({{name: 'python3'}}).then(() => null)")
    expect(hint).to_contain_text("For notebooks with the kernel")
    expect(entry(book, "a.txt")).to_have_count(0)
    book.page.evaluate(f"() => {context}.changeKernel({{name: 'wasm'}}).then(() => null)")
    expect(panel.row("a.txt")).to_be_visible()
    expect(entry(book, "a.txt")).to_be_visible()


def test_files_that_an_undo_changes_are_told_beside_it(opened: Opened) -> None:
    book, panel = opened("open('a.txt', 'w').write('one')")
    told = book.page.locator(".jp-WasmKernel-told")
    panel.press("Undo cell")
    expect(told).to_have_text("Now at Start. Files changed, too: a.txt")
    expect(told).to_have_attribute("data-seen", "true")
    book.run("x = 1")
    expect(told).to_have_text(" ")


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


def test_a_cell_that_was_undone_looks_so_until_it_runs_again(opened: Opened) -> None:
    book, panel = opened("open('go', 'w').close()", "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)")
    panel.press("Undo cell")
    undone = book.panel.locator(".jp-mod-wasmUndone")
    expect(undone).to_have_count(1)
    (book.folder / "go").unlink()
    book.cell(1).locator(".cm-content").click()
    book.page.keyboard.press("Shift+Enter")
    expect(undone).to_have_count(0)  # it has not ended yet
    expect(book.cell(1).locator(".jp-InputPrompt")).to_contain_text("*")
    (book.folder / "go").touch()
    book.wait_until_done(1)
    expect(undone).to_have_count(0)


def test_two_notebooks_side_by_side_have_each_their_own(opened: Opened) -> None:
    left, panel = opened("a = 1", "a = 2")
    page = left.page
    right = Notebook.write(left.lab, page, left.shots, "beside.ipynb", ("b = 1", "b = 2"))
    right.command("docmanager:open", wait=True, path=right.name, factory="Notebook", options={"mode": "split-right"})
    right.wait_for_kernel()
    sides = {
        name: page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)").filter(has_text=f"{name} = 1") for name in "ab"
    }
    for number in (1, 2):
        sides["b"].locator(".jp-CodeCell").nth(number - 1).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        expect(panel.row(f"b = {number}")).to_be_visible()
    expect(panel.rows()).to_have_count(3)

    sides["a"].locator(".cm-content").first.click()
    expect(panel.row("a = 2")).to_be_visible()
    expect(panel.row("b = 2")).to_have_count(0)
    undo = '[data-jp-item-name="wasm-kernel-undo"] .jp-ToolbarButtonComponent'
    sides["b"].locator(undo).click()  # of the notebook that is not the active one
    undone = ".jp-mod-wasmUndone"
    expect(sides["b"].locator(undone)).to_have_count(1)
    expect(sides["a"].locator(undone)).to_have_count(0)
    page.screenshot(path=left.shots / "side-by-side.png")
    sides["a"].locator(".cm-content").first.click()
    expect(panel.rows("now")).to_contain_text("a = 2")
    sides["b"].locator(".cm-content").first.click()
    expect(panel.rows("now")).to_contain_text("b = 1")
    right.close()


def test_each_theme_looks_well_in_narrow_and_wide_windows(opened: Opened, shots: Path) -> None:
    book, panel = opened(
        *CELLS,
        "a_very_long_name_of_a_variable_that_goes_on = list(range(1_000_000)); w = a_very_long_name_of_a_variable_that_goes_on",
    )
    page, size = book.page, book.page.viewport_size
    assert size is not None
    panel.press("Undo cell")
    panel.press("Undo cell")
    expect(panel.rows("undone")).to_have_count(2)
    panel.press("Redo cell")
    expect(panel.rows("undone")).to_have_count(1)
    for theme in (LIGHT, DARK, HIGH_CONTRAST):
        book.theme(theme)
        for width in (900, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            panel.row("x = 2").hover()
            for part in page.locator(".jp-WasmKernel-view").all():
                assert part.evaluate("p => p.scrollWidth - p.clientWidth") <= 0, (width, part)
            page.screenshot(path=shots / f"side-panel-{width}-{theme.removeprefix('JupyterLab ').lower()}.png")
    book.rename("narrow.ipynb")  # Lab shows the name, too
    page.set_viewport_size({"width": 820, "height": 900})
    assert page.locator("#jp-main-statusbar").evaluate(OVERFLOW) <= 0, "Lab's bell is cut"
    panel.press("Compare with now", panel.row("x = 1"))
    expect(page.locator(".jp-Dialog table")).to_be_visible()
    page.screenshot(path=shots / "compare.png")
    book.confirm()
    page.set_viewport_size(size)
    book.theme(LIGHT)


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
    assert eventually(lambda: (book.folder / "note.txt").read_text() == "second")
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
    dialog = book.page.locator(".jp-Dialog")
    upload(book.page, file)
    expect(dialog).to_contain_text("a file may have 1.0 MB at most")
    book.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert not (book.folder / "too-large.bin").exists()

    book.page.wait_for_timeout(600)  # sooner it would count as one upload with the other
    book.run("%session limits disk=1M file=10M")
    upload(book.page, file)
    expect(dialog).to_contain_text("has room for")
    dialog.get_by_role("button", name="Change Limits…").click()
    dialog.get_by_label("disk", exact=True).fill("10M")
    book.confirm()
    expect(entry(book, "too-large.bin")).to_be_visible()
    expect(book.page.locator(".jp-WasmKernel-usageButton")).to_contain_text("Disk 2.0 MB / 10.0 MB")


def test_a_file_is_dragged_from_labs_browser_into_the_sandbox(opened: Opened) -> None:
    book, panel = opened("open('mine.txt', 'w').write('m')")
    (book.lab.notebooks / "beside.csv").write_text("a,b\n1,2\n")
    page = book.page
    page.evaluate("() => jupyterapp.commands.execute('filebrowser:activate').then(() => null)")
    page.evaluate("() => jupyterapp.commands.execute('filebrowser:refresh').then(() => null)")
    theirs = page.locator("#filebrowser .jp-DirListing-item").filter(has_text="beside.csv")
    drag(theirs, entry(book, "mine.txt"))
    expect(entry(book, "beside.csv")).to_be_visible()
    assert (book.folder / "beside.csv").read_text() == "a,b\n1,2\n"
    assert (book.lab.notebooks / "beside.csv").exists()
