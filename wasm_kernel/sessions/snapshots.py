"""Snapshots as a library: take, list, restore, fork, delete, export, import. A session need not be open."""

from __future__ import annotations

import contextlib
import os
import struct
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from wasm_kernel.errors import ConfigurationError, DamagedChunk, SessionLocked, StoreBusy, WasmKernelError
from wasm_kernel.host import administrator, image, removal
from wasm_kernel.host.chunks import ZERO, ChunkStore, Collected, Take, Verified
from wasm_kernel.host.durable import writing
from wasm_kernel.host.filetree import SavedTree
from wasm_kernel.host.folder import PathRefused
from wasm_kernel.host.ledger import STATE_FOLDER, gate, is_live, lock_session
from wasm_kernel.host.memory import CHUNK
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import check_session_id, is_uuid
from wasm_kernel.model.snapshot_retention import SnapshotRetention, plan_snapshots
from wasm_kernel.model.snapshots import (
    HASH,
    BadSnapshot,
    Manifest,
    Snapshot,
    check_values,
    chunks_of,
    parse_manifest,
    parse_snapshot,
)
from wasm_kernel.sessions import catalog
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import read_snapshot, snapshot_store
from wasm_kernel.sessions.sandboxes import ready_image
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.survey import existing_root

AnyRoot = Path | str | None
_MAGIC = b"wasm-kernel snapshot 1\n"
_LENGTHS = struct.Struct("<II")
_PIECE = struct.Struct(f"<{HASH}sI")
_ATTEMPTS = 4
_PATIENCE = 2.0  # seconds
_MOSTLY = 0.75
_MAX_HEAD, _MAX_BODY, _MAX_PIECE = 1 << 20, 64 << 20, 4 << 20


def create_snapshot(
    session_id: str,
    workspace_root: AnyRoot = None,
    *,
    label: str = "",
    metadata: dict[str, Any] | None = None,
    logger: SandboxLogger | None = None,
) -> Snapshot:
    """Save a session as it is now: memory, if it has any, and files."""
    root = existing_root(workspace_root)
    make_room(root)
    with _opened(session_id, root, logger) as live:
        count = live.recorder.last.execution_count if live.recorder.last is not None else 1
        snapshot = live.recorder.take("user", label=label, metadata=metadata, execution_count=count)
    _log(logger).info("session.snapshot.created", session_id=session_id, snapshot_id=snapshot.snapshot_id)
    return snapshot


def list_snapshots(workspace_root: AnyRoot = None, session_id: str | None = None) -> list[Snapshot]:
    """The snapshots of a session, or of all, the newest first. One that cannot be read is not listed."""
    store = snapshot_store(existing_root(workspace_root))
    found = []
    with contextlib.closing(store):
        for group, name in store.manifest_names(session_id):
            with contextlib.suppress(WasmKernelError, OSError):
                found.append(_head(store, group, name))
    return sorted(found, key=lambda s: s.created_at, reverse=True)


def get_snapshot(snapshot_id: str, workspace_root: AnyRoot = None) -> Snapshot:
    """A snapshot by its id."""
    store = snapshot_store(existing_root(workspace_root))
    with contextlib.closing(store):
        return _head(store, _group_of(store, snapshot_id), snapshot_id)


def restore_snapshot(
    snapshot_id: str, workspace_root: AnyRoot = None, *, logger: SandboxLogger | None = None
) -> Snapshot:
    """Make a snapshot's session what it was then: variables and files. The state before can be restored in turn."""
    root = existing_root(workspace_root)
    with contextlib.closing(snapshot_store(root)) as store:
        session_id = _group_of(store, snapshot_id)
        manifest = read_snapshot(store, session_id, snapshot_id)
    with _opened(session_id, root, logger, instead=manifest) as live:
        count = live.recorder.last.execution_count if live.recorder.last is not None else 1
        live.recorder.take("user", label="before restore", execution_count=count)
        live.recorder.restore(manifest)
        restored = live.recorder.take(
            "user",
            label=f"restored {manifest.snapshot.label or snapshot_id[:8]}",
            execution_count=manifest.snapshot.execution_count,
            variables=manifest.variables,
        )
    _log(logger).info("session.snapshot.restored", session_id=session_id, snapshot_id=snapshot_id)
    return restored


def delete_snapshot(snapshot_id: str, workspace_root: AnyRoot = None, *, logger: SandboxLogger | None = None) -> None:
    """Forget a snapshot. Its space comes back with the next `collect_snapshots`, or prune.

    Those of a session in use stay, for undo: `SessionLocked`.
    """
    root = existing_root(workspace_root)
    with contextlib.closing(snapshot_store(root)) as store:
        session_id = _group_of(store, snapshot_id)
        remove_at_rest(root, session_id, [snapshot_id], store)
    _log(logger).info("session.snapshot.deleted", session_id=session_id, snapshot_id=snapshot_id)


