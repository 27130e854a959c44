"""Times as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wasm_kernel.hub.page import rendering

NOW = datetime(2026, 11, 18, 7, 48, tzinfo=UTC)
DAY = 86400.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(40, "40 s"), (300, "5 min"), (3 * 3600, "3 h"), (2 * DAY, "2 days"), (34.2 * DAY, "34 days"), (150 * DAY, "5 months"),
     (900 * DAY, "2 years")],
)  # fmt: skip
def test_lengths_of_time(seconds: float, said: str) -> None:
    assert rendering.lasting(seconds) == said
    assert rendering.age(NOW - timedelta(seconds=seconds), NOW) == f"{said} ago"
    assert rendering.until(NOW + timedelta(seconds=seconds), NOW) == f"in {said}"


def test_moments() -> None:
    assert rendering.age(NOW, NOW) == "just now" and rendering.until(NOW, NOW) == "now"
    assert rendering._templates().filters["moment"](NOW) == "18 Nov 2026, 07:48 UTC"
    assert rendering.moment_of("2026-11-18T07:48:00Z") == NOW and rendering.moment_of("<b>") is None
