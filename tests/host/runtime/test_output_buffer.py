"""What an execution gives is held to the policy's caps, to the byte; what is too much is said once."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel import DisplayData, ExecutionPolicy, Stream
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.output_buffer import Notice, OutputBuffer

POLICY = ExecutionPolicy(stdout_max_bytes=10, stderr_max_bytes=6, display_max_bytes=100)


class Kept:
    """An output buffer, and the events that it let through."""

    def __init__(self, **options: Any) -> None:
        self.events: list[wire.Event] = []
        self.buffer = OutputBuffer(POLICY, self.events.append, **options)

    def printed(self, name: str = "stdout") -> str:
        return "".join(
            e.text for e in self.events if isinstance(e, Stream) and e.name == name and not isinstance(e, Notice)
        )

    @property
    def notices(self) -> list[str]:
        return [e.text for e in self.events if isinstance(e, Notice)]


# ---- streams


def test_exactly_as_much_as_is_allowed_is_kept() -> None:
    kept = Kept()
    kept.buffer.write(1, b"01234")
    kept.buffer.write(1, b"56789")
    kept.buffer.finish()
    assert kept.printed() == kept.buffer.text("stdout") == "0123456789"
    assert kept.notices == []


def test_what_is_beyond_is_cut_and_that_is_said_once() -> None:
    kept = Kept()
    kept.buffer.write(1, b"0123456789a")
    for _ in range(1000):
        kept.buffer.write(1, b"more")
    kept.buffer.finish()
    assert kept.printed() == "0123456789"
    (notice,) = kept.notices
    assert "stdout was cut after 10 bytes" in notice and "output=" in notice
    assert kept.buffer.text("stdout") == "0123456789" + notice


def test_each_stream_has_its_own() -> None:
    kept = Kept()
    kept.buffer.write(1, b"x" * 50)
    kept.buffer.write(2, b"123456")
    assert kept.printed("stderr") == "123456"
    kept.buffer.write(2, b"7")
    assert len(kept.notices) == 2


def test_no_character_is_cut_in_half() -> None:
    kept = Kept()
    kept.buffer.write(1, "ääääää".encode())  # 12 bytes
    kept.buffer.finish()
    assert kept.printed() == "äääää"
    kept = Kept()
    kept.buffer.write(1, b"x" + "äääää".encode())
    assert kept.printed() == "xääää"


def test_a_character_in_two_writes() -> None:
    kept = Kept()
    first, second = "ä".encode()[:1], "ä".encode()[1:]
    kept.buffer.write(1, first)
    assert kept.events == []
    kept.buffer.write(1, second)
    assert kept.printed() == "ä"


def test_what_is_no_text_counts_as_what_is_shown_for_it() -> None:
    """A replaced byte has become three."""
    kept = Kept()
    kept.buffer.write(1, b"\xff" * 100)
    kept.buffer.finish()
    assert kept.printed() == "\N{REPLACEMENT CHARACTER}" * 3
    kept = Kept()
    kept.buffer.write(1, b"ok\xc3")
    kept.buffer.finish()
    assert kept.printed() == "ok\N{REPLACEMENT CHARACTER}"


# ---- displays


def test_displays_share_what_they_have() -> None:
    kept = Kept()
    assert kept.buffer.take(DisplayData({"a": 1}), 60)
    assert not kept.buffer.take(DisplayData({"b": 2}), 41)
    assert kept.buffer.take(wire.ExecuteResult({"c": 3}), 40)
    assert not kept.buffer.take(DisplayData({"d": 4}), 1)
    assert kept.buffer.displays == [{"a": 1}] and kept.buffer.result == {"c": 3}
    (notice,) = kept.notices
    assert "display data was dropped" in notice and "100 bytes" in notice


def test_an_error_that_does_not_fit_is_shown_short_and_once() -> None:
    kept = Kept()
    error = wire.ErrorRaised("E" * 1000, "v" * 10_000, ["line"] * 1000)
    assert kept.buffer.take(error, 50_000)
    assert kept.buffer.error is not None
    assert (len(kept.buffer.error.name), len(kept.buffer.error.value)) == (200, 2000)
    assert kept.buffer.error.traceback == ["(traceback cut)"]
    assert not kept.buffer.take(error, 50_000)


def test_a_frame_that_was_refused_says_why() -> None:
    kept = Kept()
    kept.buffer.refuse("it is nested too deep")
    kept.buffer.refuse()
    (notice,) = kept.notices
    assert "it is nested too deep" in notice


# ---- replies


def test_a_reply_may_be_so_large() -> None:
    kept = Kept(max_reply=10)
    with pytest.raises(wire.TooMuch):
        kept.buffer.take_reply(wire.Reply({"status": "ok"}), 11)
    assert kept.buffer.reply is None
    reply = wire.Reply({"status": "ok"})
    kept.buffer.take_reply(reply, 10)
    assert kept.buffer.reply is reply


# ---- between cells


def test_between_cells_less_room_is_left_and_is_said_once_for_all() -> None:
    told: set[str] = set()
    kept = Kept(room={"stdout": 3}, told=told, between_cells=True)
    kept.buffer.write(1, b"12345")
    assert kept.printed() == "123"
    assert "10 bytes a minute" in kept.notices[0]
    again = Kept(room={"stdout": 0}, told=told, between_cells=True)
    again.buffer.write(1, b"12345")
    assert again.events == []
    assert kept.buffer.sizes["stdout"] == 3 and again.buffer.sizes["stdout"] == 0


# ---- callbacks


def test_a_callback_that_raises_is_not_called_again() -> None:
    calls = []

    def fail(event: wire.Event) -> None:
        calls.append(event)
        raise ZeroDivisionError

    buffer = OutputBuffer(POLICY, fail)
    buffer.write(1, b"one")
    buffer.write(1, b"two")
    assert len(calls) == 1
    assert isinstance(buffer.failure, ZeroDivisionError)
    assert buffer.text("stdout") == "onetwo"


def test_a_guest_that_asks_for_its_request_again_and_again_has_begun_once() -> None:
    begun = []
    buffer = OutputBuffer(ExecutionPolicy(), None, on_begin=lambda: begun.append(1))
    for _ in range(3):
        buffer.begin()
    assert begun == [1]
