"""What a snapshot is, and how it is serialised. Data from elsewhere is checked field by field."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from wasm_kernel.errors import BadSnapshot
from wasm_kernel.model.names import is_hidden
from wasm_kernel.model.records import BadRecord, format_time, is_session_id, is_uuid, parse_time

TRIGGERS = ("session_close", "user", "checkpoint")
HASH = 32
MAX_LABEL = 200
MAX_MEMORY = 1 << 32
_MAX_FILES = 1_000_000
_ENTRY = struct.Struct("<IB")
PAGES = 16  # in a chunk
_PAGE_NAMES = struct.Struct(f"{HASH}s" * PAGES)
_CHUNK = 65536
BASE = b"\xff" * HASH  # stands for a page of the base memory, or of zeros beyond its end
_LENGTH = struct.Struct("<I")
MOUNTS = ("app", "tmp")
MAX_PATH = 4096
PIECE = 1 << 20  # bytes of a file in one chunk
_VALUES_OF_A_FILE = 8  # and its list
Variables = dict[str, list[Any]]  # name to [type, size, fingerprint]
_OTHER_VALUES = 1_000_000  # descriptors and variables, whose types may contain commas and brackets
MAX_DESCRIPTORS = 2048  # as many as the interposer supports
_MAX_MOUNT = 32


@dataclass(frozen=True)
class Snapshot:
    """A saved state of a session: the guest's memory, the files, and what else belongs to it.

    Attributes:
        snapshot_id: A UUID.
        session_id: The session it belongs to.
        trigger: ``checkpoint`` (after a cell), ``user`` or ``session_close``.
        created_at: When it was taken, by the clock of the machine that took it: for people. It decides no order.
        label: The name a person gave it.
        parent: The snapshot before it, or empty.
        execution_count: The number of the next cell.
        image_key: The image whose base memory it builds on; it cannot be restored with another one.
        memory_bytes: Size of the guest's memory.
        file_count: Number of files in /app.
        file_bytes: Their total size.
        stored_bytes: What it added to the store.
        metadata: Anything else: the cell that ran, how long it took, what it changed.
        saved_by: The version of wasm-kernel that took it; empty: from before that was noted.
        sequence: Its place in the order of all snapshots of a store; 0: from before they were numbered.
    """

    snapshot_id: str
    session_id: str
    trigger: str
    created_at: datetime
    label: str = ""
    parent: str = ""
    execution_count: int = 1
    image_key: str = ""
    memory_bytes: int = 0
    file_count: int = 0
    file_bytes: int = 0
    stored_bytes: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    saved_by: str = ""
    sequence: int = 0

    @property
    def order(self) -> tuple[int, datetime]:
        """What snapshots are sorted by, the oldest first. Clocks step back, and differ from machine to machine."""
        return self.sequence, self.created_at

    def to_json(self) -> bytes:
        """The head of its manifest."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({**found, "created_at": format_time(self.created_at), "version": 1}).encode()

    def moved(self, **changes: Any) -> Snapshot:
        """The same with some fields changed."""
        return replace(self, **changes)


def moment_of(snapshot: Snapshot, known: Mapping[str, Snapshot]) -> Snapshot:
    """The moment that a person would call a snapshot by: itself, or the cell whose state it stores again.

    After an undo, when a kernel ends or when it gives memory back, a state is stored that a cell has led to already.
    """
    here: Snapshot | None = snapshot
    while here is not None and not here.label and "number" not in here.metadata:
        if here.trigger not in ("checkpoint", "session_close"):
            break
        here = known.get(str(here.metadata.get("restored") or here.parent))
    return here if here is not None else snapshot


@dataclass(frozen=True)
class SavedFile:
    """A file, folder or link of the workspace. ``kind``: file, folder or link; ``path``: raw file-system bytes."""

    mount: str
    path: bytes
    kind: str
    size: int = 0
    modified_ns: int = 0
    target: bytes = b""
    chunks: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class SavedDescriptor:
    """An open file of the guest: what it takes to reopen it under the same descriptor."""

    fd: int
    mount: int
    path: bytes
    lookup: int
    oflags: int
    fdflags: int
    rights: int
    offset: int


