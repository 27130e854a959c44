"""Messages and replies, sealed."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel.guest import wire
from wasm_kernel.kernel.outputs import Outputs
from wasm_kernel.kernel.seal.sealed_messages import Seal

BAD = "<p>x</p><img src=x onerror=alert(1)>"
GOOD = {"text/html": "<p>x</p><img>"}


def test_payloads_show_a_page_or_suggest_a_cell() -> None:
    sealed = Seal().payload(
        [
            {"source": "page", "data": {"text/html": BAD, "text/plain": "\x1b]0;x\x07"}, "start": "x"},
            {"source": "set_next_input", "text": "%session trust on", "replace": 1, "extra": 1},
            {"source": "ask_exit", "keepkernel": False},
            {"source": "edit_magic", "filename": "/etc/passwd"},
            {"source": "page", "data": "x"},
            "x",
        ]
    )
    assert sealed == [
        {"source": "page", "data": {**GOOD, "text/plain": "]0;x\x07"}, "start": 0},
        {"source": "set_next_input", "text": "%session trust on", "replace": False},
    ]


def test_inspections_and_expressions() -> None:
    seal = Seal()
    found = seal.inspection({"status": "ok", "found": True, "data": {"text/html": BAD}, "metadata": {"x": 1}})
    assert found == {"status": "ok", "found": True, "data": GOOD, "metadata": {}}
    assert seal.inspection({"data": 7})["data"] == {}
    values = seal.expressions(
        {"a": {"status": "ok", "data": {"text/html": BAD}}, "b": {"status": "error", "ename": "E"}, "c": 7}
    )
    assert values["a"]["data"] == GOOD and values["b"]["ename"] == "E" and "c" not in values


def test_completions_are_texts_and_places() -> None:
    kinds = [{"start": 0, "end": "1", "text": "<b>", "type": "function", "x": 1}, 7]
    reply = {
        "matches": ["a", 7, {}],
        "cursor_start": 3,
        "cursor_end": "x",
        "metadata": {"_jupyter_types_experimental": kinds, "x": 1},
    }
    assert Seal().completion(reply) == {
        "status": "ok",
        "matches": ["a"],
        "cursor_start": 3,
        "cursor_end": 0,
        "metadata": {"_jupyter_types_experimental": [{"start": 0, "text": "<b>", "type": "function"}]},
    }


class _Sent:
    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.outputs = Outputs(
            lambda parent, kind, content, *rest: self.messages.append((kind, content)), lambda seconds, work: None
        )

    def show(self, event: wire.Event) -> dict[str, Any]:
        self.outputs.show(event, {}, number=1)
        self.outputs.flush()
        return self.messages[-1][1]


@pytest.mark.parametrize("trusted", [False, True])
def test_everything_the_guest_shows_is_sealed_unless_trusted(trusted: bool) -> None:
    sent = _Sent()
    sent.outputs.trusted = trusted
    data, pdf = {"text/html": f"<b>{BAD}</b>"}, {"application/pdf": "x", "text/plain": "y"}
    for kind in (wire.DisplayData, wire.UpdateDisplay, wire.ExecuteResult):
        shown = sent.show(kind(data=data, metadata={"isolated": True}))
        assert ("onerror" in shown["data"]["text/html"].partition("srcdoc")[0]) is trusted
        assert bool(shown["metadata"]) is trusted
        assert ("application/pdf" in sent.show(kind(data=pdf))["data"]) is trusted
    assert (
        sent.show(wire.DisplayData(pdf, transient={"display_id": "a", "x": 1}))["transient"] == {"display_id": "a"}
    ) is not trusted
    assert ("\x1b" in sent.show(wire.Stream("stdout", "\x1b]0;x\x07"))["text"]) is trusted
    error = sent.show(wire.ErrorRaised("\x1b]0;", "\x1b]0;", ["\x1b]0;"]))
    assert all(("\x1b" in text) is trusted for text in (error["ename"], error["evalue"], error["traceback"][0]))


def test_the_guest_does_not_speak_for_the_host_s_widgets() -> None:
    class Host:
        def owns(self, message: Any) -> bool:
            return message["content"]["comm_id"] == "host"

        def states(self) -> Any:
            return {}, [], []

    sent = _Sent()
    sent.outputs.trusted = True
    sent.outputs.host_comms = Host()  # type: ignore[assignment]
    for action in ("comm_open", "comm_msg", "comm_close"):
        sent.outputs.show(wire.Comm(action, {"comm_id": "host", "data": {}}), {}, number=1)
    assert sent.messages == []
    sent.show(wire.Comm("comm_msg", {"comm_id": "guest", "data": {}}))
    assert len(sent.messages) == 1
