"""The API's description, `openapi.yaml`, for one server: its address, its idle timeout, its administrator's maxima.

Requests are checked by its schemas. Loading it takes a few milliseconds, so it is loaded with the first request: most
servers get none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from wasm_kernel.model.limits import LIMITS
from wasm_kernel.model.session_info import MAX_TITLE as MAX_TITLE

BASE = "/wasm-kernel/api/v0"
EVENTS = "application/x-ndjson"
# Also in the document; a test compares them.
DELETED = "Sandbox is deleted. Please create a new one."
STATES = ("ready", "busy", "idle", "released", "deleted")
MAX_IDLE = 10**9

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML was built with it
_UNITS = {"size": ", in bytes", "time": ", in seconds", "count": ""}


def document(address: str, maxima: Mapping[str, float], idle_timeout: int) -> dict[str, Any]:
    """The whole document, for a server whose API is at ``address``. Reads a file."""
    found: dict[str, Any] = yaml.load((Path(__file__).parent / "openapi.yaml").read_bytes(), _LOADER)
    del found["x-parts"]
    found["servers"] = [{"url": address}]
    create = found["paths"]["/sandboxes"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    create["idle_timeout_seconds"]["default"] = idle_timeout
    create["limits"] = _limits(maxima)
    return found


def _limits(maxima: Mapping[str, float]) -> dict[str, Any]:
    """What a sandbox may use, up to these maxima."""
    fields: dict[str, Any] = {}
    for name, limit in LIMITS.items():
        kind, most = "number" if limit.kind == "time" else "integer", maxima.get(name)
        fields[name] = {
            "type": [kind, "null"] if limit.optional and most is None else kind,
            "minimum": limit.range.least,
            "maximum": limit.range.most if most is None else min(limit.range.most, most),
            "description": f"{limit.meaning}{_UNITS[limit.kind]}",
        }
    return {
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        "description": "What the sandbox may use; the maxima are the administrator's.",
    }
