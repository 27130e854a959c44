"""Lists as CSV: nothing in them is a formula, a line of its own, or a character that hides others."""

from __future__ import annotations

import csv
import io

import pytest

from wasm_kernel.hub.page.csv_handlers import as_csv


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =cmd|' /C calc'!A0", "\r=1", "\n@x"])
def test_what_a_spreadsheet_would_compute_is_text(text: str) -> None:
    ((_, cell),) = list(csv.reader(io.StringIO(as_csv(["a", "b"], [["x", text]]))))[1:]
    assert cell.startswith("'")


def test_other_values_are_as_they_are() -> None:
    rows = list(
        csv.reader(io.StringIO(as_csv(["n", "t", "u"], [[-5, 'a "b", c', None], [1.5, "x\u202ey\nz\x00", "é"]])))
    )
    assert rows == [["n", "t", "u"], ["-5", 'a "b", c', ""], ["1.5", "x y z ", "é"]]
