"""Which session a notebook has, for machines that have never seen it: a small object in the store by its name.

    notebooks/<hash of the name>     the session, the name, and the ids of the notebook's cells

The name is the path below the server's folder: two machines seldom have the same folders above it. As on the local disk
(`sessions.notebooks`), a path alone says little, so a notebook with other cells is another notebook.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.records import is_session_id

_MOST = 1 << 20  # bytes of one


@dataclass(frozen=True)
class NotebookHint:
    """The session of a notebook, and its cells when it was last pushed."""

    session_id: str
    notebook: str
    cells: tuple[str, ...] = ()

    def is_for(self, cells: tuple[str, ...] | None) -> bool:
        """Whether it is for a notebook with these cells; None: one that was never saved."""
        return cells is None or not self.cells or bool(set(cells) & set(self.cells))


def read_hint(objects: Objects, notebook: str) -> NotebookHint | None:
    """What the store knows of a notebook; None: nothing, or nothing that makes sense."""
    try:
        found = json.loads(objects.read(_name(notebook), 0, _MOST))
        session_id, cells = found["session_id"], tuple(str(cell) for cell in found["cells"])
    except (KeyError, ValueError, TypeError):
        return None
    if not isinstance(session_id, str) or not is_session_id(session_id) or found.get("notebook") != notebook:
        return None
    return NotebookHint(session_id, notebook, cells)


def write_hint(objects: Objects, hint: NotebookHint) -> None:
    """Remember a notebook's session."""
    objects.write(_name(hint.notebook), json.dumps(asdict(hint)).encode())


def _name(notebook: str) -> str:
    return f"notebooks/{hashlib.sha256(notebook.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
