"""The types that the server and the hub share are what the OpenAPI document says, field by field."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from wasm_kernel.model import prune_report, session_info
from wasm_kernel.server.openapi_schemas import SCHEMAS, retention

_PRUNE = SCHEMAS["Prune"]["properties"]


@pytest.mark.parametrize(
    ("shape", "schema"),
    [
        (session_info.SandboxInfo, SCHEMAS["Sandbox"]),
        (prune_report.PruneReport, SCHEMAS["Prune"]),
        (prune_report.PruneTotals, _PRUNE["totals"]),
        (prune_report.PrunedSession, _PRUNE["sessions"]["items"]),
        (prune_report.PruneRequest, retention(execute=True)),
        (prune_report.PruneRequest, retention(execute=False)),
        (prune_report.SnapshotBounds, retention(execute=True)["properties"]["snapshots"]),
    ],
)
def test_types_and_schemas_have_the_same_fields(shape: type, schema: dict[str, Any]) -> None:
    assert get_type_hints(shape).keys() == schema["properties"].keys()
    assert not schema["additionalProperties"]
    assert set(schema.get("required", ())) == set(shape.__required_keys__)  # type: ignore[attr-defined]


def test_actions() -> None:
    assert set(_PRUNE["sessions"]["items"]["properties"]["action"]["enum"]) == set(prune_report.Action.__args__)  # type: ignore[attr-defined]
