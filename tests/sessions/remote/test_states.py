"""States and leases that somebody else has written, who may want to harm whoever reads them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import zstandard
from blake3 import blake3

from wasm_kernel.errors import BadSnapshot, DamagedChunk
from wasm_kernel.host.remote.chunk_packs import RemotePack, packed
from wasm_kernel.host.remote.objects import Objects, open_objects
from wasm_kernel.host.store.packs import hash_of
from wasm_kernel.sessions.remote.lease import acquire, holder
from wasm_kernel.sessions.remote.states import RemoteState, read_state

DEEP = b"[" * 100_000


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(f"file://{tmp_path}/store")


def written(objects: Objects, body: bytes, rest: bytes | None = None) -> str:
    """A state with a checksum that holds."""
    name = "sessions/a/states/000000000001-00000001"
    data = RemoteState(name, b"head", body, b"record", ()).encoded()
    if rest is not None:
        plain = struct.pack("<III", 0, 0, 0) + rest
        data = zstandard.ZstdCompressor().compress(plain)
        data = b"wkstate1" + blake3(data).digest() + data
    objects.write(name, data)
    return name


def test_what_says_itself_that_it_is_too_large_is_not_unpacked(objects: Objects) -> None:
    name = written(objects, bytes(3 << 20))
    assert len(read_state(objects, name).body) == 3 << 20
    assert len(objects.read(name)) < 10_000
    with pytest.raises(BadSnapshot):
        read_state(objects, name, 1 << 20)
    objects.write(name, bytes(2 << 20))
    with pytest.raises(BadSnapshot, match="has more than 1.0 MB"):
        read_state(objects, name, 1 << 20)
    chunk = bytes(5 << 20)
    ((_, data, _),) = packed([(hash_of(chunk), chunk)])
    objects.write("pack", data)
    with pytest.raises(DamagedChunk, match="it holds more than"):
        list(RemotePack(objects, "pack").read({hash_of(chunk)}))


def test_deep_json_and_names_of_no_lease_are_only_wrong(objects: Objects) -> None:
    with pytest.raises(BadSnapshot):
        read_state(objects, written(objects, b"", DEEP))
    for name in ("5", "99999999999999999999", "٣٣٣٣٣٣٣٣٣٣٣٣", "beat"):
        objects.write(f"sessions/a/leases/{name}", b"")
    assert holder(objects, "a") is None
    objects.write("sessions/a/leases/000000000007", DEEP)
    found = holder(objects, "a")
    assert found is not None and (found.token, found.who) == (7, "somebody")
    objects.write("sessions/a/leases/000000000007", json.dumps({"who": "x", "since": "y"}).encode())
    assert acquire(objects, "a", take_over=True).token == 8
