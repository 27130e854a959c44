"""Arguments of frames: what is taken, and what is no frame of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wasm_kernel.guest import wire
from wasm_kernel.host.network.frame_arguments import FrameArguments

Take = Callable[[FrameArguments], Any]


def given(value: Any, *buffers: bytes) -> FrameArguments:
    return FrameArguments(wire.Network("open", {"it": value, "seconds": value}, buffers))


def text(of: FrameArguments) -> Any:
    return of.text("it")


def texts(of: FrameArguments) -> Any:
    return of.texts("it", 2)


def whole(of: FrameArguments) -> Any:
    return of.whole("it", 100)


def pairs(of: FrameArguments) -> Any:
    return of.pairs("it", 2)


@pytest.mark.parametrize(
    ("take", "value", "taken"),
    [
        (text, "a.example", "a.example"),
        (texts, ["h2", "http/1.1"], ("h2", "http/1.1")),
        (whole, 0, 0),
        (whole, 100, 100),
        (pairs, [[5, 7], [5, 1], [6, 2]][:2], [(5, 1)]),
        (FrameArguments.seconds, 1, 1.0),
        (FrameArguments.seconds, 10**9, 3600.0),
        pytest.param(FrameArguments.seconds, 10**999, 3600.0, id="larger than any float"),
        (FrameArguments.seconds, float("inf"), 3600.0),
        (FrameArguments.seconds, None, 3600.0),
    ],
)
def test_what_is_taken(take: Take, value: Any, taken: Any) -> None:
    assert take(given(value)) == taken


@pytest.mark.parametrize(
    ("take", "value"),
    [
        *((text, value) for value in (None, 3, b"x", ["a"], "a" * 1025)),
        *((texts, value) for value in (None, "ab", ["a"] * 3, [""], ["ä"], ["a" * 256], [1])),
        *((whole, value) for value in (None, True, 1.0, "1", -1, 101)),
        *((pairs, value) for value in (None, {}, [[1, 1]] * 3, [[1]], [[1, 2, 3]], [[True, 1]], [["1", 1]], [(1, 1)])),
        *((FrameArguments.seconds, value) for value in (True, "1", -0.1, float("nan"), [1])),
    ],
)
def test_what_is_no_frame_of_ours(take: Take, value: Any) -> None:
    with pytest.raises(wire.BadFrame):
        take(given(value))


def test_one_buffer() -> None:
    assert given(1, b"x").buffer() == b"x"
    for buffers in ((), (b"x", b"y")):
        with pytest.raises(wire.BadFrame):
            given(1, *buffers).buffer()
