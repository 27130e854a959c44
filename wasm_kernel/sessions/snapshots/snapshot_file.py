"""A snapshot as one file, from which another machine with the same image can continue.

    magic, lengths of head and body, head, body      the manifest
    name, length, data                               for each chunk it names

All of it is compressed. An imported file comes from elsewhere, so everything in it is checked.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import zstandard

from wasm_kernel.errors import BadSnapshot, DamagedChunk, OlderImage, PathRefused
from wasm_kernel.host import administrator
from wasm_kernel.host.disk import removal
from wasm_kernel.host.durable import writing
from wasm_kernel.host.image import older_images
from wasm_kernel.host.runtime.memory import CHUNK
from wasm_kernel.host.store.chunks import ZERO, Transaction
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import HASH, Manifest, Snapshot, check_values, chunks_of, parse_manifest
from wasm_kernel.sessions.catalog import prepared_root
from wasm_kernel.sessions.inventory import existing_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots.forking import new_session
from wasm_kernel.sessions.snapshots.reading import AnyRoot, list_snapshots, session_of_snapshot
from wasm_kernel.sessions.snapshots.space import make_room

_MAGIC = b"wasm-kernel snapshot 1\n"
_LENGTHS = struct.Struct("<II")
_PIECE = struct.Struct(f"<{HASH}sI")
_MAX_HEAD, _MAX_BODY, _MAX_PIECE = 1 << 20, 64 << 20, 4 << 20

OnProgress = Callable[[int, int], None]
"""Called with how much is done, and how much there is in all."""


def export_snapshot(
    snapshot_id: str,
    target: Path | str,
    workspace_root: AnyRoot = None,
    *,
    on_progress: OnProgress | None = None,
) -> Path:
    """Write a snapshot to one file, from which another machine with the same image can continue.

    ``on_progress`` gets the number of parts written, and of all parts.
    """
    target = Path(target).absolute()
    with contextlib.closing(snapshot_store(existing_root(workspace_root))) as store, store.take():
        group = session_of_snapshot(store, snapshot_id)
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
            names = sorted(_chunks_in_file(body))
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
    on_progress: OnProgress | None = None,
    logger: SandboxLogger | None = None,
) -> tuple[str, Snapshot]:
    """Make a new session from an exported snapshot; its id and its snapshot. The file is not trusted.

    ``on_progress`` gets the number of parts stored, and of all parts.
    """
    root = prepared_root(workspace_root)
    make_room(root)
    source = Path(source)
    with (
        _blamed_on(source),
        source.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as packed,
    ):
        manifest, body = _read_manifest(packed, source)
        _check_size(manifest)
        _check_image(manifest, source)
        with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
            _store_chunks(packed, manifest, body, take, source, on_progress)
            session_id = new_session(root, store, take, manifest, body, logger=logger or SandboxLogger())
    return session_id, list_snapshots(root, session_id)[0]


@contextlib.contextmanager
def _blamed_on(source: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read, or its contents are put in place, into `BadSnapshot`."""
    try:
        yield
    except (zstandard.ZstdError, EOFError) as e:
        raise BadSnapshot(f"{source} is damaged, or not an exported snapshot: {e}") from None
    except (PathRefused, FileExistsError, NotADirectoryError, IsADirectoryError, DamagedChunk) as e:
        raise BadSnapshot(f"{source} holds files that cannot be created: {e}") from None


def _read_manifest(packed: IO[bytes], source: Path) -> tuple[Manifest, bytes]:
    """Read and check the manifest at the start of a file; also its body, unparsed."""
    if _exactly(packed, len(_MAGIC)) != _MAGIC:
        raise BadSnapshot(f"{source} is not an exported snapshot")
    head_length, body_length = _LENGTHS.unpack(_exactly(packed, _LENGTHS.size))
    if head_length > _MAX_HEAD or body_length > _MAX_BODY:
        raise BadSnapshot(f"{source} has a manifest that is too long")
    head, body = _exactly(packed, head_length), _exactly(packed, body_length)
    check_values(body, administrator.permitted(ExecutionPolicy()).max_files)
    return parse_manifest(head, body), body


def _check_size(manifest: Manifest) -> None:
    """Check that the files fit into a session: a few bytes can name a chunk again and again."""
    most = administrator.permitted(ExecutionPolicy())
    size = sum(f.size for f in manifest.files)
    if size > most.workspace_bytes or len(manifest.files) > most.max_files:
        raise BadSnapshot(
            f"it has {len(manifest.files):,} files of {size:,} bytes in all; "
            f"a session has room for {most.max_files:,} files of {most.workspace_bytes:,} bytes"
        )


def _check_image(manifest: Manifest, source: Path) -> None:
    """Refuse what no session here could go on from."""
    try:
        problem = older_images.problem_with(older_images.find(manifest.snapshot.image_key))
    except OlderImage as e:
        problem = str(e)
    if problem:
        raise BadSnapshot(f"{source} cannot be used here: {problem}")


def _store_chunks(
    packed: IO[bytes],
    manifest: Manifest,
    body: bytes,
    take: Transaction,
    source: Path,
    on_progress: OnProgress | None,
) -> None:
    """Store the chunks that follow the manifest: each one it names, once, and nothing else."""
    missing = _chunks_in_file(body)
    count = len(missing)
    in_memory = _lengths_in_memory(manifest)
    while header := packed.read(_PIECE.size):
        name, length = _PIECE.unpack(header + _exactly(packed, _PIECE.size - len(header)))
        if name not in missing or length > _MAX_PIECE:
            raise BadSnapshot(f"{source} holds a chunk that its manifest does not name")
        if in_memory.get(name, length) != length:
            raise BadSnapshot(f"{source} holds a part of memory of {length:,} bytes")
        if take.put(_exactly(packed, length)) != name:
            raise BadSnapshot(f"{source} is damaged: a chunk is not what its name says")
        missing.discard(name)
        if on_progress is not None:
            on_progress(count - len(missing), count)
    if missing:
        raise BadSnapshot(f"{source} is cut short: {len(missing)} chunks are missing")


def _chunks_in_file(body: bytes) -> set[bytes]:
    """The chunks that a file has to contain; zeros are left out."""
    return {name for name in chunks_of(body) if name != ZERO}


def _lengths_in_memory(manifest: Manifest) -> dict[bytes, int]:
    """The length of a chunk of the guest's memory: a whole chunk, or a page."""
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