def fork_session(
    session_id: str,
    workspace_root: AnyRoot = None,
    *,
    snapshot_id: str | None = None,
    notebook: str | None = None,
    logger: SandboxLogger | None = None,
) -> str:
    """A new session that goes on from a snapshot, or from how a session is now; its id.

    Both share what they have in common on disk. The fork's random numbers are its own.
    """
    root = existing_root(workspace_root)
    if snapshot_id is None:
        snapshot_id = create_snapshot(session_id, root, label="fork", logger=logger).snapshot_id
    return fork_snapshot(snapshot_id, root, notebook=notebook, logger=logger)


def fork_snapshot(
    snapshot_id: str,
    workspace_root: AnyRoot = None,
    *,
    notebook: str | None = None,
    logger: SandboxLogger | None = None,
) -> str:
    """A new session that goes on from a snapshot; its id."""
    root = existing_root(workspace_root)
    make_room(root, but=snapshot_id)
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:  # nobody collects from here on
        group = _group_of(store, snapshot_id)
        body = store.read_manifest(group, snapshot_id)
        manifest = parse_manifest(store.manifest_head(group, snapshot_id), body)
        return _fork(root, store, take, manifest, body, notebook, _log(logger))


def _fork(
    root: Path,
    store: ChunkStore,
    take: Take,
    manifest: Manifest,
    body: bytes,
    notebook: str | None,
    logger: SandboxLogger,
) -> str:
    """A new session from a manifest. Its own manifest comes first: without it the session would have no memory."""
    session_id = str(uuid.uuid4())
    extra: dict[str, Any] = {"forked_from": manifest.snapshot.session_id}
    if notebook is not None:
        extra["notebook"] = notebook
    first = manifest.snapshot.moved(
        snapshot_id=str(uuid.uuid4()),
        session_id=session_id,
        trigger="user",
        parent="",
        label=f"forked from {manifest.snapshot.session_id[:8]}",
        created_at=datetime.now(UTC),
        stored_bytes=0,
        metadata={"forked_from": manifest.snapshot.snapshot_id, "reseed": True},
    )
    files = [f for f in manifest.files if f.mount == "app"]
    lock = lock_session(root, session_id)
    try:
        take.commit(session_id, first.snapshot_id, first.to_json(), body)
        try:
            with catalog.staged_session(root, session_id, extra, logger) as folder:
                SavedTree("app", folder).restore(files, lambda name, length: piece_of(store, name, length))
        except BaseException:
            store.remove_manifest(session_id, first.snapshot_id)
            raise
    finally:
        lock.release()
    logger.info("session.forked", session_id=session_id, snapshot_id=manifest.snapshot.snapshot_id)
    return session_id


def open_from_snapshot(live: LiveSession, snapshot: Snapshot | None = None, *, files: bool = False) -> Manifest | None:
    """Let a session that was just opened go on from its newest snapshot, or from this one; None: it has none."""
    found = snapshot or newest_snapshot(live.root, live.session_id)
    if found is None:
        return None
    manifest = read_snapshot(live.recorder.store, found.session_id, found.snapshot_id)
    live.recorder.restore(manifest, reseed=bool(found.metadata.get("reseed")), files=files)
    return manifest


def newest_snapshot(root: Path, session_id: str) -> Snapshot | None:
    """The last moment that was saved of a session."""
    found = list_snapshots(root, session_id)
    return found[0] if found else None


# ---- one file


