"""After a kill in the middle of an undo, a redo or a restore, when some files were put back: the others follow."""

from __future__ import annotations

import contextlib

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.model.snapshots import Manifest
from wasm_kernel.sessions.recorder import read_snapshot
from wasm_kernel.sessions.session import LiveSession


def finish_move(live: LiveSession) -> tuple[Manifest | None, str]:
    """Bring a session that was just opened to the snapshot it was moving to; where it is, and what went wrong. Blocks.

    If that fails, the session is between the two, and the person has to know.
    """
    recorder = live.recorder
    try:
        manifest = read_snapshot(recorder.store, live.session_id, live.cell_log.destination)
        recorder.restore(manifest)
    except (WasmKernelError, OSError, ValueError) as e:
        live.cell_log.arrived()
        return None, (
            "The kernel was killed while files were being put back, as by an undo, and this could not be finished: "
            f"{e}. Some files may be those of another cell; `%session undo` and `redo` put them in order."
        )
    with contextlib.suppress(WasmKernelError, OSError):  # a full disk: the first cell that is logged says where it is
        recorder.mark(manifest)
    return manifest, ""
