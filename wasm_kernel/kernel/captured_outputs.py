"""Outputs for the person only, kept from the guest: an Output widget captures what its cell shows, the host's answers
too, and the front end sends it to the guest.

Not even that there was one may be told: whether a file lies beside the notebook is one bit. So an update that says
nothing but that is not passed on.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from wasm_kernel.kernel.outputs import PRIVATE

Message = dict[str, Any]
_MOST = 1000  # widgets whose last outputs are remembered


class CapturedOutputs:
    """What front ends say of the guest's Output widgets."""

    def __init__(self) -> None:
        self._passed: dict[str, bytes] = {}  # by comm, what the guest was last told

    def for_guest(self, action: str, content: Message) -> Message | None:
        """A message for a widget of the guest's, without what is private; None: the guest must not get it."""
        comm_id = str(content.get("comm_id"))
        if action == "comm_close":
            self._passed.pop(comm_id, None)
        kept = without_private(content)
        outputs = _outputs(kept)
        if outputs is None:
            return content
        digest = hashlib.blake2b(json.dumps(outputs, sort_keys=True, default=str).encode(), digest_size=16).digest()
        if kept is not content and self._passed.get(comm_id, _NOTHING) == digest:
            others = {**kept["data"]["state"]}
            del others["outputs"]
            return {**kept, "data": {**kept["data"], "state": others}} if others else None
        if len(self._passed) >= _MOST:
            self._passed.pop(next(iter(self._passed)))
        self._passed[comm_id] = digest
        return kept


def without_private(content: Message) -> Message:
    """A front end's message to one of the guest's widgets, without outputs that are for the person only."""
    outputs = _outputs(content)
    if outputs is None or not any(map(_is_private, outputs)):
        return content
    data = content["data"]
    kept = [output for output in outputs if not _is_private(output)]
    return {**content, "data": {**data, "state": {**data["state"], "outputs": kept}}}


def _outputs(content: Message) -> list[Any] | None:
    data = content.get("data")
    state = data.get("state") if isinstance(data, dict) else None
    outputs = state.get("outputs") if isinstance(state, dict) else None
    return outputs if isinstance(outputs, list) else None


def _is_private(output: Any) -> bool:
    return isinstance(output, dict) and PRIVATE in (output.get("metadata") or {})


_NOTHING = hashlib.blake2b(b"[]", digest_size=16).digest()
