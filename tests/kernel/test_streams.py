"""What cells print becomes few messages, in order, with nothing lost. No guest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.kernel import streams
from wasm_kernel.kernel.streams import Message, StreamBuffer

CELLS: list[Message] = [{"id": "one"}, {"id": "two"}]


class Sent:
    """A buffer, what it has sent, and the calls that it wants later, at a time that is the test's."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str, str]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.buffer = StreamBuffer(
            lambda p, name, text: self.texts.append((p["id"], name, text)),
            lambda seconds, work: self.later.append((seconds, work)),
        )

    def time_has_come(self) -> None:
        """For the piece that waits last."""
        self.later[-1][1]()

    @property
    def waits(self) -> list[float]:
        return [seconds for seconds, _ in self.later]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(streams.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]
    return now


def test_writes_of_one_kind_are_one_message() -> None:
    sent = Sent()
    for text in ("a", "b", "c"):
        sent.buffer.write(CELLS[0], "stdout", text)
    assert sent.texts == [] and len(sent.later) == 1, "one call later is enough for all of them"
    sent.time_has_come()
    assert sent.texts == [("one", "stdout", "abc")]
    sent.time_has_come()
    sent.buffer.flush()
    assert len(sent.texts) == 1, "there is nothing more to send"
    sent.buffer.write(CELLS[0], "stdout", "d")
    assert len(sent.later) == 2


def test_much_does_not_wait() -> None:
    sent = Sent()
    sent.buffer.write(CELLS[0], "stdout", "x" * (streams._ENOUGH - 1))
    assert sent.texts == []
    sent.buffer.write(CELLS[0], "stdout", "x")
    assert [len(text) for _, _, text in sent.texts] == [streams._ENOUGH]


def test_while_text_keeps_coming_pieces_become_fewer_and_larger(clock: list[float]) -> None:
    sent = Sent()
    for _ in range(6):
        sent.buffer.write(CELLS[0], "stdout", "x")
        clock[0] += sent.waits[-1]
        sent.time_has_come()
    assert sent.waits == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.2, 0.2]), "ipykernel sends five a second"
    sent.buffer.write(CELLS[0], "stdout", "x" * (streams._MOST - 1))
    assert len(sent.texts) == 6
    sent.buffer.write(CELLS[0], "stdout", "x")
    assert len(sent.texts) == 7, "what waits is bounded all the same"


def test_after_a_large_piece_the_next_one_gathers_as_long_as_it_may(clock: list[float]) -> None:
    """A front end that still draws the large piece would only draw it again."""
    sent = Sent()
    for _ in range(30):  # 2 MB in a moment
        sent.buffer.write(CELLS[0], "stdout", "x" * streams._ENOUGH)
        clock[0] += 0.002
    assert sent.waits == [streams._SHORTEST, streams._LONGEST]
    sent.buffer.flush()  # as before a reply
    assert [len(text) for _, _, text in sent.texts] == [streams._ENOUGH, 29 * streams._ENOUGH]


@pytest.mark.parametrize("why", ["pause", "cell"])
def test_after_a_pause_and_in_another_cell_the_first_piece_is_quick_again(clock: list[float], why: str) -> None:
    sent = Sent()
    for _ in range(6):
        sent.buffer.write(CELLS[0], "stdout", "x")
        sent.time_has_come()
    clock[0] += 0.3 if why == "pause" else 0
    sent.buffer.write(CELLS[why == "cell"], "stdout", "x")
    assert sent.waits[-1] == 0.02


def test_a_time_that_was_set_for_an_earlier_piece_does_not_cut_the_next_one(clock: list[float]) -> None:
    sent = Sent()
    sent.buffer.write(CELLS[0], "stdout", "x" * streams._ENOUGH)
    sent.buffer.write(CELLS[0], "stdout", "y")
    sent.later[0][1]()
    assert len(sent.texts) == 1
    sent.time_has_come()
    assert sent.texts[1] == ("one", "stdout", "y")


writes = st.lists(
    st.tuples(st.sampled_from(CELLS), st.sampled_from(["stdout", "stderr"]), st.text(min_size=1, max_size=5))
)


@given(writes, st.sets(st.integers(0, 50)))
def test_nothing_is_lost_or_out_of_order(writes: list[tuple[Message, str, str]], flushed: set[int]) -> None:
    sent = Sent()
    for n, write in enumerate(writes):
        sent.buffer.write(*write)
        if n in flushed:
            sent.buffer.flush()
    sent.buffer.flush()
    apart = [(cell, name, letter) for cell, name, text in sent.texts for letter in text]
    assert apart == [(cell["id"], name, letter) for cell, name, text in writes for letter in text]
