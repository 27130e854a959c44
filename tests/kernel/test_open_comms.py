"""Which comms are open: no more, and no longer names, than the host keeps. No guest."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel.guest import wire
from wasm_kernel.kernel import open_comms
from wasm_kernel.kernel.open_comms import LONGEST, OpenComms
from wasm_kernel.kernel.outputs import Outputs


def opened(comm_id: Any, target: Any = "jupyter.widget") -> dict[str, Any]:
    return {"comm_id": comm_id, "target_name": target, "data": {}}


def test_open_and_close() -> None:
    comms = OpenComms()
    assert not comms.note("comm_open", opened("a"))
    assert not comms.note("comm_open", opened("b", ""))
    assert not comms.note("comm_msg", {"comm_id": "unknown"})
    assert comms.known() == {"a": "jupyter.widget", "b": ""}
    assert not comms.note("comm_close", {"comm_id": "a"})
    assert not comms.note("comm_close", {"comm_id": "a"})
    assert not comms.note("comm_close", {"comm_id": ["no", "id"]})
    assert comms.known() == {"b": ""}
    comms.clear()
    assert comms.known() == {}


@pytest.mark.parametrize(
    ("comm_id", "target"),
    [("x" * (LONGEST + 1), "t"), ("a", "t" * (LONGEST + 1)), (None, "t"), (1, "t"), (["a"], "t"), ("a", {"t": 1})],
)
def test_names_are_texts_of_sane_length(comm_id: Any, target: Any) -> None:
    comms = OpenComms()
    assert str(LONGEST) in comms.note("comm_open", opened(comm_id, target))
    assert comms.known() == {}
    assert not comms.note("comm_open", opened("x" * LONGEST, "t" * LONGEST))


def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_comms, "MOST", 3)
    comms = OpenComms()
    refused = [bool(comms.note("comm_open", opened(f"c{n}"))) for n in range(5)]
    assert refused == [False, False, False, True, True]
    assert not comms.note("comm_open", opened("c1", "another")), "it is open: nothing is added"
    comms.note("comm_close", {"comm_id": "c0"})
    assert not comms.note("comm_open", opened("c9"))
    assert set(comms.known()) == {"c1", "c2", "c9"}


def test_what_is_refused_is_not_sent_and_said_once_per_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_comms, "MOST", 2)
    sent: list[tuple[str, str, Any]] = []
    outputs = Outputs(
        lambda parent, kind, content, *rest: sent.append((parent["id"], kind, content)), lambda seconds, work: None
    )
    outputs.trusted = True  # else only widgets of ipywidgets' own are opened at all
    for cell in ("one", "two"):
        for n in range(5):
            outputs.show(wire.Comm("comm_open", opened(f"c{n}")), {"id": cell}, number=1)
    outputs.show(wire.Comm("comm_open", opened("c9")), {"id": "silent"}, number=1, silent=True)
    assert [(cell, kind) for cell, kind, _ in sent] == [
        ("one", "comm_open"),
        ("one", "comm_open"),
        ("one", "stream"),
        ("two", "comm_open"),
        ("two", "comm_open"),
        ("two", "stream"),
    ]
    assert "close those no longer needed" in sent[2][2]["text"]