def export_snapshot(
    snapshot_id: str,
    target: Path | str,
    workspace_root: AnyRoot = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a snapshot to one file, which another machine with the same image can continue.

    ``on_progress`` gets how many of its parts are written, and how many there are.
    """
    import zstandard

    target = Path(target).absolute()
    with contextlib.closing(snapshot_store(existing_root(workspace_root))) as store, store.take():
        group = _group_of(store, snapshot_id)
        head, body = store.manifest_head(group, snapshot_id), store.read_manifest(group, snapshot_id)
        parse_manifest(head, body)
        part = f".{target.name}.part-"
        removal.sweep_temporaries(str(p) for p in target.parent.iterdir() if p.name.startswith(part))
        with (
            writing(target, temporary=f"{target.parent}/{part}") as new,
            os.fdopen(new.handle, "wb", closefd=False) as file,
            zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as packed,
        ):
            packed.write(_MAGIC + _LENGTHS.pack(len(head), len(body)) + head + body)
            names = sorted({name for name in chunks_of(body) if name != ZERO})
            for done, name in enumerate(names, 1):
                data = store.read_chunk(name)
                packed.write(_PIECE.pack(name, len(data)) + data)
                if on_progress is not None:
                    on_progress(done, len(names))
    return target


def import_snapshot(
    source: Path | str,
    workspace_root: AnyRoot = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    logger: SandboxLogger | None = None,
) -> tuple[str, Snapshot]:
    """Make a new session of an exported snapshot; its id and its snapshot. What the file says is not trusted.

    ``on_progress`` gets how many of its parts are stored, and how many there are.
    """
    import zstandard

    root = catalog.prepared_root(workspace_root)
    make_room(root)
    source = Path(source)
    try:
        with source.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as packed:
            if _exactly(packed, len(_MAGIC)) != _MAGIC:
                raise BadSnapshot(f"{source} is no exported snapshot")
            lengths = _LENGTHS.unpack(_exactly(packed, _LENGTHS.size))
            if lengths[0] > _MAX_HEAD or lengths[1] > _MAX_BODY:
                raise BadSnapshot(f"{source} has a manifest that is too long")
            head, body = (_exactly(packed, length) for length in lengths)
            check_values(body, administrator.permitted(ExecutionPolicy()).max_files)
            manifest = parse_manifest(head, body)
            _check_room(manifest)
            needed, have = manifest.snapshot.image_key, image.parts().base.key
            if needed != have:
                raise BadSnapshot(
                    f"{source} needs the image {needed}, and this one is {have}; "
                    "install the version of wasm-kernel that made it and run `wasm-kernel image build`"
                )
            with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
                missing = {name for name in chunks_of(body) if name != ZERO}
                count = len(missing)
                lengths_in_memory = _lengths_in_memory(manifest)
                while header := packed.read(_PIECE.size):
                    name, length = _PIECE.unpack(header + _exactly(packed, _PIECE.size - len(header)))
                    if name not in missing or length > _MAX_PIECE:
                        raise BadSnapshot(f"{source} holds a chunk that its manifest does not name")
                    if lengths_in_memory.get(name, length) != length:
                        raise BadSnapshot(f"{source} holds a part of memory of {length:,} bytes")
                    if take.put(_exactly(packed, length)) != name:
                        raise BadSnapshot(f"{source} is damaged: a chunk is not what its name says")
                    missing.discard(name)
                    if on_progress is not None:
                        on_progress(count - len(missing), count)
                if missing:
                    raise BadSnapshot(f"{source} is cut short: {len(missing)} chunks are missing")
                session_id = _fork(root, store, take, manifest, body, None, _log(logger))
    except (zstandard.ZstdError, EOFError) as e:
        raise BadSnapshot(f"{source} is damaged or no exported snapshot: {e}") from None
    except (PathRefused, FileExistsError, NotADirectoryError, IsADirectoryError, DamagedChunk) as e:
        raise BadSnapshot(f"{source} holds files that cannot be made: {e}") from None
    return session_id, list_snapshots(root, session_id)[0]


def _check_room(manifest: Manifest) -> None:
    """A few bytes can name a chunk again and again: what comes out of them must still fit a session."""
    most = administrator.permitted(ExecutionPolicy())
    size = sum(f.size for f in manifest.files)
    if size > most.workspace_bytes or len(manifest.files) > most.max_files:
        raise BadSnapshot(
            f"it has {len(manifest.files):,} files of {size:,} bytes in all; "
            f"a session has room for {most.max_files:,} of {most.workspace_bytes:,} bytes"
        )


def _lengths_in_memory(manifest: Manifest) -> dict[bytes, int]:
    return {name: CHUNK // len(names) for names in manifest.table.values() for name in names}


def _exactly(file: IO[bytes], length: int) -> bytes:
    parts = []
    while length:
        part = file.read(min(length, 1 << 20))
        if not part:
            raise EOFError("it ends too early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


# ---- keeping house


def make_room(root: Path, *, but: str = "") -> bool:
    """Where the administrator bounds snapshots and most of that is used: the oldest checkpoints go, until half is free.

    What a person took stays, as does the newest of each session, and ``but``. Whether there is room now.
    """
    rules = administrator.rules()
    if not rules.bounds_snapshots:
        return True
    with contextlib.closing(snapshot_store(root)) as store:
        for _ in range(_ATTEMPTS):  # what goes may share its chunks with what stays: then more has to
            count, size = len(store.manifest_names()), store.stored_bytes()
            if not any(
                most is not None and used > _MOSTLY * most
                for used, most in ((count, rules.snapshots), (size, rules.snapshot_bytes))
            ):
                return True
            policy = SnapshotRetention(
                max_total=None if rules.snapshots is None else rules.snapshots // 2,
                max_total_bytes=None if rules.snapshot_bytes is None else rules.snapshot_bytes // 2,
                keep=frozenset([but]),
                keep_user=True,
            )
            doomed = plan_snapshots(list_snapshots(root), policy, datetime.now(UTC), size)
            for snapshot in doomed:
                store.remove_manifest(snapshot.session_id, snapshot.snapshot_id)
            with contextlib.suppress(StoreBusy):  # somebody takes one: next time
                store.collect(chunks_of, wait=_PATIENCE)
            if not doomed:
                break
    return False


def remove_at_rest(root: Path, session_id: str, snapshot_ids: Iterable[str], store: ChunkStore) -> list[str]:
    """Delete snapshots of a session that nobody uses; which there were. `SessionLocked` if somebody does.

    They stay while it is live: its kernel offers them to undo.
    """
    with gate(root, exclusive=True):  # nobody opens it meanwhile
        if is_live(root, session_id):
            raise SessionLocked(
                f"session {session_id} is in use, and its snapshots stay as long: they are what undo goes back to"
            )
        return [name for name in snapshot_ids if store.remove_manifest(session_id, name)]


def added_bytes(root: Path, session_ids: Collection[str]) -> dict[str, int]:
    """What the snapshots of these sessions added to the store; of those that have any."""
    if not session_ids or not has_store(root):
        return {}
    found: dict[str, int] = {}
    with contextlib.closing(snapshot_store(root)) as store:
        for group, name in store.manifest_names():
            if group in session_ids:
                with contextlib.suppress(WasmKernelError, OSError):
                    found[group] = found.get(group, 0) + _head(store, group, name).stored_bytes
    return found


def give_space_back(root: Path, *, wait: float = 0.0) -> int:
    """Collect what no snapshot refers to any more; the bytes. If somebody takes one now, the next time does it."""
    if not has_store(root):
        return 0
    with contextlib.suppress(WasmKernelError, OSError), contextlib.closing(snapshot_store(root)) as store:
        return store.collect(chunks_of, wait=wait).freed
    return 0


def has_store(root: Path) -> bool:
    """Whether a snapshot was ever taken below a root; who only looks makes no store."""
    return (root / STATE_FOLDER / "snapshots").is_dir()


def collect_snapshots(workspace_root: AnyRoot = None, *, wait: float = 0.0) -> Collected:
    """Give back the space of what no snapshot refers to any more."""
    with contextlib.closing(snapshot_store(existing_root(workspace_root))) as store:
        return store.collect(chunks_of, wait=wait)


def verify_snapshots(
    workspace_root: AnyRoot = None, *, on_progress: Callable[[int, int], None] | None = None
) -> Verified:
    """Read everything that is stored and say which snapshots are whole."""
    with contextlib.closing(snapshot_store(existing_root(workspace_root))) as store:
        return store.verify(chunks_of, on_progress)


# ---- helpers


def _log(logger: SandboxLogger | None) -> SandboxLogger:
    return logger or SandboxLogger()


def _head(store: ChunkStore, group: str, name: str) -> Snapshot:
    snapshot = parse_snapshot(store.manifest_head(group, name))
    if (snapshot.session_id, snapshot.snapshot_id) != (group, name):
        raise BadSnapshot(f"snapshot {name} says it is {snapshot.snapshot_id}")
    return snapshot


def _group_of(store: ChunkStore, snapshot_id: str) -> str:
    if not is_uuid(snapshot_id):
        raise ConfigurationError(f"{snapshot_id!r} is no snapshot's id")
    for group, name in store.manifest_names():
        if name == snapshot_id:
            return group
    raise FileNotFoundError(f"there is no snapshot {snapshot_id}; list_snapshots() shows which there are")


def piece_of(store: ChunkStore, name: bytes, length: int) -> bytes:
    """A part of a saved file."""
    return bytes(length) if name == ZERO else store.read_chunk(name)[:length]


@contextlib.contextmanager
def _opened(
    session_id: str, root: Path, logger: SandboxLogger | None, *, instead: Manifest | None = None
) -> Iterator[LiveSession]:
    """A session as it is: open in this process already, or opened for a moment with the memory it was left with.

    If that memory cannot be had: with that of ``instead``.
    """
    check_session_id(session_id)
    live = catalog.live_session(session_id, root)
    if live is not None and live.enter():
        try:
            yield live
        finally:
            live.leave()
        return
    if not (root / session_id).is_dir():
        raise FileNotFoundError(f"there is no session {session_id} in {root}")
    img = ready_image()
    lock = lock_session(root, session_id)
    try:
        live = LiveSession(session_id, root / session_id, img, ExecutionPolicy(), lock)
    except BaseException:
        lock.release()
        raise
    try:
        try:
            open_from_snapshot(live)
        except WasmKernelError as e:
            if instead is None:
                raise
            _log(logger).warning("session.snapshot.unusable", session_id=session_id, error=str(e))
            live.recorder.restore(instead, files=False)
        yield live
    finally:
        live.close()
