"""Each person is told each thing once: by a side panel that says it has shown it, or else by a cell."""

from __future__ import annotations

import pytest

from wasm_kernel.kernel import announcements
from wasm_kernel.kernel.announcements import Announcement, Announcements


@pytest.fixture
def waiting() -> Announcements:
    found = Announcements()
    found.add(Announcement("continued", "Continued.", "To start fresh: `%session reset`", good=True))
    found.warn("The disk is full.")
    return found


def test_without_a_side_panel_a_cell_says_it_once(waiting: Announcements) -> None:
    assert [a.full_text for a in waiting.take_for_cell()] == [
        "Continued. To start fresh: `%session reset`",
        "The disk is full.",
    ]
    assert waiting.take_for_cell() == waiting.offer() == []


def test_what_a_side_panel_has_shown_no_cell_says(waiting: Announcements) -> None:
    first, second = waiting.offer()
    assert waiting.take_for_cell() == [], "it is about to be shown"
    waiting.told(first.id)
    waiting.told(first.id)
    assert waiting.offer() == [second]


def test_what_a_side_panel_was_offered_and_did_not_show_a_cell_says(
    waiting: Announcements, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page was closed, and nobody noticed."""
    waiting.told(waiting.offer()[0].id)
    monkeypatch.setattr(announcements, "_PATIENCE", 0.0)
    assert [a.text for a in waiting.take_for_cell()] == ["The disk is full."]


def test_another_page_does_not_make_a_cell_wait_again(waiting: Announcements, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(announcements.time, "monotonic", lambda: clock[0])
    waiting.offer()
    clock[0] = 1.5
    waiting.offer()
    clock[0] = 2.5
    assert len(waiting.take_for_cell()) == 2


def test_who_is_told_is_remembered_once() -> None:
    told: list[str] = []
    for way in ("cell", "panel"):
        found = Announcements()
        found.add(Announcement("prune", "Two go.", on_told=lambda way=way: told.append(way)))  # type: ignore[misc]
        (one,) = found.offer() if way == "panel" else found.take_for_cell()
        found.told(one.id)
        found.told(one.id)
    assert told == ["cell", "panel"]


def test_what_is_for_side_panels_only_stays_out_of_cells() -> None:
    found = Announcements()
    found.add(Announcement("unstored", "Switched off.", in_cells=False))
    assert found.take_for_cell() == []
    assert [a.text for a in found.offer()] == ["Switched off."]


def test_whoever_offers_hears_of_each() -> None:
    found, heard = Announcements(), []
    found.on_added = lambda: heard.append(len(found.waiting))
    found.warn("a")
    found.warn("b")
    assert heard == [1, 2]
