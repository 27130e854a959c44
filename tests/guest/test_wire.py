"""The codec both sides load: what goes in comes out, and nothing else is let through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wasm_kernel.guest import wire

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    max_leaves=10,
)
_bundle = st.dictionaries(st.text(), _json)
_events = st.one_of(
    st.builds(wire.DisplayData, _bundle, _bundle, _bundle),
    st.builds(wire.UpdateDisplay, _bundle, _bundle, _bundle),
    st.builds(wire.ClearOutput, st.booleans()),
    st.builds(wire.ExecuteResult, _bundle, _bundle, st.integers(0, 10**6)),
    st.builds(wire.ErrorRaised, st.text(), st.text(), st.lists(st.text())),
    st.builds(wire.InputRequest, st.text(), st.booleans()),
    st.builds(
        wire.Comm,
        st.sampled_from(["comm_open", "comm_msg", "comm_close"]),
        _bundle,
        _bundle,
        st.tuples(st.binary(), st.binary()),
    ),
    st.builds(wire.Reply, _bundle, st.tuples(st.binary())),
    st.just(wire.NextRequest()),
    st.just(wire.InterruptSeen()),
    st.builds(wire.Unused, st.lists(st.lists(st.integers(0, 1 << 32), min_size=2, max_size=2), max_size=5)),
)


@given(_events)
def test_every_event_survives_the_wire(event: wire.Frame) -> None:
    assert wire.decode_event(wire.encode_event(event)) == event


@given(st.binary(max_size=200))
@example(b"\xff\xff\xff\xff{}")
@example(b"\x02\x00\x00\x00{}")
@example(b"\x02\x00\x00\x00[]")
def test_any_other_bytes_are_a_bad_frame(data: bytes) -> None:
    with pytest.raises(wire.BadFrame):
        wire.decode_event(data)


def _frame(header: Any, tail: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + tail


@pytest.mark.parametrize(
    "frame",
    [
        _frame({"type": "ClearOutput"}),
        _frame({"type": "ClearOutput", "wait": 1}),
        _frame({"type": "ClearOutput", "wait": True, "extra": 1}),
        _frame({"type": "ClearOutput", "wait": True, "buffers": [1]}, b"x"),
        _frame({"type": "Stream", "name": "stdout", "text": "forged"}),
        _frame({"type": ["ClearOutput"], "wait": True}),
        _frame({"type": "Reply", "content": []}),
        _frame({"type": "Reply", "content": {}, "buffers": [5]}, b"four"),
        _frame({"type": "Reply", "content": {}, "buffers": [-1]}),
        _frame({"type": "Reply", "content": {}, "buffers": [True]}, b"x"),
        _frame({"type": "Reply", "content": {}}, b"left over"),
        _frame({"type": "Reply", "content": {}, "buffers": [0] * 5000}),
        _frame({"type": "Comm", "action": "shutdown_request", "content": {}, "metadata": {}}),
        _frame({"type": "ErrorRaised", "ename": "E", "evalue": "v", "traceback": [1]}),
        _frame({"type": "ExecuteResult", "data": {}, "metadata": {}, "execution_count": True}),
        _frame({"type": "Reply", "content": {"a": ""}, "buffers": [1], "texts": [["content", "b"]]}, b"x"),
        _frame({"type": "Reply", "content": {"a": "x"}, "buffers": [1], "texts": [["content", "a"]]}, b"x"),
        _frame({"type": "Reply", "content": {"a": ""}, "buffers": [1], "texts": [["content", "a", 0]]}, b"x"),
        _frame({"type": "Reply", "content": {"a": [""]}, "buffers": [1], "texts": [["content", "a", -1]]}, b"x"),
        _frame({"type": "Reply", "content": {"a": [""]}, "buffers": [1], "texts": [["content", "a", False]]}, b"x"),
        _frame({"type": "Reply", "content": {"a": ""}, "buffers": [1], "texts": [["content", "a"]]}, b"\xff"),
        _frame({"type": "Reply", "content": {"a": ""}, "texts": [["content", "a"]]}),
        _frame({"type": "Reply", "content": {"a": ""}, "buffers": [1], "texts": [[]]}, b"x"),
        _frame({"type": "Reply", "content": {"a": ""}, "buffers": [1], "texts": ["content"]}, b"x"),
        _frame({"type": "Reply", "content": {"a": ""}, "buffers": [1], "texts": {}}, b"x"),
        _frame({"type": "Reply", "content": "", "buffers": [1], "texts": [["content"]]}, b"x"),
        b"\x06\x00\x00\x00[[[[[[",
        (100_000).to_bytes(4, "little") + b"[" * 100_000,
    ],
)
def test_each_check_refuses(frame: bytes) -> None:
    with pytest.raises(wire.BadFrame):
        wire.decode_event(frame)


def test_nesting_is_bounded() -> None:
    value: Any = {}
    for _ in range(wire.MAX_HEADER_DEPTH + 5):
        value = {"a": value}
    with pytest.raises(wire.BadFrame, match="nested"):
        wire.decode_event(_frame({"type": "Reply", "content": value}))


def test_long_texts_travel_beside_the_header() -> None:
    long = 'é,["\\' * 100_000
    bundle = {"text/html": long, "a": [0, {"b": (long, "")}], "": "", "c": None}
    event = wire.Comm("comm_msg", bundle, {"d": long}, (b"one", b"two"))
    frame = wire.encode_event(event)
    assert int.from_bytes(frame[:4], "little") < 1000
    assert wire.decode_event(frame) == wire.Comm(
        "comm_msg", {**bundle, "a": [0, {"b": [long, ""]}]}, {"d": long}, (b"one", b"two")
    )
    assert bundle["text/html"] == long
