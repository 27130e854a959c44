"""The same extension in the oldest JupyterLab that it is for, and in Jupyter Notebook."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import wasm_kernel
from tests.browser.lab import Lab, Notebook, running_lab, show_lab
from tests.browser.side_panel import CELLS, entry, run_beside_panel, variable, walk_through_time
from tests.browser.test_side_panel_tables import Table
from tests.conformance.client import eventually
from tests.ipython_suite import pip
from wasm_kernel.host.image.cache import Entry, build_lock

OLDEST = "jupyterlab==4.2.0"
FILES = "open('cities.csv', 'w').write('city,n\\nBern,1\\n'); open('note.txt', 'w').write('first')"


@contextlib.contextmanager
def another_page(page: Page) -> Iterator[tuple[Page, list[str]]]:
    """A page in the same browser, and what it complains of in its console."""
    another, complaints = page.context.new_page(), list[str]()
    another.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    another.on("pageerror", lambda e: complaints.append(str(e)))
    try:
        yield another, complaints
    finally:
        another.close()


def of_ours(complaints: list[str]) -> list[str]:
    """Those about this extension, or about a version of something that it shares with Lab."""
    return [c for c in complaints if "wasm" in c.lower() or "Unsatisfied version" in c]


def is_typed_into(page: Page) -> bool:
    """Whether a notebook has the focus, once all is painted."""
    painted = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    return bool(page.evaluate(f"() => {painted}.then(() => document.activeElement.closest('.jp-Notebook') !== null)"))


def open_a_table(book: Notebook) -> None:
    """A variable opens as a table, beside the notebook or below it; its first cell is read out."""
    book.run("rows = [('Bern', 1), ('Basel', 2)]")
    expect(variable(book.page, "rows")).to_contain_text("[('Bern', 1), ('Basel', 2)]")
    variable(book.page, "rows").get_by_role("button", name="rows").click()
    table = book.page.locator(".jp-WasmKernel-tableView")
    expect(table.get_by_text("list, 2")).to_be_in_viewport()
    table.locator(".lm-DataGrid-viewport").click(position={"x": 80, "y": 55})
    expect(table.locator(".jp-WasmKernel-tableCell")).to_contain_text("Bern")


# ---- the oldest JupyterLab


@pytest.fixture
def oldest_lab(shots: Path, tmp_path: Path) -> Iterator[Lab]:
    """JupyterLab alone in its oldest version, fetched once into the cache; the server below it is the one that is here."""
    found = Entry("oldest-lab", OLDEST.replace("==", "-"))
    if found.manifest() is None:  # else somebody who builds an image would hold it up
        with build_lock(lambda state: None):
            try:
                found.build(_fetch)
            except SystemExit as e:
                pytest.skip(str(e))
    ours = tmp_path / "labextensions" / "wasm-kernel"  # alone: others may want a newer Lab, and complain
    ours.parent.mkdir()
    ours.symlink_to(Path(wasm_kernel.__file__).parent / "labextension")
    (tmp_path / "config").mkdir()
    paths = {"LabApp": {"labextensions_path": [str(ours.parent)]}}
    (tmp_path / "config" / "jupyter_lab_config.json").write_text(json.dumps(paths))
    environment = {"PYTHONPATH": str(found.path), "JUPYTERLAB_DIR": str(found.path / "share" / "jupyter" / "lab")}
    with running_lab(tmp_path, shots / "oldest-lab.log", environment=environment) as lab:
        yield lab


def _fetch(folder: Path) -> dict[str, Any]:
    pip("install", "--no-deps", "--target", str(folder), OLDEST)
    return {}


def test_the_oldest_lab(oldest_lab: Lab, page: Page, shots: Path) -> None:
    with another_page(page) as (lab_page, complaints):
        show_lab(lab_page, f"{oldest_lab.url}lab?token={oldest_lab.token}")
        assert lab_page.evaluate("() => jupyterapp.version") == OLDEST.partition("==")[2]
        book = Notebook.make(oldest_lab, lab_page, shots, "oldest.ipynb", CELLS)
        _, panel = run_beside_panel(book)
        walk_through_time(book, panel)

        usage = lab_page.locator(".jp-WasmKernel-usageButton")
        book.press("wasm-kernel-trust")
        lab_page.locator(".jp-Dialog .jp-mod-warn").click()
        expect(usage).to_contain_text("Trusted")

        book.run(FILES + "; import pandas as pd; cities = pd.read_csv('cities.csv')")
        lab_page.locator(".jp-WasmKernel-variables").get_by_role("button", name="cities").first.click()
        Table(lab_page, "cities").shows(0, 0, "Bern")
        entry(book, "cities.csv").dblclick()
        expect(lab_page.locator(".jp-CSVViewer")).to_be_visible()
        entry(book, "note.txt").dblclick()
        editor = lab_page.locator(".jp-FileEditor .cm-content")
        expect(editor).to_have_text("first")
        editor.fill("second")
        lab_page.keyboard.press("Control+s")
        assert eventually(lambda: (book.folder / "note.txt").read_text() == "second")

        book.open()
        panel.press("Fork from here", panel.row("x = 1"))
        fork = Notebook(oldest_lab, lab_page, shots, "oldest-fork.ipynb")
        fork.wait_for_kernel()
        expect(panel.rows()).to_have_count(1)
        lab_page.screenshot(path=shots / "oldest-lab.png")

        book.open()
        expect(entry(book, "note.txt")).to_be_visible()  # the list has followed
        assert is_typed_into(lab_page), "and left the focus to the notebook"
        fork.close()
        book.close()
    assert of_ours(complaints) == []


# ---- Jupyter Notebook


@pytest.fixture
def notebook_7(shots: Path, tmp_path: Path) -> Iterator[Lab]:
    with running_lab(tmp_path, shots / "notebook.log", app="notebook") as server:
        yield server


def test_jupyter_notebook(notebook_7: Lab, page: Page, shots: Path) -> None:
    with another_page(page) as (notebook_page, complaints):
        book = Notebook.write(notebook_7, notebook_page, shots, "classic.ipynb", CELLS)
        book.open_alone()
        _, panel = run_beside_panel(book)
        walk_through_time(book, panel)
        notebook_page.screenshot(path=shots / "notebook.png")

        usage = notebook_page.locator(".jp-WasmKernel-usageButton")  # in the panel: there is no status bar
        expect(usage).to_contain_text("Sealed")
        notebook_page.get_by_role("button", name="Change the limits").click()
        notebook_page.locator(".jp-Dialog").get_by_role("button", name="Cancel").last.click()
        book.press("wasm-kernel-trust")
        notebook_page.locator(".jp-Dialog .jp-mod-warn").click()
        expect(usage).to_contain_text("Trusted")
        open_a_table(book)
        table = notebook_page.locator(".jp-WasmKernel-tableView")
        assert eventually(lambda: (table.bounding_box() or {"height": 0})["height"] > 200), "a third of the page"
        notebook_page.screenshot(path=shots / "notebook-table.png")

        book.run(FILES)
        with notebook_page.context.expect_page() as opened:
            entry(book, "note.txt").dblclick()
        editor_page = opened.value  # Jupyter Notebook has a page for each file
        editor = editor_page.locator(".jp-FileEditor .cm-content")
        expect(editor).to_have_text("first")
        editor.fill("second")
        editor_page.keyboard.press("Control+s")
        assert eventually(lambda: (book.folder / "note.txt").read_text() == "second")
        editor_page.close()

        with notebook_page.context.expect_page() as opened:
            panel.press("Fork from here", panel.row("x = 1"))
        fork = Notebook(notebook_7, opened.value, shots, "classic-fork.ipynb")
        fork.page.wait_for_function("() => window.jupyterapp?.shell")
        fork.wait_for_kernel()
        fork.close()
        opened.value.close()
        book.close()
    assert of_ours(complaints) == []
