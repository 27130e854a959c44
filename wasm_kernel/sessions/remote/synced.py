"""What this machine last had in common with the store, by session: so that neither overwrites what the other lacks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from wasm_kernel.host.durable import write_file
from wasm_kernel.model.names import STATE_FOLDER

_FOLDER = "remote"


@dataclass(frozen=True)
class Synced:
    """The state in the store, and the local snapshot that was the same then."""

    address: str
    state: str
    snapshot_id: str


def read_synced(root: Path, session_id: str) -> Synced | None:
    """What is known; None: nothing, or it cannot be read."""
    try:
        found = json.loads(_path(root, session_id).read_bytes())
        return Synced(str(found["address"]), str(found["state"]), str(found["snapshot_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_synced(root: Path, session_id: str, synced: Synced) -> None:
    """Remember it."""
    path = _path(root, session_id)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_file(path, json.dumps(asdict(synced)).encode())


def _path(root: Path, session_id: str) -> Path:
    return root / STATE_FOLDER / _FOLDER / f"{session_id}.json"
