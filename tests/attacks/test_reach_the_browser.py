"""Reach the browser of the person who runs the cell, and with it the host: in JupyterLab, in Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.browser_payloads import EVERY_TRAIT, MORE_TRAITS, PAYLOADS, RELOADED, Payload
from tests.attacks.browser_scene import UNSEALED, Scene, install_unsealed_kernel
from tests.attacks.listener import Listener
from tests.browser import chromium
from tests.browser.lab import open_lab, running_browser, running_lab

pytestmark = pytest.mark.timeout(600)
COUNTED = [p for p in [*PAYLOADS, *RELOADED] if not p.in_depth]


def _all_attempts(shots: Path, folder: Path, kernel: str) -> set[str]:
    browser = chromium.find()
    if browser is None:
        pytest.skip(chromium.MISSING)
    install_unsealed_kernel(folder / "data")
    listener = Listener()
    with running_lab(folder, shots / f"lab-{kernel}.log") as lab, running_browser(browser) as context:
        scene = Scene(lab, open_lab(context, lab), listener, shots, kernel)
        everywhere = Payload("every-trait", EVERY_TRAIT).cell(listener)
        scene.attempt([p for p in PAYLOADS if p.act and not p.last])
        scene.attempt([p for p in PAYLOADS if not p.act and not p.last], everywhere, *MORE_TRAITS)
        scene.attempt_by_reload(RELOADED)
        scene.attempt_one_by_one([p for p in PAYLOADS if p.last])
        listener.close()
        return scene.reached()


@pytest.fixture(scope="module")
def sealed(shots: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return _all_attempts(shots, tmp_path_factory.mktemp("sealed"), "wasm")


@pytest.fixture(scope="module")
def unsealed(shots: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return _all_attempts(shots, tmp_path_factory.mktemp("unsealed"), UNSEALED)


@pytest.mark.parametrize("payload", COUNTED, ids=str)
def test_gets_through_when_sealing_is_off(payload: Payload, unsealed: set[str]) -> None:
    assert payload.name in unsealed
