"""What cells print becomes few messages, in order, with nothing lost. No guest."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.kernel import streams
from wasm_kernel.kernel.streams import Message, StreamBuffer

CELLS: list[Message] = [{"id": "one"}, {"id": "two"}]


class Sent:
    """A buffer, what it has sent, and the calls that it wants later."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str, str]] = []
        self.later: list[Callable[[], None]] = []
        self.buffer = StreamBuffer(lambda p, name, text: self.texts.append((p["id"], name, text)), self.later.append)


def test_writes_of_one_kind_are_one_message() -> None:
    sent = Sent()
    for text in ("a", "b", "c"):
        sent.buffer.write(CELLS[0], "stdout", text)
    assert sent.texts == [] and len(sent.later) == 1, "one call later is enough for all of them"
    sent.later[0]()
    assert sent.texts == [("one", "stdout", "abc")]
    sent.later[0]()
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
