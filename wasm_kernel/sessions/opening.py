"""Opening a session: it continues where it was left, or starts fresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wasm_kernel.model.snapshots import Manifest, Snapshot
from wasm_kernel.sessions.session import LiveSession


@dataclass(frozen=True)
class OpenedSession:
    """A session that was just opened, and what it continues from.

    Attributes:
        live: The session.
        manifest: The snapshot whose memory it has; None: a fresh interpreter.
        begins_afresh: Whether a restart asked for a fresh start. The metadata says so until the next snapshot.
        problem: What the person has to know about it, in one sentence.
    """

    live: LiveSession
    manifest: Manifest | None = None
    begins_afresh: bool = False
    problem: str = ""


def resume(
    live: LiveSession, *, fresh: bool = False, check: Callable[[Snapshot], None] = lambda snapshot: None
) -> OpenedSession:
    """Let a session that was just opened continue from its newest snapshot, unless it is to be ``fresh``. Blocks.

    ``check``: refuses a snapshot before it is read. Raises whatever prevents continuing; the guest is fresh then.
    """
    afresh = live.begins_afresh()
    if not live.has_snapshots:
        return OpenedSession(live, begins_afresh=afresh)
    here, problem = None, ""
    if live.cell_log.destination:
        from wasm_kernel.sessions.unfinished_move import finish_move  # the last kernel was killed

        here, problem = finish_move(live)
    if here is None and live.cell_log.is_on_disk:
        from wasm_kernel.sessions.cell_recovery import recover_cells  # likewise

        recovered = recover_cells(live)
        here, problem = recovered.within(live), problem or recovered.problem
    if afresh or fresh:
        live.start_afresh()
        return OpenedSession(live, begins_afresh=afresh, problem=problem)
    if here is not None:
        return OpenedSession(live, here if here.entry else None, problem=problem)
    from wasm_kernel.sessions.snapshots import newest_snapshot, open_from_snapshot  # usually there is none to read

    newest = newest_snapshot(live.root, live.session_id)
    if newest is None:
        return OpenedSession(live, problem=problem)
    check(newest)
    manifest = open_from_snapshot(live, newest)
    return OpenedSession(live, manifest if manifest is not None and manifest.entry else None, problem=problem)
