"""Notices for the person, which the next kernel of a notebook shows (`kernel.notices` reads them)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wasm_kernel.host.disk.locks import state_folder
from wasm_kernel.host.durable import write_file

NOTICES = "notices.json"


def write_notices(root: Path, notices: Sequence[dict[str, Any]]) -> None:
    """Replace the notices kept with the sessions below a root, atomically; without notices, remove the file."""
    state = state_folder(root)
    target = state / NOTICES
    if not notices:
        target.unlink(missing_ok=True)
        return
    (state / "new").mkdir(mode=0o700, exist_ok=True)
    data = json.dumps({"version": 1, "notices": list(notices)}).encode()
    write_file(target, data, temporary=f"{state}/new/notices.")
