"""A notebook from Lab's launcher, the first thing that a newcomer does: it is made in the server's folder."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.lab import Lab, Notebook, show_lab
from tests.browser.side_panel import Opened, entry


def _made_from_the_launcher(lab: Lab, page: Page) -> str:
    """Click on the first kernel; the name of the new notebook, which is closed again."""
    before = {path.name for path in lab.notebooks.glob("*.ipynb")}
    page.locator(".jp-Launcher:visible .jp-LauncherCard[data-category='Notebook']").first.click()
    expect(page.locator(".jp-NotebookPanel:visible .jp-Notebook")).to_be_visible()
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    (name,) = {path.name for path in lab.notebooks.glob("*.ipynb")} - before
    Notebook(lab, page, lab.notebooks, name).close()
    return name


def test_in_a_lab_that_was_just_opened(lab: Lab, page: Page) -> None:
    fresh = page.context.new_page()
    try:
        show_lab(fresh, f"{lab.url}lab/workspaces/launcher?reset&token={lab.token}")
        assert _made_from_the_launcher(lab, fresh).startswith("Untitled")
    finally:
        fresh.close()


def test_after_somebody_looked_at_the_files_of_a_sandbox(lab: Lab, opened: Opened) -> None:
    book, _ = opened("open('a.txt', 'w').write('one')")
    entry(book, "a.txt").click()
    book.command("launcher:create", wait=True)
    assert _made_from_the_launcher(lab, book.page).startswith("Untitled")
    assert not list(book.folder.glob("*.ipynb"))
