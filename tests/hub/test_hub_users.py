"""Users of a hub: their notebooks run on the kernel, and come back after their servers were stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext

from tests.browser.lab import Notebook
from tests.hub.hub import Hub

LogIn = Callable[[str], BrowserContext]


def test_variables_survive(hub: Hub, log_in: LogIn, shots: Path) -> None:
    lab, page = hub.open_lab(log_in("ann"), "ann")
    nb = Notebook.make(lab, page, shots, "survives.ipynb", ("kept = 41",))
    nb.run_all()
    nb.screenshot("hub_ann")
    hub.stop("ann")
    lab, page = hub.open_lab(log_in("ann"), "ann")
    nb = Notebook(lab, page, shots, nb.name)
    nb.open()
    assert "42" in nb.text(nb.run("kept + 1"))
