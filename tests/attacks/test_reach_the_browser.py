"""Reach the browser of the person who runs the cell, and with it the host: real JupyterLab, real Chromium.

Every attempt is made twice: by a kernel that seals outputs, where none may succeed, and by one that does not, where
each has to, so that the judge is known to see it. Nothing that the page says of itself counts but for what changes the
page and nothing else.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from tests.attacks.browser_payloads import (
    EVERY_TRAIT,
    MORE_TRAITS,
    NEEDING_ANYWIDGET,
    PAYLOADS,
    RELOADED,
    WORST,
    Payload,
)
from tests.attacks.browser_scene import Scene
from tests.attacks.listener import Listener
from tests.browser import chromium
from tests.browser.lab import UNSEALED, Lab, install_unsealed_kernel, open_lab, running_browser, running_lab

pytestmark = pytest.mark.timeout(600)
ALL = [*PAYLOADS, *RELOADED]
COUNTED = [p for p in ALL if not p.in_depth]
_EXTENSIONS = Path(sys.prefix) / "share" / "jupyter" / "labextensions"
# Harmless outputs: without them, a kernel that shows nothing would pass.
_SHOWN = [
    "display(HTML('<table><tr><td style=\"color: rgb(1, 2, 3)\">a table</td></tr></table>'))",
    'display(HTML(\'<p>a frame</p><script>document.querySelector("p").append(" and its script")</script>\'))',
    "display(w.HTML('<b>a widget</b>'))",
]


@pytest.fixture(scope="module")
def lab(shots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    install_unsealed_kernel(folder / "data")
    with running_lab(folder, shots / "attacks-lab.log") as lab:
        yield lab


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    found = chromium.find()
    if found is None:
        pytest.skip(chromium.MISSING)
    with running_browser(found) as context:
        yield context


def _attempted(context: BrowserContext, lab: Lab, shots: Path, kernel: str) -> Scene:
    listener = Listener()
    page = open_lab(context, lab)
    scene = Scene(lab, page, listener, shots, kernel)
    scene.attempt([p for p in PAYLOADS if p.act and not p.last])
    everywhere = Payload("every-trait", EVERY_TRAIT).cell(listener)
    scene.attempt([p for p in PAYLOADS if not p.act and not p.last], everywhere, *MORE_TRAITS)
    scene.attempt_by_reload(RELOADED)
    scene.look_at(_SHOWN)
    scene.attempt_one_by_one([p for p in PAYLOADS if p.last])
    scene.end()
    return scene


@pytest.fixture(scope="module")
def sealed(context: BrowserContext, lab: Lab, shots: Path) -> Scene:
    return _attempted(context, lab, shots, "wasm")


@pytest.fixture(scope="module")
def unsealed(sealed: Scene, context: BrowserContext, lab: Lab, shots: Path) -> Scene:
    """After the sealed ones: both leave their files in one place."""
    return _attempted(context, lab, shots, UNSEALED)


@pytest.mark.parametrize("payload", ALL, ids=str)
def test_is_held_back(payload: Payload, sealed: Scene) -> None:
    assert payload.name not in sealed.reached


@pytest.mark.parametrize("payload", COUNTED, ids=str)
def test_gets_through_when_sealing_is_off(payload: Payload, unsealed: Scene) -> None:
    if payload.name in NEEDING_ANYWIDGET and not (_EXTENSIONS / "anywidget").exists():
        pytest.skip("anywidget is not installed beside JupyterLab")
    assert payload.name in unsealed.reached


def test_no_trait_of_any_core_widget_reaches_out(sealed: Scene, unsealed: Scene) -> None:
    assert not sealed.traits
    assert len(unsealed.traits) > 30
    assert {"HTML.value", "HTMLMath.value", "IntSlider.description", "HTMLStyle.background"} <= unsealed.traits


def test_what_is_harmless_is_shown(sealed: Scene) -> None:
    table, frame, widget = sealed.seen
    assert "a table" in table and "a frame and its script" in frame and "a widget" in widget


def test_there_are_enough_attempts() -> None:
    assert len(COUNTED) >= 300
    names = [p.name for p in ALL]
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def in_notebook(context: BrowserContext, shots: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What reached the browser in Jupyter Notebook, by kernel."""
    if importlib.util.find_spec("notebook") is None:
        pytest.skip("Jupyter Notebook is not installed")
    folder = tmp_path_factory.mktemp("notebook")
    install_unsealed_kernel(folder / "data")
    reached = {}
    with running_lab(folder, shots / "attacks-notebook.log", app="notebook") as server:
        for kernel in ("wasm", UNSEALED):
            scene = Scene(server, context.new_page(), Listener(), shots, kernel)
            scene.attempt(WORST)
            scene.end()
            reached[kernel] = scene.reached
    return reached


@pytest.mark.parametrize("payload", WORST, ids=str)
def test_the_worst_in_notebook(payload: Payload, in_notebook: dict[str, set[str]]) -> None:
    assert payload.name not in in_notebook["wasm"]
    assert payload.name in in_notebook[UNSEALED]
