"""Outputs for the person only: neither they nor that there were any reaches the guest through an Output widget."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel.kernel.captured_outputs import CapturedOutputs, without_private
from wasm_kernel.kernel.outputs import PRIVATE

Message = dict[str, Any]
OWN = {"output_type": "error", "ename": "FileNotFoundError"}
HINT = {"metadata": {PRIVATE: True}, "data": {"text/plain": "secret"}}


def captured(*found: Any) -> Message:
    """What a front end says of an Output widget."""
    return {
        "comm_id": "c",
        "data": {"method": "update", "state": {"outputs": list(found), "layout": "l"}, "buffer_paths": []},
    }


def test_private_outputs_do_not_reach_the_guest() -> None:
    own, answer = (
        {"output_type": "stream", "text": "x"},
        {"metadata": {PRIVATE: True}, "data": {"text/plain": "secret"}},
    )
    odd = [{"metadata": None}, {"metadata": {}}, "text", None]
    assert without_private(captured(own, answer, *odd, answer)) == captured(own, *odd)
    given = captured(answer)
    without_private(given)
    assert given == captured(answer), "what others hold is not changed"


@pytest.mark.parametrize(
    "content",
    [{}, {"data": None}, {"data": []}, {"data": {}}, {"data": {"state": 1}}, {"data": {"state": {"outputs": "x"}}}],
)
def test_other_messages_pass_as_they_are(content: Message) -> None:
    assert without_private(content) is content


def alone(*found: Any) -> Message:
    return {"comm_id": "c", "data": {"method": "update", "state": {"outputs": list(found)}, "buffer_paths": []}}


@pytest.mark.parametrize(
    "updates",
    [
        ([OWN], [OWN, HINT]),
        ([OWN, HINT],),
        ([OWN], [OWN, HINT], [OWN, HINT]),
        ([], [HINT]),
        ([HINT],),
    ],
)
def test_the_guest_sees_the_same_with_a_hint_and_without(updates: tuple[list[Any], ...]) -> None:
    seen = []
    for hinted in (True, False):
        captured_outputs, got = CapturedOutputs(), []
        before: list[Any] | None = None
        for outputs in updates:
            told = outputs if hinted else [o for o in outputs if o is not HINT]
            if not hinted and (told == before or (before is None and not told and outputs)):
                continue  # nothing changed, so the front end says nothing
            before = told
            message = captured_outputs.for_guest("comm_msg", alone(*told))
            if message is not None:
                got.append(message)
        seen.append(got)
    assert seen[0] == seen[1]


def test_other_changes_in_such_an_update_are_passed_on() -> None:
    outputs = CapturedOutputs()
    outputs.for_guest("comm_msg", alone(OWN))
    message = outputs.for_guest("comm_msg", captured(OWN, HINT))
    assert message is not None and message["data"]["state"] == {"layout": "l"}


def test_what_is_remembered_has_an_end() -> None:
    outputs = CapturedOutputs()
    for n in range(3000):
        outputs.for_guest("comm_msg", {**alone(OWN), "comm_id": str(n)})
    assert len(outputs._passed) <= 1000
    outputs.for_guest("comm_close", {"comm_id": "2999"})
    assert "2999" not in outputs._passed
