"""Snapshots as a library: `taking` and restoring them, `forking` sessions from them, `reading` which exist, the `space`
they take, and exporting one as a file (`snapshot_file`). None of this needs an open session; the snapshots of a session
open elsewhere are not deleted."""

from wasm_kernel.sessions.snapshots.forking import fork_session, fork_snapshot
from wasm_kernel.sessions.snapshots.reading import get_snapshot, has_store, list_snapshots, newest_snapshot, piece_of
from wasm_kernel.sessions.snapshots.snapshot_file import export_snapshot, import_snapshot
from wasm_kernel.sessions.snapshots.space import (
    added_bytes,
    collect_snapshots,
    delete_snapshot,
    give_space_back,
    make_room,
    remove_at_rest,
    remove_snapshots,
    verify_snapshots,
)
from wasm_kernel.sessions.snapshots.taking import create_snapshot, keep_for_good, open_from_snapshot, restore_snapshot

__all__ = [
    "added_bytes",
    "collect_snapshots",
    "create_snapshot",
    "delete_snapshot",
    "export_snapshot",
    "fork_session",
    "fork_snapshot",
    "get_snapshot",
    "give_space_back",
    "has_store",
    "import_snapshot",
    "keep_for_good",
    "list_snapshots",
    "make_room",
    "newest_snapshot",
    "open_from_snapshot",
    "piece_of",
    "remove_at_rest",
    "remove_snapshots",
    "restore_snapshot",
    "verify_snapshots",
]
