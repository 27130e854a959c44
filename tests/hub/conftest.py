"""One hub for the whole folder, one Chromium for each module that wants one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser import chromium
from tests.browser.lab import running_browser
from tests.hub import proxy
from tests.hub.hub import Hub, running_hub


@pytest.fixture(scope="package")
def hub(shots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = proxy.find()
    if found is None:
        pytest.skip(proxy.MISSING)
    # In a hurry: what is due goes within seconds. Students have time.
    policy = {"max_age": "90d", "warn_before": "1s", "archive": True}
    students = {"students": {"max_age": "30d", "warn_before": "7d"}}
    with running_hub(
        tmp_path_factory.mktemp("hub"),
        found,
        shots / f"hub{os.environ.get('PYTEST_XDIST_WORKER', '')}.log",
        interval="2s",
        census_age="1s",
        policy=json.dumps(policy),
        group_policies=json.dumps(students),
    ) as hub:
        yield hub


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It ends with the module: playwright keeps an event loop going that other tests would trip over."""
    found = chromium.find()
    if found is None:
        pytest.skip(chromium.MISSING)
    with running_browser(found) as context:
        assert context.browser is not None
        yield context.browser


@pytest.fixture
def log_in(hub: Hub, browser: Browser) -> Iterator[Callable[[str], BrowserContext]]:
    """Browsers in which users have logged in, closed at the end of a test."""
    made: list[BrowserContext] = []

    def make(user: str) -> BrowserContext:
        made.append(hub.log_in(browser, user))
        return made[-1]

    yield make
    for context in made:
        context.close()
