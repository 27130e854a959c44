"""What this machine last had in common with the store, by session: so that neither overwrites what the other lacks."""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from wasm_kernel.host.durable import write_file
from wasm_kernel.model.names import STATE_FOLDER

_FOLDER = "remote"


@dataclass(frozen=True)
class Synced:
    """The state in the store, and the local snapshot that was the same then.

    ``coming``: a state that was about to be written when this was. Killed then, this machine knows it as its own.
    """

    address: str
    state: str
    snapshot_id: str
    coming: str = ""

    def has_had(self, state: str) -> bool:
        """Whether this machine has all that a state holds."""
        return state in (self.state, self.coming)


def read_synced(root: Path, session_id: str) -> Synced | None:
    """What is known; None: nothing, or it cannot be read."""
    try:
        found = json.loads(_path(root, session_id).read_bytes())
        named = (str(found["address"]), str(found["state"]), str(found["snapshot_id"]))
        return Synced(*named, coming=str(found.get("coming", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_synced(root: Path, session_id: str, synced: Synced) -> None:
    """Remember it."""
    path = _path(root, session_id)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_file(path, json.dumps(asdict(synced)).encode())


def forget_synced(root: Path, session_id: str) -> None:
    """This machine and the store have nothing in common any more."""
    with contextlib.suppress(OSError):
        _path(root, session_id).unlink()


def synced_sessions(root: Path) -> list[str]:
    """Every session that this machine once had in common with the store, also those that are gone."""
    try:
        names = sorted(path.name for path in (root / STATE_FOLDER / _FOLDER).iterdir())
    except OSError:
        return []
    return [name.removesuffix(".json") for name in names if name.endswith(".json")]


def node_of(root: Path) -> str:
    """A name for the disk that these sessions are on, made once: other machines have others."""
    path = root / STATE_FOLDER / _FOLDER / "node"
    try:
        return path.read_text("ascii")
    except (OSError, ValueError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            write_file(path, uuid.uuid4().hex.encode(), exclusive=True)
        return path.read_text("ascii")


def _path(root: Path, session_id: str) -> Path:
    return root / STATE_FOLDER / _FOLDER / f"{session_id}.json"
