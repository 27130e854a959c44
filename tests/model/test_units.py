"""Sizes and durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel import ConfigurationError
from wasm_kernel.model.units import format_age, format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("64k", 65536),
        ("1.5G", 1610612736),
        ("2 GiB", 2 << 30),
        ("10MB", 10 << 20),
        ("1T", 1 << 40),
        ("0", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("5m", 300), ("36h", 129600), ("7d", 604800), ("2W", 1209600)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "G", "-1", "1.2.3", "12 parsecs", "1e9", "٣", "1 G B"])
def test_nonsense_is_refused_with_an_example(text: str) -> None:
    for parse in (parse_size, parse_duration):
        with pytest.raises(ConfigurationError, match="such as"):
            parse(text)


@given(st.integers(0, 2**60))
def test_a_formatted_size_reads_back_within_rounding(size: int) -> None:
    again = parse_size(format_size(size).replace("TB", "T"))
    assert abs(again - size) <= max(size * 0.06, 1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.05, "50 ms"), (12.34, "12.3 s"), (600, "10 min"), (7200, "2.0 h"), (4 * 86400, "4.0 d")]
)
def test_formatted_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "just now"), (40.2, "40 s ago"), (300, "5 min ago"), (7300, "2 h ago"), (4 * 86400, "4 days ago")],
)
def test_ages(seconds: float, text: str) -> None:
    assert format_age(seconds) == text