@dataclass(frozen=True)
class Manifest:
    """All of a snapshot except its chunks.

    Attributes:
        snapshot: The part that is listed.
        table: Chunk number to the chunk's name, or to the names of its pages; chunks not listed are as in the base.
        descriptors: Open files.
        clock_ns: The guest's monotonic clock.
        entry: Where to enter the guest's driver; 0: it has not run yet, and starts from the base memory.
        files: /app and /tmp.
        variables: Name to [type, size, fingerprint].
        log: The log of cells (its id) whose records are in this snapshot, and how many of them are.
    """

    snapshot: Snapshot
    table: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    descriptors: tuple[SavedDescriptor, ...] = ()
    clock_ns: int = 0
    entry: int = 0
    files: tuple[SavedFile, ...] = ()
    variables: Variables = field(default_factory=dict)
    log: tuple[str, int] = ("", 0)

    def body(self) -> bytes:
        """The rest of a manifest's bytes."""
        text = json.dumps(
            {
                "clock_ns": self.clock_ns,
                "entry": self.entry,
                "descriptors": [descriptor_values(d) for d in self.descriptors],
                "files": [
                    [f.mount, f.path.hex(), f.kind, f.size, f.modified_ns, f.target.hex(), b"".join(f.chunks).hex()]
                    for f in self.files
                ],
                "variables": self.variables,
                "log": list(self.log),
            }
        ).encode()
        table = b"".join(
            _ENTRY.pack(number, len(names)) + b"".join(names) for number, names in sorted(self.table.items())
        )
        return b"".join([_LENGTH.pack(len(text)), text, table])


def chunks_of(body: bytes) -> Iterator[bytes]:
    """The names of all chunks that a manifest refers to."""
    manifest = _parse_body(body)
    for names in manifest["table"].values():
        yield from (name for name in names if name != BASE)
    for entry in manifest["files"]:
        yield from entry.chunks


def parse_snapshot(head: bytes) -> Snapshot:
    """Parse and check a manifest's head."""
    found = _object(head, "its head")
    metadata = found.get("metadata")
    try:
        snapshot = Snapshot(
            snapshot_id=_text(found, "snapshot_id"),
            session_id=_text(found, "session_id"),
            trigger=_text(found, "trigger"),
            created_at=parse_time(found.get("created_at")),
            label=_text(found, "label"),
            parent=_text(found, "parent"),
            execution_count=_number(found, "execution_count", 1 << 53),
            image_key=_text(found, "image_key"),
            memory_bytes=_number(found, "memory_bytes", MAX_MEMORY),
            file_count=_number(found, "file_count", _MAX_FILES),
            file_bytes=_number(found, "file_bytes", 1 << 60),
            stored_bytes=_number(found, "stored_bytes", 1 << 60),
            metadata=dict(metadata) if isinstance(metadata, dict) else {},
            saved_by=_text({"saved_by": "", **found}, "saved_by"),
            sequence=_number({"sequence": 0, **found}, "sequence", 1 << 60),
        )
    except BadRecord as e:
        raise BadSnapshot(f"created_at: {e}") from None
    if not is_uuid(snapshot.snapshot_id) or not is_session_id(snapshot.session_id):
        raise BadSnapshot("its ids are not valid")
    if snapshot.trigger not in TRIGGERS or (snapshot.parent and not is_uuid(snapshot.parent)):
        raise BadSnapshot("its trigger or its parent is not valid")
    return snapshot


def check_values(body: bytes, max_files: int) -> None:
    """Refuse a body with more values than ``max_files`` files need, before parsing it, which takes much more memory."""
    (length,) = _LENGTH.unpack_from(body.ljust(_LENGTH.size, b"\0"))
    text = body[_LENGTH.size : _LENGTH.size + length]
    if sum(map(text.count, (b"[", b"{", b",", b":"))) > _VALUES_OF_A_FILE * max_files + _OTHER_VALUES:
        raise BadSnapshot(f"it lists more than {max_files:,} files")


