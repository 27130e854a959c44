"""Notices of a hub's service for a user whose sessions are in an object store: kernels fetch them when they start."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.sessions.notices import write_notices

_NAME = "notices.json"
_MOST = 1 << 20  # bytes


def write_stored_notices(objects: Objects, notices: Sequence[dict[str, Any]]) -> None:
    """Replace the notices of a user; without notices, there is no such object."""
    if notices:
        objects.write(_NAME, json.dumps({"version": 1, "notices": list(notices)}).encode())
    else:
        objects.delete([_NAME])


def fetch_notices(objects: Objects, root: Path) -> None:
    """Put what a hub has left for this user where kernels look for it; without any, what is there stays."""
    try:
        found = json.loads(objects.read(_NAME, 0, _MOST))["notices"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return
    if not isinstance(found, list):
        return
    # The sessions they are about may be on no disk of this machine, and are to be told of all the same.
    notices = [{**item, "session_ids": []} for item in found if isinstance(item, dict)]
    with contextlib.suppress(OSError):  # a full disk
        write_notices(root, notices)
