"""Processes that take, restore, fork, delete, prune and export snapshots until they are killed. See `nursery`."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from tests.sessions.nursery import Operation, serve
from wasm_kernel import (
    SandboxLogger,
    SessionLocked,
    Snapshot,
    SnapshotRetention,
    WasmKernelError,
    collect_snapshots,
    create_snapshot,
    delete_session_workspace,
    delete_snapshot,
    export_snapshot,
    fork_session,
    get_session_sandbox,
    list_snapshots,
    prune_sessions,
    prune_snapshots,
    restore_snapshot,
)
from wasm_kernel.errors import StoreBusy

QUIET = SandboxLogger(level="error")
CODE = (
    "n = {n}; data = bytearray(b'%d' % n) * 5000; open('f', 'w').write(str(n) * 50); open('/tmp/t', 'w').write(str(n))"
)
CHECK = "print(n, bytes(data) == b'%d' % n * 5000, open('f').read() == str(n) * 50, open('/tmp/t').read() == str(n))"
"""A session is whole when its variables and its files tell of the same cell."""
SESSIONS = ("one", "two")


def whole_ones(root: Path) -> list[Snapshot]:
    """Not those of a session as it was found before a restore: whoever was killed may have left files of a later cell."""
    return [s for s in list_snapshots(root) if "before restore" not in s.label]


def take(root: Path, out: Path, chance: random.Random) -> None:
    while True:
        with (
            contextlib.suppress(SessionLocked),
            get_session_sandbox(chance.choice(SESSIONS), workspace_root=root, logger=QUIET) as sandbox,
        ):
            for _ in range(5):
                assert sandbox.execute(CODE.format(n=chance.randrange(1000))).success
                create_snapshot(sandbox.session_id, root, logger=QUIET)  # type: ignore[attr-defined]


def restore(root: Path, out: Path, chance: random.Random) -> None:
    while True:
        with contextlib.suppress(SessionLocked, FileNotFoundError, IndexError, WasmKernelError):
            restore_snapshot(chance.choice(whole_ones(root)).snapshot_id, root, logger=QUIET)


def fork(root: Path, out: Path, chance: random.Random) -> None:
    while True:
        with contextlib.suppress(FileNotFoundError, IndexError):
            snapshot = chance.choice(whole_ones(root))
            new = fork_session(snapshot.session_id, root, snapshot_id=snapshot.snapshot_id, logger=QUIET)
            if chance.random() < 0.8:
                delete_session_workspace(new, root, QUIET)


def delete(root: Path, out: Path, chance: random.Random) -> None:
    while True:
        with contextlib.suppress(SessionLocked, FileNotFoundError, IndexError):
            delete_snapshot(chance.choice(list_snapshots(root)[4:]).snapshot_id, root, logger=QUIET)


def prune(root: Path, out: Path, chance: random.Random) -> None:
    while True:
        with contextlib.suppress(StoreBusy):
            prune_snapshots(SnapshotRetention(max_per_session=chance.randrange(2, 6)), root, logger=QUIET)
            collect_snapshots(root, wait=1)
        prune_sessions(24, root, logger=QUIET)


def export(root: Path, out: Path, chance: random.Random) -> None:
    while True:
        with contextlib.suppress(FileNotFoundError, IndexError):
            snapshot = chance.choice(whole_ones(root))
            export_snapshot(snapshot.snapshot_id, out / f"exported{chance.randrange(3)}", root)


OPERATIONS: dict[str, Operation] = {f.__name__: f for f in (take, restore, fork, delete, prune, export)}


if __name__ == "__main__":
    serve(OPERATIONS)