def parse_manifest(head: bytes, body: bytes) -> Manifest:
    """Parse and check a whole manifest."""
    snapshot = parse_snapshot(head)
    found = _parse_body(body)
    if snapshot.memory_bytes % _CHUNK or any(number >= snapshot.memory_bytes // _CHUNK for number in found["table"]):
        raise BadSnapshot("its memory size does not match its chunks")
    return Manifest(snapshot, **found)


def _parse_body(body: bytes) -> dict[str, Any]:
    if len(body) < _LENGTH.size:
        raise BadSnapshot("its manifest is cut short")
    (length,) = _LENGTH.unpack_from(body)
    table = body[_LENGTH.size + length :]
    if _LENGTH.size + length > len(body):
        raise BadSnapshot("its manifest is cut short")
    found = _object(body[_LENGTH.size : _LENGTH.size + length], "its manifest")
    descriptors, files = found.get("descriptors"), found.get("files")
    if not isinstance(descriptors, list) or not isinstance(files, list) or len(files) > 2 * _MAX_FILES:
        raise BadSnapshot("its lists of files are not valid")
    variables = found.get("variables")
    return {
        "table": _table(table),
        "descriptors": tuple(parse_descriptor(d) for d in descriptors[:MAX_DESCRIPTORS]),
        "clock_ns": _number(found, "clock_ns", 1 << 62),
        "entry": _number(found, "entry", MAX_MEMORY),
        "files": tuple(_file(f) for f in files),
        "variables": checked_variables(variables),
        "log": _log(found.get("log")),
    }


def _table(data: bytes) -> dict[int, tuple[bytes, ...]]:
    found, at = {}, 0
    while at < len(data):
        if at + _ENTRY.size > len(data):
            raise BadSnapshot("its table of chunks is cut short")
        number, count = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        end = at + count * HASH
        if count not in (1, PAGES) or end > len(data):
            raise BadSnapshot("its table of chunks is cut short")
        if number >= MAX_MEMORY // _CHUNK:
            raise BadSnapshot("its memory size does not match its chunks")
        found[number] = _PAGE_NAMES.unpack_from(data, at) if count == PAGES else (data[at:end],)
        at = end
    return found


def checked_variables(found: Any) -> Variables:
    """The guest's description of its variables, without malformed entries."""
    if not isinstance(found, dict):
        return {}
    return {
        name[:200]: [str(value[0])[:80], value[1], str(value[2])[:200]]
        for name, value in list(found.items())[:1000]
        if isinstance(name, str) and isinstance(value, list) and len(value) == 3 and type(value[1]) is int
    }


def _log(found: Any) -> tuple[str, int]:
    """Snapshots from elsewhere, and older ones, have none."""
    if isinstance(found, list) and len(found) == 2 and isinstance(found[0], str) and type(found[1]) is int:
        return found[0][:64], found[1]
    return "", 0


def descriptor_values(d: SavedDescriptor) -> list[Any]:
    """An open file, for JSON."""
    return [d.fd, d.mount, d.path.hex(), d.lookup, d.oflags, d.fdflags, d.rights, d.offset]


def parse_descriptor(found: Any) -> SavedDescriptor:
    """An open file from JSON, checked."""
    if not isinstance(found, list) or len(found) != 8 or not isinstance(found[2], str):
        raise BadSnapshot("one of its open files is not valid")
    numbers = [*found[:2], *found[3:]]
    limits = (MAX_DESCRIPTORS, _MAX_MOUNT, 2, 16, 32, 1 << 63, 1 << 63)
    if any(type(n) is not int or not 0 <= n < most for n, most in zip(numbers, limits, strict=True)):
        raise BadSnapshot("one of its open files is not valid")
    if found[0] < 3 or found[1] < 3:
        raise BadSnapshot("one of its open files is not valid")
    return SavedDescriptor(found[0], found[1], _opened_path(found[2]), *found[3:])


def _file(found: Any) -> SavedFile:
    if not isinstance(found, list) or len(found) != 7 or not all(isinstance(found[n], str) for n in (0, 1, 2, 5, 6)):
        raise BadSnapshot("one of its files is not valid")
    mount, path, kind, size, modified, target, chunks = found
    if mount not in MOUNTS or kind not in ("file", "folder", "link"):
        raise BadSnapshot("one of its files is of an unknown kind")
    if type(size) is not int or type(modified) is not int or not 0 <= size < 1 << 60 or abs(modified) >= 1 << 63:
        raise BadSnapshot("one of its files has an invalid size or time")
    names = _hex(chunks)
    if len(names) % HASH:
        raise BadSnapshot("one of its files has an incomplete chunk name")
    pieces = tuple(names[n : n + HASH] for n in range(0, len(names), HASH))
    if len(pieces) != (-(-size // PIECE) if kind == "file" else 0):
        raise BadSnapshot("the size of one of its files does not match its chunks")
    return SavedFile(mount, _path(path), kind, size, modified, _hex(target), pieces)


def _path(text: str) -> bytes:
    """A relative path that neither leaves its mount nor names anything hidden."""
    path = _hex(text)
    if len(path) > MAX_PATH or any(p in (b"", b".", b"..") or _is_refused(p) for p in path.split(b"/")):
        raise BadSnapshot(f"it contains the path {path[:80]!r}, which is not allowed in a snapshot")
    return path


def _opened_path(text: str) -> bytes:
    """The same as the guest wrote it: ``..`` is allowed, but not above the starting point."""
    path = _hex(text)
    depth = 0
    for part in path.split(b"/"):
        depth += -1 if part == b".." else part not in (b"", b".")
        if depth < 0 or _is_refused(part):
            break
    else:
        if path and not path.startswith(b"/") and len(path) <= 2 * MAX_PATH:
            return path
    raise BadSnapshot(f"it opens the path {path[:80]!r}, which is not allowed in a snapshot")


def _is_refused(part: bytes) -> bool:
    return b"\0" in part or len(part) > 255 or is_hidden(part.decode("utf-8", "surrogateescape"))


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadSnapshot("it holds text that is not hexadecimal") from None


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadSnapshot(f"{what} is not JSON") from None
    if not isinstance(found, dict):
        raise BadSnapshot(f"{what} is not an object")
    return found


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or len(value) > 400:
        raise BadSnapshot(f"its {name} is {str(value)[:40]!r}")
    return value


def _number(found: dict[str, Any], name: str, limit: int) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value <= limit:
        raise BadSnapshot(f"its {name} is {str(value)[:40]!r}")
    return value
