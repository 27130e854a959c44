"""The OpenAPI document says what the code does: types on the wire, limits, and words used on both sides."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from wasm_kernel.model import limits, prune_report, session_info
from wasm_kernel.model.outcome import OutcomeKind
from wasm_kernel.model.snapshots import MAX_LABEL, TRIGGERS
from wasm_kernel.server.api import openapi
from wasm_kernel.server.api.values import operations

DOCUMENT = openapi.document("/here/wasm-kernel/api/v0", {"memory": 1 << 30, "timeout": 60.0}, 17)
_SCHEMAS = DOCUMENT["components"]["schemas"]
_PRUNE = _SCHEMAS["Prune"]["properties"]


def body_of(path: str) -> dict[str, Any]:
    """What a POST there takes."""
    schema: dict[str, Any] = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return schema


@pytest.mark.parametrize(
    ("shape", "schema"),
    [
        (session_info.SandboxInfo, _SCHEMAS["Sandbox"]),
        (prune_report.PruneReport, _SCHEMAS["Prune"]),
        (prune_report.PruneTotals, _PRUNE["totals"]),
        (prune_report.PrunedSession, _PRUNE["sessions"]["items"]),
        (prune_report.PruneRequest, body_of("/prune/execute")),
        (prune_report.PruneRequest, body_of("/prune/plan")),
        (prune_report.SnapshotBounds, body_of("/prune/execute")["properties"]["snapshots"]),
    ],
)
def test_types_and_schemas_have_the_same_fields(shape: type, schema: dict[str, Any]) -> None:
    assert get_type_hints(shape).keys() == schema["properties"].keys()
    assert not schema["additionalProperties"]
    assert set(schema.get("required", ())) == set(shape.__required_keys__)  # type: ignore[attr-defined]


def test_words_of_the_code_are_words_of_the_document() -> None:
    assert set(_PRUNE["sessions"]["items"]["properties"]["action"]["enum"]) == set(prune_report.Action.__args__)  # type: ignore[attr-defined]
    parameters = {p["name"]: p["schema"] for p in DOCUMENT["paths"]["/sandboxes"]["get"]["parameters"]}
    assert parameters["state"]["items"] == _SCHEMAS["Sandbox"]["properties"]["state"] == {"enum": list(openapi.STATES)}
    (trigger, *_) = DOCUMENT["paths"]["/snapshots"]["get"]["parameters"]
    assert trigger["schema"] == {"type": "array", "items": {"enum": list(TRIGGERS)}, "maxItems": len(TRIGGERS)}
    assert _SCHEMAS["Snapshot"]["properties"]["trigger"] == {"enum": list(TRIGGERS)}
    assert set(_SCHEMAS["Outcome"]["properties"]["kind"]["enum"]) == {kind.value for kind in OutcomeKind}
    label = body_of("/sandboxes/{sandbox_id}/snapshots")["properties"]["label"]
    assert label["maxLength"] == MAX_LABEL
    created = body_of("/sandboxes")["properties"]
    assert created["title"]["maxLength"] == openapi.MAX_TITLE
    assert created["idle_timeout_seconds"]["maximum"] == openapi.MAX_IDLE
    gone = DOCUMENT["paths"]["/sandboxes/{sandbox_id}"]["delete"]["responses"]["410"]
    assert gone["description"] == openapi.DELETED
    events = DOCUMENT["paths"]["/sandboxes/{sandbox_id}/tasks/{task_id}/events"]["get"]["responses"]["200"]
    assert list(events["content"]) == [openapi.EVENTS]


def test_what_belongs_to_one_server_is_filled_in() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert "x-parts" not in DOCUMENT
    assert DOCUMENT["servers"] == [{"url": "/here/wasm-kernel/api/v0"}]
    created = body_of("/sandboxes")["properties"]
    assert created["idle_timeout_seconds"]["default"] == 17
    found = created["limits"]["properties"]
    assert list(found) == list(limits.LIMITS)
    assert (found["memory"]["minimum"], found["memory"]["maximum"]) == (320 << 20, 1 << 30)
    assert found["timeout"]["type"] == "number", "where there is a maximum, none is no choice"
    assert found["timeout"]["maximum"] == 60
    assert found["fuel"]["type"] == ["integer", "null"]
    assert found["disk"]["maximum"] == 2**60
    other = openapi.document("/there", {}, 1)
    assert other["servers"] != DOCUMENT["servers"]
    assert created["idle_timeout_seconds"]["default"] == 17, "documents share nothing"


def test_every_operation_can_be_checked() -> None:
    assert len(operations(DOCUMENT)) == 22
