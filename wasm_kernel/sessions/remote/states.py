"""A session's state in an object store: one object that names everything else it takes."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import zstandard
from blake3 import blake3

from wasm_kernel.errors import BadSnapshot
from wasm_kernel.host import administrator
from wasm_kernel.host.remote.chunk_packs import unpacked
from wasm_kernel.host.remote.objects import Objects
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import Manifest, check_values, parse_manifest
from wasm_kernel.model.units import format_size

_MAGIC = b"wkstate1"
_FRONT = struct.Struct("<8s32s")  # magic, checksum of the rest
_LENGTHS = struct.Struct("<III")
_MOST = 256 << 20  # bytes of it, unpacked
_MOST_PACKS = 100_000


@dataclass(frozen=True)
class RemoteState:
    """What a session was when it was pushed.

    Attributes:
        name: Of the object.
        head, body: The manifest of its snapshot.
        record: Its metadata, as its file holds it.
        packs: The objects in which the chunks are.
    """

    name: str
    head: bytes
    body: bytes
    record: bytes
    packs: tuple[str, ...]

    def encoded(self) -> bytes:
        """Its bytes."""
        rest = json.dumps({"packs": self.packs}).encode()
        whole = _LENGTHS.pack(len(self.head), len(self.body), len(self.record))
        data = zstandard.ZstdCompressor(level=3).compress(whole + self.head + self.body + self.record + rest)
        return _FRONT.pack(_MAGIC, blake3(data).digest()) + data

    def manifest(self) -> Manifest:
        """Its snapshot, checked."""
        check_values(self.body, administrator.permitted(ExecutionPolicy()).max_files)
        return parse_manifest(self.head, self.body)


def states(objects: Objects, session_id: str) -> list[str]:
    """The names of a session's states, the newest last."""
    return [name for name in objects.names(f"sessions/{session_id}/states/") if is_state(name)]


def is_state(name: str) -> bool:
    """Whether this is the name of a state."""
    if "/states/" not in name:
        return False
    token, _, number = name.rpartition("/")[2].partition("-")
    return token.isdecimal() and number.isdecimal()


def newest_state(objects: Objects, session_id: str) -> RemoteState | None:
    """The state that the next one goes on from; None: it was never pushed."""
    names = states(objects, session_id)
    while names:
        try:
            return read_state(objects, names[-1])
        except KeyError:  # somebody pushes just now, and deleted it
            names = states(objects, session_id)
    return None


def read_state(objects: Objects, name: str, most: int = _MOST) -> RemoteState:
    """A state, checked against its checksum; `BadSnapshot` if it is not what was written, or larger than ``most``."""
    data = objects.read(name, 0, most + 1)
    where = f"{objects.address}/{name}"
    if len(data) > most:
        raise BadSnapshot(f"{where} has more than {format_size(most)}")
    if len(data) < _FRONT.size or data[: len(_MAGIC)] != _MAGIC:
        raise BadSnapshot(f"{where} is not a session's state")
    packed = data[_FRONT.size :]
    if blake3(packed).digest() != _FRONT.unpack(data[: _FRONT.size])[1]:
        raise BadSnapshot(f"{where} is damaged")
    try:
        whole = unpacked(packed, most)
        ends = [_LENGTHS.size]
        for length in _LENGTHS.unpack_from(whole):
            ends.append(ends[-1] + length)
        parts = [whole[begin:end] for begin, end in zip(ends, [*ends[1:], len(whole)], strict=True)]
        packs = json.loads(parts[3])["packs"]
    except (zstandard.ZstdError, struct.error, ValueError, KeyError, TypeError, RecursionError) as e:
        raise BadSnapshot(f"{where} cannot be read: {type(e).__name__}") from None
    if not isinstance(packs, list) or len(packs) > _MOST_PACKS or not all(map(_is_hash, packs)):
        raise BadSnapshot(f"{where} names packs that are none")
    return RemoteState(name, parts[0], parts[1], parts[2], tuple(packs))


def _is_hash(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and not set(text) - set("0123456789abcdef")
