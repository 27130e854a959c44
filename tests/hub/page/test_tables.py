"""What the operators' page is made of, without a hub: pages of lists, charts, texts of others."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from wasm_kernel.hub.census import SessionRow
from wasm_kernel.hub.page import chart, tables
from wasm_kernel.hub.page.rendering import shown
from wasm_kernel.hub.usage_history import Sample

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def _row(number: int, **fields: object) -> SessionRow:
    values = {"notebook": f"/home/ann/{number}.ipynb", "size_bytes": number, **fields}
    return SessionRow("ann", f"id-{number}", NOW, NOW - timedelta(hours=number), **values)  # type: ignore[arg-type]


def test_every_row_is_on_exactly_one_page() -> None:
    rows = list(range(101))
    pages = [tables.cut(rows, n) for n in (1, 2, 3)]
    assert [row for page in pages for row in page.rows] == rows
    assert [(p.first, p.last, p.pages) for p in pages] == [(1, 50, 3), (51, 100, 3), (101, 101, 3)]
    assert tables.cut(rows, 0).page == 1
    assert tables.cut(rows, 99).rows == [100]
    assert (tables.cut([], 7).first, tables.cut([], 7).last, tables.cut([], 7).pages) == (0, 0, 1)


def test_rows_are_sorted_both_ways_and_by_nothing_else() -> None:
    rows = [_row(2), _row(10), _row(1, size_bytes=99)]
    sizes = [row.size_bytes for row in tables.ordered(rows, "size", tables.SESSION_KEYS, "-used")]
    assert sizes == [2, 10, 99]
    back = [row.size_bytes for row in tables.ordered(rows, "-size", tables.SESSION_KEYS, "-used")]
    assert back == [99, 10, 2]
    for odd in ("", "--size", "__class__", "-"):
        assert tables.ordered(rows, odd, tables.SESSION_KEYS, "-used")[0].session_id == "id-1"
    unknown = SessionRow("ann", "no-times", None, None, problem="no_metadata")
    assert tables.ordered([unknown, *rows], "-used", tables.SESSION_KEYS, "-used")[-1] is unknown


def test_all_words_must_occur_somewhere() -> None:
    rows = [_row(1, title="Sales of May"), _row(2, title="sales of June"), _row(3, live=True)]
    assert [row.session_id for row in tables.found(rows, "SALES june")] == ["id-2"]
    assert [row.session_id for row in tables.found(rows, "ann id-3")] == ["id-3"]
    assert not tables.found(rows, "sales", user="bob")
    assert [row.session_id for row in tables.found(rows, state="live")] == ["id-3"]
    assert (tables.name_of(rows[0]), tables.place_of(rows[0])) == ("Sales of May", "/home/ann/1.ipynb")
    assert (tables.name_of(rows[2]), tables.place_of(rows[2])) == ("3.ipynb", "/home/ann")


def test_a_chart_is_within_its_box_and_of_few_points() -> None:
    assert chart.draw([]) is None
    assert chart.draw([Sample(NOW, 1, 1, 1, 1)]) is None
    samples = [Sample(NOW + timedelta(hours=n), n, n << 20, 2 * n, (n * 7919) % 1000 << 20) for n in range(2000)]
    drawn = chart.draw(samples)
    assert drawn is not None
    for polygon in (drawn.sessions, drawn.snapshots):
        points = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", polygon)]
        assert len(points) < 400
        assert all(0 <= x <= chart.WIDTH and 0 <= y <= chart.HEIGHT for x, y in points)
        assert {points[0][0], max(x for x, _ in points)} == {0.0, chart.WIDTH}
    assert drawn.ticks == ["5.0 GB", "2.5 GB", "0"]
    assert sum(spot.width for spot in drawn.spots) == pytest.approx(chart.WIDTH, abs=20)
    assert "1,999 sessions" in drawn.spots[-1].text
    empty = chart.draw([Sample(NOW, 0, 0, 0, 0), Sample(NOW, 0, 0, 0, 0)])
    assert empty is not None
    assert "nan" not in empty.sessions


def test_texts_of_others_stay_on_their_line() -> None:
    assert (
        shown("a\u202eb\x00\n\u2028c é 日本")
        == "a\N{REPLACEMENT CHARACTER}b" + "\N{REPLACEMENT CHARACTER}" * 3 + "c é 日本"
    )
