"""Output goes to the request that the guest names, if it was given that request."""

from __future__ import annotations

from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.kernel import attribution
from wasm_kernel.kernel.attribution import Attribution, Request
from wasm_kernel.kernel.outputs import Outputs


def request(name: str, **details: Any) -> Request:
    return Request({"header": {"msg_id": name}}, **details)


def shown_with() -> tuple[Attribution, list[tuple[str, str]]]:
    sent: list[tuple[str, str]] = []

    def publish(parent: dict[str, Any], kind: str, content: dict[str, Any], *rest: Any) -> None:
        sent.append((parent["header"]["msg_id"], content["ename"]))

    return Attribution(Outputs(publish, lambda work: None)), sent


def test_output_follows_the_request_named_and_a_new_turn_begins_with_its_own() -> None:
    attributed, sent = shown_with()
    first, second = attributed.of(request("1")), attributed.of(request("2"))
    for event in (wire.ErrorRaised("a", ""), wire.Parent("1"), wire.ErrorRaised("b", ""), wire.Parent("2")):
        second(event)
    second(wire.ErrorRaised("c", ""))
    first(wire.ErrorRaised("d", ""))
    assert sent == [("2", "a"), ("1", "b"), ("2", "c"), ("1", "d")]


def test_a_request_never_given_is_nobodys() -> None:
    attributed, sent = shown_with()
    shown = attributed.of(request("1"))
    shown(wire.Parent("elsewhere"))
    shown(wire.ErrorRaised("a", ""))
    assert sent == [("1", "a")]


def test_what_a_silent_cell_started_stays_silent() -> None:
    attributed, sent = shown_with()
    attributed.of(request("silent", silent=True))
    shown = attributed.of(request("1"))
    shown(wire.Parent("silent"))
    shown(wire.ErrorRaised("a", ""))
    assert sent == []


def test_requests_are_forgotten_in_the_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(attribution, "_MOST", 2)
    attributed, sent = shown_with()
    for name in ("1", "2", "3"):
        shown = attributed.of(request(name))
    shown(wire.Parent("1"))
    shown(wire.ErrorRaised("a", ""))
    assert sent == [("3", "a")]
