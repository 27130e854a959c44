"""One Lab and one browser for the whole folder, one notebook and kernel for each test.

They end with the folder, not with the run: playwright keeps an event loop going that tests elsewhere would trip over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser import chromium
from tests.browser.lab import (
    LIGHT,
    Lab,
    Notebook,
    install_unsealed_kernel,
    open_lab,
    running_browser,
    running_lab,
    tidy,
)
from tests.browser.side_panel import Opened, SidePanel, run_beside_panel


@pytest.fixture(scope="package")
def browser_path() -> str:
    found = chromium.find()
    if found is None:
        pytest.skip(chromium.MISSING)
    return found


@pytest.fixture(scope="package")
def lab(browser_path: str, shots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    install_unsealed_kernel(folder / "data")
    with running_lab(folder, shots / "lab.log") as lab:
        yield lab


@pytest.fixture(scope="package")
def page(lab: Lab, browser_path: str) -> Iterator[Page]:
    with running_browser(browser_path) as context:
        page = open_lab(context, lab)
        # Lab asks nobody to be disturbed, but only learns that some moments after a page was loaded.
        toast = page.locator(".Toastify__toast-container .Toastify__close-button").first
        page.add_locator_handler(toast, lambda button: button.click(), no_wait_after=True)
        yield page


@pytest.fixture
def notebook(request: pytest.FixtureRequest, lab: Lab, page: Page, shots: Path) -> Iterator[Callable[..., Notebook]]:
    """Make a notebook with these cells and open it. Afterwards it is photographed and closed."""
    name = request.node.name.removeprefix("test_")
    made: list[Notebook] = []

    def make(*cells: str) -> Notebook:
        made.append(Notebook.make(lab, page, shots, f"{name}{len(made) or ''}.ipynb", cells))
        return made[-1]

    yield make
    tidy(page)
    for notebook in made:
        notebook.screenshot(name)
        notebook.close()
    if made and page.evaluate("() => document.body.dataset.jpThemeLight") == "false":
        made[0].theme(LIGHT)


@pytest.fixture
def opened(notebook: Callable[..., Notebook]) -> Opened:
    """A notebook, all cells run one by one, with the panel beside it."""

    def opened(*cells: str) -> tuple[Notebook, SidePanel]:
        return run_beside_panel(notebook(*cells))

    return opened
